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
from limpet.documents.extract import Extracted, as_it_is, extract
from limpet.documents.files import Binary, files_in, path_of, read, readable, uri_of
from limpet.documents.repository import Documents
from limpet.errors import InvalidInput, Unsupported
from limpet.model.document import (
    Document,
    DocumentDraft,
    DocumentKind,
    DocumentStatus,
    checked_title,
    checked_uri,
    kind_of,
)
from limpet.model.record import Forgotten
from limpet.model.scope import Space
from limpet.model.text import checked_path, checked_text
from limpet.model.values import checked_strings
from limpet.search import embed
from limpet.store.base import Progress

log = logging.getLogger("limpet.documents.add")

# One letter before the colon is a drive, not a scheme.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_STAGE = "documents"
_EMBEDDED_AT_ONCE = 256  # chunks; a book gets its vectors in the background

Place = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Intake:
    """Whose documents they become, and what they are labelled with."""

    runtime: Runtime
    space: Space
    title: str | None = None
    metadata: Mapping[str, str] | None = None

    @classmethod
    def of(cls, runtime: Runtime, space: Space, title: object, metadata: Mapping[str, str] | None) -> Intake:
        return cls(
            runtime,
            space,
            None if title is None else checked_title(title) or None,
            None if metadata is None else checked_strings(metadata),
        )

    def add(self, place: Place, text: str | None, progress: Progress) -> Document | list[Document]:
        if text is not None:
            added = self._add_text(_uri(place), text)
        else:
            path = _path(place)
            if os.path.isdir(path):
                return self._add_folder(path, progress)
            added = self._add_file(path)
        progress(_STAGE, 1, 1)
        return added

    def _add_text(self, uri: str, text: str) -> Document:
        checked = checked_text(text, "the document's text", max_bytes=self._limits.max_text_bytes)
        kind = kind_of(uri)
        return self._add(uri, kind, checked.encode(), lambda: as_it_is(checked, kind))

    def _add_folder(self, folder: str, progress: Progress) -> list[Document]:
        """One file that cannot be read stops none of the others."""
        if self.title is not None:
            raise InvalidInput("a title is one document's; leave it out for a folder")
        files, added = files_in(folder), []
        for done, path in enumerate(files, start=1):
            try:
                added.append(self._add_file(path))
            except Binary as error:
                log.info("passed over: %s", error)
            except (InvalidInput, Unsupported) as error:
                log.warning("left out: %s", error)
            progress(_STAGE, done, len(files))
        return added

    def _add_file(self, path: str) -> Document:
        kind, name = kind_of(path), readable(path)
        data = read(path, self._limits.max_file_bytes, any_bytes=kind is DocumentKind.PDF)
        return self._add(uri_of(path), kind, data, partial(extract, data, kind, name))

    def _add(self, uri: str, kind: DocumentKind, data: bytes, extracted: Callable[[], Extracted]) -> Document:
        store, now = self.runtime.store, self.runtime.clock()
        draft = DocumentDraft(uri, blake2b(data, digest_size=16).hexdigest(), self.title, self.metadata)
        known = store.read(lambda tx: Documents(tx).get(self.space, uri))
        if known is not None and known.content_hash == draft.content_hash:
            if not draft.relabels(known):
                return replace(known, status=DocumentStatus.UNCHANGED)
            relabelled = store.write(lambda tx: document.relabel(tx, self.space, draft, now))
            if relabelled is not None:
                return relabelled
        text, title = extracted()
        checked_text(text, f"the text of {uri}", max_bytes=self._limits.max_text_bytes)
        prepared = document.prepare(replace(draft, own_title=title), text, kind, self.runtime.config.chunks)
        if len(prepared.chunks) <= _EMBEDDED_AT_ONCE:
            chunks = embed.at_once(store, self.runtime.embedding, self.space, prepared.chunks)
            prepared = prepared._replace(chunks=chunks)
        runtime = self.runtime
        stored = store.write(lambda tx: document.store(tx, self.space, prepared, runtime.new_id, now))
        runtime.look_after(prepared.chunks)
        return stored

    @property
    def _limits(self) -> DocumentSettings:
        return self.runtime.config.documents


def _uri(place: Place) -> str:
    """What a text is kept under: any uri as it is; a path object by its ``file://`` uri."""
    if isinstance(place, PathLike):
        return uri_of(checked_path(place, "the document's path"))
    return checked_uri(place)


def _path(place: Place) -> str:
    given = checked_path(place, "the document's uri or path")
    if os.path.lexists(given):
        return given
    if given.lower().startswith("file:"):
        return path_of(given)
    if _SCHEME.match(given):
        raise InvalidInput(f"{given} is not read from where it is; give the document's text itself")
    return given


def remove(runtime: Runtime, space: Space, place: Place) -> Forgotten:
    """Remove the document with this uri, or that of the file at this path."""
    given = checked_path(place, "the document's uri or path")
    uris = [] if isinstance(place, PathLike) else [given]
    with suppress(InvalidInput):  # what can be no file's name may be a uri all the same
        uris.append(uri_of(given))
    return runtime.store.write(lambda tx: document.remove(tx, space, uris or [given]))
