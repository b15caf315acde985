"""Write a fact as a short sentence, and decide what a statement retracts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from limpet.knowledge.attributes import get_attribute
from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.english import get_pattern
from limpet.knowledge.english.assertions import is_opt_out, mask_quotations
from limpet.knowledge.similarity import compute_signature, fold_text, is_same_value, stem, tokenize
from limpet.model.message import Role
from limpet.model.record import Record, RecordType
from limpet.search.analysis import split_sentences

_STATES = frozenset(("retired", "unemployed", "self-employed"))  # in the place of a role
_PUPILS = ("student", "pupil", "apprentice", "owner", "landlord", "carer")  # nobody works as one
_DETERMINED = _STATES | frozenset(
    """a an the one two three four five six seven eight nine ten several some many no my his her their our both few
    head""".split()
)


def format_statement(
    subject: str, attribute: str, value: str, *, polarity: bool = True, name: str | None = None
) -> str:
    """``name``: of the subject, if there may be several: "The user's sister Anna lives in Porto."."""
    who = format_subject(subject) if name is None or attribute == "name" else f"{format_subject(subject)} {name}"
    if attribute.startswith("favourite:"):
        what = attribute.partition(":")[2]
        return f"{who}'s favourite {what} {'is' if polarity else 'is not'} {value}."
    if ":" in attribute:
        kind, _, what = attribute.partition(":")
        whose = f"{who}'s" if subject.startswith("user") else "The"
        return f"{whose} {what} {kind} {'is' if polarity else 'is not'} {value}."
    is_state = attribute == "health" and get_pattern("part_adjective").match(value) is not None
    if attribute == "role" and value.endswith(_PUPILS):
        return f"{who} {'is' if polarity else 'is not'} {_choose_article(value)} {value}.".replace("  ", " ")
    if is_state or (attribute == "role" and value in _STATES):
        return f"{who} {'is' if polarity else 'is not'} {value}."
    known = get_attribute(attribute)
    wording = (known.says if polarity else known.denies) or f"{'has' if polarity else 'does not have'} the {attribute}"
    if "{}" in wording:
        return f"{who} {wording.format(value)}."
    return f"{who} {wording.format(a=_choose_article(value))} {value}.".replace("  ", " ")


def find_name(subject: str, content: str) -> str | None:
    """Return the subject's name in a text: Anna, for "The user's sister Anna lives in Porto."."""
    if "/" not in subject:
        return None
    role = subject.rpartition("/")[2]
    match = re.search(rf"(?:\b[Mm]y|\b[Oo]ur|'s) (?:[a-z]+ )?{re.escape(role)},? ([A-ZÀ-Þ][\w'-]+)", content)
    return match[1].removesuffix("'s") if match else None


def _choose_article(value: str) -> str:
    """Return the article, unless the words already have a number or an owner."""
    first, last = value.split(maxsplit=1)[0].casefold(), value.rsplit(maxsplit=1)[-1].casefold()
    several = last.endswith("s") and not last.endswith("ss")
    if several or not first[0].isalpha() or first in _DETERMINED or value[0].isupper():
        return ""
    return "an" if first[0] in "aeiou" else "a"


def format_subject(subject: str) -> str:
    """Return whom a sentence is about: "The user's sister" for user/sister."""
    first, *way = subject.split("/")
    person = "The user" if first == "user" else "The project" if first == "project" else first.title()
    return "'s ".join([person, *way])


def quote(text: str, who: str) -> str:
    return f"{who} said: “{text}”"


def is_quote(content: str) -> bool:
    """Return whether a claim is worded as what somebody said, word for word."""
    return content.endswith("”") and " said: “" in content


# Retraction without an attribute: decisions, orders, and counts


_OVER = re.compile(r"\bprefers? .{2,60}? (?:over|to|than|rather than|instead of) (?P<less>.{2,60})", re.IGNORECASE)
_NUMBERS = {
    word: number
    for number, word in enumerate("no one two three four five six seven eight nine ten eleven twelve".split())
} | {"a": 1, "an": 1}
_MOSTLY_ONE = frozenset("sister brother daughter son child roommate flatmate therapist dog cat twin".split())
_NOW = re.compile(r"\b(?:now|only|left|no longer|any ?more)\b", re.IGNORECASE)


