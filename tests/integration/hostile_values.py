"""Values that no caller should give, and the calls that are given them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from limpet import ImagePart, Message, TextPart, ToolCall
from limpet.model.message import Role

UNKNOWN = "01890000-0000-7000-8000-000000000000"


class Silent:
    """Cannot even be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def deep(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


HUGE = 10**5000
EARLY, LATE = datetime.min, datetime.max  # noqa: DTZ901  # without a zone on purpose
HOSTILE: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        7,
        2**31,
        2**53,
        2**61,
        2**62,
        2**63,
        2**64,
        -(2**63),
        HUGE,
        -HUGE,
        1.5,
        -0.0,
        1e308,
    ),
    *(math.nan, math.inf, -math.inf, 1j, "", " ", "a", "A", "user", "\x00", "a\x00b", "\ud800", "a\udfff", "\x1b[2J"),
    *("\u2028", "\ufeff", "é" * 300, "x" * 70_000, "../../etc/passwd", "'; DROP TABLE sessions; --", "%s%n{0}:name"),
    *(
        "${x}",
        UNKNOWN,
        UNKNOWN.upper(),
        "2026-01-01",
        "global",
        b"bytes",
        b"\x00\xff",
        bytearray(b"x"),
        [],
        ["a"],
        [None],
    ),
    *(
        [["a"]],
        ("a", "a"),
        {"a"},
        frozenset(),
        {},
        {"a": "b"},
        {"a": 1},
        {1: 2},
        {None: "x"},
        {"a": None},
        {"a": object()},
    ),
    *(
        {"\x00": "x"},
        {"\ud800": "x"},
        {"": "x"},
        {"a": math.nan},
        {"a": HUGE},
        nested(50),
        nested(500),
        nested(100_000),
    ),
    *(
        deep(120),
        deep(5000),
        object(),
        Silent(),
        [Silent()],
        {"a": Silent()},
        int,
        len,
        Role.USER,
        Role,
        ...,
    ),
    *(
        ValueError("x"),
        range(3),
        iter("ab"),
        memoryview(b"x"),
        datetime(2026, 1, 1),
        EARLY,
        LATE,
        EARLY.replace(tzinfo=UTC),
    ),
    *(LATE.replace(tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC).date()),
    *(EARLY.replace(tzinfo=timezone(timedelta(hours=14))), LATE.replace(tzinfo=timezone(-timedelta(hours=12)))),
    *(
        timedelta(0),
        timedelta(-1),
        timedelta.max,
        timedelta.min,
        TextPart("x"),
        [TextPart("x")],
        [ImagePart("")],
        Path("x"),
    ),
    *([ToolCall("", "")], ToolCall("a", "b"), Message.new("user", "x")),
]

BATCHES: list[Any] = [
    [Message("user", "plain text for a role")],  # type: ignore[arg-type]
    [Message(Role.USER, 5)],  # type: ignore[arg-type]
    [Message(Role.USER, None)],  # type: ignore[arg-type]
    [Message(Role.USER, "a\x00b")],
    [Message(Role.USER, "\ud800")],
    [Message(Role.USER, ("text",))],  # type: ignore[arg-type]
    [Message(Role.USER, "x", sequence=-5)],
    [Message(Role.USER, "x", sequence="5")],  # type: ignore[arg-type]
    [Message(Role.USER, "x", sequence=2**70)],
    [Message(Role.USER, "x", created_at=datetime(2026, 1, 1))],
    [Message(Role.USER, "x", created_at="now")],  # type: ignore[arg-type]
    [Message(Role.USER, "x", tool_calls=(5,))],  # type: ignore[arg-type]
    [Message(Role.USER, "x", tool_calls=(ToolCall("a", "b", {"c": object()}),))],
    [Message(Role.USER, "x", metadata={"a": object()})],
    [Message(Role.USER, "x", metadata={"a": math.nan})],
    [Message(Role.USER, "x", name="\ud800")],
    [Message(Role.USER, "x", name=5)],  # type: ignore[arg-type]
    [Message(Role.USER, "x", idempotency_key="\x00")],
    [Message(Role.USER, "x", tokens="many")],  # type: ignore[arg-type]
    [Message(Role.USER, "x", tokens=2**70)],
    [Message(Role.USER, "x", is_error="yes")],  # type: ignore[arg-type]
    [Message.new("user", "good"), Message(Role.USER, 5)],  # type: ignore[arg-type]
]

BIG = "word " * 2_000_000

