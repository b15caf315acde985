"""A turn: what is kept, what is read, and what stays when something fails on the way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet import AsyncLimpet, Config, Limpet, Session, Turn
from limpet.context.build import ContextBuilder
from limpet.errors import BudgetTooSmall, IdempotencyConflict, InvalidInput, SessionNotFound, StoreFull
from limpet.model.message import Role
from limpet.providers.fakes import FakeEmbedder
from limpet.testing import FakeClock


def opened(memory: Limpet, chat: str = "1") -> Session:
    return memory.session("test", chat, user="alice")


def said(session: Session) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in session.messages()]


def test_turn_recalls_memory_and_stores_both_messages(memory: Limpet) -> None:
    opened(memory, "long ago").append("user", "My dog is called Biscuit")
    session = opened(memory)
    with session.turn("What is my dog called?", max_tokens=4000) as turn:
        assert "Biscuit" in turn.context.text
        reply = turn.reply("Biscuit.")
    assert said(session) == [("user", "What is my dog called?"), ("assistant", "Biscuit.")]
    assert reply is not None
    assert reply.sequence == 2
    assert turn.message.sequence == 1
    assert turn.failed == ()
    assert memory.recall("Biscuit", user="alice", session=session.id)[0].source.first_sequence == 2


def test_turn_context_ends_with_current_message(memory: Limpet) -> None:
    session = opened(memory)
    for number in range(3):
        with session.turn(f"question {number}") as turn:
            assert turn.context.messages[-1] == turn.message
            assert len(turn.context.messages) == 2 * number + 1
            turn.reply(f"answer {number}")


def test_turn_does_not_recall_its_own_message(memory: Limpet) -> None:
    """Memory is read before the turn is written: the question neither comes back nor lifts what stands beside it."""
    session = opened(memory)
    with session.turn("Where did I leave the blue umbrella?") as turn:
        assert turn.context.hits == ()
        assert turn.context.text == ""
        turn.reply("I do not know.")


def test_turn_with_exception_keeps_message_but_no_partial_reply(memory: Limpet) -> None:
    session = opened(memory)
    with pytest.raises(ZeroDivisionError), session.turn("Look it up") as turn:
        turn.add("assistant", "", tool_calls=[{"id": "c1", "name": "look", "arguments": {}}])
        turn.add("tool", "found nothing", tool_call_id="c1")
        raise ZeroDivisionError
    assert said(session) == [("user", "Look it up")]
    with session.turn("Try again") as turn:
        assert [message.text for message in turn.context.messages] == ["Look it up", "Try again"]


def test_turn_without_reply_keeps_message(memory: Limpet) -> None:
    session = opened(memory)
    with session.turn("Hello?"):
        pass
    assert said(session) == [("user", "Hello?")]


def test_turn_stores_tool_steps_with_reply_in_order(memory: Limpet) -> None:
    session = opened(memory)
    with session.turn("How warm is it?") as turn:
        turn.add("assistant", "", tool_calls=[{"id": "c1", "name": "weather", "arguments": {"city": "Porto"}}])
        turn.add("tool", "21 degrees", tool_call_id="c1")
        assert session.count() == 1
        turn.reply("21 degrees.")
    roles = [message.role for message in session.messages()]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert [message.sequence for message in session.messages()] == [1, 2, 3, 4]


def test_turn_reply_stores_token_usage(memory: Limpet) -> None:
    session = opened(memory)
    shapes: list[Any] = [
        {"model": "m", "input_tokens": 10, "output_tokens": 2, "cached_tokens": 4, "cost": 0.5},
        {"model": "m", "prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        {"model": "m", "input_tokens": 6, "output_tokens": 2, "cache_read_input_tokens": 4},
    ]
    for shape in shapes:
        with session.turn("Hello") as turn:
            turn.reply("Hi", usage=shape)
    (bill,) = session.usage().models
    assert (bill.calls, bill.input_tokens, bill.output_tokens, bill.cached_tokens) == (3, 30, 6, 12)
    assert bill.cost == 0.5


@pytest.mark.parametrize("usage", [7, "many", {"input_tokens": -1}, {"input_tokens": "x"}, {"model": ["m"]}])
def test_turn_reply_rejects_invalid_usage_and_can_be_repeated(memory: Limpet, usage: Any) -> None:
    session = opened(memory)
    with session.turn("Hello") as turn:
        with pytest.raises(InvalidInput):
            turn.reply("Hi", usage=usage)
        assert session.count() == 1
        assert turn.reply("Hi") is not None
    assert session.count() == 2


def test_turn_stores_skill_with_reply(memory: Limpet) -> None:
    session = opened(memory)
    with session.turn("Deploy it", skill="deploy") as turn:
        turn.reply("Done")
    assert session.messages()[-1].metadata == {"skill": "deploy"}


def test_turn_with_same_idempotency_key_changes_nothing(memory: Limpet) -> None:
    session = opened(memory)
    for _ in range(2):
        with opened(memory).turn("Pay the bill", idempotency_key="update 7") as turn:
            turn.reply("Paid.", usage={"model": "m", "input_tokens": 5})
            assert turn.message.sequence == 1
    assert said(session) == [("user", "Pay the bill"), ("assistant", "Paid.")]
    assert session.usage().input_tokens == 5


def test_turn_with_reused_idempotency_key_and_another_message_is_a_conflict(memory: Limpet) -> None:
    session = opened(memory)
    with session.turn("Pay the bill", idempotency_key="update 7") as turn:
        turn.reply("Paid.")
    with pytest.raises(IdempotencyConflict), session.turn("Something else", idempotency_key="update 7"):
        pass
    assert said(session) == [("user", "Pay the bill"), ("assistant", "Paid.")]


def test_repeated_turn_keeps_its_first_reply(memory: Limpet) -> None:
    session = opened(memory)
    replies = []
    for text in ("Paid.", "I have paid it."):
        with session.turn("Pay the bill", idempotency_key="update 7") as turn:
            replies.append(turn.reply(text, usage={"model": "m", "input_tokens": 5}))
    assert [reply.text for reply in replies if reply is not None] == ["Paid.", "Paid."]
    assert said(session) == [("user", "Pay the bill"), ("assistant", "Paid.")]
    assert session.usage().input_tokens == 5


def test_turn_can_be_used_and_answered_only_once(memory: Limpet) -> None:
    session = opened(memory)
    turn = session.turn("Hello")
    for early in (lambda: turn.context, lambda: turn.reply("Hi"), lambda: turn.add("tool", "x")):
        with pytest.raises(InvalidInput):
            early()
    assert session.count() == 0
    with turn:
        turn.reply("Hi")
        with pytest.raises(InvalidInput, match="has its reply"):
            turn.reply("Hi again")
    with pytest.raises(InvalidInput, match="used once"), turn:
        pass
    with session.turn("And now?") as other:
        pass
    with pytest.raises(InvalidInput, match="not open"):
        other.reply("Too late")
    assert session.count() == 3


def test_turn_on_deleted_session_raises_not_found(memory: Limpet) -> None:
    session = opened(memory)
    session.delete()
    with pytest.raises(SessionNotFound), session.turn("Hello"):
        pass


def test_turn_with_too_small_budget_stores_nothing(memory: Limpet) -> None:
    session = opened(memory)
    with pytest.raises(BudgetTooSmall):
        session.turn("Hello", model_window=10)
    assert session.count() == 0


def test_turn_compacts_long_conversation(memory: Limpet) -> None:
    session = opened(memory)
    done = []
    for number in range(30):
        with session.turn(f"Tell me about number {number}, please", model_window=3000) as turn:
            turn.reply(f"Number {number} is followed by {number + 1}.")
            done.append(turn.compacted is not None and turn.compacted.done)
    assert any(done)
    assert not all(done)
    summary = session.summary()
    assert summary is not None
    assert summary.upper_sequence > 10


def meddle_after_recall(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let somebody else do this between what a turn reads first and the message that it stores."""
    recall = ContextBuilder.recall_with_conversation

    def recall_and_meddle(builder: ContextBuilder, *args: Any) -> Any:
        found = recall(builder, *args)
        action()
        return found

    monkeypatch.setattr(ContextBuilder, "recall_with_conversation", recall_and_meddle)


