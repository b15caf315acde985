"""What a model wrote stays while its calls fail, and the next call goes on from the messages themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, Message, Session, Summary
from limpet.errors import ProviderError
from limpet.providers.fakes import FakeAnswer, FakeLlm
from limpet.providers.llm import Completion, Finish, LlmRequest
from tests.contract.rows import faults

GOOD = "Alice and Bob packed the house in Porto. " * 12


def opened(url: str, llm: FakeLlm | None, **settings: Any) -> Limpet:
    overrides = {"learn.enabled": False, "jobs.worker": False, **settings}
    return Limpet.open(url, config=Config.load(overrides=overrides), llm=llm)


def pack(session: Session, start: int, end: int) -> None:
    session.extend([Message.new("user", f"We packed crate{number}.") for number in range(start, end)])


def summary_of(session: Session) -> Summary:
    summary = session.summary()
    assert summary is not None
    return summary


def asked(request: LlmRequest) -> tuple[str, list[str]]:
    payload = json.loads(request.messages[-1].text)
    return payload["summary"], [message["said"] for message in payload["messages"]]


FAILURES: dict[str, FakeAnswer] = {
    "failing": ProviderError("down"),
    "hanging": TimeoutError("no answer in 15 s"),
    "empty": "",
    "garbled": "\N{REPLACEMENT CHARACTER}" * 400,
    "stub": "Sure!",
    "cut off": Completion("Alice and Bob packed the", finish=Finish.LENGTH),
    "refusing": Completion("I cannot help with that.", finish=Finish.REFUSED),
}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
def test_failed_call_keeps_written_text_and_recovery_reads_the_messages(store_url: str, answer: FakeAnswer) -> None:
    answers: list[FakeAnswer] = [GOOD, answer, answer, "All crates of the house in Porto are packed. " * 12]
    llm = FakeLlm(answers)
    with opened(store_url, llm) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 11)
        assert session.compact(keep=0).by == "llm"
        written = summary_of(session)
        assert (written.text, written.written_sequence) == (GOOD.strip(), 10)

        for last in (14, 18):
            pack(session, session.count() + 1, last + 1)
            assert session.compact(keep=0).by == "digest"
            failed = summary_of(session)
            assert failed.text[: failed.written_characters] == GOOD.strip()
            assert (failed.upper_sequence, failed.written_sequence) == (last, 10)
            quotes = [f"We packed crate{number}." for number in range(11, last + 1)]
            tail = failed.text[failed.written_characters :].strip().splitlines()
            assert [line.partition(": ")[2] for line in tail[:-1]] == quotes
            assert tail[-1].endswith("can be searched.")

        pack(session, 19, 21)
        assert session.compact(keep=0).by == "llm"
        assert asked(llm.calls[-1]) == (GOOD.strip(), [f"We packed crate{number}." for number in range(11, 21)])
        after = summary_of(session)
        assert (after.written_sequence, after.written_characters) == (20, len(after.text))
        assert faults(memory) == []


def test_written_text_stays_without_a_model(durable_url: str) -> None:
    with opened(durable_url, FakeLlm(GOOD)) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 11)
        session.compact(keep=0)
    with opened(durable_url, None) as memory:
        session = memory.session("t", "1", user="alice")
        for start in range(11, 200, 20):
            pack(session, start, start + 20)
            session.compact(keep=0)
        summary = summary_of(session)
        assert summary.text.startswith(f"{GOOD.strip()}\n- user, ")
        assert (summary.written_sequence, summary.upper_sequence) == (10, 210)


def test_model_that_comes_later_reads_quoted_messages(durable_url: str) -> None:
    with opened(durable_url, None) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 11)
        session.compact(keep=0)
        assert summary_of(session).written_sequence == 0
    llm = FakeLlm("They packed.")
    with opened(durable_url, llm) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 11, 13)
        session.compact(keep=0)
        assert asked(llm.calls[-1]) == ("", [f"We packed crate{number}." for number in range(1, 13)])
        assert summary_of(session).text == "They packed."


def test_caller_summary_is_kept_like_that_of_a_model(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    pack(session, 1, 4)
    session.set_summary("My own words.", 3)
    pack(session, 4, 6)
    session.compact(keep=0)
    assert summary_of(session).text.startswith("My own words.\n- user, ")


def test_summary_moves_with_its_written_part(store_url: str, tmp_path: Path) -> None:
    llm = FakeLlm([GOOD, ProviderError("down")])
    with opened(store_url, llm) as memory, Limpet.open(":memory:") as other:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 11)
        session.compact(keep=0)
        pack(session, 11, 13)
        session.compact(keep=0)
        summary = summary_of(session)
        assert summary.written_sequence == 10
        memory.transfer.export(tmp_path / "out")
        other.transfer.import_(tmp_path / "out")
        assert summary_of(other.load_session(session.id)) == summary


# One deadline


class SlowLlm:
    """Answers as late as it may: the clock stands still but for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now = 1000.0
        self.seconds = seconds
        monkeypatch.setattr("limpet.providers.llm.monotonic", lambda: self.now)

    def __call__(self, request: LlmRequest) -> FakeAnswer:
        self.now += min(self.seconds, request.timeout)
        return "So far." if request.timeout >= self.seconds else ProviderError("timed out")


@pytest.mark.parametrize("seconds", [4.0, 10.0, 60.0])
def test_turn_waits_for_a_model_once(store_url: str, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    slow = SlowLlm(monkeypatch, seconds)
    llm = FakeLlm(slow)
    settings = {"compact.messages": 10, "compact.keep": 6, "compact.batch": 4}
    with opened(store_url, llm, **settings) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 40)
        with session.turn("Which crates?", max_tokens=60) as turn:
            pass
        assert summary_of(session).epoch > 1, "the turn compacted more than once"
        assert slow.now - 1000.0 <= 15.0
        assert turn.context.messages[-1].text == "Which crates?"
        assert sum(call.timeout <= 0 for call in llm.calls) == 0
        if seconds < 15:
            assert summary_of(session).text.startswith("So far.")

        started = slow.now
        pack(session, 41, 80)
        session.context("Which crates?", max_tokens=60, compact=True)
        assert slow.now - started <= 15.0


def test_explicit_compaction_gives_each_call_its_time(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowLlm(monkeypatch, 10.0)
    with opened(store_url, FakeLlm(slow), **{"compact.batch": 4}) as memory:
        session = memory.session("t", "1", user="alice")
        pack(session, 1, 21)
        assert session.compact(keep=0).by == "llm"
        assert slow.now == 1050.0
