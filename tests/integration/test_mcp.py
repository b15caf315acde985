"""The MCP server, by a real client over the standard streams of a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from limpet import Limpet
from limpet.mcp.server import NOTES
from limpet.tools import TOOLS

pytestmark = pytest.mark.slow


def process(folder: Path, *more: str) -> StdioServerParameters:
    arguments = ["-m", "limpet", "--data", str(folder), "mcp", *more]
    return StdioServerParameters(
        command=sys.executable,
        args=arguments,
        env={"LIMPET_EMBEDDING_MODEL": "none", "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
    )


@asynccontextmanager
async def connected(folder: Path, *more: str) -> AsyncIterator[Any]:
    async with Client(stdio_client(process(folder, *more))) as client:
        yield client


def talked(folder: Path, talk: Any, *more: str) -> Any:
    async def run() -> Any:
        async with connected(folder, *more) as client:
            return await talk(client)

    return anyio.run(run)


def test_mcp_client_saves_searches_and_forgets(tmp_path: Path) -> None:
    async def talk(client: Any) -> None:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == set(TOOLS)
        hints = {tool.name: tool.annotations for tool in listed}
        assert hints["memory_search"].read_only_hint
        assert hints["memory_forget"].destructive_hint
        saved = await client.call_tool("memory_save", {"content": "Alice keeps bees", "key": "hobby"})
        assert saved.structured_content["key"] == "hobby"
        found = await client.call_tool("memory_search", {"query": "Who keeps bees?"})
        assert [hit["text"] for hit in found.structured_content["hits"]] == ["Alice keeps bees"]
        wrong = await client.call_tool("memory_search", {"qery": "x"})
        assert wrong.is_error
        assert "did you mean query?" in wrong.content[0].text
        gone = await client.call_tool("memory_forget", {"key": "hobby"})
        assert gone.structured_content["forgotten"] == 1
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("memory_purge", {})

    talked(tmp_path, talk, "--user", "alice")


MALFORMED = {
    "not JSON": (b"hello", types.PARSE_ERROR, None),
    "not UTF-8": (b"\xff\xfe", types.PARSE_ERROR, None),
    "too deep": (b"[" * 100_000, types.PARSE_ERROR, None),
    "half an emoji": (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"memory_save","arguments":{"content":"\\ud83d"}}}',
        types.PARSE_ERROR,
        7,
    ),
    "array": (b"[]", types.INVALID_REQUEST, None),
    "null": (b"null", types.INVALID_REQUEST, None),
    "no method": (b'{"jsonrpc":"2.0","id":"a"}', types.INVALID_REQUEST, "a"),
    "long id": (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"tools/list"}', types.PARSE_ERROR, None),
}


def test_mcp_over_stdio_answers_lines_that_are_not_requests(tmp_path: Path) -> None:
    given = process(tmp_path, "--user", "alice")
    program = [given.command, *given.args]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, env=given.env, cwd=given.cwd, stdin=pipe, stdout=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers = {}
        for name, (line, _, _) in MALFORMED.items():
            server.stdin.write(line + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            answers[name] = (line, answer["error"]["code"], answer["id"])
        server.stdin.write(b'{"jsonrpc":"2.0","id":99,"method":"ping"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 99
        server.stdin.close()
    assert answers == MALFORMED


def test_mcp_resources_and_prompts(tmp_path: Path) -> None:
    with Limpet.open(tmp_path) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "I moved to Lisbon")
        bobs = memory.session("t", "2", user="bob")
        bobs.append("user", "Bob's secret")
        memory.notes.long_term(user="alice").write("# About Alice\n")

    async def talk(client: Any) -> None:
        listed = (await client.list_resources()).resources
        assert [str(each.uri) for each in listed] == [NOTES, f"limpet://sessions/{session.id}/transcript"]
        notes = await client.read_resource(NOTES)
        assert "# About Alice" in notes.contents[0].text
        transcript = await client.read_resource(str(listed[1].uri))
        assert "I moved to Lisbon" in transcript.contents[0].text
        for uri in (
            f"limpet://sessions/{bobs.id}/transcript",
            "limpet://sessions/x/transcript",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert "secret" not in str(refused.value)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["recall", "profile"]
        recalled = await client.get_prompt("recall", {"question": "Where did I move?"})
        assert "I moved to Lisbon" in recalled.messages[0].content.text
        assert (await client.get_prompt("profile")).messages[0].content.text == "You know nothing about me yet."
        for name in ("recall", "poem"):
            with pytest.raises(MCPError):
                await client.get_prompt(name)

    talked(tmp_path, talk, "--user", "alice")


def test_mcp_purge_is_offered_when_allowed_and_asks(tmp_path: Path) -> None:
    with Limpet.open(tmp_path) as memory:
        memory.session("t", "1", user="alice").append("user", "I moved to Lisbon")

    async def agree(context: Any, params: Any) -> types.ElicitResult:
        assert "1 message" in params.message
        return types.ElicitResult(action="accept", content={"confirm": True})

    async def run() -> None:
        transport = stdio_client(process(tmp_path, "--user", "alice", "--allow-purge"))
        async with Client(transport, elicitation_callback=agree) as client:
            done = await client.call_tool("memory_purge", {"what": "older", "days": 0, "everything": True})
            assert done.structured_content["state"] == "purged"
            assert done.structured_content["receipt"]["what"] == "older_everything"

    anyio.run(run)
    with Limpet.open(tmp_path) as memory:
        assert memory.sessions(user="alice") == []


@pytest.mark.long
def test_mcp_ten_servers_on_one_file_lose_no_write(tmp_path: Path) -> None:
    """Several clients on one machine, each with a server of its own, are the normal case."""
    servers, writes = 10, 10

    async def write(at: int) -> None:
        async with connected(tmp_path, "--user", f"user{at % 3}") as client:
            for number in range(writes):
                saved = await client.call_tool("memory_save", {"content": f"fact {number} of server {at}"})
                assert not saved.is_error, saved.content[0].text

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for at in range(servers):
                group.start_soon(write, at)

    anyio.run(run)
    with Limpet.open(tmp_path) as memory:
        kept = {record.content for user in range(3) for record in memory.records(user=f"user{user}", limit=1000)}
    assert kept == {f"fact {number} of server {at}" for at in range(servers) for number in range(writes)}
