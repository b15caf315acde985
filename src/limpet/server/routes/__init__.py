"""Every route of the API: what is written by hand, and the rest of the operation table."""

from __future__ import annotations

from limpet.server.route import Route, derive_routes
from limpet.server.routes import pages, sample, streams, tools, turns

_BY_HAND = (
    *pages.routes,  # they answer more than the operation returns
    *turns.routes,  # a block in Python, two requests over HTTP
    *sample.routes,  # for the page
    *tools.routes,
    *streams.routes,  # not JSON
)


def list_routes() -> list[Route]:
    """In a steady order. A route written by hand takes the place of the one derived from the operation."""
    found: dict[tuple[str, str], Route] = {}
    for route in (*_BY_HAND, *derive_routes()):
        found.setdefault(route.key, route)
    return sorted(found.values(), key=lambda route: (route.tag, route.key))
