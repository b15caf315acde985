from __future__ import annotations

from typing import Any

import pytest

from limpet import Limpet, Message, Session
from limpet.errors import InvalidInput
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import faults
from tests.contract.threads import at_once


def talk(memory: Limpet, count: int = 10, chat: str = "1") -> Session:
    session = memory.session("t", chat, user="alice")
    session.extend([Message.new("user", f"message {number}") for number in range(count)])
    return session


def test_swap_summary_expects_epoch_zero_for_first_summary(timed: Limpet, clock: FakeClock) -> None:
    session = talk(timed)
    assert session.summary() is None
    assert not session.swap_summary("wrong epoch", 4, 1)
    assert session.summary() is None
    assert session.swap_summary("first", 4, 0)
    summary = session.summary()
    assert summary is not None
    assert (summary.text, summary.epoch, summary.upper_sequence, summary.message_count) == ("first", 1, 4, 4)
    assert summary.updated_at == clock.now


def test_swap_summary_with_stale_epoch_changes_nothing(memory: Limpet) -> None:
    session = talk(memory)
    assert session.swap_summary("first", 4, 0)
    assert session.swap_summary("second", 6, 1)
    current = session.summary()
    for epoch in (0, 1, 3, 99):
        assert not session.swap_summary("stale", 10, epoch)
    assert session.summary() == current
    assert session.swap_summary("third", 6, 2)


def test_summary_upper_sequence_never_decreases(memory: Limpet) -> None:
    session = talk(memory)
    assert session.swap_summary("up to six", 6, 0)
    assert not session.swap_summary("up to five", 5, 1)
    assert not session.set_summary("up to five", 5)
    assert session.set_summary("still six", 6)
    assert session.set_summary("up to ten", 10)
    summary = session.summary()
    assert summary is not None
    assert (summary.text, summary.epoch, summary.upper_sequence) == ("up to ten", 3, 10)


def test_swap_summary_rejects_sequence_beyond_last_message(memory: Limpet) -> None:
    session = talk(memory, 3)
    with pytest.raises(InvalidInput, match="3"):
        session.swap_summary("the future", 4, 0)
    assert not session.swap_summary("nothing", 0, 0)
    wrong: list[Any] = [-1, 1.5, "1", None, True]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            session.swap_summary("x", bad, 0)
        with pytest.raises(InvalidInput):
            session.swap_summary("x", 1, bad)
    for text in (None, 5, "\x00", "\ud800"):
        with pytest.raises(InvalidInput):
            session.swap_summary(text, 1, 0)  # type: ignore[arg-type]
    assert session.summary() is None


def test_summary_counts_messages_not_sequences(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for sequence in (10, 20, 30):
        session.append("user", "x", sequence=sequence)
    assert session.swap_summary("s", 25, 0)
    summary = session.summary()
    assert summary is not None
    assert (summary.upper_sequence, summary.message_count) == (25, 2)


def test_swap_summary_of_cleared_messages_fails(memory: Limpet) -> None:
    session = talk(memory)
    slow = memory.load_session(session.id)
    session.clear()
    assert session.summary() is None
    assert not slow.swap_summary("of cleared messages", 10, 0)
    assert not slow.set_summary("of cleared messages", 10)
    assert session.summary() is None
    session.append("user", "after")
    assert not slow.swap_summary("of cleared messages", 10, 0)
    assert slow.swap_summary("of the new one", 11, 0)
    summary = session.summary()
    assert summary is not None
    assert summary.message_count == 1


def test_swap_summary_with_epoch_from_before_clear_fails(memory: Limpet) -> None:
    session = talk(memory)
    session.set_summary("first", 5)
    session.set_summary("second", 6)
    session.clear()
    session.extend([Message.new("user", "x")] * 3)
    assert not session.swap_summary("read before the clearing", 13, 2)
    assert session.swap_summary("fresh", 13, 0)


def test_summary_epoch_is_never_reused_after_clear(memory: Limpet) -> None:
    """Else a writer that read the summary before the clearing puts the cleared text back under the new one's epoch."""
    session = talk(memory)
    session.set_summary("the secret", 5)
    read_before = session.summary()
    assert read_before is not None
    session.clear()
    session.extend([Message.new("user", "x")] * 3)
    assert session.swap_summary("nothing of it", 11, 0)
    assert not session.swap_summary(f"{read_before.text}, and more", 13, read_before.epoch)
    summary = session.summary()
    assert summary is not None
    assert summary.text == "nothing of it"


def test_swap_summary_from_many_threads_has_one_winner(memory: Limpet) -> None:
    session = talk(memory)
    handles = [memory.load_session(session.id) for _ in range(8)]
    for epoch in range(4):
        won = at_once(lambda at, epoch=epoch: handles[at].swap_summary(f"{epoch} by {at}", 5 + epoch, epoch))  # type: ignore[misc]
        assert sorted(won) == [False] * 7 + [True]
        summary = session.summary()
        assert summary is not None
        assert summary.text == f"{epoch} by {won.index(True)}"
        assert summary.epoch == epoch + 1


def test_swap_summary_from_many_processes_has_one_winner_per_epoch(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        talk(memory)
    code = """
with Limpet.open(given) as memory:
    session = memory.session("t", "1", user="alice")
    begin()
    answer([epoch for epoch in range(20) if session.swap_summary(f"by {number}", 5, epoch)])
"""
    answers = run_together(code, durable_url, count=2)
    with Limpet.open(durable_url) as memory:
        summary = memory.session("t", "1", user="alice").summary()
        assert summary is not None
        assert sorted(epoch for own in answers for epoch in own) == list(range(summary.epoch))
        assert faults(memory) == []


def test_session_update_keeps_summary(memory: Limpet) -> None:
    session = talk(memory)
    session.set_summary("kept", 5)
    session.update_metadata({"a": 1})
    session.pause()
    session.resume()
    session.append("user", "more")
    memory.session("t", "1", user="alice")
    summary = session.summary()
    assert summary is not None
    assert summary.text == "kept"


def test_session_new_starts_without_summary(memory: Limpet) -> None:
    session = talk(memory)
    session.set_summary("old", 5)
    fresh = session.new()
    assert fresh.summary() is None
    old = memory.load_session(session.id).summary()
    assert old is not None
    assert old.text == "old"
