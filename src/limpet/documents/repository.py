"""The repository of documents. A document belongs to a partition, so every query names one."""

from __future__ import annotations

from dataclasses import replace

from limpet.model.document import Document
from limpet.model.scope import Partition
from limpet.model.values import PageCursor
from limpet.search.chunk_repository import Chunks
from limpet.store.encryption import RowLayout
from limpet.store.tables import DOCUMENT_ROWS, DOCUMENTS, build_keyset_clause
from limpet.store.tx import Repository, Row, partition_params

_DOCUMENT = RowLayout(DOCUMENTS, DOCUMENT_ROWS)


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
        self._write("documents.insert", partition, document)

    def replace(self, partition: Partition, document: Document) -> None:
        self._write("documents.update", partition, document)

    def _write(self, query: str, partition: Partition, document: Document) -> None:
        row = Chunks(self._tx).lock_partition(partition)
        params = self._cipher(partition).encrypt_params(DOCUMENTS, document.id, DOCUMENT_ROWS.params(document))
        self._db.run(query, {**params, **row.key})

    def find(self, partition: Partition, limit: int, offset: int, before: PageCursor | None = None) -> list[Document]:
        """Return documents, the latest change first."""
        more, place = build_keyset_clause(before, "d.updated_at", "d.id")
        params = {**partition_params(partition), "limit": limit, "offset": offset, **place}
        order = "ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit OFFSET :offset"
        rows = self._db.all("documents.select", params, where=f"TRUE{more}", order=order)
        return [self.decrypt(partition, row) for row in rows]

    def delete(self, partition: Partition, document_id: str) -> dict[str, int]:
        chunks = Chunks(self._tx)
        key = chunks.lock_partition(partition).key
        return {
            "chunks": chunks.drop_document(partition, document_id),
            "documents": self._db.run("documents.delete", {**key, "id": document_id}),
        }
