from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from limpet import Limpet, Message
from limpet.errors import InvalidInput, InvalidKey, SessionNotFound, WrongState
from limpet.model.scope import SessionKey
from limpet.model.session import SessionStatus
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

# Identity


def test_session_id_is_uuid7_and_key_names_chat(memory: Limpet) -> None:
    session = memory.session("telegram", "12345", "7")
    assert UUID(session.id).version == 7
    assert UUID(session.id).variant == "specified in RFC 4122"
    assert (session.key, session.channel, session.chat, session.thread) == (
        "telegram:12345:7",
        "telegram",
        "12345",
        "7",
    )


def test_session_ids_sort_by_creation_time(timed: Limpet, clock: FakeClock) -> None:
    ids = []
    for chat in range(20):
        ids.append(timed.session("t", str(chat)).id)
        clock.advance(milliseconds=1)
    assert ids == sorted(ids)
    assert len(set(ids)) == 20


def test_session_of_same_chat_is_reused(memory: Limpet) -> None:
    first = memory.session("telegram", "1", user="alice")
    assert memory.session("telegram", "1", user="alice").id == first.id
    assert memory.load_session(first.id).key == first.key


def test_session_differs_by_channel_chat_thread_user_and_agent(memory: Limpet) -> None:
    base: dict[str, Any] = {"channel": "telegram", "chat": "1", "user": "alice", "agent": "assistant"}
    others: tuple[dict[str, str], ...] = (
        {},
        {"channel": "whatsapp"},
        {"chat": "2"},
        {"thread": "1"},
        {"user": "bob"},
        {"agent": "coder"},
    )
    assert len({memory.session(**{**base, **other}).id for other in others}) == len(others)


def test_session_key_escapes_colons_without_collision(memory: Limpet) -> None:
    pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("a:b", "c"), ("a", "b:c")),
        (("a", "b", "c"), ("a", "b:c")),
        (("a", "b:c", "d"), ("a", "b", "c:d")),
        (("a:b", "c", "d"), ("a", "b:c", "d")),
        (("a%3Ab", "c"), ("a:b", "c")),
        (("a%25", "b"), ("a%", "b")),
        (("a", "b%3Ac"), ("a", "b:c")),
        (("a", "b%253Ac"), ("a", "b%3Ac")),
        (("a\\:b", "c"), ("a\\", "b:c")),
    ]
    for one, two in pairs:
        first, second = memory.session(*one, user="alice"), memory.session(*two, user="alice")
        assert first.id != second.id
        assert first.key != second.key
        for session, parts in ((first, one), (second, two)):
            again = memory.load_session(session.id)
            assert (again.channel, again.chat, again.thread) == (*parts, None)[:3]
            assert str(SessionKey.parse(again.key)) == again.key


def test_session_without_user_derives_user_from_chat(memory: Limpet) -> None:
    for channel, chat, user in (
        ("whatsapp", "491511", "whatsapp:491511@s.whatsapp.net"),
        ("whatsapp", "491511@s.whatsapp.net", "whatsapp:491511@s.whatsapp.net"),
        ("tui", "local", "tui:local"),
        ("tui", "ann", "tui:ann"),
        ("telegram", "12345", "telegram:12345"),
    ):
        assert memory.session(channel, chat).user == user


def test_session_without_user_differs_by_chat(memory: Limpet) -> None:
    assert memory.session("a", "b:c").user != memory.session("a:b", "c").user


def test_session_rejects_empty_user_and_agent(memory: Limpet) -> None:
    with pytest.raises(InvalidKey):
        memory.session("telegram", "1", user="")
    with pytest.raises(InvalidKey):
        memory.session("telegram", "1", agent="")
    assert memory.sessions() == []


def test_session_rejects_invalid_key_parts(memory: Limpet) -> None:
    whole: dict[str, Any] = {"channel": "c", "chat": "1", "user": "alice"}
    for part in ("channel", "chat", "thread", "user", "agent"):
        for bad in (" a", "a ", "a\nb", "a\x00b", "\ud800", "x" * 257, "é" * 129, "a\u2028b", "a\x9bb"):
            with pytest.raises(InvalidKey):
                memory.session(**{**whole, part: bad})
    for part in ("channel", "chat", "thread"):
        with pytest.raises(InvalidKey):
            memory.session(**{**whole, part: ""})
    assert memory.sessions() == []


