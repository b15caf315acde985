"""Documents in named queries. Only a space knows whose they are, so every query goes through it."""

from __future__ import annotations

from holdfast.domain.document import Document
from holdfast.domain.scope import Space
from holdfast.storage.sql.chunks import SqlChunks, space_params
from holdfast.storage.sql.db import Db
from holdfast.storage.sql.rows import document_from, document_params


class SqlDocuments:
    def __init__(self, db: Db, chunks: SqlChunks) -> None:
        self._db = db
        self._chunks = chunks

    def get(self, space: Space, uri: str) -> Document | None:
        row = self._db.one("documents.select", {**space_params(space), "uri": uri}, where="d.uri = :uri")
        return None if row is None else document_from(row)

    def lock(self, space: Space, uri: str) -> Document | None:
        # The space's row, since a document that is not there yet has none to hold.
        self._chunks.ensure_space(space)
        return self.get(space, uri)

    def insert(self, space: Space, document: Document) -> None:
        row = self._chunks.ensure_space(space)
        self._db.run("documents.insert", {**document_params(document), "space_id": row.id})

    def replace(self, space: Space, document: Document) -> None:
        row = self._chunks.ensure_space(space)
        self._db.run("documents.update", {**document_params(document), "space_id": row.id})

    def find(self, space: Space, limit: int, offset: int) -> list[Document]:
        params = {**space_params(space), "limit": limit, "offset": offset}
        order = "ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit OFFSET :offset"
        return [document_from(row) for row in self._db.all("documents.select", params, order=order)]

    def delete(self, space: Space, document_id: str) -> dict[str, int]:
        counts = {"chunks": self._chunks.drop_document(space, document_id)}
        row = self._chunks.ensure_space(space)
        counts["documents"] = self._db.run("documents.delete", {"id": document_id, "space_id": row.id})
        return counts
