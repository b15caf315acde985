from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from limpet import FilePart, ImagePart, Limpet, Message, TextPart, ToolCall
from limpet.errors import IdempotencyConflict, InvalidInput, SequenceConflict
from limpet.model.message import Role
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import faults
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

# Every one of these must come back exactly as it was given.
TEXTS = [
    "",
    " ",
    "\n",
    "plain",
    " leading and trailing \t\r\n",
    "one\r\ntwo\rthree\n",
    "\x1b[31mred\x1b[0m\x07\x08",
    "\x01\x02\x7f\x80\x9f",
    "\ufeffbyte order mark",
    "\ufffe\uffff\U0010ffff",
    "e\u0301 is not é",
    "👩‍👩‍👧‍👦 🇵🇹 ✈️",
    "مرحبا \u202eabc\u202c",
    "日本語のテキスト 中文 한국어",
    "'; DROP TABLE messages; --",
    "quotes \" and ' and \\ and %s and :name and ? and $1 and {where}",
    "### user — 2026-01-01T00:00:00Z",
    "a" * 100_000,
    "é" * 2_000_000,
]


def test_append_accepts_only_known_roles(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for role in ("system", "user", "assistant", "tool"):
        session.append(role, role)
    assert [(message.role, message.text) for message in session.messages()] == [(role, role.value) for role in Role]
    for wrong in ("User", "developer", "", None, 5, "user "):
        with pytest.raises(InvalidInput, match="role"):
            session.append(wrong, "x")  # type: ignore[arg-type]
    assert session.count() == 4


@pytest.mark.slow
def test_append_keeps_content_unchanged(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for text in TEXTS:
        session.append("user", text)
    assert [message.content for message in session.messages()] == TEXTS
    assert faults(memory) == []


def test_image_and_file_parts_survive_reopen(durable_url: str) -> None:
    parts = (
        TextPart("Look at this:"),
        ImagePart("https://example.com/a.png", "image/png", "a cat"),
        ImagePart("data:image/png;base64," + "A" * 10_000),
        FilePart("file:///tmp/report.pdf", "application/pdf", "report.pdf"),
        FilePart("s3://bucket/key with spaces?x=1&y=2#z"),
        TextPart(""),
        TextPart('with "quotes" and é and \\'),
    )
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1")
        assert session.append("user", parts).content == parts
    with Limpet.open(durable_url) as memory:
        [message] = memory.load_session(session.id).messages()
        assert message.content == parts
        assert "![a cat](https://example.com/a.png)" in message.text
        assert "[report.pdf](file:///tmp/report.pdf)" in message.text
        assert "AAAA" not in message.text


def test_append_accepts_parts_as_dicts(memory: Limpet) -> None:
    session = memory.session("t", "1")
    given: list[dict[str, Any]] = [
        {"type": "text", "text": "hi"},
        {"type": "image", "uri": "u", "media_type": "image/gif", "alt": "a"},
        {"type": "file", "uri": "f", "media_type": None, "name": "n"},
    ]
    session.append("user", given)
    assert session.recent(1)[0].content == (
        TextPart("hi"),
        ImagePart("u", "image/gif", "a"),
        FilePart("f", None, "n"),
    )
    assert session.append("user", []).content == ()
    assert session.recent(1)[0].content == ()


def test_append_rejects_invalid_parts(memory: Limpet) -> None:
    text_of: Any = TextPart
    image_of: Any = ImagePart
    file_of: Any = FilePart
    session = memory.session("t", "1")
    wrong: list[Any] = [
        5, None, b"bytes", {"type": "text", "text": "x"}, [5], ["text"], [None], [{"type": "video", "uri": "x"}], [{}],
        [{"type": "text", "text": 5}], [{"type": "image"}], [{"type": "image", "uri": ""}], [ImagePart("")],
        [image_of("u", alt=5)], [FilePart("u", name="\x00")], [TextPart("\ud800")], [text_of(None)],
        [file_of(5)], [ImagePart("u", media_type="\x00")], [TextPart("x")] * 1001, [[TextPart("x")]],
    ]  # fmt: skip
    for content in wrong:
        with pytest.raises(InvalidInput):
            session.append("user", content)
    assert session.count() == 0


def test_tool_calls_names_flags_and_metadata_survive_reopen(durable_url: str) -> None:
    calls = (
        ToolCall("call-1", "read_file", {"path": "a.txt", "lines": [1, 2], "deep": {"é": None, "a.b": True}}),
        ToolCall("", "no_id"),
        ToolCall("call 3", "weird \" ' \\ name", {"": "", "\\u0000": "\\u0000", "big": 10**30, "float": 1e-9}),
    )
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1")
        stored = [
            session.append("assistant", "", name="bot", tool_calls=calls, metadata={"model": "x", "a.b": [1, None]}),
            session.append("tool", "no such file", tool_call_id="call-1", is_error=True, name="read_file"),
            session.append("tool", "fine", tool_call_id="call 3"),
        ]
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).messages() == stored
    assert stored[0].tool_calls == calls
    assert stored[0].metadata == {"model": "x", "a.b": [1, None]}
    assert [message.is_error for message in stored] == [False, True, False]


def test_append_rejects_invalid_tool_calls(memory: Limpet) -> None:
    call_of: Any = ToolCall
    session = memory.session("t", "1")
    wrong: list[Any] = [
        5, None, "text", {"name": "x"}, [5], [None], ["x"], [{"id": "1"}], [{"name": ""}], [{"name": 5}],
        [{"name": "x", "id": 5}], [{"name": "x", "arguments": "{}"}], [{"name": "x", "arguments": [1]}],
        [{"name": "x", "function": {}}], [{"name": "x", 5: 1}], [call_of("1", "x", [1])], [call_of("1", "x", None)],
        [ToolCall("1", "x", {"a": object()})], [ToolCall("1", "x", {"a": float("inf")})],
        [ToolCall("1", "x", {"a": "\x00"})], [ToolCall("1", "x", {"a": "\ud800"})], [ToolCall("\x00", "x")],
    ]  # fmt: skip
    for calls in wrong:
        with pytest.raises(InvalidInput):
            session.append("assistant", "x", tool_calls=calls)
    assert session.count() == 0


def test_append_returns_message_as_stored(memory: Limpet) -> None:
    session = memory.session("t", "1")
    arguments: dict[str, Any] = {"tuple": (1, 2), "number": {1: "one"}}
    metadata: dict[str, Any] = {"tuple": (1, 2)}
    given = Message.new("assistant", "x", tool_calls=[ToolCall("1", "f", arguments)], metadata=metadata)
    arguments["later"] = metadata["later"] = ("changed",)
    [stored] = session.extend([given])
    assert stored == session.recent(1)[0]
    assert "later" not in stored.metadata
    assert "later" not in stored.tool_calls[0].arguments


def test_append_accepts_large_tool_arguments_up_to_limit(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.append("assistant", "", tool_calls=[ToolCall("1", "write", {"text": "word " * 200_000})])
    assert len(session.recent(1)[0].tool_calls[0].arguments["text"]) == 1_000_000
    with pytest.raises(InvalidInput, match="limit"):
        session.append("assistant", "", tool_calls=[ToolCall("1", "write", {"text": "x" * 5_000_000})])


# Times


def test_created_at_keeps_microseconds(durable_url: str, clock: FakeClock) -> None:
    nepal = timezone(timedelta(hours=5, minutes=45))
    times = [
        datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2024, 10, 27, 2, 30, 0, 1, tzinfo=nepal),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 10, 12, 0, 0, 123_457, tzinfo=timezone(-timedelta(hours=11, minutes=59, seconds=59))),
    ]
    with Limpet.open(durable_url, clock=clock) as memory:
        session = memory.session("t", "1")
        for moment in times:
            assert session.append("user", "x", created_at=moment).created_at == moment
        clock.advance(microseconds=7)
        session.append("user", "now")
        clock.advance(days=100)
        session.update_metadata({"saved": "again"})
        session.pause()
        session.resume()
    with Limpet.open(durable_url) as memory:
        kept = [message.created_at for message in memory.load_session(session.id).messages()]
    assert kept == [*times, datetime(2026, 3, 10, 12, 0, 0, 7, tzinfo=UTC)]
    assert {moment.utcoffset() for moment in kept if moment} == {timedelta(0)}


