"""Export, everything gone, import, export again: the same bytes. On every backend, and from one to another."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet import Config, Limpet, Message, ToolCall
from limpet.errors import InvalidInput, LimpetError, StorageError
from limpet.knowledge.remember import RecordChunker, insert
from limpet.knowledge.repository import Records
from limpet.model.record import Origin, Record
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionStatus
from limpet.model.values import bucket_of_id
from tests.contract.exports import START, contents, deeds, edited, remove_everything, rewritten, scheduled
from tests.contract.rows import every_row, faults
from tests.examples import examples

pytestmark = pytest.mark.every_backend

_numbers = itertools.count()
FEW = settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), deadline=None)


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[], Path]:
    """A new folder's name, as often as one is needed."""
    return lambda: tmp_path / f"export {next(_numbers)}"


Folders = Callable[[], Path]


def filled(memory: Limpet) -> None:
    """Something of everything that is ever exported."""
    chat = memory.session("telegram", "12:34", "thread", user="alice", metadata={"title": 'A "chat"', "n.m": [1, None]})
    chat.append("system", "You are helpful.")
    chat.append("user", "My sister Anna lives in Porto", name="Alice", idempotency_key="once", sequence=50)
    chat.append("assistant", "", tool_calls=[ToolCall("call-1", "weather", {"city": "Porto"})])
    chat.append("tool", "It rains.", tool_call_id="call-1", is_error=True, metadata={"ms": 12})
    chat.set_summary("Alice has a sister.", 50)
    chat.set_working_memory("- call Anna")
    chat.add_usage("large", input_tokens=1000, cost=0.0125)
    chat.learn()
    old = memory.remember("Alice lives in Porto", user="alice", key="city", tags=["home"])
    memory.records.update(old.id, content="Alice lives in Lisbon")
    new = memory.remember("Alice lives in Faro", user="alice")
    memory._runtime.store.write(lambda tx: _superseded(tx, memory, new.id))
    memory.remember("Only in this chat", session=chat.id, layer="working")
    memory.documents.add("note:packing.md", "# Packing\n\n" + "Boxes first, then the dog. " * 100, user="alice")
    scheduled(memory, chat, "Water the plants", "All of them, and the cactus. " * 50, START, {"a.b": [1]})
    memory.session("whatsapp", "1", user="bob").append("user", "Bob is here")
    memory.jobs.run()
    memory.notes.long_term(user="alice").write("# Me\n")
    memory.notes.add_turn("alice", "hello", "hi")
    if memory._runtime.folder is not None:
        place = memory._runtime.session_folder(chat.id)
        assert place is not None
        place.mkdir(parents=True)
        (place / "plan of it.txt").write_bytes(b"\x00any bytes")


def _superseded(tx: Any, memory: Limpet, successor: str) -> None:
    record = Records(tx).get(Scope(memory._tenant), successor)
    assert record is not None
    before = replace(
        record, id=memory._runtime.new_id(), superseded_by=successor, inputs=(successor,), origin=Origin.EXTRACTED
    )
    insert(tx, before, RecordChunker(memory.config.chunks, for_graph=False))


def exported(memory: Limpet, folders: Folders, user: str | None = None) -> dict[str, bytes]:
    folder = folders()
    memory.transfer.export(folder, user)
    return contents(folder)


# There and back


@FEW
@given(st.lists(deeds(), min_size=1, max_size=14))
def test_export_and_import_round_trip_random_memory(tmp_path_factory: pytest.TempPathFactory, done: Any) -> None:
    """Into the store they were removed from, into an empty one, and into another tenant."""
    place = tmp_path_factory.mktemp("made-up")
    _round_trip(str(place / "one"), str(place / "two"), place, done)


@pytest.mark.postgres
@settings(FEW, max_examples=examples(5))
@given(st.lists(deeds(), min_size=1, max_size=14))
def test_export_and_import_round_trip_between_backends(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, done: Any
) -> None:
    place = tmp_path_factory.mktemp("made-up")
    _round_trip(postgres_url, ":memory:", place, done)
    _round_trip(":memory:", postgres_url, place, done)


