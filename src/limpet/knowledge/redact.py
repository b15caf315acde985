"""Messages and summaries of a session without some sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from limpet.config import Config
from limpet.knowledge import english, remember
from limpet.knowledge.remaining import FORGOTTEN_MARK
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import GRAPH
from limpet.model.message import Message, Part, TextPart
from limpet.model.scope import Scope
from limpet.model.session import Summary
from limpet.model.tokens import TokenCounter, estimate_tokens
from limpet.model.values import Clock, split_pages
from limpet.search.analysis import split_sentences
from limpet.search.graph_repository import GraphTables
from limpet.security.mask import Secrets, mark_as_word
from limpet.sessions.messages import index_again
from limpet.sessions.repository import Cursors, Messages, Sessions, Summaries
from limpet.sessions.summary import build_quoted_summary, localize_message, mask_message, replace_summary
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

PAGE = 50  # records or messages that one transaction changes

T = TypeVar("T")


class Transactions(Protocol):
    """Where the steps of a removal run: each in a transaction of its own, or all in one."""

    def read(self, work: Callable[[Tx], T]) -> T: ...
    def write(self, work: Callable[[Tx], T]) -> T: ...


class OneTransaction:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def read(self, work: Callable[[Tx], T]) -> T:
        return work(self._tx)

    def write(self, work: Callable[[Tx], T]) -> T:
        return work(self._tx)


@dataclass(frozen=True, slots=True)
class SessionRedactor:
    """One session, without some sentences."""

    store: Transactions
    scope: Scope
    config: Config
    mask: Callable[[str], str]
    count: TokenCounter
    clock: Clock

    def redact_messages(self, said: Mapping[int, set[str]]) -> int:
        """How many were changed. A session that was deleted says nothing any more."""
        if not self.store.read(partial(self._find_changes, said=said)):
            return 0
        self.rebuild_summary(said)  # first: a process that is killed behind it leaves messages that lead here again
        return sum(
            self.store.write(partial(self._redact_page, page=page)) for page in split_pages(sorted(said.items()), PAGE)
        )

    def _find_changes(self, tx: Tx, *, said: Mapping[int, set[str]]) -> bool:
        return any(self._redact(tx, sequence, gone) for sequence, gone in sorted(said.items()))

    def _redact(self, tx: Tx, sequence: int, gone: set[str]) -> list[Message]:
        """The message as it should be, if that is not how it is."""
        found = Messages(tx).range(self.scope, sequence - 1, sequence + 1, None)
        redacted = (redact_message(message, gone, self.mask) for message in found)
        return [after for before, after in zip(found, redacted, strict=True) if before != after]

    def _redact_page(self, tx: Tx, *, page: Sequence[tuple[int, set[str]]]) -> int:
        """What was made of the messages is made again: their chunks now, the graph by its job."""
        if Sessions(tx).get(self.scope) is None:
            return 0
        Sessions(tx).lock(self.scope)
        changed = [message for sequence, gone in page for message in self._redact(tx, sequence, gone)]
        if not changed:
            return 0
        config, now, scope = self.config, self.clock(), self.scope
        for message in changed:
            Messages(tx).replace(scope, message)
        sequences = [message.sequence for message in changed]
        index_again(tx, scope, sequences, config.chunks, now)
        assert scope.session is not None
        GraphTables(tx).drop_messages(scope.partition, scope.session, sequences)
        Cursors(tx).set(scope, GRAPH, min(Cursors(tx).get(scope, GRAPH), sequences[0] - 1))
        if config.graph.enabled:
            Jobs(tx).enqueue(scope.partition, GRAPH, scope.session, now)
        return len(changed)

    def rebuild_summary(self, said: Mapping[int, set[str]]) -> None:
        """Write the summary from the messages without those sentences, unless another writer was faster."""
        while (made := self.store.read(partial(self._build_summary, said=said))) is not None:
            if self.store.write(partial(replace_summary, scope=self.scope, summary=made)):
                return

    def _build_summary(self, tx: Tx, *, said: Mapping[int, set[str]]) -> Summary | None:
        old, mask = Summaries(tx).get(self.scope), self.mask
        if old is None:
            return None
        now, most = self.clock(), self.config.compact.summary_tokens
        history = Messages(tx).range(self.scope, None, old.upper_sequence + 1, None)
        cleaned = [
            redact_message(each, said[each.sequence], mask) if each.sequence in said else each for each in history
        ]
        zone = self.config.notes.find_zone(self.scope.user)
        masked = [localize_message(mask_message(message, mask), zone) for message in cleaned]
        found = remember.find_learned_sentences(tx, self.scope, now)
        learned = [each for each in found if each.text not in said.get(each.sequence, ())]
        return build_quoted_summary(tx, self.scope, masked, most, self.count, learned, now)


def redact_message(message: Message, gone: set[str], mask: Callable[[str], str]) -> Message:
    """The message with a mark in the place of these words, also where a secret in them was masked."""

    def redact(text: str) -> str:
        spans = {
            (start, end) for start, end in _find_spans(text) if text[start:end] in gone or mask(text[start:end]) in gone
        }
        if (masked := mask(text)) != text:
            spans |= _find_masked_spans(masked, gone, Secrets.find(text))
        covered = len(text)
        for start, end in sorted(spans, reverse=True):
            if end <= covered:
                text = f"{text[:start]}{FORGOTTEN_MARK}{text[end:]}"
                covered = start
        return text

    def redact_part(part: Part) -> Part:
        return replace(part, text=redact(part.text)) if isinstance(part, TextPart) else part

    content = message.content
    if isinstance(content, str):
        changed = replace(message, content=redact(content))
    else:
        changed = replace(message, content=tuple(map(redact_part, content)))
    if changed == message:
        return message
    return replace(changed, tokens=estimate_tokens(changed.searchable))


def find_masked(message: Message, gone: set[str], mask: Callable[[str], str]) -> set[str]:
    """The secrets in these words: what was learned from them does not show them."""
    text = message.text
    if (masked := mask(text)) == text:
        return set()
    secrets = Secrets.find(text)
    parts = _find_masked_spans(masked, gone, secrets)
    return {text[each.start : each.end] for each in secrets.spans for start, end in parts if start <= each.start < end}


def _find_masked_spans(masked: str, gone: set[str], secrets: Secrets) -> set[tuple[int, int]]:
    """Where words that were learned from stand in the text, found in the text without its secrets."""
    read = _find_spans(mark_as_word(masked))
    return {secrets.unmask(start, end) for start, end in read if masked[start:end] in gone}


def _find_spans(text: str) -> set[tuple[int, int]]:
    """Where something stands that may have been learned from: a sentence, or a part of one."""
    # Of a sentence that goes on as a question only the statement before it was learned from.
    stated = [sentence for sentence, _ in english.find_statements(text, unheard_too=True)]
    whole = {(sentence.start, sentence.start + len(sentence.text)) for sentence in (*stated, *split_sentences(text))}
    return whole | {(part.start, part.end) for part in english.find_own_statements(text, unheard_too=True)}
