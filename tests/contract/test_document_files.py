"""Documents read from files and folders."""

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Document, Limpet
from limpet.config import DocumentSettings
from limpet.documents.files import read_file
from limpet.errors import InvalidInput, Unsupported
from tests.contract.rows import every_row, faults
from tests.contract.test_documents import ADDED, CHANGED, UNCHANGED, one, put, texts

pytestmark = pytest.mark.every_backend


def many(added: Document | list[Document]) -> list[Document]:
    assert isinstance(added, list)
    return added


def names(documents: list[Document]) -> list[str]:
    return [document.uri.rpartition("/")[2] for document in documents]


# Files


def test_add_document_stores_file_under_file_uri(
    memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path / "files" / "ü b.md", "# The   walrus #\n\nsleeps\n")
    monkeypatch.chdir(file.parent)
    made = one(memory.documents.add("ü b.md", user="alice"))
    assert (made.uri, made.title, made.status) == (file.as_uri(), "The walrus", ADDED)
    for name in (file, str(file), file.as_uri(), f"file://localhost{file.as_uri()[7:]}"):
        assert one(memory.documents.add(name, user="alice")).status is UNCHANGED
    file.write_text("# The gecko\n\nruns\n")
    again = one(memory.documents.add(file, user="alice"))
    assert (again.status, again.title, again.id) == (CHANGED, "The gecko", made.id)


def test_add_document_with_path_and_text_uses_file_uri(memory: Limpet, tmp_path: Path) -> None:
    file = put(tmp_path / "a.txt", "on disk")
    made = one(memory.documents.add(file, "something else", user="alice"))
    assert made.uri == file.as_uri()
    assert texts(memory, "something disk") == ["something else"]
    assert one(memory.documents.add(file, user="alice")).status is CHANGED


def test_add_document_extracts_text_from_html(memory: Limpet, tmp_path: Path) -> None:
    page = "<title>The pond</title><script>walrus()</script><p>Frogs &amp; herons</p>"
    made = one(memory.documents.add(put(tmp_path / "a.html", page), user="alice"))
    assert made.title == "The pond"
    [hit] = memory.recall("frogs", user="alice")
    assert hit.text == "The pond\n\nFrogs & herons"
    assert (hit.source.offset, hit.source.end_offset) == (0, len(hit.text))
    assert texts(memory, "walrus") == []


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.txt", None, InvalidInput, "cannot be read: No such file"),
        ("a.bin", b"\x00\x01", Unsupported, "is not text"),
        ("a.txt", b"text \x00 text" + b"x" * 9000, Unsupported, "is not text"),
        ("a.txt", b"x" * 9000 + b"\x00", Unsupported, "a NUL character at position 9000"),
        ("a.txt", b"caf\xe9", Unsupported, r"not UTF-8 text \(byte 3\)"),
        ("a.html", b"<p>\xff", Unsupported, r"not UTF-8 text \(byte 3\)"),
        ("a.txt", b"\xff\xfea", Unsupported, "not UTF-16"),
        (
            "a.txt",
            b"x" * 100_001,
            InvalidInput,
            r"100,001 bytes .* 100,000 \(documents.max_file_bytes\)",
        ),
        ("a.pdf", b"not a pdf", InvalidInput, "a PDF that cannot be read"),
    ],
)
def test_add_document_rejects_unreadable_file_and_changes_nothing(
    store_url: str, tmp_path: Path, name: str, content: bytes | None, error: type[Exception], words: str
) -> None:
    file = tmp_path / "files" / name if content is None else put(tmp_path / "files" / name, content)
    with Limpet.open(store_url, config=Config(documents=DocumentSettings(max_file_bytes=100_000))) as memory:
        before = every_row(memory)
        with pytest.raises(error, match=words):
            memory.documents.add(file, user="alice")
        assert every_row(memory) == before


