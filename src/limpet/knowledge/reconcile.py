"""What a candidate means for what is known: new, known already, a change of mind, an end. apply.py does it.

A record is retired by one of the same subject and attribute, by a statement that contradicts it, or by a message that
the model of change is sure about; never one that a user stated outright or pinned. An older statement that arrives late
is history, not news.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Union

from limpet.knowledge import english
from limpet.knowledge.candidate import Candidate
from limpet.knowledge.change import CONTRADICTS, DOUBTS
from limpet.knowledge.reader import VITAL_ATTRIBUTES
from limpet.knowledge.similarity import (
    find_content_stems,
    find_name_stems,
    fold_text,
    has_same_breadth,
    is_duplicate,
    is_same_value,
    tokenize,
)
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Origin, Record, RecordType, fingerprint

MIN_RETIRE_CONFIDENCE = 0.65  # below this confidence nothing is retired
DOUBTED = 0.45  # confidence of what is kept only because it may be about something known: it is not shown alone
_RAISE, _LOWER = 0.3, 0.8  # of the distance to 1; of the confidence
_MOST = 0.99
RELATED = 0.05  # probability from which the later of two is listed first, where both are found
_CAUTION = 0.15  # so much more where the record is health, diet or a rule: there a wrong end costs most
_SURELY = 0.95  # probability from which a denial is taken back too: "turns out it wasn't gluten"
_NEARLY, _MOST_RETIRED = 0.3, 3
_SINGLE_VALUED = frozenset(
    "home employer role age birthday relationship status diet origin".split()
)  # one value a person


@dataclass(frozen=True, slots=True)
class ExistingRecord(Record):
    """An existing record. ``similarity``: cosine to the candidate, where it is known."""

    similarity: float | None = None
    contradicted: float = 0.0  # how likely the candidate's message takes it back

    @classmethod
    def of(cls, record: Record, similarity: float | None = None, contradicted: float = 0.0) -> ExistingRecord:
        known = {each.name: getattr(record, each.name) for each in fields(record)}
        return cls(**known, similarity=similarity, contradicted=contradicted)

    @property
    def is_protected(self) -> bool:
        """Only the user may change what the user stated outright."""
        return self.pinned or self.origin is Origin.EXPLICIT

    @property
    def is_vital(self) -> bool:
        return self.type in (RecordType.INSTRUCTION, RecordType.CONSTRAINT) or self.attribute in VITAL_ATTRIBUTES

    def holds_at(self, at: datetime) -> bool:
        return self.valid_to is None or self.valid_to > at


@dataclass(frozen=True, slots=True)
class Add:
    """A new record. ``valid_to``: it was true until then. ``conflicts``: records it contradicts and may not retire.

    ``doubts``: records it speaks against too softly to retire them.
    """

    valid_from: datetime
    valid_to: datetime | None = None
    conflicts: tuple[str, ...] = ()
    confidence: float | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """No record is added; ``into`` gets a new confidence.

    ``agrees`` is False where the candidate contradicts it, but not confidently enough to replace it.
    """

    into: str
    tags: tuple[str, ...]
    references: tuple[str, ...]
    confidence: float
    agrees: bool = True


@dataclass(frozen=True, slots=True)
class Supersede:
    """The new record takes the place of these, which were true until ``at``."""

    ids: tuple[str, ...]
    at: datetime
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """These were true until ``at``; nothing takes their place."""

    ids: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Ignore:
    reason: str


Decision = Union[Add, Merge, Supersede, End, Ignore]


def reconcile(candidate: Candidate, known: Iterable[ExistingRecord], *, tells: bool = False) -> Decision:
    """Decide from the given values: it reads nothing and calls no model.

    ``tells``: its message surely tells of a change, of what is known or of what a question will bring up.
    """
    records = [record for record in known if _is_comparable(candidate, record)]
    decision = _decide(candidate, records)
    if isinstance(decision, Add) and decision.valid_to is None and not decision.doubts:
        decision = replace(decision, doubts=_find_doubted(candidate, records))
    if not candidate.tentative or isinstance(decision, (Supersede, End)):
        return decision
    if isinstance(decision, Add) and (tells or decision.doubts or find_contradicted(candidate, records, RELATED)):
        return replace(decision, confidence=DOUBTED)
    return Ignore("it takes back nothing that is known")


def _decide(candidate: Candidate, records: Sequence[ExistingRecord]) -> Decision:
    at = candidate.said_at
    if late := _decide_late(candidate, records):
        return late
    if twin := _find_duplicate(candidate, records, at):
        return _build_merge(twin, candidate)
    if candidate.attribute is None or (candidate.value is None and not candidate.exclusive):
        retracted = [record for record in records if _is_retracted(candidate, record)]
        if not retracted and candidate.value is None:  # no rule knows what it is about
            return _decide_change(candidate, records, at)
        return _decide_replacement(candidate, retracted, at)
    about = [record for record in records if _has_same_attribute(candidate, record) and record.holds_at(at)]
    same = [record for record in about if _has_same_value(candidate, record)]
    if not candidate.polarity:
        return _decide_denial(candidate, same or (about if candidate.value is None else []), at)
    if opposite := [record for record in same if not record.polarity and _has_same_breadth(candidate, record)]:
        return _decide_replacement(candidate, opposite, at)
    if same and not _has_more_detail(candidate, same[-1]):
        return _build_merge(same[-1], candidate)
    holding = [record for record in about if record.polarity]
    if candidate.exclusive or _is_update(candidate, holding, records):
        return _decide_replacement(candidate, holding, at)
    superseded = [record for record in holding if _is_superseded(candidate, record)]
    if not superseded and "/" not in candidate.subject:  # of relatives there may be several
        superseded = _find_ended(candidate, records)
    return _decide_replacement(candidate, superseded, at)


def _decide_change(candidate: Candidate, records: Sequence[ExistingRecord], at: datetime) -> Decision:
    """What it takes back is evidence enough that it was meant, however unsure the reader is of the words alone."""
    free, kept = _split_protected(record for record in _find_ended(candidate, records) if _has_begun(record, at))
    return Supersede(free, at, kept) if free else Add(at, conflicts=kept)


def _split_protected(records: Iterable[ExistingRecord]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of those that may be retired, and of those that only the user may change."""
    found = list(records)
    free = tuple(record.id for record in found if not record.is_protected)
    return free, tuple(record.id for record in found if record.is_protected)


