"""A purge from its mark to its receipt.

The mark comes first: a receipt that is not done, and a job that finishes it whatever happens to this process. Then the
rows, in one transaction if they fit; the files; a look at what is left; the bytes. Every step can be done again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial

from limpet.config import Config
from limpet.lifecycle.item_sync import ItemSync
from limpet.lifecycle.purge_files import PurgeFiles
from limpet.lifecycle.purge_repository import PurgeRequest, Purges
from limpet.lifecycle.purge_rows import PurgeTransaction
from limpet.model.chunk import ChunkQuery, Source, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import PURGE, SCRUB
from limpet.model.privacy import ErasureState, PurgeTarget, Receipt
from limpet.model.scope import STORE_PARTITION, Level, Partition, Scope
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock, IdFactory
from limpet.notes.user_notes import UserNotes
from limpet.search import recipes
from limpet.search.analysis import Question
from limpet.search.search import SearchRequest, search
from limpet.security.access_repository import ApiKeys, Grants
from limpet.security.audit import AuditEntries
from limpet.sessions.repository import DeletedSessions, Sessions
from limpet.store.jobs import JobLease, Jobs
from limpet.store.store import Store
from limpet.store.tx import Partitions, Tx

log = logging.getLogger("limpet.purge")

# How long the job waits for the caller. A purge that takes longer is done by both, with the same result.
_HEAD_START = timedelta(seconds=60)
_RETRY_DELAY = timedelta(seconds=10)
_SAMPLES, _MIN_SAMPLE_CHARS, _MAX_HITS, _MAX_LEFT = 5, 20, 10, 20


@dataclass(slots=True)
class _PurgeState:
    """What this process knows of the purge; one that takes it up later knows less."""

    sessions: set[str] = field(default_factory=set)
    records: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    beside: Counter[str] = field(default_factory=Counter)  # notes and files that went


@dataclass(frozen=True, slots=True)
class Purger:
    """Removes everything of a user, of a session, or older than a moment, and verifies that it is gone."""

    store: Store
    config: Config
    notes: UserNotes
    item_sync: Callable[[Scope], ItemSync | None]
    mask: Callable[[str], str]
    count: TokenCounter
    clock: Clock
    new_id: IdFactory
    flush_audit: Callable[[], None]
    wake_worker: Callable[[], None]
    stateless: bool  # nothing is ever stored

    def purge(self, asked: PurgeRequest, *, vacuum: bool = False) -> Receipt:
        """Done when it returns. One that was begun before, and interrupted, is finished first."""
        now, wanted = self.clock(), replace(asked, receipt=self.new_id())
        if self.stateless:  # nothing was ever kept
            return replace(wanted.to_receipt(now), done_at=now, verified=True, bytes=ErasureState.GONE)
        order, resumed = self.store.write(partial(_begin, order=wanted, now=now))
        receipt = self.run_purge(order, resumed=resumed, vacuum=vacuum)
        return self.purge(asked, vacuum=vacuum) if resumed and order.before != asked.before else receipt

    def dry_run(self, order: PurgeRequest) -> Receipt:
        now, order = self.clock(), replace(order, receipt=self.new_id())
        known = self.store.read(partial(_read_state, order=order))

        def count(tx: Tx) -> Counter[str]:
            removal = PurgeTransaction(tx, order, self.config, self.count, now)
            while not removal.run():
                log.debug("a purge goes on")
            return removal.counts

        counts = _nonzero_counts(self.store.rehearse(count) + self._files(order).count(known.sessions))
        return replace(order.to_receipt(now), id="", counts=counts)

    def delete_note_lines(self, space: Partition, session: str) -> int:
        """Remove what the daily notes say of a session's turns. Returns how many lines went."""
        return self._files(PurgeRequest(PurgeTarget.SESSION, space, session)).delete_session_lines()

    def _files(self, order: PurgeRequest) -> PurgeFiles:
        return PurgeFiles(self.store, self.notes, self.item_sync, self.mask, self.clock, order)

    def run_purge(self, order: PurgeRequest, *, resumed: bool, vacuum: bool = False) -> Receipt:
        known = self.store.read(partial(_read_state, order=order))
        self.flush_audit()  # what is counted names the user: it has to be where names are removed
        places = self._files(order)
        places.delete_session_lines()
        known.beside["notes"] += places.delete_old_notes()
        known.beside["files"] += places.delete_before_rows()
        while not self.store.write(partial(self._delete_batch, order=order, known=known)):
            log.debug("a purge goes on")
        known.beside["files"] += places.delete_after_rows(known.sessions, known.records, resumed=resumed)
        left = [*self.store.read(partial(_find_rows_left, order=order)), *places.find_remaining(known.sessions)]
        said = self._find_remaining_mentions(order, known.samples)
        receipt = self.store.write(partial(self._finish, order=order, beside=known.beside, left=left, said=said))
        self.store.forget_texts()
        began, erased = self.clock(), self.store.erase(whole=False, vacuum=vacuum)
        self.store.write(partial(_record_bytes, receipt=receipt, erased=erased, began=began))
        if erased is ErasureState.WAITING:
            self.wake_worker()
        return replace(receipt, bytes=erased)

    def _delete_batch(self, tx: Tx, *, order: PurgeRequest, known: _PurgeState) -> bool:
        keys = _anonymize(tx, order)
        removal = PurgeTransaction(tx, order, self.config, self.count, self.clock())
        done = removal.run()
        receipt = Purges(tx).get_receipt(Scope(order.space.tenant), order.receipt)
        assert receipt is not None
        counts = Counter(receipt.counts)
        counts.update(removal.counts)
        counts["api_keys"] += keys
        Purges(tx).update_receipt(Scope(order.space.tenant), replace(receipt, counts=_nonzero_counts(counts)))
        known.records += [id for id in removal.records if id not in known.records]
        return done

    def _finish(
        self, tx: Tx, *, order: PurgeRequest, beside: Counter[str], left: list[str], said: list[str]
    ) -> Receipt:
        """Done but for the bytes. The job that would finish it names the user, so that it must go before those do."""
        now = self.clock()
        receipt = Purges(tx).get_receipt(Scope(order.space.tenant), order.receipt)
        assert receipt is not None
        if receipt.done_at is not None:  # another process finished it
            return receipt
        done = replace(
            receipt,
            done_at=now,
            counts=_nonzero_counts(beside + Counter(receipt.counts)),
            verified=not left,
            left=tuple([*left, *said][:_MAX_LEFT]),
        )
        _anonymize(tx, order)
        Purges(tx).update_receipt(Scope(order.space.tenant), done)
        tx.db.run("purge.count", {})
        Jobs(tx).cancel(order.space, PURGE, order.to_detail())
        Jobs(tx).enqueue(STORE_PARTITION, SCRUB, "", now, now + _HEAD_START)
        return done

    def _find_remaining_mentions(self, order: PurgeRequest, samples: Iterable[str]) -> list[str]:
        """Where a search finds some of what went: said elsewhere by the user, or kept for the whole tenant."""
        everybody = Partition(order.space.tenant, Level.GLOBAL, "")
        return list(
            dict.fromkeys(place for text in samples for place in self._find_mentions((order.space, everybody), text))
        )

    def _find_mentions(self, spaces: Collection[Partition], text: str) -> list[str]:
        now = self.clock()
        wanted = SearchRequest(
            Question.parse(text[:2000], now), ChunkQuery(), recipes.WORDS, _MAX_HITS, self.config.search, now
        )
        hits = self.store.read(lambda tx: [hit for space in spaces for hit in search(tx, space, wanted)])
        return [_describe_source(hit.source) for hit in hits if text.casefold() in hit.text.casefold()]

    def run_purge_job(self, lease: JobLease) -> datetime | None:
        order = PurgeRequest.from_detail(lease.job.partition, lease.job.detail)
        receipt = self.store.read(lambda tx: Purges(tx).get_receipt(Scope(order.space.tenant), order.receipt))
        if receipt is not None and receipt.done_at is None:
            done = self.run_purge(order, resumed=True)
            log.info("a purge that was begun at %s is finished: %d rows and files", done.asked_at, done.total)
            lease.finished = True  # its row went with the last step
        return None

    def run_scrub_job(self, lease: JobLease) -> datetime | None:
        """Empty the unused places of the file; again in a while, as long as a reader is in the way."""
        began = lease.now()
        lease.renew()
        erased = self.store.erase(whole=True)
        if erased is ErasureState.WAITING:
            return began + _RETRY_DELAY
        if erased is ErasureState.GONE:
            self.store.write(lambda tx: Purges(tx).mark_erased(STORE_PARTITION, began))
        return None


