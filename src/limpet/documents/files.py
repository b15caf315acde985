"""Documents on disk: their names, which files a folder holds, and their bytes."""

from __future__ import annotations

import encodings.utf_16  # noqa: F401 - a codec is imported at its first use, where an interrupt may come
import logging
import os
import stat
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from limpet.errors import InvalidInput, InvalidKey, Unsupported
from limpet.model.document import check_uri

log = logging.getLogger("limpet.documents")

# A file that does not begin with text is not read further.
_BEGINNING = 8192
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class BinaryFile(Unsupported):
    """A file without text: skipped in a folder, rejected when it was named."""


def path_to_uri(path: str) -> str:
    """Return the absolute ``file://`` uri. Bytes that are not UTF-8 become ``%XX``, like other special characters."""
    try:
        return check_uri(Path(os.path.abspath(path)).as_uri())
    except (OSError, InvalidKey) as error:
        raise InvalidInput(f"{printable_path(path)} cannot be a document: {error}") from error


def uri_to_path(uri: str) -> str:
    """Return the path of a ``file:`` uri."""
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
