"""Where the same is still said after records were forgotten: by searching, in summaries, in notes, beside sessions.

By id, key or query it is the same: what the records stated, and their values. Words that name no record are looked for
themselves. A text *says* it if it has the statement or all words of its value: that goes when it is to go everywhere. A
text *mentions* it if it has one of the words that set the statement apart, or answers it with one of its words: that is
named too, because a list that is too long does less harm than a false all-clear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from limpet.errors import StorageError
from limpet.knowledge import remember
from limpet.model.chunk import ChunkQuery, Source, SourceKind
from limpet.model.message import Message, Role
from limpet.model.record import Origin, Record
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import KvEntry
from limpet.notes.user_notes import MEMORY_FILE, NoteFiles, day_path, list_days, redact_lines
from limpet.search.analysis import analyse, extract_terms, split_sentences
from limpet.search.search import search
from limpet.sessions.repository import KeyValueEntries, Messages, Summaries
from limpet.store.tx import Tx

if TYPE_CHECKING:
    from limpet.knowledge.forget import ForgetPlan, Forgetter

FORGOTTEN_MARK = "[forgotten]"
_MAX_HITS = 200  # hits among which it is looked for
_MAX_REPLIES = 20  # messages after the user's that may answer it
_FEW_WORDS = 2  # of a statement each of them sets it apart
_LONG_NUMBER = re.compile(r"\d{4,}")  # says enough alone: a PIN, a salary, a telephone number
_EPISODES = (Origin.TURN, Origin.CONDENSED)  # they quote messages, and state nothing themselves
_Matcher = Callable[[str], bool]


class Place(NamedTuple):
    """Where it is still said, in words; and for a message or a summary, whose it is."""

    name: str
    tenant: str = ""
    user: str = ""
    session: str = ""
    first: int = 0
    last: int = 0
    answers: bool = False  # a reply to what said it

    def read_messages(self, tx: Tx) -> list[Message]:
        if not self.first:
            return []
        scope = Scope(self.tenant, user=self.user, session=self.session)
        return Messages(tx).range(scope, self.first - 1, self.last + 1, None)


class NoteFile(NamedTuple):
    """A file of a user: how to call it, where it is, its longest size, and the words that were taken out of it."""

    name: str
    root: Path
    path: Path
    max_bytes: int
    gone: Sequence[str] = ()


class _Search(NamedTuple):
    """What to look for. ``words``: those that may give it away in other words, without statements about others."""

    partition: Partition
    text: str
    tells: _Matcher
    words: Sequence[str] = ()
    apart: Sequence[str] = ()


class RemainingFinder:
    """Looks for what the records of a plan said."""

    def __init__(self, forgetter: Forgetter, owner: Scope, going: ForgetPlan, query: str | None) -> None:
        self._forgetter, self._owner, self._going = forgetter, owner, going
        stated = [record for record in going.records if record.origin not in _EPISODES]
        others = {text for record in going.others for text in (record.content, record.source.sentence) if text}
        self._searches = list(_iter_searches(stated, sorted(map(_fold_text, others), key=len, reverse=True)))
        self._distinctive: dict[_Search, frozenset[int]] = {}  # terms by search, known after find_stored
        if not stated and query is not None:
            spaces = {record.home.space for record in going.records}
            if owner.user is not None:
                spaces.add(Partition(owner.tenant, Level.USER, owner.user))
            tells = partial(_has_all_terms, frozenset(extract_terms(query)), ())
            self._searches += [_Search(space, query, tells) for space in sorted(spaces, key=str)]

    @cached_property
    def _users(self) -> list[Partition]:
        return sorted({each.partition for each in self._searches if each.partition.level is Level.USER}, key=str)

    def tells(self, text: str) -> bool:
        """Return whether a text says it."""
        folded = _fold_text(text)
        return any(each.tells(folded) for each in self._searches)

    def mentions(self, text: str) -> bool:
        """Return whether a text says it, or has a word that sets it apart."""
        folded = _fold_text(text)
        return any(each.tells(folded) or self._mentions(each, folded) for each in self._searches)

    def _mentions(self, each: _Search, folded: str) -> bool:
        terms = self._distinctive.get(each, frozenset())
        return bool(terms) and _has_any_term(terms, each.apart, folded)

    def select_sentences(self, text: str, *, answers: bool = False) -> set[str]:
        """The sentences that say it; of a message that answers it, also those that have one of its words."""
        return {
            sentence.text
            for sentence in split_sentences(text)
            if self.tells(sentence.text) or (answers and self._answers(sentence.text))
        }

    def find_stored(self, tx: Tx) -> list[Place]:
        """In the store: messages, records and documents that search finds, replies to it, then summaries."""
        found = []
        for each in self._searches:
            wanted = self._forgetter.build_word_search(each.text[:2000], _MAX_HITS, ChunkQuery())
            hits = [(hit, _fold_text(hit.text)) for hit in search(tx, each.partition, wanted)]
            self._distinctive[each] = _choose_distinctive(each.words, [text for _, text in hits])
            hits = [(hit, text) for hit, text in hits if each.tells(text) or self._mentions(each, text)]
            found += [_to_place(each.partition, hit.source) for hit, _ in hits]
        return [*dict.fromkeys([*found, *self.find_replies(tx)]), *self.find_summaries(tx)]

    def find_replies(self, tx: Tx) -> list[Place]:
        """Replies to the messages that said it, which have one of its words: "34 is a good age"."""
        found = []
        for (user, session), said in self._going.trail.said.items():
            scope = Scope(self._owner.tenant, user=user, session=session)
            for sequence in said:
                for message in Messages(tx).range(scope, sequence, None, _MAX_REPLIES):
                    if message.role is Role.USER:
                        break
                    if self._answers(message.text):
                        name = f"message {message.sequence} of session {session}"
                        at = message.sequence
                        found.append(Place(name, scope.tenant, user, session, at, at, answers=True))
        return found

    def _answers(self, text: str) -> bool:
        folded = _fold_text(text)
        return any(
            _has_any_term(frozenset(term for word in each.words for term in extract_terms(word)), each.apart, folded)
            for each in self._searches
        )

    def find_summaries(self, tx: Tx) -> list[Place]:
        found = []
        for partition in self._users:
            owner = Scope(partition.tenant, user=partition.owner)
            for session in Summaries(tx).list_sessions(owner):
                summary = Summaries(tx).get(Scope(partition.tenant, user=partition.owner, session=session))
                if summary is not None and self.mentions(summary.text):
                    name = f"the summary of session {session}"
                    found.append(Place(name, partition.tenant, partition.owner, session))
        return found

    def find_written(self, left: list[str], *, without_notes: bool = False) -> list[str]:
        """What search does not find: MEMORY.md, what an agent keeps with the sessions, and the daily notes."""
        found = []
        written = [*self._iter_kv_entries()] if without_notes else [*self._iter_texts(left)]
        for place, text in written:
            if any(self.mentions(line) for line in text.splitlines()):
                found.append(place)
        return found

    def list_files(self) -> Iterator[NoteFile]:
        """The user's MEMORY.md and daily notes."""
        limits = self._forgetter.config.notes
        for partition, notes in self._iter_notes():
            if (path := notes.folder / MEMORY_FILE).exists():
                yield NoteFile(MEMORY_FILE, notes.root, path, limits.max_memory_bytes)
            said = self._sort_sentences(partition)
            for day in list_days(notes.folder):
                path = day_path(notes.folder, day)
                yield NoteFile(f"the notes of {day}", notes.root, path, limits.max_day_bytes, said)

    def clean_text(self, file: NoteFile, text: str) -> tuple[str, set[int]]:
        """The text of a file without what says it, and which of its lines changed."""
        text = redact_lines(text, file.gone, FORGOTTEN_MARK)[0]
        before = text.splitlines(keepends=True)
        after = [self._clean_line(file, line) if self.tells(line) else line for line in before]
        return "".join(after), {at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]}

    def _clean_line(self, file: NoteFile, line: str) -> str:
        """Nothing of a line of MEMORY.md; a turn's line keeps its other sentences."""
        if file.name == MEMORY_FILE:
            return ""
        for sentence in self.select_sentences(line):
            line = line.replace(sentence, FORGOTTEN_MARK)
        return f"{FORGOTTEN_MARK}\n" if self.tells(line) else line

    def _sort_sentences(self, partition: Partition) -> list[str]:
        return sorted(self._going.trail.sentences(partition.owner), key=len, reverse=True)

    def _iter_notes(self) -> Iterator[tuple[Partition, NoteFiles]]:
        if self._forgetter.notes.folder is not None:
            yield from ((partition, self._forgetter.notes.open(partition)) for partition in self._users)

    def _iter_texts(self, left: list[str]) -> Iterator[tuple[str, str]]:
        for _, notes in self._iter_notes():
            try:
                yield MEMORY_FILE, notes.long_term().read()
            except StorageError:
                left.append(f"{MEMORY_FILE}, which cannot be read")
        yield from self._iter_kv_entries()
        for partition, notes in self._iter_notes():
            said = self._sort_sentences(partition)
            for day in list_days(notes.folder):
                try:
                    yield f"the notes of {day}", redact_lines(notes.read_notes(day), said, FORGOTTEN_MARK)[0]
                except StorageError:
                    left.append(f"the notes of {day}, which cannot be read")

    def _iter_kv_entries(self) -> Iterator[tuple[str, str]]:
        forgetter = self._forgetter
        for user, session in self._going.trail.said:
            scope = Scope(self._owner.tenant, user=user, session=session)
            cap = forgetter.config.session.kv_cap
            for entry in forgetter.store.read(partial(_read_entries, scope=scope, cap=cap)):
                yield f"{entry.key} of session {session}", str(entry.value)


