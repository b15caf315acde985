"""The knowledge graph: looked at."""

from __future__ import annotations

from typing import Literal

from holdfast import graphing
from holdfast.domain.graph import Graph
from holdfast.domain.text import checked_text, shown
from holdfast.domain.values import checked_flag
from holdfast.domain.verb import verb
from holdfast.engine.face import Face
from holdfast.errors import InvalidInput

MAX_DEPTH = 10


class Graphs(Face):
    """The verbs on the graph."""

    @verb("graph")
    def graph(
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
        space = self._home(user, agent, None, scope).space
        name = None if entity is None else checked_text(entity, "entity", max_bytes=4096)
        far = _checked_depth(depth)
        graphing.look_after(self._runtime, space, now=checked_flag(fresh, "fresh"))
        return graphing.shown(self._runtime, space, name, far)


def _checked_depth(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_DEPTH:
        raise InvalidInput(f"depth must be a whole number from 0 to {MAX_DEPTH}, not {shown(value)}")
    return value
