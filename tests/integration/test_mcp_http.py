"""MCP over HTTP, by the protocol's own client against a real server on a port: both eras, several users."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

import httpx2
import mcp_types as types
import uvicorn
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.routing import Route

from limpet import Config, Limpet
from limpet.mcp.http import TOOL_CONTEXT, McpHttpApp, create_http_app
from limpet.mcp.purge import CODE_TTL_S, ConfirmationCodes, PurgeArguments
from limpet.mcp.server import NOTES
from limpet.tools import TOOLS, ToolContext

pytestmark = pytest.mark.slow

ERAS = ("legacy", "2026-07-28")
SETTINGS = {"embedding.model": "none", "jobs.worker": False}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@dataclass(frozen=True)
class Running:
    memory: Limpet
    url: str
    server: uvicorn.Server
    thread: threading.Thread


class Door:
    """The server outside: a key is the name of a user, and ``alice2`` is another key of alice."""

    def __init__(self, memory: Limpet, mcp: McpHttpApp) -> None:
        self._memory, self._mcp = memory, mcp

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        key = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        user = key.rstrip("2")
        whose = ToolContext(self._memory.acting(user), user, caller=key) if key else None
        await self._mcp({**scope, "state": {TOOL_CONTEXT: whose}}, receive, send)


class Server(uvicorn.Server):
    ended: tuple[McpHttpApp, ...] = ()

    async def shutdown(self, sockets: Any = None) -> None:
        for mcp in self.ended:
            mcp.close(grace_s=0.2)
        await super().shutdown(sockets)


@contextmanager
def serving(folder: Path) -> Iterator[Running]:
    # Named TCP, or asyncio leaves Nagle's waiting on, which costs 40 ms an answer.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with Limpet.open(folder, config=Config.load(overrides=SETTINGS)) as memory, listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # whoever comes before the server has begun waits, and is not refused
        plain, purging = create_http_app(), create_http_app(allow_purge=True)

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with plain.lifespan(), purging.lifespan():
                yield

        routes = [Route("/mcp", endpoint=Door(memory, plain)), Route("/purging", endpoint=Door(memory, purging))]
        app = Starlette(routes=routes, lifespan=lifespan)
        server = Server(uvicorn.Config(app, log_level="warning"))
        server.ended = (plain, purging)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield Running(memory, f"http://127.0.0.1:{listening.getsockname()[1]}", server, thread)
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("http")) as it:
        yield it


@asynccontextmanager
async def connected(running: Running, key: str, era: str, path: str = "/mcp", **more: Any) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(http_client(key))
        transport = streamable_http_client(f"{running.url}{path}", http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=era, cache=None, **more))


def http_client(key: str) -> httpx2.AsyncClient:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(headers={**headers, "accept": "application/json, text/event-stream"}, timeout=60)


@pytest.mark.parametrize("era", ERAS)
def test_mcp_http_isolates_two_users(running: Running, era: str) -> None:
    anns, bobs = f"ann-{era}", f"bob-{era}"
    session = running.memory.session("chat", era, user=bobs)
    session.append("user", "Bob's secret")
    uri = f"limpet://sessions/{session.id}/transcript"

    async def run() -> None:
        async with connected(running, anns, era) as ann, connected(running, bobs, era) as bob:
            assert {tool.name for tool in (await ann.list_tools()).tools} == set(TOOLS)
            await ann.call_tool("memory_save", {"content": "Ann keeps bees"})
            found = await ann.call_tool("memory_search", {"query": "Who keeps bees?"})
            assert [hit["text"] for hit in found.structured_content["hits"]] == ["Ann keeps bees"]
            hers = await bob.call_tool("memory_search", {"query": "Who keeps bees?"})
            assert hers.structured_content["hits"] == []
            assert [str(each.uri) for each in (await bob.list_resources()).resources] == [NOTES, uri]
            assert [str(each.uri) for each in (await ann.list_resources()).resources] == [NOTES]
            assert "Bob's secret" in str((await bob.read_resource(uri)).contents)
            with pytest.raises(MCPError) as refused:
                await ann.read_resource(uri)
            assert refused.value.code == (-32002 if era == "legacy" else types.INVALID_PARAMS)
            assert await completed(bob, session.id[:4]) == await completed(bob, era) == [session.id]
            assert await completed(ann, "") == []
            with pytest.raises(MCPError, match="there is no tool"):
                await ann.call_tool("memory_purge", {"what": "user"})

    anyio.run(run)


async def completed(client: Client, begun: str) -> list[str]:
    ref = types.ResourceTemplateReference(uri="limpet://sessions/{id}/transcript")
    return (await client.complete(ref, {"name": "id", "value": begun})).completion.values


def test_mcp_http_session_belongs_to_its_caller(running: Running) -> None:
    async def run() -> None:
        url = f"{running.url}/mcp"
        async with http_client("alice") as alice:
            begun = await alice.post(url, json=HELLO)
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            assert (await alice.post(url, json=PING, headers=session)).status_code == 200
            for other in ("bob", "alice2"):
                async with http_client(other) as somebody:
                    assert (await somebody.post(url, json=PING, headers=session)).status_code == 404
                    assert (await somebody.delete(url, headers=session)).status_code == 404
            assert (await alice.post(url, json=PING, headers=session)).status_code == 200
            assert (await alice.post(url, json=HELLO, headers={"host": "evil.example"})).status_code == 421
            assert (await alice.post(url, json=HELLO, headers={"origin": "https://evil.example"})).status_code == 403
        async with http_client("") as nobody:
            assert (await nobody.post(url, json=HELLO)).status_code == 401

    anyio.run(run)


def answering(action: Any, content: dict[str, Any] | None = None, asked: list[str] | None = None) -> Any:
    async def answer(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return types.ElicitResult(action=action, content=content)

    return answer


@pytest.mark.parametrize("era", ERAS)
def test_mcp_http_purge_requires_user_confirmation(running: Running, era: str) -> None:
    user = f"carol-{era}"
    running.memory.session("chat", era, user=user).append("user", "I moved to Lisbon")
    asked: list[str] = []

    async def run() -> None:
        for action, content in (("decline", None), ("cancel", None), ("accept", {"confirm": False})):
            said = answering(action, content)
            async with connected(running, user, era, "/purging", elicitation_callback=said) as client:
                result = await client.call_tool("memory_purge", {"what": "user"})
                assert result.structured_content["state"] == "declined"
        assert len(running.memory.sessions(user=user)) == 1
        said = answering("accept", {"confirm": True}, asked)
        async with connected(running, user, era, "/purging", elicitation_callback=said) as client:
            [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "memory_purge"]
            assert tool.annotations is not None
            assert tool.annotations.destructive_hint
            result = await client.call_tool("memory_purge", {"what": "user"})
            assert result.structured_content["state"] == "purged"
            assert result.structured_content["receipt"]["verified"]
            assert {"kind": "messages", "number": 1} in result.structured_content["counts"]
        assert running.memory.sessions(user=user) == []

    anyio.run(run)
    assert "1 message" in asked[0]


@pytest.mark.parametrize("era", ERAS)
def test_mcp_http_purge_without_elicitation_uses_confirmation_code(running: Running, era: str) -> None:
    user = f"dan-{era}"
    session = running.memory.session("chat", era, user=user)
    session.append("user", "I moved to Porto")
    wanted = {"what": "session", "session": session.id}

    async def run() -> None:
        async with connected(running, user, era, "/purging") as client:
            first = await client.call_tool("memory_purge", wanted)
            assert first.structured_content["state"] == "unconfirmed"
            code = first.structured_content["confirm"]
            for arguments in (
                {"what": "user", "confirm": code},
                {**wanted, "confirm": code[:-1] + ("A" if code[-1] != "A" else "B")},
                {**wanted, "confirm": "yes"},
                {"what": "session"},
            ):
                assert (await client.call_tool("memory_purge", arguments)).is_error
            async with connected(running, "eve", era, "/purging") as other:
                assert (await other.call_tool("memory_purge", {**wanted, "confirm": code})).is_error
            assert len(running.memory.sessions(user=user)) == 1
            done = await client.call_tool("memory_purge", {**wanted, "confirm": code})
            assert done.structured_content["state"] == "purged"
            assert running.memory.sessions(user=user) == []
            assert (await client.call_tool("memory_purge", {**wanted, "confirm": code})).is_error

    anyio.run(run)


def test_mcp_http_unsolicited_confirmation_purges_nothing(running: Running) -> None:
    """A client may hand back anything; only what was asked, of this caller and for these arguments, counts."""
    running.memory.session("chat", "1", user="fay").append("user", "I moved to Faro")
    agreed: Any = {"confirm": types.ElicitResult(action="accept", content={"confirm": True})}

    async def run() -> None:
        said = answering("accept", {"confirm": True})
        async with connected(running, "fay", "2026-07-28", "/purging", elicitation_callback=said) as client:
            unasked = await client.session.call_tool("memory_purge", {"what": "user"}, input_responses=agreed)
            assert unasked.is_error
            older = {"what": "older", "days": 0, "everything": True}
            asked: Any = await client.session.call_tool("memory_purge", older, allow_input_required=True)
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool(
                    "memory_purge", {"what": "user"}, input_responses=agreed, request_state=asked.request_state
                )
        assert len(running.memory.sessions(user="fay")) == 1

    anyio.run(run)


def test_confirmation_code_is_valid_once_for_five_minutes() -> None:
    now = [1000.0]
    codes, asked = ConfirmationCodes(lambda: now[0]), PurgeArguments("user")
    with Limpet.open(":memory:", config=Config.load(overrides=SETTINGS)) as memory:
        whose = ToolContext(memory, "alice")
        late, timely = codes.issue(whose, asked), codes.issue(whose, asked)
        now[0] += CODE_TTL_S - 1
        assert codes.redeem(timely, whose, asked)
        assert not codes.redeem(timely, whose, asked)
        now[0] += 1
        assert not codes.redeem(late, whose, asked)


def test_mcp_http_open_streams_end_on_server_shutdown(tmp_path: Path) -> None:
    """One that waits for news, and a call that waits for the user's answer."""
    asking: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    asking["params"] = {"name": "memory_purge", "arguments": {"what": "user"}}
    able = {**HELLO, "params": {**HELLO["params"], "capabilities": {"elicitation": {}}}}

    async def run(running: Running) -> None:
        with anyio.fail_after(10):
            await cut_off(running)

    async def cut_off(running: Running) -> None:
        url = f"{running.url}/purging"
        async with http_client("alice") as client:
            begun = await client.post(url, json=able)
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await client.post(url, json=ready, headers=session)).status_code == 202
            async with (
                client.stream("GET", url, headers=session) as news,
                client.stream("POST", url, json=asking, headers=session) as call,
            ):
                assert news.status_code == call.status_code == 200
                lines = call.aiter_lines()
                async for line in lines:
                    if "elicitation/create" in line:
                        break
                running.server.should_exit = True
                assert [line async for line in lines if "result" in line] == []
                assert await news.aread() == b""

    with serving(tmp_path) as running:
        anyio.run(run, running)
        running.thread.join(60)
        assert not running.thread.is_alive()
