"""How a record loses strength with time: it is archived, and deleted later. An archived one can be revived.

A record that nobody uses, says again or changes has half its strength after its *life*, and fades then:

    strength = 0.5 ** (time since it was last touched / life)
    life     = fade_days x (0.5 + worth) x (1 + log2(1 + uses))
    worth    = (confidence + salience) / 2

A record of middling worth, said once and never used, lives ``fade_days``; the surest and most salient one lives one
and a half times as long, the least half as long. Each doubling of its uses adds one more life: a caller recalled it, or
the user said it again. A use starts the time again. Being shown in a context is not a use. What a user stated outright
or pinned does not fade, and neither does a copy of it. What is no longer true is history, with a rule of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from math import log2
from typing import NamedTuple

from limpet.config import ChunkSettings, LearningSettings
from limpet.errors import RecordNotFound
from limpet.knowledge import remember as memory
from limpet.knowledge.remember import DAY, enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass, replace
from limpet.model.record import Origin, Record
from limpet.model.scope import Partition, Scope
from limpet.model.values import Clock, is_internal
from limpet.notes.user_notes import UserNotes
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder
from limpet.store.jobs import JobLease
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

FADE_THRESHOLD = 0.5  # below this strength a record is archived
_SHORTEST = 0.5  # of fade_days: nothing fades before
_PAGE = 100  # written at a time: others wait that long
_EVER = datetime(9999, 12, 31, tzinfo=UTC)


class DecayOutcome(Enum):
    STAYS = auto()
    ARCHIVED = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True)
class DecayRules:
    """In days; 0 for never."""

    fade: int = 30
    delete_archived: int = 180
    delete_past: int = 0


def is_protected(record: Record) -> bool:
    """Explicit and pinned records are the user's to remove; a text made of records has its own rule."""
    return record.pinned or record.origin is Origin.EXPLICIT or is_internal(record.key)


def last_activity(record: Record) -> datetime | None:
    moments = (record.created_at, record.updated_at, record.last_used_at)
    return max((moment for moment in moments if moment is not None), default=None)


def half_life(record: Record, fade_days: float) -> timedelta:
    worth = (record.confidence + record.salience) / 2
    return fade_days * (0.5 + worth) * (1 + log2(max(1, record.said, 1 + record.uses))) * DAY


def strength(record: Record, now: datetime, fade_days: float) -> float:
    """From 1 for a record that was touched just now, or never fades, towards 0."""
    since = last_activity(record)
    if is_protected(record) or fade_days <= 0 or since is None or since >= now:
        return 1.0
    return float(0.5 ** ((now - since) / half_life(record, fade_days)))


def min_fade_age(rules: DecayRules) -> timedelta:
    """Whatever was touched since is not worth a look."""
    spans = [days for days in (rules.fade * _SHORTEST, rules.delete_past) if days > 0]
    return min(spans) * DAY if spans else timedelta.max


def decide_outcome(record: Record, now: datetime, rules: DecayRules, inputs: Iterable[Record] = ()) -> DecayOutcome:
    """``inputs``: the records it was made from, as far as they are there."""
    if is_protected(record):
        return DecayOutcome.STAYS
    if record.archived_at is not None:
        return (
            DecayOutcome.DELETED if _is_overdue(record.archived_at, rules.delete_archived, now) else DecayOutcome.STAYS
        )
    ended = _end_time(record, now)
    if ended is not None:
        return DecayOutcome.DELETED if _is_overdue(ended, rules.delete_past, now) else DecayOutcome.STAYS
    # The copy of what was stated outright was stated outright, too.
    copied = record.origin is Origin.PROMOTED and any(is_protected(origin) for origin in inputs)
    if copied or strength(record, now, rules.fade) >= FADE_THRESHOLD:
        return DecayOutcome.STAYS
    return DecayOutcome.ARCHIVED


def _end_time(record: Record, now: datetime) -> datetime | None:
    """When it stopped being true. What was superseded without saying when ended with its last change."""
    ends = [end for end in (record.valid_to, record.expires_at) if end is not None and end <= now]
    if record.superseded_by is not None and not ends and record.updated_at is not None:
        ends.append(record.updated_at)
    return min(ends, default=None)


def _is_overdue(since: datetime, days: int, now: datetime) -> bool:
    return days > 0 and now - since >= days * DAY


