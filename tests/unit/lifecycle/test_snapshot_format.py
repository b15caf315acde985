from __future__ import annotations

import contextlib
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.errors import InvalidInput
from limpet.lifecycle.formats.snapshot import Snapshot, SnapshotSession, parse_snapshot
from limpet.model.message import ImagePart, Message, Role, TextPart, ToolCall
from limpet.model.scope import SessionKey
from limpet.model.session import SessionStatus
from limpet.sessions.files import FileSessions

NOW = datetime(2026, 11, 15, tzinfo=UTC)
CREATED = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)


def parsed(document: Any) -> Snapshot:
    return parse_snapshot(json.dumps(document).encode(), now=NOW)


def one(**fields: Any) -> SnapshotSession:
    [session] = parsed([{"id": "s1", "channel": "telegram", "chat": "42", **fields}]).sessions
    return session


def message(**fields: Any) -> Message:
    [found] = one(created_at="2026-02-01T09:00:00Z", messages=[{"role": "user", "content": "hi", **fields}]).messages
    return found


def refusal(document: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        parsed(document)
    return str(caught.value)


SESSION = {"id": "s1", "channel": "telegram", "chat": 42}


@pytest.mark.parametrize(
    "document",
    [
        [SESSION],
        {"sessions": [SESSION]},
        {"s1": {"channel": "telegram", "chat": 42}},
        {"s1": SESSION},
        {"sessions": {"s1": {"channel": "telegram", "chat": 42}}},
    ],
)
def test_snapshot_accepts_list_and_object_forms(document: Any) -> None:
    [session] = parsed(document).sessions
    assert session == SnapshotSession(
        original_id="s1",
        key=SessionKey("telegram", "42"),
        user="telegram:42",
        agent=None,
        state=SessionStatus.ACTIVE,
        metadata={},
        created_at=NOW,
        last_active_at=NOW,
        summary=None,
        messages=(),
    )


@pytest.mark.parametrize("document", [[], {}, {"sessions": []}, {"sessions": {}}])
def test_snapshot_may_be_empty(document: Any) -> None:
    assert parsed(document).sessions == ()


def test_snapshot_digest_is_sha256_of_file() -> None:
    data = b"\xef\xbb\xbf [ ]\n"
    assert parse_snapshot(data, now=NOW).digest == hashlib.sha256(data).hexdigest()


def test_snapshot_session_with_all_fields() -> None:
    session = one(
        thread_id=7,
        user_id="alice",
        agent_id="coder",
        state="Paused",
        created_at="2026-02-01T10:00:00+01:00",
        last_active="2026-02-03T00:00:00Z",
        metadata={"lang": "pt", "n": [1]},
        summary={"text": "They met.", "message_count": 4},
        conversation=[{"role": "user", "content": "hi"}],
    )
    assert session.key == SessionKey("telegram", "42", "7")
    assert (session.user, session.agent, session.state) == ("alice", "coder", SessionStatus.PAUSED)
    assert (session.created_at, session.last_active_at) == (CREATED, datetime(2026, 2, 3, tzinfo=UTC))
    assert session.metadata == {"lang": "pt", "n": [1]}
    assert session.summary == "They met."
    assert [(m.role, m.content, m.created_at) for m in session.messages] == [(Role.USER, "hi", CREATED)]


def test_snapshot_reads_tagged_messages_of_rust_bots() -> None:
    snapshot = parsed(
        {
            "sessions": [
                {
                    "id": "abc",
                    "channel_type": "whatsapp",
                    "channel_id": "+351900",
                    "user_id": "whatsapp:+351900@s.whatsapp.net",
                    "conversation": [
                        {"System": {"content": "Be kind."}},
                        {"User": {"content": "Weather?"}},
                        {"Tool": {"tool_call_id": "c1", "content": "sunny"}},
                        {"Assistant": {"content": "Sunny."}},
                    ],
                    "permissions": {"permissions": []},
                    "created_at": "2026-02-01T09:00:00.123456789Z",
                    "last_active": "2026-02-01T09:05:00Z",
                    "state": {"AwaitingPermission": {"tool": "shell", "request_id": "r"}},
                }
            ]
        }
    )
    [session] = snapshot.sessions
    assert session.key == SessionKey("whatsapp", "+351900")
    assert session.created_at == CREATED.replace(microsecond=123456)
    assert session.state is SessionStatus.ACTIVE
    assert [(m.role, m.content) for m in session.messages] == [
        ("system", "Be kind."),
        ("user", "Weather?"),
        ("tool", "sunny"),
        ("assistant", "Sunny."),
    ]
    assert session.messages[2].tool_call_id == "c1"
    assert snapshot.skipped == ("session field 'permissions'",)


def test_snapshot_reads_file_session_index(tmp_path: Path) -> None:
    new_id = "0189aaaa-0000-7000-8000-000000000001"
    made = FileSessions(tmp_path, clock=lambda: CREATED, new_id=lambda: new_id).create_session(agent="chat")
    [session] = parse_snapshot((tmp_path / "sessions.json").read_bytes(), now=NOW).sessions
    assert session.key == SessionKey("file", made.id)
    assert (session.agent, session.created_at, session.messages) == ("chat", made.created_at, ())


def test_snapshot_session_id_may_be_a_session_key() -> None:
    [session] = parsed({"telegram:42:7": {"messages": []}}).sessions
    assert session.key == SessionKey("telegram", "42", "7")
    [session] = parsed({"plain": {"messages": [{"role": "user", "content": "x"}]}}).sessions
    assert session.key == SessionKey("file", "plain")


def test_snapshot_channel_without_chat_uses_session_id() -> None:
    [session] = parsed([{"id": "s9", "channel": "tui"}]).sessions
    assert session.key == SessionKey("tui", "s9")
    [session] = parsed([{"channel": "tui", "chat": "x:y"}]).sessions
    assert session.original_id == "tui:x%3Ay"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, SessionStatus.ACTIVE),
        ({"state": None}, SessionStatus.ACTIVE),
        ({"state": "ACTIVE"}, SessionStatus.ACTIVE),
        ({"state": "Idle"}, SessionStatus.ACTIVE),
        ({"state": "awaiting_permission"}, SessionStatus.ACTIVE),
        ({"state": "terminated"}, SessionStatus.TERMINATED),
        ({"state": {"state": "paused"}}, SessionStatus.PAUSED),
        ({"state_json": '"Terminated"'}, SessionStatus.TERMINATED),
        ({"state_json": '{"state": "Paused"}'}, SessionStatus.PAUSED),
        ({"state_json": '{"AwaitingPermission": {"tool": "x"}}'}, SessionStatus.ACTIVE),
        ({"state_json": {"state": "TERMINATED"}}, SessionStatus.TERMINATED),
        ({"state_json": "{}"}, SessionStatus.ACTIVE),
    ],
)
def test_snapshot_session_states(fields: dict[str, Any], state: SessionStatus) -> None:
    assert one(**fields).state is state