def _begin(tx: Tx, *, order: PurgeRequest, now: datetime) -> tuple[PurgeRequest, bool]:
    """The mark, or that of an earlier one which is not done."""
    tenant = Scope(order.space.tenant)
    Partitions(tx).lock(order.space)  # else two callers would begin it
    old = Purges(tx).find_unfinished(tenant, order.what, order.digest)
    if old is not None:
        return replace(order, receipt=old.id, before=old.before), True
    Purges(tx).insert_receipt(tenant, order.to_receipt(now))
    Jobs(tx).enqueue(order.space, PURGE, order.to_detail(), now, now + _HEAD_START)
    return order, False


def _read_state(tx: Tx, *, order: PurgeRequest) -> _PurgeState:
    if order.what is PurgeTarget.USER:
        sessions = Purges(tx).find_sessions(order.space, order)
    elif order.session is not None:
        sessions = [order.session]
    else:
        assert order.before is not None
        found = Purges(tx).find_sessions_before(order.space, order.before)
        sessions = [session for session in found if Purges(tx).is_over(order.session_scope(session), order)]
    samples = Purges(tx).sample_texts(order.space, order, _SAMPLES)
    return _PurgeState(set(sessions), samples=[text for text in samples if len(text) >= _MIN_SAMPLE_CHARS])