def _round_trip(first: str, second: str, place: Path, done: Any) -> None:
    number = next(_numbers)
    with Limpet.open(first) as store:
        memory = store.tenant(f"made-up-{number}")
        for deed in done:
            deed(memory)
        memory.jobs.run()
        folder = place / f"before {number}"
        memory.transfer.export(folder)
        before = contents(folder)
        assert memory.transfer.import_(folder).already or not before["data/sessions.jsonl"]
        remove_everything(memory)
        assert not memory.transfer.import_(folder).skipped
        memory.transfer.export(place / f"after {number}")
        assert contents(place / f"after {number}") == before
        assert faults(memory) == []
    with Limpet.open(second) as store:
        other = store.tenant(f"another-{number}")
        done_there = other.transfer.import_(folder)
        other.transfer.export(place / f"elsewhere {number}")
        if store._runtime.folder is not None or not before["data/files.jsonl"]:
            assert not done_there.skipped
            assert contents(place / f"elsewhere {number}") == before
        assert faults(other) == []


def test_export_and_import_restore_user(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    done = memory.transfer.export(folder, "alice")
    before, everybody = contents(folder), exported(memory, folders)
    assert {"data/messages.jsonl", "manifest.json", "README.md", "readable/records.md"} <= before.keys()
    assert (done.counts["sessions"], done.counts["messages"], done.counts["documents"]) == (1, 4, 1)
    assert b"Bob" not in b"".join(before.values())
    whole = folders()
    memory.transfer.export(whole)
    remove_everything(memory)
    imported = memory.transfer.import_(folder)
    assert (imported.sessions, imported.messages, imported.documents) == (1, 4, 1)
    assert not imported.already
    assert exported(memory, folders, "alice") == before
    memory.transfer.import_(whole)
    assert exported(memory, folders) == everybody
    assert faults(memory) == []
    [hit] = memory.recall("boxes dog", user="alice", kinds=["document"], k=1)
    assert hit.source.uri == "note:packing.md"
    assert memory.records.history(memory.records(user="alice", history=True)[0].id)


def test_export_is_deterministic(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    assert exported(memory, folders) == exported(memory, folders)
    assert exported(memory, folders, "alice") == exported(memory, folders, "alice")


def test_import_of_same_export_twice_reports_already(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder)
    rows = every_row(memory)
    assert memory.transfer.import_(folder).already
    assert every_row(memory) == rows


def test_import_of_empty_export_adds_nothing(memory: Limpet, folders: Folders) -> None:
    folder = folders()
    memory.transfer.export(folder, "nobody")
    done = memory.transfer.import_(folder)
    assert (done.already, done.left_out, done.sessions) == (False, 0, 0)


def test_import_keeps_newer_data(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder, "alice")
    session = memory.session("telegram", "12:34", "thread", user="alice")
    session.append("user", "said later")
    memory.remember("Alice lives in Berlin", user="alice", key="city")
    assert memory.transfer.import_(folder).already
    assert session.messages()[-1].text == "said later"
    assert {record.content for record in memory.records(user="alice") if record.key == "city"} == {
        "Alice lives in Berlin"
    }


def test_import_adds_newer_messages_but_not_cleared_ones(memory: Limpet, folders: Folders) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("user", "first")
    early = folders()
    memory.transfer.export(early, "alice")
    session.append("user", "second")
    late = folders()
    memory.transfer.export(late, "alice")
    session.delete()
    memory.transfer.import_(early)
    done = memory.transfer.import_(late)
    again = memory.load_session(session.id)
    assert (done.sessions, done.messages) == (0, 1)
    assert [message.text for message in again.messages()] == ["first", "second"]
    again.clear()
    done = memory.transfer.import_(late)
    assert (done.messages, again.count()) == (0, 0)
    assert any("removed here" in one.reason for one in done.skipped)


# Another owner


def test_import_under_another_user_assigns_new_ids(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder, "alice")
    before = exported(memory, folders, "alice")
    done = memory.transfer.import_(folder, user="carol")
    assert (done.sessions, done.messages) == (1, 4)
    assert memory.transfer.import_(folder, user="carol").already
    assert exported(memory, folders, "alice") == before
    [info] = memory.sessions(user="carol")
    session = memory.load_session(info.id)
    assert [message.sequence for message in session.messages()] == [1, 50, 51, 52]
    records = {record.id: record for record in memory.records(user="carol", history=True)}
    assert not records.keys() & {record.id for record in memory.records(user="alice", history=True)}
    [old] = [record for record in records.values() if record.superseded_by]
    assert old.superseded_by in records
    assert old.inputs == (old.superseded_by,)
    assert {record.source.session_id for record in records.values() if record.source.session_id} <= {session.id}
    assert memory.graph(user="carol").entities
    assert faults(memory) == []
    theirs = folders()
    memory.transfer.export(theirs, "carol")
    with Limpet.open(":memory:") as empty:  # also where no id is taken: an id says whose it is
        empty.transfer.import_(theirs, user="dave")
        _assert_found_by_both_ids(empty, "dave", session.id, records)
        again = empty.transfer.import_(theirs, user="dave")
        assert (again.sessions, again.messages, again.records, again.documents) == (0, 0, 0, 0)
        assert faults(empty) == []


def _assert_found_by_both_ids(memory: Limpet, user: str, session_id: str, records: Mapping[str, Record]) -> None:
    [info] = memory.sessions(user=user)
    assert info.id != session_id
    assert bucket_of_id(info.id) == Partition("default", Level.USER, user).bucket
    for id_ in (info.id, session_id):
        session = memory.load_session(id_)
        assert (session.id, session.count()) == (info.id, 4)
    found = {id_: memory.records.get(id_) for id_ in records}
    assert {id_: record.content for id_, record in found.items()} == {id_: one.content for id_, one in records.items()}
    for record in found.values():
        assert record.id not in records
        assert bucket_of_id(record.id) == record.home.space.bucket
        assert memory.records.get(record.id) == record
    assert {record.id for record in found.values()} == {record.id for record in memory.records(user=user, history=True)}


def test_ids_that_somebody_else_made_are_found(memory: Limpet) -> None:
    """An id of another program does not say the bucket."""
    foreign = "018f0000-0000-7000-8000-000000000001"
    record = memory.remember("tea", user="alice", id=foreign)
    assert record.id == foreign
    assert memory.records.get(foreign).content == "tea"
    assert memory.records.get(foreign, user="alice").content == "tea"
    memory.records.update(foreign, content="coffee")
    assert [version.content for version in memory.records.history(foreign)] == ["tea", "coffee"]
    with pytest.raises(LimpetError):
        memory.remember("mine", user="bob", id=foreign)
    generated = memory.remember("another", user="alice").id
    with pytest.raises(LimpetError):
        memory.remember("mine", user="bob", id=generated)
    assert memory.forget(foreign).total
    assert faults(memory) == []


def test_import_into_another_tenant_assigns_new_ids(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder)
    rows = every_row(memory)["messages"]
    other = memory.tenant("other")
    assert other.transfer.import_(folder).sessions == 2
    assert [row for row in every_row(memory)["messages"] if row in rows] == rows
    assert not {info.id for info in other.sessions()} & {info.id for info in memory.sessions()}
    assert faults(memory) == []


def test_import_of_whole_tenant_rejects_user(memory: Limpet, folders: Folders) -> None:
    folder = folders()
    memory.transfer.export(folder)
    with pytest.raises(InvalidInput, match="whole tenant"):
        memory.transfer.import_(folder, user="alice")


def test_import_terminates_session_when_chat_is_live(memory: Limpet, folders: Folders) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("user", "there")
    folder = folders()
    memory.transfer.export(folder, "alice")
    session.delete()
    here = memory.session("t", "1", user="alice")
    done = memory.transfer.import_(folder)
    assert any("ended" in one.reason for one in done.skipped)
    assert memory.load_session(session.id).state is SessionStatus.TERMINATED
    assert memory.session("t", "1", user="alice").id == here.id


# Interrupted


# Five batches and a part of one, which need not be large.
BATCH = 50
MANY = 258
SMALL_BATCHES = {"limpet.lifecycle.importer._LINES": BATCH, "limpet.lifecycle.export._PROGRESS_EVERY": BATCH}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL_BATCHES.items():
        monkeypatch.setattr(name, value)


def many(memory: Limpet, messages: int = MANY) -> None:
    for chat in range(3):
        session = memory.session("t", str(chat), user="alice")
        session.extend([Message.new("user", f"walrus {chat} {number}") for number in range(messages // 3)])
        session.set_summary("walruses", 5)
        session.kv.set("k", chat)


class Stop(Exception):
    pass


def stopping(after: int) -> Callable[[str, int, int], None]:
    count = itertools.count(1)

    def stop(stage: str, done: int, total: int) -> None:
        if not stage.startswith("checking") and next(count) == after:
            raise Stop

    return stop


@pytest.mark.usefixtures("small_batches")
def test_import_resumes_after_interruption(store_url: str, folders: Folders) -> None:
    folder = folders()
    with Limpet.open(":memory:") as source:
        many(source)
        source.transfer.export(folder, "alice")
    with Limpet.open(store_url) as memory:
        with pytest.raises(Stop):
            memory.transfer.import_(folder, progress=stopping(4))
        half = memory.admin.stats()["messages"]
        assert 0 < half < MANY
        assert faults(memory) == []
        seen: list[tuple[str, int, int]] = []
        done = memory.transfer.import_(folder, progress=lambda *step: seen.append(step))
        assert done.continued >= half
        assert (done.sessions, done.messages) == (3, MANY)
        assert next(line for stage, line, _ in seen if stage == "messages") > half
        assert exported(memory, folders, "alice") == contents(folder)
        assert every_row(memory)["transfers"] == []
        assert faults(memory) == []


KILLED = """
import sys
from limpet import Limpet
from limpet.lifecycle import export, importer

importer._LINES = export._PROGRESS_EVERY = int(sys.argv[6])
stage, at = sys.argv[3], int(sys.argv[4])

def progress(now, done, total):
    if now == stage and done >= at:
        print("now", flush=True)
        sys.stdin.readline()  # nobody answers: the killer is on his way

with Limpet.open(sys.argv[1]) as memory:
    getattr(memory.transfer, sys.argv[5])(sys.argv[2], progress=progress)
"""


def killed_at(url: str, folder: Path, stage: str, at: int, verb: str) -> None:
    command = [sys.executable, "-c", KILLED, url, str(folder), stage, str(at), verb, str(BATCH)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "now\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()


@pytest.mark.parametrize(("stage", "at"), [("sessions", 1), ("messages", BATCH), ("messages", 4 * BATCH), ("kv", 1)])
@pytest.mark.usefixtures("small_batches")
def test_import_resumes_after_process_kill(durable_url: str, folders: Folders, stage: str, at: int) -> None:
    folder = folders()
    with Limpet.open(":memory:") as source:
        many(source)
        source.transfer.export(folder, "alice")
    killed_at(durable_url, folder, stage, at, "import_")
    with Limpet.open(durable_url) as memory:
        assert memory.admin.stats()["messages"] < MANY
        assert faults(memory) == []
        done = memory.transfer.import_(folder)
        assert done.continued > 0
        assert exported(memory, folders, "alice") == contents(folder)
        assert faults(memory) == []


@pytest.mark.usefixtures("small_batches")
def test_export_killed_leaves_only_unfinished_folder(durable_url: str, folders: Folders) -> None:
    folder, whole = folders(), folders()
    with Limpet.open(durable_url) as memory:
        many(memory)
        memory.transfer.export(whole)
    killed_at(durable_url, folder, "messages", 2 * BATCH, "export")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    assert unfinished.is_dir()
    assert not folder.exists()
    with Limpet.open(durable_url) as memory, pytest.raises(LimpetError):
        memory.transfer.import_(unfinished)
    with Limpet.open(durable_url) as memory:
        memory.transfer.export(folder)
    assert not unfinished.exists()
    assert contents(folder) == contents(whole)


def test_export_during_writes_is_consistent_snapshot(store_url: str, folders: Folders) -> None:
    """Each turn is two messages in one transaction: an odd number of them is no moment that ever was."""
    with Limpet.open(store_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"walrus {number}") for number in range(1000)])
        stop, written = threading.Event(), itertools.count()

        def write() -> None:
            while not stop.is_set():
                number = next(written)
                session.extend([Message.new("user", f"q {number}"), Message.new("assistant", f"a {number}")])
                memory.remember(f"record of {number}", user="alice")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            exports = [exported(memory, folders, "alice") for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        assert next(written) > 3
        for export in exports:
            lines = export["data/messages.jsonl"].splitlines()
            assert len(lines) % 2 == 0
            assert json.loads(export["data/sessions.jsonl"])["last_sequence"] == len(lines)


@pytest.mark.long
def test_export_and_import_use_constant_memory(tmp_path: Path) -> None:
    """Four times the messages are moved with hardly more memory: what grows is less than the messages weigh."""
    peaks = []
    for messages in (1200, 4800):
        folder = tmp_path / f"export {messages}"
        with Limpet.open(tmp_path / f"from {messages}") as source, Limpet.open(tmp_path / f"to {messages}") as to:
            many(source, messages)
            tracemalloc.start()
            source.transfer.export(folder, "alice")
            exporting = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            to.transfer.import_(folder)
            peaks.append((exporting, tracemalloc.get_traced_memory()[1]))
            tracemalloc.stop()
    (small_out, small_in), (large_out, large_in) = peaks
    assert large_out < 1.5 * small_out + 1_000_000
    assert large_in < 1.5 * small_in + 1_000_000


# What is refused


def test_export_never_overwrites_existing_files(memory: Limpet, folders: Folders, tmp_path: Path) -> None:
    there = folders()
    there.mkdir()
    memory.transfer.export(there)  # empty, so nothing is lost
    with pytest.raises(InvalidInput, match="not empty"):
        memory.transfer.export(there)
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InvalidInput):
        memory.transfer.export(tmp_path / "file")
    with pytest.raises(StorageError):
        memory.transfer.export(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "precious"
    assert list(tmp_path.glob("*.unfinished")) == []


def test_import_dry_run_stores_nothing(memory: Limpet, folders: Folders) -> None:
    filled(memory)
    folder = folders()
    memory.transfer.export(folder, "alice")
    remove_everything(memory)
    rows = every_row(memory)
    done = memory.transfer.import_(folder, dry_run=True)
    assert (done.sessions, done.messages, done.dry_run) == (1, 4, True)
    assert every_row(memory) == rows


def spoilt(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


DEEP = '{"session_id": "x", "metadata": ' + '{"a":' * 3000 + "1" + "}" * 3000 + "}"
BAD: dict[str, tuple[str, Callable[[Path], None]]] = {
    "not json": ("messages.jsonl, line 2", lambda at: rewritten(at, "messages", lambda lines: [lines[0], b"{\n"])),
    "a list": ("kv.jsonl, line 1", lambda at: rewritten(at, "kv", lambda _: [b"[]\n"])),
    "deep": ("messages.jsonl, line 1", lambda at: rewritten(at, "messages", lambda _: [DEEP.encode() + b"\n"])),
    "an unknown field": ("messages.jsonl, line 3", lambda at: edited(at, "messages", 2, colour="red")),
    "a nul": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content="a\x00b")),
    "a surrogate": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content="\ud800")),
    "not utf-8": ("messages.jsonl, line 1", lambda at: rewritten(at, "messages", lambda _: [b'{"a":"\xff"}\n'])),
    "a wrong role": ("messages.jsonl, line 4", lambda at: edited(at, "messages", 3, role="wizard")),
    "a number for text": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, content=5)),
    "a sequence below 1": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, sequence=-1)),
    "a huge sequence": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, sequence=2**70)),
    "no time": ("messages.jsonl, line 1", lambda at: edited(at, "messages", 0, created_at="2026-01-01T00:00:00")),
    "another user": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, user="bob")),
    "another user's record": ("records.jsonl, line 2", lambda at: edited(at, "records", 1, user="bob")),
    "the tenant's record": ("records.jsonl, line 1", lambda at: edited(at, "records", 0, level="global")),
    "a wrong id": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, id="../../etc")),
    "a wrong state": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, state="asleep")),
    "a list of users": ("sessions.jsonl, line 1", lambda at: edited(at, "sessions", 0, user=["alice"])),
    "an infinite bill": (
        "sessions.jsonl, line 1",
        lambda at: edited(at, "sessions", 0, usage=[{"model": "m", "cost": 1e300}]),
    ),
    "a wrong confidence": ("records.jsonl, line 1", lambda at: edited(at, "records", 0, confidence=7)),
    "versions of another": (
        "records.jsonl, line 1",
        lambda at: edited(at, "records", 0, versions=[{"id": "x"}]),
    ),
    "a wrong hash": ("documents.jsonl, line 1", lambda at: edited(at, "documents", 0, content_hash="zz")),
    "the tenant's document": ("documents.jsonl, line 1", lambda at: edited(at, "documents", 0, level="global")),
    "a wrong cadence": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, cadence="now and then")),
    "another user's schedule": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, user="bob")),
    "half a firing": (
        "schedules.jsonl, line 1",
        lambda at: edited(at, "schedules", 0, due_at=None, next_run_at="2026-01-01T00:00:00Z"),
    ),
    "a lease": ("schedules.jsonl, line 1", lambda at: edited(at, "schedules", 0, running_until="2026-01-01T00:00:00Z")),
    "a priceless run": ("schedule_runs.jsonl, line 2", lambda at: edited(at, "schedule_runs", 1, cost=-1)),
    "a run of bytes": ("schedule_runs.jsonl, line 3", lambda at: edited(at, "schedule_runs", 2, output=[1])),
    "a wrong offset": ("pieces.jsonl, line 2", lambda at: edited(at, "pieces", 1, offset="far")),
    "a relation to nobody": (
        "graph.jsonl, line 1",
        lambda at: edited(at, "graph", 0, relations=[{"subject": "nobody", "predicate": "is", "kind": "fact"}]),
    ),
    "no manifest": ("manifest.json", lambda at: spoilt(at / "manifest.json", lambda _: b"{}")),
    "a path in the manifest": (
        "manifest.json",
        lambda at: spoilt(at / "manifest.json", lambda data: data.replace(b"data/kv.jsonl", b"../../kv.jsonl")),
    ),
    "a newer version": (
        "manifest.json",
        lambda at: spoilt(at / "manifest.json", lambda data: data.replace(b'"version": 1', b'"version": 2')),
    ),
    "a file that is gone": ("kv.jsonl", lambda at: (at / "data" / "kv.jsonl").unlink()),
    "cut off": ("messages.jsonl", lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data[:-40])),
    "edited": (
        "messages.jsonl",
        lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data.replace(b"Anna", b"Hans")),
    ),
    "longer": ("messages.jsonl", lambda at: spoilt(at / "data" / "messages.jsonl", lambda data: data + b"{}\n")),
}


