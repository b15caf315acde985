from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.errors import InvalidInput, InvalidKey, StoreCorrupt, StoreFull
from limpet.model.message import Role
from limpet.model.values import Clock
from limpet.sessions import files
from limpet.sessions.files import BasicSession
from limpet.sessions.transcript import TranscriptEntry
from tests.examples import examples

WHEN = datetime(2026, 11, 15, 10, 30, 1, 123456, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> BasicSession:
    return BasicSession(tmp_path / "s", clock=clock)


def keys(store: BasicSession) -> list[str]:
    return [entry.key for entry in store.kv_items()]


def test_empty_session_creates_no_files(store: BasicSession, tmp_path: Path) -> None:
    assert store.kv_get("k") is None
    assert store.kv_items() == []
    assert store.transcript_read_last(20) == []
    assert store.working_memory == ""
    assert store.list_files() == []
    assert list(tmp_path.iterdir()) == []


def test_kv_file_format(store: BasicSession, tmp_path: Path) -> None:
    store.kv_set("city", "Évora")
    assert json.loads((tmp_path / "s" / "kv.json").read_text("utf-8")) == {
        "cap": 200,
        "entries": [{"key": "city", "value": "Évora", "ts": "2026-11-15T10:30:01.123456Z"}],
    }
    assert "Évora" in (tmp_path / "s" / "kv.json").read_text("utf-8")


@pytest.mark.parametrize("value", ["text", "", 3, 2.5, True, None, [1, [2]], {"a": {"b": None}}, "\u2028\r\n\t"])
def test_kv_values_round_trip(store: BasicSession, value: Any) -> None:
    store.kv_set("k", value)
    assert store.kv_get("k") == value
    assert [(entry.value, entry.updated_at) for entry in store.kv_items()] == [(value, WHEN)]


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1, 2}, "\ud800", "a\x00b"])
def test_kv_set_rejects_value_that_is_not_json(store: BasicSession, value: Any) -> None:
    store.kv_set("k", "old")
    with pytest.raises(InvalidInput):
        store.kv_set("k", value)
    assert store.kv_get("k") == "old"


@pytest.mark.parametrize("key", ["", " k", "a\nb", "x" * 257, 5])
def test_kv_rejects_invalid_keys(store: BasicSession, key: Any) -> None:
    for call in (store.kv_get, store.kv_delete, lambda key: store.kv_set(key, 1)):
        with pytest.raises(InvalidKey):
            call(key)


def test_kv_set_moves_existing_key_to_end(store: BasicSession) -> None:
    for key in "abca":
        store.kv_set(key, key)
    assert keys(store) == ["b", "c", "a"]


def test_kv_cap_evicts_oldest_entry(tmp_path: Path, clock: Clock) -> None:
    store = BasicSession(tmp_path, kv_cap=3, clock=clock)
    for key in "abcad":
        store.kv_set(key, key)
    assert keys(store) == ["c", "a", "d"]


def test_caps_apply_to_existing_files_when_changed(tmp_path: Path, clock: Clock) -> None:
    wide = BasicSession(tmp_path, kv_cap=5, transcript_cap=5, clock=clock)
    for key in "abcde":
        wide.kv_set(key, key)
        wide.transcript_append("user", key)
    narrow = BasicSession(tmp_path, kv_cap=2, transcript_cap=2, clock=clock)
    assert keys(narrow) == ["d", "e"]
    assert narrow.kv_get("a") is None
    assert narrow.kv_delete("a") is False
    assert [entry.text for entry in narrow.transcript_read_last(9)] == ["d", "e"]
    narrow.kv_set("f", 1)
    narrow.transcript_append("user", "f")
    assert json.loads((tmp_path / "kv.json").read_text())["cap"] == 2
    assert keys(wide) == ["e", "f"]
    assert [entry.text for entry in wide.transcript_read_last(9)] == ["e", "f"]


def test_kv_delete_reports_whether_key_existed(store: BasicSession) -> None:
    store.kv_set("k", 1)
    assert store.kv_delete("k") is True
    assert store.kv_delete("k") is False
    assert store.kv_items() == []


def test_working_memory_is_stored_as_kv_entry(store: BasicSession) -> None:
    store.set_working_memory("look up trains")
    assert store.working_memory == "look up trains"
    assert store.kv_get("working_memory") == "look up trains"


@pytest.mark.parametrize("cap", [0, -1, 2.5, True, "9"])
def test_caps_must_be_positive_integers(tmp_path: Path, clock: Clock, cap: Any) -> None:
    with pytest.raises(InvalidInput, match="kv_cap"):
        BasicSession(tmp_path, kv_cap=cap, clock=clock)
    with pytest.raises(InvalidInput, match="transcript_cap"):
        BasicSession(tmp_path, transcript_cap=cap, clock=clock)


