"""Compaction of a session's history: when it is due, how far it goes, and replacing the summary.

The new summary is written outside any transaction, and stored unless another writer was faster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from limpet.config import CompactionSettings
from limpet.errors import SessionNotFound, StorageError
from limpet.model.dataclass import dataclass, replace
from limpet.model.job import COMPACT
from limpet.model.message import Cost, Message, find_cuts, group_steps, is_turn_start
from limpet.model.scope import Scope
from limpet.model.session import CompactionResult, SessionInfo, Summary
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock
from limpet.providers.llm import Deadline, Llm
from limpet.sessions import usage
from limpet.sessions.extract import LearnedSentence
from limpet.sessions.repository import Messages, Sessions, unsummarised_query
from limpet.sessions.summary import NO_SUMMARY, Summariser, SummaryDraft, localize_message, swap_summary
from limpet.store.jobs import Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.sessions")

_LONG_TURN = 8  # messages
_SMALLEST_SUMMARY = 50  # tokens
_LOW_WATER = 0.5  # compaction goes this far below a limit, so that the next message does not exceed it again


class Reason(StrEnum):
    ASKED = "asked for"
    EMERGENCY = "the model's window is about to burst"
    ROLLING = "too much of the model's window is in use"
    CHECK = "too many characters for the model's window"
    TOKENS = "too many tokens of history"
    MESSAGES = "too many messages"
    LEFT_OUT = "the context had no room for messages that no summary covers"
    NOT_DUE = "not due"
    NOTHING = "nothing to compact"
    SWITCHED_OFF = "switched off by compact.enabled"
    OVERTAKEN = "another writer was faster"
    UNWRITABLE = "the summary could not be stored"


class Unsummarised(NamedTuple):
    """A session's summary, an empty one if there is none, and the messages after it."""

    summary: Summary
    messages: Sequence[Message]


class Plan(NamedTuple):
    """Compact this many of the oldest messages that no summary covers."""

    messages: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Load:
    """The messages that no summary covers, as numbers: tokens and characters of each, and where to cut."""

    tokens: tuple[int, ...]
    characters: tuple[int, ...]
    cuts: tuple[int, ...]
    turns: frozenset[int] = field(default_factory=frozenset)  # cuts between two turns
    summary_tokens: int = 0
    summary_characters: int = 0
    sequences: tuple[int, ...] = ()
    showable: frozenset[int] = field(default_factory=frozenset)  # all but tool results without their call

    @classmethod
    def of(cls, messages: Sequence[Message], summary: str, count: TokenCounter, cost: Cost) -> Load:
        cuts = tuple(find_cuts(messages))
        return cls(
            tokens=tuple(map(cost, messages)),
            characters=tuple(len(message.searchable) for message in messages),
            cuts=cuts,
            turns=frozenset(at for at in cuts if is_turn_start(messages, at)),
            summary_tokens=count(summary),
            summary_characters=len(summary),
            sequences=tuple(message.sequence for message in messages),
            showable=frozenset(at for step in group_steps(messages) for at in step),
        )

    @property
    def total_tokens(self) -> int:
        return self.summary_tokens + sum(self.tokens)

    def last_cut(self, at_most: int) -> int:
        """Return the furthest cut up to there: between turns, or inside a turn that is too long to keep whole."""
        inside = max((at for at in self.cuts if at <= at_most), default=0)
        between = max((at for at in self.turns if at <= at_most), default=0)
        return between if inside - between <= _LONG_TURN else inside

    def cut_to_leave(self, sizes: Sequence[int], room: float) -> int:
        """Return the first cut that leaves no more than this, or the last cut that leaves anything."""
        remaining = [sum(sizes), *(sum(sizes) - removed for removed in accumulate(sizes))]
        cuts = [at for at in self.cuts if at < len(sizes)]
        fitting = [at for at in cuts if remaining[at] <= room]
        between_turns = [at for at in fitting if at in self.turns]
        return min(between_turns or fitting, default=max(cuts, default=0))


Rule = Callable[[Load, int, CompactionSettings], Plan | None]
Planner = Callable[[Load], Plan | None]


def fit_window(limits: CompactionSettings, window: int | None) -> CompactionSettings:
    """Return the limits with a summary size that fits a small window."""
    room = (window or limits.window) // 4
    return replace(limits, summary_tokens=max(_SMALLEST_SUMMARY, min(limits.summary_tokens, room))) if room else limits


def plan_manual(load: Load, keep: int) -> Plan | None:
    """Manual: compact all but the newest ``keep`` messages and the turn they start in."""
    cut = load.last_cut(len(load.tokens) - keep)
    return Plan(cut, Reason.ASKED) if cut else None


