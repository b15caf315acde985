"""No message is both outside the summary's range and outside the kept history, whatever happened to the session."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet import Config, Context, Limpet, Message, Session, ToolCall
from limpet.config import CompactionSettings, ContextSettings
from limpet.model.message import Role, group_steps
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import LlmRequest
from tests.examples import examples

calls = st.sampled_from(["a", "b", "c"])
sizes = st.sampled_from([1, 3, 12, 60, 300])


def said(role: str, words: int, calling: Sequence[str] = (), answering: str | None = None) -> Message:
    return Message.new(
        role, "word " * words, tool_calls=[ToolCall(name, "tool") for name in calling], tool_call_id=answering
    )


messages = st.one_of(
    st.builds(said, st.just("user"), sizes),
    st.builds(said, st.just("system"), sizes),
    st.builds(said, st.just("assistant"), sizes, st.lists(calls, max_size=2, unique=True)),
    st.builds(said, st.just("tool"), sizes, answering=calls | st.none()),
)
budgets = st.sampled_from([1, 40, 200, 1000, 4000])
windows = st.none() | st.sampled_from([1100, 2000, 10_000, 60_000])
deeds = st.one_of(
    st.tuples(st.just("say"), st.lists(messages, min_size=1, max_size=12)),
    st.tuples(st.just("compact"), st.integers(0, 25)),
    st.tuples(st.just("compact if due"), windows),
    st.tuples(st.just("set the summary"), st.integers(1, 30)),
    st.tuples(st.just("ask"), st.tuples(budgets, windows)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("clear"), st.none()),
)
limits = st.builds(
    CompactionSettings,
    keep=st.integers(0, 12),
    messages=st.integers(20, 40),
    history_tokens=st.sampled_from([50, 500, 8000]),
    history_keep=st.integers(0, 10),
    batch=st.integers(1, 20),
)
models = st.sampled_from(["none", "good", "failing", "empty", "endless", "moody"])


def model_of(kind: str) -> FakeLlm | None:
    def moody(request: LlmRequest) -> str | Exception:
        number = len(request.messages[-1].text)
        answers: list[str | Exception] = [ValueError("no"), "", "a summary", "on " * 5000]
        return answers[number % len(answers)]

    answers: dict[str, Any] = {"good": "They talked.", "empty": "  ", "endless": "on " * 5000, "moody": moody}
    if kind == "none":
        return None
    return FakeLlm(answers.get(kind, ""), failures=-1 if kind == "failing" else 0)


@dataclass
class World:
    place: str
    config: Config
    llm: FakeLlm | None
    memory: Limpet = field(init=False)

    def __post_init__(self) -> None:
        self.memory = self._opened()

    def _opened(self) -> Limpet:
        return Limpet.open(self.place, config=self.config, llm=self.llm)

    @property
    def session(self) -> Session:
        return self.memory.session("t", "1", user="alice")

    def restart(self) -> None:
        self.memory.close()
        self.memory = self._opened()

    def do(self, deed: str, given: Any) -> None:
        session = self.session
        match deed:
            case "say":
                session.extend(given)
            case "compact":
                splits_no_step(session, lambda: session.compact(given))
            case "compact if due":
                splits_no_step(session, lambda: session.compact_if_due(given))
            case "set the summary" if given <= session.refresh().last_sequence:
                session.set_summary("somebody's own words", given)
            case "ask":
                budget, window = given
                found = session.context("word", max_tokens=budget, model_window=window, compact=True)
                assert in_neither(session, found) == []
            case "restart":
                self.restart()
            case "clear":
                session.clear()


def upper(session: Session) -> int:
    summary = session.summary()
    return summary.upper_sequence if summary else 0


def in_neither(session: Session, found: Context) -> list[int]:
    """A result whose call is summed up or was never made can be shown to no model; it waits for the summary."""
    after = session.messages(after=upper(session))
    showable = [after[at] for step in group_steps(after) for at in step]
    shown = {message.sequence for message in found.messages}
    hidden = {message.sequence for message in session.messages(before=upper(session) + 1)} - shown
    summary = session.summary()
    if hidden and summary is not None:
        told = {message.role for message in session.messages(before=upper(session) + 1)} - {Role.TOOL}
        assert bool(summary.text.strip()) >= bool(told)
        assert ("Earlier in this conversation" in found.sections) == bool(summary.text.strip())
    return [message.sequence for message in showable if message.sequence not in shown]


def splits_no_step(session: Session, compact: Any) -> None:
    before, after = upper(session), session.messages(after=upper(session))
    done = compact()
    now = upper(session)
    assert now >= before
    assert done.messages == sum(before < message.sequence <= now for message in after)
    for step in group_steps(after):
        assert not after[step[0]].sequence <= now < after[step[-1]].sequence


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(deeds, max_size=14), limits, st.integers(1, 25), models, st.tuples(budgets, windows))
def test_every_message_is_in_summary_or_in_kept_history(
    done: list[tuple[str, Any]], compact: CompactionSettings, recent: int, model: str, last: tuple[int, int | None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Config(compact=compact, context=ContextSettings(recent_messages=recent))
        world = World(folder, config, model_of(model))
        try:
            for deed, given_to_it in [*done, ("ask", last)]:
                world.do(deed, given_to_it)
            assert all(finding.ok for finding in world.memory.admin.doctor())
        finally:
            world.memory.close()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(messages, max_size=60), budgets)
def test_context_always_contains_latest_user_message(history: list[Message], budget: int) -> None:
    with Limpet.open(":memory:", config=Config()) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend(history)
        spoken = [message.sequence for message in session.messages() if message.role is Role.USER]
        session.compact(keep=0)
        shown = [message.sequence for message in session.context(max_tokens=budget).messages]
        assert not spoken or spoken[-1] in shown
