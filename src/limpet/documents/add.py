"""Add and remove documents: a text, a file, or every file of a folder. An unchanged document costs one lookup.

A document is split and embedded before any transaction. Its chunks are written in slices, so that nobody waits long,
as a version that nobody sees; the last slice lets everybody see it, and the version before is removed in slices. A job
that is enqueued with the first slice removes what a process that was killed leaves behind.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from os import PathLike
from typing import NamedTuple

from limpet.config import ChunkSettings, DocumentSettings
from limpet.documents.files import (
    BinaryFile,
    DocumentText,
    extract,
    extract_plain_text,
    list_files,
    path_to_uri,
    printable_path,
    read_file,
    uri_to_path,
)
from limpet.documents.repository import Documents, DroppedVersions
from limpet.errors import DocumentNotFound, InvalidInput, StoreBusy, Unsupported
from limpet.model.chunk import ChunkDraft, ChunkSource, SourceKind
from limpet.model.dataclass import dataclass, replace
from limpet.model.document import (
    Document,
    DocumentDraft,
    DocumentKind,
    DocumentStatus,
    check_title,
    check_uri,
    detect_kind,
)
from limpet.model.job import REMOVE_DOCUMENT
from limpet.model.record import Forgotten
from limpet.model.scope import Partition
from limpet.model.values import Clock, IdFactory, check_path, check_strings, check_text
from limpet.search import word_index
from limpet.search.chunk_repository import Chunks
from limpet.search.embed import ChunkEmbedder, chunk_document
from limpet.security.telemetry import Progress
from limpet.store.jobs import JobLease, Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.documents")

# One letter before the colon is a drive, not a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_STAGE = "documents"
_MAX_SYNC_CHUNKS = 256  # chunks; a book gets its vectors in the background
_MAX_SLICE = 500  # chunks that one transaction writes
_ATTEMPTS = 5
_PATIENCE = timedelta(minutes=10)  # a version that was begun so long ago and is not published was given up
_HEAD_START = timedelta(seconds=60)  # how long the job waits for the caller

DocumentPath = str | PathLike[str]


class DocumentLabels(NamedTuple):
    """The owner of the documents, and their labels."""

    partition: Partition
    title: str | None = None
    metadata: Mapping[str, str] | None = None


def list_possible_uris(place: DocumentPath) -> list[str]:
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
        if text is None:
            return add_path(resolve_path(place), labels.title, lambda path: self._add_file(path, labels), progress)
        added = self._add_text(resolve_uri(place), text, labels)
        progress(_STAGE, 1, 1)
        return added

    def remove(self, partition: Partition, place: DocumentPath) -> Forgotten:
        """Remove the document with this uri, or that of the file at this path."""
        uris = list_possible_uris(place)
        found, dropped = self.store.write(lambda tx: hide_document(tx, partition, uris, self.clock()))
        counts = Counter(dropped.counts)
        counts.update(self._drop(partition, found, done=dropped.done))
        return Forgotten(counts, (found.document_id,))

    def run_remove_job(self, lease: JobLease) -> datetime | None:
        """Remove what a process that was killed has left of a document."""
        version = Version.parse(lease.job.detail)
        self._drop(lease.job.partition, version, between=lease.renew)
        lease.finished = True  # its row went with the last slice
        return None

    def settle(self, partition: Partition, document_id: str) -> None:
        """Remove what is left of a document and nobody sees."""
        number = self.store.write(lambda tx: Documents(tx).allot_version(partition, document_id))
        self._drop(partition, Version(document_id, number))

    def _drop(
        self, partition: Partition, version: Version, *, done: bool = False, between: Callable[[], None] = lambda: None
    ) -> Counter[str]:
        """Remove the versions below this one in slices."""
        counts: Counter[str] = Counter()
        while not done:
            between()
            dropped = self.store.write(lambda tx: drop_versions(tx, partition, version))
            counts.update(dropped.counts)
            done = dropped.done
        return counts

    def _add_text(self, uri: str, text: str, labels: DocumentLabels) -> Document:
        checked = check_text(text, "the document's text", max_bytes=self.settings.max_text_bytes)
        kind = detect_kind(uri)
        return self._add(uri, kind, checked.encode(), lambda: extract_plain_text(checked, kind), labels)

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
            relabelled = self.store.write(DocumentWriter(partition, draft, now, self.new_id).relabel)
            if relabelled is not None:
                return relabelled
        text, title = extracted()
        check_text(text, f"the text of {uri}", max_bytes=self.settings.max_text_bytes)
        chunks: Sequence[ChunkDraft] = chunk_document(text, kind, self.chunks.max_chars, self.chunks.overlap)
        if len(chunks) <= _MAX_SYNC_CHUNKS:
            chunks = self.embedder.embed_drafts(partition, chunks)
        stored = self._store(DocumentWriter(partition, replace(draft, own_title=title), now, self.new_id), chunks)
        self.embedder.request_missing(chunks)
        return stored

    def _store(self, writer: DocumentWriter, chunks: Sequence[ChunkDraft]) -> Document:
        for _ in range(_ATTEMPTS):
            with suppress(_Overtaken):
                return self._store_slices(writer, chunks)
        raise StoreBusy(f"{writer.draft.uri} was changed by others {_ATTEMPTS} times while it was written; try again")

    def _store_slices(self, writer: DocumentWriter, chunks: Sequence[ChunkDraft]) -> Document:
        *early, last = slice_chunks(chunks)
        version, count = None, 0
        for part in early:
            version = self.store.write(partial(writer.put_slice, chunks=part, version=version))
            count += len(part)
        stored, garbage, done = self.store.write(partial(writer.publish, chunks=last, version=version, count=count))
        self._drop(writer.partition, garbage, done=done)
        while early and not self.store.write(lambda tx: Chunks(tx).merge_tail(writer.partition)):
            log.debug("the words of %s are merged", writer.draft.uri)
        return stored


def add_path(
    path: str, title: str | None, add_file: Callable[[str], Document], progress: Progress
) -> Document | list[Document]:
    """Add a file, or every file of a folder: one that cannot be read does not stop the others."""
    if not os.path.isdir(path):
        found = add_file(path)
        progress(_STAGE, 1, 1)
        return found
    if title is not None:
        raise InvalidInput("a title belongs to one document; leave it out for a folder")
    files, added = list_files(path), []
    for done, each in enumerate(files, start=1):
        try:
            added.append(add_file(each))
        except BinaryFile as error:
            log.info("skipped: %s", error)
        except (InvalidInput, Unsupported) as error:
            log.warning("left out: %s", error)
        progress(_STAGE, done, len(files))
    return added


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


class Version(NamedTuple):
    """A version of a document's chunks. A later one has a higher number."""

    document_id: str
    number: int

    @property
    def detail(self) -> str:
        """What a job is called that removes every version below this one."""
        return f"{self.document_id} {self.number}"

    @property
    def next(self) -> Version:
        return self._replace(number=self.number + 1)

    @classmethod
    def parse(cls, detail: str) -> Version:
        document_id, number = detail.rsplit(" ", 1)
        return cls(document_id, int(number))


