"""JSON requests over HTTP with the standard library: an address with an API key, limited in time and size.

Transient failures are retried, redirects are not followed, and the key is never shown. Imported late: the modules it
needs are slow to load.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from math import inf
from socket import socket
from typing import Any, TypedDict, Unpack
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener
from zlib import crc32

from limpet.errors import ConfigError, ProviderError

JsonAnswer = Any  # any JSON value

MAX_BYTES = 64 << 20
_PIECE = 1 << 18
_LINE_END = re.compile(rb"\r\n|\r|\n")
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds

ADVICE: Mapping[int, str] = {
    401: "check the API key",
    402: "the account needs credit",
    403: "check the API key and its permissions",
    404: "check the address, which usually ends in /v1, and the model's name",
    429: "the rate limit was reached; wait, or raise the limit at the provider",
}


@dataclass(eq=False)
class HttpFailure(Exception):
    """A failed request: ``what`` happened, what the server ``said``, and whether a retry may help (``passing``)."""

    what: str
    _: KW_ONLY
    passing: bool
    status: int | None = None
    said: str = ""
    retry_after: float | None = None
    late: bool = False
    attempts: int = 1


class RetryOptions(TypedDict, total=False):
    """Rate limits, server errors and network errors are retried ``retries`` times with growing waits.

    ``chance`` returns numbers from 0 to 1 that add jitter to the waits; by default the jitter depends on the request.
    """

    retries: int
    sleep: Callable[[float], None]
    chance: Callable[[], float] | None


class Endpoint:
    """``what`` names it in errors. ``path`` is appended to the address unless the address already ends with it."""

    def __init__(
        self,
        what: str,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        secret: str | None,
        advice: Mapping[int, str] = ADVICE,
        limit: int = MAX_BYTES,
        **options: Unpack[RetryOptions],
    ) -> None:
        self._what = what
        self._url = _build_url(what, base_url, path)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "limpet"}
        self._headers |= headers
        self._secret = secret
        self._retries = options.get("retries", 3)
        self._sleep = options.get("sleep", time.sleep)
        self._chance = options.get("chance")
        self._advice = advice
        self._limit = limit

    @property
    def origin(self) -> str:
        """Return the address without password and query, for use in messages."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def post(self, fields: Mapping[str, object], timeout: float, until: float = inf) -> JsonAnswer:
        """Each attempt may take ``timeout`` seconds; all attempts end by ``until``. Raises HttpFailure."""
        body = _encode(fields)
        for attempt in range(self._retries + 1):
            try:
                remaining = min(timeout, until - time.monotonic())
                return post_json(self._url, body, self._headers, max(remaining, 0.001), self._limit)
            except HttpFailure as failure:
                self._wait_or_raise(failure, attempt, body, until)
        raise ProviderError(f"{self.origin} was not called: retries is {self._retries}")

    def stream(self, fields: Mapping[str, object], timeout: float, until: float = inf) -> Generator[str]:
        """Like ``post``, but yield the data of each event. After the first event, a failure is final."""
        body = _encode(fields)
        headers = {**self._headers, "Accept": "text/event-stream"}
        for attempt in range(self._retries + 1):
            started = False
            try:
                remaining = min(timeout, until - time.monotonic())
                with closing(post_events(self._url, body, headers, max(remaining, 0.001), self._limit)) as events:
                    for data in events:
                        started = True
                        yield data
            except HttpFailure as failure:
                if started:
                    raise
                self._wait_or_raise(failure, attempt, body, until)
            else:
                return
        raise ProviderError(f"{self.origin} was not called: retries is {self._retries}")

    def to_error(self, failure: HttpFailure) -> ProviderError:
        """Build the error without the key: a server may repeat it in its reply."""
        reply = "" if failure.status in {401, 403} else failure.said  # some repeat part of the key
        advice = self._advice.get(failure.status or 0, "try again later" if failure.passing else "")
        tried = f" (tried {failure.attempts} times)" if failure.attempts > 1 else ""
        parts = [f"the {self._what} at {self.origin} {failure.what}{tried}", self.mask_secret(reply)[:200], advice]
        return ProviderError(self.mask_secret(": ".join(part for part in parts if part)))

    def mask_secret(self, text: str) -> str:
        return text.replace(self._secret, "…") if self._secret else text

    def _wait_or_raise(self, failure: HttpFailure, attempt: int, body: bytes, until: float) -> None:
        failure.attempts = attempt + 1
        if not failure.passing or attempt == self._retries:
            raise failure from None
        chance = self._chance() if self._chance else crc32(body, attempt) / 2**32
        planned = _FIRST_WAIT * (1 << attempt) * (0.5 + chance)
        wait = min(_LONGEST_WAIT if until == inf else inf, max(planned, failure.retry_after or 0.0))
        if time.monotonic() + wait >= until:  # no time for another attempt: fail now
            if failure.retry_after:
                failure.what += f" and asks to wait {failure.retry_after:g} seconds"
            raise failure from None
        self._sleep(wait)


