"""Documents on disk: their names, which files a folder holds, their bytes, and the text and title in them."""

from __future__ import annotations

import encodings.utf_16  # noqa: F401 - a codec is imported at its first use, where an interrupt may come
import io
import logging
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from limpet.errors import InvalidInput, InvalidKey, Unsupported
from limpet.model.document import DocumentKind, check_uri
from limpet.model.late import load_modules
from limpet.model.values import replace_unstorable

if TYPE_CHECKING:
    from pypdf import PdfReader

log = logging.getLogger("limpet.documents")

# A file that does not begin with text is not read further.
_BEGINNING = 8192
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_HEADING = re.compile(r"\s*#[ \t]+([^\n]*?)[ \t#]*(?:\r?\n|$)")
_LONGEST_TITLE = 500


class BinaryFile(Unsupported):
    """A file without text: skipped in a folder, rejected when it was named."""


def path_to_uri(path: str) -> str:
    """Return the absolute ``file://`` uri. Bytes that are not UTF-8 become ``%XX``, like other special characters."""
    try:
        return check_uri(Path(os.path.abspath(path)).as_uri())
    except (OSError, InvalidKey) as error:
        raise InvalidInput(f"{printable_path(path)} cannot be a document: {error}") from error


def uri_to_path(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidInput(f"{uri} is not a valid uri: {error}") from None
    if parts.netloc not in ("", "localhost"):
        raise InvalidInput(f"{uri} is on another machine; give the document's text itself")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path or "\x00" in path:
        raise InvalidInput(f"{uri} names no file")
    return path[1:] if os.name == "nt" else path


def printable_path(path: str) -> str:
    """Return a path that can be printed and logged, whatever bytes its name has."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def read_file(path: str, max_bytes: int, *, any_bytes: bool) -> bytes:
    """Return the whole file. Without ``any_bytes``, a file that is not text is rejected after its first bytes."""
    name = printable_path(path)
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise InvalidInput(f"{name} is not a plain file")
            beginning = file.read(_BEGINNING)
            if not any_bytes and b"\x00" in beginning and not beginning.startswith(_UTF16):
                raise BinaryFile(f"{name} is not text; documents are text, Markdown, HTML, PDF and source code")
            # The file may grow while it is read: the bytes that were read count, not its size.
            data = beginning + file.read(max(0, max_bytes + 1 - len(beginning)))
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > max_bytes:
        size = max(facts.st_size, len(data))
        raise InvalidInput(f"{name} is {size:,} bytes long; the limit is {max_bytes:,} (documents.max_file_bytes)")
    return data


def _open_nonblocking(path: str, flags: int) -> int:
    """A pipe without a writer must not block."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def decode_text(data: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte order mark, or UTF-16 with one."""
    marked = data.startswith(_UTF16)
    try:
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unsupported(f"{name} is not {'UTF-16' if marked else 'UTF-8'} text (byte {error.start})") from None
    if "\x00" in text:
        raise BinaryFile(f"{name} is not text: it has a NUL character at position {text.index(chr(0))}")
    return text


def list_files(folder: str) -> list[str]:
    """Return every plain file in the folder and its subfolders, sorted, without hidden files and links.

    A link may lead in a circle, or to another user's files.
    """
    found: list[str] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.is_symlink():
                        log.info("%s is skipped: it is hidden or a link", printable_path(entry.path))
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        found.append(entry.path)
        except OSError as error:
            if here == folder:
                raise InvalidInput(f"{printable_path(here)} cannot be read: {error.strerror}") from error
            log.warning("%s is left out: %s", printable_path(here), error.strerror)
    return sorted(found)


class DocumentText(NamedTuple):
    text: str
    title: str | None = None


def extract(data: bytes, kind: DocumentKind, name: str) -> DocumentText:
    if kind is DocumentKind.PDF:
        text, title = extract_pdf_text(data, name)
        return DocumentText(text, _collapse_title(title))
    text = decode_text(data, name)
    if kind is DocumentKind.HTML:
        load_modules("limpet.documents.html_text")
        from limpet.documents.html_text import extract_html_text  # late: few documents are HTML

        text, title = extract_html_text(text)
        return DocumentText(text, _collapse_title(title))
    return extract_plain_text(text, kind)


def extract_plain_text(text: str, kind: DocumentKind) -> DocumentText:
    """Return plain text as it is. Markdown that begins with a heading has a title."""
    heading = _HEADING.match(text) if kind is DocumentKind.MARKDOWN else None
    return DocumentText(text, _collapse_title(heading[1]) if heading else None)


def _collapse_title(title: str | None) -> str | None:
    return " ".join((title or "").split())[:_LONGEST_TITLE] or None


def extract_pdf_text(data: bytes, name: str) -> tuple[str, str | None]:
    """Return the text of all pages, and the title in the file. Needs the extra ``pdf``."""
    load_modules("pypdf")
    try:
        from pypdf import PdfReader
    except ImportError:
        raise Unsupported(f'{name} is a PDF, which needs a package: pip install "limpet[pdf]"') from None
    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
        title = None if locked else _read_title(reader)
    except Exception as error:  # why: for a broken file the reader may raise anything
        raise InvalidInput(f"{name} is a PDF that cannot be read: {error}") from error
    if locked:
        raise InvalidInput(f"{name} is encrypted; save it without its password first")
    text = replace_unstorable("\n\n".join(filter(None, map(str.strip, pages)))).strip()
    if not text:
        raise InvalidInput(f"{name} contains no text, perhaps only images; run text recognition (OCR) first")
    return text, None if title is None else replace_unstorable(title)


def _read_title(reader: PdfReader) -> str | None:
    about = reader.metadata
    return None if about is None or not isinstance(about.title, str) else about.title