def test_add_document_rejects_text_over_size_limit(store_url: str, tmp_path: Path) -> None:
    with Limpet.open(store_url, config=Config(documents=DocumentSettings(max_text_bytes=100))) as memory:
        assert one(memory.documents.add("note:1", "é" * 50, user="alice")).status is ADDED
        before = every_row(memory)
        for text in ("é" * 51, "x" * 101):
            with pytest.raises(InvalidInput, match="bytes long; the limit is 100"):
                memory.documents.add("note:1", text, user="alice")
            with pytest.raises(InvalidInput, match=r"a.txt is .* bytes long; the limit is 100"):
                memory.documents.add(put(tmp_path / "a.txt", text), user="alice")
        assert every_row(memory) == before
        page = f"<script>{'x' * 1000}</script><p>short</p>"
        assert one(memory.documents.add(put(tmp_path / "a.html", page), user="alice")).chunks == 1


def test_add_document_detects_encoding_by_byte_order_mark(memory: Limpet, tmp_path: Path) -> None:
    for name, encoding in (("a", "utf-8"), ("b", "utf-8-sig"), ("c", "utf-16")):
        memory.documents.add(put(tmp_path / f"{name}.txt", "naïve walrus 東京".encode(encoding)), user=name)
        assert texts(memory, "walrus", user=name) == ["naïve walrus 東京"]


def test_add_document_requires_text_for_remote_uri(memory: Limpet) -> None:
    for uri in ("https://example.org/a.md", "note:1", "file://server/a.txt"):
        with pytest.raises(InvalidInput, match="text"):
            memory.documents.add(uri, user="alice")
        assert one(memory.documents.add(uri, "a walrus", user="alice")).uri == uri


def test_add_document_rejects_named_pipe_without_blocking(memory: Limpet, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InvalidInput, match="not a plain file"):
        memory.documents.add(tmp_path / "pipe.txt", user="alice")


# Folders