def test_append_rejects_naive_or_out_of_range_created_at(memory: Limpet) -> None:
    session = memory.session("t", "1")
    wrong: list[Any] = [
        datetime(2026, 1, 1), "2026-01-01T00:00:00Z", 0, 1.5, (datetime(2026, 1, 1, tzinfo=UTC)).date(),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=1))),
    ]  # fmt: skip
    for moment in wrong:
        with pytest.raises(InvalidInput, match="created_at"):
            session.append("user", "x", created_at=moment)
    assert session.count() == 0


# Sequence numbers


def test_append_assigns_sequences_from_one(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert [session.append("user", "x").sequence for _ in range(3)] == [1, 2, 3]
    assert [message.sequence for message in session.extend([Message.new("user", "y")] * 3)] == [4, 5, 6]
    assert memory.session("t", "2").append("user", "x").sequence == 1


def test_append_rejects_sequence_not_above_last(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert session.append("user", "a", sequence=10).sequence == 10
    assert session.append("user", "b").sequence == 11
    for taken in (1, 10, 11):
        with pytest.raises(SequenceConflict, match="11"):
            session.append("user", "c", sequence=taken)
    assert session.append("user", "c", sequence=12).sequence == 12
    assert session.append("user", "d", sequence=2**40).sequence == 2**40
    assert session.append("user", "e").sequence == 2**40 + 1
    assert [message.text for message in session.messages()] == ["a", "b", "c", "d", "e"]
    for wrong in (0, -1, 1.0, "13", True, 2**62, 2**64, 10**5000):
        with pytest.raises(InvalidInput, match="sequence"):
            session.append("user", "x", sequence=wrong)  # type: ignore[arg-type]
    assert session.count() == 5


def test_extend_with_one_sequence_conflict_stores_nothing(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.append("user", "first", sequence=5)
    batch = [
        Message.new("user", "walrus", sequence=6),
        Message.new("user", "walrus", sequence=8),
        Message.new("user", "x", sequence=7),
    ]
    with pytest.raises(SequenceConflict):
        session.extend(batch)
    assert [message.text for message in session.messages()] == ["first"]
    assert session.refresh().last_sequence == 5
    assert memory.recall("walrus", user=session.user) == []
    assert session.append("user", "next").sequence == 6
    assert faults(memory) == []


def test_extend_accepts_only_messages_and_may_be_empty(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert session.extend([]) == []
    assert session.extend(Message.new("user", str(number)) for number in range(3))[2].sequence == 3
    wrong: list[Any] = [["text"], [None], "text", [{"role": "user", "content": "x"}], [Message.new("user", "x"), 5]]
    for batch in wrong:
        with pytest.raises(InvalidInput):
            session.extend(batch)
    assert session.count() == 3


def test_append_from_many_threads_assigns_unique_sequences(memory: Limpet) -> None:
    session = memory.session("t", "1")
    handles = [memory.load_session(session.id) for _ in range(8)]

    def write(number: int) -> list[int]:
        return [handles[number].append("user", f"{number} {count}").sequence for count in range(20)]

    sequences = at_once(write)
    assert all(own == sorted(own) for own in sequences)
    assert sorted(sequence for own in sequences for sequence in own) == list(range(1, 161))
    said = [message.text.split() for message in session.messages()]
    for number in range(8):
        assert [count for who, count in said if who == str(number)] == [str(count) for count in range(20)]
    assert faults(memory) == []


def test_append_from_many_processes_assigns_unique_sequences(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
    code = """
with Limpet.open(given) as memory:
    session = memory.session("t", "1", user="alice")
    begin()
    answer([session.append("user", f"walrus {number} {count}").sequence for count in range(30)])
"""
    answers = run_together(code, durable_url, count=3)
    assert sorted(sequence for own in answers for sequence in own) == list(range(1, 91))
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).count() == 90
        assert len(memory.recall("walrus", user="alice", k=100)) == 90
        assert faults(memory) == []


# Doing it once


def test_append_with_same_idempotency_key_returns_first_message(memory: Limpet) -> None:
    session = memory.session("t", "1")
    first = session.append("user", "walrus", idempotency_key="k", metadata={"n": 1})
    again = session.append("user", "walrus", idempotency_key="k", metadata={"n": 1}, sequence=1)
    assert again == first
    session.append("user", "between")
    assert session.append("user", "walrus", idempotency_key="k", metadata={"n": 1}).sequence == 1
    assert session.count() == 2
    assert session.append("user", "walrus", idempotency_key="K").sequence == 3
    assert memory.session("t", "2").append("user", "elsewhere", idempotency_key="k").text == "elsewhere"


def test_reused_idempotency_key_with_another_message_loses_no_message_silently(memory: Limpet) -> None:
    session = memory.session("t", "1")
    session.append("user", "walrus", idempotency_key="k", metadata={"n": 1})
    others: list[Callable[[], object]] = [
        lambda: session.append("assistant", "walrus", idempotency_key="k", metadata={"n": 1}),
        lambda: session.append("user", "something else", idempotency_key="k", metadata={"n": 1}),
        lambda: session.append("user", "walrus", idempotency_key="k"),
        lambda: session.append("user", "something else", idempotency_key="k", learn=True),
        lambda: session.extend([Message.new("user", "new"), Message.new("user", "other", idempotency_key="k")]),
    ]
    for other in others:
        with pytest.raises(IdempotencyConflict, match="another message") as caught:
            other()
        assert caught.value.code == "idempotency_conflict"
    assert [message.text for message in session.messages()] == ["walrus"]
    assert memory.recall("something", user=session.user) == []


def test_extend_stores_repeated_idempotency_key_once(memory: Limpet) -> None:
    session = memory.session("t", "1")
    batch = [Message.new("user", f"{number % 2}", idempotency_key=f"k{number % 2}") for number in range(4)]
    assert [message.sequence for message in session.extend(batch)] == [1, 2, 1, 2]
    assert [message.sequence for message in session.extend(batch)] == [1, 2, 1, 2]
    assert [message.text for message in session.messages()] == ["0", "1"]


def test_append_idempotency_key_survives_reopen(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1")
        first = session.append("user", "x", idempotency_key="k")
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).append("user", "x", idempotency_key="k") == first


def test_append_with_same_idempotency_key_from_many_threads_stores_one(memory: Limpet) -> None:
    session = memory.session("t", "1")
    handles = [memory.load_session(session.id) for _ in range(8)]
    for key in ("a", "b", "c"):
        stored = at_once(lambda number, key=key: handles[number].append("user", key, idempotency_key=key))  # type: ignore[misc]
        assert len({(message.sequence, message.text) for message in stored}) == 1
    assert [message.sequence for message in session.messages()] == [1, 2, 3]


def test_append_with_same_idempotency_key_from_many_processes_stores_one(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
    code = """
with Limpet.open(given) as memory:
    session = memory.session("t", "1", user="alice")
    begin()
    stored = [session.append("user", f"text {at}", idempotency_key=f"key {at}") for at in range(20)]
    answer([(message.sequence, message.text) for message in stored])
"""
    answers = run_together(code, durable_url, count=3)
    assert answers[0] == answers[1] == answers[2]
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).count() == 20


def test_append_rejects_invalid_names_and_keys(memory: Limpet) -> None:
    session = memory.session("t", "1")
    wrong: list[Any] = ["", " x", "a\nb", "\x00", "\ud800", "x" * 257, 5, b"x"]
    for field in ("name", "tool_call_id", "idempotency_key"):
        for bad in wrong:
            with pytest.raises(InvalidInput):
                session.append("user", "x", **{field: bad})
    assert session.count() == 0


def test_append_counts_tokens(memory: Limpet) -> None:
    session = memory.session("t", "1")
    short, long = session.append("user", "hello"), session.append("user", "hello world " * 100)
    assert 0 < short.tokens < long.tokens
    assert [message.tokens for message in session.messages()] == [short.tokens, long.tokens]
    assert session.append("user", "").tokens == 0
