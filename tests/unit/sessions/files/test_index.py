from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from limpet.errors import ConstraintFailed, InvalidInput, InvalidKey, SessionNotFound, StoreCorrupt, Unsupported
from limpet.model.message import Role
from limpet.model.values import Clock, uuid7
from limpet.sessions import files
from limpet.sessions.files import FileSessions, SessionStore, register_store_type
from limpet.sessions.transcript import TranscriptEntry

START = datetime(2026, 11, 15, 10, 30, 1, 123456, tzinfo=UTC)
ID = "01969c3a-0000-7000-8000-000000000000"
FIRST = TranscriptEntry(Role.USER, START, "from the first store")


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_factories", dict(files._factories))


class OnlyTranscript(SessionStore):
    type_name = "only_transcript"

    def __init__(self, folder: Path, *, kv_cap: int, transcript_cap: int, clock: Clock) -> None:
        pass

    def transcript_read_last(self, n: int) -> list[TranscriptEntry]:
        return [FIRST] * n


def test_index_file_format(sessions: FileSessions, tmp_path: Path) -> None:
    session = sessions.create_session(agent="chat")
    assert json.loads((tmp_path / "sessions.json").read_text()) == {
        "sessions": [
            {
                "id": session.id,
                "agent_id": "chat",
                "store_types": ["basic_session"],
                "created_at": "2026-11-15T10:30:01.123456Z",
            }
        ]
    }
    assert (tmp_path / "sessions" / session.id).is_dir()


def test_create_session_and_load_session_share_data(sessions: FileSessions) -> None:
    session = sessions.create_session()
    assert session.agent == "assistant"
    session.kv_set("k", [1])
    entry = session.transcript_append("user", "hi")
    session.set_working_memory("plan")
    again = sessions.load_session(session.id.upper())
    assert (again.id, again.agent, again.created_at) == (session.id, session.agent, session.created_at)
    assert again.kv_get("k") == [1]
    assert again.working_memory == "plan"
    assert [item.key for item in again.kv_items()] == ["k", "working_memory"]
    assert again.transcript_read_last(5) == [entry]
    assert again.kv_delete("k") is True
    assert [info.name for info in again.list_files()] == ["kv.json", "transcript.md"]


def test_sessions_are_isolated(sessions: FileSessions) -> None:
    one, two = sessions.create_session(), sessions.create_session()
    one.kv_set("k", 1)
    assert two.kv_get("k") is None
    assert two.list_files() == []


def test_list_returns_sessions_in_creation_order(sessions: FileSessions) -> None:
    assert sessions.list() == ()
    made = [sessions.create_session(agent=name) for name in ("a", "b", "c")]
    assert [session.id for session in sessions.list()] == [session.id for session in made]
    assert [session.agent for session in sessions.list()] == ["a", "b", "c"]


def test_load_session_rejects_unknown_id(sessions: FileSessions) -> None:
    with pytest.raises(SessionNotFound):
        sessions.load_session("01969c3a-0000-7000-8000-000000000000")


@pytest.mark.parametrize(
    "id",
    [
        "",
        "..",
        "../../etc",
        "/etc/passwd",
        "..\\..\\x",
        "01969c3a-0000-7000-8000-000000000000/../../x",
        "01969c3a-0000-7000-8000-000000000000\n",
        "01969c3a-0000-7000-8000-00000000000\u0660",
        "./01969c3a-0000-7000-8000-000000000000",
        None,
        7,
    ],
)
def test_load_session_rejects_path_traversal(sessions: FileSessions, id: Any) -> None:
    with pytest.raises(InvalidKey):
        sessions.load_session(id)


def test_create_session_rejects_id_with_path_traversal(tmp_path: Path, clock: Clock) -> None:
    sessions = FileSessions(tmp_path / "data", clock=clock, new_id=lambda: "../../outside")
    with pytest.raises(InvalidKey):
        sessions.create_session()
    assert list(tmp_path.iterdir()) == []


def test_create_session_rejects_duplicate_id(tmp_path: Path, clock: Clock) -> None:
    sessions = FileSessions(tmp_path, clock=clock, new_id=lambda: ID)
    sessions.create_session()
    with pytest.raises(ConstraintFailed, match=ID):
        sessions.create_session()


@pytest.mark.parametrize("types", [(), "basic_session", []])
def test_create_session_requires_list_of_store_types(sessions: FileSessions, types: Any) -> None:
    with pytest.raises(InvalidInput, match="store_types"):
        sessions.create_session(types)