class _Overtaken(Exception):
    """The chunks that were written are gone: another process removed the document or its unfinished version."""


def slice_chunks(chunks: Sequence[ChunkDraft]) -> list[Sequence[ChunkDraft]]:
    """Return the chunks in slices that one transaction can write while others wait, at least one slice."""
    slices, start, entries = [], 0, 0
    for at, chunk in enumerate(chunks):
        entries += len(chunk.terms.counts)
        if at > start and (entries > word_index.MAX_ENTRIES or at - start >= _MAX_SLICE):
            slices.append(chunks[start:at])
            start, entries = at, len(chunk.terms.counts)
    return [*slices, chunks[start:]]


@dataclass(frozen=True, slots=True)
class DocumentWriter:
    """Writes one document. Each public method is the work of one transaction."""

    partition: Partition
    draft: DocumentDraft
    now: datetime
    new_id: IdFactory

    def put_slice(self, tx: Tx, chunks: Sequence[ChunkDraft], version: Version | None) -> Version:
        """Write a slice of a version that nobody sees yet; the first slice begins the version."""
        old = Documents(tx).lock(self.partition, self.draft.uri)
        if version is None:
            version = self._begin_version(tx, old)
            Jobs(tx).enqueue(self.partition, REMOVE_DOCUMENT, version.next.detail, self.now, self.now + _PATIENCE)
        elif not Documents(tx).exists(self.partition, version.document_id):
            raise _Overtaken
        self._index(tx, self._build(version.document_id, old), chunks, version)
        return version

    def publish(
        self, tx: Tx, chunks: Sequence[ChunkDraft], version: Version | None, count: int
    ) -> tuple[Document, Version, bool]:
        """Write the last slice and let everybody see the version, unless another writer has stored the same text.

        Return the document, below which version others are to be removed, and whether none is left.
        """
        old = Documents(tx).lock(self.partition, self.draft.uri)
        if version is not None and Chunks(tx).count_version(self.partition, *version) != count:
            raise _Overtaken
        if old is not None and old.content_hash == self.draft.content_hash:
            same = self._apply_labels(tx, old)
            below = Version(old.id, 0) if version is None else version.next
            return same, below, version is None or drop_versions(tx, self.partition, below).done
        begun = version or self._begin_version(tx, old)
        document = self._build(begun.document_id, old)
        self._index(tx, document, chunks, begun)
        Documents(tx).publish(self.partition, document, begun.number)
        if version is not None:
            Jobs(tx).cancel(self.partition, REMOVE_DOCUMENT, version.next.detail)
        is_clean = _drop_first(tx, self.partition, begun, self.now).done
        return replace(document, chunks=count + len(chunks)), begun, is_clean

    def relabel(self, tx: Tx) -> Document | None:
        """Change title and metadata of a document with this content. Return None if it has other content by now."""
        old = Documents(tx).lock(self.partition, self.draft.uri)
        if old is None or old.content_hash != self.draft.content_hash:
            return None
        return self._apply_labels(tx, old)

    def _begin_version(self, tx: Tx, old: Document | None) -> Version:
        documents = Documents(tx)
        found = documents.find_hidden(self.partition, self.draft.uri) if old is None else old.id
        if found is None:
            document = self._build(self.new_id(), None)
            documents.insert_hidden(self.partition, document)
            found = document.id
        elif old is not None:
            documents.unsettle(self.partition, found)
        return Version(found, documents.allot_version(self.partition, found))

    def _build(self, document_id: str, old: Document | None) -> Document:
        draft = self.draft
        if old is not None:
            return _merge_draft(old, draft, self.now)
        return Document(
            id=document_id,
            uri=draft.uri,
            title=draft.title or draft.own_title,
            metadata=draft.metadata or {},
            content_hash=draft.content_hash,
            created_at=self.now,
            updated_at=self.now,
            status=DocumentStatus.ADDED,
        )

    def _apply_labels(self, tx: Tx, old: Document) -> Document:
        if not self.draft.changes_labels(old):
            return replace(old, status=DocumentStatus.UNCHANGED)
        document = _merge_draft(old, replace(self.draft, own_title=None), self.now)
        Documents(tx).replace(self.partition, document)
        return document

    def _index(self, tx: Tx, document: Document, chunks: Sequence[ChunkDraft], version: Version) -> None:
        made, changed = document.created_at, document.updated_at
        source = ChunkSource(
            SourceKind.DOCUMENT, document.id, created_at=made, worded_at=changed, version=version.number
        )
        Chunks(tx).add(self.partition, source, chunks)


