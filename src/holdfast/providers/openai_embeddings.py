"""Any server that speaks OpenAI's ``/embeddings``: OpenAI itself, vLLM, Ollama, llama.cpp and many more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from math import isfinite
from urllib.parse import urlsplit
from zlib import crc32

from holdfast.errors import ConfigError, ProviderError
from holdfast.providers.embedder import scaled
from holdfast.providers.http import Answer, HttpFailure, post_json

_BATCH = 128
_MAX_CHARS = 8_000  # why: a text beyond the model's window would fail its whole batch
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds
_ADVICE = {
    400: "check the model's name, and whether it takes the dimension asked for",
    401: "check the API key",
    403: "check the API key and what it may use",
    404: "check the address, which usually ends in /v1, and the model's name",
    413: "the texts are too long for it",
    429: "it limits how often it is asked; wait, or raise the limit there",
}


class OpenAiEmbedder:
    """Safe to share between threads.

    ``dimension`` asks for vectors of that length, which not every model can give; without it the model's own length is
    taken, and learned from the first answer. ``timeout`` is for one request, in seconds. A limit, a fault of the server
    or of the network is tried again ``retries`` times, each after a longer wait; ``chance`` gives numbers from 0 to 1
    that spread the waits of many clients, which without it differ by what they send.
    """

    quick = False

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimension: int | None = None,
        timeout: float = 30,
        retries: int = 3,
        *,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._url = _checked_url(base_url)
        self._headers = _headers(api_key)
        self._secret = api_key or ""
        self._model = model
        self._asked = dimension
        self._dimension = dimension
        self._timeout = timeout
        self._retries = retries
        self._sleep = sleep
        self._chance = chance

    def __repr__(self) -> str:
        return f"OpenAiEmbedder({self._place!r}, {self._model!r})"

    @property
    def name(self) -> str:
        return f"openai:{self._model}" if self._asked is None else f"openai:{self._model}/{self._asked}"

    @property
    def dimension(self) -> int:
        """Asks the server when neither the caller nor an answer has told it yet."""
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            batch = [_sendable(text) for text in texts[start : start + _BATCH]]
            vectors += self._checked(self._asked_for(batch), len(batch))
        return vectors

    @property
    def _place(self) -> str:
        """What messages may show: an address can hold a password, or a key in its query."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def _asked_for(self, batch: list[str]) -> Answer:
        fields: dict[str, object] = {"model": self._model, "input": batch, "encoding_format": "float"}
        if self._asked is not None:
            fields["dimensions"] = self._asked
        body = json.dumps(fields).encode()
        for attempt in range(self._retries + 1):
            try:
                answer = post_json(self._url, body, self._headers, self._timeout)
            except HttpFailure as failure:
                if not failure.passing or attempt == self._retries:
                    raise self._error(failure, attempt + 1) from None
                self._sleep(self._wait(attempt, failure.retry_after, body))
            else:
                return answer
        raise ProviderError(f"{self._place} was never asked: retries is {self._retries}")

    def _wait(self, attempt: int, told: float | None, body: bytes) -> float:
        chance = self._chance() if self._chance else crc32(body, attempt) / 2**32
        planned = _FIRST_WAIT * (1 << attempt) * (0.5 + chance)
        return min(_LONGEST_WAIT, max(planned, told or 0.0))

    def _error(self, failure: HttpFailure, attempts: int) -> ProviderError:
        """Never with the key: a server may repeat it in what it says."""
        said = failure.said
        if self._secret and self._secret in said:
            said = said.replace(self._secret, "…")
        if failure.status in {401, 403}:
            said = ""  # some repeat a part of the key
        advice = _ADVICE.get(failure.status or 0, "try again later" if failure.passing else "")
        tried = f" (tried {attempts} times)" if attempts > 1 else ""
        parts = [f"the embedding server at {self._place} {failure.what}{tried}", said[:200], advice]
        return ProviderError(": ".join(part for part in parts if part))

    def _checked(self, answer: Answer, count: int) -> list[list[float]]:
        try:
            vectors = _vectors(answer, count, self._dimension)
        except (ValueError, OverflowError) as error:
            raise ProviderError(
                f"the embedding server at {self._place} answered what is no list of vectors for the model "
                f"{self._model!r}: {error}. Check that the address is that of an OpenAI-compatible API"
            ) from None
        self._dimension = len(vectors[0])
        return vectors


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("the embedding server's address must begin with http:// or https:// and name a host")
    if parts.username is not None:
        raise ConfigError("the embedding server's address must hold no user or password; give an API key instead")
    return parts._replace(path=parts.path.rstrip("/").removesuffix("/embeddings") + "/embeddings", fragment="").geturl()


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "holdfast"}
    if api_key:
        if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ConfigError("the API key holds a space or a character no header can carry; was it copied whole?")
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


def _sendable(text: str) -> str:
    """Servers refuse the empty text and half characters, and with it the whole batch."""
    whole = text[:_MAX_CHARS].encode("utf-8", "replace").decode()
    return whole if whole.strip() else "."


def _vectors(answer: Answer, count: int, dimension: int | None) -> list[list[float]]:
    """In the order asked. Raises ValueError."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError('there is no list "data" in it')
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors came for {count} texts")
    places = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(map(str, places)) != sorted(map(str, range(count))):
        raise ValueError('its "index" numbers are not those of the texts')
    found: list[list[float]] = [[] for _ in items]
    for place, item in zip(places, items, strict=True):
        found[int(place)] = _vector(item.get("embedding"))
    lengths = {len(vector) for vector in found} | ({dimension} if dimension is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"vectors of different dimensions, {', '.join(map(str, sorted(lengths)))}, for one model")
    return found


def _vector(given: object) -> list[float]:
    if not isinstance(given, list) or not given:
        raise ValueError("a vector is no list of numbers")
    if not all(type(value) in {int, float} and isfinite(value) for value in given):
        raise ValueError("a vector holds what is no finite number")
    return scaled([float(value) for value in given])
