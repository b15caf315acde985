"""Add and remove documents: a text, a file, or every file of a folder. An unchanged document costs one lookup.

A document is split before the transaction and replaced in it, with all its chunks.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import blake2b
from os import PathLike
from typing import NamedTuple

from limpet.config import ChunkSettings, DocumentSettings
from limpet.documents.extract import DocumentText, extract, extract_plain_text
from limpet.documents.files import BinaryFile, list_files, path_to_uri, printable_path, read_file, uri_to_path
from limpet.documents.repository import Documents
from limpet.errors import DocumentNotFound, InvalidInput, Unsupported
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.dataclass import dataclass
from limpet.model.document import (
    Document,
    DocumentDraft,
    DocumentKind,
    DocumentStatus,
    check_title,
    check_uri,
    detect_kind,
)
from limpet.model.record import Forgotten
from limpet.model.scope import Partition
from limpet.model.telemetry import Progress
from limpet.model.values import Clock, IdFactory, check_path, check_strings, check_text
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder, chunk_document
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.documents")

# One letter before the colon is a drive, not a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_STAGE = "documents"
_MAX_SYNC_CHUNKS = 256  # chunks; a book gets its vectors in the background

DocumentPath = str | PathLike[str]


class DocumentLabels(NamedTuple):
    """The owner of the documents, and their labels."""

    partition: Partition
    title: str | None = None
    metadata: Mapping[str, str] | None = None


def list_possible_uris(place: DocumentPath) -> list[str]:
    """Return the uris that a uri or the path of a file may stand for."""
    given = check_path(place, "the document's uri or path")
    uris = [] if isinstance(place, PathLike) else [given]
    with suppress(InvalidInput):  # not a valid file name, but perhaps a uri
        uris.append(path_to_uri(given))
    return uris or [given]


@dataclass(frozen=True, slots=True)
class DocumentIngester:
    """Adds documents to an owner's memory, and removes them."""

    store: Store
    settings: DocumentSettings
    chunks: ChunkSettings
    embedder: ChunkEmbedder
    clock: Clock
    new_id: IdFactory

    def add(
        self,
        partition: Partition,
        place: DocumentPath,
        text: str | None,
        progress: Progress,
        title: object = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Document | list[Document]:
        labels = DocumentLabels(
            partition,
            None if title is None else check_title(title) or None,
            None if metadata is None else check_strings(metadata),
        )
        if text is not None:
            added = self._add_text(resolve_uri(place), text, labels)
        else:
            path = resolve_path(place)
            if os.path.isdir(path):
                return self._add_folder(path, labels, progress)
            added = self._add_file(path, labels)
        progress(_STAGE, 1, 1)
        return added

    def remove(self, partition: Partition, place: DocumentPath) -> Forgotten:
        """Remove the document with this uri, or that of the file at this path."""
        uris = list_possible_uris(place)
        return self.store.write(lambda tx: remove_document(tx, partition, uris))

    def _add_text(self, uri: str, text: str, labels: DocumentLabels) -> Document:
        checked = check_text(text, "the document's text", max_bytes=self.settings.max_text_bytes)
        kind = detect_kind(uri)
        return self._add(uri, kind, checked.encode(), lambda: extract_plain_text(checked, kind), labels)

    def _add_folder(self, folder: str, labels: DocumentLabels, progress: Progress) -> list[Document]:
        """A file that cannot be read does not stop the others."""
        if labels.title is not None:
            raise InvalidInput("a title belongs to one document; leave it out for a folder")
        files, added = list_files(folder), []
        for done, path in enumerate(files, start=1):
            try:
                added.append(self._add_file(path, labels))
            except BinaryFile as error:
                log.info("skipped: %s", error)
            except (InvalidInput, Unsupported) as error:
                log.warning("left out: %s", error)
            progress(_STAGE, done, len(files))
        return added

    def _add_file(self, path: str, labels: DocumentLabels) -> Document:
        kind, name = detect_kind(path), printable_path(path)
        data = read_file(path, self.settings.max_file_bytes, any_bytes=kind is DocumentKind.PDF)
        return self._add(path_to_uri(path), kind, data, partial(extract, data, kind, name), labels)

    def _add(
        self, uri: str, kind: DocumentKind, data: bytes, extracted: Callable[[], DocumentText], labels: DocumentLabels
    ) -> Document:
        partition, now = labels.partition, self.clock()
        draft = DocumentDraft(uri, blake2b(data, digest_size=16).hexdigest(), labels.title, labels.metadata)
        known = self.store.read(lambda tx: Documents(tx).get(partition, uri))
        if known is not None and known.content_hash == draft.content_hash:
            if not draft.changes_labels(known):
                return replace(known, status=DocumentStatus.UNCHANGED)
            relabelled = self.store.write(lambda tx: relabel(tx, partition, draft, now))
            if relabelled is not None:
                return relabelled
        text, title = extracted()
        check_text(text, f"the text of {uri}", max_bytes=self.settings.max_text_bytes)
        prepared = prepare(replace(draft, own_title=title), text, kind, self.chunks)
        if len(prepared.chunks) <= _MAX_SYNC_CHUNKS:
            prepared = prepared._replace(chunks=self.embedder.embed_drafts(partition, prepared.chunks))
        stored = self.store.write(lambda tx: store_document(tx, partition, prepared, self.new_id, now))
        self.embedder.request_missing(prepared.chunks)
        return stored


def resolve_uri(place: DocumentPath) -> str:
    """Return the uri of a text: a uri as it is, the ``file://`` uri of a path object."""
    if isinstance(place, PathLike):
        return path_to_uri(check_path(place, "the document's path"))
    return check_uri(place)


def resolve_path(place: DocumentPath) -> str:
    given = check_path(place, "the document's uri or path")
    if os.path.lexists(given):
        return given
    if given.lower().startswith("file:"):
        return uri_to_path(given)
    if _SCHEME.match(given):
        raise InvalidInput(f"{given} cannot be fetched; give the document's text itself")
    return given


class DocumentWithChunks(NamedTuple):
    """A document and its chunks for search."""

    draft: DocumentDraft
    chunks: Sequence[ChunkDraft]


def prepare(draft: DocumentDraft, text: str, kind: DocumentKind, config: ChunkSettings) -> DocumentWithChunks:
    """Do the slow work before the transaction: chunking and word analysis."""
    return DocumentWithChunks(draft, chunk_document(text, kind, config.max_chars, config.overlap))


def store_document(
    tx: Tx, partition: Partition, prepared: DocumentWithChunks, new_id: IdFactory, now: datetime
) -> Document:
    """Add the document or replace its content, unless another writer has already done so."""
    draft, chunks = prepared
    old = Documents(tx).lock(partition, draft.uri)
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
        Documents(tx).insert(partition, document)
    elif old.content_hash == draft.content_hash:
        return _apply_labels(tx, partition, old, draft, now)
    else:
        document = _merge_draft(old, draft, now)
        Documents(tx).replace(partition, document)
        Chunks(tx).drop_document(partition, document.id)
    index(tx, partition, document, chunks)
    return replace(document, chunks=len(chunks))


def relabel(tx: Tx, partition: Partition, draft: DocumentDraft, now: datetime) -> Document | None:
    """Change title and metadata of a document with this content. Return None if it has other content by now."""
    old = Documents(tx).lock(partition, draft.uri)
    if old is None or old.content_hash != draft.content_hash:
        return None
    return _apply_labels(tx, partition, old, draft, now)


def _apply_labels(tx: Tx, partition: Partition, old: Document, draft: DocumentDraft, now: datetime) -> Document:
    if not draft.changes_labels(old):
        return replace(old, status=DocumentStatus.UNCHANGED)
    document = _merge_draft(old, replace(draft, own_title=None), now)
    Documents(tx).replace(partition, document)
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


def index(tx: Tx, partition: Partition, document: Document, chunks: Sequence[ChunkDraft]) -> None:
    """Store the chunks of a stored document."""
    source = ChunkSource(
        kind=SourceKind.DOCUMENT, id=document.id, created_at=document.created_at, worded_at=document.updated_at
    )
    Chunks(tx).add(partition, source, chunks)


def remove_document(tx: Tx, partition: Partition, uris: Sequence[str]) -> Forgotten:
    """Remove the first document with one of these uris, with its chunks."""
    found = next((document for uri in uris if (document := Documents(tx).lock(partition, uri)) is not None), None)
    if found is None:
        raise DocumentNotFound(f"document {uris[0]} not found; nothing was removed")
    return Forgotten(Documents(tx).delete(partition, found.id), (found.id,))
