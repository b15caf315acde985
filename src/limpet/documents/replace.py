"""Documents: cut before the transaction; replaced inside one, with all their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from limpet.config import ChunkSettings
from limpet.documents.repository import Documents
from limpet.errors import DocumentNotFound
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.document import Document, DocumentDraft, DocumentKind, DocumentStatus
from limpet.model.ids import IdFactory
from limpet.model.record import Forgotten
from limpet.model.scope import Partition
from limpet.search.chunk_repository import Chunks
from limpet.search.chunker import chunk_document
from limpet.store.tx import Tx


class DocumentWithChunks(NamedTuple):
    """A document with what search will find of it."""

    draft: DocumentDraft
    chunks: Sequence[ChunkDraft]


def prepare(draft: DocumentDraft, text: str, kind: DocumentKind, config: ChunkSettings) -> DocumentWithChunks:
    """Everything slow, before the transaction: cutting and word analysis."""
    return DocumentWithChunks(draft, chunk_document(text, kind, config.max_chars, config.overlap))


def store(tx: Tx, space: Partition, prepared: DocumentWithChunks, new_id: IdFactory, now: datetime) -> Document:
    """Add the document, or put its new content in the place of the old. Somebody may have done so by now."""
    draft, chunks = prepared
    old = Documents(tx).lock(space, draft.uri)
    if old is None:
        document = Document(
            id=new_id(),
            uri=draft.uri,
            title=draft.title or draft.own_title,
            metadata=draft.metadata or {},
            content_hash=draft.content_hash,
            created_at=now,
            updated_at=now,
            status=DocumentStatus.ADDED,
        )
        Documents(tx).insert(space, document)
    elif old.content_hash == draft.content_hash:
        return _apply_labels(tx, space, old, draft, now)
    else:
        document = _merge_draft(old, draft, now)
        Documents(tx).replace(space, document)
        Chunks(tx).drop_document(space, document.id)
    index(tx, space, document, chunks)
    return replace(document, chunks=len(chunks))


def relabel(tx: Tx, space: Partition, draft: DocumentDraft, now: datetime) -> Document | None:
    """Give a document of this very content its new title and metadata. None when it has other content by now."""
    old = Documents(tx).lock(space, draft.uri)
    if old is None or old.content_hash != draft.content_hash:
        return None
    return _apply_labels(tx, space, old, draft, now)


def _apply_labels(tx: Tx, space: Partition, old: Document, draft: DocumentDraft, now: datetime) -> Document:
    if not draft.changes_labels(old):
        return replace(old, status=DocumentStatus.UNCHANGED)
    document = _merge_draft(old, replace(draft, own_title=None), now)
    Documents(tx).replace(space, document)
    return document


def _merge_draft(old: Document, draft: DocumentDraft, now: datetime) -> Document:
    return replace(
        old,
        title=draft.title or draft.own_title or old.title,
        metadata=old.metadata if draft.metadata is None else draft.metadata,
        content_hash=draft.content_hash,
        updated_at=max(now, old.updated_at),  # a clock that was set back must not make it older
        status=DocumentStatus.CHANGED,
    )


def index(tx: Tx, space: Partition, document: Document, chunks: Sequence[ChunkDraft]) -> None:
    """Store what search will find of a stored document."""
    source = ChunkSource(
        kind=SourceKind.DOCUMENT, id=document.id, created_at=document.created_at, worded_at=document.updated_at
    )
    Chunks(tx).add(space, source, chunks)


def remove(tx: Tx, space: Partition, uris: Sequence[str]) -> Forgotten:
    """Remove the first document that one of these names, with its chunks."""
    found = next((document for uri in uris if (document := Documents(tx).lock(space, uri)) is not None), None)
    if found is None:
        raise DocumentNotFound(f"no document {uris[0]} here; nothing was removed")
    return Forgotten(Documents(tx).delete(space, found.id), (found.id,))
