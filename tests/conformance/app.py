"""The server the conformance suite is run against: the real one, with the suite's fixtures beside."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast import Config, Holdfast
from holdfast.adapters.mcp_http import WHOSE, McpOverHttp, whose_of
from holdfast.adapters.mcp_server import server
from holdfast.tools import Whose
from tests.conformance.fixtures import Events, Fixtures, with_handlers

SETTINGS = {"embedding.model": "none", "jobs.worker": False}


def mounted(whose: Whose, mcp: McpOverHttp) -> Starlette:
    """As small as a server can be: everybody is the same caller."""

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        await mcp({**scope, "state": {WHOSE: whose}}, receive, send)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with mcp.running():
            yield

    class Endpoint:  # an instance: what is a function, Starlette takes for a view
        __call__ = staticmethod(endpoint)

    return Starlette(routes=[Route("/mcp", endpoint=Endpoint())], lifespan=lifespan)


class Server(uvicorn.Server):
    """Ends open streams before it waits for its connections."""

    def __init__(self, config: uvicorn.Config, mcp: McpOverHttp) -> None:
        super().__init__(config)
        self._mcp = mcp

    async def shutdown(self, sockets: Any = None) -> None:
        self._mcp.close(grace_s=1)
        await super().shutdown(sockets)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8431)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Holdfast.open(folder, config=Config.load(overrides=SETTINGS)) as hf:
        hf.session("conformance", "1", user="alice").append("user", "I moved to Lisbon")
        mcp = McpOverHttp(with_handlers(server(Fixtures(whose_of, allow_purge=True))), events=Events(), retry_ms=100)
        config = uvicorn.Config(mounted(Whose(hf.acting("alice"), "alice"), mcp), port=args.port, log_level="warning")
        Server(config, mcp).run()


if __name__ == "__main__":
    main()
