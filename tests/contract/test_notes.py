"""MEMORY.md and daily notes are in the store on every backend. A store with a folder has them as files, too."""

from __future__ import annotations

import json
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.errors import WrongState
from limpet.model.chunk import SourceKind
from limpet.model.note import compute_version
from limpet.store.copy import copy_store
from limpet.testing import FakeClock
from tests.contract.rows import faults, sql

pytestmark = pytest.mark.every_backend

PLAIN = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})
NOTES = "# Alice\n\n- keeps bees in Porto\n- speaks Portuguese\n"


def files_of(place: str, user: str = "alice") -> dict[str, str]:
    folder = Path(place) / "memory" / "users" / user
    return {path.name: path.read_text() for path in folder.glob("*.md")}


def is_folder(place: str) -> bool:
    return place != ":memory:" and "://" not in place


def fill(memory: Limpet, clock: FakeClock) -> None:
    memory.notes.long_term("alice").write(NOTES)
    memory.notes.add_turn("alice", "The heron is back", "Third year in a row!", at=clock.now)
    memory.notes.add_turn("alice", "before", "", at=clock.now - timedelta(days=1))


def read_all(memory: Limpet, clock: FakeClock, user: str = "alice") -> list[str]:
    days = [memory.notes.day(user, clock.now.date() - timedelta(days=back)) for back in (0, 1)]
    return [memory.notes.long_term(user).read(), *days]


ALL = [NOTES, "[12:00] User: The heron is back | Assistant: Third year in a row!\n", "[12:00] User: before\n"]


def test_notes_are_written_and_read(timed: Limpet, clock: FakeClock) -> None:
    notes = timed.notes.long_term("alice")
    assert notes.read() == timed.notes.day("alice") == ""
    fill(timed, clock)
    assert read_all(timed, clock) == ALL
    assert notes.append("- likes tea").text == f"{NOTES}- likes tea\n"
    assert timed.notes.long_term("bob").read() == timed.notes.day("bob") == ""


