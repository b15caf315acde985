"""Overwriting what SQLite leaves in unused places of its file.

``secure_delete`` overwrites rows that are deleted and pages that are freed. It misses one place: when pages are
balanced again, the space between a page's list of cells and its cells keeps copies of cells that stood there before
(``rebuildPage`` in SQLite's btree.c), maybe of rows that are deleted later, elsewhere. That space, free blocks inside
pages and free pages are set to zero here, where they stand. SQLite reads none of it, so that a crash in the middle, or
somebody who reads meanwhile, finds the same database.

Meanwhile nobody else may write: a transaction holds the write lock, and the log is copied back whole. It commits a
change of its own at the end, so that every other connection drops the pages it remembers and cannot write the old
bytes back.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

from limpet.errors import StoreBusy
from limpet.store.files import read_at, write_at
from limpet.store.sqlite.lock_queue import LockQueue
from limpet.store.writer import yield_to_fork

_TREE_PAGES = {2: 12, 5: 12, 10: 8, 13: 8}  # the first byte of a page of a tree, and how long its header is
# From so many pages on, the first byte of an overflow page may be taken for that of a tree.
_MAX_PAGES = 1 << 25
_SLICE = 8192  # pages looked at while others wait to write
_MAX_WAIT_S = 2.0
_ZEROS = bytes(65536)


class FileRegistry:
    """A database file as bytes. Closing a file drops every lock the process has on it, SQLite's too, so that each is
    opened once and stays open as long as any store of this process uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[tuple[int, int], int] = {}
        self._opened: dict[tuple[int, int], int] = {}

    def acquire(self, path: str) -> tuple[int, int]:
        found = os.stat(path)
        key = (found.st_dev, found.st_ino)
        with self._lock:
            self._users[key] = self._users.get(key, 0) + 1
        return key

    def release(self, key: tuple[int, int]) -> None:
        """After the store's connections are closed."""
        with self._lock:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                descriptor = self._opened.pop(key, None)
                if descriptor is not None:
                    os.close(descriptor)

    def open_descriptor(self, key: tuple[int, int], path: str) -> int:
        with self._lock:
            if key not in self._opened:
                self._opened[key] = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            return self._opened[key]


FILES = FileRegistry()


