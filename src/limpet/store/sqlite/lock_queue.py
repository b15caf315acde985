"""The order in which processes get a database's write lock: first come, first served.

SQLite has no such order. A process that looks when the lock happens to be free gets it, and sleeps longer and longer
between two looks, so that processes that have just come overtake one that has waited long.

Beside the database is a small file with a place for each process that waits: since when, and when it looked last. Only
the one that came first tries to take the lock. Nobody locks that file. A process that has not looked for a while is
skipped: it was killed, stopped or gets no processor. If it looks again, it has its old place. So no interrupt, kill or
fork can leave anybody stuck, and a program that does not know the file takes its chance as it always did.

The time limit is for a lock that does not move. A process notes when it gets its turn, and those behind it count from
there. A holder may also wait for a disk that stalls; see _wait_for_disk.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns, sleep
from typing import TypeVar

from limpet.errors import StoreBusy
from limpet.store.files import read_at, write_at
from limpet.store.writer import yield_to_fork

T = TypeVar("T")

_PLACE = struct.Struct("<QQ")  # waits since, looked last: nanoseconds of the machine's monotonic clock
_PLACES = 64  # those beyond wait too, unseen by others
_SIZE = _PLACES * _PLACE.size
_EMPTY = bytes(_SIZE)
_TAKEN = struct.Struct("<Q")  # behind the places: when the last one that waited got the lock
_GONE_NS = 200_000_000  # without a look for so long, one is passed over
_STEP_S = 0.0003  # between two looks of the first; each one behind it looks more seldom
_MAX_STEPS = 10


class LockQueue:
    """One thread at a time waits by it; two that wait at once have one each."""

    def __init__(self, database: str) -> None:
        self._file = _open(os.path.realpath(database))

    def take_turn(self, attempt: Callable[[], T], timeout_s: float) -> T:
        """The attempt's answer, once it is not refused with StoreBusy; that is raised when the time is over."""
        if not timeout_s:
            return attempt()
        if not self._find_waiting():
            with suppress(StoreBusy):
                return attempt()
        place, since = None, monotonic_ns()
        half, start, is_second_half = int(timeout_s * 1e9 / 2), since, False
        try:
            while True:
                place, ahead = self._look(since, place)
                if start < (taken := self._find_taken()):
                    start, is_second_half = taken, False
                is_over = monotonic_ns() > start + half
                if is_over and not is_second_half:
                    self._wait_for_disk()
                    moved = start < self._find_taken()  # while this one waited for the disk
                    start, is_second_half, is_over = monotonic_ns(), not moved, False
                if not ahead or is_over:
                    try:
                        return self._note_taken(attempt())
                    except StoreBusy:
                        if is_over:
                            raise
                sleep(_STEP_S * min(1 + ahead, _MAX_STEPS))
                yield_to_fork()
        finally:
            if place is not None:
                self._write(place * _PLACE.size, _PLACE.pack(0, 0))

    def close(self) -> None:
        file, self._file = self._file, -1
        if file != -1:
            os.close(file)

    def _look(self, since: int, place: int | None) -> tuple[int | None, int]:
        """Note that this one waits still. Where that is noted, and how many came before it."""
        waiting = self._find_waiting()
        if waiting.get(place, since) != since:  # two took one place
            place = None
        if place is None:
            place = next((number for number in range(_PLACES) if number not in waiting), None)
        if place is not None:
            self._write(place * _PLACE.size, _PLACE.pack(since, monotonic_ns()))
        return place, sum(other < since for other in waiting.values())

    def _find_waiting(self) -> dict[int | None, int]:
        """By their place, since when those wait who are there still."""
        found = self._read(0, _SIZE)
        if found == _EMPTY:
            return {}
        now, used = monotonic_ns(), found.rstrip(b"\0")
        places = enumerate(_PLACE.iter_unpack(used.ljust(-(-len(used) // _PLACE.size) * _PLACE.size, b"\0")))
        return {place: since for place, (since, looked) in places if looked and 0 <= now - looked < _GONE_NS}

    def _find_taken(self) -> int:
        found = self._read(_SIZE, _TAKEN.size)
        taken: int = _TAKEN.unpack(found)[0] if len(found) == _TAKEN.size else 0
        return taken if taken <= monotonic_ns() else 0  # from before the machine was started again

    def _note_taken(self, answer: T) -> T:
        self._write(_SIZE, _TAKEN.pack(monotonic_ns()))
        return answer

    def _wait_for_disk(self) -> None:
        """Until the disk answers. While it stalls, the holder's commit waits for it, and so would this one's."""
        with suppress(OSError):
            os.fsync(self._file)

    def _read(self, start: int, size: int) -> bytes:
        try:
            return read_at(self._file, start, size)
        except OSError:
            return b""

    def _write(self, start: int, entry: bytes) -> None:
        with suppress(OSError):  # a full disk: others do not see this one wait
            write_at(self._file, start, entry)


def _open(database: str) -> int:
    """Open for those who may open the database. Where that fails there is no order: nothing stays on /dev/null."""
    path = f"{database}-queue"
    try:
        mode = stat.S_IMODE(os.stat(database).st_mode)
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), mode)
    except OSError:
        return os.open(os.devnull, os.O_RDWR)
    with suppress(OSError):  # another account's, or a full disk
        os.chmod(path, mode)
        if os.fstat(file).st_size < _SIZE:
            write_at(file, 0, _EMPTY)
    return file