def test_notes_outlive_the_process(durable_url: str, clock: FakeClock) -> None:
    with Limpet.open(durable_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
    with Limpet.open(durable_url, clock=clock, config=PLAIN) as memory:
        assert read_all(memory, clock) == ALL


def test_notes_are_mirrored_to_private_files_where_there_is_a_folder(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        path = memory.notes.long_term("alice").path
        if not is_folder(store_url):
            assert path is None
            return
        assert path is not None
        assert files_of(store_url) == dict(zip(("MEMORY.md", "2026-03-10.md", "2026-03-09.md"), ALL, strict=True))
        assert {oct(file.stat().st_mode & 0o777) for file in path.parent.glob("*.md")} == {"0o600"}


def test_write_of_an_older_version_is_refused(memory: Limpet) -> None:
    notes = memory.notes.long_term("alice")
    notes.write("one\n")
    version = compute_version("one\n")
    assert memory.notes.long_term("alice").write("two\n", version=version).text == "two\n"
    with pytest.raises(WrongState, match="read it again"):
        memory.notes.long_term("alice").write("three\n", version=version)
    assert notes.read() == "two\n"


def test_edits_that_fit_together_are_joined(memory: Limpet) -> None:
    one, two = memory.notes.long_term("alice"), memory.notes.long_term("alice")
    one.write("- a\n")
    two.read()
    one.write("- a\n- b\n")
    assert two.write("- a\n- c\n").text == "- a\n- b\n- c\n"


def test_edits_that_do_not_fit_together_lose_nothing(store_url: str) -> None:
    with Limpet.open(store_url, config=PLAIN) as memory:
        one, two = memory.notes.long_term("alice"), memory.notes.long_term("alice")
        one.write("- a\n")
        two.read()
        one.write("- b\n")
        if is_folder(store_url):
            copy = two.write("- c\n").conflict
            assert copy is not None
            assert copy.read_text() == "- c\n"
        else:
            with pytest.raises(WrongState, match="read it again"):
                two.write("- c\n")
        assert one.read() == "- b\n"


def test_simultaneous_appends_lose_no_line(memory: Limpet) -> None:
    def work(number: int) -> None:
        for at in range(10):
            memory.notes.long_term("alice").append(f"- {number} wrote {at}")
            memory.notes.add_turn("alice", f"{number} said {at}", "", at=datetime(2026, 3, 10, 9, 0, tzinfo=UTC))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(number, at) for number in range(4) for at in range(10)]
    lines = memory.notes.long_term("alice").read().splitlines()
    assert sorted(lines) == sorted(f"- {number} wrote {at}" for number, at in pairs)
    lines = memory.notes.day("alice", date(2026, 3, 10)).splitlines()
    assert sorted(lines) == sorted(f"[09:00] User: {number} said {at}" for number, at in pairs)


def test_context_and_recall_show_notes(timed: Limpet, clock: FakeClock) -> None:
    timed.notes.long_term("alice").write(NOTES)
    context = timed.session("t", "1", user="alice").context("hello")
    assert "speaks Portuguese" in context.text
    [hit] = timed.recall("Where are the bees?", user="alice")
    assert (hit.text, hit.source.kind, hit.source.uri) == ("- keeps bees in Porto", SourceKind.DOCUMENT, "MEMORY.md")
    assert timed.recall("Where are the bees?", user="bob") == []


def test_turn_adds_its_line_to_the_notes_of_the_day(timed: Limpet) -> None:
    with timed.session("t", "1", user="alice").turn("Is the door locked?") as turn:
        turn.reply("It is.")
    assert timed.notes.day("alice") == "[12:00] User: Is the door locked? | Assistant: It is.\n"


def test_deleted_session_takes_its_lines_along(timed: Limpet) -> None:
    session = timed.session("t", "1", user="alice")
    with session.turn("Is the door locked?") as turn:
        turn.reply("It is.")
    timed.notes.add_turn("alice", "kept", "")
    assert session.delete()["note lines"] == 1
    assert timed.notes.day("alice") == "[12:00] User: kept\n"


def test_forget_names_and_removes_what_notes_say(timed: Limpet) -> None:
    home = timed.remember("Alice lives in Porto", user="alice")
    timed.notes.long_term("alice").write("- tea\n- Alice lives in Porto\n")
    timed.notes.add_turn("alice", "I heard: Alice lives in Porto. I like tea.", "Porto is nice.")
    looked = timed.forget(home.id, dry_run=True)
    assert {"MEMORY.md", "the notes of 2026-03-10"} <= set(looked.left)
    assert "Porto" in timed.notes.day("alice")
    timed.forget(home.id, everywhere=True)
    assert timed.notes.long_term("alice").read() == "- tea\n"
    assert "lives in Porto" not in timed.notes.day("alice")
    assert "I like tea." in timed.notes.day("alice")


def test_retention_removes_notes_of_old_days_and_keeps_memory(store_url: str, clock: FakeClock) -> None:
    config = Config.load(overrides={"retention.notes_days": 7, "jobs.worker": False})
    with Limpet.open(store_url, clock=clock, config=config) as memory:
        fill(memory, clock)
        clock.advance(days=8)
        memory.notes.add_turn("alice", "today", "")
        [found] = [each for each in memory.privacy.retention(dry_run=True) if each.agent is None]
        assert found.counts == {"notes": 2}
        assert read_all(memory, FakeClock(clock.now - timedelta(days=8))) == ALL
        memory.privacy.retention()
        assert read_all(memory, FakeClock(clock.now - timedelta(days=8))) == [NOTES, "", ""]
        assert memory.notes.day("alice") == "[12:00] User: today\n"
        if is_folder(store_url):
            assert set(files_of(store_url)) == {"MEMORY.md", "2026-03-18.md"}


@pytest.mark.parametrize("everything", [False, True])
def test_purge_of_what_is_older_takes_notes(store_url: str, clock: FakeClock, everything: bool) -> None:
    with Limpet.open(store_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        clock.advance(days=3)
        memory.notes.add_turn("alice", "today", "")
        looked = memory.privacy.purge_older("alice", days=1, everything=everything, dry_run=True)
        done = memory.privacy.purge_older("alice", days=1, everything=everything)
        assert done.verified
        assert looked.counts["notes"] == done.counts["notes"] == (3 if everything else 2)
        before = FakeClock(clock.now - timedelta(days=3))
        assert read_all(memory, before) == ["" if everything else NOTES, "", ""]
        assert memory.notes.day("alice") == "[12:00] User: today\n"


def test_purged_user_leaves_no_note(store_url: str, clock: FakeClock) -> None:
    with Limpet.open(store_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        memory.notes.long_term("bob").write("- stays\n")
        done = memory.privacy.purge_user("alice")
        assert done.verified
        assert done.counts["notes"] == 3
        assert read_all(memory, clock) == ["", "", ""]
        assert memory.notes.long_term("bob").read() == "- stays\n"
        assert len(sql(memory, "SELECT name FROM notes")) == 1
        if is_folder(store_url):
            assert list((Path(store_url) / "memory" / "users").iterdir()) == [
                Path(store_url) / "memory" / "users" / "bob"
            ]


def test_export_and_import_carry_notes(store_url: str, clock: FakeClock, tmp_path: Path) -> None:
    with Limpet.open(store_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        if is_folder(store_url):  # edited by a person, and met by no call yet
            file = Path(store_url) / "memory" / "users" / "alice" / "2026-03-09.md"
            file.write_text("[12:00] User: before\nby hand\n")
        memory.transfer.export(tmp_path / "export", "alice")
        here = read_all(memory, clock)
        memory.privacy.purge_user("alice")
        done = memory.transfer.import_(tmp_path / "export")
        assert (done.notes, done.left_out) == (3, 0)
        assert read_all(memory, clock) == here
        if is_folder(store_url):
            assert "by hand" in files_of(store_url)["2026-03-09.md"]
        assert memory.transfer.import_(tmp_path / "export").already
    lines = [json.loads(line) for line in (tmp_path / "export" / "data" / "notes.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == ["2026-03-09.md", "2026-03-10.md", "MEMORY.md"]
    assert set(lines[0]) == {"level", "owner", "name", "text", "updated_at"}


def test_backup_and_restore_carry_notes(durable_url: str, clock: FakeClock, tmp_path: Path) -> None:
    with Limpet.open(durable_url, clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        memory.admin.backup(str(tmp_path / "backup.db"))
    with Limpet.open(tmp_path / "fresh", clock=clock, config=PLAIN) as memory:
        memory.admin.restore(str(tmp_path / "backup.db"))
        assert read_all(memory, clock) == ALL
        assert set(files_of(str(tmp_path / "fresh"))) == {"MEMORY.md", "2026-03-09.md", "2026-03-10.md"}


@pytest.mark.postgres
def test_copy_carries_notes_to_postgres_and_back(postgres_url: str, clock: FakeClock, tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "one", clock=clock, config=PLAIN) as memory:
        fill(memory, clock)
        with Limpet.open(postgres_url, clock=clock, config=PLAIN) as server:
            copy_store(memory._runtime.store, server._runtime.store)
            assert read_all(server, clock) == ALL
            server.notes.long_term("alice").append("- likes tea")
            with Limpet.open(tmp_path / "two", clock=clock, config=PLAIN) as back:
                copy_store(server._runtime.store, back._runtime.store)
                back._runtime.notes.write_files()
                assert read_all(back, clock) == [f"{NOTES}- likes tea\n", *ALL[1:]]
                assert files_of(str(tmp_path / "two"))["MEMORY.md"] == f"{NOTES}- likes tea\n"
                assert faults(back) == []
