"""Requests to one Limpet server: bounded in time and size, over connections that stay open, and never led elsewhere."""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from selectors import EVENT_READ, DefaultSelector
from threading import Lock
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from limpet import errors
from limpet.errors import InvalidInput, LimpetError, OutcomeUnknown, StorageError, StoreUnavailable
from limpet.providers.http import describe_redirect, read_pieces, retry_after, set_deadline

MAX_ANSWER_BYTES = 256 << 20
PIECE = 1 << 18
_CONNECT_S = 10.0
_LONG_S = 600.0  # for a stream's next piece: the server writes all of an export before it sends its first byte
_IDLE_S = 15.0  # the server closes a connection after 30 quiet seconds
_MAX_IDLE = 16
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.1
_PASSING = frozenset({429, 502, 503, 504})
_KEY = re.compile(r"[!-~]{1,500}")
_CLOSED = "this client is closed; connect again"
# Codes of the server itself, which no operation raises.
_OF_SERVER: dict[str, type[errors.LimpetError]] = {
    "too_many_requests": errors.StoreBusy,
    "too_many_streams": errors.StoreBusy,
    "overloaded": errors.StoreBusy,
    "too_slow": errors.StoreUnavailable,
    "too_large": errors.InvalidInput,
    "invalid_json": errors.InvalidInput,
    "wrong_media_type": errors.InvalidInput,
    "wrong_host": errors.ConfigError,
    "wrong_origin": errors.ConfigError,
    "wrong_method": errors.Unsupported,
    "internal_error": errors.StorageError,
}


class Address(NamedTuple):
    """Where a server listens."""

    scheme: str
    host: str
    port: int | None
    prefix: str  # of every path, for a server behind a proxy; "" or "/memory"

    @classmethod
    def parse(cls, url: object) -> Address:
        if not isinstance(url, str):
            raise InvalidInput(f"url must be an address such as http://127.0.0.1:8420, not {type(url).__name__}")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidInput(f"{url!r} is not an address: {error}") from None
        if parts.username is not None or parts.password is not None:
            raise InvalidInput("the address must not contain a password; give the API key as key=")
        if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\x00-\x1f]", url):
            raise InvalidInput(f"{url!r} is not an address such as http://127.0.0.1:8420; Limpet.open opens folders")
        if parts.query or parts.fragment:
            raise InvalidInput(f"{url!r} has a part after ? or #; leave it out")
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{'' if self.port is None else f':{self.port}'}{self.prefix}"


class Request(NamedTuple):
    """One request. ``is_repeatable``: sending it twice does what sending it once does."""

    method: str
    path: str  # with the query
    body: bytes | BinaryIO | None = None
    headers: Mapping[str, str] = {}
    is_repeatable: bool = False


