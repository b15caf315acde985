"""The repository of documents. A document belongs to a partition, so every query names one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from limpet.model.dataclass import replace
from limpet.model.document import Document
from limpet.model.scope import Partition, Scope
from limpet.model.values import PageCursor, iter_pages
from limpet.search.chunk_repository import Chunks
from limpet.store.encryption import RowLayout
from limpet.store.tables import DOCUMENT_ROWS, DOCUMENTS, build_keyset_clause
from limpet.store.tx import Repository, Row, Tx, partition_params

_DOCUMENT = RowLayout(DOCUMENTS, DOCUMENT_ROWS)
_PAGE = 500  # read at once


class DroppedVersions(NamedTuple):
    """How many rows went, and whether none is left."""

    chunks: int
    documents: int
    done: bool

    @property
    def counts(self) -> dict[str, int]:
        return {"chunks": self.chunks, "documents": self.documents}


def list_names(tx: Tx, scope: Scope) -> Iterator[tuple[str, str]]:
    """What each document of a user is called, with how an answer names it."""
    for each in iter_pages(_PAGE, lambda offset: Documents(tx).find(scope.partition, _PAGE, offset)):
        labels = "\n".join(each.metadata.values())
        yield f"document {each.uri}", f"{each.uri}\n{each.title or ''}\n{labels}"


class Documents(Repository):
    """Documents by their uri, each with the number of its chunks."""

    def get(self, partition: Partition, uri: str) -> Document | None:
        stored = self._cipher(partition).encrypt_deterministic(DOCUMENTS["uri"], uri)
        row = self._db.one("documents.select", {**partition_params(partition), "uri": stored}, where="d.uri = :uri")
        return None if row is None else self.decrypt(partition, row)

    def decrypt(self, partition: Partition, row: Row) -> Document:
        *values, chunks = self._cipher(partition).decrypt_row(_DOCUMENT, row[0], row)
        return replace(DOCUMENT_ROWS.read(values), chunks=chunks)

    def lock(self, partition: Partition, uri: str) -> Document | None:
        """Return the document or None: no other transaction adds or changes one until this one ends."""
        Chunks(self._tx).lock(partition)  # a new document has no row that could be locked
        return self.get(partition, uri)

    def insert(self, partition: Partition, document: Document) -> None:
        self._write("documents.insert", partition, document, version=0, unsettled=0)

    def replace(self, partition: Partition, document: Document) -> None:
        self._write("documents.update", partition, document)

    def insert_hidden(self, partition: Partition, document: Document) -> None:
        """Insert a document that nobody sees before it is published."""
        self._write("documents.insert", partition, document, version=None, unsettled=1)

    def find_hidden(self, partition: Partition, uri: str) -> str | None:
        """Return the id of the document that is not to be seen yet, or not any more."""
        stored = self._cipher(partition).encrypt_deterministic(DOCUMENTS["uri"], uri)
        row = self._db.one("documents.find_hidden", {**self._key(partition), "uri": stored})
        return None if row is None else str(row[0])

    def exists(self, partition: Partition, document_id: str) -> bool:
        """Return whether there is such a document, to be seen or not."""
        return bool(self._last_versions(partition, document_id))

    def allot_version(self, partition: Partition, document_id: str) -> int:
        """Return the number of a new version: higher than any that was allotted before."""
        next_ordinal = Chunks(self._tx).lock_partition(partition).next_ordinal
        return int(max(next_ordinal, *self._last_versions(partition, document_id))) + 1

    def _last_versions(self, partition: Partition, document_id: str) -> Row:
        return self._db.one("documents.last_version", {**self._key(partition), "id": document_id}) or ()

    def publish(self, partition: Partition, document: Document, version: int) -> None:
        """Let everybody see the document with this version of its chunks. The others are to be dropped."""
        self._write("documents.publish", partition, document, version=version)

    def hide(self, partition: Partition, document_id: str) -> None:
        """Let nobody see the document any more. Its chunks are to be dropped."""
        self._db.run("documents.hide", {**self._key(partition), "id": document_id})

    def unsettle(self, partition: Partition, document_id: str) -> None:
        """Say that there are chunks which are not to be seen."""
        self._db.run("documents.unsettle", {**self._key(partition), "id": document_id})

    def drop_versions(self, partition: Partition, document_id: str, below: int) -> DroppedVersions:
        """Remove a slice of the chunks of versions below a number, but not of the one to be seen.

        With the last of them goes a document that is hidden.
        """
        chunks, done = Chunks(self._tx).drop_versions(partition, document_id, below)
        gone = 0
        if done:
            at = {**self._key(partition), "id": document_id}
            self._db.run("documents.settle", at)
            gone = self._db.run("documents.delete_hidden", at)
        return DroppedVersions(chunks, gone, done)

    def delete(self, partition: Partition, document_id: str) -> DroppedVersions:
        """Hide the document and remove a slice of it: call it until it is done."""
        self.hide(partition, document_id)
        return self.drop_versions(partition, document_id, self.allot_version(partition, document_id))

    def _key(self, partition: Partition) -> dict[str, int]:
        return Chunks(self._tx).lock_partition(partition).key

    def _write(self, query: str, partition: Partition, document: Document, **more: int | None) -> None:
        params = self._cipher(partition).encrypt_params(DOCUMENTS, document.id, DOCUMENT_ROWS.params(document))
        self._db.run(query, {**params, **self._key(partition), **more})

    def find(self, partition: Partition, limit: int, offset: int, before: PageCursor | None = None) -> list[Document]:
        """Return documents, the latest change first."""
        more, place = build_keyset_clause(before, "d.updated_at", "d.id")
        params = {**partition_params(partition), "limit": limit, "offset": offset, **place}
        order = "ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit OFFSET :offset"
        rows = self._db.all("documents.select", params, where=f"TRUE{more}", order=order)
        return [self.decrypt(partition, row) for row in rows]