class _FileHeader(NamedTuple):
    page_size: int
    usable: int
    pages: int
    first_free: int
    has_map: bool

    def is_pointer_map(self, page: int) -> bool:
        """Pages that say where others belong; only in files made with auto_vacuum."""
        return self.has_map and page >= 2 and (page - 2) % (self.usable // 5 + 1) == 0


def scrub(path: str, key: tuple[int, int], busy_timeout_s: float) -> int | None:
    """How many places were overwritten; None for a file that is too large to be sure of. Raises StoreBusy."""
    descriptor = FILES.open_descriptor(key, path)
    with closing(connect(path, busy_timeout_s)) as holder, closing(connect(path)) as copier:
        done, page = 0, 1
        while True:
            _lock_and_checkpoint(holder, copier, path, busy_timeout_s)
            try:
                shape = _read_header(descriptor)
                if shape.pages >= _MAX_PAGES:
                    return None
                if page == 1:
                    done += _scrub_free(descriptor, shape)
                last = min(shape.pages, page + _SLICE - 1)
                done += _scrub_pages(descriptor, shape, page, last)
                os.fsync(descriptor)
                # Others must drop the pages they remember: a commit is what tells them.
                holder.execute(
                    "INSERT INTO properties (name, value) VALUES ('scrubbed', '1')"
                    " ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) % 1000 + 1 AS TEXT)"
                )
                holder.execute("COMMIT")
            finally:
                if holder.in_transaction:
                    holder.execute("ROLLBACK")
            if last >= shape.pages:
                return done
            page = last + 1
            yield_to_fork()


def truncate_wal(raw: sqlite3.Connection, patience_s: float = _MAX_WAIT_S) -> bool:
    """Copy the log back and leave it empty. False while somebody reads from it.

    Emptying it takes the write lock. So the copying is done before, and nobody is waited for with the lock held.
    """
    deadline = time.monotonic() + patience_s
    raw.execute("PRAGMA busy_timeout = 0")
    while True:
        busy = True
        with suppress(sqlite3.OperationalError):
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)")
            busy = bool(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        if not busy or time.monotonic() > deadline:
            return not busy
        time.sleep(0.02)
        yield_to_fork()


def connect(path: str, timeout_s: float = 0.1) -> sqlite3.Connection:
    raw = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA secure_delete = ON")
    raw.execute("PRAGMA wal_autocheckpoint = 0")
    return raw


def _lock_and_checkpoint(
    holder: sqlite3.Connection, copier: sqlite3.Connection, path: str, busy_timeout_s: float
) -> None:
    """Nobody writes until the holder's transaction ends, and the log is empty: a page in it would be read instead of
    the one in the file, old bytes and all."""
    deadline = time.monotonic() + _MAX_WAIT_S
    while time.monotonic() < deadline:
        if is_wal_mode(copier) and not truncate_wal(copier, _MAX_WAIT_S):
            break
        execute_in_turn(holder, "BEGIN IMMEDIATE", path, busy_timeout_s)
        if not is_wal_mode(copier):
            return
        busy, frames, _ = copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if not busy and not frames:
            return
        holder.execute("ROLLBACK")  # somebody was quicker
    raise StoreBusy(f"another process reads an old view of {path}; try again later")


def execute_in_turn(raw: sqlite3.Connection, statement: str, path: str, timeout_s: float) -> None:
    """Run a statement that takes the write lock. Without a log it waits for readers, too, as SQLite does."""

    def attempt() -> None:
        try:
            raw.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StoreBusy(f"{path} is written by another process; try again later") from error

    if not is_wal_mode(raw):
        attempt()
        return
    raw.execute("PRAGMA busy_timeout = 0")
    with closing(LockQueue(path)) as queue:
        queue.take_turn(attempt, timeout_s)


def is_wal_mode(raw: sqlite3.Connection) -> bool:
    return bool(raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def _read_header(descriptor: int) -> _FileHeader:
    head = read_at(descriptor, 0, 100)
    page_size = struct.unpack_from(">H", head, 16)[0]
    page_size = 65536 if page_size == 1 else page_size
    # The header's own count may be older than the file.
    pages = os.fstat(descriptor).st_size // page_size
    first_free, has_map = struct.unpack_from(">I", head, 32)[0], struct.unpack_from(">I", head, 52)[0] > 0
    return _FileHeader(page_size, page_size - head[20], pages, first_free, has_map)


def _scrub_free(descriptor: int, shape: _FileHeader) -> int:
    done, trunk, seen = 0, shape.first_free, set[int]()
    while trunk and trunk not in seen:
        seen.add(trunk)
        data = read_at(descriptor, (trunk - 1) * shape.page_size, shape.page_size)
        following, count = struct.unpack_from(">II", data)
        for leaf in struct.unpack_from(f">{min(count, shape.usable // 4 - 2)}I", data, 8):
            if 1 < leaf <= shape.pages:
                done += _zero_range(descriptor, (leaf - 1) * shape.page_size, 0, shape.page_size)
        trunk = following
    return done


def _scrub_pages(descriptor: int, shape: _FileHeader, first: int, last: int) -> int:
    size, done, at_once = shape.page_size, 0, 512
    for start in range(first, last + 1, at_once):
        count = min(at_once, last + 1 - start)
        data = read_at(descriptor, (start - 1) * size, count * size)
        for number in range(start, start + len(data) // size):
            at = (number - start) * size
            head = 100 if number == 1 else 0
            if data[at + head] in _TREE_PAGES and not shape.is_pointer_map(number):
                for low, high in list(_find_free_ranges(data[at : at + size], head, shape)):
                    write_at(descriptor, (number - 1) * size + low, _ZEROS[: high - low])
                    done += 1
    return done


def _find_free_ranges(page: bytes, head: int, shape: _FileHeader) -> Iterator[tuple[int, int]]:
    """Ranges that belong to no cell and are not zero; none of a page that does not read as one of a tree."""
    free, cells, content, _ = struct.unpack_from(">HHHB", page, head + 1)
    content = content or 65536
    low = head + _TREE_PAGES[page[head]] + 2 * cells
    if not low <= content <= shape.usable:
        return
    dirty = page[low:content] != _ZEROS[: content - low]
    if not dirty and not free:
        return
    pointers = struct.unpack_from(f">{cells}H", page, low - 2 * cells)
    if pointers and not content <= min(pointers) <= max(pointers) < shape.usable:
        return
    if dirty:
        yield low, content
    while free and content <= free <= shape.usable - 4:
        following, size = struct.unpack_from(">HH", page, free)
        end = free + size
        if size < 4 or end > shape.usable or (following and following < end):
            return
        if page[free + 4 : end] != _ZEROS[: size - 4]:
            yield free + 4, end
        free = following


def _zero_range(descriptor: int, place: int, low: int, high: int) -> int:
    if read_at(descriptor, place + low, high - low) == _ZEROS[: high - low]:
        return 0
    write_at(descriptor, place + low, _ZEROS[: high - low])
    return 1
