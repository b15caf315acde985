"""How fast the store is, each figure as a ratio to something plain measured in the same run.

Both sides of a comparison take turns, a round each, so that whatever else the machine does falls on both. A repeat's
figure is taken over all its rounds; the result is the median of the repeats.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from limpet.api.session import Session
from limpet.errors import Unsupported
from limpet.providers.embedder import Embedder
from limpet_bench import prompting, purging, searching
from limpet_bench.workload import Bare, fill, give_vectors, texts, time_call, together


@dataclass(frozen=True, slots=True)
class Effort:
    """The amount of work per repeat."""

    rounds: int
    appends: int
    threads: int
    small: int
    large: int
    starts: int
    chunks: int
    few_chunks: int
    questions: int
    records: int
    memories: int
    messages: int
    embedded: int
    purged: int


FULL = Effort(
    rounds=8,
    appends=200,
    threads=32,
    small=1_000,
    large=1_000_000,
    starts=10,
    chunks=100_000,
    few_chunks=10_000,
    questions=100,
    records=1_000,
    memories=50,
    messages=200,
    embedded=100,
    purged=2_000,
)
SHORT = Effort(
    rounds=3,
    appends=60,
    threads=32,
    small=1_000,
    large=20_000,
    starts=3,
    chunks=3_000,
    few_chunks=1_000,
    questions=30,
    records=100,
    memories=50,
    messages=200,
    embedded=20,
    purged=500,
)


@dataclass(slots=True)
class Times:
    """Seconds per operation, over the rounds of both sides."""

    ours: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``ratio`` is ours over plain: of speeds if more is better, of times if less is better."""

    name: str
    plain: str
    goal: float | None
    more_is_better: bool
    measure: Callable[[Bench], Times]
    unit: str = ""  # if it is not a time
    of_p95: bool = False  # compare 95th percentiles of single times, not medians


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    against: str
    unit: str
    ours: float
    plain: float
    ratio: float
    spread: tuple[float, float]
    ours_p95_us: float
    plain_p95_us: float
    goal: float | None
    reached: bool | None


