"""URL opening with one deadline for the whole answer and without redirects.

Imported late: the standard library modules it needs are slow to load.
"""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener


def make_opener(until: float) -> OpenerDirector:
    """``until`` is a time of the monotonic clock; reading after it raises TimeoutError."""
    return build_opener(_NoRedirect, _DeadlineHttpHandler(until), _DeadlineHttpsHandler(until))


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are rejected: the headers contain a key, and a redirected POST means a wrong address."""

    def redirect_request(self, *args: object) -> None:
        return None


class _DeadlineHttpHandler(HTTPHandler):
    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(lambda *args, **options: set_deadline(HTTPConnection(*args, **options), self._until), req)


class _DeadlineHttpsHandler(HTTPSHandler):
    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(lambda *args, **options: set_deadline(HTTPSConnection(*args, **options), self._until), req)


def set_deadline(connection: HTTPConnection, until: float) -> HTTPConnection:
    class Response(HTTPResponse):
        def __init__(self, sock: socket, *args: Any, **options: Any) -> None:
            super().__init__(sock, *args, **options)
            self.fp.close()
            self.fp = BufferedReader(_DeadlineReader(sock, until))

    connection.response_class = Response
    return connection


class _DeadlineReader(RawIOBase):
    """Enforces one deadline. A socket timeout applies to each read, so a slow stream of bytes could block forever."""

    def __init__(self, sock: socket, until: float) -> None:
        super().__init__()
        self._socket = sock
        self._bytes = sock.makefile("rb", buffering=0)
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._socket.settimeout(remaining)
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()
