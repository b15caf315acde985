"""What a candidate does to the records: it is added, merged, takes the place of others, or ends them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from limpet.knowledge import english, remember
from limpet.knowledge.candidate import PASSING, Candidate
from limpet.knowledge.change import CONTRADICTS, DOUBTS, find_changes, measure_telling, tells_of_change
from limpet.knowledge.outdated import find_told, is_said_with, is_told_beside, may_concern
from limpet.knowledge.prominence import CONFLICTS, DOUBT, DOUBTED_BY, DOUBTFUL, FOLLOWS, RULES, TELLS
from limpet.knowledge.reader import VITAL_ATTRIBUTES
from limpet.knowledge.reconcile import RELATED, Add, Decision, End, ExistingRecord, Ignore, Merge, Supersede, reconcile
from limpet.knowledge.remember import RecordChunker
from limpet.knowledge.repository import Records
from limpet.knowledge.similarity import find_content_stems
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import CLAIM_TYPES, Origin, Record, RecordSource, fingerprint
from limpet.model.scope import Level, Owner, Partition, Scope
from limpet.model.session import LearnResult, SessionInfo
from limpet.model.types import MAX_TAGS
from limpet.model.values import IdFactory, with_bucket
from limpet.search.recipes import SKILL_KEY
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

_GUARDED = frozenset("allergy health medication diet name nickname pronouns age birthday family child pet".split())
_KINDRED = tuple(  # attributes that a statement about one of them may change
    frozenset(each.split())
    for each in (
        "diet eats drinks likes dislikes",
        "health medication",
        "name nickname partner relationship family child friend pet",
    )
)
_BETWEEN = 0.55  # that something is over since what was before it is back
_UNREAD = 0.5  # the most that words count which became no candidate: they make doubtful, and end nothing
_NEAR = 0.15  # the most that a message counts for where it seems to be about something else: it is only later
_LEAST_TOLD, _SURELY_TOLD = -2.0, 1.0  # logits of a message that may tell of a change, and of one that surely does
LOOKED_THROUGH = 100  # newest claims among which a change is looked for


class _Judged(NamedTuple):
    """How likely a message takes a claim back: by the model of change, and where health, names and family count."""

    related: float
    likely: float


def build_record(info: SessionInfo, candidate: Candidate, id: str, now: datetime) -> Record:
    return Record(
        id=id,
        home=Owner(Scope(info.tenant, user=info.user), Level.USER),
        layer=candidate.layer,
        type=candidate.type,
        content=candidate.content,
        tags=candidate.tags,
        metadata={SKILL_KEY: candidate.skill} if candidate.skill else {},
        confidence=candidate.confidence,
        salience=candidate.salience,
        references=candidate.references,
        fingerprint=fingerprint(candidate.type, candidate.content),
        source=RecordSource(info.id, (candidate.sequence,), candidate.speaker, candidate.sentence),
        origin=Origin.EXTRACTED,
        created_at=now,
        updated_at=now,
        valid_from=candidate.said_at,
        expires_at=candidate.until,
        subject=candidate.subject,
        attribute=candidate.attribute,
        value=candidate.value,
        polarity=candidate.polarity,
    )


class RecentClaims:
    """The newest claims, among which a change is looked for: read once, then kept up to date by a batch's writes."""

    def __init__(self, tx: Tx, space: Partition, now: datetime) -> None:
        self._tx, self._space, self._now = tx, space, now
        self._claims: dict[str, Record] | None = None

    def list(self) -> list[Record]:
        if self._claims is None:
            found = Records(self._tx).find_newest_claims(self._space, LOOKED_THROUGH, self._now)
            self._claims = {record.id: record for record in reversed(found)}
        return list(self._claims.values())[-LOOKED_THROUGH:]

    def update(self, record: Record) -> None:
        if self._claims is not None:
            self._claims.pop(record.id, None)
            if record.superseded_by is None and record.is_valid_at(self._now):
                self._claims[record.id] = record


