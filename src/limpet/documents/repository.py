"""Documents in named queries. Only a space knows whose they are, so every query goes through it."""

from __future__ import annotations

from dataclasses import replace

from limpet.model.document import Document
from limpet.model.scope import Partition
from limpet.model.values import PageCursor
from limpet.search.chunk_repository import Chunks
from limpet.search.filters import build_keyset_clause
from limpet.store.encrypted_columns import DOCUMENTS
from limpet.store.encryption import RowLayout
from limpet.store.rows import DOCUMENT_ROWS
from limpet.store.tx import Params, Row, Tx, partition_params

_DOCUMENT = RowLayout(DOCUMENTS, DOCUMENT_ROWS)


class Documents:
    """Documents by their uri, each with the number of its chunks."""

    def __init__(self, tx: Tx) -> None:
        self._db = tx.db
        self._chunks = Chunks(tx)
        self._encryption = tx.encryption

    def get(self, space: Partition, uri: str) -> Document | None:
        stored = self._encryption.cipher_for(space.tenant).encrypt_deterministic(DOCUMENTS["uri"], uri)
        row = self._db.one("documents.select", {**partition_params(space), "uri": stored}, where="d.uri = :uri")
        return None if row is None else self.decrypt(space, row)

    def decrypt(self, space: Partition, row: Row) -> Document:
        *values, chunks = self._encryption.cipher_for(space.tenant).decrypt_row(_DOCUMENT, row[0], row)
        return replace(DOCUMENT_ROWS.read(values), chunks=chunks)

    def _params(self, space: Partition, document: Document) -> Params:
        params = DOCUMENT_ROWS.params(document)
        return self._encryption.cipher_for(space.tenant).encrypt_params(DOCUMENTS, document.id, params)

    def lock(self, space: Partition, uri: str) -> Document | None:
        # The space's row, since a document that is not there yet has none to hold.
        """The document, or that there is none: nobody else adds or changes one until the transaction ends."""
        self._chunks.ensure_partition(space)
        return self.get(space, uri)

    def insert(self, space: Partition, document: Document) -> None:
        row = self._chunks.ensure_partition(space)
        self._db.run("documents.insert", {**self._params(space, document), **row.key})

    def replace(self, space: Partition, document: Document) -> None:
        row = self._chunks.ensure_partition(space)
        self._db.run("documents.update", {**self._params(space, document), **row.key})

    def find(self, space: Partition, limit: int, offset: int, before: PageCursor | None = None) -> list[Document]:
        """The latest change first."""
        more, place = build_keyset_clause(before, "d.updated_at", "d.id")
        params = {**partition_params(space), "limit": limit, "offset": offset, **place}
        order = "ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit OFFSET :offset"
        return [
            self.decrypt(space, row)
            for row in self._db.all("documents.select", params, where=f"TRUE{more}", order=order)
        ]

    def delete(self, space: Partition, document_id: str) -> dict[str, int]:
        counts = {"chunks": self._chunks.drop_document(space, document_id)}
        row = self._chunks.ensure_partition(space)
        counts["documents"] = self._db.run("documents.delete", {**row.key, "id": document_id})
        return counts