class Client:
    """Safe to share between threads: each request takes a connection of its own."""

    def __init__(self, address: Address, key: str | None, timeout: float) -> None:
        given: object = key
        if given is not None and not (isinstance(given, str) and _KEY.fullmatch(given)):
            raise InvalidInput("key must be an API key, as `limpet api-keys create` prints it")
        self.address = address
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "limpet"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._idle: deque[tuple[HTTPConnection, float]] = deque()
        self._lock = Lock()
        self._pid = os.getpid()
        self._closed = False

    def send(self, request: Request) -> Any:
        """The JSON of the answer, whole and within the time limit. Raises the error that the server answered with.

        A request that may be repeated is, within the time limit, where the server cannot be reached or is busy.
        """
        until = time.monotonic() + self._timeout
        for attempt in range(_ATTEMPTS):
            pause = _FIRST_PAUSE_S * 2**attempt
            try:
                with self._open(request, until) as response:
                    return _parse_json(_read_whole(response))
            except _Passing as passing:
                pause = max(pause, passing.retry_after)
                is_last = attempt == _ATTEMPTS - 1 or time.monotonic() + pause >= until
                if is_last or not request.is_repeatable:
                    raise passing.error from None
            time.sleep(pause)
        raise AssertionError("the last attempt raises")

    @contextmanager
    def stream(self, request: Request) -> Iterator[HTTPResponse]:
        """An answer to read in pieces, however long it is. Each piece has its own, longer time limit."""
        try:
            with self._open(request, None) as response:
                yield response
        except _Passing as passing:
            raise passing.error from None

    def upload(self, request: Request) -> Any:
        """The same with a body however long it is. Each piece has its own time limit, and so has the answer."""
        with self.stream(request) as response:
            return _parse_json(_read_whole(response))

    def close(self) -> None:
        """Idempotent. A request that is under way ends as it would."""
        with self._lock:
            self._closed = True
            idle = [*self._idle]
            self._idle.clear()
        for connection, _ in idle:
            connection.close()

    def __del__(self) -> None:
        """A program that ends without ``close`` ends cleanly too."""
        if "_closed" in self.__dict__:
            self.close()

    @contextmanager
    def _open(self, request: Request, until: float | None) -> Iterator[HTTPResponse]:
        """Raises LimpetError, or _Passing for what may be over soon."""
        connection = self._take(until)
        response: HTTPResponse | None = None
        was_sent = False
        try:
            self._set_limits(connection, until)
            was_sent = True  # from here on nobody knows how much of it arrived
            response = _exchange(
                connection, request, self.address.prefix + request.path, {**self._headers, **request.headers}
            )
            self._check_status(response)
            yield response
            if not response.isclosed() and response.read(1):
                response.will_close = True  # a connection is used again only behind the end of an answer
        except (OSError, HTTPException) as error:
            _discard(connection, response)
            raise _Passing(self._describe_loss(request, error, was_sent=was_sent)) from error
        except BaseException:  # why: whatever happened, a connection with half an answer is not used again
            _discard(connection, response)
            raise
        self._give_back(connection, response)

    # Connections

    def _take(self, until: float | None) -> HTTPConnection:
        with self._lock:
            if self._closed:
                raise StoreUnavailable(_CLOSED)
            if os.getpid() != self._pid:  # a forked child must not write into its parent's connections
                self._pid = os.getpid()
                self._idle.clear()
            idle = self._idle
            while idle:
                connection, since = idle.pop()
                if time.monotonic() - since < _IDLE_S and not _is_readable(connection):
                    return connection
                connection.close()
        return self._connect(until)

    def _connect(self, until: float | None) -> HTTPConnection:
        left = self._timeout if until is None else until - time.monotonic()
        limit = max(0.001, min(_CONNECT_S, left))
        host, port = self.address.host, self.address.port
        made: HTTPConnection
        if self._tls is not None:
            made = HTTPSConnection(host, port, timeout=limit, context=self._tls)
        else:
            made = HTTPConnection(host, port, timeout=limit)
        try:
            made.connect()
        except ssl.SSLCertVerificationError as error:
            made.close()
            raise StoreUnavailable(
                f"{self.address} has a certificate that does not verify: {error.verify_message}; nothing was sent"
            ) from error
        except (OSError, HTTPException) as error:
            made.close()
            reason = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
            raise _Passing(
                StoreUnavailable(f"cannot reach {self.address}: {reason}; start it with limpet serve")
            ) from error
        return made

    def _set_limits(self, connection: HTTPConnection, until: float | None) -> None:
        if until is None:
            connection.response_class = HTTPResponse
            connection.sock.settimeout(max(self._timeout, _LONG_S))
        else:
            set_deadline(connection, until)
            connection.sock.settimeout(max(0.001, until - time.monotonic()))

    def _give_back(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if not response.will_close and connection.sock is not None:
            with self._lock:
                if not self._closed and len(self._idle) < _MAX_IDLE:
                    self._idle.append((connection, time.monotonic()))
                    return
        connection.close()

    # Errors

    def _check_status(self, response: HTTPResponse) -> None:
        if response.status < 300:
            return
        if response.status < 400:
            place = describe_redirect(response.headers)
            raise StorageError(
                f"{self.address} redirects{place}, which is not followed; connect to the address it has moved to"
            )
        error = find_error(response.status, _read_whole(response), str(self.address))
        if response.status in _PASSING:
            raise _Passing(error, retry_after(response.headers) or 0.0)
        raise error

    def _describe_loss(self, request: Request, error: Exception, *, was_sent: bool) -> StorageError:
        what = f"stopped in the middle of its answer ({error or type(error).__name__})"
        if isinstance(error, TimeoutError):
            what = f"did not answer within {self._timeout:g} seconds"
        if not was_sent or request.is_repeatable:
            return StoreUnavailable(f"{self.address} {what}")
        return OutcomeUnknown(
            f"{self.address} {what}; it may have done what was asked: check before you repeat the call,"
            " or repeat it with an idempotency_key"
        )


class _Passing(Exception):
    """An error that may be over soon."""

    def __init__(self, error: LimpetError, retry_after: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


def _discard(connection: HTTPConnection, response: HTTPResponse | None) -> None:
    """Both hold the socket."""
    connection.close()
    if response is not None:
        response.close()


def _exchange(connection: HTTPConnection, request: Request, path: str, headers: Mapping[str, str]) -> HTTPResponse:
    try:
        connection.request(request.method, path, request.body, dict(headers))
    except (BrokenPipeError, ConnectionResetError):
        if request.body is None:
            raise  # else: a server that refuses a large body answers without reading it
    return connection.getresponse()


def _read_whole(response: HTTPResponse) -> bytes:
    def check(size: int) -> None:
        if size > MAX_ANSWER_BYTES:
            raise StorageError(f"the server answered more than {MAX_ANSWER_BYTES >> 20} MB")

    return b"".join(read_pieces(response, check))


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise StorageError("the server's answer is not valid JSON; is this the address of a Limpet server?") from None


def _is_readable(connection: HTTPConnection) -> bool:
    """An idle connection has nothing to read, unless its other end has closed it."""
    try:
        with DefaultSelector() as selector:
            selector.register(connection.sock, EVENT_READ)
            return bool(selector.select(0))
    except (OSError, ValueError):  # ValueError: it is closed here already
        return True


def find_error(status: int, body: bytes, address: str) -> errors.LimpetError:
    """The error that a problem stands for. What is not a problem of ours comes from something else than Limpet."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
        text = f"{address} answered {status} without saying why; is this the address of a Limpet server?"
        return errors.StoreUnavailable(text)
    code = problem["code"]
    detail = str(problem.get("detail") or code)
    kind = _by_code().get(code)
    if kind is None:
        return errors.LimpetError(f"{detail} ({code})")
    if kind is errors.PermissionDenied:
        missing = problem.get("missing")
        return errors.PermissionDenied(detail, missing if isinstance(missing, str) else None)
    return kind(detail)


@cache
def _by_code() -> dict[str, type[errors.LimpetError]]:
    return {**{kind.code: kind for kind in _list_errors(errors.LimpetError)}, **_OF_SERVER}


def _list_errors(kind: type[errors.LimpetError]) -> Iterator[type[errors.LimpetError]]:
    """Those that a base class has in common with others do not take their place: each has a code of its own."""
    for each in kind.__subclasses__():
        yield from _list_errors(each)
        if "code" in vars(each):
            yield each
