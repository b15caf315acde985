"""The knowledge graph: looked at."""

from __future__ import annotations

from typing import Literal

from limpet.api.handle import Handle
from limpet.errors import InvalidInput
from limpet.model.graph import Graph
from limpet.model.text import check_text, short_repr
from limpet.model.values import check_flag
from limpet.security.operation import operation

MAX_DEPTH = 10


class GraphOperations(Handle):
    """The knowledge graph: calling ``memory.graph`` reads it."""

    @operation("graph.get")
    def __call__(
        self,
        user: str | None = None,
        entity: str | None = None,
        depth: int = 1,
        *,
        agent: str | None = None,
        scope: Literal["global"] | None = None,
        fresh: bool = False,
    ) -> Graph:
        """Who and what is spoken of, how they are related, and where that was said: all of it, or around an entity.

        ``depth`` says how many relations far. Messages are read for it in the background; with ``fresh`` those that
        were not yet are read before.
        """
        space = self._resolve_owner(user, agent, None, scope).space
        name = None if entity is None else check_text(entity, "entity", max_bytes=4096)
        far = _validate_depth(depth)
        self._runtime.graph.catch_up(space, now=check_flag(fresh, "fresh"))
        return self._runtime.graph.load_graph(space, name, far)


def _validate_depth(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_DEPTH:
        raise InvalidInput(f"depth must be a whole number from 0 to {MAX_DEPTH}, not {short_repr(value)}")
    return value
