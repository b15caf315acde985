from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Document, Limpet, Message
from limpet.config import ChunkSettings, DocumentSettings
from limpet.documents import add as verb
from limpet.documents.files import read_file
from limpet.documents.repository import Documents
from limpet.errors import DocumentNotFound, InvalidInput, Unsupported
from limpet.model.document import DocumentStatus
from limpet.search.analysis import extract_terms
from limpet.search.catalogue import NO_MESSAGE
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import chunk_document
from limpet.store.copy import copy_store
from limpet.store.tx import Tx
from limpet.testing import FakeClock
from tests.contract.rows import every_row, faults, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

ADDED, CHANGED, UNCHANGED = DocumentStatus


def one(added: Document | list[Document]) -> Document:
    assert isinstance(added, Document)
    return added


def many(added: Document | list[Document]) -> list[Document]:
    assert isinstance(added, list)
    return added


def put(path: Path, content: str | bytes = "a walrus") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def names(documents: list[Document]) -> list[str]:
    return [document.uri.rpartition("/")[2] for document in documents]


def texts(memory: Limpet, question: str, **owner: Any) -> list[str]:
    hits = memory.recall(question, kinds=["document"], recipe="words", k=100, **(owner or {"user": "alice"}))
    return [hit.text for hit in hits]


# A text


def test_add_document_stores_text_under_uri(timed: Limpet, clock: FakeClock) -> None:
    made = one(timed.documents.add("note:1", "The walrus sleeps", user="alice", title="Sleep", metadata={"by": "bob"}))
    assert (made.uri, made.title, made.metadata, made.chunks) == ("note:1", "Sleep", {"by": "bob"}, 1)
    assert (made.created_at, made.updated_at, made.status) == (clock.now, clock.now, ADDED)
    assert len(made.content_hash) == 32
    assert bytes.fromhex(made.content_hash)
    [listed] = timed.documents.list(user="alice")
    assert listed.status is None
    assert (listed.id, listed.uri, listed.metadata, listed.chunks) == (made.id, "note:1", {"by": "bob"}, 1)
    assert timed.admin.stats()["documents"] == 1


def test_recall_hit_gives_document_and_offset(memory: Limpet) -> None:
    text = " \n" + "The heron is back at the pond. " * 60 + "\n\nWalruses sleep. " + "Frogs sing all night. " * 60
    made = one(memory.documents.add("note:1", text, user="alice", title="Pond", metadata={"by": "bob", "uri": "mine"}))
    [hit] = memory.recall("walruses", user="alice")
    source = hit.source
    assert (source.kind, source.id, source.uri) == ("document", made.id, "note:1")
    assert (source.first_sequence, source.last_sequence, source.session_id, source.role) == (None,) * 4
    assert source.offset is not None
    assert text[source.offset : source.end_offset] == hit.text
    assert "Walruses sleep." in hit.text
    assert source.created_at == made.created_at
    assert hit.metadata == {"by": "bob", "title": "Pond", "uri": "note:1"}


def test_document_chunk_offsets_match_text(memory: Limpet) -> None:
    text = "\n".join(f"{'  ' * (number % 3)}line {number} é 東京 🦊 of the walrus\n" for number in range(200))
    for uri in ("a.txt", "a.md", "a.py"):
        made = one(memory.documents.add(uri, text, user=uri))
        hits = memory.recall("walrus", user=uri, k=1000, recipe="words")
        assert len(hits) == made.chunks > 5
        assert all(text[hit.source.offset : hit.source.end_offset] == hit.text for hit in hits)
        assert min(hit.source.offset or 0 for hit in hits) == 0
        assert max(hit.source.end_offset or 0 for hit in hits) == len(text.rstrip())


