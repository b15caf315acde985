"""The graph: read from messages and records by jobs, and shown.

A session's messages are read once each: how far is a cursor, moved in the transaction that stores what was read, so
that a second worker or a second run finds nothing left to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from limpet.config import GraphSettings
from limpet.errors import ProviderError, SessionNotFound, StoreReadOnly
from limpet.knowledge.graph import extract
from limpet.knowledge.repository import Records
from limpet.model.dataclass import dataclass, replace
from limpet.model.graph import Graph, GraphDraft
from limpet.model.job import GRAPH, GRAPH_RECORD
from limpet.model.late import load_modules
from limpet.model.message import Message
from limpet.model.record import Record
from limpet.model.scope import Partition, Scope
from limpet.model.values import Clock
from limpet.providers.llm import Llm
from limpet.search.graph_repository import GraphTables
from limpet.sessions import usage
from limpet.sessions.repository import Cursors, Messages, Sessions
from limpet.sessions.summary import mask_message
from limpet.store.jobs import JobLease, Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx
from limpet.store.worker import Worker

if TYPE_CHECKING:
    from limpet.knowledge.graph.llm import LlmGraphResult

log = logging.getLogger("limpet.knowledge")

CURSOR = GRAPH


@dataclass(frozen=True, slots=True)
class GraphBuilder:
    """Reads messages and records into the graph, and shows it."""

    store: Store
    settings: GraphSettings
    llm: Llm | None
    llm_timeout: float
    mask: Callable[[str], str]
    clock: Clock
    wake_worker: Callable[[], None]
    make_worker: Callable[[], Worker]  # one that has no handlers yet

    def run_session_job(self, lease: JobLease) -> datetime | None:
        if not self.settings.enabled:
            return None
        return lease.now() if self.read_session(lease.job.partition, lease.job.detail, lease.finish) else None

    def run_record_job(self, lease: JobLease) -> datetime | None:
        if self.settings.enabled:
            self.read_record(lease.job.partition, lease.job.detail, lease.finish)
        return None

    def read_session(self, space: Partition, session_id: str, finish: Callable[[Tx], None] = lambda _: None) -> bool:
        """Read the next messages of a session. True when there are more; else ``finish`` is in the same transaction."""
        scope = Scope(space.tenant, user=space.owner, session=session_id)
        batch = self.settings.batch

        def read_batch(tx: Tx) -> tuple[int, list[Message]]:
            done = Cursors(tx).get(scope, CURSOR)
            return done, Messages(tx).range(scope, done, None, batch)

        done, messages = self.store.read(read_batch)
        read = self._extract_messages(session_id, [mask_message(message, self.mask) for message in messages])

        def write(tx: Tx) -> bool:
            try:
                head = Sessions(tx).lock_head(scope)
            except SessionNotFound:  # deleted meanwhile, with all that would have been read from it
                finish(tx)
                return False
            if Cursors(tx).get(scope, CURSOR) != done:
                return True  # another worker was faster: look again what is left
            last = messages[-1].sequence if messages else head.last_sequence
            if Messages(tx).range(scope, done, last + 1, batch) != messages:
                return True  # cleared or forgotten meanwhile: what was read of them must not stay
            # Words of a message may have been forgotten: then it is read once more, with those behind it.
            GraphTables(tx).drop_messages(space, session_id, [message.sequence for message in messages])
            GraphTables(tx).add(space, read.told)
            if self.llm is not None and read.calls:
                usage.add(tx, scope, usage.build_llm_usage(self.llm.model, read.calls, read.used))
            if last > done:
                Cursors(tx).set(scope, CURSOR, last)
            if head.last_sequence > last:
                return True
            finish(tx)
            return False

        return self.store.write(write)

    def read_record(self, space: Partition, record_id: str, finish: Callable[[Tx], None] = lambda _: None) -> None:
        """Put what a record says in the place of what it said before."""
        scope = Scope(space.tenant)

        def write(tx: Tx) -> bool:
            there = Records(tx).lock(scope, record_id)
            if (there and there.version) != (record and record.version):
                return False  # changed since it was read
            GraphTables(tx).drop_record(space, record_id)
            GraphTables(tx).add(space, told)
            finish(tx)
            return True

        is_written = False
        while not is_written:
            record = self.store.read(lambda tx: Records(tx).get(scope, record_id))
            told = self._extract_record(space, record)
            is_written = self.store.write(write)

    def _extract_record(self, space: Partition, record: Record | None) -> list[GraphDraft]:
        if record is None or record.home.space != space:
            return []
        mask = self.mask
        masked = replace(record, title=record.title and mask(record.title), content=mask(record.content))
        return [extract.extract_from_record(masked, self.settings.message_names)]

    def _extract_messages(self, session_id: str, messages: Sequence[Message]) -> LlmGraphResult:
        load_modules("limpet.knowledge.graph.llm")
        from limpet.knowledge.graph import llm

        settings, now = self.settings, self.clock()
        by_rules = [
            extract.extract_from_message(message, session_id, now, settings.message_names) for message in messages
        ]
        if self.llm is None or not settings.llm:
            return llm.LlmGraphResult(by_rules)
        whole = llm.LlmGraphResult([])
        for at in range(0, len(messages), settings.llm_messages):
            page = messages[at : at + settings.llm_messages]
            part = llm.LlmGraphResult(by_rules[at : at + settings.llm_messages])
            try:
                part = llm.extract_graph(self.llm, page, part.told, settings.message_names, timeout=self.llm_timeout)
            except ProviderError as error:
                log.warning("%s read nothing for the graph; rules stand in for it: %s", self.llm.name, error)
            except Exception:  # why: a model given by the caller may raise anything; the job goes on by rules
                log.warning("%s read nothing for the graph; rules stand in for it", self.llm.name, exc_info=True)
            whole = llm.LlmGraphResult(whole.told + part.told, whole.calls + part.calls, whole.used + part.used)
        return whole

    def catch_up(self, space: Partition, *, now: bool) -> None:
        """Read what was not read yet, in the background or ``now``, such as from before the graph was switched on."""
        if not self.settings.enabled:
            return
        left = self.store.read(lambda tx: GraphTables(tx).find_unread_sessions(space, CURSOR))
        with suppress(StoreReadOnly):  # a read-only store shows what it has
            if left:
                self.store.write(lambda tx: _enqueue_sessions(tx, space, left, self.clock()))
            if now:
                worker = self.make_worker()
                worker.register(GRAPH, self.run_session_job)
                worker.register(GRAPH_RECORD, self.run_record_job)
                worker.run(until_idle=True)
            elif left:
                self.wake_worker()

    def load_graph(self, space: Partition, entity: str | None, depth: int) -> Graph:
        load_modules("limpet.knowledge.graph.assemble")
        from limpet.knowledge.graph import assemble

        limits = self.settings

        def read(tx: Tx) -> Graph:
            part = assemble.select_subgraph(
                GraphTables(tx).nodes(space), GraphTables(tx).links(space), entity, depth, limits.entities
            )
            seen = GraphTables(tx).mentions(space, part.node_numbers, limits.mentions + 1)
            return assemble.assemble_graph(part, seen[: limits.mentions], cut=len(seen) > limits.mentions)

        return self.store.read(read)


def _enqueue_sessions(tx: Tx, space: Partition, sessions: Sequence[str], now: datetime) -> None:
    for session_id in sessions:
        Jobs(tx).enqueue(space, GRAPH, session_id, now)