def _read_entries(tx: Tx, scope: Scope, cap: int) -> list[KvEntry]:
    return KeyValueEntries(tx).items(scope, cap)


def _iter_searches(records: Iterable[Record], others: Sequence[str]) -> Iterator[_Search]:
    """What each record states, and its value: an agent may use its own words. A number alone says nothing.

    ``others``: statements about other subjects, in which the value does not count.
    """
    for record in records:
        for text in sorted({record.content, record.source.sentence or record.content}):
            yield _Search(record.home.space, text, partial(_contains_text, _fold_text(text)))
        said = _specific_text(record)
        words = [word for word in re.findall(r"\w+", said) if extract_terms(word)]
        terms = frozenset(extract_terms(said))
        if not words:
            continue
        apart = tuple(each for each in others if _has_any_term(terms, (), each))
        if re.search(r"[^\W\d_]{3}", said) or _LONG_NUMBER.search(said):
            tells: _Matcher = partial(_has_all_terms, terms, apart)
            yield _Search(record.home.space, said, tells, tuple(words), apart)
        else:  # everybody may say a short number; only the reply to it is about it
            yield _Search(record.home.space, said, _never, tuple(words), apart)


def _specific_text(record: Record) -> str:
    """The value; without one the statement, without the engine's words for whom it is about."""
    return record.value or remember.strip_subject(record.content)