def test_session_accepts_key_parts_at_length_limit(memory: Limpet) -> None:
    session = memory.session("c" * 256, "é" * 128, "t" * 256, user="u" * 256, agent="a" * 256)
    assert memory.session("c" * 256, "é" * 128, "t" * 256, user="u" * 256, agent="a" * 256).id == session.id
    session.append("user", "hello")
    assert faults(memory) == []


# One session, whoever asks first


def test_session_created_by_many_threads_is_one(memory: Limpet) -> None:
    for chat in range(5):
        ids = at_once(lambda _, chat=chat: memory.session("telegram", str(chat), user="alice").id)  # type: ignore[misc]
        assert len(set(ids)) == 1
    assert len(memory.sessions(user="alice")) == 5


def test_session_created_by_many_processes_is_one(durable_url: str) -> None:
    code = """
with Limpet.open(given) as memory:
    begin()
    answer([memory.session("telegram", str(chat), user="alice").id for chat in range(10)])
"""
    Limpet.open(durable_url).close()
    answers = run_together(code, durable_url, count=3)
    assert answers[0] == answers[1] == answers[2]
    with Limpet.open(durable_url) as memory:
        assert len(memory.sessions()) == 10


# Rotation


def test_session_new_keeps_key_and_terminates_old_session(memory: Limpet) -> None:
    old = memory.session("telegram", "1", user="alice", agent="coder")
    old.append("user", "the lighthouse keeper sings")
    fresh = old.new()
    assert fresh.id != old.id
    assert (fresh.key, fresh.user, fresh.agent, fresh.state) == (old.key, "alice", "coder", SessionStatus.ACTIVE)
    assert fresh.count() == 0
    assert old.state is SessionStatus.TERMINATED
    assert memory.session("telegram", "1", user="alice", agent="coder").id == fresh.id
    again = memory.load_session(old.id)
    assert again.state is SessionStatus.TERMINATED
    assert [message.text for message in again.messages()] == ["the lighthouse keeper sings"]
    assert [hit.source.session_id for hit in memory.recall("lighthouse", user="alice")] == [old.id]


def test_session_new_on_terminated_session_returns_its_successor(memory: Limpet) -> None:
    old = memory.session("telegram", "1")
    stale = memory.load_session(old.id)
    fresh = old.new()
    assert stale.new().id == fresh.id
    assert memory.load_session(fresh.id).state is SessionStatus.ACTIVE


def test_session_new_from_many_threads_leaves_one_live_session(memory: Limpet) -> None:
    session = memory.session("telegram", "1", user="alice")
    handles = [memory.load_session(session.id) for _ in range(8)]
    successors = at_once(lambda number: handles[number].new().id)
    assert len(set(successors)) == 1
    assert [info.id for info in memory.sessions(user="alice", state="ACTIVE")] == successors[:1]
    assert len(memory.sessions(user="alice")) == 2


def test_session_new_repeated_keeps_every_session(memory: Limpet) -> None:
    session = memory.session("telegram", "1", user="alice")
    for number in range(10):
        session.append("user", f"message {number}")
        session = session.new()
    assert len(memory.sessions(user="alice", state="TERMINATED")) == 10
    assert memory.admin.stats()["messages"] == 10


# Finding


def test_load_session_raises_not_found_for_unknown_id_or_other_user(memory: Limpet) -> None:
    session = memory.session("telegram", "1", user="alice")
    with pytest.raises(SessionNotFound):
        memory.load_session("01890000-0000-7000-8000-000000000000")
    with pytest.raises(SessionNotFound):
        memory.load_session(session.id, user="bob")
    with pytest.raises(InvalidKey):
        memory.load_session("telegram:1")
    assert memory.load_session(session.id.upper(), user="alice").id == session.id