def plan_left_out(load: Load, shown: Collection[int], *, everything: bool = False) -> Plan | None:
    """Plan for a context that shows the messages with these sequences while no summary covers the others.

    Half of the shown messages are kept, to leave room for the next ones. If long turns would leave too many, everything
    is compacted: each message must be either shown or summarized.
    """
    missing = [at for at in load.showable if load.sequences[at] not in shown]
    if not missing:
        return None
    needed, every = max(missing) + 1, len(load.tokens)
    cut = load.last_cut(every - (every - needed + 1) // 2)
    return Plan(cut if cut >= needed and not everything else every, Reason.LEFT_OUT)


def plan_due(load: Load, window: int | None, limits: CompactionSettings) -> Plan | None:
    """Return the plan of the first rule that applies. A rule that would compact almost nothing waits."""
    room = window or limits.window
    if not limits.enabled or len(load.tokens) < limits.least_messages:
        return None
    rules: tuple[Rule, ...] = (_plan_emergency, _plan_rolling, _plan_check) if room else ()
    for rule in (*rules, _plan_tokens, _plan_messages):
        plan = rule(load, room, limits)
        if plan is not None and plan.messages >= (1 if rule is _plan_emergency else limits.least_messages):
            return plan
    return None


def plan_for_context(load: Load, shown: int, window: int | None, limits: CompactionSettings) -> Plan | None:
    """Plan what is due before a context that shows so many messages.

    One that leaves more would compact the others at once: they are compacted together.
    """
    plan = plan_due(load, window, limits)
    if plan is None or len(load.tokens) - plan.messages <= shown:
        return plan
    left_out = plan_left_out(load, load.sequences[-shown:])
    return plan if left_out is None or left_out.messages <= plan.messages else left_out._replace(reason=plan.reason)


def _plan_emergency(load: Load, window: int, limits: CompactionSettings) -> Plan | None:
    if load.total_tokens <= limits.emergency_above * window:
        return None
    most = len(load.tokens) - limits.emergency_keep
    cut = load.last_cut(most) or max((at for at in load.cuts if at <= most), default=0)
    return Plan(cut, Reason.EMERGENCY)


def _plan_rolling(load: Load, window: int, limits: CompactionSettings) -> Plan | None:
    if load.total_tokens <= limits.roll_above * window:
        return None
    return Plan(load.cut_to_leave(load.tokens, limits.roll_to * window - load.summary_tokens), Reason.ROLLING)


def _plan_check(load: Load, window: int, limits: CompactionSettings) -> Plan | None:
    """If everything else alone exceeds the limit, compaction cannot help; the rolling rule decides."""
    most = limits.check_above * window - limits.overhead_tokens
    characters = load.summary_characters + sum(load.characters)
    if most <= 0 or characters / limits.characters_per_token <= most:
        return None
    room = most * limits.characters_per_token * _LOW_WATER
    return Plan(_find_cut(load, limits.keep, load.characters, room), Reason.CHECK)


def _plan_tokens(load: Load, _window: int, limits: CompactionSettings) -> Plan | None:
    if sum(load.tokens) <= limits.history_tokens:
        return None
    room = limits.history_tokens * _LOW_WATER
    return Plan(_find_cut(load, limits.history_keep, load.tokens, room), Reason.TOKENS)


def _plan_messages(load: Load, _window: int, limits: CompactionSettings) -> Plan | None:
    if len(load.tokens) <= limits.messages:
        return None
    return Plan(load.last_cut(len(load.tokens) - limits.keep), Reason.MESSAGES)


def _find_cut(load: Load, keep: int, sizes: Sequence[int], room: float) -> int:
    """Compact all but the newest ``keep``, or keep fewer if those alone would exceed a limit again."""
    cut = load.last_cut(len(sizes) - keep)
    return cut if sum(sizes[cut:]) <= room else max(cut, load.cut_to_leave(sizes, room))


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts sessions with an agent's settings and language model."""

    store: Store
    settings: CompactionSettings
    llm: Llm | None
    llm_timeout: float
    count: TokenCounter
    cost: Cost
    clock: Clock
    find_learned: Callable[[Tx, Scope], Sequence[LearnedSentence]] = lambda _tx, _scope: ()
    mask: Callable[[str], str] = str
    find_zone: Callable[[str | None], str] = lambda _user: "UTC"

    def start_deadline(self) -> Deadline:
        """Start the time that a model has for all summaries of a turn together."""
        return Deadline.after(min(self.settings.timeout_s, self.llm_timeout))

    def compact(self, scope: Scope, keep: int) -> CompactionResult:
        """Compact all but the newest messages, due or not."""
        return self._compact(scope, lambda load: plan_manual(load, keep), Reason.NOTHING)

    def compact_if_due(
        self,
        scope: Scope,
        window: int | None = None,
        deadline: Deadline | None = None,
        known: Unsummarised | None = None,
        shown: int | None = None,
    ) -> CompactionResult:
        """Compact as far as the settings require for a model with this window.

        ``known``: where it was just read, to tell whether it is due. ``shown``: the messages of the context that comes
        next, at most.
        """
        idle = Reason.NOT_DUE if self.settings.enabled else Reason.SWITCHED_OFF

        def plan(load: Load) -> Plan | None:
            if shown is None:
                return plan_due(load, window, self.settings)
            return plan_for_context(load, shown, window, self.settings)

        return self._compact(scope, plan, idle, window, deadline, known)

    def compact_left_out(
        self,
        scope: Scope,
        shown: Collection[int],
        window: int | None = None,
        deadline: Deadline | None = None,
        *,
        everything: bool = False,
    ) -> CompactionResult:
        """Compact what a context had no room for; it shows the messages with these sequences."""
        return self._compact(
            scope, lambda load: plan_left_out(load, shown, everything=everything), Reason.NOT_DUE, window, deadline
        )

    def enqueue(self, tx: Tx, info: SessionInfo) -> None:
        """Enqueue a job in the transaction of a turn. Only a model is slow enough to need one."""
        if self.settings.enabled and self.settings.background and self.llm is not None:
            Jobs(tx).enqueue(info.partition, COMPACT, info.id, self.clock())

    def _compact(
        self,
        scope: Scope,
        plan: Planner,
        idle: Reason,
        window: int | None = None,
        deadline: Deadline | None = None,
        known: Unsummarised | None = None,
    ) -> CompactionResult:
        """Compact according to the plan, and plan again after a lost race. ``idle``: the reason if the plan is None."""
        limits = fit_window(self.settings, window)
        summariser = Summariser(limits, self.count, self.llm, self.llm_timeout, deadline, self.mask)
        done = self._compact_once(scope, summariser, plan, idle, known)
        return self._compact_once(scope, summariser, plan, idle) if done.reason == Reason.OVERTAKEN else done

    def _compact_once(
        self, scope: Scope, summariser: Summariser, plan: Planner, idle: Reason, known: Unsummarised | None = None
    ) -> CompactionResult:
        summary, messages = known or self.store.read(lambda tx: read_unsummarised(tx, scope))
        load = Load.of(messages, summary.text, self.count, self.cost)
        planned = plan(load)
        if planned is None or not planned.messages:
            return _report_unchanged(load, idle)
        if known is not None:  # some of it may have been forgotten since; a summary would bring it back
            return self._compact_once(scope, summariser, plan, idle)
        covered = messages[: planned.messages]
        zone = self.find_zone(scope.user)
        draft = summariser.write(
            SummaryDraft.of(summary),
            [localize_message(each, zone) for each in (*self._read_unwritten(scope, summary), *covered)],
            lambda: self.store.read(lambda tx: self.find_learned(tx, scope)),
        )
        try:
            swapped = self._store_summary(scope, summary.epoch, covered[-1].sequence, draft)
        except StorageError as error:  # the turn continues with the existing summary
            log.warning("the summary of session %s could not be stored: %s", scope.session, error)
            return _report_unchanged(load, Reason.UNWRITABLE)
        if not swapped:
            return _report_unchanged(load, Reason.OVERTAKEN)
        after = self.count(draft.text) + sum(load.tokens[planned.messages :])
        return CompactionResult(True, len(covered), load.total_tokens, after, str(draft.author), str(planned.reason))

    def _store_summary(self, scope: Scope, epoch: int, upper_sequence: int, draft: SummaryDraft) -> bool:
        """Store the summary. The model's calls are counted even if another writer was faster."""

        def work(tx: Tx) -> bool:
            if self.llm is not None and draft.calls:
                usage.add(tx, scope, usage.build_llm_usage(self.llm.model, draft.calls, draft.usage))
            return swap_summary(tx, scope, draft, upper_sequence, epoch, self.clock())

        return self.store.write(work)

    def _read_unwritten(self, scope: Scope, summary: Summary) -> Sequence[Message]:
        """Read the messages that the summary only quotes, for a model to write about."""
        if self.llm is None or summary.written_sequence >= summary.upper_sequence:
            return ()
        span = summary.written_sequence, summary.upper_sequence + 1
        return self.store.read(lambda tx: Messages(tx).range(scope, *span, None))


def read_unsummarised(tx: Tx, scope: Scope) -> Unsummarised:
    if tx.db.is_remote:
        tx.db.prefetch([unsummarised_query(scope)])
    info, summary = Sessions(tx).get_with_summary(scope)
    if info is None:
        raise SessionNotFound(f"session {scope.session} was deleted")
    return Unsummarised(summary or NO_SUMMARY, Messages(tx).list_unsummarised(scope))


def _report_unchanged(load: Load, reason: Reason) -> CompactionResult:
    return CompactionResult(False, 0, load.total_tokens, load.total_tokens, None, str(reason))
