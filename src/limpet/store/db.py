"""What the shared SQL needs of a driver: run a named query and get plain tuples back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # annotations can be read without numpy

Params = Mapping[str, Any]
Row = tuple[Any, ...]


class Db(Protocol):
    """One connection inside a transaction. Driver errors leave it as errors of ours."""

    # Appended to a select whose rows must not change before the transaction ends; empty where one writer is the rule.
    for_update: str
    # The same, passing over rows that somebody else holds.
    skip_locked: str

    def one(self, name: str, params: Params, *, where: str = "", order: str = "") -> Row | None: ...
    def all(self, name: str, params: Params, *, where: str = "", order: str = "") -> list[Row]: ...
    def run(self, name: str, params: Params) -> int:
        """The number of rows changed."""

    def run_many(self, name: str, rows: Sequence[Params]) -> None: ...
    def execute_sql(self, sql: str, params: Params | None = None) -> list[Row]:
        """A statement made by code from table and column names, for what treats all tables alike."""

    def execute_sql_many(self, sql: str, rows: Sequence[Params]) -> None: ...
    def to_int_array(self, values: Sequence[int]) -> Any:
        """A list of whole numbers as this driver passes it for ``:name[]``."""

    def to_text_array(self, values: Sequence[str]) -> Any:
        """The same of texts."""

    # What stands in a vector's column where it is encrypted, in a column of its own.
    no_vector: Any

    def pack_vector(self, values: Sequence[float]) -> Any: ...
    def unpack_vector(self, stored: Any) -> tuple[float, ...]: ...
    def unpack_matrix(self, stored: Sequence[Any]) -> Array:
        """The vectors of ``vectors.page``, a row each."""

    def compute_cosines(
        self, key: Params, model_id: int, ordinals: Sequence[int], question: Sequence[float]
    ) -> dict[int, float]:
        """Of the chunks of a partition with these ordinals that have a vector of the model."""


def compute_cosines(ordinals: Sequence[int], vectors: Array, question: Sequence[float]) -> dict[int, float]:
    """Of the vectors of these chunks, a row each, with the question."""
    import numpy as np  # late: most commands never search

    if not len(ordinals):
        return {}
    asked = np.asarray(question, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)
    found = np.divide(vectors @ asked, lengths, out=np.zeros(len(ordinals), dtype=np.float32), where=lengths > 0)
    return dict(zip(ordinals, found.tolist(), strict=True))


class QueryTemplates:
    """Named queries with their clauses filled in, each text made once."""

    def __init__(self, queries: Mapping[str, str], finish: Callable[[str], str]) -> None:
        self._queries = queries
        self._finish = finish
        self._made: dict[tuple[str, str, str], str] = {}

    def __call__(self, name: str, where: str = "", order: str = "") -> str:
        key = (name, where, order)
        made = self._made.get(key)
        if made is None:
            text = self._queries[name].replace("{where}", where or "TRUE").replace("{order}", order)
            made = self._made[key] = self._finish(text)
        return made