CALLS: dict[str, dict[str, Any]] = {
    "session": {"channel": "c", "chat": "1", "user": "alice"},
    "find_session": {"channel": "c", "chat": "1", "user": "alice"},
    "load_session": {"session_id": "SESSION"},
    "context": {"query": "walrus", "user": "alice"},
    "sessions": {},
    "recall": {"query": "walrus", "user": "alice"},
    "remember": {"content": "a walrus", "user": "alice"},
    "records.get": {"id": "RECORD"},
    "records.list": {"user": "alice"},
    "records.count": {},
    "records.search_metadata": {"key": "k", "value": "v"},
    "records.update": {"id": "RECORD", "user": "alice", "content": "new"},
    "records.history": {"id": "RECORD"},
    "forget": {"id": UNKNOWN},
    "records.promote": {"id": "RECORD"},
    "records.revive": {"id": "RECORD"},
    "profile": {"user": "alice"},
    "documents.add": {"uri_or_path": "note:1", "text": "a walrus document", "user": "alice"},
    "documents.list": {"user": "alice"},
    "graph.get": {"user": "alice"},
    "documents.text": {"uri": "note:unknown", "user": "alice"},
    "documents.remove": {"uri": "note:unknown", "user": "alice"},
    "transfer.import_": {"path": "missing.json"},
    "admin.backup": {"path": "BACKUP"},
    "admin.restore": {"path": "RESTORE"},
    "admin.doctor": {},
    "admin.distribute": {},
    "tenant": {"name": "other"},
    "admin.stats": {},
    "admin.owners": {},
    "admin.observe": {"callback": lambda told: None},
    "acting": {"user": "alice"},
    "access.grant": {"user": "alice", "grant": "read:global"},
    "access.revoke": {"user": "alice", "grant": "read:global"},
    "access.grants": {},
    "access.audit": {},
    "jobs.run": {},
    "jobs.start_worker": {},
    "jobs.list": {},
    "jobs.retry": {},
    "jobs.drop": {"ids": [1]},
    "admin.file_sessions": {},
    "notes.day": {"user": "alice"},
    "notes.add_turn": {"user": "alice", "user_text": "hello", "assistant_text": "hi"},
    "notes.export_items": {"user": "alice"},
    "notes.import_items": {"user": "alice"},
    "transfer.export": {"path": "EXPORT", "user": "alice"},
    "transfer.archive": {"file": "FILE", "user": "alice"},
    "transfer.import_file": {"file": "SOURCE", "user": "alice"},
    "admin.usage": {"user": "alice"},
    "privacy.purge_session": {"id": UNKNOWN},
    "privacy.purge_user": {"user": "nobody"},
    "privacy.purge_older": {"user": "nobody", "days": 30},
    "privacy.receipts": {},
    "privacy.retention": {},
    "schedules.run": {"callback": lambda firing: "done"},
    "schedules.create": {"user": "alice", "goal": "water the plants", "cadence": "every: 1h"},
    "schedules.get": {"id": "SCHEDULE"},
    "schedules.edit": {"id": "SCHEDULE", "goal": "water them well"},
    "schedules.delete": {"id": UNKNOWN},
    "schedules.pause": {"id": "SCHEDULE"},
    "schedules.resume": {"id": "SCHEDULE"},
    "schedules.search": {},
    "schedules.count": {},
    "schedules.due": {},
    "schedules.claim": {},
    "schedules.finish": {"id": "SCHEDULE", "token": 1},
    "schedules.runs": {"id": "SCHEDULE"},
    "schedules.run_output": {"run_id": UNKNOWN},
    "access.keys.create": {"name": "ci", "user": "alice"},
    "access.keys.list": {},
    "access.keys.revoke": {"id_or_name": "nothing"},
    "access.keys.acting": {"secret": "lim_" + "x" * 43},
    "access.keys.required": {},
    "access.keys.allow_anonymous": {},
    "session.append": {"role": "user", "content": "hello"},
    "session.extend": {"messages": [Message.new("user", "x")]},
    "session.recent": {},
    "session.messages": {},
    "session.restore": {},
    "session.context": {},
    "session.turn": {"content": "hello"},
    "session.set_summary": {"text": "s", "upper_sequence": 1},
    "session.swap_summary": {"text": "s", "upper_sequence": 1, "expected_epoch": 0},
    "session.compact": {},
    "session.compact_if_due": {},
    "session.update_metadata": {"changes": {"a": 1}},
    "session.expire_in": {"ttl": None},
    "session.set_working_memory": {"text": "x"},
    "session.transcript": {},
    "session.add_usage": {"model": "m"},
    "session.kv.get": {"key": "k"},
    "session.kv.set": {"key": "k", "value": 1},
    "session.kv.delete": {"key": "k"},
    "session.kv.items": {},
    "notes.long_term.read": {},
    "notes.long_term.write": {"text": "x"},
    "notes.long_term.append": {"text": "x"},
}
UPDATES = (
    "key title type layer tags metadata confidence salience references pinned valid_from valid_to ttl expires_at colour"
)
TO_PATHS = ("admin.backup", "transfer.export")
FILES = {"notes.day", "notes.add_turn", "notes.export_items", "notes.import_items"}
BARE = set(
    "refresh count summary learn new clear pause resume terminate delete export_transcript list_files usage".split()
)