def test_sessions_are_listed_by_latest_activity_first(timed: Limpet, clock: FakeClock) -> None:
    sessions = []
    for chat in "abc":
        sessions.append(timed.session("t", chat, user="alice"))
        clock.advance(1)
    sessions[0].append("user", "hello")
    assert [info.key.chat for info in timed.sessions(user="alice")] == ["a", "c", "b"]


def test_append_with_past_created_at_keeps_last_active_at(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "a")
    clock.advance(10)
    session.append("user", "now")
    session.append("user", "imported", created_at=clock.now - timedelta(days=1000))
    assert session.refresh().last_active_at == clock.now


def test_sessions_are_filtered_by_user_agent_channel_and_state(memory: Limpet) -> None:
    for user in ("alice", "bob"):
        for agent in ("assistant", "coder"):
            for channel in ("telegram", "whatsapp"):
                memory.session(channel, "1", user=user, agent=agent)
    memory.session("telegram", "1", user="alice", agent="coder").pause()
    memory.session("whatsapp", "1", user="bob", agent="coder").terminate()

    def found(**filters: Any) -> set[tuple[str, str, str]]:
        return {(info.user, info.agent, info.key.channel) for info in memory.sessions(**filters)}

    assert len(found()) == 8
    assert {user for user, _, _ in found(user="alice")} == {"alice"}
    assert len(found(user="alice")) == 4
    assert found(user="alice", agent="coder") == {("alice", "coder", "telegram"), ("alice", "coder", "whatsapp")}
    assert found(channel="whatsapp", user="bob", agent="assistant") == {("bob", "assistant", "whatsapp")}
    assert found(state="PAUSED") == {("alice", "coder", "telegram")}
    assert found(state="terminated") == {("bob", "coder", "whatsapp")}
    assert len(found(state="ACTIVE")) == 6
    assert found(user="carol") == set()
    with pytest.raises(InvalidInput):
        memory.sessions(state="asleep")


def test_sessions_paging_visits_each_session_once(timed: Limpet, clock: FakeClock) -> None:
    for chat in range(25):
        timed.session("t", str(chat), user="alice")
        clock.advance(chat % 2)  # two at a time have the same moment
    everything = [info.id for info in timed.sessions(user="alice")]
    pages = [timed.sessions(user="alice", limit=7, offset=offset) for offset in range(0, 35, 7)]
    assert [info.id for page in pages for info in page] == everything
    assert len(set(everything)) == 25
    assert timed.sessions(limit=0) == []
    for wrong in ({"limit": -1}, {"offset": -1}, {"limit": 10_001}, {"limit": True}, {"limit": "5"}):
        with pytest.raises(InvalidInput):
            timed.sessions(**wrong)


# Life


def test_session_pause_and_resume(memory: Limpet) -> None:
    session = memory.session("telegram", "1")
    session.pause()
    assert session.state is SessionStatus.PAUSED
    assert memory.load_session(session.id).state is SessionStatus.PAUSED
    assert memory.session("telegram", "1").id == session.id
    session.resume()
    assert memory.load_session(session.id).state is SessionStatus.ACTIVE


@pytest.mark.parametrize("state", ["paused", "terminated"])
def test_session_that_is_not_active_refuses_messages(memory: Limpet, state: str) -> None:
    session = memory.session("telegram", "1")
    first = session.append("user", "before", idempotency_key="one")
    session.pause() if state == "paused" else session.terminate()
    with pytest.raises(WrongState, match=state):
        session.append("user", "after")
    with pytest.raises(WrongState, match=state):
        session.extend([Message.new("user", "after")])
    with pytest.raises(WrongState, match=state), session.turn("after"):
        pass
    assert session.append("user", "before", idempotency_key="one").sequence == first.sequence  # only said again
    assert [message.text for message in session.messages()] == ["before"]


def test_session_takes_messages_again_after_resume(memory: Limpet) -> None:
    session = memory.session("telegram", "1")
    session.pause()
    session.resume()
    assert session.append("user", "after").sequence == 1
    session.terminate()
    assert memory.session("telegram", "1").append("user", "after").sequence == 1


