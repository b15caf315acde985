"""Commands that stay: serve over HTTP, and mcp over the standard streams."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from limpet.cli.options import (
    DEFAULT_USER,
    USER_ENV,
    add_command,
    add_logging,
    disable_worker,
    load_config,
    open_memory,
    resolve_user,
)
from limpet.errors import Unsupported

if TYPE_CHECKING:
    from limpet import Limpet


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "serve", summary, serve)
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen; default: the setting's, 127.0.0.1")
    parser.add_argument("--port", metavar="N", type=int, help="default: the setting's, 8420; 0: any that is free")
    parser.add_argument(
        "--user",
        metavar="U",
        help=f"the user of requests that name none, where there are no keys (else ${USER_ENV}, else {DEFAULT_USER!r})",
    )
    add_logging(parser)
    parser.add_argument("--no-worker", action="store_true", help="leave background work to `limpet worker`")


def serve(args: Namespace) -> int:
    try:
        from limpet.server.run import serve as listen  # late: it takes a second
    except ImportError as missing:
        raise Unsupported(f"{missing.name} is not installed: pip install 'limpet[serve]'") from None
    config = disable_worker(load_config(args)) if args.no_worker else load_config(args)
    with _exit_cleanly(), open_memory(args, creates=True, config=config) as memory:
        rules = memory.config.server
        host, port = args.host or rules.host, rules.port if args.port is None else args.port
        work = (lambda _: None) if args.no_worker else partial(_start_worker, memory, args)
        listen(
            memory,
            host=host,
            port=port,
            user=resolve_user(args),
            ready=lambda url: _announce(args, memory, url),
            work=work,
        )
    return 0


def _start_worker(memory: Limpet, args: Namespace, busy: Callable[[], bool]) -> None:
    """As `limpet worker` does; schedules too, where that is wanted and can be done."""
    from collections import deque

    from limpet.cli.worker import find_schedule_runner

    run, notify = find_schedule_runner(memory, args, deque(maxlen=1)) or (None, None)
    memory.jobs.start_worker(busy=busy, on_schedule=run, notify=notify)


@contextmanager
def _exit_cleanly() -> Iterator[None]:
    """A request to stop is not a failure: the store is closed, and the exit status is 0."""
    before = {number: signal.signal(number, lambda *_: sys.exit(0)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(args: Namespace, memory: Limpet, url: str) -> None:
    if args.json:
        import json  # late: showing help needs none

        print(json.dumps({"url": url, "mcp": f"{url}/mcp", "openapi": f"{url}/openapi.json"}), flush=True)
        return
    lines = [
        f"Limpet serves {memory.admin.stats()['location']}",
        f"  page   {url}/",
        f"  API    {url}/v1/…, described at {url}/openapi.json",
        f"  MCP    {url}/mcp",
    ]
    if not memory.sessions(limit=1) and not memory.records(limit=1):
        lines.append("The store is empty: the page offers a sample conversation to look at.")
    if not memory.access.keys.required():
        lines.append("Programs on this machine need no key until limpet api-keys create makes one.")
    print("\n".join([*lines, "Stop it with Ctrl-C."]), file=sys.stderr, flush=True)


def add_mcp(commands: Any, summary: str) -> None:
    parser = add_command(commands, "mcp", summary, serve_mcp)
    parser.add_argument("--user", metavar="U", help=f"whose memory; default: ${USER_ENV}, then {DEFAULT_USER!r}")
    parser.add_argument("--agent", metavar="A", help="the agent that schedules run as; default: the setting's")
    add_logging(parser)
    parser.add_argument(
        "--allow-purge", action="store_true", help="offer memory_purge, which asks the user; default: mcp.purge"
    )


def serve_mcp(args: Namespace) -> int:
    try:
        import anyio

        from limpet.mcp.stdio import serve_stdio  # late: it takes a second
    except ImportError as missing:
        raise Unsupported(f"{missing.name} is not installed: pip install 'limpet[mcp]'") from None
    from limpet.tools import ToolContext

    config = load_config(args)
    with open_memory(args, creates=True, config=config) as memory:
        serving = partial(serve_stdio, allow_purge=args.allow_purge or config.mcp.purge)
        anyio.run(serving, ToolContext(memory, resolve_user(args), agent=args.agent))
    return 0