def _encode(fields: Mapping[str, object]) -> bytes:
    """JSON with a question mark for each lone surrogate: servers reject requests that contain them."""
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def check_key(api_key: str) -> str:
    """Check an API key for use as a header value. The key is never shown, even in the error."""
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ConfigError(
            "the API key contains a space or a character not allowed in a header; was it copied completely?"
        )
    return api_key


def _build_url(what: str, base_url: str, path: str) -> str:
    if any(character.isspace() or not character.isprintable() for character in base_url):
        raise ConfigError(f"the {what}'s address contains a space or a control character; was it copied completely?")
    try:
        parts = urlsplit(base_url)
        has_host = bool(parts.hostname) and parts.port != 0  # raises ValueError if the port is not a number
    except ValueError as error:
        raise ConfigError(f"the {what}'s address is not a URL: {error}") from None
    if parts.scheme not in {"http", "https"} or not has_host:
        raise ConfigError(f"the {what}'s address must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise ConfigError(f"the {what}'s address must not contain a user or password; use an API key instead")
    return parts._replace(path=_join_path(parts.path.rstrip("/"), path), fragment="").geturl()


def _join_path(base_path: str, path: str) -> str:
    """Join paths without repeating the overlap: /v1 and /v1/messages give /v1/messages."""
    ends = [path[:place] for place, character in enumerate(f"{path}/") if character == "/" and place]
    there = max((end for end in ends if base_path.endswith(end)), key=len, default="")
    return base_path.removesuffix(there) + path


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout: float, limit: int = MAX_BYTES) -> JsonAnswer:
    """Return the parsed answer, read within ``timeout`` seconds and ``limit`` bytes. Raises HttpFailure."""
    with _open_response(url, body, headers, timeout) as response:
        content = b"".join(_read_limited(response, limit))
    return parse_json(content)


def post_events(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, limit: int = MAX_BYTES
) -> Generator[str]:
    """Yield the data of each server-sent event as it arrives; an answer that is not a stream is one event.

    Raises HttpFailure, also after the first event. Closing the generator closes the connection.
    """
    with _open_response(url, body, headers, timeout) as response:
        if response.headers.get_content_type() == "text/event-stream":
            yield from parse_events(_read_limited(response, limit))
        else:
            yield b"".join(_read_limited(response, limit)).decode("utf-8", "replace")