@dataclass(frozen=True, slots=True)
class Reconciler:
    """One candidate among what is known, inside the transaction."""

    tx: Tx
    info: SessionInfo
    candidate: Candidate
    cut: RecordChunker
    now: datetime
    new_id: IdFactory
    recent: RecentClaims
    beside: Sequence[Candidate] = ()  # all candidates of the message

    def apply(self, near: Mapping[str, float | None]) -> LearnResult:
        found = self._find_matches(near)
        known = {record.id: record for record in found.values() if record.archived_at is None}
        faded = [record for record in found.values() if record.archived_at is not None]
        judged = self._find_changes(known)
        back, between = self._find_returned()
        judged |= {id_: _Judged(_BETWEEN, _BETWEEN) for id_ in between}
        judged |= {id_: judged[id_]._replace(likely=0.0) for id_ in back & judged.keys()}
        known = {id_: record for id_, record in known.items() if id_ not in back}
        changes = {record: change.likely for record, change in judged.items()}
        if changes:
            likely = [record for record in self.recent.list() if changes.get(record.id, 0.0) >= RELATED]
            known = {**{record.id: record for record in likely}, **known}
        existing = [ExistingRecord.of(each, near.get(each.id), changes.get(each.id, 0.0)) for each in known.values()]
        told = measure_telling(self.candidate.message)
        decision = reconcile(self.candidate, existing, tells=told >= _SURELY_TOLD)
        match decision:
            case Add(valid_from, valid_to, conflicts, confidence, doubts):
                new = replace(
                    self._new_record(decision, judged),
                    valid_from=valid_from,
                    valid_to=valid_to,
                    confidence=self.candidate.confidence if confidence is None else confidence,
                )
                new, added = self._insert(new, conflicts)
                for old in doubts:
                    for each in (known[old], *self._find_beside(known[old])):
                        self._doubt(each, new, changes.get(old, 0.0))
                if valid_to is None:
                    self._end_faded(faded, new)
                return LearnResult(added)
            case Merge():
                self._merge(known[decision.into], decision)
                return LearnResult(merged=(decision.into,))
            case Supersede(ids, at, conflicts):
                new = _keep_instruction(self._new_record(decision, judged), [known[old] for old in ids])
                new, added = self._insert(new, conflicts)
                for old in ids:
                    for each in self._find_beside(known[old]):
                        self._doubt(each, new, DOUBTS)
                    self._end(known[old], at, new)
                self._end_faded(faded, new)
                return LearnResult(added, superseded=ids)
            case End(ids, at):
                for old in ids:
                    self._end(known[old], at, None)
                return LearnResult(ended=ids)
            case Ignore(reason):
                log.debug("what message %d says is passed over: %s", self.candidate.sequence, reason)
        return LearnResult()

    def _find_changes(self, known: Mapping[str, Record]) -> dict[str, _Judged]:
        """How likely the candidate's own clause takes back each record that was not said with it.

        Words that became no candidate may take a record back too. Then each candidate of the message makes it doubtful.
        """
        candidate = self.candidate
        if not tells_of_change(candidate.message):
            return {}
        records = {**{record.id: record for record in self.recent.list()}, **known}
        claims = [record for record in records.values() if self._can_be_taken_back(record)]
        changes = find_changes(candidate.message, [record.content for record in claims])
        own = _find_span(candidate.message, candidate.sentence)
        spans = [_find_span(candidate.message, each.sentence) for each in self.beside]
        topics = {each.attribute for each in ([candidate] if candidate.attribute else self.beside)}
        found = {}
        about = self._find_topics()
        for record, change in zip(claims, changes, strict=True):
            likely = change.probability
            if DOUBTS <= likely < CONTRADICTS and not self._may_concern(record):
                likely = _NEAR
            if self._speaks_of(record, about):
                found[record.id] = _Judged(likely, max(likely, DOUBTS))
            elif _overlaps(own, (change.start, change.end)):
                found[record.id] = _Judged(likely, self._guard(record, likely, topics))
            elif not any(_overlaps(span, (change.start, change.end)) for span in spans):
                found[record.id] = _Judged(likely, self._guard(record, min(likely, _UNREAD), topics))
        return _spare_told_beside(claims, _spare_beside(candidate.message, claims, found))

    def _may_concern(self, record: Record) -> bool:
        return any(may_concern(each, record.content) for each in (self.candidate.message, self.candidate.content))

    def _find_returned(self) -> tuple[set[str], set[str]]:
        """The ids of what is back, where a message names it ("back to nights"), and of what was so in between."""
        said = find_content_stems(english.find_return(self.candidate.message))
        if not said:
            return set(), set()
        later = [each for each in self.recent.list() if self._can_be_taken_back(each)]
        follows = {each.id: each.metadata.get(FOLLOWS, "").split() for each in later}
        ids = sorted({id_ for each in follows.values() for id_ in each})  # they may have ended
        earlier = {each.id: each for each in Records(self.tx).get_many(self.info.partition, ids)}
        between: dict[str, Record] = {}  # for each that is back, what most surely told of a change
        for each in sorted(later, key=lambda each: find_told(each) or _LEAST_TOLD):
            own = (earlier[id_] for id_ in follows[each.id] if id_ in earlier)
            between |= {before.id: each for before in own if said & _find_own_stems(before, each)}
        return set(between), {each.id for each in between.values()} - between.keys()

    def _find_topics(self) -> frozenset[str]:
        """What the candidate says has changed, of what people mostly have one of."""
        said = self.candidate.sentence
        changed = english.has_change_sign(said) and not english.has_stay_sign(said)
        return english.find_topics(said) if changed else frozenset()

    def _speaks_of(self, record: Record, topics: frozenset[str]) -> bool:
        """Whether the record is about one of these topics and the same person, or about whom the person has."""
        if not topics or record.subject is None:
            return False
        if record.subject == self.candidate.subject:
            return bool(topics & english.find_topics(record.content))
        owner, _, role = record.subject.rpartition("/")
        return owner == self.candidate.subject and bool(topics & english.find_topics(role))

    def _guard(self, record: Record, likely: float, topics: set[str | None]) -> float:
        """Limit what a statement counts for against health, names and family: there a mistake costs most.

        What is about another attribute leaves them alone. What has none makes health and diet doubtful only if they
        have a word in common, and names and family only if somebody is gone.
        """
        if record.attribute not in _GUARDED or record.attribute in topics:
            return likely
        if self.candidate.attribute or (topics - {None} and record.attribute in VITAL_ATTRIBUTES):
            return likely if any(record.attribute in each and topics & each for each in _KINDRED) else 0.0
        told = find_content_stems(self.candidate.message)
        if record.attribute in VITAL_ATTRIBUTES:
            return likely if told & find_content_stems(record.content) else 0.0
        return likely if english.tells_of_loss(self.candidate.message) else 0.0

    def _can_be_taken_back(self, record: Record) -> bool:
        said_with = record.source.session_id == self.info.id and self.candidate.sequence in record.source.sequences
        return not said_with and record.type in CLAIM_TYPES and record.origin is not Origin.TURN

    def _find_matches(self, near: Iterable[str]) -> dict[str, Record]:
        """Those that say the same, are about the same, or are near. Read here: others may have learned meanwhile."""
        tx, space, candidate = self.tx, self.info.partition, self.candidate
        found = Records(tx).find_by_fingerprint(space, fingerprint(candidate.type, candidate.content))
        if candidate.attribute is not None:
            found += Records(tx).find_by_attribute(space, candidate.subject, candidate.attribute)
            found += self._find_same_role()
        similar = {record.id: record for record in Records(tx).get_many(space, list(near))}
        found += [similar[id_] for id_ in near if id_ in similar]
        # Records of one session and superseded ones are neither merged with nor retired.
        return {
            record.id: record for record in found if record.home.level is Level.USER and record.superseded_by is None
        }

    def _find_same_role(self) -> list[Record]:
        """Whether "my sister" is one of two: what says so are her names, and how many there are."""
        subject = self.candidate.subject
        if not english.is_change(subject, self.candidate.sentence):
            return []
        about, space = Records(self.tx).find_by_attribute, self.info.partition
        return [*about(space, subject, "name"), *about(space, subject.rpartition("/")[0], "family")]

    def _choose_words(self, decision: Decision, judged: Mapping[str, _Judged]) -> Candidate:
        """All that a message states, where it takes something back: what is so now may stand in another clause."""
        candidate = self.candidate
        taken = decision.ids if isinstance(decision, Supersede) else ()
        taken = decision.doubts if isinstance(decision, Add) else taken
        takes = any(each in judged and judged[each].likely for each in taken)
        if not takes and not candidate.tentative:
            return candidate
        if takes and candidate.until is not None and candidate.until <= candidate.said_at + PASSING:
            candidate = replace(candidate, until=None)  # what takes the place of something lasts as it did
        if not candidate.whole or candidate.value is not None:
            return candidate
        return replace(candidate, content=candidate.whole, sentence=candidate.whole_quote)

    def _new_record(self, decision: Decision, judged: Mapping[str, _Judged]) -> Record:
        said = self._choose_words(decision, judged)
        made = build_record(self.info, said, with_bucket(self.new_id(), self.info.partition.bucket), self.now)
        if (told := measure_telling(said.message)) >= _LEAST_TOLD:
            made = replace(made, metadata={**made.metadata, TELLS: f"{told:.1f}"})
        return _add_metadata(made, FOLLOWS, [each for each, change in judged.items() if change.related >= RELATED])

    def _insert(self, record: Record, conflicts: Sequence[str]) -> tuple[Record, tuple[str, ...]]:
        """Add a record; return it, and its id if it is new."""
        for other in self.recent.list() if record.source.sentence == self.candidate.whole_quote else ():
            if (other.source, other.content) == (record.source, record.content):
                return other, ()  # another claim of the message already stands for all of it
        new = remember.insert(self.tx, _add_metadata(record, CONFLICTS, conflicts), self.cut)
        self.recent.update(new)
        return new, (new.id,)

    def _rewrite(self, record: Record, **fields: Any) -> None:
        """Change fields of a record as it is now: it may have been used or merged with since it was read."""
        current = Records(self.tx).lock(record.home.scope, record.id) or record
        self.recent.update(remember.rewrite(self.tx, current, replace(current, **fields), self.cut, self.now))

    def _merge(self, record: Record, merge: Merge) -> None:
        """Said again: counted. Only what it adds is a change, with its history."""
        Records(self.tx).update_confidence(
            self.info.partition, record.id, merge.confidence, int(merge.agrees), self.now
        )
        if (merge.tags, merge.references) != (record.tags, record.references):
            self._rewrite(record, tags=merge.tags[:MAX_TAGS], references=merge.references[:MAX_TAGS])

    def _doubt(self, record: Record, new: Record, likely: float) -> None:
        """What the new one may take back names it, or the likeliest before it, wherever it is shown."""
        if likely >= float(record.metadata.get(DOUBT, 0.0)):
            self._rewrite(record, metadata={**record.metadata, DOUBTED_BY: new.id, DOUBT: f"{likely:.2f}"})

    def _find_beside(self, record: Record) -> list[Record]:
        """What was said with it of the same person or thing."""
        return [
            each
            for each in self.recent.list()
            if is_said_with(record, each) and self._can_be_taken_back(each) and not ExistingRecord.of(each).is_protected
        ]

    def _end(self, record: Record, at: datetime, successor: Record | None) -> None:
        """The record was true until then, and what was made of it. With a last day to come it holds till then."""
        last = english.find_last_date(self.candidate.message, at) if english.is_last(self.candidate.message) else None
        if last is not None:
            at, successor = last, None
        for old in (record, *self._find_copies(record)):
            until = max(at, old.valid_from or at)
            self._rewrite(old, valid_to=until, superseded_by=successor.id if successor else None)

    def _end_faded(self, faded: Sequence[Record], new: Record) -> None:
        """Archived records are not merged with, but they end too: revived, they must not look current."""
        decision = reconcile(self.candidate, [ExistingRecord.of(record) for record in faded])
        if isinstance(decision, (Supersede, End)):
            ended = set(decision.ids)
            for record in faded:
                if record.id in ended:
                    self._end(record, decision.at, new)

    def _find_copies(self, record: Record) -> list[Record]:
        made = Records(self.tx).find_derived_from(self.info.partition, [record.id])
        return [copy for copy in made if copy.origin is Origin.PROMOTED and copy.superseded_by is None]


