from __future__ import annotations

import io
import json
import sqlite3
import sys

import pytest

from limpet.cli.show import ProgressLine

SNAPSHOT = [
    {
        "id": "telegram:7",
        "colour": "green",
        "messages": [
            {"role": "user", "content": "The kiln is hot", "created_at": "2026-01-05T10:00:00Z"},
            {"role": "assistant", "content": "Mind your sleeves", "created_at": "2026-01-05T10:01:00Z"},
        ],
    }
]


@pytest.fixture
def snapshot(tmp_path):
    file = tmp_path / "export.json"
    file.write_text(json.dumps(SNAPSHOT))
    return str(file)


# Import


def test_import_reports_imported_sessions_and_skipped_fields(run, snapshot):
    done = run("import", snapshot)
    assert done.status == 0
    assert done.out.splitlines() == [
        f"Imported 1 session, 2 messages from {snapshot} (sessions.json).",
        "Learning from 1 session runs later: limpet serve does it, or limpet learn --session ID now.",
        "Skipped:",
        "  export.json: session field 'colour'",
    ]
    [hit] = run("recall", "kiln", "--user", "telegram:7", "--json").json
    assert hit["source"]["created_at"] == "2026-01-05T10:00:00+00:00"


def test_import_of_same_file_twice_imports_nothing(run, snapshot):
    assert run("import", snapshot, "--format", "sessions.json", "--json").json["sessions"] == 1
    again = run("import", snapshot, "--json").json
    assert (again["format"], again["sessions"], again["skipped"], again["already"]) == ("sessions.json", 0, [], True)
    assert "imported before" in run("import", snapshot).out


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (b"# Notes\n", [], "unsupported"),
        (b"", [], "unsupported"),
        (b"\x00\x01", [], "unsupported"),
        (b"# Notes\n", ["--format", "sessions.json"], "invalid_input"),
        (b"[{", [], "invalid_input"),
        (b'[{"id": "a:b", "messages": [{"role": "wizard", "content": "x"}]}]', [], "invalid_input"),
    ],
)
def test_import_of_unsupported_file_leaves_store_empty(run, tmp_path, content, options, code):
    file = tmp_path / "odd"
    file.write_bytes(content)
    done = run("import", str(file), *options, "--json")
    assert (done.status, done.error["code"]) == (1, code)
    assert run("sessions", "--json").json == []


def test_import_of_missing_file_or_folder_fails(run, tmp_path):
    assert "No such file" in run("import", str(tmp_path / "none.json")).err
    assert run("import", str(tmp_path)).status == 1


# Backup


def test_backup_opens_as_a_store(run, talk, tmp_path):
    file = str(tmp_path / "copies" / "monday.db")
    done = run("backup", file)
    assert done.status == 0
    assert done.out.splitlines()[1] == f"Look inside: limpet --data {file} sessions"
    assert run("sessions", "--json", "--data", file).out == run("sessions", "--json").out


def test_backup_lists_files_it_does_not_contain(run, talk, data, tmp_path):
    assert run("backup", str(tmp_path / "0.db"), "--json").json["not_in_it"] == []
    folder = data / "sessions"
    (folder / talk).mkdir(parents=True)
    assert run("backup", str(tmp_path / "1.db"), "--json").json["not_in_it"] == [str(folder)]
    assert run("backup", str(tmp_path / "2.db")).out.splitlines()[-1] == (
        f"Files of sessions are not in it: copy {folder} too."
    )
    assert str(folder) in run("copy", str(data), str(tmp_path / "second")).out.splitlines()[-1]


def test_copy_and_backup_carry_notes_with_what_a_person_edited(run, talk, data, tmp_path):
    run("notes", "memory", "--user", "ann", "--edit", "Keeps bees")
    (data / "memory" / "users" / "ann" / "MEMORY.md").write_text("Keeps goats\n")
    assert run("copy", str(data), str(tmp_path / "second")).status == 0
    assert run("backup", str(tmp_path / "1.db")).status == 0
    assert (tmp_path / "second" / "memory" / "users" / "ann" / "MEMORY.md").read_text() == "Keeps goats\n"
    for place in (tmp_path / "second", tmp_path / "1.db"):
        assert run("notes", "memory", "--user", "ann", "--data", str(place)).out == "Keeps goats\n"


def test_backup_refuses_to_overwrite_existing_file(run, talk, tmp_path):
    (tmp_path / "there.db").write_text("precious")
    done = run("backup", "there.db", "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")
    assert (tmp_path / "there.db").read_text() == "precious"


# Copy


