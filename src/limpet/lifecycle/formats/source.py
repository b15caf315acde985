"""The files of another program: one, a folder of them, or the archive they came in; and JSON read value by value."""

from __future__ import annotations

import codecs
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from limpet.documents.files import printable_path
from limpet.errors import InvalidInput
from limpet.model.dataclass import dataclass
from limpet.model.values import refuse_constant

MAX_VALUE = 268_435_456  # characters of one conversation or memory
_PIECE = 262_144
_SPACE = " \t\r\n"
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True)
class ImportSource:
    """``names`` are relative to the path; a single file has its own name."""

    path: Path
    names: tuple[str, ...]
    kind: str  # file, folder or zip
    passed_over: tuple[str, ...] = ()  # links and hidden files of a folder

    @classmethod
    def of(cls, path: Path) -> ImportSource:
        try:
            if path.is_dir():
                return cls._from_folder(path)
            os.stat(path)  # says why it cannot be read
            if path.is_file() and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    return cls(path, tuple(info.filename for info in archive.infolist() if not info.is_dir()), "zip")
        except (OSError, zipfile.BadZipFile) as error:
            raise InvalidInput(
                f"{printable_path(str(path))} cannot be read: {getattr(error, 'strerror', error)}"
            ) from error
        return cls(path, (path.name,), "file")

    @classmethod
    def _from_folder(cls, path: Path) -> ImportSource:
        names: list[str] = []
        passed: list[str] = []
        for here, folders, files in os.walk(path):
            below = Path(here).relative_to(path)
            for name in [*folders, *files]:
                place = (below / name).as_posix()
                if name.startswith(".") or os.path.islink(os.path.join(here, name)):
                    passed.append(place)
                elif name in files:
                    names.append(place)
            folders[:] = [name for name in folders if (below / name).as_posix() not in passed]
        return cls(path, tuple(sorted(names)), "folder", tuple(sorted(passed)))

    def find_json(self, *stems: str) -> list[str]:
        """Files called so wherever they lie, also in parts such as ``conversations-001.json``."""
        found = [PurePosixPath(name) for name in self.names if name.endswith(".json")]
        return sorted(str(name) for name in found if name.stem.rstrip("-0123456789") in stems)

    def open(self, name: str) -> IO[bytes]:
        try:
            if self.kind == "zip":
                with zipfile.ZipFile(self.path) as archive:
                    return archive.open(name)
            return open(self.path if self.kind == "file" else self.path / name, "rb")
        except (OSError, KeyError, RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
            raise _describe_unreadable(name, error) from error

    def iter_values(self, name: str) -> Iterator[tuple[str, Any]]:
        with self.open(name) as file:
            yield from iter_values(file, name)

    def iter_lines(self, name: str) -> Iterator[tuple[str, Any, str]]:
        with self.open(name) as file:
            yield from _iter_json_lines(file, name)

    def read_start(self, name: str, size: int) -> bytes:
        try:
            with self.open(name) as file:
                return file.read(size)
        except _UNREADABLE as error:
            raise _describe_unreadable(name, error) from None


def iter_values(file: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """The values of a list one by one with their places, without holding it; of anything else the one value."""
    reader = _ValueReader(file, name)
    if not reader.enter_list():
        yield name, reader.read_value()
        reader.expect_end()
        return
    number = 0
    while reader.next_item(first=number == 0):
        yield f"{name}[{number}]", reader.read_value()
        number += 1
    reader.expect_end()


class _ValueReader:
    """Text that is read as far as one value needs it."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._json = json.JSONDecoder(parse_constant=refuse_constant)
        self._text, self._at, self._ended = "", 0, False

    def enter_list(self) -> bool:
        if self._peek() != "[":
            return False
        self._at += 1
        return True

    def next_item(self, *, first: bool) -> bool:
        mark = self._peek()
        if mark == "]":
            self._at += 1
            return False
        if not first:
            if mark != ",":
                raise self._syntax_error("a comma is missing")
            self._at += 1
        return True

    def read_value(self) -> Any:
        self._peek()
        size = _PIECE
        while True:
            try:
                found, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._syntax_error("it is nested too deeply") from None
            except ValueError as error:
                if self._ended or len(self._text) - self._at > MAX_VALUE:
                    raise self._syntax_error(str(error)) from None
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return found
            self._read_more(size)
            size *= 2  # a value that is parsed again each time it has grown costs twice its length, not its square

    def expect_end(self) -> None:
        if self._peek():
            raise self._syntax_error("something stands behind its end")

    def _peek(self) -> str:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read_more(_PIECE)

    def _read_more(self, size: int) -> None:
        try:
            data = self._file.read(size)
            self._ended = len(data) == 0
            self._text = self._text[self._at :] + self._decode(data, self._ended)
            self._at = 0
        except (*_UNREADABLE, UnicodeDecodeError) as error:
            raise self._syntax_error(str(error)) from None

    def _syntax_error(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{printable_path(self._name)} is not JSON: {reason}")


def _iter_json_lines(file: IO[bytes], name: str) -> Iterator[tuple[str, Any, str]]:
    """Each line's place, its value, and why there is none."""
    number = 0
    while raw := _read_line(file, name):
        number += 1
        if len(raw) > MAX_VALUE:
            raise InvalidInput(f"{printable_path(name)}, line {number}: it is longer than {MAX_VALUE:,} bytes")
        if not raw.strip():
            continue
        try:
            yield f"{name}, line {number}", json.loads(raw.decode("utf-8-sig"), parse_constant=refuse_constant), ""
        except (ValueError, RecursionError) as error:
            yield f"{name}, line {number}", None, f"it is not JSON: {error}"


def _describe_unreadable(name: str, error: Exception) -> InvalidInput:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return InvalidInput(f"{printable_path(name)} cannot be read: {reason}")


def _read_line(file: IO[bytes], name: str) -> bytes:
    try:
        return file.readline(MAX_VALUE + 1)
    except _UNREADABLE as error:
        raise _describe_unreadable(name, error) from None