class Bench:
    """The databases of a run, created on first use."""

    def __init__(self, folder: Path, effort: Effort, note: Callable[[str], None]) -> None:
        self.folder = folder
        self.effort = effort
        self._note = note
        self._made = 0
        self._filled: dict[int, Path] = {}
        self._stores: dict[str, Path] = {}

    def new_folder(self) -> Path:
        self._made += 1
        return self.folder / str(self._made)

    def fill_store(self, messages: int) -> Path:
        """Return a store with that many messages, reused by the next repeat."""
        if messages not in self._filled:
            folder = self.new_folder()
            with searching.open_store(folder, None) as memory:
                fill(
                    memory,
                    messages,
                    max(2, messages // 1000),
                    lambda done: self._note(f"storing {done:,} of {messages:,}"),
                )
            self._filled[messages] = folder
        return self._filled[messages]

    def fill_chat(self, chunks: int) -> Path:
        """Return a store of one user with that many chunks, each with its vector."""
        return self._fill_once(f"talked {chunks}", chunks, searching.SpreadEmbedder())

    def alone(self) -> Path:
        return self._fill_once("alone", self.effort.few_chunks, searching.SpreadEmbedder(searching.OTHERS_DIMENSION))

    def fill_crowd(self) -> Path:
        """Return the same user among the many of a large store, all with vectors of the same model."""
        if "crowded" not in self._stores:
            folder = self._stores["crowded"] = self.fill_store(self.effort.large)
            with searching.open_store(folder, searching.SpreadEmbedder(searching.OTHERS_DIMENSION)) as memory:
                searching.talk(memory, searching.USER, self.effort.few_chunks, self._note)
            give_vectors(folder, searching.OTHERS_DIMENSION)
        return self._stores["crowded"]

    def fill_life(self) -> Path:
        """Return the user of ``fill_chat`` with records, memories and an active chat."""
        if "lived" not in self._stores:
            folder = self._stores["lived"] = self.new_folder()
            shutil.copytree(self.fill_chat(self.effort.chunks), folder)
            with searching.open_store(folder, searching.SpreadEmbedder()) as memory:
                prompting.live(memory, self.effort)
        return self._stores["lived"]

    def _fill_once(self, name: str, chunks: int, embedder: Embedder) -> Path:
        if name not in self._stores:
            folder = self._stores[name] = self.new_folder()
            with searching.open_store(folder, embedder) as memory:
                searching.talk(memory, searching.USER, chunks, self._note)
        return self._stores[name]


def append_alone(bench: Bench) -> Times:
    effort, times = bench.effort, Times()
    bare = Bare(bench.new_folder(), 1)
    lines = texts(effort.rounds * effort.appends)
    with searching.open_store(bench.new_folder(), None) as memory:
        session, connection = memory.session("bench", "0", user="user0"), bare.connect()
        for start in range(0, len(lines), effort.appends):
            part = list(enumerate(lines[start : start + effort.appends], start + 1))
            times.ours += [time_call(lambda text=text: session.append("user", text)) for _, text in part]  # type: ignore[misc]
            times.plain += [
                time_call(lambda at=at, text=text: bare.insert(connection, bare.sessions[0], at, text))  # type: ignore[misc]
                for at, text in part
            ]
        connection.close()
    return times


def append_together(bench: Bench) -> Times:
    """Each thread has its own user and session; seconds per append across all threads."""
    effort, times = bench.effort, Times()
    threads, each = effort.threads, max(10, effort.appends // 4)
    bare = Bare(bench.new_folder(), threads)
    lines = texts(effort.rounds * each)
    with searching.open_store(bench.new_folder(), None) as memory:
        sessions = [memory.session("bench", str(number), user=f"user{number}") for number in range(threads)]
        connections = [bare.connect() for _ in range(threads)]
        for start in range(0, len(lines), each):
            part = list(enumerate(lines[start : start + each], start + 1))

            def ours(thread: int, part: list[tuple[int, str]] = part) -> None:
                for _, text in part:
                    sessions[thread].append("user", text)

            def plain(thread: int, part: list[tuple[int, str]] = part) -> None:
                for at, text in part:
                    bare.insert(connections[thread], bare.sessions[thread], at, text)

            times.ours.append(together(threads, ours) / (threads * each))
            times.plain.append(together(threads, plain) / (threads * each))
        for connection in connections:
            connection.close()
    return times


@contextmanager
def _small_and_large(bench: Bench) -> Iterator[tuple[Session, Session]]:
    """The same session in a small store and in a large one."""
    with (
        searching.open_store(bench.fill_store(bench.effort.small), None) as small,
        searching.open_store(bench.fill_store(bench.effort.large), None) as large,
    ):
        yield small.session("bench", "0", user="user0"), large.session("bench", "0", user="user0")


def read_recent(bench: Bench) -> Times:
    times = Times()
    with _small_and_large(bench) as (small, large):
        for _ in range(bench.effort.rounds):
            for _ in range(bench.effort.appends):
                times.ours.append(time_call(lambda: large.recent(20)))
                times.plain.append(time_call(lambda: small.recent(20)))
    return times


def append_to_large(bench: Bench) -> Times:
    times = Times()
    with _small_and_large(bench) as (small, large):
        for text in texts(bench.effort.rounds * bench.effort.appends, seed=8):
            times.ours.append(time_call(lambda text=text: large.append("user", text)))  # type: ignore[misc]
            times.plain.append(time_call(lambda text=text: small.append("user", text)))  # type: ignore[misc]
    return times


def start(*ours: str, plain: str = "pass") -> Callable[[Bench], Times]:
    """Whole processes: ours, and a minimal Python program."""

    def measure(bench: Bench) -> Times:
        times = Times()
        for _ in range(bench.effort.starts):
            times.ours.append(time_call(lambda: _python(*ours)))
            times.plain.append(time_call(lambda: _python("-c", plain)))
        return times

    return measure


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)  # noqa: S603 - our own words


COMPARISONS = (
    Comparison("append, one thread", "sqlite3 insert and commit", 0.5, True, append_alone),
    Comparison("append, 32 threads", "sqlite3 insert and commit, 32 threads", 5.0, True, append_together),
    Comparison("last 20 messages, {large:,} stored", "{small:,} stored", 1.5, False, read_recent),
    Comparison("append, {large:,} stored", "{small:,} stored", 1.5, False, append_to_large),
    Comparison(
        "recall, {chunks:,} chunks of one user", "one scan of their vectors", None, False, searching.recall_against_scan
    ),
    Comparison(
        "context, {chunks:,} chunks and {records:,} records of one user",
        "recall alone, both at their 95th percentile",
        1.5,
        False,
        prompting.context_against_recall,
        of_p95=True,
    ),
    Comparison(
        "recall, {few_chunks:,} chunks, {large:,} of others",
        "the same user alone",
        1.5,
        False,
        searching.recall_among_others,
    ),
    Comparison(
        "open and first recall, {chunks:,} chunks",
        "reading their vectors with sqlite3",
        None,
        False,
        searching.first_recall,
    ),
    Comparison(
        "purge of {purged:,} messages, {large:,} of others",
        "a tenth of the others",
        2.0,
        False,
        purging.purge_among_others,
    ),
    Comparison("scrub after a purge, {large:,} stored", "reading the file", None, False, purging.scrub),
    Comparison("ingest with vectors", "the encoder alone", None, True, searching.ingest),
    Comparison("ingest with vectors", "ingest without", None, True, searching.ingest_against("none")),
    Comparison("ingest with vectors", "ingest with MiniLM", 20.0, True, searching.ingest_against("minilm")),
    Comparison(
        "recall with the encoder, {few_chunks:,} chunks",
        "the question's vector alone",
        None,
        False,
        searching.recall_with_encoder,
    ),
    Comparison("memory of {chunks:,} chunks", "their vectors", None, False, searching.memory, unit="bytes"),
    Comparison("import limpet", "python -c pass", None, False, start("-c", "import limpet")),
    Comparison("import limpet", "import sqlite3", 3.0, False, start("-c", "import limpet", plain="import sqlite3")),
    Comparison("load Limpet", "python -c pass", None, False, start("-c", "from limpet import Limpet")),
    Comparison("limpet --help", "python -c pass", None, False, start("-m", "limpet", "--help")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=3, help="how often each comparison is repeated (default 3)")
    parser.add_argument("--short", action="store_true", help="a quick look with a fiftieth of the data")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the comparisons whose name has this in it")
    parser.add_argument("--folder", type=Path, help="where the databases go (default: a temporary folder)")


def main(args: argparse.Namespace) -> int:
    as_json = bool(getattr(args, "json", False))
    results = []
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="limpet-bench-") as folder:
        bench = Bench(Path(folder), SHORT if args.short else FULL, _note)
        for comparison in COMPARISONS:
            if args.only in comparison.name:
                _note(f"measuring {comparison.name}")
                try:
                    results.append(measure(comparison, bench, args.repeats))
                except Unsupported as error:  # of a model that is not installed
                    sys.stderr.write(f"{comparison.name}, {comparison.plain}: not measured. {error}\n")
                    continue
                _note("")
                if not as_json:
                    print(_line(results[-1]))
    if as_json:
        print(json.dumps({"machine": machine(), "results": [asdict(result) for result in results]}, indent=2))
    else:
        print(f"\n{machine()}; {'short' if args.short else 'full'} run, median of {args.repeats} repeats.")
    return 0


def measure(comparison: Comparison, bench: Bench, repeats: int) -> Result:
    """Return the repeat with the median ratio."""
    runs = sorted((_ratio(comparison, comparison.measure(bench)) for _ in range(repeats)), key=lambda run: run[0])
    ratio, times = runs[len(runs) // 2]
    goal, more = comparison.goal, comparison.more_is_better
    ours, plain = statistics.fmean(times.ours), statistics.fmean(times.plain)
    scale = 1.0 if comparison.unit else 1e6
    return Result(
        name=comparison.name.format(**asdict(bench.effort)),
        against=comparison.plain.format(**asdict(bench.effort)),
        unit=comparison.unit or ("per second" if more else "microseconds"),
        ours=round(1 / ours if more else statistics.median(times.ours) * scale),
        plain=round(1 / plain if more else statistics.median(times.plain) * scale),
        ratio=round(ratio, 2),
        spread=(round(runs[0][0], 2), round(runs[-1][0], 2)),
        ours_p95_us=_p95(times.ours),
        plain_p95_us=_p95(times.plain),
        goal=goal,
        reached=None if goal is None else (ratio >= goal if more else ratio <= goal),
    )


def _ratio(comparison: Comparison, times: Times) -> tuple[float, Times]:
    """Compare speeds over the total time; compare single times by median, or by p95 where requested."""
    if comparison.more_is_better:
        return sum(times.plain) / sum(times.ours), times
    if comparison.of_p95:
        return _p95(times.ours) / _p95(times.plain), times
    return statistics.median(times.ours) / statistics.median(times.plain), times


def _p95(times: list[float]) -> float:
    return round(sorted(times)[int(len(times) * 0.95)] * 1e6)


def _line(result: Result) -> str:
    verdict = "" if result.goal is None else f"  goal {result.goal}: {'reached' if result.reached else 'MISSED'}"
    return (
        f"{result.name}: {result.ratio}× of {result.against} ({result.spread[0]}–{result.spread[1]});"
        f" {result.ours:,} against {result.plain:,} {result.unit}"
        + ("" if result.unit == "bytes" else f"; p95 {result.ours_p95_us:,.0f} against {result.plain_p95_us:,.0f} µs")
        + verdict
    )


def machine() -> str:
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )


def _note(text: str) -> None:
    """A progress line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
