from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput, InvalidKey, SessionNotFound
from limpet.model.naming import SessionKey
from limpet.model.session import SessionStatus
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

# Identity


def test_an_id_is_a_uuid_of_version_7_and_the_key_is_the_chat(hf: Limpet) -> None:
    session = hf.session("telegram", "12345", "7")
    assert UUID(session.id).version == 7
    assert UUID(session.id).variant == "specified in RFC 4122"
    assert (session.key, session.channel, session.chat, session.thread) == (
        "telegram:12345:7",
        "telegram",
        "12345",
        "7",
    )


def test_ids_sort_by_the_time_they_were_made(timed: Limpet, clock: FakeClock) -> None:
    ids = []
    for chat in range(20):
        ids.append(timed.session("t", str(chat)).id)
        clock.advance(milliseconds=1)
    assert ids == sorted(ids)
    assert len(set(ids)) == 20


def test_the_same_chat_again_is_the_same_session(hf: Limpet) -> None:
    first = hf.session("telegram", "1", user="alice")
    assert hf.session("telegram", "1", user="alice").id == first.id
    assert hf.load_session(first.id).key == first.key


def test_another_channel_chat_thread_user_or_agent_is_another_session(hf: Limpet) -> None:
    base: dict[str, Any] = {"channel": "telegram", "chat": "1", "user": "alice", "agent": "assistant"}
    others: tuple[dict[str, str], ...] = (
        {},
        {"channel": "whatsapp"},
        {"chat": "2"},
        {"thread": "1"},
        {"user": "bob"},
        {"agent": "coder"},
    )
    assert len({hf.session(**{**base, **other}).id for other in others}) == len(others)


def test_a_colon_inside_a_part_collides_with_no_other_key(hf: Limpet) -> None:
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
        first, second = hf.session(*one, user="alice"), hf.session(*two, user="alice")
        assert first.id != second.id
        assert first.key != second.key
        for session, parts in ((first, one), (second, two)):
            again = hf.load_session(session.id)
            assert (again.channel, again.chat, again.thread) == (*parts, None)[:3]
            assert str(SessionKey.parse(again.key)) == again.key


def test_without_a_user_the_chat_is_one(hf: Limpet) -> None:
    for channel, chat, user in (
        ("whatsapp", "491511", "whatsapp:491511@s.whatsapp.net"),
        ("whatsapp", "491511@s.whatsapp.net", "whatsapp:491511@s.whatsapp.net"),
        ("tui", "local", "tui:local"),
        ("tui", "ann", "tui:ann"),
        ("telegram", "12345", "telegram:12345"),
    ):
        assert hf.session(channel, chat).user == user


def test_two_chats_without_a_user_are_two_users(hf: Limpet) -> None:
    assert hf.session("a", "b:c").user != hf.session("a:b", "c").user


def test_an_empty_user_is_refused_and_not_somebody_else(hf: Limpet) -> None:
    with pytest.raises(InvalidKey):
        hf.session("telegram", "1", user="")
    with pytest.raises(InvalidKey):
        hf.session("telegram", "1", agent="")
    assert hf.sessions() == []


def test_a_part_that_is_no_name_is_refused(hf: Limpet) -> None:
    whole: dict[str, Any] = {"channel": "c", "chat": "1", "user": "alice"}
    for part in ("channel", "chat", "thread", "user", "agent"):
        for bad in (" a", "a ", "a\nb", "a\x00b", "\ud800", "x" * 257, "é" * 129, "a\u2028b", "a\x9bb"):
            with pytest.raises(InvalidKey):
                hf.session(**{**whole, part: bad})
    for part in ("channel", "chat", "thread"):
        with pytest.raises(InvalidKey):
            hf.session(**{**whole, part: ""})
    assert hf.sessions() == []


def test_parts_at_their_limits_make_a_session(hf: Limpet) -> None:
    session = hf.session("c" * 256, "é" * 128, "t" * 256, user="u" * 256, agent="a" * 256)
    assert hf.session("c" * 256, "é" * 128, "t" * 256, user="u" * 256, agent="a" * 256).id == session.id
    session.append("user", "hello")
    assert faults(hf) == []


