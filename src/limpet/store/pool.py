"""Connections that several threads use, each serving one at a time: to read, and on a server to write."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, get_ident
from typing import TypeVar

from limpet.errors import StoreUnavailable
from limpet.model.scope import Partition
from limpet.store.tx import Connection, Tx
from limpet.store.writer import Writer

T = TypeVar("T")


class _Place:
    """The right to use one connection. One that is dropped, by an interrupt at any line, comes back as a new one.

    So the queue has as many as it began with, whatever happens between taking one and giving it back.
    """

    __slots__ = ("_free",)

    def __init__(self, free: weakref.ref[SimpleQueue[_Place]]) -> None:
        self._free = free

    def __del__(self) -> None:
        free = self._free() if hasattr(self, "_free") else None  # an interrupt may come while one is made
        if free is not None:
            free.put(_Place(self._free))


class ConnectionPool:
    """Connections, made when needed and kept."""

    def __init__(self, make: Callable[[], Connection], places: int) -> None:
        self._make = make
        self._idle: list[Connection] = []
        self._places = places
        # Its methods are C: an interrupt cannot leave it half changed, as it can a lock that is written in Python.
        self._free: SimpleQueue[_Place] = SimpleQueue()
        for _ in range(places):
            self._free.put(_Place(weakref.ref(self._free)))
        self._closed = False

    def use(self, action: Callable[[Connection], T]) -> T:
        place = self._free.get()
        try:
            answer = self._use(action)
        except BaseException:  # why: whatever it was, the place is free again; it goes on as it came
            self._free.put(place)
            raise
        self._free.put(place)
        return answer

    def _use(self, action: Callable[[Connection], T]) -> T:
        connection = self._acquire()
        try:
            answer = action(connection)
        except Exception:  # why: whatever the work raised, its connection is sound and serves the next one
            self._release(connection)
            raise
        except BaseException:  # why: an interrupt may come at any line: nobody knows what the connection is at
            connection.close()
            raise
        self._release(connection)
        return answer

    def _acquire(self) -> Connection:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _release(self, connection: Connection) -> None:
        self._idle.append(connection)
        if self._closed:  # looked at afterwards: whoever closes them meanwhile finds this one or is found here
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # each is taken by one thread only
            while True:
                self._idle.pop().close()


class ReaderPool(ConnectionPool):
    def read(self, work: Callable[[Tx], T]) -> T:
        return self.use(lambda connection: connection.snapshot(work))


class WriterPool(ConnectionPool):
    """For a server whose own locks keep writers apart, and which commits several of them at once."""

    def __init__(
        self,
        make: Callable[[], Connection],
        places: int,
        first: Connection | None = None,
        note_write: Callable[[Collection[Partition]], None] | None = None,
    ) -> None:
        super().__init__(make, places)
        self._idle += [] if first is None else [first]
        self._writers: dict[int, Writer] = {}  # by the thread that writes
        self._closing = Lock()
        self._note_write = note_write  # is given the partitions of each transaction that ended

    def write(self, work: Callable[[Tx], T], *, exclusive: bool = False) -> T:
        """As ``Writer.write``, without a group."""
        self.refuse_nesting()
        return self.use(lambda connection: self._write(connection, work, exclusive=exclusive))

    def _write(self, connection: Connection, work: Callable[[Tx], T], *, exclusive: bool) -> T:
        thread, writer = get_ident(), Writer(connection, 1)
        self._writers[thread] = writer
        try:
            return writer.write(work, exclusive=exclusive)
        finally:
            self._writers.pop(thread, None)
            if self._note_write is not None:
                self._note_write(connection.tx.locked)

    def refuse_nesting(self) -> None:
        writer = self._writers.get(get_ident())
        if writer is not None:
            writer.refuse_nesting()

    def close(self) -> None:
        """Finish what was begun, then refuse."""
        self.refuse_nesting()
        with self._closing:  # two that close at once would each hold some of the places, and wait for the others'
            held = [] if self._closed else [self._free.get() for _ in range(self._places)]
            super().close()
            for place in held:
                self._free.put(place)
