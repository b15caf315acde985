"""Files of this machine: the client reads and writes them, the server never does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from limpet.api.remote.authorizer import make_request, read_answer
from limpet.api.remote.http import PIECE, Request
from limpet.api.wire import to_query_text
from limpet.errors import DocumentNotFound, InvalidInput, StorageError, StoreUnavailable
from limpet.model.schema import codec
from limpet.model.transfer import ExportResult, ImportResult
from limpet.providers.http import read_pieces
from limpet.store.files import make_tree_private, translate_errors

if TYPE_CHECKING:
    from limpet.api.remote.authorizer import RemoteAuthorizer
    from limpet.model.document import Document


def export(authorizer: RemoteAuthorizer, _subject: Any, given: dict[str, Any]) -> ExportResult:
    """A new folder, as an export in process writes it."""
    from limpet.lifecycle.export_folder import create_folder

    target = Path(given["path"])
    with create_folder(target) as folder, _download(authorizer, given) as packed:
        with translate_errors(target, "write"), _open_zip(packed) as archive:
            archive.extractall(folder)  # which leaves nothing outside the folder, whatever names are in it
            make_tree_private(folder)
        return _describe_export(folder, str(target))


def archive(authorizer: RemoteAuthorizer, _subject: Any, given: dict[str, Any]) -> ExportResult:
    """The zip, in a file that the caller opened."""
    from tempfile import TemporaryDirectory

    from limpet.lifecycle.export_folder import MANIFEST

    file = given["file"]
    with _download(authorizer, given) as packed, TemporaryDirectory(prefix="limpet-") as place:
        with _open_zip(packed) as found:
            found.extract(MANIFEST, place)
        packed.seek(0)
        while piece := packed.read(PIECE):
            file.write(piece)
        return _describe_export(Path(place), "")


def import_(authorizer: RemoteAuthorizer, subject: Any, given: dict[str, Any]) -> ImportResult:
    """A file as it is; a folder as a zip; notes in Markdown as documents, which are named by their paths here."""
    from limpet.documents.files import printable_path
    from limpet.lifecycle.formats import markdown

    path, report = Path(given.pop("path")).expanduser(), given.pop("progress", None)
    if _detect_format(path, given.get("format", "auto")) == markdown.NAME:
        return _import_markdown(authorizer, subject, path, given)
    query = [(name, to_query_text(value)) for name, value in given.items() if value is not None]
    try:
        with _open_source(path) as (file, name):
            size = os.fstat(file.fileno()).st_size
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            target = make_request("POST", "/v1/import", [*query, ("name", name)])
            answer = authorizer.client.upload(Request("POST", target.path, file, headers))
    except OSError as error:
        raise InvalidInput(f"{printable_path(str(path))} cannot be read: {error.strerror or error}") from error
    if report is not None:
        report("import", 1, 1)
    done: ImportResult = read_answer(codec(ImportResult), answer)
    return done


def add_document(authorizer: RemoteAuthorizer, subject: Any, given: dict[str, Any]) -> Document | list[Document]:
    """A text under its uri; a file, or every file of a folder, by what it says."""
    from limpet.documents.add import add_path, resolve_path, resolve_uri

    place, report = given.pop("uri_or_path"), given.pop("progress", None) or (lambda *_: None)
    if given.get("text") is None:
        add_file = partial(_add_file, authorizer, subject, given)
        return add_path(resolve_path(place), given.get("title"), add_file, report)
    added: Document = authorizer.send("documents.add", subject, {**given, "uri_or_path": resolve_uri(place)})
    report("documents", 1, 1)
    return added


def _add_file(authorizer: RemoteAuthorizer, subject: Any, given: dict[str, Any], path: str) -> Document:
    from limpet.config import DocumentSettings
    from limpet.documents.files import extract, path_to_uri, printable_path, read_file
    from limpet.model.document import DocumentKind, detect_kind

    kind = detect_kind(path)
    data = read_file(path, DocumentSettings().max_file_bytes, any_bytes=kind is DocumentKind.PDF)
    found = extract(data, kind, printable_path(path))
    labels = {**given, "title": given.get("title") or found.title}
    added: Document = authorizer.send(
        "documents.add", subject, {**labels, "uri_or_path": path_to_uri(path), "text": found.text}
    )
    return added


def try_uris(operation: str, authorizer: RemoteAuthorizer, subject: Any, given: dict[str, Any]) -> Any:
    """A document is called by its uri, or by the path of its file on this machine."""
    from limpet.documents.add import list_possible_uris

    first, *more = list_possible_uris(given.pop("uri"))
    try:
        return authorizer.send(operation, subject, {**given, "uri": first})
    except DocumentNotFound:
        for uri in more:
            with suppress(DocumentNotFound):
                return authorizer.send(operation, subject, {**given, "uri": uri})
        raise


@contextmanager
def _download(authorizer: RemoteAuthorizer, given: dict[str, Any]) -> Iterator[BinaryIO]:
    """The export as a zip in a temporary file, whole."""
    user, report = given.get("user"), given.get("progress") or (lambda *_: None)
    request = make_request("GET", "/v1/export", [] if user is None else [("user", user)])
    with TemporaryFile() as file:
        try:
            with authorizer.client.stream(request) as response:
                total = response.length or 0
                for piece in read_pieces(response, lambda size: report("export", size, max(total, size))):
                    file.write(piece)
        except HTTPException as error:
            raise StoreUnavailable(f"the export was interrupted: {error}") from error
        file.seek(0)
        yield file


@contextmanager
def _open_zip(file: BinaryIO) -> Iterator[ZipFile]:
    try:
        with ZipFile(file) as found:
            yield found
    except (BadZipFile, KeyError) as error:
        raise StorageError(f"the export is incomplete: {error}") from error


def _describe_export(folder: Path, path: str) -> ExportResult:
    from limpet.lifecycle.export import NAMES
    from limpet.lifecycle.export_folder import read_manifest

    files = read_manifest(folder, NAMES)[0].files
    counts = {name: file.lines for name, file in files.items()}
    return ExportResult(path, counts, sum(file.bytes for file in files.values()))


@contextmanager
def _open_source(path: Path) -> Iterator[tuple[BinaryIO, str]]:
    """The bytes to send, and the name by which the server tells the format."""
    if not path.is_dir():
        with path.open("rb") as file:
            yield file, path.name
        return
    with TemporaryFile() as packed:
        with ZipFile(packed, "w", ZIP_DEFLATED) as target:
            for each in sorted(path.rglob("*")):
                if each.is_file() and not each.is_symlink():
                    target.write(each, each.relative_to(path).as_posix())
        packed.seek(0)
        yield packed, f"{path.name}.zip"


def _detect_format(path: Path, format: str) -> str:
    """As far as it is told here: what is a folder, or is called ``.md``, may be notes."""
    from limpet.lifecycle.export_folder import is_export
    from limpet.lifecycle.formats.detect import AUTO, detect
    from limpet.lifecycle.formats.source import ImportSource
    from limpet.model.document import DocumentKind, detect_kind

    may_be_notes = detect_kind(path.name) is DocumentKind.MARKDOWN or (path.is_dir() and not is_export(path))
    return detect(ImportSource.of(path)) if format == AUTO and may_be_notes else format


def _import_markdown(authorizer: RemoteAuthorizer, subject: Any, path: Path, given: dict[str, Any]) -> ImportResult:
    from limpet.config import DocumentSettings
    from limpet.lifecycle.formats import markdown
    from limpet.lifecycle.formats.contents import ForeignDocument
    from limpet.lifecycle.formats.source import ImportSource
    from limpet.model.document import DocumentStatus
    from limpet.model.transfer import MAX_LISTED_SKIPS, ImportSkip

    user, dry_run = given.get("user"), bool(given.get("dry_run"))
    if user is None:
        raise InvalidInput("Markdown does not say whose memory it is here; name a user")
    added, unchanged, skipped = 0, 0, []
    for found in markdown.read(ImportSource.of(path), DocumentSettings().max_file_bytes):
        if isinstance(found, ImportSkip):
            skipped.append(found)
            continue
        assert isinstance(found, ForeignDocument)
        labels = {"uri_or_path": found.uri, "text": found.text, "title": found.title, "metadata": found.metadata}
        done = None if dry_run else authorizer.send("documents.add", subject, {**labels, "user": user})
        is_new = done is None or done.status is not DocumentStatus.UNCHANGED
        added, unchanged = added + is_new, unchanged + (not is_new)
    return ImportResult(
        markdown.NAME,
        documents=added,
        already=bool(unchanged and not added),
        left_out=len(skipped),
        skipped=tuple(skipped[:MAX_LISTED_SKIPS]),
        dry_run=dry_run,
    )
