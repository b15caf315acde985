from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Document, Limpet, Message
from limpet.config import ChunkSettings
from limpet.documents import add as verb
from limpet.documents.repository import Documents
from limpet.errors import DocumentNotFound, InvalidInput
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


def put(path: Path, content: str | bytes = "a walrus") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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


def test_document_chunk_size_comes_from_settings(store_url: str) -> None:
    with Limpet.open(store_url, config=Config(chunks=ChunkSettings(max_chars=64, overlap=8))) as memory:
        for uri in ("a.txt", "a.md", "a.py"):
            memory.documents.add(uri, "# walrus\n\n" + "walrus speaks. " * 50 + "\nwalrus" * 50, user=uri)
            found = texts(memory, "walrus", user=uri)
            assert len(found) > 10
            assert all(0 < len(text) <= 64 for text in found)