def test_snapshot_skips_and_reports_unrelated_state_fields() -> None:
    snapshot = parsed([{**SESSION, "state_json": {"mood": "good", "step": 2}}, {**SESSION, "id": "s2", "mood": 1}])
    assert snapshot.sessions[0].state is SessionStatus.ACTIVE
    assert snapshot.skipped == ("session field 'mood'", "session field 'state_json'")


def test_snapshot_reports_each_skipped_field_once() -> None:
    message = {"role": "user", "content": "x", "token_estimate": 1}
    snapshot = parsed({"version": 1, "sessions": [{**SESSION, "messages": [message, message]}]})
    assert snapshot.skipped == ("message field 'token_estimate' (2 times)", "top-level field 'version'")


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("2026-02-01T09:00:00Z", CREATED),
        ("2026-02-01T09:00:00", CREATED),
        ("2026-02-01 09:00:00", CREATED),
        ("2026-02-01T14:45:00+05:45", CREATED),
        (1769936400, CREATED),
        (1769936400.5, CREATED.replace(microsecond=500000)),
        (1769936400123, CREATED.replace(microsecond=123000)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-86400, datetime(1969, 12, 31, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("field", ["created_at", "timestamp", "ts"])
def test_snapshot_time_formats(field: str, value: Any, instant: datetime) -> None:
    assert message(**{field: value}).created_at == instant


@pytest.mark.parametrize(
    "value", ["yesterday", "2026-13-01", True, [], {}, 1e300, 10**30, 10**400, "0001-01-01T00:00:00+10:00"]
)
def test_snapshot_rejects_invalid_time_with_its_path(value: Any) -> None:
    bad = {"role": "user", "content": "x", "ts": value}
    assert refusal([SESSION, {**SESSION, "id": "s2", "messages": [bad]}]).startswith("sessions[1]: messages[0]: ts: ")


def test_snapshot_session_without_times_uses_message_times() -> None:
    early, late = "2026-02-01T09:00:00Z", "2026-02-02T09:00:00Z"
    listed = [{"role": "user", "content": text, "ts": ts} for text, ts in (("b", late), ("a", early), ("c", None))]
    session = one(messages=listed)
    assert session.created_at == CREATED
    assert session.last_active_at == datetime(2026, 2, 2, 9, tzinfo=UTC)
    assert [m.content for m in session.messages] == ["b", "a", "c"]
    assert session.messages[2].created_at == CREATED
    assert one(updated_at=early).created_at == CREATED


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("user", Role.USER),
        ("USER", Role.USER),
        ("human", Role.USER),
        ("AI", Role.ASSISTANT),
        ("model", Role.ASSISTANT),
        ("developer", Role.SYSTEM),
        ("function", Role.TOOL),
    ],
)
@pytest.mark.parametrize("field", ["role", "message_type", "type"])
def test_snapshot_message_roles(field: str, word: str, role: Role) -> None:
    fields: dict[str, Any] = {"role": None, field: word}
    assert message(**fields).role is role