def _keep_instruction(record: Record, taken: Sequence[Record]) -> Record:
    """What takes the place of an instruction is one too, however the words sound alone: "English again please"."""
    kind = next((each.type for each in taken if each.type in RULES), record.type)
    if kind is record.type:
        return record
    confidence = max(record.confidence, DOUBTFUL)
    return replace(record, type=kind, fingerprint=fingerprint(kind, record.content), confidence=confidence)


def _find_own_stems(record: Record, later: Record) -> frozenset[str]:
    """The words of what was said first alone, but not of whom it is about: "Kevin is back" is not about his job."""
    who = find_content_stems((record.subject or "").replace("/", " "))
    return find_content_stems(record.content) - find_content_stems(later.content) - who


def _find_span(message: str, sentence: str) -> tuple[int, int]:
    start = message.find(sentence)
    return (start, start + len(sentence)) if start >= 0 else (0, len(message))


def _spare_beside(message: str, claims: Sequence[Record], judged: Mapping[str, _Judged]) -> dict[str, _Judged]:
    """Leave alone what was told together with something that the message names: it is about that one."""
    told = find_content_stems(message)
    found = [record for record in claims if record.id in judged and judged[record.id].likely]
    named = {record.id for record in found if told & find_content_stems(record.content)}
    meant = {(record.source.session_id, record.source.sequences) for record in found if record.id in named}
    spared = {record.id for record in found if (record.source.session_id, record.source.sequences) in meant} - named
    return {each: verdict._replace(likely=0.0) if each in spared else verdict for each, verdict in judged.items()}


def _spare_told_beside(claims: Sequence[Record], judged: Mapping[str, _Judged]) -> dict[str, _Judged]:
    """Leave alone the other facts of a sentence: of those that are only doubtful, a message is about the likeliest."""
    found = [record for record in claims if record.id in judged and judged[record.id].likely >= DOUBTS]
    spared = {
        each.id
        for each in found
        if judged[each.id].likely < CONTRADICTS
        and any(judged[other.id].likely > judged[each.id].likely and is_told_beside(each, other) for other in found)
    }
    return {each: verdict._replace(likely=0.0) if each in spared else verdict for each, verdict in judged.items()}


def _overlaps(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return min(one[1], other[1]) > max(one[0], other[0])


def _add_metadata(record: Record, name: str, ids: Sequence[str]) -> Record:
    return replace(record, metadata={**record.metadata, name: " ".join(ids)}) if ids else record
