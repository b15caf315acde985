"""A network in front of PostgreSQL that fails at the worst moment: around a COMMIT."""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

Moment = Literal["before", "after", "late"]
_PARSE = re.compile(rb"P.{4}([^\x00]*)\x00COMMIT\x00", re.DOTALL)
_QUERY = re.compile(rb"Q.{4}(?:[^\x00]*;\s)?COMMIT\x00", re.DOTALL)


class LossyNetwork:
    """Passes everything on, but cuts a connection at every ``every``-th COMMIT, then turns ``refusals`` callers away.

    ``before``: the COMMIT never reaches the server. ``after``: it is carried out, and only the answer is lost.
    ``late``: it arrives when the client has long been cut off. Nobody gets through while ``meanwhile`` runs.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        moment: Moment,
        every: int,
        refusals: int = 0,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self.url = urlunsplit(parts._replace(query=f"host={quote(str(folder), safe='')}&port=5432"))
        self._moment, self._every, self._refusals, self._meanwhile = moment, every, refusals, meanwhile
        self._lock = threading.Lock()
        self._commits = 0
        self._to_refuse = 0
        self._down = False
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(100)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._turns_away():
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._threads.append(threading.Thread(target=self._carry, args=(client, server)))
            self._threads[-1].start()

    def _turns_away(self) -> bool:
        with self._lock:
            self._to_refuse -= 1
            return self._to_refuse >= 0 or self._down

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as ready, suppress(ConnectionError):
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            commits = Commits()
            while True:
                for key, _ in ready.select():
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    if key.fileobj is client and commits.are_in(data) and self._strikes():
                        self._lose(client, server, data)
                        return
                    key.data.sendall(data)

    def _lose(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        if self._moment == "late":
            client.close()
            time.sleep(0.1)
        if self._moment != "before":
            server.sendall(data)
            server.recv(1 << 16)
        if self._meanwhile is not None:
            client.close()
            self._meanwhile()
            self._down = False

    def _strikes(self) -> bool:
        with self._lock:
            self._commits += 1
            if self._commits % self._every:
                return False
            self.cuts += 1
            self._to_refuse = self._refusals
            self._down = self._meanwhile is not None
            return True


class Commits:
    """Finds COMMIT in what a client sends: as text, or under the name the driver prepared it by."""

    def __init__(self) -> None:
        self._prepared: set[bytes] = set()

    def are_in(self, data: bytes) -> bool:
        parsed = _PARSE.findall(data)
        self._prepared.update(filter(None, parsed))  # which does not carry it out yet
        bound = any(re.search(rb"B.{4}\x00" + re.escape(name) + rb"\x00", data, re.DOTALL) for name in self._prepared)
        return bool(b"" in parsed or bound or _QUERY.search(data))
