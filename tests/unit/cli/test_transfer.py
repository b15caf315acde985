from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "import"


def test_export_and_import_of_user_round_trip(run, talk, tmp_path):
    run("remember", "Likes tea", "--user", "alice")
    folder = str(tmp_path / "moved")
    done = run("export", folder, "--user", "alice")
    assert done.status == 0
    assert done.out.splitlines()[-2:] == [
        f"Exported 1 record to {folder}.",
        f"To import it elsewhere: limpet import {folder}",
    ]
    other = str(tmp_path / "other")
    taken = run("import", folder, "--data", other)
    assert taken.out.splitlines() == [f"Imported 1 record from {folder} (limpet-export)."]
    assert "imported before" in run("import", folder, "--data", other).out
    again = str(tmp_path / "again")
    assert run("export", again, "--user", "alice", "--data", other).status == 0
    assert (Path(again) / "manifest.json").read_bytes() == (Path(folder) / "manifest.json").read_bytes()


def test_without_an_owner_the_default_user_s_memory_is_exported(run, talk, tmp_path):
    done = run("export", str(tmp_path / "x"), "--user", "alice", "--all")
    assert (done.status, (tmp_path / "x").exists()) == (2, False)
    run("remember", "Likes tea")
    assert run("export", str(tmp_path / "mine"), "--json").json["counts"]["records"] == 1
    assert run("export", str(tmp_path / "x"), "--all", "--json").json["counts"]["sessions"] == 1


def test_export_refuses_to_overwrite_folder(run, talk, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "precious").write_text("x")
    done = run("export", str(tmp_path / "there"), "--all", "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")


def test_export_fails_without_store(run, tmp_path):
    assert "there is no store" in run("export", str(tmp_path / "x"), "--all").err


def test_import_dry_run_stores_nothing(run):
    done = run("import", str(DATA / "chatgpt"), "--user", "nadia", "--dry-run")
    assert done.out.splitlines()[0] == f"Would import 1 session, 5 messages from {DATA / 'chatgpt'} (chatgpt)."
    assert run("sessions", "--json").json == []


def test_import_reports_skipped_entries(run):
    done = run("import", str(DATA / "claude"), "--user", "nadia")
    assert "  users.json: it is about the account, not memory" in done.out.splitlines()
    as_json = run("import", str(DATA / "mem0.json"), "--json").json
    assert (as_json["format"], as_json["records"], as_json["already"]) == ("mem0", 3, False)
    assert {"place": "mem0.json, results[2]", "reason": "it says nothing"} in as_json["skipped"]


def test_import_requires_user_when_file_names_none(run):
    done = run("import", str(DATA / "markdown"))
    assert done.status == 1
    assert "name a user" in done.err


def test_import_rejects_unknown_format(run):
    done = run("import", "x", "--format", "scroll")
    assert done.status == 2
    assert "mcp-memory" in done.err


@pytest.mark.parametrize("content", ["# Only\n", ""])
def test_import_of_single_markdown_file(run, tmp_path, content):
    file = tmp_path / "note.md"
    file.write_text(content)
    done = run("import", str(file), "--user", "nadia", "--json")
    assert (done.json["format"], done.json["documents"]) == ("markdown", int(bool(content)))


def test_import_rejects_modified_export(run, talk, tmp_path):
    folder = tmp_path / "moved"
    run("export", str(folder), "--all")
    file = folder / "data" / "messages.jsonl"
    file.write_bytes(file.read_bytes().replace(b"user", b"tool", 1))
    done = run("import", str(folder), "--data", str(tmp_path / "other"), "--json")
    assert (done.status, done.error["code"]) == (1, "invalid_input")
    assert "data/messages.jsonl" in done.error["message"]
    assert json.loads((folder / "manifest.json").read_text())["format"] == "limpet-export"