# One session, whoever asks first


def test_two_threads_that_ask_at_once_get_one_session(hf: Limpet) -> None:
    for chat in range(5):
        ids = at_once(lambda _, chat=chat: hf.session("telegram", str(chat), user="alice").id)  # type: ignore[misc]
        assert len(set(ids)) == 1
    assert len(hf.sessions(user="alice")) == 5


def test_two_processes_that_ask_at_once_get_one_session(durable_url: str) -> None:
    code = """
with Limpet.open(given) as hf:
    begin()
    answer([hf.session("telegram", str(chat), user="alice").id for chat in range(10)])
"""
    Limpet.open(durable_url).close()
    answers = run_together(code, durable_url, count=3)
    assert answers[0] == answers[1] == answers[2]
    with Limpet.open(durable_url) as hf:
        assert len(hf.sessions()) == 10


# Rotation


def test_new_gives_a_new_id_under_the_same_key_and_the_old_one_stays(hf: Limpet) -> None:
    old = hf.session("telegram", "1", user="alice", agent="coder")
    old.append("user", "the lighthouse keeper sings")
    fresh = old.new()
    assert fresh.id != old.id
    assert (fresh.key, fresh.user, fresh.agent, fresh.state) == (old.key, "alice", "coder", SessionStatus.ACTIVE)
    assert fresh.count() == 0
    assert old.state is SessionStatus.TERMINATED
    assert hf.session("telegram", "1", user="alice", agent="coder").id == fresh.id
    again = hf.load_session(old.id)
    assert again.state is SessionStatus.TERMINATED
    assert [message.text for message in again.messages()] == ["the lighthouse keeper sings"]
    assert [hit.source.session_id for hit in hf.recall("lighthouse", user="alice")] == [old.id]


def test_rotating_an_ended_session_joins_its_successor(hf: Limpet) -> None:
    old = hf.session("telegram", "1")
    stale = hf.load_session(old.id)
    fresh = old.new()
    assert stale.new().id == fresh.id
    assert hf.load_session(fresh.id).state is SessionStatus.ACTIVE


def test_two_threads_that_rotate_at_once_leave_one_live_session(hf: Limpet) -> None:
    session = hf.session("telegram", "1", user="alice")
    handles = [hf.load_session(session.id) for _ in range(8)]
    successors = at_once(lambda number: handles[number].new().id)
    assert len(set(successors)) == 1
    assert [info.id for info in hf.sessions(user="alice", state="ACTIVE")] == successors[:1]
    assert len(hf.sessions(user="alice")) == 2


def test_many_rotations_keep_every_session(hf: Limpet) -> None:
    session = hf.session("telegram", "1", user="alice")
    for number in range(10):
        session.append("user", f"message {number}")
        session = session.new()
    assert len(hf.sessions(user="alice", state="TERMINATED")) == 10
    assert hf.admin.stats()["messages"] == 10


# Finding


def test_load_tells_what_is_unknown(hf: Limpet) -> None:
    session = hf.session("telegram", "1", user="alice")
    with pytest.raises(SessionNotFound):
        hf.load_session("01890000-0000-7000-8000-000000000000")
    with pytest.raises(SessionNotFound):
        hf.load_session(session.id, user="bob")
    with pytest.raises(InvalidKey):
        hf.load_session("telegram:1")
    assert hf.load_session(session.id.upper(), user="alice").id == session.id


def test_the_most_recently_active_comes_first(timed: Limpet, clock: FakeClock) -> None:
    sessions = []
    for chat in "abc":
        sessions.append(timed.session("t", chat, user="alice"))
        clock.advance(1)
    sessions[0].append("user", "hello")
    assert [info.key.chat for info in timed.sessions(user="alice")] == ["a", "c", "b"]