class StatementLike(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def value(self) -> str | None: ...
    @property
    def polarity(self) -> bool: ...


def is_contradiction(candidate: Candidate, record: StatementLike) -> bool:
    """Return whether the candidate retracts the record, both of one kind and subject."""
    if candidate.type is RecordType.DECISION:
        return _is_rejected(candidate, record)
    if candidate.type is RecordType.CONSTRAINT and not candidate.polarity and record.polarity:
        allowed = compute_signature(candidate.value or "").stems
        return len(allowed) > 1 and allowed <= compute_signature(record.content).stems
    return False


def _is_rejected(candidate: Candidate, record: StatementLike) -> bool:
    """ "Not Redis" and "SQLite instead of Redis" retract a decision for Redis. "Redis after all" retracts those."""
    decided = _extract_object(record.value)
    if not decided:
        return False
    if candidate.polarity != record.polarity:
        return is_same_value(_extract_object(candidate.value), decided)
    match = get_pattern("rejected").search(candidate.sentence)
    return record.polarity and match is not None and is_same_value(_extract_object(match["x"]), decided)


def _extract_object(value: str | None) -> str:
    plain = get_pattern("deciding").sub("", (value or "").strip())
    end = get_pattern("decided_until").search(plain)
    return (plain[: end.start()] if end else plain).strip()


def is_reversal(candidate: Candidate, record: StatementLike) -> bool:
    """Coffee over tea, after tea over coffee."""
    if candidate.attribute != "prefers" or not (match := _OVER.search(candidate.sentence)):
        return False
    reverse = _OVER.search(record.content)
    return (
        reverse is not None
        and is_same_value(match["less"].strip(" .!"), record.value)
        and is_same_value(reverse["less"].strip(" .!"), candidate.value)
    )


def is_correction_of(candidate: Candidate, before: str | None) -> bool:
    """Alexis, not Alexa."""
    wrong = re.escape(before or "")
    return bool(wrong) and re.search(rf"\bnot {wrong}(?!\w)", candidate.sentence, re.IGNORECASE) is not None


def has_count_changed(candidate: Candidate, before: str | None) -> bool:
    """Three children, or only two cats now, where another number was stated."""
    mine, theirs = _parse_count(candidate.value), _parse_count(before)
    if candidate.attribute not in {"family", "pet"} or mine is None or theirs is None or mine[1] != theirs[1]:
        return False
    return mine[0] > theirs[0] or (mine[0] != theirs[0] and _NOW.search(candidate.sentence) is not None)


def _parse_count(value: str | None) -> tuple[int, tuple[str, ...]] | None:
    first, *rest = tokenize(value or "") or [""]
    number = int(first) if first.isdigit() else _NUMBERS.get(first)
    if number is None and first:  # of pets the article is left out
        number, rest = 1, [first, *rest]
    return None if number is None or not rest else (number, tuple(map(stem, rest)))


def is_change(subject: str, sentence: str) -> bool:
    """Return whether it states a change in a role that people mostly have once: a sister, not a friend."""
    who, _, role = subject.rpartition("/")
    return (
        bool(who)
        and role in _MOSTLY_ONE
        and get_pattern("one_has_changed").search(sentence) is not None
        and not is_one_of_several(sentence)
    )


def is_one_of_several(text: str) -> bool:
    """Return which of several is meant; a single one needs no such word."""
    return get_pattern("one_of_several").search(text) is not None


def has_several(subject: str, value: str | None) -> bool:
    """Return whether a count of people implies several like this one: two sisters."""
    counted = _parse_count(value)
    return counted is not None and counted[0] > 1 and stem(subject.rpartition("/")[2]) in counted[1]


# Corrections that name only what they correct: "her name is Alexis, not Alexa"


# Single-valued attributes: a wrong value can only be the same fact, misstated.
_CORRECTED = frozenset("name nickname home employer age origin birthday school".split())


_CORRECTIONS = ("correction", "correction_meant", "correction_name")  # patterns
_ALIKE = 3  # letters that two forms of one name share


class Correction(NamedTuple):
    """``old`` is empty where only the right name is told: it is another form of the one that is known."""

    said: TurnMessage
    sentence: str
    new: str
    old: str


def find_corrections(turn: Sequence[TurnMessage], found: Iterable[Candidate]) -> Iterator[Correction]:
    """Return the user's corrections that no rule could assign to a subject."""
    placed = {candidate.sentence for candidate in found if candidate.value is not None}
    for said in turn:
        if said.role is Role.USER and not is_opt_out(said.text):
            for sentence in split_sentences(mask_quotations(said.text)):
                matches = (get_pattern(name).search(sentence.text) for name in _CORRECTIONS)
                match = next((match for match in matches if match), None)
                if match and sentence.text not in placed:
                    yield Correction(said, sentence.text, match["new"], match["old"])


def _is_wrong(record: Record, correction: Correction) -> bool:
    known, new = fold_text(record.value or ""), fold_text(correction.new)
    if correction.old:
        return record.attribute in _CORRECTED and known == fold_text(correction.old)
    named = record.subject == "user" and record.attribute in ("name", "nickname")
    return named and known != new and known[:_ALIKE] == new[:_ALIKE]


def apply_correction(correction: Correction, records: Iterable[Record]) -> Candidate | None:
    """Return the correction of the one fact with the wrong value; nothing if there are two."""
    wrong = [record for record in records if record.polarity and _is_wrong(record, correction)]
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
        exclusive=record.subject == "user",  # of sisters there may be two
        confidence=0.8,
        salience=record.salience,
        tags=record.tags,
    )
