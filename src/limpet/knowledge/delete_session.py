"""Delete a session with everything under it, and the records of its turns, which quote its messages.

The first transaction hides the session: nobody finds it or anything of it any more. What it consists of is removed in
slices, so that nobody waits long; a small session is one slice. A job that is enqueued with the first slice removes
what a process that was killed leaves behind. What was learned from the session stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from limpet.knowledge.remember import RecordChunker, delete_records, find_with_copies
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass
from limpet.model.job import REMOVE_SESSION
from limpet.model.record import RecordQuery
from limpet.model.scope import Partition, Scope
from limpet.model.values import Clock
from limpet.search.chunk_repository import Chunks
from limpet.search.graph_repository import GraphTables
from limpet.sessions.repository import DeletedSessions, Sessions
from limpet.store.jobs import JobLease, Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

_RECORDS, _MESSAGES = 50, 500  # removed in one transaction
_HEAD_START = timedelta(seconds=60)  # how long the job waits for the caller


class RemovedSlice(NamedTuple):
    """How much of each kind went, the ids of the records, and whether nothing is left."""

    counts: Mapping[str, int]
    records: tuple[str, ...] = ()
    done: bool = True

    def __add__(self, other: RemovedSlice) -> RemovedSlice:  # type: ignore[override]  # slices add up, they do not join
        counts = Counter(self.counts)
        counts.update(other.counts)
        return RemovedSlice(counts, self.records + other.records, other.done)


@dataclass(frozen=True, slots=True)
class SessionRemover:
    store: Store
    cut: RecordChunker
    clock: Clock

    def delete(self, scope: Scope, is_due: Callable[[Tx], bool] = lambda _: True) -> RemovedSlice:
        """Delete the session, if ``is_due`` says so in the first transaction."""

        def begin(tx: Tx) -> RemovedSlice:
            return delete_session(tx, scope, self.cut, self.clock()) if is_due(tx) else RemovedSlice({})

        assert scope.session is not None
        gone = self.store.write(begin)
        return gone if gone.done else gone + self.finish(scope.partition, scope.session)

    def run_job(self, lease: JobLease) -> RemovedSlice:
        """Remove what a process that was killed has left of a session."""
        gone = self.finish(lease.job.partition, lease.job.detail, lease.renew)
        lease.finished = True  # its row went with the last slice
        return gone

    def finish(self, partition: Partition, session: str, between: Callable[[], None] = lambda: None) -> RemovedSlice:
        gone = RemovedSlice({}, done=False)
        while not gone.done:
            between()
            gone += self.store.write(lambda tx: remove_slice(tx, partition, session, self.cut, self.clock()))
        return gone


def delete_session(tx: Tx, scope: Scope, cut: RecordChunker, now: datetime) -> RemovedSlice:
    """Hide the session and remove the first slice of it. If there is more, a job removes it unless the caller does."""
    info = Sessions(tx).lock(scope)
    Sessions(tx).hide(info.scope)
    gone = remove_slice(tx, info.partition, info.id, cut, now)
    if not gone.done:
        Jobs(tx).enqueue(info.partition, REMOVE_SESSION, info.id, now, now + _HEAD_START)
    return gone


def remove_slice(tx: Tx, partition: Partition, session: str, cut: RecordChunker, now: datetime) -> RemovedSlice:
    """Remove a slice of a session that was deleted: its records, then its chunks, then its messages, then the rest."""
    if not DeletedSessions(tx).exists(partition, session):
        Jobs(tx).cancel(partition, REMOVE_SESSION, session)
        return RemovedSlice({})
    gone = _remove_records(tx, partition, session, cut, now)
    if gone.done:
        chunks, done = Chunks(tx).drop_session_slice(partition, session)
        gone += RemovedSlice({"chunks": chunks}, done=done)
    if gone.done:
        gone += _remove_messages(tx, partition, session)
    if gone.done:
        gone += RemovedSlice(DeletedSessions(tx).delete(partition, session))
        Jobs(tx).cancel(partition, REMOVE_SESSION, session)
    return gone


def _remove_records(tx: Tx, partition: Partition, session: str, cut: RecordChunker, now: datetime) -> RemovedSlice:
    under = Scope(partition.tenant, user=partition.owner, session=session)  # a session's records name no agent
    own = Records(tx).find(under, RecordQuery(include_past=True, limit=_RECORDS), now)
    turns = Records(tx).find_turns(partition, session, _RECORDS)
    quoting = find_with_copies(tx, Scope(partition.tenant), [turn.id for turn in turns])
    records = {record.id: record for record in [*own, *quoting]}
    gone = delete_records(tx, list(records.values()), cut, now)
    return RemovedSlice(gone.counts, gone.ids, done=max(len(own), len(turns)) < _RECORDS)


def _remove_messages(tx: Tx, partition: Partition, session: str) -> RemovedSlice:
    sequences = DeletedSessions(tx).find_messages(partition, session, _MESSAGES)
    mentions = GraphTables(tx).drop_messages(partition, session, sequences)
    gone = DeletedSessions(tx).delete_messages(partition, session, sequences)
    counts = {"messages": gone, **({"mentions": mentions} if mentions else {})}
    return RemovedSlice(counts, done=len(sequences) < _MESSAGES)