def test_add_document_adds_every_file_of_folder_in_order(memory: Limpet, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    for name in ("b.md", "a.txt", "sub/c.py", "sub/deeper/README", "z.html"):
        put(folder / name, f"walrus in {name}")
    steps: list[tuple[str, int, int]] = []
    added = many(
        memory.documents.add(folder, user="alice", metadata={"set": "1"}, progress=lambda *at: steps.append(at))
    )
    assert names(added) == ["a.txt", "b.md", "c.py", "README", "z.html"]
    assert {document.status for document in added} == {ADDED}
    assert all(document.metadata == {"set": "1"} for document in added)
    assert steps == [("documents", done, 5) for done in range(1, 6)]
    put(folder / "a.txt", "a gecko")
    again = many(memory.documents.add(str(folder), user="alice"))
    assert [document.status for document in again] == [CHANGED, *[UNCHANGED] * 4]
    assert [document.id for document in again] == [document.id for document in added]
    assert many(memory.documents.add(put(tmp_path / "empty" / ".x").parent, user="alice")) == []


def test_add_document_rejects_title_for_folder(memory: Limpet, tmp_path: Path) -> None:
    put(tmp_path / "files" / "a.txt")
    with pytest.raises(InvalidInput, match="a title belongs to one document"):
        memory.documents.add(tmp_path / "files", user="alice", title="All of them")
    assert memory.documents.list(user="alice") == []


def test_add_document_skips_unsuitable_files_of_folder(
    store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "limpet.documents")
    folder = put(tmp_path / "files" / "good.txt").parent
    put(folder / ".hidden.txt")
    put(folder / ".git" / "config.txt")
    put(folder / "picture.png", b"\x89PNG\r\n\x1a\n\x00\x00")
    put(folder / "latin.txt", b"caf\xe9")
    put(folder / "large.txt", "x" * 2001)
    put(folder / "broken.pdf", b"%PDF-1.4 nothing")
    put(folder / "gone.txt")
    put(folder / ("d" * 200) / ("é" * 100) / ("é" * 100) / ("é" * 100) / ("é" * 100) / "long.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "link.txt").symlink_to(folder / "good.txt")
    (folder / "nowhere.txt").symlink_to(folder / "missing")
    os.mkfifo(folder / "pipe.txt")
    put(tmp_path / "files" / "zz.txt")
    reads = _vanishing(monkeypatch, folder / "gone.txt")
    with Limpet.open(store_url, config=Config(documents=DocumentSettings(max_file_bytes=2000))) as memory:
        assert names(many(memory.documents.add(folder, user="alice"))) == ["good.txt", "zz.txt"]
        assert faults(memory) == []
    assert reads
    own = [record for record in caplog.records if record.name == "limpet.documents"]
    said = {record.getMessage().partition(folder.name + "/")[2]: record.levelname for record in own}
    warned = {text.split()[0] for text, level in said.items() if level == "WARNING"}
    expected = {"latin.txt", "large.txt", "broken.pdf", "gone.txt", "pipe.txt"}
    assert {name for name in warned if "/" not in name} == expected
    assert any("uri is 2," in text for text, level in said.items() if level == "WARNING")
    passed = {text.split()[0] for text, level in said.items() if level == "INFO"}
    assert passed == {".hidden.txt", ".git", "picture.png", "loop", "link.txt", "nowhere.txt"}


def _vanishing(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[str]:
    """The file goes after the folder was listed and before it is read."""
    seen = []

    def late(name: str, *args: Any, **kwargs: Any) -> bytes:
        if name == str(path):
            path.unlink()
            seen.append(name)
        return read_file(name, *args, **kwargs)

    monkeypatch.setattr("limpet.documents.add.read_file", late)
    return seen


def test_add_document_warns_about_files_without_read_permission(
    memory: Limpet, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By refusing as the system would: whoever runs the tests may be allowed everything."""
    folder = put(tmp_path / "files" / "a.txt").parent
    put(folder / "b.txt")
    put(folder / "closed" / "c.txt")
    opening, listing = os.open, os.scandir

    def allowed(path: Any) -> Any:
        if str(path).endswith(("a.txt", "closed")):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return path

    monkeypatch.setattr(os, "open", lambda path, *rest: opening(allowed(path), *rest))
    monkeypatch.setattr(os, "scandir", lambda path: listing(allowed(path)))
    assert names(many(memory.documents.add(folder, user="alice"))) == ["b.txt"]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert caplog.text.count("Permission denied") == 2
    for refused in ("a.txt", "closed"):
        with pytest.raises(InvalidInput, match=f"{refused} cannot be read: Permission denied"):
            memory.documents.add(folder / refused, user="alice")


def test_add_document_walks_very_deep_folder(tmp_path: Path) -> None:
    deep, above = tmp_path / "d", tmp_path / "above"
    put(deep / "a.txt")
    for _ in range(1200):
        above.mkdir()
        deep.rename(above / "d")
        above.rename(deep)
    put(tmp_path / "b.txt")
    try:
        with Limpet.open(":memory:") as memory:
            assert "b.txt" in names(many(memory.documents.add(tmp_path, user="alice")))
    finally:
        while (deep / "d").exists():  # too deep for whoever tidies up after the tests
            (deep / "d").rename(above)
            deep.rmdir()
            above.rename(deep)


def test_add_document_accepts_file_names_of_any_bytes(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    odd = [b"\xff\xfe.txt", b"new\nline.txt", b"\x1b[2J.txt", b" .txt", b"%41#?.txt", "é".encode() + b".txt"]
    for name in odd:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"a walrus " + name.hex().encode())
    with Limpet.open(":memory:") as memory:
        added = many(memory.documents.add(tmp_path, user="alice"))
        assert len({document.uri for document in added}) == len(odd)
        assert all(document.uri.isascii() and document.uri.isprintable() for document in added)
        for document in added:
            assert one(memory.documents.add(document.uri, user="alice")).status is UNCHANGED
