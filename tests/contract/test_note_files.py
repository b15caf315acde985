"""Notes as files: what people edit, what a turn writes, and the folder of a store that has none of its own."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.api.runtime import DATABASE
from limpet.errors import ConfigError
from limpet.model.note import Note
from limpet.model.scope import Level, Partition
from limpet.notes.user_notes import UserNotes
from limpet.store.sqlite.connection import SqliteConnection
from limpet.testing import FakeClock
from tests.contract.rows import sql
from tests.contract.test_notes import ALL, NOTES, PLAIN, files_of, fill, is_folder, read_all

pytestmark = pytest.mark.every_backend


# Files that people edit


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def edit(place: str, name: str, text: str) -> None:
    (Path(place) / "memory" / "users" / "alice" / name).write_text(text)


def stored(memory: Limpet) -> dict[str, str]:
    return dict(sql(memory, "SELECT name, text FROM notes"))


def pending(place: str) -> list[str]:
    """The notes that the store takes to have no file yet, as another program sees them."""
    with closing(sqlite3.connect(Path(place) / DATABASE)) as database:
        return [name for (name,) in database.execute("SELECT name FROM notes WHERE pending <> 0")]


def test_edited_file_is_read_into_the_store(data: str, clock: FakeClock) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        edit(data, "MEMORY.md", "- keeps goats\n")
        edit(data, "2026-03-10.md", "by hand\n")
        edit(data, "2026-03-01.md", "a new day\n")
        context = memory.session("t", "1", user="alice").context("hello").text
        assert "goats" in context
        assert "by hand" in context
        assert memory.notes.day("alice", date(2026, 3, 1)) == "a new day\n"
        assert stored(memory) == files_of(data)
        assert list(Path(data).rglob("*.conflict")) == []


def test_turn_with_its_note_is_two_commits(data: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question, and the reply with the note. That the file has it goes along with the next commit."""
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        session, commits = memory.session("t", "1", user="alice"), list[str]()
        commit = SqliteConnection.commit

        def count_and_commit(connection: SqliteConnection) -> None:
            commits.append("one")
            commit(connection)

        monkeypatch.setattr(SqliteConnection, "commit", count_and_commit)
        with session.turn("hello") as turn:
            turn.reply("Hello, Alice.")
        assert len(commits) == 2
        assert stored(memory) == files_of(data)
        assert pending(data) == []


def test_close_notes_that_the_file_of_a_turn_was_written(data: str, clock: FakeClock) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        with memory.session("t", "1", user="alice").turn("hello") as turn:
            turn.reply("Hello, Alice.")
        assert pending(data) == ["2026-03-10.md"]
    assert pending(data) == []


def test_file_that_is_edited_right_after_a_turn_has_no_conflict(data: str, clock: FakeClock) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        session = memory.session("t", "1", user="alice")
        for said in ("hello", "and again"):
            with session.turn(said) as turn:
                turn.reply("Hello, Alice.")
            edit(data, "2026-03-10.md", f"{files_of(data)['2026-03-10.md']}by hand\n")
        assert memory.notes.day("alice", date(2026, 3, 10)) == files_of(data)["2026-03-10.md"]
        assert files_of(data)["2026-03-10.md"].count("by hand") == 2
        assert list(Path(data).rglob("*.conflict")) == []