def _find_ended(candidate: Candidate, records: Sequence[ExistingRecord]) -> list[ExistingRecord]:
    """What a message ends where no rule knows the attribute.

    What somebody else does makes doubtful what the user does, and does not end it: "Tom is leaving the bakery".
    """
    found = find_contradicted(candidate, records, CONTRADICTS)
    other = _is_named_person(candidate.subject) and not english.tells_of_loss(candidate.sentence)
    return [record for record in found if not (other and record.subject == "user")]


def _find_doubted(candidate: Candidate, records: Sequence[ExistingRecord]) -> tuple[str, ...]:
    found = find_contradicted(candidate, records, DOUBTS)
    return tuple(record.id for record in found if not record.is_protected and _has_begun(record, candidate.said_at))


def find_contradicted(candidate: Candidate, records: Sequence[ExistingRecord], least: float) -> list[ExistingRecord]:
    """What a message takes back where no rule knows the attribute: what the model of change says."""
    current = [
        record
        for record in records
        if (record.polarity or record.contradicted >= _SURELY) and record.holds_at(candidate.said_at)
    ]
    best = max((record.contradicted for record in current), default=0.0)
    return [
        record
        for record in current
        if record.contradicted >= max(least + _CAUTION * (record.is_vital and least >= CONTRADICTS), best - _NEARLY)
    ][:_MOST_RETIRED]


def _is_update(candidate: Candidate, holding: Sequence[ExistingRecord], records: Sequence[ExistingRecord]) -> bool:
    """ "My sister moved to Lisbon" is about the one sister whose home is known, unless there are signs of another."""
    told = candidate.attribute in _SINGLE_VALUED and english.is_change(candidate.subject, candidate.sentence)
    if not told or len(holding) != 1 or english.find_name(candidate.subject, candidate.content):
        return False
    names = {fold_text(record.value or "") for record in records if record.attribute == "name" and record.polarity}
    several = any(
        record.attribute == "family" and english.has_several(candidate.subject, record.value) for record in records
    )
    return len(names) < 2 and not several and not english.is_one_of_several(holding[0].content)