def test_snapshot_content_parts() -> None:
    found = message(
        content=[
            "plain",
            {"type": "text", "text": "ours"},
            {"type": "input_text", "text": "theirs"},
            {"type": "image", "uri": "a.png", "alt": "A"},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ]
    )
    assert found.content == (
        TextPart("plain"),
        TextPart("ours"),
        TextPart("theirs"),
        ImagePart("a.png", None, "A"),
        ImagePart("https://x/y.png"),
        ImagePart("data:image/png;base64,AAAA", "image/png"),
    )


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "name": "search", "arguments": {"q": "é"}},
        {"id": "c1", "name": "search", "arguments": '{"q": "é"}'},
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "é"}'}},
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"q": "é"}}},
    ],
)
def test_snapshot_tool_calls(call: dict[str, Any]) -> None:
    found = message(role="assistant", content=None, tool_calls=[call])
    assert found.content == ""
    assert found.tool_calls == (ToolCall("c1", "search", {"q": "é"}),)


@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_snapshot_tool_call_without_arguments(arguments: Any) -> None:
    found = message(tool_calls=[{"id": 5, "function": {"name": "now", "arguments": arguments}}])
    assert found.tool_calls == (ToolCall("5", "now", {}),)


def test_snapshot_other_message_fields() -> None:
    found = message(role="tool", name="Ana", tool_call_id="c1", is_error=True, metadata={"a": {"b": 1}})
    assert (found.name, found.tool_call_id, found.is_error, found.metadata) == ("Ana", "c1", True, {"a": {"b": 1}})
    assert found.tokens > 0


def test_snapshot_orders_messages_by_sequence() -> None:
    listed = [{"role": "user", "content": str(n), "seq_order": n} for n in (9, 4, 5)]
    assert [(m.content, m.sequence) for m in one(messages=listed).messages] == [("4", 4), ("5", 5), ("9", 9)]


def test_snapshot_shifts_sequences_that_start_at_zero() -> None:
    listed = [{"role": "user", "content": str(n), "sequence": n} for n in (0, 1, 5)]
    assert [m.sequence for m in one(messages=listed).messages] == [1, 2, 6]


def test_snapshot_messages_without_sequence_stay_unnumbered() -> None:
    assert message().sequence == 0


@pytest.mark.parametrize("value", ["", "a summary"])
def test_snapshot_summary_as_text_or_object(value: str) -> None:
    assert one(summary=value).summary == (value or None)
    assert one(summary={"text": value}).summary == (value or None)


