"""MCP over standard streams: one client, whose every line is answered."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from limpet.mcp.server import McpHandlers, create_server
from limpet.tools import ToolContext

_REASONS = {
    types.PARSE_ERROR: "the line is not valid JSON in UTF-8",
    types.INVALID_REQUEST: "the line is not a JSON-RPC 2.0 message: one object with jsonrpc, id, method and params",
}


async def serve_stdio(whose: ToolContext, *, allow_purge: bool = False) -> None:
    """Until the client closes our input, or a signal comes."""
    made = create_server(McpHandlers(lambda _call: whose, allow_purge=allow_purge))
    async with stdio_server() as (read, write), anyio.create_task_group() as group:
        forward, checked = anyio.create_memory_object_stream[SessionMessage | Exception]()
        group.start_soon(_refuse_malformed, read, forward, write)
        if sys.platform != "win32":
            group.start_soon(_exit_on_signal, whose.memory.close)
        await made.run(checked, write, made.create_initialization_options())
        group.cancel_scope.cancel()


async def _exit_on_signal(close: Callable[[], None]) -> None:
    """A thread waits for the next line of our input, and nothing but the client wakes it: the process ends as it is."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            await anyio.to_thread.run_sync(close)
            os._exit(0)


async def _refuse_malformed(read: Any, forward: Any, write: Any) -> None:
    """Answer each line that the SDK cannot read, and which it would drop: a client would wait for ever."""
    async with forward:
        async for item in read:
            if isinstance(item, Exception):
                await write.send(SessionMessage(_build_error(item)))
            else:
                await forward.send(item)


def _build_error(error: Exception) -> types.JSONRPCError:
    first: Any = error.errors()[0] if isinstance(error, ValidationError) else {}
    code = types.PARSE_ERROR if first.get("type") == "json_invalid" else types.INVALID_REQUEST
    data = types.ErrorData(code=code, message=_REASONS[code])
    return types.JSONRPCError(jsonrpc="2.0", id=_find_id(first.get("input")), error=data)


def _find_id(received: object) -> str | int | None:
    """Return the id of a request that could not be read: half of an emoji is JSON to others."""
    if isinstance(received, str):
        try:
            received = json.loads(received)
        except (ValueError, RecursionError):
            return None
    found = received.get("id") if isinstance(received, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