GOOD = '{"key": "a", "value": 1, "ts": "2026-11-15T10:30:01Z"}'


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"entries": {}}',
        b'{"entries": [1]}',
        b'{"entries": [{"key": "a", "ts": "2026-11-15T10:30:01Z"}]}',
        b'{"entries": [{"key": 1, "value": 1, "ts": "2026-11-15T10:30:01Z"}]}',
        b'{"entries": [{"key": "a", "value": 1, "ts": "soon"}]}',
        b'{"entries": [{"key": "a", "value": NaN, "ts": "2026-11-15T10:30:01Z"}]}',
        b'{"entries": [{"key": "a", "value": "\\ud800", "ts": "2026-11-15T10:30:01Z"}]}',
        b'{"entries": [], "entries": []}',
        f'{{"entries": [{GOOD}, {GOOD}]}}'.encode(),
        b'{"entries": [' + b"[" * 200_000,
    ],
)
def test_kv_file_that_is_damaged_is_never_overwritten(store: BasicSession, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "s" / "kv.json"
    path.parent.mkdir()
    path.write_bytes(damage)
    for call in (store.kv_items, lambda: store.kv_get("a"), lambda: store.kv_set("a", 2), lambda: store.kv_delete("a")):
        with pytest.raises(StoreCorrupt, match=r"kv\.json is damaged"):
            call()
    assert path.read_bytes() == damage


def test_kv_set_on_full_disk_keeps_old_file(store: BasicSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreFull("no space")

    store.kv_set("k", "old")
    monkeypatch.setattr(files, "write_atomic", full)
    with pytest.raises(StoreFull):
        store.kv_set("k", "new")
    assert store.kv_get("k") == "old"


def test_kv_file_keeps_fields_added_by_hand(store: BasicSession, tmp_path: Path) -> None:
    store.kv_set("a", 1)
    path = tmp_path / "s" / "kv.json"
    document = json.loads(path.read_text())
    document["comment"] = "mine"
    document["entries"][0]["why"] = "because"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(document).encode())
    store.kv_set("b", 2)
    after = json.loads(path.read_text())
    assert after["comment"] == "mine"
    assert after["entries"][0]["why"] == "because"
    assert keys(store) == ["a", "b"]


def test_transcript_append_and_read_last(store: BasicSession) -> None:
    first = store.transcript_append("user", "Hello")
    given_time = WHEN - timedelta(days=3)
    second = store.transcript_append("assistant", "Hi\n\n### user — 2026-11-15T10:30:01Z", created_at=given_time)
    assert first == TranscriptEntry(Role.USER, WHEN, "Hello")
    assert second.created_at == given_time
    assert store.transcript_read_last(20) == [first, second]
    assert store.transcript_read_last(1) == [second]
    assert store.transcript_read_last(0) == []


@pytest.mark.parametrize("n", [-1, 1.5, True])
def test_transcript_read_last_rejects_invalid_count(store: BasicSession, n: Any) -> None:
    with pytest.raises(InvalidInput):
        store.transcript_read_last(n)


def test_transcript_append_validates_input(store: BasicSession) -> None:
    for role, text in [("robot", "x"), ("user", "a\x00"), ("user", "\ud800"), ("user", 5)]:
        with pytest.raises(InvalidInput):
            store.transcript_append(role, text)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="no time zone"):
        store.transcript_append("user", "x", created_at=datetime(2026, 1, 1))
    assert store.list_files() == []


def test_transcript_cap_drops_oldest_entries(tmp_path: Path, clock: Clock) -> None:
    store = BasicSession(tmp_path, transcript_cap=3, clock=clock)
    for text in "abcde":
        store.transcript_append("user", text)
    assert [entry.text for entry in store.transcript_read_last(500)] == ["c", "d", "e"]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n", "\n\r\n"])
def test_transcript_append_keeps_hand_edited_text(store: BasicSession, tmp_path: Path, ending: str) -> None:
    edited = "# My chat\n\n### USER - 2026-11-15T10:30Z\nshort form" + ending
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "transcript.md").write_bytes(edited.encode())
    store.transcript_append("assistant", "noted")
    assert (tmp_path / "s" / "transcript.md").read_bytes().decode().startswith(edited)
    assert [entry.role for entry in store.transcript_read_last(9)] == ["user", "assistant"]
    assert store.transcript_read_last(9)[1].text == "noted"


def test_transcript_that_is_not_utf8_is_never_overwritten(store: BasicSession, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "transcript.md").write_bytes(b"\xff")
    with pytest.raises(StoreCorrupt, match=r"transcript\.md"):
        store.transcript_append("user", "x")
    assert (tmp_path / "s" / "transcript.md").read_bytes() == b"\xff"


