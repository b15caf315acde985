"""Taking in documents: a text, a file, or every file of a folder. What has not changed costs one look."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from os import PathLike

from limpet.api.runtime import Runtime
from limpet.config import DocumentSettings
from limpet.documents import replace as document
from limpet.documents.extract import DocumentText, extract, extract_plain_text
from limpet.documents.files import BinaryFile, list_files, path_to_uri, printable_path, read_file, uri_to_path
from limpet.documents.repository import Documents
from limpet.errors import InvalidInput, Unsupported
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
from limpet.model.text import check_path, check_text
from limpet.model.values import check_strings
from limpet.search import embed

log = logging.getLogger("limpet.documents")

# One letter before the colon is a drive, not a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_STAGE = "documents"
_MAX_SYNC_CHUNKS = 256  # chunks; a book gets its vectors in the background

DocumentPath = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class DocumentIngester:
    """Whose documents they become, and what they are labelled with."""

    runtime: Runtime
    space: Partition
    title: str | None = None
    metadata: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, runtime: Runtime, space: Partition, title: object, metadata: Mapping[str, str] | None
    ) -> DocumentIngester:
        return cls(
            runtime,
            space,
            None if title is None else check_title(title) or None,
            None if metadata is None else check_strings(metadata),
        )

    def add(self, place: DocumentPath, text: str | None, progress: Progress) -> Document | list[Document]:
        if text is not None:
            added = self._add_text(_resolve_uri(place), text)
        else:
            path = _resolve_path(place)
            if os.path.isdir(path):
                return self._add_folder(path, progress)
            added = self._add_file(path)
        progress(_STAGE, 1, 1)
        return added

    def _add_text(self, uri: str, text: str) -> Document:
        checked = check_text(text, "the document's text", max_bytes=self._limits.max_text_bytes)
        kind = detect_kind(uri)
        return self._add(uri, kind, checked.encode(), lambda: extract_plain_text(checked, kind))

    def _add_folder(self, folder: str, progress: Progress) -> list[Document]:
        """One file that cannot be read stops none of the others."""
        if self.title is not None:
            raise InvalidInput("a title is one document's; leave it out for a folder")
        files, added = list_files(folder), []
        for done, path in enumerate(files, start=1):
            try:
                added.append(self._add_file(path))
            except BinaryFile as error:
                log.info("passed over: %s", error)
            except (InvalidInput, Unsupported) as error:
                log.warning("left out: %s", error)
            progress(_STAGE, done, len(files))
        return added

    def _add_file(self, path: str) -> Document:
        kind, name = detect_kind(path), printable_path(path)
        data = read_file(path, self._limits.max_file_bytes, any_bytes=kind is DocumentKind.PDF)
        return self._add(path_to_uri(path), kind, data, partial(extract, data, kind, name))

    def _add(self, uri: str, kind: DocumentKind, data: bytes, extracted: Callable[[], DocumentText]) -> Document:
        store, now = self.runtime.store, self.runtime.clock()
        draft = DocumentDraft(uri, blake2b(data, digest_size=16).hexdigest(), self.title, self.metadata)
        known = store.read(lambda tx: Documents(tx).get(self.space, uri))
        if known is not None and known.content_hash == draft.content_hash:
            if not draft.changes_labels(known):
                return replace(known, status=DocumentStatus.UNCHANGED)
            relabelled = store.write(lambda tx: document.relabel(tx, self.space, draft, now))
            if relabelled is not None:
                return relabelled
        text, title = extracted()
        check_text(text, f"the text of {uri}", max_bytes=self._limits.max_text_bytes)
        prepared = document.prepare(replace(draft, own_title=title), text, kind, self.runtime.config.chunks)
        if len(prepared.chunks) <= _MAX_SYNC_CHUNKS:
            chunks = embed.embed_drafts(store, self.runtime.embedding, self.space, prepared.chunks)
            prepared = prepared._replace(chunks=chunks)
        runtime = self.runtime
        stored = store.write(lambda tx: document.store(tx, self.space, prepared, runtime.new_id, now))
        runtime.request_embedding(prepared.chunks)
        return stored

    @property
    def _limits(self) -> DocumentSettings:
        return self.runtime.config.documents


def _resolve_uri(place: DocumentPath) -> str:
    """What a text is kept under: any uri as it is; a path object by its ``file://`` uri."""
    if isinstance(place, PathLike):
        return path_to_uri(check_path(place, "the document's path"))
    return check_uri(place)


def _resolve_path(place: DocumentPath) -> str:
    given = check_path(place, "the document's uri or path")
    if os.path.lexists(given):
        return given
    if given.lower().startswith("file:"):
        return uri_to_path(given)
    if _SCHEME.match(given):
        raise InvalidInput(f"{given} is not read from where it is; give the document's text itself")
    return given


def remove(runtime: Runtime, space: Partition, place: DocumentPath) -> Forgotten:
    """Remove the document with this uri, or that of the file at this path."""
    given = check_path(place, "the document's uri or path")
    uris = [] if isinstance(place, PathLike) else [given]
    with suppress(InvalidInput):  # what can be no file's name may be a uri all the same
        uris.append(path_to_uri(given))
    return runtime.store.write(lambda tx: document.remove(tx, space, uris or [given]))