def test_copy_writes_equal_store_and_refuses_nonempty_target(run, talk, data, tmp_path):
    run("remember", "with a tag", "--user", "ana", "--tag", "t")
    done = run("copy", str(data), str(tmp_path / "second"))
    assert done.status == 0
    assert done.out.startswith("Copied ")
    for command in (["sessions"], ["records"], ["recall", "heron", "--user", "ana"], ["sessions", "show", talk]):
        there = run(*command, "--json", "--data", str(tmp_path / "second"))
        assert there.out == run(*command, "--json").out
    assert run("doctor", "--data", str(tmp_path / "second")).status == 0
    assert "not empty" in run("copy", str(data), str(tmp_path / "second")).err


def test_copy_reports_row_counts(run, talk, data, tmp_path):
    rows = run("copy", str(data), str(tmp_path / "second"), "--json").json["rows"]
    assert (rows["sessions"], rows["messages"]) == (1, 3)


@pytest.mark.postgres
def test_copy_to_postgres_and_back_keeps_data(run, talk, data, tmp_path, postgres_url):
    run("remember", "with a tag", "--user", "ana", "--tag", "t")
    run("notes", "memory", "--user", "ana", "--edit", "Keeps bees")
    assert run("copy", str(data), postgres_url).status == 0
    assert run("copy", postgres_url, str(tmp_path / "back")).status == 0
    for place in (postgres_url, str(tmp_path / "back")):
        assert run("doctor", "--data", place).status == 0
        for command in (["sessions"], ["records"], ["recall", "heron", "--user", "ana"], ["sessions", "show", talk]):
            assert run(*command, "--json", "--data", place).out == run(*command, "--json").out
        assert run("notes", "memory", "--user", "ana", "--data", place).out == "Keeps bees\n"
        assert run("notes", "memory", "--user", "ana", "--append", "and goats", "--data", place).status == 0
        assert run("notes", "memory", "--user", "ana", "--data", place).out == "Keeps bees\nand goats\n"
    exported = run("notes", "export", "--user", "ana", "--data", postgres_url)
    assert (exported.status, "no folder" in exported.out) == (0, True)
    assert run("backup", str(tmp_path / "b.db"), "--data", postgres_url).status == 0
    assert run("sessions", "--json", "--data", str(tmp_path / "b.db")).out == run("sessions", "--json").out


@pytest.mark.parametrize(
    ("source", "target"),
    [("none", "second"), (":memory:", "second"), ("data", ":memory:"), ("data", ""), ("", "second"), ("data", "x://y")],
)
def test_copy_refuses_invalid_source_or_target(run, talk, source, target, tmp_path):
    done = run("copy", source, target, "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")
    assert not (tmp_path / "second").exists()


# Doctor


def test_doctor_reports_healthy_store(run, talk):
    done = run("doctor")
    assert (done.status, done.err) == (0, "")
    assert all(line.startswith("ok        ") for line in done.out.splitlines())


def test_doctor_reports_and_repairs_wrong_message_count(run, talk, data):
    raw = sqlite3.connect(data / "limpet.db")
    raw.execute("UPDATE sessions SET message_count = 99")
    raw.commit()
    raw.close()
    sick = run("doctor")
    assert sick.status == 1
    assert "FAULT     sessions: " in sick.out
    assert sick.err == "limpet: 1 fault found; try limpet doctor --repair, else restore a backup\n"
    as_json = run("doctor", "--json")
    assert as_json.json["ok"] is False
    assert as_json.error["code"] == "faults_remain"
    treated = run("doctor", "--repair")
    assert treated.status == 0
    assert "repaired  sessions: " in treated.out
    assert run("doctor").status == 0


def test_doctor_reports_fault_it_cannot_repair(run, talk, data):
    raw = sqlite3.connect(data / "limpet.db")
    raw.execute(
        "INSERT INTO summaries SELECT bucket, partition_id, id, 'x', 1, 50, 50, 0, 0, 0 FROM sessions WHERE id = ?",
        [talk],
    )
    raw.commit()
    raw.close()
    done = run("doctor", "--repair")
    assert done.status == 1
    assert "restore a backup" in done.err


def test_doctor_reports_non_database_file_as_corrupt(run, data):
    data.mkdir()
    (data / "limpet.db").write_bytes(b"not a database, " * 100)
    done = run("doctor", "--json")
    assert (done.status, done.error["code"]) == (1, "store_corrupt")


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_line_is_drawn_and_erased_on_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressLine() as progress:
        progress("messages", 500, 1000)
        progress("messages", 1000, 1000)
    assert "\rmessages: 500 of 1,000 50 %" in screen.getvalue()
    assert screen.getvalue().endswith("\r")
    assert screen.getvalue().split("\r")[-2].strip() == ""


def test_progress_line_is_silent_without_terminal(capsys):
    with ProgressLine() as progress:
        progress("messages", 1, 0)
    assert capsys.readouterr().err == ""


def test_backup_interrupted_leaves_no_file(run, talk, monkeypatch, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "__call__", interrupt)
    done = run("backup", "half.db")
    assert (done.status, done.err) == (130, "limpet: interrupted\n")
    assert not list(tmp_path.glob("half.db*"))
    assert run("doctor").status == 0
