from __future__ import annotations

import sys
from pathlib import Path

import pytest

from limpet import Limpet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents, a picture, and a hidden file."""
    place = tmp_path / "files"
    place.mkdir()
    (place / "pond.md").write_text("# The pond\n\nThe heron is back.\n\n## Frogs\n\nThey sing.\n")
    (place / "walrus.py").write_text("def walrus():\n    return 1\n")
    (place / "picture.png").write_bytes(b"\x89PNG\x00")
    (place / ".hidden.txt").write_text("nothing")
    return place


def test_documents_add_reports_added_unchanged_and_changed_file(run, folder):
    file = folder / "pond.md"
    add = ("documents", "add", str(file), "--user", "ana")
    assert run(*add).out == f"Added: {file.as_uri()} (2 chunks)\n"
    assert run(*add).out == f"Unchanged: {file.as_uri()} (2 chunks)\n"
    file.write_text("other")
    assert run(*add).out == f"Changed: {file.as_uri()} (1 chunk)\n"


def test_documents_add_folder_skips_non_text_and_hidden_files(run, folder):
    add = ("documents", "add", str(folder), "--user", "ana", "--meta", "set=1")
    done = run(*add)
    assert done.out == "2 documents: 2 added, 0 changed, 0 unchanged; 1 file passed over (--verbose says why).\n"
    assert done.err == ""
    verbose = run(*add, "--verbose")
    assert "0 added, 0 changed, 2 unchanged" in verbose.out
    assert "picture.png is not text" in verbose.err
    assert ".hidden.txt is skipped" in verbose.err
    value = run(*add, "--json").json
    assert value["skipped"] == 1
    assert [document["status"] for document in value["documents"]] == ["unchanged"] * 2
    assert value["documents"][0]["metadata"] == {"set": "1"}


def test_documents_add_warns_once_per_unreadable_file(run, folder):
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "broken.pdf").write_bytes(b"nothing")
    done = run("documents", "add", str(folder), "--user", "ana")
    lines = done.err.splitlines()
    assert [line.rpartition("/")[2].split()[0] for line in lines] == ["broken.pdf", "latin.txt"]
    assert all(line.startswith("limpet: warning: left out: ") for line in lines)
    assert "3 files passed over" in done.out
    alone = run("documents", "add", str(folder / "broken.pdf"), "--user", "ana")
    assert (alone.status, alone.err.count("\n")) == (1, 1)
    assert "broken.pdf is a PDF that cannot be read" in alone.err


def test_documents_add_shows_progress_on_terminal(run, folder, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "documents: 3 of 3 100 %" in run("documents", "add", str(folder), "--user", "ana").err


def test_documents_add_reads_text_from_option_and_stdin(run):
    line = run("documents", "add", "note:1", "--text", "a walrus", "--title", "One", "--user", "ana", "--json").json
    [document] = line["documents"]
    assert (document["uri"], document["title"], document["chunks"]) == ("note:1", "One", 1)
    run("documents", "add", "note:1", "--text", "-", "--user", "ana", piped=b"a gecko\n")
    [hit] = run("recall", "gecko", "--user", "ana", "--kind", "document", "--json").json
    source = hit["source"]
    assert hit["text"] == "a gecko"
    assert (source["kind"], source["id"], source["uri"]) == ("document", document["id"], "note:1")
    assert (source["offset"], source["end_offset"], source["first_sequence"]) == (0, 7, None)
    assert hit["metadata"] == {"uri": "note:1", "title": "One"}


def test_recall_output_names_the_document(run, folder):
    run("documents", "add", str(folder), "--user", "ana")
    uri = (folder / "pond.md").as_uri()
    explained = run("recall", "heron", "--user", "ana", "--explain").out
    assert f"(characters 0 to 30 of {uri})" in explained
    assert "The pond" in run("recall", "heron", "--user", "ana").out
    assert "walrus.py" in run("recall", "walrus", "--user", "ana").out


def test_documents_list_shows_pages_and_owner(run, folder, data):
    with Limpet.open(data):
        pass
    assert run("documents", "--user", "ana").out.startswith("No documents yet. `limpet documents add")
    assert run("documents", "--user", "ana", "--offset", "5").out.startswith("No entries so far down")
    run("documents", "add", str(folder), "--user", "ana")
    listed = run("documents", "--user", "ana")
    assert listed == run("documents", "list", "--user", "ana") == run("documents", "--user", "ana", "list")
    rows = listed.out.splitlines()
    assert rows[0].split() == ["CHANGED", "CHUNKS", "TITLE"]
    assert [row.split()[-2:] for row in rows[1::2]] == [["1", "-"], ["The", "pond"]]
    assert [row.strip() for row in rows[2::2]] == [(folder / name).as_uri() for name in ("walrus.py", "pond.md")]
    assert [entry["status"] for entry in run("documents", "--user", "ana", "--json").json] == [None, None]
    assert run("documents", "--user", "ana", "--limit", "1").out.endswith("1 shown; --offset 1 shows the next.\n")
    assert run("documents", "--user", "bob", "--json").json == []
    assert run("documents", "--global", "--json").json == []


def test_documents_remove_by_path_or_uri(run, folder):
    file = folder / "pond.md"
    run("documents", "add", str(folder), "--user", "ana")
    assert run("documents", "remove", str(file), "--user", "ana").out == f"Removed {file} with 2 chunks.\n"
    gone = run("documents", "remove", (folder / "walrus.py").as_uri(), "--user", "ana", "--json").json
    assert gone["counts"] == {"chunks": 1, "documents": 1}
    done = run("documents", "remove", "note:1", "--user", "ana", "--json")
    assert (done.status, done.error["code"]) == (1, "document_not_found")


def test_documents_remove_asks_for_confirmation(run, folder):
    file = str(folder / "pond.md")
    run("documents", "add", file, "--user", "ana")
    assert run("documents", "remove", file, "--user", "ana", typed="n\n").status == 1
    assert len(run("documents", "--user", "ana", "--json").json) == 1
    assert run("documents", "remove", file, "--user", "ana", "--yes", typed="").status == 0
    assert run("documents", "--user", "ana", "--json").json == []


@pytest.mark.parametrize(
    "words",
    [
        ("add", "note:1", "--text", "x", "--user", "a", "--agent", "b"),
        ("list", "--user", "a", "--global"),
        ("remove", "note:1", "--agent", "a", "--global"),
    ],
)
def test_only_one_owner_is_named(run, words):
    done = run("documents", *words)
    assert done.status == 2
    assert "whose memory this is, and only one: --user U, --agent A or --global" in done.err


def test_without_an_owner_they_are_the_default_user_s(run):
    run("documents", "add", "note:1", "--text", "a walrus")
    assert [each["uri"] for each in run("documents", "--user", "me", "--json").json] == ["note:1"]
    assert run("documents", "text", "note:1").out == "a walrus\n"
    assert run("documents", "remove", "note:1").out == "Removed note:1 with 1 chunk.\n"


def test_documents_add_reports_unreadable_source_in_one_line(run):
    for place, words in (("nowhere.txt", "nowhere.txt cannot be read"), ("https://x/y", "give the document's text")):
        done = run("documents", "add", place, "--user", "ana")
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
        assert words in done.err
    assert run("documents", "remove", "x", "--user", "ana", "--data", "missing").status == 1