class DecayCounts(NamedTuple):
    archived: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Fader:
    """Archives records that were not used for long, deletes them later, and revives them."""

    store: Store
    settings: LearningSettings
    chunks: ChunkSettings
    embedder: ChunkEmbedder
    notes: UserNotes
    clock: Clock

    def run_job(self, lease: JobLease) -> datetime | None:
        """Daily, as long as a space has anything that may fade."""
        if not self.settings.decay:
            return None
        space, now = lease.job.partition, lease.now()
        done = self.fade(space, now, lease.renew)
        if done != DecayCounts():
            log.info("%s %s: %d records archived, %d deleted", space.level, space.owner, *done)
        return now + DAY if self._has_more(space) else None

    def fade(self, space: Partition, now: datetime, between: Callable[[], None] = lambda: None) -> DecayCounts:
        """Archive what has faded, and delete what was archived long ago."""
        limits = self.settings
        rules = DecayRules(limits.fade_days, limits.delete_archived_days, limits.delete_past_days)
        archived = deleted = 0
        for page in self._iter_pages(space, now, rules):
            between()
            done, gone = self._apply_page(page, now, rules)
            archived, deleted = archived + done.archived, deleted + done.deleted
            self.notes.delete_lines_of(space.tenant, gone)
        return DecayCounts(archived, deleted)

    def _iter_pages(self, space: Partition, now: datetime, rules: DecayRules) -> Iterator[list[Record]]:
        """Archived ones first: what is archived now is not deleted in the same run."""
        if rules.delete_archived:
            limit = now - timedelta(days=rules.delete_archived)
            # One that stays although its time has come would come again and again: each page must get shorter.
            while page := self.store.read(lambda tx: Records(tx).find_archived_before(space, limit, _PAGE)):
                yield page
                left = self.store.read(lambda tx: Records(tx).find_archived_before(space, limit, _PAGE))
                if {record.id for record in left} & {record.id for record in page}:
                    break
        span = min_fade_age(rules)
        if span == timedelta.max:
            return
        after: tuple[datetime, str] | None = None
        while page := self._read_page(space, now - span, after):
            yield page
            last = page[-1]
            assert last.updated_at is not None
            after = last.updated_at, last.id

    def _read_page(self, space: Partition, moment: datetime, after: tuple[datetime, str] | None) -> list[Record]:
        return self.store.read(lambda tx: Records(tx).find_unused_since(space, moment, _PAGE, after))

    def _apply_page(
        self, page: Sequence[Record], now: datetime, rules: DecayRules
    ) -> tuple[DecayCounts, list[tuple[str | None, str]]]:
        """What was done, and whose records are gone. Most pages hold nothing that is due, and write nothing."""
        due = [record.id for record in page if decide_outcome(record, now, rules) is not DecayOutcome.STAYS]
        if not due:
            return DecayCounts(), []
        anywhere, cut = Scope(page[0].home.scope.tenant), memory.RecordChunker(self.chunks)

        def write(tx: Tx) -> tuple[DecayCounts, list[tuple[str | None, str]]]:
            Chunks(tx).lock(page[0].home.space)
            archived, gone = 0, []
            for id in due:
                record = Records(tx).lock(anywhere, id)
                if record is None:
                    continue
                inputs = [found for each in record.inputs if (found := Records(tx).get(anywhere, each)) is not None]
                outcome = decide_outcome(record, now, rules, inputs)  # it may have been used meanwhile
                if outcome is DecayOutcome.ARCHIVED:
                    memory.rewrite(tx, record, replace(record, archived_at=now), cut, now)
                    archived += 1
                elif outcome is DecayOutcome.DELETED:
                    Records(tx).delete(anywhere, id)
                    gone.append((record.user, id))
            return DecayCounts(archived, len(gone)), gone

        return self.store.write(write)

    def _has_more(self, space: Partition) -> bool:
        """Whatever the records' times are: one that was learned by a clock that is ahead may fade, too."""

        def read(tx: Tx) -> bool:
            return bool(
                Records(tx).find_unused_since(space, _EVER, 1) or Records(tx).find_archived_before(space, _EVER, 1)
            )

        return self.store.read(read)

    def revive(self, scope: Scope, record_id: str, cut: memory.RecordChunker) -> Record:
        """Bring an archived record back. Its time starts again."""
        now = self.clock()
        found = self.store.read(lambda tx: Records(tx).get(scope, record_id))
        if found is not None and found.archived_at is not None:
            cut = cut.with_vectors(self.embedder, replace(found, archived_at=None))

        def write(tx: Tx) -> Record:
            if found is not None:
                Chunks(tx).lock(found.home.space)
            record = Records(tx).lock(scope, record_id)
            if record is None:
                raise RecordNotFound(f"no record {record_id} here")
            if record.archived_at is None:
                return record
            enqueue_maintenance(tx, record.home.space, self.settings, now)
            return memory.rewrite(tx, record, replace(record, archived_at=None), cut, now)

        revived = self.store.write(write)
        self.embedder.request_missing(cut.build_drafts(revived))
        return revived
