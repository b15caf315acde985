"""The knowledge graph."""

from __future__ import annotations

from limpet.api import parameters as arg
from limpet.api.handle import Handle
from limpet.model.graph import Graph
from limpet.security.operation import On, operation


class GraphOperations(Handle):
    """The knowledge graph: calling ``memory.graph`` reads it."""

    @operation("graph.get", On.OWNER, "read", "GET /v1/graph", cli="graph")
    def __call__(
        self,
        user: arg.User | None = None,
        entity: arg.Entity | None = None,
        depth: arg.Depth = 1,
        *,
        agent: arg.Agent | None = None,
        scope: arg.Everyone | None = None,
        fresh: arg.Fresh = False,
    ) -> Graph:
        """Who and what is spoken of, how they are related, and where that was said: all of it, or around an entity.

        ``depth`` says how many relations far. Messages are read for it in the background; with ``fresh`` those that
        were not read yet are read first.
        """
        space = self._resolve_owner(user, agent, None, scope).space
        self._runtime.graph.catch_up(space, now=fresh)
        return self._runtime.graph.load_graph(space, entity, depth)
