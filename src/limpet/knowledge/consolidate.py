"""While there is time: promote what is sure, merge what says the same, condense days, refresh the profile.

The turns of a day become one record: what was asked and answered, shortened by rules or told by a model.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from limpet.config import ChunkSettings, LearningSettings
from limpet.errors import ProviderError, SessionNotFound
from limpet.knowledge import llm_digest
from limpet.knowledge import remember as memory
from limpet.knowledge.decay import is_protected
from limpet.knowledge.profile import Profiler
from limpet.knowledge.promote import Promoter
from limpet.knowledge.remember import full_text, merge_labels
from limpet.knowledge.repository import Records
from limpet.knowledge.similarity import DUPLICATE_COSINE, TextSignature, compute_signature, is_duplicate, is_same_value
from limpet.model.chunk import SourceKind, Vector
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, fingerprint
from limpet.model.scope import Owner, Partition, Scope
from limpet.model.tokens import DigestLine, TokenCounter, fit_lines
from limpet.model.values import Clock, IdFactory, load_timezone, with_bucket
from limpet.providers.llm import Llm
from limpet.search.analysis import strip_names
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.search.search import read_chunks
from limpet.sessions.repository import Sessions
from limpet.store.jobs import JobLease
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

Heartbeat = Callable[[], None]

_LONGEST = 600  # characters of a turn that are looked at


class TurnDay(NamedTuple):
    """The turns one owner had on one day, the first first. What a chat alone may know stays that chat's."""

    home: Owner
    day: date
    turns: tuple[Record, ...]


def group_by_day(turns: Iterable[Record], now: datetime, older_than: int, zone: tzinfo) -> list[TurnDay]:
    """Days that ended ``older_than`` days ago or earlier, the oldest first."""
    last = (now.astimezone(zone) - timedelta(days=older_than)).date()
    found: dict[tuple[Owner, date], list[Record]] = defaultdict(list)
    for turn in turns:
        if turn.origin is Origin.TURN and turn.archived_at is None and not turn.pinned and turn.created_at is not None:
            day = turn.created_at.astimezone(zone).date()
            if day < last:
                found[turn.home, day].append(turn)
    order = sorted(found.items(), key=lambda item: (item[0][1], item[0][0].owner))
    return [TurnDay(home, day, tuple(sorted(each, key=attrgetter("created_at", "id")))) for (home, day), each in order]


def format_turn(turn: Record) -> str:
    return " ".join(" | ".join(filter(None, (turn.title, turn.content[:_LONGEST]))).split())


def digest_day(day: TurnDay, most_tokens: int, count: TokenCounter) -> str:
    return fit_lines([DigestLine(format_turn(turn), of="turns") for turn in day.turns], most_tokens, count)


def build_day_record(day: TurnDay, text: str, id: str, now: datetime) -> Record:
    """The record that stands for the day. It is dated as its last turn is: that is when it happened."""
    turns = day.turns
    sessions = {turn.source.session_id for turn in turns}
    sequences = {sequence for turn in turns for sequence in turn.source.sequences} if len(sessions) == 1 else set()
    return Record(
        id=id,
        home=day.home,
        layer=Layer.EPISODIC,
        type=RecordType.TASK_STATE,
        content=text,
        title=day.day.isoformat(),
        tags=memory.merge_labels(turn.tags for turn in turns),
        metadata={"day": day.day.isoformat(), "turns": str(len(turns))},
        confidence=min(turn.confidence for turn in turns),
        salience=max(turn.salience for turn in turns),
        references=memory.merge_labels(turn.references for turn in turns),
        fingerprint=fingerprint(RecordType.TASK_STATE, text),
        source=RecordSource(sessions.pop() if len(sessions) == 1 else None, tuple(sorted(sequences))),
        origin=Origin.CONDENSED,
        created_at=turns[-1].created_at,
        updated_at=now,
        valid_from=turns[0].valid_from or turns[0].created_at,
        inputs=tuple(turn.id for turn in turns),
    )