def _choose_distinctive(words: Sequence[str], texts: Sequence[str]) -> frozenset[int]:
    """The terms of a few words, or of the rarer half of more: of equally rare ones, numbers and names come first."""
    if not any(re.search(r"[^\W\d_]{3}", word) or _LONG_NUMBER.search(word) for word in words):
        return frozenset()
    counts = [analyse(text).counts.keys() for text in texts]

    def rarity(word: str) -> tuple[int, bool, bool, int]:
        terms = set(extract_terms(word))
        return sum(terms <= found for found in counts), not word.isdecimal(), word.islower(), -len(word)

    ranked = sorted(dict.fromkeys(words), key=rarity)
    return frozenset(term for word in ranked[: max(_FEW_WORDS, len(ranked) // 2)] for term in extract_terms(word))


def _never(_text: str) -> bool:
    return False


def _has_any_term(words: frozenset[int], apart: Iterable[str], text: str) -> bool:
    for statement in apart:
        text = text.replace(statement, " ")
    return not words.isdisjoint(analyse(text).counts.keys())


def _has_all_terms(words: frozenset[int], apart: Iterable[str], text: str) -> bool:
    for statement in apart:
        text = text.replace(statement, " ")
    return words <= analyse(text).counts.keys()


def _contains_text(words: str, text: str) -> bool:
    return words in text


def _fold_text(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!? ")


def _to_place(partition: Partition, source: Source) -> Place:
    if source.kind is SourceKind.MESSAGE:
        first, last = source.first_sequence or 0, source.last_sequence or 0
        name = f"message {first} of session {source.session_id}"
        return Place(name, partition.tenant, partition.owner, source.session_id or "", first, max(first, last))
    return Place(f"document {source.uri}" if source.kind is SourceKind.DOCUMENT else f"record {source.id}")
