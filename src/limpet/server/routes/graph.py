"""The knowledge graph."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from pydantic import Field

from limpet.server.auth import Caller
from limpet.server.operation import Operations
from limpet.server.owner import OwnerQuery
from limpet.server.params import WHOLE, Flag, Words

operations = Operations("graph")


class Graph(TypedDict):
    """Who and what is spoken of, how they are related, and where that was said."""

    entities: Annotated[list[dict[str, Any]], "people, places and things, each under all its names"]
    relations: Annotated[list[dict[str, Any]], "how they are related, since when, and which sentence says so"]
    mentions: Annotated[list[dict[str, Any]], "where they are spoken of"]
    cut: Annotated[bool, "whether there is more than is shown"]


class GraphQuery(OwnerQuery):
    entity: Annotated[Words, Field(max_length=1000, description="only what is around this one")] | None = None
    depth: Annotated[int, Field(ge=0, le=10, description="how many relations far"), WHOLE] = 1
    fresh: Annotated[Flag, Field(description="read first what was not read yet")] = False


@operations.get("/v1/graph")
def get_graph(who: Caller, query: GraphQuery) -> Graph:
    """Who and what is spoken of, and how they are related"""
    found = who.hf.graph(
        entity=query.entity, depth=query.depth, fresh=query.fresh, **query.owner_arguments(who)
    ).to_json()
    return {
        "entities": found["entities"],
        "relations": found["relations"],
        "mentions": found["mentions"],
        "cut": found["cut"],
    }