@dataclass(frozen=True, slots=True)
class Consolidator:
    """Works while there is time: promotes, merges duplicates, condenses days, refreshes the profile."""

    store: Store
    settings: LearningSettings
    chunks: ChunkSettings
    timezone: str  # in which a day begins and ends
    llm: Llm | None
    llm_timeout: float
    embedder: ChunkEmbedder
    promoter: Promoter
    profiler: Profiler
    count: TokenCounter
    clock: Clock
    new_id: IdFactory

    def run_job(self, lease: JobLease) -> datetime | None:
        """Some time after something was learned; again as long as there are turns that will be condensed one day."""
        limits, space, now = self.settings, lease.job.partition, lease.now()
        promoted = self.promoter.promote_due(space, now, lease.renew)
        merged = condensed = 0
        if limits.consolidate:
            merged = self.merge_duplicates(space, now, lease.renew)
            condensed = self.condense_turns(space, now, lease.renew, lease.stopping)
        if not lease.stopping():
            lease.renew()
            self.profiler.refresh(space)
        if promoted or merged or condensed:
            done = (space.level, space.owner, promoted, merged, condensed)
            log.info("%s %s: %d records promoted, %d merged into others, %d days condensed", *done)
        if lease.stopping():
            return now
        waiting = limits.consolidate and limits.summary_days and self._find_turns(space, now)
        return now + timedelta(hours=limits.consolidate_hours) if waiting else None

    def merge_duplicates(self, space: Partition, now: datetime, between: Heartbeat = lambda: None) -> int:
        """Answers how many records gave way to others."""
        records = self.store.read(lambda tx: Records(tx).find_current(space, now))
        mergeable = [record for record in records if is_mergeable(record, now)]
        recent = now - 2 * timedelta(hours=self.settings.consolidate_hours)
        fresh = [record for record in mergeable if record.updated_at is not None and record.updated_at >= recent]
        count = 0
        for found in find_merges(mergeable, now, find_near_pairs(self.embedder, space, fresh, now)):
            between()
            count += self.store.write(partial(self._apply_merge, wanted=found, now=now))
        return count

    def _apply_merge(self, tx: Tx, wanted: DuplicateMerge, now: datetime) -> int:
        """Decided again from the records as they are now: they may have changed, or be gone."""
        Chunks(tx).lock(wanted.stays.home.space)
        ids = [wanted.stays.id, *(twin.id for twin in wanted.gone)]
        anywhere, cut = Scope(wanted.stays.home.scope.tenant), memory.RecordChunker(self.chunks)
        found = [record for id in sorted(ids) if (record := Records(tx).lock(anywhere, id)) is not None]
        before = {record.id: record.version for record in (wanted.stays, *wanted.gone)}
        if [record.version for record in found] != [before[id] for id in sorted(ids)]:
            return 0
        by_id = {record.id: record for record in found}
        if any(not is_mergeable(record, now) for record in found):
            return 0
        old = by_id[wanted.stays.id]
        stays = memory.rewrite(tx, old, _keep_usage(wanted.stays, old), cut, now)
        for twin in wanted.gone:
            ended = replace(by_id[twin.id], superseded_by=stays.id, valid_to=max(now, twin.valid_from or now))
            memory.rewrite(tx, by_id[twin.id], ended, cut, now)
        return len(wanted.gone)

    def condense_turns(
        self,
        space: Partition,
        now: datetime,
        between: Heartbeat = lambda: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> int:
        """Answers how many days became one record each."""
        limits = self.settings
        if not limits.summary_days:
            return 0
        zone = load_timezone(self.timezone)
        count = 0
        for day in group_by_day(self._find_turns(space, now), now, limits.summary_days, zone):
            if stopping():
                break
            between()
            id_ = with_bucket(self.new_id(), space.bucket)
            record = build_day_record(day, self.summarize_day(day), id_, now)
            cut = memory.RecordChunker(self.chunks).with_vectors(self.embedder, record)
            kept = self.store.write(partial(_replace_turns, day=day, record=record, cut=cut, now=now))
            self.embedder.request_missing(cut.build_drafts(record) if kept else ())
            count += kept
        return count

    def _find_turns(self, space: Partition, now: datetime) -> list[Record]:
        found = self.store.read(lambda tx: Records(tx).find_current(space, now))
        return [record for record in found if record.origin is Origin.TURN]

    def summarize_day(self, day: TurnDay) -> str:
        """By a model; turns it leaves out, and all of them without a model, by rules."""
        most, count = self.settings.summary_tokens, self.count
        texts = [format_turn(turn) for turn in day.turns]
        sentences = llm_digest.try_digest(self.llm, "day", texts, most, self.llm_timeout)
        if not sentences:
            return digest_day(day, most, count)
        covered = {source for sentence in sentences for source in sentence.sources}
        lines = [(min(sentence.sources), DigestLine(sentence.text)) for sentence in sentences]
        lines += [(at, DigestLine(text, of="turns")) for at, text in enumerate(texts) if at not in covered]
        return fit_lines([line for _, line in sorted(lines, key=lambda item: item[0])], most, count)


def _keep_usage(wanted: Record, now: Record) -> Record:
    """Use is not a change: what was counted since the record was read still counts."""
    moments = [moment for moment in (wanted.last_used_at, now.last_used_at) if moment is not None]
    return replace(wanted, uses=max(wanted.uses, now.uses), last_used_at=max(moments, default=None))


def _replace_turns(tx: Tx, day: TurnDay, record: Record, cut: memory.RecordChunker, now: datetime) -> bool:
    """Only if the turns are what the text was made from."""
    Chunks(tx).lock(day.home.space)
    anywhere = Scope(day.home.scope.tenant)
    found = {turn.id: Records(tx).lock(anywhere, turn.id) for turn in sorted(day.turns, key=lambda turn: turn.id)}
    if any(_has_changed(turn, found[turn.id]) for turn in day.turns):
        return False
    if day.home.scope.session is not None:
        try:
            Sessions(tx).lock(day.home.scope)
        except SessionNotFound:
            return False
    memory.insert(tx, record, cut)
    for turn in found.values():
        assert turn is not None
        memory.rewrite(tx, turn, replace(turn, archived_at=now), cut, now)
    return True


def _has_changed(turn: Record, now: Record | None) -> bool:
    return now is None or now.version != turn.version or now.archived_at is not None


# Records that say the same, found and brought together. Only those of one owner, layer, type and polarity are compared,
# and of those that name a subject and an attribute only such as are about the same thing. The newest words stay, unless
# somebody stated theirs outright: those stay always, as they are. The other record is superseded by the one that stays,
# and can be read as history.


Pair = frozenset[str]
_MOST_COMPARED = 200  # with one record: a word found in thousands says nothing
_SURER = 0.99
_MOST_EMBEDDED = 256  # records looked at in one run
_ROUGHLY = 0.03  # what an estimate may be too low
_FEW = 50


class DuplicateMerge(NamedTuple):
    """``stays`` as it is to be written, and those that give way to it."""

    stays: Record
    gone: tuple[Record, ...]


def is_mergeable(record: Record, now: datetime) -> bool:
    """A turn or a day is not said twice, and what has ended is history."""
    made = record.origin in (Origin.TURN, Origin.CONDENSED)
    return not made and record.is_current_at(now)


def find_merges(
    records: Iterable[Record], now: datetime, cosines: Mapping[Pair, float] | None = None
) -> list[DuplicateMerge]:
    """``cosines``: of pairs whose vectors are near, where there are vectors."""
    groups: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        if is_mergeable(record, now):
            groups[record.home, record.layer, record.type, record.polarity].append(record)
    return [merge for group in groups.values() for merge in _find_in_group(group, cosines or {})]


def _find_in_group(group: Sequence[Record], cosines: Mapping[Pair, float]) -> list[DuplicateMerge]:
    """Whoever stays takes in all that are like it; what is only like one of those stays apart."""
    order = sorted(group, key=_precedence, reverse=True)
    neighbours = _find_neighbours(order, cosines)
    gone: set[str] = set()
    found = []
    for stays in order:
        if stays.id in gone:
            continue
        twins = [
            other
            for other in neighbours[stays.id]
            if other.id not in gone and not is_protected(other) and _is_duplicate(stays, other, cosines)
        ]
        if twins:
            gone |= {stays.id, *(twin.id for twin in twins)}
            found.append(DuplicateMerge(_merge_records(stays, twins), tuple(twins)))
    return found


def _precedence(record: Record) -> tuple[bool, float, str]:
    newest = record.valid_from or record.created_at
    return is_protected(record), 0.0 if newest is None else newest.timestamp(), record.id


def _find_neighbours(records: Sequence[Record], near: Iterable[Pair]) -> dict[str, list[Record]]:
    """Those that may say the same: with the same numbers, the same denial and a rare word in common, or near.

    Texts of which one holds the other share every word of the shorter, its rarest too.
    """
    gists = {record.id: compute_signature(record.content) for record in records}
    buckets: dict[object, list[Record]] = defaultdict(list)
    for record in records:
        for key in _bucket_keys(gists[record.id]):
            buckets[key].append(record)
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        mine = gists[record.id]
        rarest = min((buckets[key] for key in _bucket_keys(mine)), key=len)
        for other in rarest[:_MOST_COMPARED]:
            theirs = gists[other.id]
            if other.id != record.id and (mine.stems <= theirs.stems or theirs.stems <= mine.stems):
                found[record.id][other.id] = other
                found[other.id][record.id] = record
    by_id = {record.id: record for record in records}
    for one, other_id in (pair for pair in map(sorted, near) if len(pair) == 2 and by_id.keys() >= set(pair)):
        found[one][other_id] = by_id[other_id]
        found[other_id][one] = by_id[one]
    return {record.id: list(found[record.id].values()) for record in records}


def _bucket_keys(said: TextSignature) -> list[object]:
    return [(said.numbers, said.negated, stem) for stem in sorted(said.stems) or [""]]


def _is_duplicate(one: Record, other: Record, cosines: Mapping[Pair, float]) -> bool:
    if not _has_same_topic(one, other):
        return False
    if one.fingerprint == other.fingerprint:
        return True
    return is_duplicate(one.content, other.content, cosines.get(frozenset((one.id, other.id))))


def _has_same_topic(one: Record, other: Record) -> bool:
    if None not in (one.subject, other.subject) and one.subject != other.subject:
        return False
    if one.attribute is None or other.attribute is None:
        return True
    return one.attribute == other.attribute and is_same_value(one.value, other.value)


def _merge_records(stays: Record, twins: Sequence[Record]) -> Record:
    """With what the others add. An explicit record only counts how often it was said."""
    said = stays.said + sum(twin.said for twin in twins)
    inputs = tuple(dict.fromkeys((*stays.inputs, *(twin.id for twin in twins))))
    if is_protected(stays):
        return replace(stays, said=said, inputs=inputs)
    used = [record.last_used_at for record in (stays, *twins) if record.last_used_at is not None]
    sure = max(record.confidence for record in (stays, *twins))
    return replace(
        stays,
        said=said,
        inputs=inputs,
        uses=stays.uses + sum(twin.uses for twin in twins),
        last_used_at=max(used, default=None),
        tags=merge_labels(record.tags for record in (stays, *twins)),
        references=merge_labels(record.references for record in (stays, *twins)),
        confidence=max(stays.confidence, min(_SURER, sure)),
        salience=max(record.salience for record in (stays, *twins)),
    )


def find_near_pairs(
    embedder: ChunkEmbedder, space: Partition, records: Sequence[Record], now: datetime
) -> dict[Pair, float]:
    """Of each of these with every other of the space; nothing where there are no vectors."""
    if embedder.model is None or not records:
        return {}
    asked = records[:_MOST_EMBEDDED]
    names = embedder.store.read(lambda tx: Chunks(tx).names(space))
    try:
        vectors = embedder.model.embed_texts([strip_names(full_text(record), names) for record in asked])
    except ProviderError as error:
        log.warning("duplicates are looked for by words alone: %s", error)
        return {}
    found: dict[Pair, float] = {}
    for record, vector in zip(asked, vectors, strict=True):
        near = embedder.store.read(partial(_find_near, space=space, vector=vector, now=now))
        for other, cosine in near.items():
            if other != record.id:
                found[frozenset((record.id, other))] = cosine
    return found


def _find_near(tx: Tx, space: Partition, vector: Vector, now: datetime) -> dict[str, float]:
    """By the id of the record."""
    import numpy as np

    index = Chunks(tx).open_index(space)
    nearness = None if index is None else index.score_vectors(vector)
    if index is None or nearness is None:
        return {}
    rough = np.nan_to_num(nearness.cosines, nan=-1.0)
    best = np.argsort(-rough)[:_FEW]
    best = best[rough[best] >= DUPLICATE_COSINE - _ROUGHLY]
    ordinals = index.catalogue.ordinals[best].tolist()
    cosines = dict(zip(ordinals, nearness.rescore(best).tolist(), strict=True))
    near = [each for each in ordinals if cosines.get(each, 0.0) >= DUPLICATE_COSINE]
    stored = read_chunks(index, near, None, now)
    return {
        chunk.source.id: cosines[ordinal] for ordinal, chunk in stored.items() if chunk.source.kind is SourceKind.RECORD
    }
