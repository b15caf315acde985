"""How many requests ``limpet serve`` answers on this machine, beside the same verbs called without it.

The server is a process of its own, and so is whatever asks it: wrk where it is installed, else a client of ours. Both
sides work on a copy of the same store. In the end the server is killed while it answers, and what it had acknowledged
is looked for.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from threading import Thread
from time import monotonic, perf_counter
from typing import Any

from limpet import Config, Limpet, Message
from limpet_bench import http_load
from limpet_bench.http_load import Load, Request, Served
from limpet_bench.speed import machine
from limpet_bench.workload import texts

KINDS = ("appends", "turns", "recalls", "mixed")
COMPARED = ("turns", "recalls")
WEIGHTS = ("appends", "appends", "appends", "turns", "recalls", "recalls")  # of the mixed load
USERS, MESSAGES = 100, 50  # messages of a session
MOST_GROWTH, FLOOR = 0.05, 8 * 2**20  # growth of resident memory in the second of two equal phases


@dataclass(frozen=True, slots=True)
class Effort:
    seconds: float
    connections: int
    sessions: int
    requests: int  # distinct ones of each kind


@dataclass(frozen=True, slots=True)
class Result:
    """``ratio`` is requests per second through the server over direct calls in one process."""

    name: str
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    in_process: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Grown:
    """Memory of the server in bytes: at the start, and after each of two equal phases."""

    before: int
    first: int
    second: int

    @property
    def is_flat(self) -> bool:
        return self.second - self.first <= max(FLOOR, MOST_GROWTH * self.first)


@dataclass(frozen=True, slots=True)
class Killed:
    acknowledged: int
    lost: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase (default 10)")
    parser.add_argument("--connections", type=int, default=64, help="requests at once (default 64)")
    parser.add_argument("--short", action="store_true", help="a quick look: a second each, a tenth of the data")
    parser.add_argument(
        "--client", choices=("auto", "wrk", "own"), default="auto", help="what asks (default: wrk if any)"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="only the phases whose name has this in it")
    parser.add_argument("--folder", type=Path, help="where the databases go (default: a temporary folder)")


def main(args: argparse.Namespace) -> int:
    effort = Effort(args.seconds, args.connections, 200, 4000)
    if args.short:
        effort = Effort(min(args.seconds, 1.0), args.connections, 20, 400)
    as_json = bool(getattr(args, "json", False))
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="limpet-bench-") as folder:
        bench = Bench(Path(folder), effort, http_load.choose_load(args.client))
        results = []
        for kind in KINDS:
            if args.only in kind:
                results.append(bench.measure(kind))
                if not as_json:
                    print(_line(results[-1]), flush=True)
        grown = bench.memory() if args.only in "memory" else None
        killed = bench.kill() if args.only in "kill" else None
    if as_json:
        print(json.dumps(_whole(bench, results, grown, killed), indent=2))
    else:
        _tell(bench, grown, killed)
    return 1 if killed is not None and killed.lost else 0


class Bench:
    def __init__(self, folder: Path, effort: Effort, load: Load) -> None:
        self.folder, self.effort, self.load = folder, effort, load
        self._numbers = count(1)
        self._filled = folder / "filled"
        with open_store(self._filled) as memory:
            self._sessions = fill(memory, effort.sessions)
        self._requests = {kind: build_requests(kind, self._sessions, effort.requests) for kind in KINDS}

    def copy(self) -> Path:
        place = self.folder / str(next(self._numbers))
        shutil.copytree(self._filled, place)
        return place

    @contextmanager
    def _serve(self, place: Path) -> Iterator[Served]:
        served = Served(place)
        try:
            yield served
        finally:
            served.stop()

    def measure(self, kind: str) -> Result:
        effort = self.effort
        with self._serve(self.copy()) as served:
            self._warm(served, kind)
            done = self.load(served.url, self._requests[kind], effort.connections, effort.seconds, self.folder)
        plain = in_process(self.copy(), self._requests[kind], effort) if kind in COMPARED else None
        return Result(
            kind,
            round(done.per_second, 1),
            round(done.p50_ms, 2),
            round(done.p99_ms, 2),
            done.errors,
            None if plain is None else round(plain, 1),
            None if plain is None else round(done.per_second / plain, 2),
        )

    def _warm(self, served: Served, kind: str) -> None:
        """Warm up: loading on the first request is not measured."""
        http_load.own(served.url, self._requests[kind], 4, min(1.0, self.effort.seconds), self.folder)

    def memory(self) -> Grown:
        """Run two phases of recalls and turns, after opening the same number of connections once."""
        effort = self.effort
        with self._serve(self.copy()) as served:
            before = served.memory()
            after = []
            for _ in range(2):
                self.load(served.url, self._requests["mixed"], effort.connections, effort.seconds, self.folder)
                after.append(served.memory())
        return Grown(before, *after)

    def kill(self) -> Killed:
        place = self.copy()
        served = Served(place)
        noted = self.folder / "acknowledged"
        sessions = [id_ for id_, _ in self._sessions]
        client = http_load.start_noting(served.url, sessions, self.effort.connections, noted)
        try:
            ends = monotonic() + min(3.0, self.effort.seconds)
            while monotonic() < ends or (http_load.noted_lines(noted) < 100 and monotonic() < ends + 30):
                http_load.breathe()
        finally:
            served.kill()
            client.wait(60)
        acknowledged = noted.read_text().splitlines()
        with open_store(place) as memory:
            kept = {message.text for id_ in sessions for message in memory.load_session(id_).messages()}
        return Killed(len(acknowledged), sum(line not in kept for line in acknowledged))


def open_store(folder: Path) -> Limpet:
    return Limpet.open(folder, config=Config.load(env={}, overrides={"embedding.model": "none"}))


def fill(memory: Limpet, sessions: int) -> list[tuple[str, str]]:
    """Return their ids and owners."""
    lines, found = texts(sessions * MESSAGES, seed=3), []
    for number in range(sessions):
        user = f"user{number % USERS}"
        session = memory.session("bench", str(number), user=user)
        part = lines[number * MESSAGES : (number + 1) * MESSAGES]
        session.extend([Message.new(("user", "assistant")[at % 2], line) for at, line in enumerate(part)])
        found.append((session.id, user))
    return found


def build_requests(kind: str, sessions: list[tuple[str, str]], number: int) -> list[Request]:
    """Build requests over all sessions in turn."""
    lines = texts(number, seed=11)
    kinds = WEIGHTS if kind == "mixed" else (kind,)
    return [
        _build_request(kinds[at % len(kinds)], *sessions[at * 7 % len(sessions)], line) for at, line in enumerate(lines)
    ]


def _build_request(kind: str, session: str, user: str, line: str) -> Request:
    place = f"/v1/sessions/{session}"
    match kind:
        case "appends":
            return Request(f"{place}/messages", {"role": "user", "content": line})
        case "turns":
            return Request(f"{place}/turns", {"content": line, "reply": "That is noted."})
        case _:
            return Request("/v1/recall", {"query": " ".join(line.split()[:8]), "user": user})


def in_process(place: Path, requests: list[Request], effort: Effort) -> float:
    """Return direct calls per second, with as many threads as connections."""
    with open_store(place) as memory:
        memory.jobs.start_worker()  # as in the server
        for request in requests[:20]:
            _call(memory, request)
        done = [0] * effort.connections
        ends = perf_counter() + effort.seconds

        def work(number: int) -> None:
            at = number * 37
            while perf_counter() < ends:
                _call(memory, requests[at % len(requests)])
                done[number] += 1
                at += 1

        threads = [Thread(target=work, args=(number,)) for number in range(effort.connections)]
        began = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (perf_counter() - began)


def _call(memory: Limpet, request: Request) -> None:
    given: dict[str, Any] = request.body
    if request.path == "/v1/recall":
        memory.recall(given["query"], user=given["user"])
        return
    session = memory.load_session(request.path.split("/")[3])
    if "reply" in given:
        with session.turn(given["content"]) as turn:
            turn.reply(given["reply"])
    else:
        session.append(given["role"], given["content"])


def _line(result: Result) -> str:
    compared = "" if result.ratio is None else f"; {result.ratio}× of {result.in_process:,.0f}/s in one process"
    return (
        f"{result.name}: {result.per_second:,.0f}/s, p50 {result.p50_ms} ms, p99 {result.p99_ms} ms,"
        f" {result.errors} errors{compared}"
    )


def _tell(bench: Bench, grown: Grown | None, killed: Killed | None) -> None:
    if grown is not None:
        shown = ", ".join(f"{each / 2**20:.0f}" for each in (grown.before, grown.first, grown.second))
        verdict = "flat" if grown.is_flat else "GROWS"
        print(f"memory of the server at the start and after each of two equal phases: {shown} MB: {verdict}")
    if killed is not None:
        print(f"killed while it answered: {killed.acknowledged:,} acknowledged, {killed.lost} lost")
    effort = bench.effort
    print(f"\n{machine()}; {effort.connections} connections for {effort.seconds:g} s each, by {bench.load.name}.")


def _whole(bench: Bench, results: list[Result], grown: Grown | None, killed: Killed | None) -> dict[str, Any]:
    return {
        "machine": machine(),
        "client": bench.load.name,
        "effort": asdict(bench.effort),
        "results": [asdict(each) for each in results],
        "memory": None if grown is None else {**asdict(grown), "flat": grown.is_flat},
        "killed": None if killed is None else asdict(killed),
    }