def _drop_first(tx: Tx, partition: Partition, below: Version, now: datetime) -> DroppedVersions:
    """Remove the first slice of what is below a version. If there is more, a job removes it unless the caller does."""
    dropped = Documents(tx).drop_versions(partition, *below)
    if not dropped.done:
        Jobs(tx).enqueue(partition, REMOVE_DOCUMENT, below.detail, now, now + _HEAD_START)
    return dropped


def drop_versions(tx: Tx, partition: Partition, below: Version) -> DroppedVersions:
    """Remove a slice of what is below a version, and with the last one the job that would do it."""
    dropped = Documents(tx).drop_versions(partition, *below)
    if dropped.done:
        Jobs(tx).cancel(partition, REMOVE_DOCUMENT, below.detail)
    return dropped


def _merge_draft(old: Document, draft: DocumentDraft, now: datetime) -> Document:
    return replace(
        old,
        title=draft.title or draft.own_title or old.title,
        metadata=old.metadata if draft.metadata is None else draft.metadata,
        content_hash=draft.content_hash,
        updated_at=max(now, old.updated_at),  # a clock that was set back must not make it older
        status=DocumentStatus.CHANGED,
    )


def hide_document(tx: Tx, partition: Partition, uris: Sequence[str], now: datetime) -> tuple[Version, DroppedVersions]:
    """Let nobody see the first document with one of these uris any more, and remove the first slice of it."""
    found = next((document for uri in uris if (document := Documents(tx).lock(partition, uri)) is not None), None)
    if found is None:
        raise DocumentNotFound(f"document {uris[0]} not found; nothing was removed")
    below = Version(found.id, Documents(tx).allot_version(partition, found.id))
    Documents(tx).hide(partition, found.id)
    return below, _drop_first(tx, partition, below, now)
