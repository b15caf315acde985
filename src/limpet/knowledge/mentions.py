"""Where a message repeats what a record says: forgetting the record removes those words too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.read import extract_candidates
from limpet.knowledge.similarity import compute_signature, is_near_duplicate, is_same_value
from limpet.model.dataclass import replace
from limpet.model.message import Message, Role
from limpet.model.record import Record
from limpet.search.analysis import split_sentences

_LEAST = 2  # words that carry meaning: less stands in many texts by chance
# What an assistant says to the user, as the user would say it.
_SECOND_TO_FIRST_PERSON = tuple(
    (re.compile(rf"\b{yours}\b", re.IGNORECASE), mine)
    for yours, mine in (
        ("you(?:'re|’re| are)", "I am"),
        ("you(?:'ve|’ve| have)", "I have"),
        ("you were", "I was"),
        ("yours", "mine"),
        ("your", "my"),
        ("you", "I"),
    )
)


def find_mentions(message: Message, records: Sequence[Record], at: datetime) -> set[str]:
    """The words of the message that say what one of the records says, each as it stands there."""
    if message.role not in {Role.USER, Role.ASSISTANT}:
        return set()
    said = TurnMessage.from_message(replace(message, metadata={}), at)  # what it repeats of its prompt says it as well
    to_user = message.role is Role.ASSISTANT and message.name is None
    candidates = [] if to_user else extract_candidates([said], unheard_too=True)
    found = set(_match_reply(said, records) if to_user else _match_candidates(candidates, records))
    taught = _group_by_sentence(candidates)
    for sentence in split_sentences(said.text):
        if any(_is_similar(sentence.text, taught.get(sentence.text, ()), record) for record in records):
            found.add(sentence.text)
    return found


def _match_candidates(candidates: Sequence[Candidate], records: Sequence[Record]) -> Iterator[str]:
    for candidate in candidates:
        if any(_is_same_fact(candidate, record) for record in records):
            yield candidate.sentence


def _match_reply(said: TurnMessage, records: Sequence[Record]) -> Iterator[str]:
    for sentence in split_sentences(said.text):
        turned = sentence.text
        for yours, mine in _SECOND_TO_FIRST_PERSON:
            turned = yours.sub(mine, turned)
        as_user = replace(said, role=Role.USER, text=turned, tool_calls=())
        if turned != sentence.text and any(_match_candidates(extract_candidates([as_user]), records)):
            yield sentence.text


def _group_by_sentence(candidates: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        found.setdefault(candidate.sentence, []).append(candidate)
    return found


def _is_same_fact(candidate: Candidate, record: Record) -> bool:
    """Also where it is denied: "no longer lives in Porto" still names Porto."""
    return (
        candidate.attribute is not None
        and (candidate.subject, candidate.attribute) == (record.subject, record.attribute)
        and is_same_value(candidate.value, record.value)
    )


def _is_similar(sentence: str, taught: Sequence[Candidate], record: Record) -> bool:
    """In nearly the same words, and about the same person."""
    if any(candidate.attribute == record.attribute and not _is_same_fact(candidate, record) for candidate in taught):
        return False
    texts = {record.content, record.source.sentence or record.content}
    return any(
        min(len(compute_signature(text).stems), len(compute_signature(sentence).stems)) >= _LEAST
        and is_near_duplicate(sentence, text)
        for text in texts
    )
