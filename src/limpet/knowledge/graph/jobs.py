"""The graph: read from messages and records by jobs, and shown.

A session's messages are read once each: how far is a cursor, moved in the transaction that stores what was read, so
that a second worker or a second run finds nothing left to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from limpet.api.runtime import Runtime, make_redactor
from limpet.errors import ProviderError, SessionNotFound, StoreReadOnly
from limpet.knowledge.graph.repository import GraphTables
from limpet.knowledge.repository import Records
from limpet.model.graph import Graph
from limpet.model.job import GRAPH, GRAPH_RECORD
from limpet.model.message import Message
from limpet.model.scope import Partition, Scope
from limpet.sessions import usage
from limpet.sessions.repository import Cursors, Messages, Sessions
from limpet.store.claim import JobHandler, JobLease
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx
from limpet.store.worker import Worker

if TYPE_CHECKING:
    from limpet.knowledge.graph.llm import LlmGraphResult

log = logging.getLogger("limpet.knowledge")

CURSOR = GRAPH


def session_job(runtime: Runtime) -> JobHandler:
    def run(claim: JobLease) -> datetime | None:
        if not runtime.config.graph.enabled:
            return None
        return claim.now() if read_session(runtime, claim.job.space, claim.job.detail, claim.finish) else None

    return run


def record_job(runtime: Runtime) -> JobHandler:
    def run(claim: JobLease) -> datetime | None:
        if runtime.config.graph.enabled:
            read_record(runtime, claim.job.space, claim.job.detail, claim.finish)
        return None

    return run


def read_session(
    runtime: Runtime, space: Partition, session_id: str, finish: Callable[[Tx], None] = lambda _: None
) -> bool:
    """Read the next messages of a session. True when there are more; else ``finish`` is in the same transaction."""
    scope = Scope(space.tenant, user=space.owner, session=session_id)
    batch = runtime.config.graph.batch

    def read_batch(tx: Tx) -> tuple[int, list[Message]]:
        done = Cursors(tx).get(scope, CURSOR)
        return done, Messages(tx).range(scope, done, None, batch)

    done, messages = runtime.store.read(read_batch)
    read = _extract_messages(
        runtime, session_id, [_mask_message(message, make_redactor(runtime.config)) for message in messages]
    )

    def write(tx: Tx) -> bool:
        try:
            head = Sessions(tx).get_head(scope)
        except SessionNotFound:  # deleted meanwhile, with all that would have been read from it
            finish(tx)
            return False
        if Cursors(tx).get(scope, CURSOR) != done:
            return True  # somebody else was at it: look again what is left
        last = messages[-1].sequence if messages else head.last_sequence
        if Messages(tx).range(scope, done, last + 1, batch) != messages:
            return True  # cleared or forgotten meanwhile: what was read of them must not stay
        GraphTables(tx).add(space, read.told)
        if runtime.llm is not None and read.calls:
            usage.add(tx, scope, usage.build_llm_usage(runtime.llm.model, read.calls, read.used))
        if last > done:
            Cursors(tx).set(scope, CURSOR, last)
        if head.last_sequence > last:
            return True
        finish(tx)
        return False

    return runtime.store.write(write)


def read_record(
    runtime: Runtime, space: Partition, record_id: str, finish: Callable[[Tx], None] = lambda _: None
) -> None:
    """Put what a record says in the place of what it said before."""
    from limpet.knowledge.graph import read as told  # late, as all of it here: the rules have many patterns

    most, mask = runtime.config.graph.message_names, make_redactor(runtime.config)

    def write(tx: Tx) -> None:
        record = Records(tx).lock(Scope(space.tenant), record_id)
        GraphTables(tx).drop_record(space, record_id)
        if record is not None and record.home.space == space:
            plain = replace(record, title=record.title and mask(record.title), content=mask(record.content))
            GraphTables(tx).add(space, [told.extract_from_record(plain, most)])
        finish(tx)

    runtime.store.write(write)


def _mask_message(message: Message, mask: Callable[[str], str]) -> Message:
    plain = mask(message.text)
    return message if plain == message.text else replace(message, content=plain)


def _extract_messages(runtime: Runtime, session_id: str, messages: Sequence[Message]) -> LlmGraphResult:
    from limpet.knowledge.graph import llm
    from limpet.knowledge.graph import read as told

    settings, now = runtime.config.graph, runtime.clock()
    by_rules = [told.extract_from_message(message, session_id, now, settings.message_names) for message in messages]
    if runtime.llm is None or not settings.llm:
        return llm.LlmGraphResult(by_rules)
    whole = llm.LlmGraphResult([])
    for at in range(0, len(messages), settings.llm_messages):
        page = messages[at : at + settings.llm_messages]
        part = llm.LlmGraphResult(by_rules[at : at + settings.llm_messages])
        try:
            part = llm.extract_graph(
                runtime.llm, page, part.told, settings.message_names, timeout=runtime.config.llm.timeout_s
            )
        except ProviderError as error:
            log.warning("%s read nothing for the graph; rules stand in for it: %s", runtime.llm.name, error)
        except Exception:  # why: a model that somebody handed over may raise anything, and the job goes on by rules
            log.warning("%s read nothing for the graph; rules stand in for it", runtime.llm.name, exc_info=True)
        whole = llm.LlmGraphResult(whole.told + part.told, whole.calls + part.calls, whole.used + part.used)
    return whole


def catch_up(runtime: Runtime, space: Partition, *, now: bool) -> None:
    """Have read what was not yet, in the background or ``now``: also what was said while the graph was switched off."""
    if not runtime.config.graph.enabled:
        return
    left = runtime.store.read(lambda tx: GraphTables(tx).find_unread_sessions(space, CURSOR))
    with suppress(StoreReadOnly):  # whoever may not write may look at what there is
        if left:
            runtime.store.write(lambda tx: _enqueue_sessions(tx, space, left, runtime.clock()))
        if now:
            _build_worker(runtime).run(until_idle=True)
        elif left:
            runtime.wake_worker()


def _enqueue_sessions(tx: Tx, space: Partition, sessions: Sequence[str], now: datetime) -> None:
    for session_id in sessions:
        Jobs(tx).enqueue(space, GRAPH, session_id, now)


def _build_worker(runtime: Runtime) -> Worker:
    """A worker that does nothing else."""
    worker = Worker(runtime.store, runtime.clock, runtime.config.jobs, lambda: 1.0, runtime.observers)
    worker.register(GRAPH, session_job(runtime))
    worker.register(GRAPH_RECORD, record_job(runtime))
    return worker


def load_graph(runtime: Runtime, space: Partition, entity: str | None, depth: int) -> Graph:
    from limpet.knowledge.graph import assemble

    limits = runtime.config.graph

    def read(tx: Tx) -> Graph:
        part = assemble.select_subgraph(
            GraphTables(tx).nodes(space), GraphTables(tx).links(space), entity, depth, limits.entities
        )
        seen = GraphTables(tx).mentions(space, part.node_numbers, limits.mentions + 1)
        return assemble.assemble_graph(part, seen[: limits.mentions], cut=len(seen) > limits.mentions)

    return runtime.store.read(read)
