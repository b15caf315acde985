"""What an episode taught becomes lasting knowledge: by hand, or because it is sure enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from limpet.api.runtime import Runtime
from limpet.errors import RecordNotFound, SessionNotFound, WrongState
from limpet.knowledge import promotion_rules as rules
from limpet.knowledge import remember as memory
from limpet.knowledge.maintenance import enqueue_maintenance
from limpet.knowledge.promotion_rules import PromotionScope
from limpet.knowledge.repository import Records
from limpet.model.record import Layer, Origin, Record
from limpet.model.scope import Owner, Partition, Scope
from limpet.search.chunk_repository import Chunks
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx


def promote(runtime: Runtime, scope: Scope, record_id: str, wider: PromotionScope | None) -> Record:
    """By hand, however sure the record is. A second time gives the record of the first."""
    now, new = runtime.clock(), runtime.new_id()
    found = runtime.store.read(lambda tx: Records(tx).get(scope, record_id))
    if found is None:
        raise RecordNotFound(f"no record {record_id} here; nothing was promoted")
    home = rules.choose_owner(found, wider)
    cut = _build_chunker(runtime, rules.build_promotion(found, home, new, now))

    def write(tx: Tx) -> Record:
        Chunks(tx).lock(home.space)
        record = Records(tx).lock(scope, record_id)
        if record is None:
            raise RecordNotFound(f"no record {record_id} here; nothing was promoted")
        if (known := _find_promotion(tx, record, home)) is not None:
            return known
        _check_promotable(record, home, now)
        enqueue_maintenance(tx, home.space, runtime.config.learn, now)
        return _promote(tx, record, home, new, cut, now)

    done = runtime.store.write(write)
    runtime.request_embedding(cut.build_drafts(done))
    return done


def promote_due(runtime: Runtime, space: Partition, now: datetime, between: Callable[[], None] = lambda: None) -> int:
    """Everything in the space that is sure enough, each at its own level. Answers how many there were."""
    limits = runtime.config.learn
    if not limits.promote:
        return 0
    found = runtime.store.read(lambda tx: Records(tx).find_current(space, now))
    due = [record for record in found if rules.is_due(record, now, limits.promote_confidence)]
    count = 0
    for record in due:
        between()
        copy = rules.build_promotion(record, record.home, runtime.new_id(), now)
        count += _promote_if_due(runtime, record.id, copy, now)
    return count


def _promote_if_due(runtime: Runtime, id: str, copy: Record, now: datetime) -> bool:
    cut, sure = _build_chunker(runtime, copy), runtime.config.learn.promote_confidence

    space = copy.home.space

    def write(tx: Tx) -> bool:
        Chunks(tx).lock(space)
        record = Records(tx).lock(Scope(copy.home.scope.tenant), id)
        if record is None or not rules.is_due(record, now, sure) or _find_promotion(tx, record, record.home):
            return False
        if rules.is_outdated(
            record, Records(tx).find_by_attribute(space, record.subject or "", record.attribute or "")
        ):
            return False
        try:
            _promote(tx, record, record.home, copy.id, cut, now)
        except SessionNotFound:
            return False
        return True

    done = runtime.store.write(write)
    runtime.request_embedding(cut.build_drafts(copy) if done else ())
    return done


def _promote(tx: Tx, record: Record, home: Owner, id: str, cut: memory.RecordChunker, now: datetime) -> Record:
    """The copy, or the record that says so already. A learned origin has done its work and is archived."""
    if home.scope.session is not None:
        Sessions(tx).lock(home.scope)
    copy = rules.build_promotion(record, home, id, now)
    equal = rules.find_equal(copy, Records(tx).find_by_fingerprint(home.space, copy.fingerprint), now)
    if equal is None:
        done = memory.insert(tx, copy, cut)
    else:
        done = memory.rewrite(tx, equal, rules.merge_into(equal, record), cut, now)
    if home == record.home and record.origin is Origin.EXTRACTED and not record.pinned and record.archived_at is None:
        memory.rewrite(tx, record, replace(record, archived_at=now), cut, now)
    return done


def _find_promotion(tx: Tx, record: Record, home: Owner) -> Record | None:
    """Also where that one has been corrected since: an old episode must not bring back what it said."""
    made = Records(tx).find_derived_from(home.space, [record.id])
    fitting = (other for other in made if other.home == home and other.layer is not Layer.EPISODIC)
    return next((other for other in fitting if other.origin is not Origin.CONDENSED), None)


def _check_promotable(record: Record, home: Owner, now: datetime) -> None:
    if record.layer not in (Layer.EPISODIC, Layer.WORKING) and home == record.home:
        raise WrongState(f"record {record.id} is {record.layer} already; name a scope to let more people see it")
    if record.superseded_by is not None or not record.is_valid_at(now):
        raise WrongState(f"record {record.id} is not true now; promote the one that took its place")


def _build_chunker(runtime: Runtime, copy: Record) -> memory.RecordChunker:
    return memory.RecordChunker(runtime.config.chunks).with_vectors(runtime.store, runtime.embedding, copy)
