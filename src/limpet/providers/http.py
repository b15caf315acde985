"""JSON requests over HTTP with the standard library, limited in time and size; redirects are not followed."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPResponse

JsonAnswer = Any  # any JSON value

MAX_BYTES = 64 << 20
_PIECE = 1 << 16
_LINE_END = re.compile(rb"\r\n|\r|\n")
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}


class HttpFailure(Exception):
    """A failed request: ``what`` happened, what the server ``said``, and whether a retry may help (``passing``)."""

    def __init__(
        self,
        what: str,
        *,
        passing: bool,
        status: int | None = None,
        said: str = "",
        retry_after: float | None = None,
        late: bool = False,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.passing = passing
        self.status = status
        self.said = said
        self.retry_after = retry_after
        self.late = late
        self.attempts = 1


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout: float, limit: int = MAX_BYTES) -> JsonAnswer:
    """Return the parsed answer, read within ``timeout`` seconds and ``limit`` bytes. Raises HttpFailure."""
    with _open_response(url, body, headers, timeout) as response:
        content = b"".join(_read_pieces(response, limit))
    return parse_json(content)


def post_events(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, limit: int = MAX_BYTES
) -> Generator[str]:
    """Yield the data of each server-sent event as it arrives; an answer that is not a stream is one event.

    Raises HttpFailure, also after the first event. Closing the generator closes the connection.
    """
    with _open_response(url, body, headers, timeout) as response:
        if response.headers.get_content_type() == "text/event-stream":
            yield from parse_events(_read_pieces(response, limit))
        else:
            yield b"".join(_read_pieces(response, limit)).decode("utf-8", "replace")


def parse_json(content: bytes | str) -> JsonAnswer:
    """Raises HttpFailure."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise HttpFailure("answered with text that is not valid JSON", passing=False) from None


@contextmanager
def _open_response(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Iterator[HTTPResponse]:
    """Open a response to read. Every failure, also while reading, is raised as HttpFailure."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    from limpet.providers.opening import make_opener

    request = Request(url, body, dict(headers), method="POST")  # noqa: S310 -- the caller checked the scheme
    late = HttpFailure(f"did not answer within {float(f'{timeout:.3g}'):g} seconds", passing=True, late=True)
    try:
        with make_opener(time.monotonic() + timeout).open(request, timeout=timeout) as response:
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
        raise HttpFailure(f"broke off ({error or type(error).__name__})", passing=True) from None


def _read_pieces(response: HTTPResponse, limit: int) -> Iterator[bytes]:
    size, promised = 0, response.length  # None if the response does not state its length
    while size != promised and (piece := response.read1(_PIECE)):
        size += len(piece)
        if size > limit:
            raise HttpFailure(f"answered with more than {limit >> 20} MB", passing=False)
        yield piece
    if promised is not None and size < promised:
        raise ConnectionError(f"{promised - size} bytes are missing")


def _status_failure(status: int, headers: Message, reply: str) -> HttpFailure:
    if 300 <= status < 400:
        parts = urlsplit(headers.get("Location", ""))
        where = f" to {parts.scheme}://{parts.hostname}" if parts.hostname else ""
        what = f"redirects{where}, which is not followed; use the new address"
        return HttpFailure(what, passing=False, status=status)
    wait = _retry_after(headers)
    return HttpFailure(f"answered {status}", passing=status in _PASSING, status=status, said=reply, retry_after=wait)


def _read_error(response: Any) -> str:
    """Return the message of an error response in one line, or else the start of the response."""
    from http.client import HTTPException

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


def _retry_after(headers: Message) -> float | None:
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
