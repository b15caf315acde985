from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.config import SessionSettings
from limpet.errors import InvalidInput, Unsupported
from limpet.model.session import SessionStatus
from tests.contract.rows import every_row, faults

ID = "01930000-0000-7000-8000-000000000001"
SESSIONS: list[dict[str, Any]] = [
    {
        "id": ID,
        "channel": "telegram",
        "chat_id": "42",
        "user": "alice",
        "created_at": "2025-01-02T03:04:05.000006Z",
        "metadata": {"title": "Chat"},
        "summary": "they met a walrus",
        "messages": [
            {"role": "user", "content": "I saw a walrus", "created_at": "2025-01-02T03:04:06Z"},
            {"role": "assistant", "content": "Really?", "created_at": "2025-01-02T03:04:07+01:00"},
        ],
    },
    {"id": "whatsapp:4711", "state": "closed", "messages": [{"role": "user", "content": "bye"}]},
]
MEANT = {"list": SESSIONS, "wrapped": {"sessions": SESSIONS}, "object": {entry["id"]: entry for entry in SESSIONS}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    return data


def put(folder: Path, content: Any) -> Path:
    path = folder / "sessions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", MEANT)
def test_snapshot_in_data_folder_is_imported_and_renamed(folder: Path, form: str) -> None:
    path = put(folder, MEANT[form])
    with Limpet.open(folder) as memory:
        assert memory.admin.stats()["sessions"] == 2
        assert memory.admin.stats()["messages"] == 3
        session = memory.session("telegram", "42", user="alice")
        assert session.id == ID
        assert session.created_at == datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
        assert session.metadata["title"] == "Chat"
        assert [(message.sequence, message.text) for message in session.messages()] == [
            (1, "I saw a walrus"),
            (2, "Really?"),
        ]
        assert session.messages()[0].created_at == datetime(2025, 1, 2, 3, 4, 6, tzinfo=UTC)
        summary = session.summary()
        assert summary is not None
        assert (summary.text, summary.upper_sequence) == ("they met a walrus", 2)
        [ended] = memory.sessions(channel="whatsapp")
        assert ended.state is SessionStatus.TERMINATED
        assert [hit.source.session_id for hit in memory.recall("walrus", user="alice")] == [ID]
        assert faults(memory) == []
    assert not path.exists()
    assert json.loads((folder / "sessions.json.migrated").read_text()) == MEANT[form]


def test_snapshot_is_imported_only_once(folder: Path) -> None:
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        memory.jobs.run(until_idle=True)
        before = every_row(memory)
    with Limpet.open(folder) as memory:
        assert every_row(memory) == before
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        assert every_row(memory) == before
    assert not (folder / "sessions.json").exists()