def test_add_document_skips_unchanged_content(timed: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    first = one(timed.documents.add("note:1", "a walrus", user="alice"))
    before = every_row(timed)
    clock.advance(days=1)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was processed again")

    monkeypatch.setattr(verb, "chunk_document", never)
    monkeypatch.setattr(timed._runtime.store, "write", never)
    again = one(timed.documents.add("note:1", "a walrus", user="alice"))
    assert (again.status, again.id, again.updated_at) == (UNCHANGED, first.id, first.updated_at)
    assert again.chunks == 1
    monkeypatch.undo()
    assert every_row(timed) == before


def test_add_document_replaces_chunks_of_changed_content(timed: Limpet, clock: FakeClock) -> None:
    first = one(timed.documents.add("note:1", "a walrus\n\n" + "filler words " * 200, user="alice", title="Kept"))
    later = clock.advance(days=1)
    second = one(timed.documents.add("note:1", "a gecko", user="alice"))
    assert (second.id, second.status, second.chunks) == (first.id, CHANGED, 1)
    assert (second.created_at, second.updated_at) == (first.created_at, later)
    assert (second.title, second.content_hash == first.content_hash) == ("Kept", False)
    assert texts(timed, "walrus filler") == []
    assert texts(timed, "gecko") == ["a gecko"]
    assert timed.admin.stats()["chunks"] == 1
    assert faults(timed) == []
    assert one(timed.documents.add("note:1", "a walrus", user="alice")).status is CHANGED


def test_add_document_keeps_chunks_when_only_title_changes(timed: Limpet, clock: FakeClock) -> None:
    first = one(timed.documents.add("note:1", "a walrus", user="alice", metadata={"a": "1"}))
    chunks = every_row(timed)["chunks"]
    clock.advance(days=1)
    second = one(timed.documents.add("note:1", "a walrus", user="alice", title="New", metadata={"b": "2"}))
    assert (second.id, second.status, second.title, second.metadata) == (first.id, CHANGED, "New", {"b": "2"})
    assert second.chunks == 1
    assert every_row(timed)["chunks"] == chunks
    assert one(timed.documents.add("note:1", "a walrus", user="alice", title="New")).status is UNCHANGED
    [hit] = timed.recall("walrus", user="alice")
    assert hit.metadata == {"b": "2", "title": "New", "uri": "note:1"}


def test_add_document_with_empty_text_removes_chunks(memory: Limpet) -> None:
    memory.documents.add("note:1", "a walrus", user="alice")
    assert one(memory.documents.add("note:1", " \n ", user="alice")).chunks == 0
    assert texts(memory, "walrus") == []
    assert one(memory.documents.add("note:2", "", user="alice")).status is ADDED
    assert faults(memory) == []


def test_document_updated_at_never_moves_back_with_clock(timed: Limpet, clock: FakeClock) -> None:
    first = one(timed.documents.add("note:1", "a walrus", user="alice"))
    clock.advance(days=-3)
    assert one(timed.documents.add("note:1", "a gecko", user="alice")).updated_at == first.updated_at


def test_recall_as_of_omits_document_changed_later(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    clock.advance(days=1)
    timed.documents.add("note:1", "a walrus", user="alice")
    middle = clock.now
    assert timed.recall("walrus", user="alice", as_of=start) == []
    assert len(timed.recall("walrus", user="alice", as_of=middle)) == 1
    clock.advance(days=1)
    timed.documents.add("note:1", "a walrus and a gecko", user="alice")
    assert timed.recall("walrus", user="alice", as_of=middle) == []


# Removing


def left(memory: Limpet, word: str) -> set[str]:
    """Tables in which the word still stands, in text or in the numbers of the word index."""
    [term] = extract_terms(word)
    packed = term.to_bytes(8, "little", signed=True)

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            return word in value
        return packed in value if isinstance(value, bytes) else value == term

    return {name for name, rows in every_row(memory).items() if any(holds(value) for row in rows for value in row)}


def test_remove_document_deletes_chunks_and_words(memory: Limpet) -> None:
    kept = one(memory.documents.add("note:2", "a gecko", user="alice"))
    made = one(memory.documents.add("note:1", "xylophonist one\n\n" * 100, user="alice", title="xylophonist"))
    memory.session("t", "1", user="alice").extend([Message.new("user", f"filler number {at}") for at in range(600)])
    assert left(memory, "xylophonist") == {"documents", "chunks", "postings"}
    gone = memory.documents.remove("note:1", user="alice")
    assert (gone.ids, dict(gone.counts)) == ((made.id,), {"chunks": made.chunks, "documents": 1})
    assert left(memory, "xylophonist") == set()
    assert [document.id for document in memory.documents.list(user="alice")] == [kept.id]
    assert faults(memory) == []
    with pytest.raises(DocumentNotFound, match=r"note:1 .*nothing was removed"):
        memory.documents.remove("note:1", user="alice")


def test_remove_document_that_does_not_exist_changes_nothing(memory: Limpet) -> None:
    before = every_row(memory)
    with pytest.raises(DocumentNotFound):
        memory.documents.remove("note:1", user="nobody")
    assert every_row(memory) == before


def test_remove_document_accepts_file_path(memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path / "files" / "a b#c?.txt")
    monkeypatch.chdir(file.parent)
    for name in (file.name, f"./x/../{file.name}", str(file), file, file.as_uri()):
        assert one(memory.documents.add(file, user="alice")).uri == file.as_uri()
        memory.documents.remove(name, user="alice")
        assert memory.documents.list(user="alice") == []
    memory.documents.add(file, user="alice")
    file.unlink()
    memory.documents.remove(file, user="alice")


def test_remove_document_prefers_exact_uri_to_path(
    memory: Limpet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(put(tmp_path / "files" / "a.txt").parent)
    text, file = (
        one(memory.documents.add("a.txt", "text", user="alice")),
        one(memory.documents.add("a.txt", user="alice")),
    )
    assert text.id != file.id
    assert memory.documents.remove("a.txt", user="alice").ids == (text.id,)
    assert memory.documents.remove("a.txt", user="alice").ids == (file.id,)


# Whose it is


def test_document_uri_is_unique_per_owner(memory: Limpet) -> None:
    owners: list[dict[str, Any]] = [{"user": "alice"}, {"user": "Alice"}, {"agent": "alice"}, {"scope": "global"}]
    views = [(memory.tenant(tenant), owner) for tenant in ("default", "acme") for owner in owners]
    made = [one(view.documents.add("note:1", f"secret{at}", **owner)) for at, (view, owner) in enumerate(views)]
    assert len({document.id for document in made}) == len(views)
    for at, (view, owner) in enumerate(views):
        assert [document.id for document in view.documents.list(**owner)] == [made[at].id]
        assert texts(view, " ".join(f"secret{other}" for other in range(len(views))), **owner) == [f"secret{at}"]
    for at, (view, owner) in enumerate(views):
        assert view.documents.remove("note:1", **owner).ids == (made[at].id,)
        assert memory.admin.stats()["documents"] == len(views) - at - 1
        with pytest.raises(DocumentNotFound):
            view.documents.remove("note:1", **owner)


def test_a_document_has_one_owner(memory: Limpet) -> None:
    calls: list[Callable[..., Any]] = [
        lambda **owner: memory.documents.add("note:1", "x", **owner),
        memory.documents.list,
        lambda **owner: memory.documents.remove("note:1", **owner),
    ]
    wrong: list[dict[str, Any]] = [
        {"user": "a", "agent": "b"}, {"user": "a", "scope": "global"}, {"scope": "everybody"}
    ]  # fmt: skip
    for call in calls:
        for owner in wrong:
            with pytest.raises(InvalidInput):
                call(**owner)
    assert one(memory.documents.add("note:1", "x")).uri == "note:1"
    assert [document.uri for document in memory.documents.list(user="me")] == ["note:1"]


def test_the_text_of_a_document_is_put_together_again(memory: Limpet) -> None:
    text = "\n\n".join(f"Paragraph {number} speaks of a walrus." for number in range(400))
    memory.documents.add("note:1", text, user="alice")
    assert memory.documents.text("note:1", user="alice").split() == text.split()
    with pytest.raises(DocumentNotFound):
        memory.documents.text("note:1", user="bob")


def test_documents_are_paged_by_latest_change_first(timed: Limpet, clock: FakeClock) -> None:
    for number in range(5):
        clock.advance(seconds=1)
        timed.documents.add(f"note:{number}", "x", user="alice")
    clock.advance(seconds=1)
    timed.documents.add("note:1", "y", user="alice")
    uris = [document.uri for document in timed.documents.list(user="alice")]
    assert uris == ["note:1", "note:4", "note:3", "note:2", "note:0"]
    assert [document.uri for document in timed.documents.list(user="alice", limit=2, offset=1)] == uris[1:3]
    assert timed.documents.list(user="nobody") == []


# Beside everything else


def test_documents_do_not_affect_sessions_and_records(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.append("user", "a walrus said")
    memory.remember("a walrus record", user="alice")
    alone = [(hit.text, hit.signals["words"].score) for hit in memory.recall("walrus", user="alice", kinds=["message"])]
    memory.documents.add("a.md", "# One\n\na walrus\n\n# Two\n\na walrus", user="alice")
    assert {hit.source.kind for hit in memory.recall("walrus", user="alice")} == {"message", "record", "document"}
    assert [hit.text for hit in memory.recall("walrus", user="alice", kinds=["message"])] == [text for text, _ in alone]
    assert memory.recall("walrus", user="alice", session=session.id, kinds=["document"]) == []
    session.delete()
    assert len(texts(memory, "walrus")) == 2
    assert faults(memory) == []


def test_document_chunks_have_no_neighbours(memory: Limpet) -> None:
    """Ranking takes messages with numbers in a row for neighbours; a document's chunks stand alone."""
    memory.documents.add("a.txt", "x", user="alice")
    memory.documents.add("b.txt", "y z", user="alice")
    sql(memory, "UPDATE chunks SET first_sequence = 1 WHERE text = 'y z'")
    store: Any = memory._runtime.store
    space = memory._resolve_owner("alice", None, None, None).space
    catalogue = store.read(lambda tx: Chunks(tx).open_index(space)).catalogue
    assert catalogue.messages == 2
    assert len(set(catalogue.session.tolist())) == 2
    assert catalogue.previous.tolist() == catalogue.following.tolist() == [NO_MESSAGE, NO_MESSAGE]


@pytest.mark.postgres
def test_copy_between_backends_keeps_documents(tmp_path: Path, postgres_url: str) -> None:
    with (
        Limpet.open(tmp_path / "first") as first,
        Limpet.open(postgres_url) as middle,
        Limpet.open(tmp_path / "last") as last,
    ):
        first.documents.add("a.md", "# é\n\na walrus\n\n" * 300, user="alice", title="東京", metadata={"a.b": "c"})
        first.documents.add("note:2", "a gecko", scope="global")
        stores: list[Any] = [memory._runtime.store for memory in (first, middle, last)]
        assert copy_store(stores[0], stores[1])["documents"] == 2
        copy_store(stores[1], stores[2])
        assert every_row(first) == every_row(middle) == every_row(last)
        for memory in (middle, last):
            assert memory.recall("walrus", user="alice") == first.recall("walrus", user="alice")
            assert one(memory.documents.add("a.md", "# é\n\na walrus\n\n" * 300, user="alice")).status is UNCHANGED
            assert one(memory.documents.add("a.md", "new", user="alice")).status is CHANGED
            assert faults(memory) == []


def test_doctor_repairs_lost_words_of_document(memory: Limpet) -> None:
    memory.documents.add("a.md", "# One\n\na walrus\n\n# Two\n\na gecko", user="alice")
    before = memory.recall("walrus", user="alice")
    sql(memory, "UPDATE chunks SET terms = :none WHERE text LIKE '%walrus%'", none=b"")
    assert faults(memory)
    memory.admin.doctor(repair=True)
    assert faults(memory) == []
    assert memory.recall("walrus", user="alice") == before


def test_add_document_concurrently_creates_one(durable_url: str) -> None:
    with Limpet.open(durable_url) as one_store, Limpet.open(durable_url) as other:
        made: list[Document] = []
        lock = threading.Lock()

        def work(number: int) -> None:
            memory = (one_store, other)[number % 2]
            for at in range(5):
                found = one(memory.documents.add(f"note:{at}", f"text {at} walrus", user="alice"))
                changing = one(memory.documents.add("shared", f"wording {number} {at}", user="alice"))
                with lock:
                    made.extend((found, changing))

        at_once(work, 6)
        for at in range(5):
            mine = [document for document in made if document.uri == f"note:{at}"]
            assert len({document.id for document in mine}) == 1
            assert [document.status for document in mine].count(ADDED) == 1
            assert {document.status for document in mine} <= {ADDED, UNCHANGED}
        assert one_store.admin.stats()["documents"] == 6
        assert one_store.admin.stats()["chunks"] == 6
        assert faults(other) == []


def test_add_document_sees_concurrent_change_of_content(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else is quicker: the transaction looks again."""
    real = chunk_document

    def slow(*args: Any) -> Any:
        chunks = real(*args)
        monkeypatch.setattr(verb, "chunk_document", real)
        memory.documents.add("note:1", "a walrus", user="alice")
        return chunks

    monkeypatch.setattr(verb, "chunk_document", slow)
    assert one(memory.documents.add("note:1", "a walrus", user="alice")).status is UNCHANGED
    assert memory.admin.stats()["chunks"] == 1
    monkeypatch.setattr(verb, "chunk_document", slow)
    assert one(memory.documents.add("note:1", "a gecko", user="alice")).status is CHANGED
    assert texts(memory, "walrus gecko") == ["a gecko"]


def test_add_document_with_title_readds_document_deleted_meanwhile(
    memory: Limpet, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = verb.DocumentWriter.relabel
    memory.documents.add("note:1", "a walrus", user="alice")

    def late(writer: verb.DocumentWriter, tx: Tx) -> Any:
        Documents(tx).delete(writer.partition, lim_id)
        return real(writer, tx)

    [lim_id] = [document.id for document in memory.documents.list(user="alice")]
    monkeypatch.setattr(verb.DocumentWriter, "relabel", late)
    again = one(memory.documents.add("note:1", "a walrus", user="alice", title="New"))
    assert (again.status, again.title, again.id == lim_id) == (ADDED, "New", False)
    assert faults(memory) == []


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


def test_document_chunk_size_comes_from_settings(store_url: str) -> None:
    with Limpet.open(store_url, config=Config(chunks=ChunkSettings(max_chars=64, overlap=8))) as memory:
        for uri in ("a.txt", "a.md", "a.py"):
            memory.documents.add(uri, "# walrus\n\n" + "walrus speaks. " * 50 + "\nwalrus" * 50, user=uri)
            found = texts(memory, "walrus", user=uri)
            assert len(found) > 10
            assert all(0 < len(text) <= 64 for text in found)
