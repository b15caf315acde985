"""mcp: the memory of one user for a program that speaks the Model Context Protocol over its standard streams."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import Any

from limpet.cli.options import DEFAULT_USER, USER_ENV, add_command, add_logging, load_config, open_memory, resolve_user
from limpet.errors import Unsupported


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "mcp", summary, serve)
    parser.add_argument("--user", metavar="U", help=f"whose memory; default: ${USER_ENV}, then {DEFAULT_USER!r}")
    parser.add_argument("--agent", metavar="A", help="the agent that schedules run as; default: the setting's")
    add_logging(parser)
    parser.add_argument(
        "--allow-purge", action="store_true", help="offer memory_purge, which asks the user; default: mcp.purge"
    )


def serve(args: Namespace) -> int:
    try:
        import anyio

        from limpet.mcp.server import serve_stdio  # late: it takes a second
    except ImportError as missing:
        raise Unsupported(f"{missing.name} is not installed: pip install 'limpet[mcp]'") from None
    from limpet.tools import ToolContext

    config = load_config(args)
    with open_memory(args, creates=True, config=config) as memory:
        serving = partial(serve_stdio, allow_purge=args.allow_purge or config.mcp.purge)
        anyio.run(serving, ToolContext(memory, resolve_user(args), agent=args.agent))
    return 0
