"""Any server that speaks OpenAI's ``/embeddings``: OpenAI itself, vLLM, Ollama, llama.cpp and many more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import isfinite

from limpet.errors import ProviderError
from limpet.providers.embedder import normalize_vector
from limpet.providers.endpoint import ADVICE, Endpoint, check_key
from limpet.providers.http import HttpFailure, JsonAnswer

_BATCH = 128
_MAX_CHARS = 8_000  # why: a text beyond the model's window would fail its whole batch
_ADVICE = {
    **ADVICE,
    400: "check the model's name, and whether it takes the dimension asked for",
    413: "the texts are too long for it",
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
        self._endpoint = Endpoint(
            "embedding server",
            base_url,
            "/embeddings",
            {"Authorization": f"Bearer {check_key(api_key)}"} if api_key else {},
            secret=api_key,
            retries=retries,
            sleep=sleep,
            chance=chance,
            advice=_ADVICE,
        )
        self._model = model
        self._asked = dimension
        self._dimension = dimension
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"OpenAiEmbedder({self._endpoint.origin!r}, {self._model!r})"

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
            batch = [_sanitize(text) for text in texts[start : start + _BATCH]]
            vectors += self._parse_answer(self._request_vectors(batch), len(batch))
        return vectors

    def _request_vectors(self, batch: list[str]) -> JsonAnswer:
        fields: dict[str, object] = {"model": self._model, "input": batch, "encoding_format": "float"}
        if self._asked is not None:
            fields["dimensions"] = self._asked
        try:
            return self._endpoint.post(fields, self._timeout)
        except HttpFailure as failure:
            raise self._endpoint.to_error(failure) from None

    def _parse_answer(self, answer: JsonAnswer, count: int) -> list[list[float]]:
        try:
            vectors = _parse_vectors(answer, count, self._dimension)
        except (ValueError, OverflowError) as error:
            raise ProviderError(
                f"the embedding server at {self._endpoint.origin} answered what is no list of vectors for the model "
                f"{self._model!r}: {error}. Check that the address is that of an OpenAI-compatible API"
            ) from None
        self._dimension = len(vectors[0])
        return vectors


def _sanitize(text: str) -> str:
    """Servers refuse the empty text and half characters, and with it the whole batch."""
    whole = text[:_MAX_CHARS].encode("utf-8", "replace").decode()
    return whole if whole.strip() else "."


def _parse_vectors(answer: JsonAnswer, count: int, dimension: int | None) -> list[list[float]]:
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
        found[int(place)] = _parse_vector(item.get("embedding"))
    lengths = {len(vector) for vector in found} | ({dimension} if dimension is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"vectors of different dimensions, {', '.join(map(str, sorted(lengths)))}, for one model")
    return found


def _parse_vector(given: object) -> list[float]:
    if not isinstance(given, list) or not given:
        raise ValueError("a vector is no list of numbers")
    if not all(type(value) in {int, float} and isfinite(value) for value in given):
        raise ValueError("a vector holds what is no finite number")
    return normalize_vector([float(value) for value in given])