def test_a_message_from_the_past_does_not_make_a_session_older(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "a")
    clock.advance(10)
    session.append("user", "now")
    session.append("user", "imported", created_at=clock.now - timedelta(days=1000))
    assert session.refresh().last_active_at == clock.now


def test_sessions_are_filtered_by_user_agent_channel_and_state(hf: Limpet) -> None:
    for user in ("alice", "bob"):
        for agent in ("assistant", "coder"):
            for channel in ("telegram", "whatsapp"):
                hf.session(channel, "1", user=user, agent=agent)
    hf.session("telegram", "1", user="alice", agent="coder").pause()
    hf.session("whatsapp", "1", user="bob", agent="coder").terminate()

    def found(**filters: Any) -> set[tuple[str, str, str]]:
        return {(info.user, info.agent, info.key.channel) for info in hf.sessions(**filters)}

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
        hf.sessions(state="asleep")


def test_pages_cover_every_session_once(timed: Limpet, clock: FakeClock) -> None:
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


def test_pause_and_resume(hf: Limpet) -> None:
    session = hf.session("telegram", "1")
    session.pause()
    assert session.state is SessionStatus.PAUSED
    assert hf.load_session(session.id).state is SessionStatus.PAUSED
    assert hf.session("telegram", "1").id == session.id
    session.resume()
    assert hf.load_session(session.id).state is SessionStatus.ACTIVE


def test_an_ended_session_stays_ended(hf: Limpet) -> None:
    session = hf.session("telegram", "1")
    session.terminate()
    session.terminate()
    for change in (session.resume, session.pause):
        with pytest.raises(InvalidInput, match="terminated"):
            change()
    assert hf.load_session(session.id).state is SessionStatus.TERMINATED
    successor = hf.session("telegram", "1")
    assert successor.id != session.id
    with pytest.raises(InvalidInput):
        session.resume()
    assert hf.session("telegram", "1").id == successor.id


def test_metadata_is_merged_and_none_removes(hf: Limpet) -> None:
    session = hf.session("telegram", "1", metadata={"title": "Chat", "deep": {"list": [1, "é", None]}})
    assert session.update_metadata({"title": None, "a.b": 'x"y', "n": 1.5}) == {
        "deep": {"list": [1, "é", None]},
        "a.b": 'x"y',
        "n": 1.5,
    }
    assert hf.load_session(session.id).metadata == session.metadata
    assert hf.session("telegram", "1", metadata={"title": "again"}).metadata == session.metadata


def test_two_threads_that_update_metadata_lose_nothing(hf: Limpet) -> None:
    session = hf.session("telegram", "1")
    handles = [hf.load_session(session.id) for _ in range(8)]
    at_once(lambda number: handles[number].update_metadata({f"key {number}": number}))
    assert session.refresh().metadata == {f"key {number}": number for number in range(8)}


