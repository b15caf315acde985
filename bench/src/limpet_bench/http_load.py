"""Load generators for a server: wrk, or a client in its own process. And the server itself."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any
from urllib.parse import urlsplit

from limpet.errors import Unsupported

_HERE = "limpet_bench.http_load"


@dataclass(frozen=True, slots=True)
class Request:
    """A POST of JSON."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    run: Callable[[str, list[Request], int, float, Path], Done]

    def __call__(self, url: str, requests: list[Request], connections: int, seconds: float, folder: Path) -> Done:
        return self.run(url, requests, connections, seconds, folder)


class Served:
    """A server on that store, started as a user would."""

    def __init__(self, store: Path) -> None:
        command = [sys.executable, "-m", "limpet", "serve", "--data", str(store), "--port", "0", "--json"]
        env = {**os.environ, "LIMPET_EMBEDDING_MODEL": "none"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)  # noqa: S603 - our own words
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unsupported(f"the server did not start: it ended with {self._process.wait()}")
        self.url: str = json.loads(line)["url"]

    def memory(self) -> int:
        """Return resident bytes; 0 if the system does not report them."""
        try:
            lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            return 0
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def stop(self) -> None:
        self._process.terminate()
        self._finish()

    def kill(self) -> None:
        self._process.kill()
        self._finish()

    def _finish(self) -> None:
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()


def choose_load(name: str) -> Load:
    found = shutil.which("wrk")
    if name == "wrk" and found is None:
        raise Unsupported("wrk is not installed; --client own needs nothing")
    return Load("our own client", own) if name == "own" or found is None else Load("wrk", wrk)


_LUA = """\
local paths, bodies = {%s}, {%s}
local head, at, threads = {["Content-Type"] = "application/json"}, 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init() at = number * 1009 end
function request()
  at = at + 1
  local n = at %% #paths + 1
  return wrk.format("POST", paths[n], head, bodies[n])
end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('\\n{"requests": %%d, "seconds": %%f, "p50": %%f, "p99": %%f, "errors": %%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def wrk(url: str, requests: list[Request], connections: int, seconds: float, folder: Path) -> Done:
    script = folder / "requests.lua"
    paths = ",".join(_lua(each.path) for each in requests)
    bodies = ",".join(_lua(json.dumps(each.body)) for each in requests)
    script.write_text(_LUA % (paths, bodies), encoding="utf-8")
    program = shutil.which("wrk") or "wrk"
    command = [program, "-t", "2", "-c", str(connections), "-d", f"{max(1, round(seconds))}s", "--timeout", "30s"]
    done = subprocess.run(  # noqa: S603 - our own words
        [*command, "-s", str(script), url], capture_output=True, text=True, check=True, timeout=seconds + 120
    )
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    answered = told["requests"] - told["errors"]
    return Done(answered / told["seconds"], told["p50"], told["p99"], told["errors"])


def _lua(text: str) -> str:
    """Quote a Lua string; JSON escapes are left to JSON."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def own(url: str, requests: list[Request], connections: int, seconds: float, folder: Path) -> Done:
    """Run in another process, so that it does not share the interpreter with the measuring one."""
    given = folder / "requests.json"
    listed = [asdict(each) for each in requests]
    wanted = {"url": url, "connections": connections, "seconds": seconds, "requests": listed}
    given.write_text(json.dumps(wanted), encoding="utf-8")
    command = [sys.executable, "-m", _HERE, "load", str(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 120)  # noqa: S603
    return Done(**json.loads(done.stdout))


def start_noting(url: str, sessions: list[str], connections: int, into: Path) -> subprocess.Popen[bytes]:
    """Send messages until the server is gone, and log each to a file when it is acknowledged."""
    into.write_bytes(b"")
    given = into.with_suffix(".json")
    given.write_text(json.dumps({"url": url, "connections": connections, "sessions": sessions, "into": str(into)}))
    return subprocess.Popen([sys.executable, "-m", _HERE, "note", str(given)])  # noqa: S603 - our own words


def noted_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def breathe() -> None:
    time.sleep(0.05)


# In the other process


class _Connection:
    """One HTTP/1.1 connection that sends one request after another."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname or "", place.port or 80
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes) -> int:
        """Return the status of the answer. Raises OSError or EOFError when the server is gone."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        told = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = told.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        await self._reader.readexactly(int(length))
        return int(told[9:12])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _load(given: dict[str, Any]) -> Done:
    requests = [(each["path"], json.dumps(each["body"]).encode()) for each in given["requests"]]
    times: list[float] = []
    errors = 0
    began = perf_counter()
    ends = began + given["seconds"]

    async def work(number: int) -> None:
        nonlocal errors
        connection, at = _Connection(given["url"]), number * 37
        while (start := perf_counter()) < ends:
            try:
                status = await connection.post(*requests[at % len(requests)])
            except (OSError, EOFError):
                connection.close()
                status = 0
            at += 1
            if 200 <= status < 300:
                times.append(perf_counter() - start)
            else:
                errors += 1
        connection.close()

    await asyncio.gather(*(work(number) for number in range(given["connections"])))
    took, ordered = perf_counter() - began, sorted(times) or [0.0]
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 for part in (0.5, 0.99))
    return Done(len(times) / took, p50, p99, errors)


async def _note(given: dict[str, Any], into: IO[str]) -> None:
    async def work(number: int) -> None:
        connection, session = _Connection(given["url"]), given["sessions"][number % len(given["sessions"])]
        at = 0
        while True:
            at += 1
            text = f"acknowledged {number}/{at}"
            try:
                body = json.dumps({"role": "user", "content": text}).encode()
                status = await connection.post(f"/v1/sessions/{session}/messages", body)
            except (OSError, EOFError):
                connection.close()
                return
            if status == 201:
                into.write(f"{text}\n")
                into.flush()

    await asyncio.gather(*(work(number) for number in range(given["connections"])))


def _main(what: str, path: str) -> None:
    given = json.loads(Path(path).read_text(encoding="utf-8"))
    if what == "load":
        print(json.dumps(asdict(asyncio.run(_load(given)))))
        return
    with Path(given["into"]).open("a", encoding="utf-8") as into:
        asyncio.run(_note(given, into))


if __name__ == "__main__":
    _main(*sys.argv[1:3])
