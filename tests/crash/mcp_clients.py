"""MCP clients, over HTTP beside others and over the standard streams of a process each, which are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any, ClassVar

from limpet import Limpet
from tests.crash.check import iter_records
from tests.crash.clients import Client, Faults, HttpClient, HttpConnection, Siege, Unanswered
from tests.server_process import ROOT

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "torture", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def record_key(key: str) -> str:
    return f"client_{key.replace('-', '_')}"


class McpClient(Client):
    """Records under a key, of which every fourth is forgotten again, and lines of MEMORY.md.

    No call has an idempotency key. A record is saved again under its own key; before a line is added again, the notes
    are read.
    """

    user = "me"

    def __init__(self, number: int, siege: Siege) -> None:
        super().__init__(number, siege)
        self.gone: dict[str, bool] = {}  # key -> whether it was answered that it is forgotten

    def write(self, count: int, key: str, content: str) -> Any:
        if count % 3 == 0:
            return self.ask("memory_notes", lambda: self._add_note(content))
        saved = self.ask("memory_save", lambda: self.call("memory_save", content=content, key=record_key(key)))
        if saved and count % 4 == 0:
            self.gone[key] = False
            self.gone[key] = bool(self.ask("memory_forget", lambda: self.call("memory_forget", key=record_key(key))))
        return saved

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the tool answered, {} for an error that was not meant. Raises Unanswered."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        answer = self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        result = answer.get("result", {})
        if not result or result.get("isError"):
            said = json.dumps(answer)
            if tool == "memory_forget" and "not_found" in said:  # by a call that was not answered
                return {"forgotten": 0}
            if "store_unavailable" in said or "store_busy" in said:
                raise Unanswered(said)
            self.told.odd.append(f"{tool}: {said[:300]}")
            return {}
        found: dict[str, Any] = result["structuredContent"]
        return found

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of the protocol, and its response. Raises Unanswered."""
        raise NotImplementedError

    def check(self, memory: Limpet, faults: Faults) -> None:
        mine = f"of client {self.number}"
        records = {record.key: record for record in iter_records(memory, self.user)}
        lines = Counter(memory.notes.long_term(user=self.user).read().splitlines())
        for key, content in self.told.kept.items():
            is_note = int(key.partition("-")[2]) % 3 == 0
            found = records.get(record_key(key))
            is_there = content in lines if is_note else found is not None and found.content == content
            if not is_there and key not in self.gone:
                faults.lost.append(content)
            if is_there and self.gone.get(key):
                faults.strange.append(f"{content}, which was forgotten")
        faults.doubled += [line for line, count in lines.items() if count > 1 and line.endswith(mine)]
        meant = set(self.told.began.values())
        said = [*lines, *(record.content for record in records.values())]
        faults.strange += [text for text in said if text.endswith(mine) and text not in meant]

    def _add_note(self, content: str) -> dict[str, Any]:
        read = self.call("memory_notes", action="read")
        if content in read.get("text", "").splitlines():
            return read
        return self.call("memory_notes", action="append", text=content)


class McpHttpClient(McpClient):
    def __init__(self, number: int, siege: Siege) -> None:
        super().__init__(number, siege)
        self._connection = HttpConnection(siege)

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": request["method"],
            "Mcp-Name": request["params"]["name"],
        }
        status, said = self._connection.post("/mcp", request, headers)
        found: dict[str, Any] = json.loads(said) if status == 200 else {"status": status, "said": said.decode()[:300]}
        return found

    def leave(self) -> None:
        self._connection.close()


class McpStdioClient(McpClient):
    """Starts its server, and starts it again when it was killed."""

    def __init__(self, number: int, siege: Siege) -> None:
        super().__init__(number, siege)
        self.user = f"user{number % 2}"  # so that several processes write one user's notes
        self.process: subprocess.Popen[bytes] | None = None

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError as error:
            raise Unanswered(str(error)) from error
        if not line.endswith(b"\n"):
            raise Unanswered("killed")
        found: dict[str, Any] = json.loads(line)
        return found

    def leave(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        around = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
        told = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "LIMPET_EMBEDDING_MODEL": "none"}
        command = [sys.executable, "-m", "limpet", "--data", self.siege.store, "mcp", "--user", self.user]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**around, **told}
        )


class ServerSiege(Siege):
    """HTTP and MCP clients of one server."""

    what = "servers of HTTP and MCP"
    kinds: ClassVar[tuple[type[Client], ...]] = (HttpClient,) * 6 + (McpHttpClient,) * 4


class StdioSiege(Siege):
    """MCP servers of one client each."""

    what = "MCP servers of one client"
    kinds: ClassVar[tuple[type[Client], ...]] = (McpStdioClient,) * 4

    def start(self) -> None:
        with Limpet.open(self.store):
            pass

    def strike(self) -> None:
        running = [client.process for client in self.clients if isinstance(client, McpStdioClient) and client.process]
        if running:
            self.chance.choice(running).kill()

    def stop(self) -> None:
        pass
