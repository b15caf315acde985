"""An HTTP address with an API key: retries transient failures and never shows the key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from math import inf
from urllib.parse import urlsplit
from zlib import crc32

from limpet.errors import ConfigError, ProviderError
from limpet.providers.http import MAX_BYTES, HttpFailure, JsonAnswer, post_events, post_json

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds

ADVICE: Mapping[int, str] = {
    401: "check the API key",
    402: "the account needs credit",
    403: "check the API key and its permissions",
    404: "check the address, which usually ends in /v1, and the model's name",
    429: "the rate limit was reached; wait, or raise the limit at the provider",
}


class Endpoint:
    """``what`` names it in errors. ``path`` is appended to the address unless the address already ends with it.

    Rate limits, server errors and network errors are retried ``retries`` times with growing waits. ``chance`` returns
    numbers from 0 to 1 that add jitter to the waits; by default the jitter depends on the request body.
    """

    def __init__(
        self,
        what: str,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        *,
        secret: str | None,
        retries: int,
        sleep: Callable[[float], None],
        chance: Callable[[], float] | None,
        advice: Mapping[int, str] = ADVICE,
        limit: int = MAX_BYTES,
    ) -> None:
        self._what = what
        self._url = _build_url(what, base_url, path)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "limpet"}
        self._headers |= headers
        self._secret = secret
        self._retries = retries
        self._sleep = sleep
        self._chance = chance
        self._advice = advice
        self._limit = limit

    @property
    def origin(self) -> str:
        """Return the address without password and query, for use in messages."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def post(self, fields: Mapping[str, object], timeout: float, until: float = inf) -> JsonAnswer:
        """Each attempt may take ``timeout`` seconds; all attempts end by ``until``. Raises HttpFailure."""
        body = json.dumps(fields).encode()
        for attempt in range(self._retries + 1):
            try:
                remaining = min(timeout, until - time.monotonic())
                return post_json(self._url, body, self._headers, max(remaining, 0.001), self._limit)
            except HttpFailure as failure:
                self._wait_or_raise(failure, attempt, body, until)
        raise ProviderError(f"{self.origin} was not called: retries is {self._retries}")

    def stream(self, fields: Mapping[str, object], timeout: float, until: float = inf) -> Generator[str]:
        """Like ``post``, but yield the data of each event. After the first event, a failure is final."""
        body = json.dumps(fields).encode()
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
        wait = self._backoff(attempt, failure.retry_after, body, longest=_LONGEST_WAIT if until == inf else inf)
        if time.monotonic() + wait >= until:  # no time for another attempt: fail now
            if failure.retry_after:
                failure.what += f" and asks to wait {failure.retry_after:g} seconds"
            raise failure from None
        self._sleep(wait)

    def _backoff(self, attempt: int, retry_after: float | None, body: bytes, longest: float) -> float:
        chance = self._chance() if self._chance else crc32(body, attempt) / 2**32
        planned = _FIRST_WAIT * (1 << attempt) * (0.5 + chance)
        return min(longest, max(planned, retry_after or 0.0))


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
