"""While there is time: promote what is sure, merge what says the same, condense days, bring the profile up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from limpet.api.runtime import Runtime
from limpet.errors import ProviderError, SessionNotFound
from limpet.knowledge import condense as days_of
from limpet.knowledge import duplicates as rules
from limpet.knowledge import llm_digest, profiles
from limpet.knowledge import remember as memory
from limpet.knowledge.condense import Day
from limpet.knowledge.duplicates import DuplicateMerge
from limpet.knowledge.near_records import find_near_pairs
from limpet.knowledge.promote import promote_due
from limpet.knowledge.repository import Records
from limpet.model.record import Origin, Record
from limpet.model.scope import Partition, Scope
from limpet.model.shorten import DigestLine, fit_lines
from limpet.model.times import load_timezone
from limpet.search.chunk_repository import Chunks
from limpet.sessions.repository import Sessions
from limpet.store.claim import JobHandler, JobLease
from limpet.store.tx import Tx

log = logging.getLogger("limpet.knowledge")

Heartbeat = Callable[[], None]


def consolidate_job(runtime: Runtime) -> JobHandler:
    """Some time after something was learned; again as long as there are turns that will be condensed one day."""

    def run(claim: JobLease) -> datetime | None:
        limits, space, now = runtime.config.learn, claim.job.space, claim.now()
        promoted = promote_due(runtime, space, now, claim.renew)
        merged = condensed = 0
        if limits.consolidate:
            merged = merge_duplicates(runtime, space, now, claim.renew)
            condensed = condense_turns(runtime, space, now, claim.renew, claim.stopping)
        if not claim.stopping():
            claim.renew()
            profiles.refresh(runtime, space)
        if promoted or merged or condensed:
            done = (space.level, space.owner, promoted, merged, condensed)
            log.info("%s %s: %d records promoted, %d merged into others, %d days condensed", *done)
        if claim.stopping():
            return now
        waiting = limits.consolidate and limits.condense_days and _find_turns(runtime, space, now)
        return now + timedelta(hours=limits.consolidate_hours) if waiting else None

    return run


# Merging


def merge_duplicates(runtime: Runtime, space: Partition, now: datetime, between: Heartbeat = lambda: None) -> int:
    """Answers how many records gave way to others."""
    records = runtime.store.read(lambda tx: Records(tx).find_current(space, now))
    mergeable = [record for record in records if rules.is_mergeable(record, now)]
    recent = now - 2 * timedelta(hours=runtime.config.learn.consolidate_hours)
    fresh = [record for record in mergeable if record.updated_at is not None and record.updated_at >= recent]
    count = 0
    for found in rules.find_merges(mergeable, now, find_near_pairs(runtime, space, fresh, now)):
        between()
        count += runtime.store.write(partial(_apply_merge, runtime=runtime, wanted=found, now=now))
    return count


def _apply_merge(tx: Tx, runtime: Runtime, wanted: DuplicateMerge, now: datetime) -> int:
    """Decided anew from what the records say now: they may have changed, or be gone."""
    Chunks(tx).lock(wanted.stays.home.space)
    ids = [wanted.stays.id, *(twin.id for twin in wanted.gone)]
    anywhere, cut = Scope(wanted.stays.home.scope.tenant), memory.RecordChunker(runtime.config.chunks)
    found = [record for id in sorted(ids) if (record := Records(tx).lock(anywhere, id)) is not None]
    before = {record.id: record.version for record in (wanted.stays, *wanted.gone)}
    if [record.version for record in found] != [before[id] for id in sorted(ids)]:
        return 0
    by_id = {record.id: record for record in found}
    if any(not rules.is_mergeable(record, now) for record in found):
        return 0
    old = by_id[wanted.stays.id]
    stays = memory.rewrite(tx, old, _keep_usage(wanted.stays, old), cut, now)
    for twin in wanted.gone:
        ended = replace(by_id[twin.id], superseded_by=stays.id, valid_to=max(now, twin.valid_from or now))
        memory.rewrite(tx, by_id[twin.id], ended, cut, now)
    return len(wanted.gone)


def _keep_usage(wanted: Record, now: Record) -> Record:
    """Use is no change: what was counted since it was read still counts."""
    moments = [moment for moment in (wanted.last_used_at, now.last_used_at) if moment is not None]
    return replace(wanted, uses=max(wanted.uses, now.uses), last_used_at=max(moments, default=None))


# Days


def condense_turns(
    runtime: Runtime,
    space: Partition,
    now: datetime,
    between: Heartbeat = lambda: None,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Answers how many days became one record each."""
    limits = runtime.config.learn
    if not limits.condense_days:
        return 0
    zone = load_timezone(runtime.config.notes.timezone)
    count = 0
    for day in days_of.group_by_day(_find_turns(runtime, space, now), now, limits.condense_days, zone):
        if stopping():
            break
        between()
        record = days_of.build_day_record(day, summarize_day(runtime, day), runtime.new_id(), now)
        cut = memory.RecordChunker(runtime.config.chunks).with_vectors(runtime.store, runtime.embedding, record)
        kept = runtime.store.write(partial(_replace_turns, day=day, record=record, cut=cut, now=now))
        runtime.request_embedding(cut.build_drafts(record) if kept else ())
        count += kept
    return count


def _find_turns(runtime: Runtime, space: Partition, now: datetime) -> list[Record]:
    found = runtime.store.read(lambda tx: Records(tx).find_current(space, now))
    return [record for record in found if record.origin is Origin.TURN]


def summarize_day(runtime: Runtime, day: Day) -> str:
    """As a model tells it; the turns it says nothing about, and all of them without a model, by rules."""
    most, count = runtime.config.learn.condense_tokens, runtime.count
    texts = [days_of.format_turn(turn) for turn in day.turns]
    sentences = _ask_llm(runtime, texts)
    if not sentences:
        return days_of.digest_day(day, most, count)
    covered = {source for sentence in sentences for source in sentence.sources}
    lines = [(min(sentence.sources), DigestLine(sentence.text)) for sentence in sentences]
    lines += [(at, DigestLine(text, of="turns")) for at, text in enumerate(texts) if at not in covered]
    return fit_lines([line for _, line in sorted(lines, key=lambda item: item[0])], most, count)


def _ask_llm(runtime: Runtime, texts: Sequence[str]) -> list[llm_digest.DigestSentence]:
    if runtime.llm is None:
        return []
    most, timeout = runtime.config.learn.condense_tokens, runtime.config.llm.timeout_s
    try:
        return llm_digest.digest_texts(runtime.llm, "day", texts, most, timeout)
    except ProviderError as error:
        log.warning("%s told no day; a digest stands in for it: %s", runtime.llm.name, error)
    except Exception:  # why: a model that somebody handed over may raise anything, and a digest needs none
        log.warning("%s told no day; a digest stands in for it", runtime.llm.name, exc_info=True)
    return []


def _replace_turns(tx: Tx, day: Day, record: Record, cut: memory.RecordChunker, now: datetime) -> bool:
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