def _is_superseded(candidate: Candidate, record: ExistingRecord) -> bool:
    """Of what may be several: the same sister, by her name, has one home; who has three children has two no more."""
    who = english.find_name(candidate.subject, candidate.content)
    if english.is_correction_of(candidate, record.value):
        return True
    if who is not None and candidate.attribute in _SINGLE_VALUED:
        return who == english.find_name(candidate.subject, record.content)
    return english.has_count_changed(candidate, record.value) or english.is_reversal(candidate, record)


def _is_retracted(candidate: Candidate, record: ExistingRecord) -> bool:
    """A decision taken back, an order lifted: the thing they name stands for the attribute they do not have."""
    same = record.type is candidate.type and record.subject == candidate.subject and record.attribute is None
    return same and record.holds_at(candidate.said_at) and english.is_contradiction(candidate, record)


def _decide_late(candidate: Candidate, records: Sequence[ExistingRecord]) -> Decision | None:
    """Said before something that is known already: it retires nothing, and was true until then at most."""
    at = candidate.said_at
    about = [record for record in records if _has_same_attribute(candidate, record)]
    if not candidate.exclusive:
        about = [record for record in about if _has_same_value(candidate, record)]
    ends = [record.valid_from for record in about if record.valid_from is not None and record.valid_from > at]
    ends += [
        record.valid_to
        for record in about
        if record.valid_to is not None and record.valid_to > at and _has_begun(record, at)
    ]
    if not ends or any(record.valid_to is None and _has_begun(record, at) for record in about):
        return None
    for record in about:
        if _has_same_value(candidate, record) and record.polarity == candidate.polarity and record.holds_at(at):
            late = f"{record.id} says so for that time already"
            return _build_merge(record, candidate) if record.valid_to is None else Ignore(late)
    if not candidate.polarity and candidate.exclusive:
        return Ignore("it was said before what is known now")
    return Add(at, valid_to=min(ends))


def _find_duplicate(candidate: Candidate, records: Sequence[ExistingRecord], at: datetime) -> ExistingRecord | None:
    """The same statement: by its fingerprint, its words, or its vector."""
    mark = fingerprint(candidate.type, candidate.content)
    current = [
        record
        for record in records
        if record.holds_at(at) and record.type is candidate.type and record.polarity == candidate.polarity
    ]
    for record in current:
        if record.fingerprint == mark and _can_be_same(candidate, record):
            return record
    for record in current:
        if _can_be_same(candidate, record) and is_duplicate(candidate.content, record.content, record.similarity):
            return record
    return None


def _can_be_same(candidate: Candidate, record: ExistingRecord) -> bool:
    """A sentence with two facts does not duplicate itself, nor does a correction duplicate what it corrects."""
    if record.subject is not None and record.subject != candidate.subject:
        return False
    if candidate.attribute is None or record.attribute is None:
        return True
    return (
        candidate.attribute == record.attribute
        and _has_same_value(candidate, record)
        and not _has_more_detail(candidate, record)
    )


def _has_same_value(candidate: Candidate, record: ExistingRecord) -> bool:
    """Who hates to wait for ten minutes and then for twenty hates the same."""
    return is_same_value(candidate.value, record.value, amounts=candidate.type is not RecordType.PREFERENCE)


def _has_same_breadth(candidate: Candidate, record: ExistingRecord) -> bool:
    """Who hates mornings on weekends may love mornings."""
    tasted = candidate.type is RecordType.PREFERENCE or candidate.attribute in {"eats", "drinks"}
    return not tasted or has_same_breadth(candidate.value, record.value)


def _has_more_detail(candidate: Candidate, record: ExistingRecord) -> bool:
    """Porto, Portugal after Porto: the same place, but worth the new words."""
    return len(tokenize(candidate.value or "")) > len(tokenize(record.value or ""))


