"""The processes of ``limpet bench scale``: one that writes or reads for a while, and a network that is slow.

    ["work", URL, KIND, NAME, THREADS, USERS, SECONDS]
    ["delay", URL, MILLISECONDS]

Each reads such a line, since an address may have a password, and says a line when it is ready. A worker begins at the
next line of its input, and answers with a line of JSON.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count, cycle
from typing import Any, Self
from urllib.parse import quote

KINDS = ("append", "turn", "recall")
BARE = "bare insert"
BARE_TABLE = "limpet_bench_rows"
_HERE = "limpet_bench.scale_load"
_TEXT = (
    "We walked from the old harbour up to the library and talked about the bicycle that Ann wants to sell before"
    " the summer, because the new flat in Porto has no room for it and the rent is high"
)
_WARM = 20  # messages that a user has before the clock starts


@dataclass(frozen=True, slots=True)
class Done:
    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: float
    memory_mb: float
    errors: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one process does."""

    url: str
    kind: str
    name: str
    threads: int
    users: int  # of each thread, in turn
    seconds: float

    def start(self) -> Started:
        given = (self.url, self.kind, self.name, self.threads, self.users, self.seconds)
        return Started("work", *given)


class Started:
    """A process of this module that said it is ready."""

    def __init__(self, what: str, *given: str | float) -> None:
        command = [sys.executable, "-m", _HERE]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words
        assert self._process.stdout is not None
        self._send(json.dumps([what, *given]))
        self.said = self._process.stdout.readline().strip()
        if not self.said:
            raise RuntimeError(f"a process of the bench ({what}) ended with {self._process.wait()} before it was ready")

    def go(self) -> None:
        self._send("go")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def result(self) -> Done:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.stop()
        return Done(**json.loads(line))

    def stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SlowNetwork:
    """A way to the server on which everything takes half of the latency, there and back."""

    def __init__(self, url: str, latency_ms: float) -> None:
        self._process = Started("delay", url, latency_ms)
        self.url = self._process.said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()


def run_all(loads: list[Load]) -> list[Done]:
    """All of them at the same time."""
    started = [load.start() for load in loads]
    for each in started:
        each.go()
    return [each.result() for each in started]


# The slow network


def serve_delayed(url: str, latency_ms: float) -> None:
    """Until the input ends."""
    import psycopg.conninfo

    given = psycopg.conninfo.conninfo_to_dict(url)
    host, port = str(given.get("host") or "127.0.0.1"), int(given.get("port") or 5432)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    owner = quote(str(given.get("user") or ""), safe="")
    secret = f":{quote(str(given['password']), safe='')}" if given.get("password") else ""
    print(f"postgresql://{owner}{secret}@127.0.0.1:{listener.getsockname()[1]}/{given.get('dbname') or ''}", flush=True)
    threading.Thread(target=_accept, args=(listener, host, port, latency_ms / 2000), daemon=True).start()
    sys.stdin.read()


def _accept(listener: socket.socket, host: str, port: int, delay_s: float) -> None:
    while True:
        client, _ = listener.accept()
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
        else:
            server = socket.create_connection((host, port))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=_carry, args=(one, other, delay_s), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(delay_s)
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


# A worker


def work(load: Load) -> None:
    calls, close = _prepare_bare(load) if load.kind == BARE else _prepare_memory(load)
    for call in calls:  # what is imported late and connected late is so now
        call()
    print("ready", flush=True)
    sys.stdin.readline()
    taken: list[float] = []
    errors: list[str] = []
    before, begun = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=_repeat, args=(call, load.seconds, taken, errors)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    ordered = [each * 1000 for each in sorted(taken)] or [0.0]
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    done = Done(len(taken), seconds, middle, late, time.process_time() - before, memory, len(errors))
    for error in errors[:3]:
        print(error, file=sys.stderr)
    print(json.dumps(asdict(done)), flush=True)
    close()


def _repeat(call: Callable[[], object], seconds: float, taken: list[float], errors: list[str]) -> None:
    from limpet.errors import LimpetError

    until = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        try:
            call()
        except LimpetError as error:
            errors.append(f"{type(error).__name__}: {error}")
        taken.append(time.perf_counter() - begun)


def _prepare_bare(load: Load) -> tuple[list[Callable[[], object]], Callable[[], object]]:
    """One row as wide as a message, and a commit."""
    import psycopg

    connections = [psycopg.connect(load.url, autocommit=True) for _ in range(load.threads)]

    def call(number: int) -> Callable[[], object]:
        connection, numbers = connections[number], count()
        insert = f"INSERT INTO {BARE_TABLE} (run, owner, number, text) VALUES (%s, %s, %s, %s)"
        return lambda: connection.execute(insert.encode(), [load.name, str(number), next(numbers), _TEXT])

    def close() -> None:
        for each in connections:
            each.close()

    return [call(number) for number in range(load.threads)], close


def _prepare_memory(load: Load) -> tuple[list[Callable[[], object]], Callable[[], object]]:
    from limpet import Config, Limpet

    settings = {
        "jobs.worker": False,
        "embedding.model": "none",
        "storage.postgres_connections": max(8, 2 * load.threads),
    }
    memory = Limpet.open(load.url, config=Config.load(overrides=settings))
    return [_prepare_thread(memory, load, number) for number in range(load.threads)], memory.close


def _prepare_thread(memory: Any, load: Load, number: int) -> Callable[[], object]:
    from limpet import Message

    users = [f"{load.name}-{number}-{each}" for each in range(load.users)]
    sessions = [memory.session("bench", "scale", user=user) for user in users]
    if load.kind == "recall":
        for session in sessions:
            session.extend([Message.new("user", f"{at} {_TEXT}") for at in range(_WARM)])
    numbers, turns = count(), cycle(sessions)
    if load.kind == "recall":
        asked = cycle(users)
        return lambda: memory.recall("Where is the bicycle?", user=next(asked))
    if load.kind == "append":
        return lambda: next(turns).append("user", f"{next(numbers)} {_TEXT}")

    def turn() -> None:
        with next(turns).turn(f"{next(numbers)} {_TEXT}") as opened:
            opened.reply("I will remember that.")

    return turn


if __name__ == "__main__":
    what, *given = json.loads(sys.stdin.readline())
    if what == "delay":
        serve_delayed(*given)
    else:
        work(Load(*given))
