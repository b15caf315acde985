"""Condensing a session's history: by hand, when it is due, and before a context that would leave messages out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from limpet.api.runtime import Runtime
from limpet.context import collect
from limpet.context.collect import ContextRequest, Recalled
from limpet.context.compose import Candidates
from limpet.model.context import Context
from limpet.model.job import COMPACT
from limpet.model.message import Message
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import CompactionResult, SessionInfo
from limpet.sessions import compaction_due, summary, usage
from limpet.sessions.compaction_due import Load, Plan, Reason
from limpet.sessions.compaction_roll import Compactor
from limpet.sessions.repository import Sessions
from limpet.sessions.summarize import Summariser, SummaryDraft
from limpet.store.claim import JobLease
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx


def compact(runtime: Runtime, scope: Scope, keep: int) -> CompactionResult:
    """Condense all but the newest messages, due or not."""
    return _build_compactor(runtime, scope).compact(lambda load: compaction_due.plan_manual(load, keep), Reason.NOTHING)


def compact_if_due(runtime: Runtime, scope: Scope, window: int | None = None) -> CompactionResult:
    """Condense as far as the settings want it, for a model with that window."""
    limits = runtime.config.compact
    idle = Reason.NOT_DUE if limits.enabled else Reason.SWITCHED_OFF
    return _build_compactor(runtime, scope, window).compact(
        lambda load: compaction_due.plan_due(load, window, limits), idle
    )


def make_compaction_handler(runtime: Runtime) -> Callable[[JobLease], datetime | None]:
    """Condense a session where that is due. Where no model is at hand the next turn does it, as quickly."""

    def run(claim: JobLease) -> None:
        space = claim.job.space
        scope = Scope(space.tenant, user=space.owner, session=claim.job.detail)
        info = runtime.store.read(lambda tx: Sessions(tx).get(scope))
        if info is not None and runtime.llm is not None:
            compact_if_due(replace(runtime, config=runtime.config.for_agent(info.agent)), scope)

    return run


def enqueue(runtime: Runtime, tx: Tx, info: SessionInfo) -> None:
    """In the transaction of a turn: only a model takes long enough to be worth a job."""
    limits = runtime.config.compact
    if limits.enabled and limits.background and runtime.llm is not None:
        Jobs(tx).enqueue(Partition(info.tenant, Level.USER, info.user), COMPACT, info.id, runtime.clock())


class ContextCompaction(NamedTuple):
    """A context, and what was condensed so that it leaves nothing untold."""

    context: Context
    compacted: tuple[CompactionResult, ...] = ()


def compose_complete_context(
    runtime: Runtime,
    scope: Scope,
    asked: ContextRequest,
    known: Recalled,
    window: int | None = None,
    unsaved: Message | None = None,
) -> ContextCompaction:
    """A context in which every message is found: among its messages, or in the range of its summary."""
    assert scope.session is not None
    done: tuple[CompactionResult, ...] = ()
    offered = collect.collect_candidates(runtime, asked, scope.session, known)
    found = compose_conversation(runtime, scope, asked, known, unsaved, offered)
    # The longer summary takes room itself. What it pushes out is condensed in a second round, and all of it then.
    for everything in (False, True) if _is_summary_used(runtime) else ():
        compacted = _compact_left_out(runtime, scope, window, found, everything=everything)
        if not compacted.done:
            break
        done = (*done, compacted)
        found = compose_conversation(runtime, scope, asked, known, unsaved, offered)
    return ContextCompaction(found, done)


def compose_conversation(
    runtime: Runtime,
    scope: Scope,
    asked: ContextRequest,
    known: Recalled,
    unsaved: Message | None = None,
    offered: Candidates | None = None,
) -> Context:
    """The conversation as it stands, with a message that could not be kept."""
    said = collect.load_conversation(runtime, scope, asked)
    return collect.compose_context(
        runtime, asked, said if unsaved is None else said.with_message(unsaved), known, offered
    )


def _is_summary_used(runtime: Runtime) -> bool:
    """A summary that is not shown covers nothing."""
    return runtime.config.compact.enabled and runtime.config.context.show_summary


def _compact_left_out(
    runtime: Runtime, scope: Scope, window: int | None, found: Context, *, everything: bool
) -> CompactionResult:
    shown = {message.sequence for message in found.messages}

    def plan(load: Load) -> Plan | None:
        return compaction_due.plan_left_out(load, shown, everything=everything)

    return _build_compactor(runtime, scope, window).compact(plan, Reason.NOT_DUE)


def _build_compactor(runtime: Runtime, scope: Scope, window: int | None = None) -> Compactor:
    config = runtime.config
    limits = compaction_due.fit_window(config.compact, window)
    summariser = Summariser(limits, runtime.count, runtime.llm, config.llm.timeout_s)

    def bill(tx: Tx, whose: Scope, written: SummaryDraft) -> None:
        if runtime.llm is not None and written.calls:
            usage.add(tx, whose, usage.build_llm_usage(runtime.llm.model, written.calls, written.usage))

    return Compactor(runtime.store, scope, summariser, runtime.cost, runtime.clock, summary.swap, bill)
