"""What a candidate means for what is known: new, known already, a change of mind, an end; and doing it.

Only records of the same subject and the same attribute may retire each other, and never what a user stated outright or
pinned. An older statement that arrives late is history, not news.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Union

from limpet.knowledge import english, remember
from limpet.knowledge.candidate import Candidate
from limpet.knowledge.remember import RecordChunker
from limpet.knowledge.repository import Records
from limpet.knowledge.similarity import (
    compute_signature,
    fold_text,
    has_same_breadth,
    is_near_duplicate,
    is_same_value,
    tokenize,
)
from limpet.model.dataclass import dataclass
from limpet.model.record import Origin, Record, RecordSource, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import LearnResult, SessionInfo
from limpet.model.types import MAX_TAGS
from limpet.model.values import IdFactory, with_bucket
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

DUPLICATE_COSINE = 0.97  # cosine from which two texts with the same numbers and no denial say the same
MIN_RETIRE_CONFIDENCE = 0.65  # below this confidence nothing is retired
_RAISE, _LOWER = 0.3, 0.8  # of the distance to 1; of the confidence
_MOST = 0.99
_SINGLE_VALUED = frozenset(
    "home employer role age birthday relationship status diet origin".split()
)  # one value a person


@dataclass(frozen=True, slots=True)
class ExistingRecord:
    """An existing record, as far as it matters here. ``similarity``: cosine to the candidate, where it is known."""

    id: str
    type: RecordType
    content: str
    fingerprint: str = ""
    subject: str | None = None
    attribute: str | None = None
    value: str | None = None
    polarity: bool = True
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    confidence: float = 1.0
    uses: int = 0
    origin: Origin = Origin.EXTRACTED
    pinned: bool = False
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    similarity: float | None = None

    @property
    def is_protected(self) -> bool:
        """Only the user may change what the user stated outright."""
        return self.pinned or self.origin is Origin.EXPLICIT

    def is_current_at(self, at: datetime) -> bool:
        return self.valid_to is None or self.valid_to > at


@dataclass(frozen=True, slots=True)
class Add:
    """A new record. ``valid_to``: it was true until then. ``conflicts``: records it contradicts and may not retire."""

    valid_from: datetime
    valid_to: datetime | None = None
    conflicts: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """It is known. ``agrees`` is False where it speaks, too softly to retire anything, against the record."""

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


def reconcile(candidate: Candidate, known: Iterable[ExistingRecord]) -> Decision:
    """By rules alone."""
    return _decide(candidate, [record for record in known if _is_comparable(candidate, record)])


def _decide(candidate: Candidate, records: Sequence[ExistingRecord]) -> Decision:
    at = candidate.said_at
    if late := _decide_late(candidate, records):
        return late
    if twin := _find_duplicate(candidate, records, at):
        return _build_merge(twin, candidate)
    if candidate.attribute is None:
        return _decide_replacement(candidate, [record for record in records if _is_retracted(candidate, record)], at)
    about = [record for record in records if _has_same_attribute(candidate, record) and record.is_current_at(at)]
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
    return _decide_replacement(candidate, [record for record in holding if _is_superseded(candidate, record)], at)


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
    return same and record.is_current_at(candidate.said_at) and english.is_contradiction(candidate, record)


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
        if _has_same_value(candidate, record) and record.polarity == candidate.polarity and record.is_current_at(at):
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
        if record.is_current_at(at) and record.type is candidate.type and record.polarity == candidate.polarity
    ]
    for record in current:
        if record.fingerprint == mark and _can_be_same(candidate, record):
            return record
    for record in current:
        if _can_be_same(candidate, record) and _is_duplicate(candidate, record):
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


def _is_duplicate(candidate: Candidate, record: ExistingRecord) -> bool:
    if is_near_duplicate(candidate.content, record.content):
        return True
    mine, theirs = compute_signature(candidate.content), compute_signature(record.content)
    equal = mine.numbers == theirs.numbers and mine.negated == theirs.negated
    return equal and record.similarity is not None and record.similarity >= DUPLICATE_COSINE


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
    free = tuple(record.id for record in holding if not record.is_protected)
    kept = tuple(record.id for record in holding if record.is_protected)
    if not free:
        return Add(at, conflicts=kept, confidence=_lower_confidence(candidate.confidence))
    if candidate.confidence < MIN_RETIRE_CONFIDENCE:
        return _weaken(next(record for record in holding if not record.is_protected))
    return End(free, at) if candidate.exclusive else Supersede(free, at, kept)


def _decide_replacement(candidate: Candidate, old: Sequence[ExistingRecord], at: datetime) -> Decision:
    old = [record for record in old if _has_begun(record, at)]
    if not old:
        return Add(at)
    free = tuple(record.id for record in old if not record.is_protected)
    kept = tuple(record.id for record in old if record.is_protected)
    if not free:
        return Add(at, conflicts=kept, confidence=_lower_confidence(candidate.confidence))
    if candidate.confidence < MIN_RETIRE_CONFIDENCE:
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
    return Merge(record.id, record.tags, record.references, _lower_confidence(record.confidence), agrees=False)


def _lower_confidence(confidence: float) -> float:
    return round(confidence * _LOWER, 4)


def _is_comparable(candidate: Candidate, record: ExistingRecord) -> bool:
    """A record that names no subject, as one saved by hand, can be a duplicate but never retired."""
    if record.subject is None or record.attribute == "family":
        return True
    names = {
        english.find_name(candidate.subject, candidate.content),
        english.find_name(candidate.subject, record.content),
    } - {None}
    return record.subject == candidate.subject and len(names) < 2  # what Ana says of herself is not about Bo


def _has_same_attribute(candidate: Candidate, record: ExistingRecord) -> bool:
    return (
        record.subject == candidate.subject and record.attribute is not None and record.attribute == candidate.attribute
    )


# What a decision does to the records


def user_partition(info: SessionInfo) -> Partition:
    return Partition(info.tenant, Level.USER, info.user)


def build_record(info: SessionInfo, candidate: Candidate, id: str, now: datetime) -> Record:
    return Record(
        id=id,
        home=Owner(Scope(info.tenant, user=info.user), Level.USER),
        layer=candidate.layer,
        type=candidate.type,
        content=candidate.content,
        tags=candidate.tags,
        confidence=candidate.confidence,
        salience=candidate.salience,
        references=candidate.references,
        fingerprint=fingerprint(candidate.type, candidate.content),
        source=RecordSource(info.id, (candidate.sequence,), candidate.speaker, candidate.sentence),
        origin=Origin.EXTRACTED,
        created_at=now,
        updated_at=now,
        valid_from=candidate.said_at,
        subject=candidate.subject,
        attribute=candidate.attribute,
        value=candidate.value,
        polarity=candidate.polarity,
    )


@dataclass(frozen=True, slots=True)
class Reconciler:
    """One candidate among what is known, inside the transaction."""

    tx: Tx
    info: SessionInfo
    candidate: Candidate
    cut: RecordChunker
    now: datetime
    new_id: IdFactory

    def apply(self, near: Mapping[str, float | None]) -> LearnResult:
        found = self._find_matches(near)
        known = {record.id: record for record in found.values() if record.archived_at is None}
        faded = [record for record in found.values() if record.archived_at is not None]
        decision = reconcile(self.candidate, [_to_existing(record, near.get(record.id)) for record in known.values()])
        match decision:
            case Add(valid_from, valid_to, conflicts, confidence):
                new = replace(
                    self._new_record(),
                    valid_from=valid_from,
                    valid_to=valid_to,
                    confidence=self.candidate.confidence if confidence is None else confidence,
                )
                new = self._insert(new, conflicts)
                if valid_to is None:
                    self._end_faded(faded, new)
                return LearnResult(added=(new.id,))
            case Merge():
                self._merge(known[decision.into], decision)
                return LearnResult(merged=(decision.into,))
            case Supersede(ids, at, conflicts):
                new = self._insert(self._new_record(), conflicts)
                for old in ids:
                    self._end(known[old], at, new)
                self._end_faded(faded, new)
                return LearnResult(added=(new.id,), superseded=ids)
            case End(ids, at):
                for old in ids:
                    self._end(known[old], at, None)
                return LearnResult(ended=ids)
            case Ignore(reason):
                log.debug("what message %d says is passed over: %s", self.candidate.sequence, reason)
        return LearnResult()

    def _find_matches(self, near: Iterable[str]) -> dict[str, Record]:
        """Those that say the same, are about the same, or are near. Read here: others may have learned meanwhile."""
        tx, space, candidate = self.tx, user_partition(self.info), self.candidate
        found = Records(tx).find_by_fingerprint(space, fingerprint(candidate.type, candidate.content))
        if candidate.attribute is not None:
            found += Records(tx).find_by_attribute(space, candidate.subject, candidate.attribute)
            found += self._find_same_role()
        owner = Scope(self.info.tenant, user=self.info.user)
        found += [record for id_ in near if (record := Records(tx).get(owner, id_)) is not None]
        # Records of one session and superseded ones are neither merged with nor retired.
        return {
            record.id: record for record in found if record.home.level is Level.USER and record.superseded_by is None
        }

    def _find_same_role(self) -> list[Record]:
        """Whether "my sister" is one of two: what says so are her names, and how many there are."""
        subject = self.candidate.subject
        if not english.is_change(subject, self.candidate.sentence):
            return []
        about, space = Records(self.tx).find_by_attribute, user_partition(self.info)
        return [*about(space, subject, "name"), *about(space, subject.rpartition("/")[0], "family")]

    def _new_record(self) -> Record:
        id_ = with_bucket(self.new_id(), user_partition(self.info).bucket)
        return build_record(self.info, self.candidate, id_, self.now)

    def _insert(self, record: Record, conflicts: Sequence[str]) -> Record:
        metadata = {"conflicts": " ".join(conflicts)} if conflicts else {}
        return remember.insert(self.tx, replace(record, metadata=metadata), self.cut)

    def _merge(self, record: Record, merge: Merge) -> None:
        """Said again: counted. Only what it adds is a change, with its history."""
        Records(self.tx).update_confidence(
            user_partition(self.info), record.id, merge.confidence, int(merge.agrees), self.now
        )
        if (merge.tags, merge.references) != (record.tags, record.references):
            current = Records(self.tx).lock(record.home.scope, record.id) or record
            wanted = replace(current, tags=merge.tags[:MAX_TAGS], references=merge.references[:MAX_TAGS])
            remember.rewrite(self.tx, current, wanted, self.cut, self.now)

    def _end(self, record: Record, at: datetime, successor: Record | None) -> None:
        """The record was true until then, and so was what was made of it."""
        for old in (record, *self._find_copies(record)):
            until = max(at, old.valid_from or at)
            wanted = replace(old, valid_to=until, superseded_by=successor.id if successor else None)
            remember.rewrite(self.tx, old, wanted, self.cut, self.now)

    def _end_faded(self, faded: Sequence[Record], new: Record) -> None:
        """Archived records are not merged with, but they end too: revived, they must not look current."""
        decision = reconcile(self.candidate, [_to_existing(record, None) for record in faded])
        if isinstance(decision, (Supersede, End)):
            ended = set(decision.ids)
            for record in faded:
                if record.id in ended:
                    self._end(record, decision.at, new)

    def _find_copies(self, record: Record) -> list[Record]:
        made = Records(self.tx).find_derived_from(user_partition(self.info), [record.id])
        return [copy for copy in made if copy.origin is Origin.PROMOTED and copy.superseded_by is None]


def _to_existing(record: Record, similarity: float | None) -> ExistingRecord:
    return ExistingRecord(
        id=record.id,
        type=record.type,
        content=record.content,
        fingerprint=record.fingerprint,
        subject=record.subject,
        attribute=record.attribute,
        value=record.value,
        polarity=record.polarity,
        valid_from=record.valid_from,
        valid_to=record.valid_to,
        confidence=record.confidence,
        uses=record.uses,
        origin=record.origin,
        pinned=record.pinned,
        tags=record.tags,
        references=record.references,
        similarity=similarity,
    )
