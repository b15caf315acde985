"""One JSON request over HTTP with the standard library: bounded in time and size, and never led elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

Answer = Any  # whatever the JSON holds

_MAX_BYTES = 64 << 20
_PIECE = 1 << 16
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}


class HttpFailure(Exception):
    """Why there is no answer: ``what`` it did, what it ``said``, and whether asking again may help."""

    def __init__(
        self, what: str, *, passing: bool, status: int | None = None, said: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.passing = passing
        self.status = status
        self.said = said
        self.retry_after = retry_after


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
    """Raises HttpFailure."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    request = Request(url, body, dict(headers), method="POST")  # noqa: S310 -- the caller checked the scheme
    until = time.monotonic() + timeout
    try:
        with _opener().open(request, timeout=timeout) as response:
            content = _read(response, until)
    except HTTPError as error:
        with error:
            raise _refused(error.code, error.headers, _said(error)) from None
    except TimeoutError:
        raise HttpFailure(f"did not answer within {timeout:g} seconds", passing=True) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise HttpFailure(f"did not answer within {timeout:g} seconds", passing=True) from None
        distrusted = "CERTIFICATE_VERIFY_FAILED" in str(error.reason)
        raise HttpFailure(f"cannot be reached ({error.reason})", passing=not distrusted) from None
    except (HTTPException, OSError) as error:
        raise HttpFailure(f"broke off ({error or type(error).__name__})", passing=True) from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise HttpFailure("answered what is no JSON", passing=False) from None


def _opener() -> OpenerDirector:
    """Follows no redirect: the headers hold a key, and a POST that moves is a wrong address."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *args: object) -> None:
            return None

    return build_opener(NoRedirect)


def _read(response: HTTPResponse, until: float) -> bytes:
    """The timeout of a socket is for each piece; this one is for all of them."""
    pieces: list[bytes] = []
    size, promised = 0, response.length  # none when the end says itself where it is
    while size != promised and (piece := response.read1(_PIECE)):
        pieces.append(piece)
        size += len(piece)
        if time.monotonic() > until:
            raise TimeoutError
        if size > _MAX_BYTES:
            raise HttpFailure(f"answered more than {_MAX_BYTES >> 20} MB", passing=False)
    if promised is not None and size < promised:
        raise ConnectionError(f"{promised - size} bytes are missing")
    return b"".join(pieces)


def _refused(status: int, headers: Message, said: str) -> HttpFailure:
    if 300 <= status < 400:
        parts = urlsplit(headers.get("Location", ""))
        where = f" to {parts.scheme}://{parts.hostname}" if parts.hostname else ""
        what = f"redirects{where}, which is not followed; give the address it has moved to"
        return HttpFailure(what, passing=False, status=status)
    wait = _retry_after(headers)
    return HttpFailure(f"answered {status}", passing=status in _PASSING, status=status, said=said, retry_after=wait)


def _said(response: Any) -> str:
    """The message of an error answer, in one line: OpenAI's form where it is that, else its beginning."""
    try:
        text = response.read1(_PIECE).decode("utf-8", "replace")
    except OSError:
        return ""
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        text = str(json.loads(text)["error"]["message"])
    return " ".join(text.split())


def _retry_after(headers: Message) -> float | None:
    """In seconds. A date is compared with the server's own, so that no clock here needs to be right."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        wait = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
    except (ValueError, TypeError):  # TypeError: one with a zone, one without
        return None
    return max(0.0, wait)
