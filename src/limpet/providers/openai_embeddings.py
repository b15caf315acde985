"""OpenAI's ``/embeddings`` API: OpenAI, vLLM, Ollama, llama.cpp and other compatible servers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Unpack

from limpet.errors import ProviderError
from limpet.model.values import split_pages
from limpet.providers.embedder import normalize_vector
from limpet.providers.http import ADVICE, Endpoint, HttpFailure, JsonAnswer, RetryOptions, check_key

_BATCH = 128
_MAX_CHARS = 8_000  # why: a text beyond the model's window would fail its whole batch
_ADVICE = {
    **ADVICE,
    400: "check the model's name, and whether it supports the requested dimension",
    413: "the texts are too long for it",
}


class OpenAiEmbedder:
    """Thread-safe.

    ``dimension`` requests vectors of that length, which not every model supports; by default the model's own length
    is learned from the first answer. ``timeout`` applies to one request, in seconds.
    """

    quick = False

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimension: int | None = None,
        timeout: float = 30,
        **options: Unpack[RetryOptions],
    ) -> None:
        headers = {"Authorization": f"Bearer {check_key(api_key)}"} if api_key else {}
        self._endpoint = Endpoint("embedding server", base_url, "/embeddings", headers, api_key, _ADVICE, **options)
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
        """Return the dimension; asks the server if it is not known yet."""
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for page in split_pages(texts, _BATCH):
            some = [text[:_MAX_CHARS] for text in page]
            batch = [text if text.strip() else "." for text in some]  # servers reject a whole batch for an empty text
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
                f"the embedding server at {self._endpoint.origin} did not answer with a list of vectors for the model "
                f"{self._model!r}: {error}. Check that the address belongs to an OpenAI-compatible API"
            ) from None
        self._dimension = len(vectors[0])
        return vectors


def _parse_vectors(answer: JsonAnswer, count: int, dimension: int | None) -> list[list[float]]:
    """Return the vectors in request order. Raises ValueError."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError('it has no list "data"')
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors returned for {count} texts")
    places = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(map(str, places)) != sorted(map(str, range(count))):
        raise ValueError('its "index" numbers do not match the texts')
    vectors: list[list[float]] = [[] for _ in items]
    for place, item in zip(places, items, strict=True):
        vectors[int(place)] = _parse_vector(item.get("embedding"))
    lengths = {len(vector) for vector in vectors} | ({dimension} if dimension is not None else set())
    if len(lengths) != 1:
        raise ValueError(f"the vectors have different dimensions: {', '.join(map(str, sorted(lengths)))}")
    return vectors


def _parse_vector(raw: object) -> list[float]:
    if not isinstance(raw, list) or not raw:
        raise ValueError("a vector is not a list of numbers")
    if not all(type(value) in {int, float} and isfinite(value) for value in raw):
        raise ValueError("a vector contains a value that is not a finite number")
    return normalize_vector([float(value) for value in raw])