def _anonymize(tx: Tx, order: PurgeRequest) -> int:
    """The audit log keeps what was done, without the name; grants go.

    So do their keys, whose names stand in the audit: answers how many.
    """
    if order.what is not PurgeTarget.USER:
        return 0
    scope = Scope(order.space.tenant, user=order.space.owner)
    # The receipt's number: a digest of the name could be confirmed by guessing.
    keys = ApiKeys(tx).erase(scope, order.receipt)
    Grants(tx).erase(scope, order.receipt)
    AuditEntries(tx).erase(scope, order.receipt)
    return keys


def _nonzero_counts(counts: Counter[str]) -> dict[str, int]:
    return {kind: number for kind, number in sorted(counts.items()) if number}


def _record_bytes(tx: Tx, *, receipt: Receipt, erased: ErasureState, began: datetime) -> None:
    if erased is ErasureState.WAITING:
        Jobs(tx).enqueue(STORE_PARTITION, SCRUB, "", began)
        return
    Jobs(tx).cancel(STORE_PARTITION, SCRUB, "")
    if erased is ErasureState.GONE:
        Purges(tx).mark_erased(STORE_PARTITION, began)
    Purges(tx).update_receipt(Scope(receipt.tenant), replace(receipt, bytes=erased))


# What is left


def _find_rows_left(tx: Tx, *, order: PurgeRequest) -> list[str]:
    purges, space = Purges(tx), order.space
    if order.what is PurgeTarget.USER:
        return [f"{number} rows in {table}" for table, number in purges.count_partition(space, order).items()]
    if order.session is not None:
        rest = [f"record {id}" for id in purges.find_records_from_session(space, order.session)]
        left = Sessions(tx).get(order.session_scope(order.session)) or DeletedSessions(tx).exists(space, order.session)
        return rest + ([f"session {order.session}"] if left else [])
    assert order.before is not None
    explicit = order.takes_explicit
    found = purges.find_sessions_before(space, order.before)
    rest = [f"session {id}" for id in purges.find_deleted_sessions(space)]
    rest += [
        f"session {id}"
        for id in found
        if purges.find_messages_before(order.session_scope(id), order.before, 1)
        or purges.is_over(order.session_scope(id), order)
    ]
    rest += [f"record {id}" for id in purges.find_records_before(space, order.before, _MAX_LEFT, explicit=explicit)]
    documents = purges.find_documents_before(space, order.before, _MAX_LEFT) if explicit else ()
    return rest + [f"document {id}" for id in documents]


def _describe_source(source: Source) -> str:
    """By numbers alone: a receipt names no user."""
    if source.kind is SourceKind.MESSAGE:
        return f"message {source.first_sequence} of session {source.session_id}"
    return f"{source.kind.value} {source.id}"