def test_turn_context_has_what_others_stored_since_its_recall(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(store_url) as memory:
        session = opened(memory)
        session.append("user", "first")
        meddle_after_recall(monkeypatch, lambda: session.append("user", "in between"))
        with session.turn("last") as turn:
            assert [message.text for message in turn.context.messages] == ["first", "in between", "last"]
            turn.reply("I see.")


@pytest.mark.parametrize("is_cleared", [False, True])
def test_turn_context_has_nothing_that_was_removed_since_its_recall(
    store_url: str, monkeypatch: pytest.MonkeyPatch, *, is_cleared: bool
) -> None:
    with Limpet.open(store_url) as memory:
        session = opened(memory)
        session.append("user", "My dog is called Biscuit.")
        session.learn()
        meddle_after_recall(
            monkeypatch, session.clear if is_cleared else lambda: memory.forget(query="Biscuit", user="alice")
        )
        with session.turn("And now?") as turn:
            assert not any("Biscuit" in message.text for message in turn.context.messages)
            turn.reply("Now this.")


def test_turn_summarizes_nothing_that_was_forgotten_since_its_recall(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Limpet.open(store_url) as memory:
        session = opened(memory)
        session.append("user", "My dog is called Biscuit.")
        session.learn()
        for number in range(60):
            session.append(("assistant", "user")[number % 2], f"That was shoe number {number}, the red one.")
        meddle_after_recall(monkeypatch, lambda: memory.forget(query="Biscuit", user="alice"))
        with session.turn("And now?", model_window=3000) as turn:
            turn.reply("Now this.")
        assert turn.compacted is not None
        summary = session.summary()
        assert summary is not None
        assert "Biscuit" not in summary.text


# What fails on the way


class Failing:
    """A part of the store that refuses."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error


def test_turn_continues_when_store_is_full(
    memory: Limpet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent gets its prompt, the log and the turn say what is missing, and both sides are kept once it works."""
    session = opened(memory)
    session.append("user", "I live in Porto")
    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "limpet.turn"):
        broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
        turn = session.turn("Where do I live?").__enter__()
    assert [message.text for message in turn.context.messages] == ["I live in Porto", "Where do I live?"]
    assert "keeping the user's message" in [failed.what for failed in turn.failed]
    assert "no space left" in caplog.text
    assert session.count() == 1
    assert turn.reply("In Porto.") is not None
    assert [text for _, text in said(session)] == ["I live in Porto", "Where do I live?", "In Porto."]


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a program that prefers an answer to an error."""
    monkeypatch.setenv("LIMPET_TURN_ON_LOST_WRITE", "log")


def test_turn_reply_that_is_not_kept_raises(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on after reply() relies on it. The same call works once the store does."""
    session = opened(memory)
    with session.turn("Hello") as turn:
        with monkeypatch.context() as broken:
            broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
            with pytest.raises(StoreFull, match="no space left"):
                turn.reply("Hi")
        assert [failed.what for failed in turn.failed] == ["keeping the reply"]
        assert turn.reply("Hi") is not None
    assert said(session) == [("user", "Hello"), ("assistant", "Hi")]


def test_turn_that_is_not_kept_is_logged_where_the_setting_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config.load(overrides={"turn.on_lost_write": "log", "embedding.model": "none", "jobs.worker": False})
    with Limpet.open(":memory:", config=config) as memory:
        session = opened(memory)
        with monkeypatch.context() as broken:
            broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
            with session.turn("Hello") as turn:
                assert turn.reply("Hi") is None
        assert "keeping the reply" in [failed.what for failed in turn.failed]
        assert "no space left" in caplog.text
        assert said(session) == []


def test_turn_without_reply_whose_message_is_not_kept_raises(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(memory)
    with monkeypatch.context() as broken:
        broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
        with pytest.raises(StoreFull, match="no space left"), session.turn("Hello"):
            pass
        with pytest.raises(ZeroDivisionError), session.turn("Hello"):
            raise ZeroDivisionError  # the program's own error goes first
    with session.turn("Are you there?") as turn:
        pass
    assert turn.failed == ()
    assert said(session) == [("user", "Are you there?")]


def test_turn_that_was_not_kept_at_first_is_kept_at_its_end(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(memory)
    with monkeypatch.context() as broken:
        broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
        turn = session.turn("Hello").__enter__()
    turn.__exit__(None, None, None)
    assert said(session) == [("user", "Hello")]


def test_turn_reply_returns_none_when_it_cannot_be_stored_and_settings_say_log(
    lenient: None, memory: Limpet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(memory)
    with session.turn("Hello") as turn, monkeypatch.context() as broken:
        broken.setattr(type(memory._runtime.store), "write", Failing(StoreFull("no space left")))
        assert turn.reply("Hi") is None
    assert [failed.what for failed in turn.failed] == ["keeping the reply"]
    assert said(session) == [("user", "Hello")]


def test_turn_continues_when_store_is_unreachable(
    lenient: None, memory: Limpet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(memory)
    with monkeypatch.context() as broken:
        for name in ("read", "write"):
            broken.setattr(type(memory._runtime.store), name, Failing(StoreFull("gone")))
        with session.turn("Hello") as turn:
            assert [message.text for message in turn.context.messages] == ["Hello"]
            assert turn.reply("Hi") is None
    assert len(turn.failed) >= 3
    assert session.count() == 0


def test_turn_continues_when_embedder_fails(store_url: str) -> None:
    class Broken(FakeEmbedder):
        def embed(self, texts: Any) -> Any:
            raise RuntimeError("no model today")

    with Limpet.open(store_url, embedder=Broken()) as memory:
        session = opened(memory)
        with session.turn("Hello there") as turn:
            turn.reply("Hi")
        assert session.count() == 2
        assert memory.recall("hello", user="alice")


def test_turn_continues_when_compaction_fails(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened(memory)
    for number in range(50):
        session.append("user" if number % 2 == 0 else "assistant", f"message {number}")
    with monkeypatch.context() as broken:
        broken.setattr("limpet.sessions.compaction.Compactor._compact", Failing(RuntimeError("a bug")))
        with session.turn("And now?") as turn:
            assert turn.context.messages[-1].text == "And now?"
            turn.reply("Now this.")
    assert turn.compacted is None
    assert "compacting history" in [failed.what for failed in turn.failed]
    assert session.count() == 52


def test_turn_writes_line_to_daily_notes(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path / "data", clock=clock) as memory:
        with opened(memory).turn("Is the door\nlocked?") as turn:
            turn.reply("It is.")
        with pytest.raises(ZeroDivisionError), opened(memory).turn("Sure?") as turn:
            raise ZeroDivisionError
        assert memory.notes.day("alice") == "[12:00] User: Is the door locked? | Assistant: It is.\n"


def test_turn_continues_when_daily_note_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(tmp_path / "data") as memory:
        session = opened(memory)
        monkeypatch.setattr("limpet.notes.files.NoteFiles.write", Failing(OSError("no such disk")))
        with session.turn("Hello") as turn:
            assert turn.reply("Hi") is not None
        assert [failed.what for failed in turn.failed] == ["the file of the day's note"]
        assert session.count() == 2
        assert "Hello" in memory.notes.day("alice")


def test_turn_writes_no_daily_note_when_disabled(tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "data", config=Config.load(overrides={"notes.write_daily": False})) as memory:
        with opened(memory).turn("Hello") as turn:
            turn.reply("Hi")
        assert memory.notes.day("alice") == ""


async def _talk(url: str) -> list[str]:
    async with await AsyncLimpet.open(url) as memory:
        session = await memory.session("test", "1", user="alice")
        async with session.turn("Hello") as turn:
            assert turn.context.messages[-1].text == "Hello"
            turn.add("assistant", "", tool_calls=[{"id": "c", "name": "t", "arguments": {}}])
            turn.add("tool", "done", tool_call_id="c")
            reply = await turn.reply("Hi")
            assert reply is not None
            assert reply.sequence == 4
        with pytest.raises(ZeroDivisionError):
            async with session.turn("And?"):
                raise ZeroDivisionError
        return [message.text for message in await session.messages()]


def test_async_turn_stores_same_messages(store_url: str) -> None:
    import asyncio

    assert asyncio.run(_talk(store_url)) == ["Hello", "", "done", "Hi", "And?"]


def test_turn_repr_shows_state(memory: Limpet) -> None:
    turn: Turn = opened(memory).turn("Hello")
    assert "not begun" in repr(turn)
    with turn:
        assert "open" in repr(turn)
        turn.reply("Hi")
        assert "replied" in repr(turn)
