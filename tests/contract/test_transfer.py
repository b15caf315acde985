"""Export, everything gone, import, export again: the same bytes. On every backend, and from one to another."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet import Config, Limpet, ToolCall
from limpet.errors import InvalidInput, LimpetError
from limpet.knowledge.remember import RecordChunker, insert
from limpet.knowledge.repository import Records
from limpet.model.record import Origin, Record
from limpet.model.scope import Level, Partition, Scope
from limpet.model.session import SessionStatus
from limpet.model.values import bucket_of_id
from tests.contract.exports import START, contents, deeds, remove_everything, rewritten, scheduled
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
