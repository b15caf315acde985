"""Corrections that name what they correct and nothing else: "her name is Alexis, not Alexa"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.english.assertion_filter import find_statements
from limpet.knowledge.english.clause import NAME
from limpet.knowledge.english.statement import format_statement
from limpet.knowledge.similarity import fold_text
from limpet.model.message import Role
from limpet.model.record import Record

# Of these one value is right, so that a wrong one can only be the same thing said wrongly.
_CORRECTED = frozenset("name nickname home employer age origin birthday school".split())
_VALUE = rf"(?:{NAME}|\d{{1,3}})"
_NOT = re.compile(
    rf"(?:(?i:\b(?:is|it's|it’s|was|meant|mean|called|named|spelled))|(?<=\w)['’]s) (?P<new>{_VALUE}),? (?i:and )?"
    rf"not (?P<old>{_VALUE})(?=$|[\s,.!;])"
)


class Correction(NamedTuple):
    said: TurnMessage
    sentence: str
    new: str
    old: str


def find_corrections(turn: Sequence[TurnMessage], found: Iterable[Candidate]) -> Iterator[Correction]:
    """Those of the user that no rule could place, as nobody says whom they are about."""
    placed = {candidate.sentence for candidate in found}
    for said in turn:
        if said.role is Role.USER:
            for sentence, _ in find_statements(said.text):
                match = _NOT.search(sentence.text)
                if match and sentence.text not in placed:
                    yield Correction(said, sentence.text, match["new"], match["old"])


def apply_correction(correction: Correction, records: Iterable[Record]) -> Candidate | None:
    """What it says of the one thing that was known under the wrong value; nothing where there are two such."""
    wrong = [
        record
        for record in records
        if record.attribute in _CORRECTED
        and record.polarity
        and fold_text(record.value or "") == fold_text(correction.old)
    ]
    if len({(record.subject, record.attribute) for record in wrong}) != 1:
        return None
    (record, *_) = wrong
    return Candidate(
        type=record.type,
        layer=record.layer,
        content=format_statement(record.subject or "user", record.attribute or "", correction.new),
        sentence=correction.sentence,
        sequence=correction.said.sequence,
        subject=record.subject or "user",
        said_at=correction.said.created_at,
        speaker=correction.said.speaker,
        attribute=record.attribute,
        value=correction.new,
        confidence=0.8,
        salience=record.salience,
        tags=record.tags,
    )
