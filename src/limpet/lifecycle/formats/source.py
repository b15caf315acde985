"""The files of another program: one, a folder of them, or the archive they came in; and JSON read value by value."""

from __future__ import annotations

import codecs
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn

from limpet.documents.files import readable
from limpet.errors import InvalidInput

MAX_VALUE = 268_435_456  # characters of one conversation or memory
_PIECE = 262_144
_SPACE = " \t\r\n"
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True)
class Source:
    """``names`` are relative to the path; a single file has its own name."""

    path: Path
    names: tuple[str, ...]
    kind: str  # file, folder or zip
    passed_over: tuple[str, ...] = ()  # links and hidden files of a folder

    @classmethod
    def of(cls, path: Path) -> Source:
        try:
            if path.is_dir():
                return cls._folder(path)
            os.stat(path)  # says why it cannot be read
            if path.is_file() and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    return cls(path, tuple(info.filename for info in archive.infolist() if not info.is_dir()), "zip")
        except (OSError, zipfile.BadZipFile) as error:
            raise InvalidInput(f"{readable(str(path))} cannot be read: {getattr(error, 'strerror', error)}") from error
        return cls(path, (path.name,), "file")

    @classmethod
    def _folder(cls, path: Path) -> Source:
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

    def named(self, *stems: str) -> list[str]:
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
            raise InvalidInput(f"{readable(name)} cannot be read: {error}") from error

    def beginning(self, name: str, size: int) -> bytes:
        try:
            with self.open(name) as file:
                return file.read(size)
        except _UNREADABLE as error:
            raise InvalidInput(f"{readable(name)} cannot be read: {error}") from None


def values(file: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """The values of a list one by one with their places, without holding it; of anything else the one value."""
    reader = _Values(file, name)
    if not reader.begins_list():
        yield name, reader.value()
        reader.end()
        return
    number = 0
    while reader.has_another(first=number == 0):
        yield f"{name}[{number}]", reader.value()
        number += 1
    reader.end()


class _Values:
    """Text that is read as far as one value needs it."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._json = json.JSONDecoder(parse_constant=_refuse)
        self._text, self._at, self._ended = "", 0, False

    def begins_list(self) -> bool:
        if self._peek() != "[":
            return False
        self._at += 1
        return True

    def has_another(self, *, first: bool) -> bool:
        mark = self._peek()
        if mark == "]":
            self._at += 1
            return False
        if not first:
            if mark != ",":
                raise self._broken("a comma is missing")
            self._at += 1
        return True

    def value(self) -> Any:
        self._peek()
        size = _PIECE
        while True:
            try:
                found, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._broken("it is nested too deeply") from None
            except ValueError as error:
                if self._ended or len(self._text) - self._at > MAX_VALUE:
                    raise self._broken(str(error)) from None
            else:
                if end < len(self._text) or self._ended:
                    self._at = end
                    return found
            self._more(size)
            size *= 2  # a value that is parsed again each time it has grown costs twice its length, not its square

    def end(self) -> None:
        if self._peek():
            raise self._broken("something stands behind its end")

    def _peek(self) -> str:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more(_PIECE)

    def _more(self, size: int) -> None:
        try:
            data = self._file.read(size)
            self._ended = len(data) == 0
            self._text = self._text[self._at :] + self._decode(data, self._ended)
            self._at = 0
        except (*_UNREADABLE, UnicodeDecodeError) as error:
            raise self._broken(str(error)) from None

    def _broken(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{readable(self._name)} is not JSON: {reason}")


def json_lines(file: IO[bytes], name: str) -> Iterator[tuple[str, Any, str]]:
    """Each line's place, its value, and why there is none."""
    number = 0
    while raw := _line(file, name):
        number += 1
        if len(raw) > MAX_VALUE:
            raise InvalidInput(f"{readable(name)}, line {number}: it is longer than {MAX_VALUE:,} bytes")
        if not raw.strip():
            continue
        try:
            yield f"{name}, line {number}", json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse), ""
        except (ValueError, RecursionError) as error:
            yield f"{name}, line {number}", None, f"it is not JSON: {error}"


def _line(file: IO[bytes], name: str) -> bytes:
    try:
        return file.readline(MAX_VALUE + 1)
    except _UNREADABLE as error:
        raise InvalidInput(f"{readable(name)} cannot be read: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