def test_snapshot_is_not_imported_twice_after_crash_before_rename(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(folder, SESSIONS)

    def fail(*_: object) -> None:
        raise OSError(5, "power cut")

    with monkeypatch.context() as patched:
        patched.setattr("limpet.lifecycle.import_foreign.os.replace", fail)
        with Limpet.open(folder) as memory:
            memory.jobs.run(until_idle=True)
            before = every_row(memory)
            assert memory.admin.stats()["messages"] == 3
    assert path.exists()
    with Limpet.open(folder) as memory:
        assert every_row(memory) == before
    assert not path.exists()
    assert (folder / "sessions.json.migrated").exists()


BAD = {
    "no json": "{",
    "empty": "",
    "number": "5",
    "text": '"sessions"',
    "not utf-8": b"\xff\xfe\x00",
    "nan": '[{"id": "a", "metadata": {"x": NaN}}]',
    "repeated name": '[{"id": "a", "id": "b"}]',
    "no id": [{"messages": []}],
    "bad role": [*SESSIONS, {"id": "x", "messages": [{"role": "wizard", "content": "x"}]}],
    "bad content": [*SESSIONS, {"id": "x", "messages": [{"role": "user", "content": 5}]}],
    "nul": [*SESSIONS, {"id": "x", "messages": [{"role": "user", "content": "a\x00b"}]}],
    "surrogate": '[{"id": "x", "messages": [{"role": "user", "content": "\\ud800"}]}]',
    "bad time": [*SESSIONS, {"id": "x", "created_at": "yesterday"}],
    "doubled": [*SESSIONS, SESSIONS[0]],
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep metadata": '[{"id": "x", "metadata": {"a": ' + "[" * 900 + "]" * 900 + "}}]",
    "huge number": '[{"id": "x", "created_at": 1' + "0" * 5000 + "}]",
    "far away": [{"id": "x", "created_at": 1e300}],
    "a list of lists": [[]],
    "long name": [{"id": "x" * 1000}],
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_snapshot_is_logged_and_left_unchanged(
    folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    content = BAD[name]
    path = put(folder, "" if isinstance(content, bytes) else content)
    if isinstance(content, bytes):
        path.write_bytes(content)
    before = path.read_bytes()
    with caplog.at_level(logging.ERROR), Limpet.open(folder) as memory:
        assert memory.sessions() == []
        memory.session("t", "1").append("user", "works")
        assert faults(memory) == []
    assert path.read_bytes() == before
    assert not (folder / "sessions.json.migrated").exists()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_folder_named_like_snapshot_is_ignored(folder: Path) -> None:
    (folder / "sessions.json").mkdir()
    with Limpet.open(folder) as memory:
        assert memory.sessions() == []


def test_snapshot_import_can_be_disabled(folder: Path) -> None:
    path = put(folder, SESSIONS)
    with Limpet.open(folder, config=Config(session=SessionSettings(import_snapshot=False))) as memory:
        assert memory.sessions() == []
    assert path.exists()


def test_snapshot_session_is_terminated_when_chat_is_live(folder: Path) -> None:
    with Limpet.open(folder) as memory:
        live = memory.session("telegram", "42", user="alice")
        live.append("user", "here")
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        assert memory.session("telegram", "42", user="alice").id == live.id
        imported = memory.load_session(ID)
        assert imported.state is SessionStatus.TERMINATED
        assert imported.count() == 2


def test_snapshot_does_not_change_existing_session(folder: Path) -> None:
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        memory.load_session(ID).append("user", "later")
    changed = [{**SESSIONS[0], "messages": []}, {"id": "new:1", "messages": [{"role": "user", "content": "x"}]}]
    put(folder, changed)
    with Limpet.open(folder) as memory:
        assert [message.text for message in memory.load_session(ID).messages()] == [
            "I saw a walrus",
            "Really?",
            "later",
        ]
        assert len(memory.sessions(channel="new")) == 1


def test_snapshot_keeps_message_sequences(folder: Path) -> None:
    messages = [{"role": "user", "content": str(number), "sequence": number} for number in (30, 10, 20)]
    put(folder, [{"id": "t:1", "messages": messages}])
    with Limpet.open(folder) as memory:
        [info] = memory.sessions()
        session = memory.load_session(info.id)
        assert [(message.sequence, message.text) for message in session.messages()] == [
            (10, "10"),
            (20, "20"),
            (30, "30"),
        ]
        assert session.append("user", "next").sequence == 31


def test_import_accepts_snapshot_file_on_any_backend(memory: Limpet, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(SESSIONS))
    done = memory.transfer.import_(path)
    assert (done.sessions, done.messages, done.already, done.learning) == (2, 3, False, 2)
    assert memory.transfer.import_(str(path)).already
    assert memory.admin.stats()["messages"] == 3
    assert path.exists()
    path.write_text("{")
    with pytest.raises(InvalidInput):
        memory.transfer.import_(path)
    with pytest.raises(InvalidInput):
        memory.transfer.import_(tmp_path / "missing.json")
    with pytest.raises(Unsupported):
        memory.transfer.import_(tmp_path)
    assert memory.admin.stats()["messages"] == 3
    assert faults(memory) == []


def test_snapshot_import_failure_leaves_nothing(memory: Limpet, tmp_path: Path) -> None:
    taken = memory.tenant("other")
    path = tmp_path / "one.json"
    path.write_text(json.dumps([SESSIONS[0]]))
    taken.transfer.import_(path)
    memory.jobs.run(until_idle=True)
    before = every_row(memory)
    clash = tmp_path / "clash.json"
    clash.write_text(json.dumps([SESSIONS[1], {**SESSIONS[0], "metadata": {"not": "the same bytes"}}]))
    try:
        memory.transfer.import_(clash)
    except Exception:  # why: refusing is fine; what must not be is a half of it
        assert every_row(memory) == before
    else:
        assert memory.admin.stats()["messages"] == 5
    assert faults(memory) == []


def test_dangling_snapshot_symlink_does_not_break_open(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "sessions.json"
    path.symlink_to(folder / "nowhere")
    with Limpet.open(folder) as memory:
        assert memory.sessions() == []
    assert os.path.islink(path)


def test_snapshot_import_after_purge_restores_only_purged_user(memory: Limpet, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    bobs = {"id": "telegram:7", "user": "bob", "messages": [{"role": "user", "content": "Bob is here"}]}
    mine = {"id": "telegram:8", "user": "alice", "messages": [{"role": "user", "content": "Alice is here"}]}
    path.write_text(json.dumps([bobs, mine]))
    assert memory.transfer.import_(path).sessions == 2
    assert memory.privacy.purge_user("alice").verified
    memory.session("web", "1", user="alice").append("user", "I am new")
    done = memory.transfer.import_(path)
    assert (done.sessions, done.messages, done.already) == (1, 1, False)
    assert sorted(info.user for info in memory.sessions()) == ["alice", "alice", "bob"]
    assert memory.transfer.import_(path).already
    assert faults(memory) == []


def test_snapshot_in_data_folder_does_not_restore_purged_user(folder: Path) -> None:
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        users = {info.user for info in memory.sessions()}
        for user in users:
            memory.privacy.purge_user(user)
    put(folder, SESSIONS)
    with Limpet.open(folder) as memory:
        assert users
        assert memory.sessions() == []