def test_reply_to_session_terminated_during_turn_is_refused(memory: Limpet) -> None:
    session = memory.session("telegram", "1")
    with session.turn("How are you?") as turn:
        session.terminate()
        with pytest.raises(WrongState, match="terminated"):
            turn.reply("Fine.")
    assert [message.text for message in session.messages()] == ["How are you?"]


def test_session_terminated_cannot_be_resumed(memory: Limpet) -> None:
    session = memory.session("telegram", "1")
    session.terminate()
    session.terminate()
    for change in (session.resume, session.pause):
        with pytest.raises(InvalidInput, match="terminated"):
            change()
    assert memory.load_session(session.id).state is SessionStatus.TERMINATED
    successor = memory.session("telegram", "1")
    assert successor.id != session.id
    with pytest.raises(InvalidInput):
        session.resume()
    assert memory.session("telegram", "1").id == successor.id


def test_session_metadata_is_merged_and_none_removes_key(memory: Limpet) -> None:
    session = memory.session("telegram", "1", metadata={"title": "Chat", "deep": {"list": [1, "é", None]}})
    assert session.update_metadata({"title": None, "a.b": 'x"y', "n": 1.5}) == {
        "deep": {"list": [1, "é", None]},
        "a.b": 'x"y',
        "n": 1.5,
    }
    assert memory.load_session(session.id).metadata == session.metadata
    assert memory.session("telegram", "1", metadata={"title": "again"}).metadata == session.metadata


def test_session_metadata_updates_from_many_threads_lose_nothing(memory: Limpet) -> None:
    session = memory.session("telegram", "1")
    handles = [memory.load_session(session.id) for _ in range(8)]
    at_once(lambda number: handles[number].update_metadata({f"key {number}": number}))
    assert session.refresh().metadata == {f"key {number}": number for number in range(8)}