def parse_json(content: bytes | str) -> JsonAnswer:
    """Raises HttpFailure."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise HttpFailure("answered with text that is not valid JSON", passing=False) from None


@contextmanager
def _open_response(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Iterator[HTTPResponse]:
    """Open a response to read. Every failure, also while reading, is raised as HttpFailure."""
    request = Request(url, body, dict(headers), method="POST")  # noqa: S310 -- the caller checked the scheme
    late = HttpFailure(f"did not answer within {float(f'{timeout:.3g}'):g} seconds", passing=True, late=True)
    try:
        with build_opener(_NoRedirect, _DeadlineHandler(time.monotonic() + timeout)).open(
            request, timeout=timeout
        ) as response:
            yield response
    except HTTPError as error:
        with error:
            raise _status_failure(error.code, error.headers, _read_error(error)) from None
    except TimeoutError:
        raise late from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise late from None
        distrusted = "CERTIFICATE_VERIFY_FAILED" in str(error.reason)
        raise HttpFailure(f"cannot be reached ({error.reason})", passing=not distrusted) from None
    except (HTTPException, OSError) as error:
        raise HttpFailure(
            f"stopped in the middle of its answer ({error or type(error).__name__})", passing=True
        ) from None


def read_pieces(response: HTTPResponse, report: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """Yield the answer in pieces, and ``report`` the size so far. Raises ConnectionError if it ends before its end."""
    size, promised = 0, response.length  # None if the response does not state its length
    while size != promised and (piece := response.read1(_PIECE)):
        size += len(piece)
        report(size)
        yield piece
    if promised is not None and size < promised:
        raise ConnectionError(f"{promised - size} bytes are missing")


def _read_limited(response: HTTPResponse, limit: int) -> Iterator[bytes]:
    def check(size: int) -> None:
        if size > limit:
            raise HttpFailure(f"answered with more than {limit >> 20} MB", passing=False)

    return read_pieces(response, check)


def _status_failure(status: int, headers: Message, reply: str) -> HttpFailure:
    if 300 <= status < 400:
        what = f"redirects{describe_redirect(headers)}, which is not followed; use the new address"
        return HttpFailure(what, passing=False, status=status)
    wait = retry_after(headers)
    return HttpFailure(f"answered {status}", passing=status in _PASSING, status=status, said=reply, retry_after=wait)


def _read_error(response: Any) -> str:
    """Return the message of an error response in one line, or else the start of the response."""
    try:
        text = response.read(_PIECE).decode("utf-8", "replace")
    except (HTTPException, OSError):
        return ""
    with suppress(ValueError, RecursionError):
        text = error_message(json.loads(text)) or text
    return " ".join(text.split())


def error_message(answer: JsonAnswer) -> str:
    """Return the message of ``{"error": {"message": …}}`` or ``{"error": "…"}``; else an empty string."""
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def describe_redirect(headers: Message) -> str:
    """Return where it leads, without path and query; an empty string if it does not say."""
    with suppress(ValueError):
        parts = urlsplit(headers.get("Location", ""))
        return f" to {parts.scheme}://{parts.hostname}" if parts.hostname else ""
    return ""


def retry_after(headers: Message) -> float | None:
    """Return the wait in seconds. A date is compared with the server's Date header, not the local clock."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        wait = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
    except (ValueError, TypeError):  # TypeError: only one of the dates has a time zone
        return None
    return max(0.0, wait)


# Server-sent events, independent of how the bytes are split


def parse_events(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event. Events without data, such as keep-alive comments, are skipped."""
    data: list[str] = []
    for line in _read_lines(pieces):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
    if data:  # the standard drops it, but some servers omit the last empty line
        yield "\n".join(data)


def _read_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Decode whole lines, not pieces: a piece may end inside a character, or between CR and LF."""
    buffer: list[bytes] = []
    first = True
    for piece in _join_line_ends(pieces):
        *whole, rest = _LINE_END.split(piece)
        for line in whole:
            text = b"".join([*buffer, line]).decode("utf-8", "replace")
            yield text.removeprefix("\ufeff") if first else text
            buffer, first = [], False
        buffer.append(rest)
    if last := b"".join(buffer).decode("utf-8", "replace"):
        yield last.removeprefix("\ufeff") if first else last


def _join_line_ends(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a line as soon as its CR arrives; an LF after it does not start another line."""
    after_return = False
    for piece in pieces:
        whole = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r") if piece else after_return
        if whole:
            yield whole


# One deadline for the whole answer


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are rejected: the headers contain a key, and a redirected POST means a wrong address."""

    def http_error_302(self, *_: Any, **__: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _DeadlineHandler(HTTPHandler, HTTPSHandler):
    """Reading after ``until``, a time of the monotonic clock, raises TimeoutError."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self._until = until

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(lambda *args, **options: set_deadline(HTTPConnection(*args, **options), self._until), req)

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
