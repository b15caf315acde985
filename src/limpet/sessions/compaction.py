"""Condensing a session's history: by hand, when it is due, and before a context that would leave messages out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from limpet.api.runtime import Runtime
from limpet.context import collect
from limpet.context.collect import Asked, Known
from limpet.context.compose import Offered
from limpet.model.context import Context
from limpet.model.job import COMPACT
from limpet.model.message import Message
from limpet.model.scope import Level, Scope, Space
from limpet.model.session import Compacted, SessionInfo
from limpet.sessions import compaction_due, summary, usage
from limpet.sessions.compaction_due import Load, Plan, Reason
from limpet.sessions.compaction_roll import Roller
from limpet.sessions.repository import Sessions
from limpet.sessions.summarize import Summariser, Written
from limpet.store.claim import Claim
from limpet.store.jobs import Jobs
from limpet.store.tx import Tx


def compact(runtime: Runtime, scope: Scope, keep: int) -> Compacted:
    """Condense all but the newest messages, due or not."""
    return _roller(runtime, scope).roll(lambda load: compaction_due.asked(load, keep), Reason.NOTHING)


def compact_if_due(runtime: Runtime, scope: Scope, window: int | None = None) -> Compacted:
    """Condense as far as the settings want it, for a model with that window."""
    limits = runtime.config.compact
    idle = Reason.NOT_DUE if limits.enabled else Reason.SWITCHED_OFF
    return _roller(runtime, scope, window).roll(lambda load: compaction_due.due(load, window, limits), idle)


def job(runtime: Runtime) -> Callable[[Claim], datetime | None]:
    """Condense a session where that is due. Where no model is at hand the next turn does it, as quickly."""

    def run(claim: Claim) -> None:
        space = claim.job.space
        scope = Scope(space.tenant, user=space.owner, session=claim.job.detail)
        info = runtime.store.read(lambda tx: Sessions(tx).get(scope))
        if info is not None and runtime.llm is not None:
            compact_if_due(replace(runtime, config=runtime.config.of_agent(info.agent)), scope)

    return run


def ask(runtime: Runtime, tx: Tx, info: SessionInfo) -> None:
    """In the transaction of a turn: only a model takes long enough to be worth a job."""
    limits = runtime.config.compact
    if limits.enabled and limits.background and runtime.llm is not None:
        Jobs(tx).ask(Space(info.tenant, Level.USER, info.user), COMPACT, info.id, runtime.clock())


class Covering(NamedTuple):
    """A context, and what was condensed so that it leaves nothing untold."""

    context: Context
    compacted: tuple[Compacted, ...] = ()


def covering(
    runtime: Runtime,
    scope: Scope,
    asked: Asked,
    known: Known,
    window: int | None = None,
    unsaved: Message | None = None,
) -> Covering:
    """A context in which every message is found: among its messages, or in the range of its summary."""
    assert scope.session is not None
    done: tuple[Compacted, ...] = ()
    offered = collect.offered(runtime, asked, scope.session, known)
    found = laid_out(runtime, scope, asked, known, unsaved, offered)
    # The longer summary takes room itself. What it pushes out is condensed in a second round, and all of it then.
    for everything in (False, True) if _covers(runtime) else ():
        compacted = _cover_left_out(runtime, scope, window, found, everything=everything)
        if not compacted.done:
            break
        done = (*done, compacted)
        found = laid_out(runtime, scope, asked, known, unsaved, offered)
    return Covering(found, done)


def laid_out(
    runtime: Runtime,
    scope: Scope,
    asked: Asked,
    known: Known,
    unsaved: Message | None = None,
    offered: Offered | None = None,
) -> Context:
    """The conversation as it stands, with a message that could not be kept."""
    said = collect.said(runtime, scope, asked)
    return collect.lay_out(runtime, asked, said if unsaved is None else said.then(unsaved), known, offered)


def _covers(runtime: Runtime) -> bool:
    """A summary that is not shown covers nothing."""
    return runtime.config.compact.enabled and runtime.config.context.show_summary


def _cover_left_out(
    runtime: Runtime, scope: Scope, window: int | None, found: Context, *, everything: bool
) -> Compacted:
    shown = {message.sequence for message in found.messages}

    def plan(load: Load) -> Plan | None:
        return compaction_due.left_out(load, shown, everything=everything)

    return _roller(runtime, scope, window).roll(plan, Reason.NOT_DUE)


def _roller(runtime: Runtime, scope: Scope, window: int | None = None) -> Roller:
    config = runtime.config
    limits = compaction_due.within(config.compact, window)
    summariser = Summariser(limits, runtime.count, runtime.llm, config.llm.timeout_s)

    def bill(tx: Tx, whose: Scope, written: Written) -> None:
        if runtime.llm is not None and written.calls:
            usage.add(tx, whose, usage.billed(runtime.llm.model, written.calls, written.usage))

    return Roller(runtime.store, scope, summariser, runtime.cost, runtime.clock, summary.swap, bill)
