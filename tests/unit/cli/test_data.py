from __future__ import annotations

import io
import json
import sqlite3
import sys

import pytest

from limpet.cli.ask import ProgressLine

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


def test_importing_sessions(run, snapshot):
    done = run("import", snapshot)
    assert done.status == 0
    assert done.out.splitlines() == [
        f"Imported 1 session, 2 messages from {snapshot} (sessions.json).",
        "Skipped:",
        "  export.json: session field 'colour'",
    ]
    [hit] = run("recall", "kiln", "--user", "telegram:7", "--json").json
    assert hit["source"]["created_at"] == "2026-01-05T10:00:00+00:00"


def test_importing_the_same_again(run, snapshot):
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
def test_what_cannot_be_imported_leaves_nothing_behind(run, tmp_path, content, options, code):
    file = tmp_path / "odd"
    file.write_bytes(content)
    done = run("import", str(file), *options, "--json")
    assert (done.status, done.error["code"]) == (1, code)
    assert run("sessions", "--json").json == []


def test_importing_what_is_no_file(run, tmp_path):
    assert "No such file" in run("import", str(tmp_path / "none.json")).err
    assert run("import", str(tmp_path)).status == 1


# Backup


def test_a_backup_can_be_opened(run, talk, tmp_path):
    file = str(tmp_path / "copies" / "monday.db")
    done = run("backup", file)
    assert done.status == 0
    assert done.out.splitlines()[1] == f"Look inside: limpet --data {file} sessions"
    assert run("sessions", "--json", "--data", file).out == run("sessions", "--json").out


def test_a_backup_says_which_files_are_not_in_it(run, talk, data, tmp_path):
    assert run("backup", str(tmp_path / "0.db"), "--json").json["not_in_it"] == []
    run("notes", "memory", "--user", "ann", "--edit", "Keeps bees")
    notes = str(data / "memory")
    assert run("backup", str(tmp_path / "1.db"), "--json").json["not_in_it"] == [notes]
    assert run("backup", str(tmp_path / "2.db")).out.splitlines()[-1] == (
        f"Notes and other files are not in it: copy {notes} too."
    )
    assert notes in run("copy", str(data), str(tmp_path / "second")).out.splitlines()[-1]


def test_a_backup_never_overwrites(run, talk, tmp_path):
    (tmp_path / "there.db").write_text("precious")
    done = run("backup", "there.db", "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")
    assert (tmp_path / "there.db").read_text() == "precious"


# Copy


def test_copying_a_store(run, talk, data, tmp_path):
    run("remember", "with a tag", "--user", "ana", "--tag", "t")
    done = run("copy", str(data), str(tmp_path / "second"))
    assert done.status == 0
    assert done.out.startswith("Copied ")
    for command in (["sessions"], ["records"], ["recall", "heron", "--user", "ana"], ["sessions", "show", talk]):
        there = run(*command, "--json", "--data", str(tmp_path / "second"))
        assert there.out == run(*command, "--json").out
    assert run("doctor", "--data", str(tmp_path / "second")).status == 0
    assert "not empty" in run("copy", str(data), str(tmp_path / "second")).err


def test_rows_are_counted(run, talk, data, tmp_path):
    rows = run("copy", str(data), str(tmp_path / "second"), "--json").json["rows"]
    assert (rows["sessions"], rows["messages"]) == (1, 3)


@pytest.mark.postgres
def test_there_and_back_through_postgres(run, talk, data, tmp_path, postgres_url):
    run("remember", "with a tag", "--user", "ana", "--tag", "t")
    assert run("copy", str(data), postgres_url).status == 0
    assert run("copy", postgres_url, str(tmp_path / "back")).status == 0
    for place in (postgres_url, str(tmp_path / "back")):
        assert run("doctor", "--data", place).status == 0
        for command in (["sessions"], ["records"], ["recall", "heron", "--user", "ana"], ["sessions", "show", talk]):
            assert run(*command, "--json", "--data", place).out == run(*command, "--json").out
    assert run("backup", str(tmp_path / "b.db"), "--data", postgres_url).status == 0
    assert run("sessions", "--json", "--data", str(tmp_path / "b.db")).out == run("sessions", "--json").out


@pytest.mark.parametrize(
    ("source", "target"),
    [("none", "second"), (":memory:", "second"), ("data", ":memory:"), ("data", ""), ("", "second"), ("data", "x://y")],
)
def test_a_copy_that_cannot_be(run, talk, source, target, tmp_path):
    done = run("copy", source, target, "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")
    assert not (tmp_path / "second").exists()


# Doctor


def test_a_healthy_store(run, talk):
    done = run("doctor")
    assert (done.status, done.err) == (0, "")
    assert all(line.startswith("ok        ") for line in done.out.splitlines())


def test_a_fault_is_found_repaired_and_gone(run, talk, data):
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


def test_a_fault_that_cannot_be_repaired(run, talk, data):
    raw = sqlite3.connect(data / "limpet.db")
    raw.execute(
        "INSERT INTO summaries SELECT bucket, partition_id, id, 'x', 1, 50, 50, 0 FROM sessions WHERE id = ?", [talk]
    )
    raw.commit()
    raw.close()
    done = run("doctor", "--repair")
    assert done.status == 1
    assert "restore a backup" in done.err


def test_a_file_that_is_no_database(run, data):
    data.mkdir()
    (data / "limpet.db").write_bytes(b"not a database, " * 100)
    done = run("doctor", "--json")
    assert (done.status, done.error["code"]) == (1, "store_corrupt")


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_wiped(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = ProgressLine()
    progress("messages", 500, 1000)
    progress("messages", 1000, 1000)
    progress.end()
    assert "\rmessages: 500 of 1,000 50 %" in screen.getvalue()
    assert screen.getvalue().endswith("\r")
    assert screen.getvalue().split("\r")[-2].strip() == ""


def test_progress_is_silent_elsewhere(capsys):
    progress = ProgressLine()
    progress("messages", 1, 0)
    progress.end()
    assert capsys.readouterr().err == ""


def test_an_interrupted_backup_leaves_no_file(run, talk, monkeypatch, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "__call__", interrupt)
    done = run("backup", "half.db")
    assert (done.status, done.err) == (130, "limpet: interrupted\n")
    assert not list(tmp_path.glob("half.db*"))
    assert run("doctor").status == 0