def test_metadata_that_is_no_json_is_refused(hf: Limpet) -> None:
    session = hf.session("telegram", "1", metadata={"kept": True})
    wrong: list[Any] = [{1: "x"}, {"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {"x": "a\x00"}, {"\x00": 1}]
    for bad in [*wrong, ["x"], "text", 5, {"x": 10**5000}, {f"key {number}": 1 for number in range(1001)}]:
        with pytest.raises(InvalidInput):
            session.update_metadata(bad)
        with pytest.raises(InvalidInput):
            hf.session("telegram", "2", metadata=bad)
    assert session.refresh().metadata == {"kept": True}
    assert len(hf.sessions()) == 1


def test_text_that_only_looks_like_a_nul_is_kept(hf: Limpet) -> None:
    pattern = {"pattern": "[\\u0000-\\u001f]", "\\u0000": "\\\\u0000"}
    session = hf.session("telegram", "1", metadata=pattern)
    assert hf.load_session(session.id).metadata == pattern


def test_expiry_is_kept(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("telegram", "1", ttl=timedelta(hours=2))
    assert timed.load_session(session.id).expires_at == clock.now + timedelta(hours=2)
    session.expire_in(None)
    assert timed.load_session(session.id).expires_at is None
    session.expire_in(timedelta(microseconds=1))
    assert session.refresh().expires_at == clock.now + timedelta(microseconds=1)


def test_a_session_survives_closing_with_all_it_had(durable_url: str, clock: FakeClock) -> None:
    with Limpet.open(durable_url, clock=clock) as hf:
        session = hf.session(
            "telegram", "a:b", "t", user="alice", agent="coder", metadata={"x": [1, 2]}, ttl=timedelta(1)
        )
        session.append("user", "hello")
        session.pause()
        before = session.refresh()
    with Limpet.open(durable_url) as hf:
        assert hf.load_session(before.id).info == before
        assert hf.sessions() == [before]


# Clearing and deleting


def _filled(hf: Limpet, chat: str) -> str:
    session = hf.session("telegram", chat, user="alice", metadata={"chat": chat})
    for number in range(5):
        session.append("user", f"walrus number {number} in chat {chat}")
    assert session.set_summary("walruses", 5)
    session.kv.set("k", "v")
    session.add_usage("m", input_tokens=1)
    record = hf.remember(f"a walrus record of {chat}", session=session.id, tags=["t"], metadata={"m": "1"})
    hf.records.update(record.id, content=f"a changed walrus record of {chat}")
    return session.id


def test_delete_takes_everything_under_it_and_nothing_else(hf: Limpet) -> None:
    kept = _filled(hf, "kept")
    hf.remember("the user's own walrus", user="alice")
    before = every_row(hf)
    gone = hf.load_session(_filled(hf, "gone"))
    counts = gone.delete()
    assert dict(counts) == {
        "sessions": 1, "messages": 5, "summaries": 1, "kv": 1, "usage": 1, "records": 1, "versions": 1, "chunks": 6,
    }  # fmt: skip
    after = every_row(hf)
    partitions_before, partitions_after = before.pop("partitions"), after.pop("partitions")
    assert after == before
    assert len(partitions_after) == len(partitions_before)
    assert {hit.source.session_id or hit.source.id for hit in hf.recall("walrus", user="alice", k=100)} >= {kept}
    assert all("gone" not in hit.text for hit in hf.recall("walrus gone", user="alice", k=100))
    assert faults(hf) == []


def test_a_deleted_session_is_gone_for_every_handle(hf: Limpet) -> None:
    session = hf.session("telegram", "1", user="alice")
    other = hf.load_session(session.id)
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
        lambda: hf.load_session(session.id),
        lambda: hf.remember("x", session=session.id),
        lambda: hf.recall("x", session=session.id),
    ):
        with pytest.raises(SessionNotFound):
            call()
    assert hf.sessions() == []
    assert hf.session("telegram", "1", user="alice").id != session.id


def test_clear_takes_the_messages_and_keeps_the_session(hf: Limpet) -> None:
    session = hf.load_session(_filled(hf, "1"))
    session.clear()
    assert session.count() == 0
    assert session.messages() == []
    assert session.summary() is None
    assert session.kv.items() == {"k": "v"}
    assert session.usage().input_tokens == 1
    assert session.metadata == {"chat": "1"}
    assert [hit.source.kind for hit in hf.recall("walrus", user="alice")] == ["record"]
    assert session.append("user", "after").sequence == 6
    assert session.count() == 1
    assert faults(hf) == []


def test_clear_of_one_session_leaves_the_others(hf: Limpet) -> None:
    one, two = hf.session("t", "1", user="alice"), hf.session("t", "2", user="alice")
    for session in (one, two):
        session.append("user", "the same walrus")
    one.clear()
    assert [hit.source.session_id for hit in hf.recall("walrus", user="alice")] == [two.id]
    assert two.count() == 1


def test_count_counts_what_is_there(hf: Limpet) -> None:
    session = hf.session("t", "1")
    assert session.count() == 0
    for number in range(1, 8):
        session.append("user", "x", sequence=number * 10)
        assert session.count() == number
    assert session.refresh().message_count == 7
    assert session.refresh().last_sequence == 70
