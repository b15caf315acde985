from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from limpet import Limpet


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A store with notes of a day, and of today; also of tomorrow, should it begin meanwhile."""
    with Limpet.open(tmp_path / "data") as memory:
        memory.notes.add_turn("ana", "the heron\x1b[2J", "is back", at=datetime(2026, 3, 10, 9, 30, tzinfo=UTC))
        for at in (datetime.now(UTC), datetime.now(UTC) + timedelta(days=1)):
            memory.notes.add_turn("ana", "now", "", at=at)
        memory.remember("the heron eats frogs", user="ana")
    return tmp_path / "data"


def test_notes_show_prints_notes_of_a_day(run, data):
    shown = run("notes", "show", "--user", "ana", "--day", "2026-03-10")
    assert shown.out == "[09:30] User: the heron [2J | Assistant: is back\n"
    assert run("notes", "--user", "ana", "--day", "2026-03-10").out == shown.out
    assert run("notes", "--user", "ana", "show", "--day", "2026-03-10").out == shown.out
    assert "User: now" in run("notes", "show", "--user", "ana").out
    assert run("notes", "show", "--user", "ana", "--day", "2026-01-01").out == "No notes of 2026-01-01.\n"
    found = run("notes", "show", "--user", "ana", "--day", "2026-03-10", "--json").json
    assert found == {"user": "ana", "day": "2026-03-10", "text": "[09:30] User: the heron [2J | Assistant: is back\n"}


def test_notes_show_requires_user_and_valid_day(run, data):
    assert run("notes", "show", "--day", "2026-03-10", "--json").json["user"] == "me"
    tomorrow = run("notes", "show", "--user", "ana", "--day", "tomorrow")
    assert tomorrow.status == 2
    assert "not a day" in tomorrow.err


def test_notes_memory_shows_replaces_and_appends(run, data):
    assert run("notes", "memory", "--user", "ana").out == "MEMORY.md is empty.\n"
    assert run("notes", "memory", "--user", "ana", "--edit", "# Ana").out == "# Ana\n"
    assert run("notes", "memory", "--user", "ana", "--append", "keeps bees").out == "# Ana\nkeeps bees\n"
    file = data / "memory" / "users" / "ana" / "MEMORY.md"
    file.write_text("by hand\n")
    assert run("notes", "memory", "--user", "ana").out == "by hand\n"
    assert run("notes", "memory", "--user", "ana", "--edit", "-", piped=b"from the input\n").out == "from the input\n"
    assert run("notes", "memory", "--user", "ana", "--json").json == {
        "user": "ana",
        "file": str(file),
        "text": "from the input\n",
        "conflict": None,
    }
    both = run("notes", "memory", "--user", "ana", "--edit", "a", "--append", "b")
    assert both.status == 2
    assert "not allowed with" in both.err


def test_notes_create_a_store_only_on_write(run, tmp_path):
    for verb in ("memory", "show", "export", "import"):
        refused = run("notes", verb, "--user", "ana")
        assert refused.status == 1
        assert "there is no store" in refused.err
    assert not (tmp_path / "data").exists()
    run("notes", "memory", "--user", "ana", "--edit", "x")
    assert (tmp_path / "data" / "memory" / "users" / "ana" / "MEMORY.md").read_text() == "x\n"


def test_notes_export_and_import_items(run, data):
    folder = data / "memory" / "users" / "ana" / "items"
    assert run("notes", "export", "--user", "ana").out == f"1 record in {folder}.\n"
    file = folder / "semantic.jsonl"
    file.write_text(file.read_text().replace("frogs", "fish") + '{"content": "by hand"}\nbroken\n')
    assert run("notes", "export", "--user", "ana", "--json").json["waiting"] == 2
    done = run("notes", "import", "--user", "ana")
    assert done.out.splitlines()[0] == "1 added, 1 changed, 0 removed."
    assert done.out.splitlines()[1].startswith("semantic.jsonl:3: it is not JSON")
    assert run("recall", "fish", "--user", "ana").out


def test_notes_import_asks_before_deleting_missing_items(run, data):
    run("notes", "export", "--user", "ana")
    (data / "memory" / "users" / "ana" / "items" / "semantic.jsonl").unlink()
    importing = ("notes", "import", "--user", "ana", "--delete-missing")
    refused = run(*importing, typed="n\n")
    assert refused.status == 1
    assert len(json.loads(run("records", "--user", "ana", "--json").out)) == 1
    assert run(*importing, "--json").json == {
        "added": 0,
        "changed": 0,
        "removed": 1,
        "conflicts": 0,
        "problems": [],
        "has_folder": True,
    }
    assert json.loads(run("records", "--user", "ana", "--json").out) == []
