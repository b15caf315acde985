"""The knowledge graph: looked at."""

from __future__ import annotations

from typing import Literal

from limpet.api.base import Face
from limpet.errors import InvalidInput
from limpet.knowledge.graph import jobs
from limpet.model.graph import Graph
from limpet.model.text import checked_text, shown
from limpet.model.values import checked_flag
from limpet.security.operation import verb

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
        jobs.look_after(self._runtime, space, now=checked_flag(fresh, "fresh"))
        return jobs.shown(self._runtime, space, name, far)


def _checked_depth(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_DEPTH:
        raise InvalidInput(f"depth must be a whole number from 0 to {MAX_DEPTH}, not {shown(value)}")
    return value
