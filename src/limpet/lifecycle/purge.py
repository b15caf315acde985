"""A purge from its mark to its receipt.

The mark comes first: a receipt that is not done, and a job that finishes it whatever happens to this process. Then the
rows, in one transaction if they fit; the files; a look at what is left; the bytes. Every step can be done again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from limpet.api.runtime import Runtime
from limpet.lifecycle.purge_files import Places
from limpet.lifecycle.purge_repository import Purges
from limpet.lifecycle.purge_request import Order
from limpet.lifecycle.purge_rows import Removal
from limpet.model.chunk import ChunkQuery, Source, SourceKind
from limpet.model.job import PURGE, SCRUB
from limpet.model.receipt import Bytes, Receipt, What, digest_of
from limpet.model.scope import STORE, Level, Scope, Space
from limpet.search import recipes
from limpet.search.question import Question
from limpet.search.search import Search, search
from limpet.security.access_repository import AuditEntries, Grants
from limpet.security.api_key_repository import ApiKeys
from limpet.sessions.repository import Sessions
from limpet.store.claim import Claim, Handler
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx

log = logging.getLogger("limpet.purge")

# How long the job leaves it to whoever asked. A purge that takes longer is done by two, to the same end.
_HEAD_START = timedelta(seconds=60)
_LOOK_AGAIN = timedelta(seconds=10)
_SAMPLES, _LONG_ENOUGH, _LOOKED_AT, _NAMED = 5, 20, 10, 20


@dataclass(slots=True)
class _Progress:
    """What this process knows of the purge; one that takes it up later knows less."""

    sessions: set[str] = field(default_factory=set)
    records: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    files: int = 0
    resumed: bool = False


def purge(
    runtime: Runtime,
    space: Space,
    what: What,
    *,
    session: str | None = None,
    before: datetime | None = None,
    asked_by: str | None = None,
    vacuum: bool = False,
) -> Receipt:
    """Done when it returns. One that was begun before, and interrupted, is finished first."""
    wanted = Order(runtime.new_id(), what, space, session, before)
    if runtime.forgetful is not None:  # nothing was ever kept
        now = runtime.clock()
        nothing = Receipt(wanted.receipt, what, _digest(wanted), now, space.tenant, before, asked_by, now)
        return replace(nothing, verified=True, bytes=Bytes.GONE)
    order, resumed = runtime.store.write(partial(_begin, order=wanted, asked_by=asked_by, now=runtime.clock()))
    receipt = carry_out(runtime, order, resumed=resumed, vacuum=vacuum)
    if resumed and order.before != before:
        return purge(runtime, space, what, session=session, before=before, asked_by=asked_by, vacuum=vacuum)
    return receipt


def dry_run(runtime: Runtime, order: Order) -> Receipt:
    """What would go. Nothing does."""

    class Undone(Exception):
        pass

    now, found = runtime.clock(), Counter[str]()
    known = runtime.store.read(partial(_known, order=order))

    def count(tx: Tx) -> None:
        found.clear()
        removal = Removal(runtime, tx, order, now, limit=1 << 60)
        removal.run()
        found.update(removal.counts)
        raise Undone

    with suppress(Undone):
        runtime.store.write(count)
    files = Places(runtime, order).count(known.sessions)
    return Receipt("", order.what, _digest(order), now, order.space.tenant, order.before, counts=_counted(found, files))


def _begin(tx: Tx, *, order: Order, asked_by: str | None, now: datetime) -> tuple[Order, bool]:
    """The mark, or that of an earlier one which is not done."""
    tenant = order.space.tenant
    old = Purges(tx).unfinished(Scope(tenant), order.what, _digest(order))
    if old is not None:
        return replace(order, receipt=old.id, before=old.before), True
    Purges(tx).open_receipt(
        Scope(tenant), Receipt(order.receipt, order.what, _digest(order), now, tenant, order.before, asked_by=asked_by)
    )
    Jobs(tx).ask(order.space, PURGE, order.detail(), now, now + _HEAD_START)
    return order, False


def _digest(order: Order) -> str:
    return digest_of(order.space.tenant, order.name)


def carry_out(runtime: Runtime, order: Order, *, resumed: bool, vacuum: bool = False) -> Receipt:
    known = runtime.store.read(partial(_known, order=order))
    known.resumed = resumed
    if runtime.ledger is not None:  # what is counted names the user: it has to be where names are taken out
        runtime.ledger.flush()
    places = Places(runtime, order)
    places.before_rows()
    while not runtime.store.write(partial(_remove_some, runtime=runtime, order=order, known=known)):
        log.debug("a purge goes on")
    known.files += places.after_rows(known.sessions, known.records, resumed=resumed)
    left = [*runtime.store.read(partial(_rows_left, order=order)), *places.left(known.sessions)]
    said = _still_said(runtime, order, known.samples)
    receipt = runtime.store.write(
        partial(_finish, runtime=runtime, order=order, files=known.files, left=left, said=said)
    )
    began, erased = runtime.clock(), runtime.store.erase(whole=False, vacuum=vacuum)
    runtime.store.write(partial(_note_bytes, receipt=receipt, erased=erased, began=began))
    if erased is Bytes.WAITING:
        runtime.wake_worker()
    return replace(receipt, bytes=erased)


def _known(tx: Tx, *, order: Order) -> _Progress:
    if order.what is What.USER:
        sessions = Purges(tx).sessions(order.space)
    elif order.session is not None:
        sessions = [order.session]
    else:
        assert order.before is not None
        found = [Sessions(tx).get(order.of_session(id)) for id in Purges(tx).sessions_before(order.space, order.before)]
        sessions = [info.id for info in found if info is not None and info.last_active_at < order.before]
    samples = Purges(tx).sample(order.space, _SAMPLES, order.session, order.before)
    return _Progress(set(sessions), samples=[text for text in samples if len(text) >= _LONG_ENOUGH])


def _remove_some(tx: Tx, *, runtime: Runtime, order: Order, known: _Progress) -> bool:
    keys = _unname(tx, order)
    removal = Removal(runtime, tx, order, runtime.clock())
    done = removal.run()
    receipt = Purges(tx).receipt(Scope(order.space.tenant), order.receipt)
    assert receipt is not None
    counts = Counter(receipt.counts)
    counts.update(removal.counts)
    counts["api_keys"] += keys
    Purges(tx).write_receipt(Scope(order.space.tenant), replace(receipt, counts=_counted(counts)))
    known.records += [id for id in removal.records if id not in known.records]
    return done


def _unname(tx: Tx, order: Order) -> int:
    """Who did what stays, and nobody can read there any more who this was; what they were granted goes.

    So do their keys, whose names stand in the audit: answers how many.
    """
    if order.what is not What.USER:
        return 0
    scope = Scope(order.space.tenant, user=order.space.owner)
    # The receipt's number: whoever knows the name could guess it from a digest of it.
    keys = ApiKeys(tx).erase(scope, order.receipt)
    Grants(tx).erase(scope, order.receipt)
    AuditEntries(tx).erase(scope, order.receipt)
    return keys


def _counted(counts: Counter[str], files: int = 0) -> dict[str, int]:
    counted = Counter(counts)
    counted["files"] += files
    return {kind: number for kind, number in sorted(counted.items()) if number}


def _finish(tx: Tx, *, runtime: Runtime, order: Order, files: int, left: list[str], said: list[str]) -> Receipt:
    """Done but for the bytes. The job that would finish it names the user, so that it must go before those do."""
    now = runtime.clock()
    receipt = Purges(tx).receipt(Scope(order.space.tenant), order.receipt)
    assert receipt is not None
    if receipt.done_at is not None:  # somebody else was at it, too
        return receipt
    done = replace(
        receipt,
        done_at=now,
        counts=_counted(Counter(receipt.counts), files),
        verified=not left,
        left=tuple([*left, *said][:_NAMED]),
    )
    _unname(tx, order)
    Purges(tx).write_receipt(Scope(order.space.tenant), done)
    Purges(tx).withdraw(order.space, PURGE, order.detail())
    Jobs(tx).ask(STORE, SCRUB, "", now, now + _HEAD_START)
    return done


def _note_bytes(tx: Tx, *, receipt: Receipt, erased: Bytes, began: datetime) -> None:
    if erased is Bytes.WAITING:
        Jobs(tx).ask(STORE, SCRUB, "", began)
        return
    Purges(tx).withdraw(STORE, SCRUB, "")
    if erased is Bytes.GONE:
        Purges(tx).erased(STORE, began)
    Purges(tx).write_receipt(Scope(receipt.tenant), replace(receipt, bytes=erased))


# What is left


def _rows_left(tx: Tx, *, order: Order) -> list[str]:
    purges, space = Purges(tx), order.space
    if order.what is What.USER:
        return [f"{number} rows in {table}" for table, number in purges.count_space(space).items()]
    if order.session is not None:
        rest = [f"record {id}" for id in purges.learned_from(space, order.session)]
        return rest + ([f"session {order.session}"] if Sessions(tx).get(order.of_session(order.session)) else [])
    assert order.before is not None
    rest = [f"session {id}" for id in purges.sessions_before(space, order.before)]
    rest += [f"record {id}" for id in purges.records_before(space, order.before, _NAMED)]
    return rest + [f"document {id}" for id in purges.documents_before(space, order.before, _NAMED)]


def _still_said(runtime: Runtime, order: Order, samples: Iterable[str]) -> list[str]:
    """Where a search finds some of what went: said elsewhere by the user, or kept for the whole tenant."""
    everybody = Space(order.space.tenant, Level.GLOBAL, "")
    return list(dict.fromkeys(place for text in samples for place in _places(runtime, (order.space, everybody), text)))


def _places(runtime: Runtime, spaces: Collection[Space], text: str) -> list[str]:
    now = runtime.clock()
    wanted = Search(
        Question.read(text[:2000], now), ChunkQuery(), recipes.WORDS, _LOOKED_AT, runtime.config.search, now
    )
    hits = runtime.store.read(lambda tx: [hit for space in spaces for hit in search(tx, space, wanted)])
    return [_place(hit.source) for hit in hits if text.casefold() in hit.text.casefold()]


def _place(source: Source) -> str:
    """By numbers alone: a receipt names nobody."""
    if source.kind is SourceKind.MESSAGE:
        return f"message {source.first_sequence} of session {source.session_id}"
    return f"{source.kind.value} {source.id}"


# Jobs


def job(runtime: Runtime) -> Handler:
    """Finish what somebody began."""

    def run(claim: Claim) -> datetime | None:
        order = Order.read(claim.job.space, claim.job.detail)
        receipt = runtime.store.read(lambda tx: Purges(tx).receipt(Scope(order.space.tenant), order.receipt))
        if receipt is not None and receipt.done_at is None:
            done = carry_out(runtime, order, resumed=True)
            log.info("a purge that was begun at %s is finished: %d rows and files", done.asked_at, done.total)
            claim.finished = True  # its row went with the last step
        return None

    return run


def scrub_job(runtime: Runtime) -> Handler:
    """Empty the unused places of the file; again in a while, as long as somebody is in the way."""

    def run(claim: Claim) -> datetime | None:
        began = claim.now()
        claim.renew()
        erased = runtime.store.erase(whole=True)
        if erased is Bytes.WAITING:
            return began + _LOOK_AGAIN
        if erased is Bytes.GONE:
            runtime.store.write(lambda tx: Purges(tx).erased(STORE, began))
        return None

    return run