@pytest.fixture(scope="module")
def good_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "export"
    with Limpet.open(":memory:") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    return folder


@pytest.mark.parametrize("name", BAD)
def test_import_rejects_invalid_export_and_changes_nothing(good_export: Path, tmp_path: Path, name: str) -> None:
    place, spoil = BAD[name]
    folder = tmp_path / "bad"
    shutil.copytree(good_export, folder)
    spoil(folder)
    with Limpet.open(":memory:") as memory:
        memory.session("t", "1", user="alice").append("user", "here")
        rows = every_row(memory)
        with pytest.raises(InvalidInput) as caught:
            memory.transfer.import_(folder, format="limpet-export")
        assert place in str(caught.value)
        assert every_row(memory) == rows


def test_import_accepts_valid_export(good_export: Path) -> None:
    with Limpet.open(":memory:") as memory:
        assert memory.transfer.import_(good_export).messages == 4


def test_import_rejects_line_over_size_limit(good_export: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("limpet.lifecycle.export_folder.MAX_LINE_BYTES", 50)
    with Limpet.open(":memory:") as memory, pytest.raises(InvalidInput, match=r"sessions.jsonl, line 1: it is longer"):
        memory.transfer.import_(good_export)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../../escaped.md"},
        {"name": "..\\escaped.md"},
        {"name": ".."},
        {"owner": "bob"},
        {"session_id": "../x"},
        {"sha256": "0" * 64},
        {"bytes": 1},
        {"name": "plan.lock"},
    ],
)
def test_import_rejects_file_path_outside_folder(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    edited(folder, "files", 0, **fields)
    with Limpet.open(tmp_path / "two") as memory:
        with pytest.raises(InvalidInput):
            memory.transfer.import_(folder)
        assert memory.sessions() == []
    assert list(tmp_path.rglob("*escaped*")) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../../escaped.md"},
        {"name": "other.txt"},
        {"name": "2026-02-31.md"},
        {"owner": "bob"},
        {"level": "global", "owner": ""},
        {"level": "session"},
        {"pending": True},
        {"text": None},
    ],
)
def test_import_rejects_note_that_is_not_the_owners(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    edited(folder, "notes", 1, **fields)
    with Limpet.open(tmp_path / "two") as memory:
        with pytest.raises(InvalidInput):
            memory.transfer.import_(folder)
        assert memory.sessions() == []
        assert memory.notes.long_term("alice").read() == ""
    assert list(tmp_path.rglob("*escaped*")) == []


def test_import_does_not_follow_symlinks(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    [copy] = [path for path in (folder / "files").rglob("*") if path.is_file()]
    copy.unlink()
    (tmp_path / "secret").write_bytes(b"\x00any bytes")
    copy.symlink_to(tmp_path / "secret")
    with Limpet.open(tmp_path / "two") as memory, pytest.raises(LimpetError, match="link"):
        memory.transfer.import_(folder)


def test_import_keeps_existing_memory_file(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with Limpet.open(tmp_path / "one") as memory:
        filled(memory)
        memory.transfer.export(folder, "alice")
    with Limpet.open(tmp_path / "two") as memory:
        memory.notes.long_term(user="carol").write("# Carol\n")
        done = memory.transfer.import_(folder, user="carol")
        assert memory.notes.long_term(user="carol").read() == "# Carol\n"
        [note] = [one for one in done.skipped if "notes.jsonl" in one.place]
        assert "another MEMORY.md is here" in note.reason
        assert "hello" in memory.notes.day(user="carol")
        [info] = memory.sessions(user="carol")
        assert [file.name for file in memory.load_session(info.id).list_files()] == ["plan of it.txt"]


def test_notes_of_an_export_that_has_them_as_files_come_in(memory: Limpet, tmp_path: Path) -> None:
    """As exports were before notes were in the store."""
    folder = tmp_path / "old"
    memory.session("t", "1", user="alice").append("user", "hello")
    memory.transfer.export(folder, "alice")
    (folder / "data" / "notes.jsonl").unlink()
    place = folder / "files" / "user" / "alice"
    place.mkdir(parents=True)
    (place / "MEMORY.md").write_text("# Me\n")
    line = {"level": "user", "owner": "alice", "name": "MEMORY.md", "bytes": 5}
    line["sha256"] = hashlib.sha256(b"# Me\n").hexdigest()
    rewritten(folder, "files", lambda _: [json.dumps(line).encode() + b"\n"])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = [file for file in manifest["files"] if file["path"] != "data/notes.jsonl"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    memory.privacy.purge_user("alice")
    assert memory.transfer.import_(folder, user="carol").files == 1
    assert memory.notes.long_term("carol").read() == "# Me\n"
    assert memory.transfer.import_(folder, user="carol").already


@pytest.mark.parametrize(("days", "warned"), [(90, True), (0, False)])
def test_import_warns_about_messages_older_than_retention(
    store_url: str, caplog: pytest.LogCaptureFixture, days: int, warned: bool
) -> None:
    old = Path(__file__).parents[1] / "data" / "import" / "chatgpt"
    config = Config.load(overrides={"retention.messages_days": days})
    with Limpet.open(store_url, config=config) as memory, caplog.at_level(logging.WARNING, "limpet.import"):
        assert memory.transfer.import_(old, user="alice").messages
    assert ("retention.messages_days" in caplog.text) == warned


OLD_EXPORT = Path(__file__).parent.parent / "data" / "import" / "holdfast-export"


def test_an_export_of_the_program_before_its_rename_comes_in_whole(memory: Limpet, folders: Folders) -> None:
    done = memory.transfer.import_(OLD_EXPORT)
    assert not done.skipped
    folder = folders()
    memory.transfer.export(folder, "alice")
    for path in sorted((OLD_EXPORT / "data").iterdir()):
        there, here = (_lines(each / "data" / path.name) for each in (OLD_EXPORT, folder))
        for summary in [line["summary"] for line in here if path.name == "sessions.jsonl" and line.get("summary")]:
            assert summary.pop("written_sequence") == summary.pop("written_characters") == 0
        assert here == there, path.name


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