def test_list_files_skips_folders_symlinks_and_temporary_files(store: BasicSession, tmp_path: Path) -> None:
    store.kv_set("k", 1)
    store.transcript_append("user", "x")
    folder = tmp_path / "s"
    (folder / "notes.txt").write_text("abc")
    (folder / "sub").mkdir()
    (folder / ".kv.json.dead.tmp").write_text("half")
    (tmp_path / "secret").write_text("elsewhere")
    (folder / "link").symlink_to(tmp_path / "secret")
    os.utime(folder / "notes.txt", (0, 1_000_000_000))
    files = store.list_files()
    assert [info.name for info in files] == ["kv.json", "notes.txt", "transcript.md"]
    assert files[1].size == 3
    assert files[1].modified_at == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert files[1].modified_at.tzinfo is UTC


operations = st.lists(st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers())), max_size=12)


@given(operations, st.integers(1, 3))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kv_matches_ordered_dict_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int | None]], cap: int
) -> None:
    store = BasicSession(tmp_path_factory.mktemp("kv"), kv_cap=cap, clock=lambda: WHEN)
    model: dict[str, int] = {}
    for key, value in steps:
        existed = model.pop(key, None) is not None
        if value is None:
            assert store.kv_delete(key) is existed
        else:
            store.kv_set(key, value)
            model[key] = value
            while len(model) > cap:
                del model[next(iter(model))]
        assert [(entry.key, entry.value) for entry in store.kv_items()] == list(model.items())


def _write_many(folder: Path, name: str, count: int) -> None:
    store = BasicSession(folder, clock=lambda: WHEN)
    for number in range(count):
        store.kv_set(f"{name}{number}", number)
        store.transcript_append("user", f"{name}{number}")


@pytest.mark.slow
def test_concurrent_processes_do_not_overwrite_each_others_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, name, 40)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    store = BasicSession(tmp_path, clock=lambda: WHEN)
    expected = {f"{name}{number}" for name in "ab" for number in range(40)}
    assert set(keys(store)) == expected
    told = [entry.text for entry in store.transcript_read_last(500)]
    assert sorted(told) == sorted(expected)
    assert [text for text in told if text.startswith("a")] == [f"a{number}" for number in range(40)]


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from limpet.sessions.files import BasicSession
store = BasicSession(Path(sys.argv[1]), kv_cap=10_000, transcript_cap=10_000, clock=lambda: datetime.now(UTC))
for number in range(10_000):
    store.kv_set(f"k{number}", "x" * 2000)
    store.transcript_append("user", f"t{number}")
    print(number, flush=True)
"""


@pytest.mark.parametrize("pause", [0.0, 0.03, 0.05])
def test_killed_writer_loses_no_acknowledged_write(tmp_path: Path, pause: float) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    seen = [writer.stdout.readline() for _ in range(10)]
    time.sleep(pause)
    os.kill(writer.pid, signal.SIGKILL)
    seen += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    acknowledged = [int(line) for line in seen if line.endswith("\n")]
    store = BasicSession(tmp_path, kv_cap=10_000, transcript_cap=10_000, clock=lambda: WHEN)
    assert {f"k{number}" for number in acknowledged} <= set(keys(store))
    assert [f"t{number}" for number in acknowledged] == [
        entry.text for entry in store.transcript_read_last(10_000)[: len(acknowledged)]
    ]
    store.kv_set("after", 1)
    store.transcript_append("user", "after")
    assert list(tmp_path.glob(".*.tmp")) == []


KILLED_AT = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from limpet.sessions.files import BasicSession
store = BasicSession(Path(sys.argv[1]), clock=lambda: datetime.now(UTC))
store.kv_set("k", "old")
store.transcript_append("user", "old")
call, times, real = sys.argv[2], int(sys.argv[3]), getattr(os, sys.argv[2])
def die(*arguments):
    global times
    times -= 1
    if not times:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
setattr(os, call, die)
if sys.argv[4] == "kv":
    store.kv_set("k", "new")
else:
    store.transcript_append("user", "new")
"""


@pytest.mark.parametrize("what", ("kv", "transcript"))
@pytest.mark.parametrize(("call", "times", "written"), (("fsync", 1, False), ("replace", 1, False), ("fsync", 2, True)))
def test_kill_at_each_write_step_leaves_old_or_new_file(
    tmp_path: Path, what: str, call: str, times: int, written: bool
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED_AT, str(tmp_path), call, str(times), what], check=False)
    assert ended.returncode == -signal.SIGKILL
    store = BasicSession(tmp_path, clock=lambda: WHEN)
    told = [entry.text for entry in store.transcript_read_last(9)]
    assert store.kv_get("k") == ("new" if written and what == "kv" else "old")
    assert told == (["old", "new"] if written and what == "transcript" else ["old"])
    assert [info.name for info in store.list_files()] == ["kv.json", "transcript.md"]


def test_reader_never_sees_partial_file(tmp_path: Path) -> None:
    store = BasicSession(tmp_path, clock=lambda: WHEN)
    store.kv_set("k", "x" * 100_000)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            store.kv_set("k", "x" * 100_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(len(store.kv_get("k")) == 100_000 for _ in range(300))
    finally:
        done.set()
        writer.join()