def test_create_session_with_unknown_store_type_creates_nothing(sessions: FileSessions, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="known: basic_session"):
        sessions.create_session(["basic_session", "graph"])
    assert list(tmp_path.iterdir()) == []


def test_operations_use_first_store_that_supports_them(sessions: FileSessions) -> None:
    register_store_type("only_transcript", OnlyTranscript)
    session = sessions.create_session(["only_transcript", "basic_session", "basic_session"])
    assert session.store_types == ("only_transcript", "basic_session")
    assert session.transcript_read_last(1) == [FIRST]
    session.kv_set("k", 1)
    assert session.kv_get("k") == 1
    session.set_working_memory("w")
    assert session.working_memory == "w"


def test_operation_unsupported_by_every_store_is_named(sessions: FileSessions) -> None:
    register_store_type("only_transcript", OnlyTranscript)
    session = sessions.create_session(["only_transcript"])
    with pytest.raises(Unsupported, match=r"\(only_transcript\) supports kv_set"):
        session.kv_set("k", 1)
    with pytest.raises(Unsupported, match="supports working_memory"):
        _ = session.working_memory
    assert session.list_files() == []


def test_session_of_uninstalled_store_type_is_listed(sessions: FileSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    register_store_type("only_transcript", OnlyTranscript)
    sessions.create_session(["only_transcript"])
    monkeypatch.delitem(files._factories, "only_transcript")
    [session] = sessions.list()
    with pytest.raises(Unsupported, match="no store type 'only_transcript'"):
        session.transcript_read_last(1)


ENTRY = '"agent_id": "a", "store_types": [], "created_at": "2026-01-01T00:00:00Z"'


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        '{"sessions": {}}',
        '{"sessions": [{}]}',
        f'{{"sessions": [{{"id": "../x", {ENTRY}}}]}}',
        f'{{"sessions": [{{"id": "{ID}", "agent_id": "a", "store_types": [], "created_at": "soon"}}]}}',
        f'{{"sessions": [{{"id": "{ID}", {ENTRY}}}, {{"id": "{ID}", {ENTRY}}}]}}',
    ],
)
def test_index_that_is_damaged_is_never_overwritten(sessions: FileSessions, tmp_path: Path, damage: str) -> None:
    (tmp_path / "sessions.json").write_text(damage)
    for call in (sessions.list, sessions.create_session, lambda: sessions.load_session(ID)):
        with pytest.raises(StoreCorrupt, match=r"sessions\.json is damaged"):
            call()
    assert (tmp_path / "sessions.json").read_text() == damage


def test_index_keeps_fields_added_by_hand(sessions: FileSessions, tmp_path: Path) -> None:
    sessions.create_session()
    path = tmp_path / "sessions.json"
    document = json.loads(path.read_text())
    document["sessions"][0]["title"] = "holiday"
    path.write_text(json.dumps(document))
    sessions.create_session()
    assert json.loads(path.read_text())["sessions"][0]["title"] == "holiday"


def test_session_with_deleted_folder_starts_empty(sessions: FileSessions, tmp_path: Path) -> None:
    session = sessions.create_session()
    (tmp_path / "sessions" / session.id).rmdir()
    assert session.kv_items() == []
    assert session.list_files() == []
    session.kv_set("k", 1)
    assert session.kv_get("k") == 1


def test_caps_are_passed_to_stores(tmp_path: Path, clock: Clock, ids: Iterator[str]) -> None:
    sessions = FileSessions(tmp_path, clock=clock, new_id=lambda: next(ids), kv_cap=2, transcript_cap=1)
    session = sessions.create_session()
    for key in "abc":
        session.kv_set(key, 1)
        session.transcript_append("user", key)
    assert [item.key for item in session.kv_items()] == ["b", "c"]
    assert [item.text for item in session.transcript_read_last(9)] == ["c"]


def _create(folder: Path, seed: int) -> None:
    numbers = iter(range(10))
    sessions = FileSessions(
        folder, clock=lambda: START, new_id=lambda: uuid7(START, (seed * 1000 + next(numbers)).to_bytes(10, "big"))
    )
    for _ in range(10):
        sessions.create_session()


def test_concurrent_processes_create_sessions(sessions: FileSessions, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_create, args=(tmp_path, seed)) for seed in (7, 8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    assert len(sessions.list()) == 20


def test_session_is_thread_safe(sessions: FileSessions) -> None:
    session = sessions.create_session()

    def work(name: str) -> None:
        for number in range(10):
            session.kv_set(f"{name}{number}", number)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(session.kv_items()) == 30