def test_session_metadata_rejects_invalid_json(memory: Limpet) -> None:
    session = memory.session("telegram", "1", metadata={"kept": True})
    wrong: list[Any] = [{1: "x"}, {"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {"x": "a\x00"}, {"\x00": 1}]
    for bad in [*wrong, ["x"], "text", 5, {"x": 10**5000}, {f"key {number}": 1 for number in range(1001)}]:
        with pytest.raises(InvalidInput):
            session.update_metadata(bad)
        with pytest.raises(InvalidInput):
            memory.session("telegram", "2", metadata=bad)
    assert session.refresh().metadata == {"kept": True}
    assert len(memory.sessions()) == 1


def test_session_metadata_keeps_escaped_nul_text(memory: Limpet) -> None:
    pattern = {"pattern": "[\\u0000-\\u001f]", "\\u0000": "\\\\u0000"}
    session = memory.session("telegram", "1", metadata=pattern)
    assert memory.load_session(session.id).metadata == pattern


def test_session_expiry_is_stored(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("telegram", "1", ttl=timedelta(hours=2))
    assert timed.load_session(session.id).expires_at == clock.now + timedelta(hours=2)
    session.expire_in(None)
    assert timed.load_session(session.id).expires_at is None
    session.expire_in(timedelta(microseconds=1))
    assert session.refresh().expires_at == clock.now + timedelta(microseconds=1)


def test_session_survives_reopen_with_all_fields(durable_url: str, clock: FakeClock) -> None:
    with Limpet.open(durable_url, clock=clock) as memory:
        session = memory.session(
            "telegram", "a:b", "t", user="alice", agent="coder", metadata={"x": [1, 2]}, ttl=timedelta(1)
        )
        session.append("user", "hello")
        session.pause()
        before = session.refresh()
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(before.id).info == before
        assert memory.sessions() == [before]


# Clearing and deleting


def _filled(memory: Limpet, chat: str) -> str:
    session = memory.session("telegram", chat, user="alice", metadata={"chat": chat})
    for number in range(5):
        session.append("user", f"walrus number {number} in chat {chat}")
    assert session.set_summary("walruses", 5)
    session.kv.set("k", "v")
    session.add_usage("m", input_tokens=1)
    record = memory.remember(f"a walrus record of {chat}", session=session.id, tags=["t"], metadata={"m": "1"})
    memory.records.update(record.id, content=f"a changed walrus record of {chat}")
    return session.id


def test_session_delete_removes_its_rows_and_nothing_else(memory: Limpet) -> None:
    kept = _filled(memory, "kept")
    memory.remember("the user's own walrus", user="alice")
    before = every_row(memory)
    gone = memory.load_session(_filled(memory, "gone"))
    counts = gone.delete()
    assert dict(counts) == {
        "sessions": 1, "messages": 5, "summaries": 1, "kv": 1, "usage": 1, "records": 1, "versions": 1, "chunks": 6,
    }  # fmt: skip
    after = every_row(memory)
    partitions_before, partitions_after = before.pop("partitions"), after.pop("partitions")
    assert after == before
    assert len(partitions_after) == len(partitions_before)
    assert {hit.source.session_id or hit.source.id for hit in memory.recall("walrus", user="alice", k=100)} >= {kept}
    assert all("gone" not in hit.text for hit in memory.recall("walrus gone", user="alice", k=100))
    assert faults(memory) == []


def test_session_deleted_raises_not_found_on_every_handle(memory: Limpet) -> None:
    session = memory.session("telegram", "1", user="alice")
    other = memory.load_session(session.id)
    session.append("user", "hello")
    session.delete()
    for call in (
        lambda: other.append("user", "again"),
        other.refresh,
        other.count,
        other.delete,
        other.clear,
        other.pause,
        other.new,
        lambda: other.kv.set("k", 1),
        lambda: other.add_usage("m"),
        lambda: other.swap_summary("s", 1, 0),
        lambda: other.update_metadata({"a": 1}),
        lambda: memory.load_session(session.id),
        lambda: memory.remember("x", session=session.id),
        lambda: memory.recall("x", session=session.id),
    ):
        with pytest.raises(SessionNotFound):
            call()
    assert memory.sessions() == []
    assert memory.session("telegram", "1", user="alice").id != session.id


def test_session_clear_removes_messages_and_keeps_session(memory: Limpet) -> None:
    session = memory.load_session(_filled(memory, "1"))
    session.clear()
    assert session.count() == 0
    assert session.messages() == []
    assert session.summary() is None
    assert session.kv.items() == {"k": "v"}
    assert session.usage().input_tokens == 1
    assert session.metadata == {"chat": "1"}
    assert [hit.source.kind for hit in memory.recall("walrus", user="alice")] == ["record"]
    assert session.append("user", "after").sequence == 6
    assert session.count() == 1
    assert faults(memory) == []


def test_session_clear_keeps_other_sessions(memory: Limpet) -> None:
    one, two = memory.session("t", "1", user="alice"), memory.session("t", "2", user="alice")
    for session in (one, two):
        session.append("user", "the same walrus")
    one.clear()
    assert [hit.source.session_id for hit in memory.recall("walrus", user="alice")] == [two.id]
    assert two.count() == 1


def test_session_count_matches_stored_messages(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert session.count() == 0
    for number in range(1, 8):
        session.append("user", "x", sequence=number * 10)
        assert session.count() == number
    assert session.refresh().message_count == 7
    assert session.refresh().last_sequence == 70


def test_handles_of_one_store_see_each_others_writes(durable_url: str) -> None:
    with Limpet.open(durable_url) as one, Limpet.open(durable_url) as two:
        mine = one.session("t", "1", user="alice")
        theirs = two.session("t", "1", user="alice")
        for number in range(5):
            mine.append("user", f"mine {number}")
            theirs.append("user", f"theirs {number}")
            mine.kv.set(f"mine {number}", number)
            theirs.kv.set(f"theirs {number}", number)
            mine.update_metadata({f"mine {number}": 1})
            theirs.update_metadata({f"theirs {number}": 1})
            assert theirs.messages() == mine.messages()
            assert theirs.kv.items() == mine.kv.items()
        assert len(mine.messages()) == len(mine.kv.items()) == len(mine.refresh().metadata) == 10
        record = one.remember("first", user="alice", key="k")
        two.records.update(record.id, content="second")
        assert one.records.get(record.id).content == "second"
        assert [hit.text for hit in one.recall("second", user="alice")] == ["second"]
        two.forget(record.id)
        assert one.records(user="alice") == []
