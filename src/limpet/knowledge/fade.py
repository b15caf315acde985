"""Records fade: they are archived, and deleted later. One that is archived can be had back."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from limpet.api.runtime import Runtime
from limpet.errors import RecordNotFound
from limpet.knowledge import remember as memory
from limpet.knowledge.decay import DecayOutcome, DecayRules, decide_outcome, min_fade_age
from limpet.knowledge.maintenance import DAY, enqueue_maintenance
from limpet.knowledge.repository import Records
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.notes import items
from limpet.search.chunk_repository import Chunks
from limpet.store.claim import JobHandler, JobLease
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

_PAGE = 100  # written at a time: others wait that long
_EVER = datetime(9999, 12, 31, tzinfo=UTC)


class DecayCounts(NamedTuple):
    archived: int = 0
    deleted: int = 0


def decay_job(runtime: Runtime) -> JobHandler:
    """Daily, as long as a space has anything that may fade."""

    def run(claim: JobLease) -> datetime | None:
        if not runtime.config.learn.decay:
            return None
        space, now = claim.job.space, claim.now()
        done = fade(runtime, space, now, claim.renew)
        if done != DecayCounts():
            log.info("%s %s: %d records archived, %d deleted", space.level, space.owner, *done)
        return now + DAY if _has_more(runtime, space) else None

    return run


def fade(runtime: Runtime, space: Partition, now: datetime, between: Callable[[], None] = lambda: None) -> DecayCounts:
    """Archive what has faded, and delete what was archived long ago."""
    rules = build_rules(runtime)
    archived = deleted = 0
    for page in _iter_pages(runtime, space, now, rules):
        between()
        done, gone = _apply_page(runtime, page, now, rules)
        archived, deleted = archived + done.archived, deleted + done.deleted
        _drop_lines(runtime, space, gone)
    return DecayCounts(archived, deleted)


def build_rules(runtime: Runtime) -> DecayRules:
    limits = runtime.config.learn
    return DecayRules(limits.fade_days, limits.delete_archived_days, limits.delete_past_days)


def _iter_pages(runtime: Runtime, space: Partition, now: datetime, rules: DecayRules) -> Iterator[list[Record]]:
    """Archived ones first: what is archived now is not deleted in the same run."""
    if rules.delete_archived:
        limit = now - timedelta(days=rules.delete_archived)
        # One that stays although its time has come would come again and again: each page must get shorter.
        while page := runtime.store.read(lambda tx: Records(tx).find_archived_before(space, limit, _PAGE)):
            yield page
            left = runtime.store.read(lambda tx: Records(tx).find_archived_before(space, limit, _PAGE))
            if {record.id for record in left} & {record.id for record in page}:
                break
    span = min_fade_age(rules)
    if span == timedelta.max:
        return
    after: tuple[datetime, str] | None = None
    while page := _read_page(runtime, space, now - span, after):
        yield page
        last = page[-1]
        assert last.updated_at is not None
        after = last.updated_at, last.id


def _read_page(
    runtime: Runtime, space: Partition, moment: datetime, after: tuple[datetime, str] | None
) -> list[Record]:
    return runtime.store.read(lambda tx: Records(tx).find_unused_since(space, moment, _PAGE, after))


def _apply_page(
    runtime: Runtime, page: Sequence[Record], now: datetime, rules: DecayRules
) -> tuple[DecayCounts, list[tuple[str | None, str]]]:
    """What was done, and whose records are gone. Most pages hold nothing that is due, and write nothing."""
    due = [record.id for record in page if decide_outcome(record, now, rules) is not DecayOutcome.STAYS]
    if not due:
        return DecayCounts(), []
    anywhere, cut = Scope(page[0].home.scope.tenant), memory.RecordChunker(runtime.config.chunks)

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

    return runtime.store.write(write)


def _drop_lines(runtime: Runtime, space: Partition, gone: Sequence[tuple[str | None, str]]) -> None:
    by_user: dict[str, list[str]] = defaultdict(list)
    for user, id in gone:
        if user is not None:
            by_user[user].append(id)
    for user, ids in sorted(by_user.items()):
        items.delete_lines(runtime, space.tenant, user, ids)


def _has_more(runtime: Runtime, space: Partition) -> bool:
    """Whatever the records' times are: one that was learned by a clock that is ahead may fade, too."""

    def read(tx: Tx) -> bool:
        return bool(Records(tx).find_unused_since(space, _EVER, 1) or Records(tx).find_archived_before(space, _EVER, 1))

    return runtime.store.read(read)


def revive(runtime: Runtime, scope: Scope, record_id: str, cut: memory.RecordChunker) -> Record:
    """Bring an archived record back. It begins its time anew."""
    now = runtime.clock()
    found = runtime.store.read(lambda tx: Records(tx).get(scope, record_id))
    if found is not None and found.archived_at is not None:
        cut = cut.with_vectors(runtime.store, runtime.embedding, replace(found, archived_at=None))

    def write(tx: Tx) -> Record:
        if found is not None:
            Chunks(tx).lock(found.home.space)
        record = Records(tx).lock(scope, record_id)
        if record is None:
            raise RecordNotFound(f"no record {record_id} here")
        if record.archived_at is None:
            return record
        enqueue_maintenance(tx, record.home.space, runtime.config.learn, now)
        return memory.rewrite(tx, record, replace(record, archived_at=None), cut, now)

    revived = runtime.store.write(write)
    runtime.request_embedding(cut.build_drafts(revived))
    return revived