def _decide_denial(candidate: Candidate, same: Sequence[ExistingRecord], at: datetime) -> Decision:
    """A state that ended is marked as ended; a dislike takes the place of the liking."""
    holding = [
        record for record in same if record.polarity and _has_begun(record, at) and _has_same_breadth(candidate, record)
    ]
    if not holding:
        agreeing = next((record for record in same if not record.polarity), None)
        return _build_merge(agreeing, candidate) if agreeing else Add(at)
    free, kept = _split_protected(holding)
    if not free:
        return Add(at, conflicts=kept, confidence=lower_confidence(candidate.confidence))
    if candidate.confidence < MIN_RETIRE_CONFIDENCE:
        return _weaken(next(record for record in holding if not record.is_protected))
    return End(free, at) if candidate.exclusive else Supersede(free, at, kept)


def _decide_replacement(candidate: Candidate, old: Sequence[ExistingRecord], at: datetime) -> Decision:
    old = [record for record in old if _has_begun(record, at)]
    if not old:
        return Add(at)
    free, kept = _split_protected(old)
    if not free:
        return Add(at, conflicts=kept, confidence=lower_confidence(candidate.confidence))
    if candidate.confidence < MIN_RETIRE_CONFIDENCE:
        if candidate.attribute is None or candidate.value is None:
            return Add(at, doubts=free)
        return _weaken(next(record for record in old if not record.is_protected))
    return Supersede(free, at, kept)


def _has_begun(record: ExistingRecord, at: datetime) -> bool:
    return record.valid_from is None or record.valid_from <= at


def _build_merge(record: ExistingRecord, candidate: Candidate) -> Merge:
    raised = record.confidence + (1 - record.confidence) * _RAISE * candidate.confidence
    return Merge(
        record.id,
        tuple(dict.fromkeys((*record.tags, *candidate.tags))),
        tuple(dict.fromkeys((*record.references, *candidate.references))),
        max(record.confidence, min(_MOST, round(raised, 4))),
    )


def _weaken(record: ExistingRecord) -> Decision:
    """Said too softly to retire anything, but not to be passed over."""
    return Merge(record.id, record.tags, record.references, lower_confidence(record.confidence), agrees=False)


def lower_confidence(confidence: float) -> float:
    return round(confidence * _LOWER, 4)


def _is_comparable(candidate: Candidate, record: ExistingRecord) -> bool:
    """A record that names no subject, as one saved by hand, can be a duplicate but never retired."""
    if record.subject is None or record.attribute == "family":
        return True
    names = {english.find_name(candidate.subject, each.content) for each in (candidate, record)} - {None}
    if record.subject == candidate.subject:
        return len(names) < 2  # what Ana says of herself is not about Bo
    if _speaks_of(candidate, record):
        return candidate.value is None or record.contradicted >= DOUBTS
    if _is_named_person(candidate.subject) and _is_named_person(record.subject):
        return False
    return record.contradicted >= DOUBTS or (candidate.value is None and _names_same(candidate, record))


def _is_named_person(subject: str) -> bool:
    return subject not in ("user", "somebody", "project") and "/" not in subject


def _names_same(candidate: Candidate, record: ExistingRecord) -> bool:
    """Whether they name the same thing, where the statement itself does not say whom it is about."""
    shared = find_content_stems(candidate.content) & find_content_stems(record.content)
    return bool(shared & find_name_stems(record.content)) or any(len(each) > 6 for each in shared)


def _speaks_of(candidate: Candidate, record: ExistingRecord) -> bool:
    """Whether one is about whom the other names: "my son Kwabena", and Kwabena."""
    if candidate.subject == "user" or record.subject in (None, "user"):
        return False
    mine, theirs = candidate.subject.rpartition("/")[2], (record.subject or "").rpartition("/")[2]
    return mine in record.content.casefold() or theirs in candidate.content.casefold()


def _has_same_attribute(candidate: Candidate, record: ExistingRecord) -> bool:
    return (
        record.subject == candidate.subject and record.attribute is not None and record.attribute == candidate.attribute
    )
