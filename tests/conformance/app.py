"""The server the conformance suite is run against: the real one, with the suite's fixtures beside its tools."""

from __future__ import annotations

import argparse
import tempfile

from limpet import Config, Limpet
from limpet.mcp.http import McpHttpApp, get_tool_context
from limpet.mcp.server import create_server
from limpet.server.run import serve
from tests.conformance.fixtures import Events, Fixtures, with_handlers

SETTINGS = {"embedding.model": "none", "jobs.worker": False}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8431)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Limpet.open(folder, config=Config.load(overrides=SETTINGS)) as memory:
        memory.session("conformance", "1", user="alice").append("user", "I moved to Lisbon")
        made = with_handlers(create_server(Fixtures(get_tool_context, allow_purge=True)))
        mcp = McpHttpApp(made, hosts=None, events=Events(), retry_ms=100)
        serve(memory, host="127.0.0.1", port=args.port, user="alice", ready=print, mcp=mcp)


if __name__ == "__main__":
    main()