GOOD = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"id": "a\nb"}, "sessions[1]: id "),
        ({"id": None, "chat": None}, "sessions[1]: id: is missing"),
        ({"channel": ["x"]}, "sessions[1]: channel "),
        ({"user": True}, "sessions[1]: user "),
        ({"state": "dancing"}, "sessions[1]: state: "),
        ({"state": 3}, "sessions[1]: state: "),
        ({"state_json": "{"}, "sessions[1]: state_json: "),
        ({"created_at": "soon"}, "sessions[1]: created_at: "),
        ({"last_active_at": "soon"}, "sessions[1]: last_active_at: "),
        ({"metadata": [1]}, "sessions[1]: metadata "),
        ({"summary": 5}, "sessions[1]: summary "),
        ({"summary": {"text": 5}}, "sessions[1]: summary "),
        ({"messages": {}}, "sessions[1]: messages: must be a list"),
        ({"history": "x"}, "sessions[1]: history: must be a list"),
        ({"messages": [GOOD, 5]}, "sessions[1]: messages[1]: must be an object, not a number"),
        ({"messages": [GOOD, {"content": "x"}]}, "sessions[1]: messages[1]: role: "),
        ({"messages": [{**GOOD, "role": "robot"}]}, "sessions[1]: messages[0]: role: "),
        ({"messages": [{"role": "user"}]}, "sessions[1]: messages[0]: content: "),
        ({"messages": [{**GOOD, "content": None}]}, "sessions[1]: messages[0]: content: "),
        ({"messages": [{**GOOD, "content": 5}]}, "sessions[1]: messages[0]: content: "),
        ({"messages": [{**GOOD, "content": "a\x00"}]}, "sessions[1]: messages[0]: content "),
        ({"messages": [{**GOOD, "content": ["a", 5]}]}, "sessions[1]: messages[0]: content[1]: "),
        ({"messages": [{**GOOD, "content": [{"type": "dance"}]}]}, "sessions[1]: messages[0]: content[0]: "),
        ({"messages": [{**GOOD, "content": [{"type": "text", "text": 5}]}]}, "sessions[1]: messages[0]: "),
        ({"messages": [{**GOOD, "content": [{"type": "image_url", "image_url": {}}]}]}, "sessions[1]: messages[0]: "),
        ({"messages": [{**GOOD, "tool_calls": {}}]}, "sessions[1]: messages[0]: tool_calls: "),
        ({"messages": [{**GOOD, "tool_calls": ["x"]}]}, "sessions[1]: messages[0]: tool_calls[0]: "),
        ({"messages": [{**GOOD, "tool_calls": [{"id": "c"}]}]}, "sessions[1]: messages[0]: tool_calls[0]: name: "),
        (
            {"messages": [{**GOOD, "tool_calls": [{"name": "f", "arguments": "{"}]}]},
            "sessions[1]: messages[0]: tool_calls[0]: arguments: ",
        ),
        (
            {"messages": [{**GOOD, "tool_calls": [{"name": "f", "arguments": "[]"}]}]},
            "sessions[1]: messages[0]: tool_calls[0]: arguments: ",
        ),
        ({"messages": [{**GOOD, "metadata": "x"}]}, "sessions[1]: messages[0]: metadata "),
        ({"messages": [{**GOOD, "is_error": "no"}]}, "sessions[1]: messages[0]: is_error "),
        ({"messages": [{**GOOD, "sequence": -1}]}, "sessions[1]: messages[0]: sequence: "),
        ({"messages": [{**GOOD, "seq_order": "1"}]}, "sessions[1]: messages[0]: seq_order: "),
        ({"messages": [{**GOOD, "sequence": 1}, GOOD]}, "sessions[1]: messages[1]: sequence: is missing"),
        ({"messages": [{**GOOD, "sequence": 1}] * 2}, "sessions[1]: messages: sequence: 1 "),
    ],
)
def test_snapshot_rejects_malformed_fields_with_their_path(change: dict[str, Any], place: str) -> None:
    assert refusal([SESSION, {**SESSION, "id": "s2", **change}]).startswith(place)


def test_snapshot_error_path_uses_name_in_object_form() -> None:
    assert refusal({"abc": {"messages": 5}}).startswith("sessions['abc']: messages: ")
    assert refusal({"abc": 5}) == "sessions['abc']: must be an object, not a number"


def test_snapshot_rejects_duplicate_session_id() -> None:
    assert refusal([SESSION, SESSION]) == "sessions[1]: id: 's1' appears twice"


@pytest.mark.parametrize("document", [5, "text", None, True])
def test_snapshot_rejects_other_json_types(document: Any) -> None:
    assert "a snapshot is a list or an object of sessions" in refusal(document)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[NaN]", b'{"a": {}, "a": {}}', b"[" * 100_000, b'["\\ud800"]'])
def test_snapshot_rejects_invalid_json(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="the snapshot is not JSON"):
        parse_snapshot(data, now=NOW)


def test_snapshot_requires_aware_now() -> None:
    with pytest.raises(InvalidInput, match="now has no time zone"):
        parse_snapshot(b"[]", now=datetime(2026, 1, 1))


names = st.sampled_from(
    [
        *("id", "channel", "chat", "user", "state", "state_json", "created_at", "metadata", "summary", "messages"),
        *("role", "content", "type", "tool_calls", "function", "name", "arguments", "sequence", "ts", "text", "x"),
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(st.one_of(json_values, st.lists(st.dictionaries(names, json_values, max_size=5), max_size=2)))
def test_snapshot_accepts_or_rejects_any_json(document: Any) -> None:
    with contextlib.suppress(InvalidInput):
        parsed(document)