def test_person_who_saves_between_a_reply_and_its_file_loses_nothing(
    data: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = UserNotes.mirror

    def mirror_too_late(notes: UserNotes, partition: Partition, note: Note) -> None:
        edit(data, note.name, "by hand\n")
        mirror(notes, partition, note)

    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        monkeypatch.setattr(UserNotes, "mirror", mirror_too_late)
        with memory.session("t", "1", user="alice").turn("hello") as turn:
            turn.reply("Hello, Alice.")
        assert files_of(data)["2026-03-10.md"] == stored(memory)["2026-03-10.md"] == "by hand\n"
        [copy] = Path(data).rglob("*.conflict")
        assert "Hello, Alice." in copy.read_text()


def test_change_by_a_program_that_writes_no_files_is_not_taken_back(data: str, clock: FakeClock) -> None:
    """The file says what it said before: nobody has edited it."""
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        store, now = memory._runtime.store, memory._runtime.clock
        apart = UserNotes(store, None, PLAIN.notes, plain_files=True, mask=lambda text: text, clock=now)
        apart.append_memory(Partition("default", Level.USER, "alice"), "- likes tea")
        assert memory.notes.long_term("alice").read() == f"{NOTES}- likes tea\n"
        memory.notes.long_term("alice").append("- likes milk")
        assert files_of(data)["MEMORY.md"] == f"{NOTES}- likes tea\n- likes milk\n"
        assert list(Path(data).rglob("*.conflict")) == []


def test_restored_backup_replaces_files_and_keeps_copies(data: str, clock: FakeClock, tmp_path: Path) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        memory.admin.backup(str(tmp_path / "backup.db"))
        memory.notes.long_term("alice").write("- later\n", version="*")
        memory.admin.restore(str(tmp_path / "backup.db"), overwrite=True)
        assert memory.notes.long_term("alice").read() == files_of(data)["MEMORY.md"] == NOTES
        assert [path.read_text() for path in Path(data).rglob("*.conflict")] == ["- later\n"]


def test_store_in_a_folder_that_lost_its_files_still_has_the_notes(data: str, clock: FakeClock) -> None:
    import shutil

    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
    shutil.rmtree(Path(data) / "memory")
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        assert read_all(memory, clock) == ALL


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_file_keeps_the_mode_that_a_person_gave_it(data: str, clock: FakeClock) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        path = memory.notes.long_term("alice").path
        assert path is not None
        path.chmod(0o640)
        memory.notes.long_term("alice").append("- tea")
        assert oct(path.stat().st_mode & 0o777) == "0o640"


# A folder for a store that has none


def _with_folder(url: str, folder: Path, **more: Any) -> Limpet:
    overrides = {"embedding.model": "none", "jobs.worker": False, "notes.folder": str(folder), **more}
    return Limpet.open(url, config=Config.load(overrides=overrides))


@pytest.mark.postgres
def test_postgres_with_configured_folder_mirrors_notes_and_items(postgres_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    with _with_folder(postgres_url, tmp_path / "none", **{"notes.folder": "none"}) as memory:
        memory.notes.long_term(user="alice").write("- keeps bees\n")
        assert memory.notes.long_term(user="alice").path is None
        assert not memory.notes.export_items(user="alice").has_folder
    for _ in range(2):
        with _with_folder(postgres_url, folder) as memory:
            page = memory.notes.long_term(user="alice")
            assert page.path is not None
            assert page.path.read_text() == page.read()
    with _with_folder(postgres_url, folder) as memory:
        page = memory.notes.long_term(user="alice")
        page.append("- likes tea")
        assert page.path is not None
        assert page.path.read_text() == "- keeps bees\n- likes tea\n"
        page.path.write_text("- by hand\n")
        assert page.read() == "- by hand\n"
        memory.remember("Alice's dog is Biscuit", user="alice")
        done = memory.notes.export_items(user="alice")
        assert (done.records, done.has_folder) == (1, True)
        assert "Biscuit" in (page.path.parent / "items" / "semantic.jsonl").read_text()
        memory.privacy.purge_user("alice")
        assert not page.path.parent.exists()


def _items_of(place: str, user: str = "alice") -> list[str]:
    folder = Path(place) / "memory" / "users" / user / "items"
    return sorted(
        json.loads(line)["content"] for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()
    )


def test_job_mirrors_items_after_records_changed(store_url: str, tmp_path: Path, clock: FakeClock) -> None:
    place = store_url if is_folder(store_url) else str(tmp_path / "files")
    settings = {"embedding.model": "none", "jobs.worker": False, "notes.folder": place}
    mirrored = place if store_url != ":memory:" else str(tmp_path / "none")
    with Limpet.open(store_url, config=Config.load(overrides=settings), clock=clock) as memory:
        dog = memory.remember("The dog is Biscuit", user="alice")
        memory.remember("Feed the hens", user="alice", layer="procedural", type="command_result")
        memory.remember("It rained", user="bob", layer="episodic", type="note")
        memory.jobs.run()
        clock.advance(minutes=6)
        memory.jobs.run()
        there = ["Feed the hens", "The dog is Biscuit"] if store_url != ":memory:" else []
        assert _items_of(mirrored) == there
        assert _items_of(mirrored, "bob") == (["It rained"] if there else [])
        if not there:
            return
        day = Path(place, "memory", "users", "bob", "items", "episodic", f"{clock.now.date()}.jsonl")
        untouched = day.stat().st_mtime_ns
        memory.records.update(dog.id, content="The dog is Crumb")
        memory.recall("rained", user="bob")
        clock.advance(minutes=6)
        memory.jobs.run()
        assert _items_of(place) == ["Feed the hens", "The dog is Crumb"]
        assert day.stat().st_mtime_ns == untouched, "nothing of bob's changed"
        memory.forget(dog.id)
        assert _items_of(place) == ["Feed the hens"], "what is forgotten does not wait for the job"


def test_items_are_not_mirrored_where_settings_say_so(data: str, clock: FakeClock) -> None:
    config = Config.load(overrides={"embedding.model": "none", "jobs.worker": False, "notes.items": False})
    with Limpet.open(data, config=config, clock=clock) as memory:
        memory.remember("The dog is Biscuit", user="alice")
        for _ in range(2):
            memory.jobs.run()
            clock.advance(minutes=6)
        assert _items_of(data) == []


def test_job_writes_items_of_a_store_that_was_restored(data: str, tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(data, config=PLAIN, clock=clock) as memory:
        memory.remember("The dog is Biscuit", user="alice")
        memory.jobs.run()
        clock.advance(minutes=6)
        memory.jobs.run()
        assert _items_of(data) == ["The dog is Biscuit"]
        memory.admin.backup(tmp_path / "backup.db")
    other = str(tmp_path / "other")
    with Limpet.open(other, config=PLAIN, clock=clock) as memory:
        memory.admin.restore(tmp_path / "backup.db")
        clock.advance(minutes=6)
        memory.jobs.run()
        assert _items_of(other) == ["The dog is Biscuit"]


@pytest.mark.postgres
def test_postgres_refuses_folder_with_files_of_another_store(postgres_url: str, tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "other") as other:
        other.notes.long_term(user="alice").write("- of another store\n")
    with pytest.raises(ConfigError, match="files of another store"):
        _with_folder(postgres_url, tmp_path / "other")
    first, second = tmp_path / "first", tmp_path / "second"
    with _with_folder(postgres_url, first) as memory:
        memory.notes.long_term(user="alice").write("- keeps bees\n")
    with _with_folder(postgres_url, second) as memory:  # an empty one takes its place, and has all files
        path = memory.notes.long_term(user="alice").path
        assert path is not None
        assert path.read_text() == "- keeps bees\n"
        memory.notes.long_term(user="alice").append("- likes tea")
    with pytest.raises(ConfigError, match="before it got another"):
        _with_folder(postgres_url, first)


def test_person_who_saves_while_the_agent_works_has_no_conflict(data: str, clock: FakeClock) -> None:
    with Limpet.open(data, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        with memory.session("t", "1", user="alice").turn("hello") as turn:
            edit(data, "2026-03-10.md", f"{files_of(data)['2026-03-10.md']}by hand\n")
            turn.reply("Hello, Alice.")
        assert files_of(data)["2026-03-10.md"] == stored(memory)["2026-03-10.md"]
        assert "by hand" in files_of(data)["2026-03-10.md"].splitlines()[-2]
        assert "Hello, Alice." in files_of(data)["2026-03-10.md"].splitlines()[-1]
        assert list(Path(data).rglob("*.conflict")) == []
