"""``limpet bench truth``: whether memory says what holds, keeps what matters and says it once, in one table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from limpet.config import EmbeddingSettings
from limpet_bench.truth.claims import Claims, Lives
from limpet_bench.truth.data import load, load_excerpts, pool_other_talk
from limpet_bench.truth.measures import Changed, Coordinated, Lasting, Passing, Summaries, count_repeated
from limpet_bench.truth.quiet import Quiet
from limpet_bench.truth.score import Figure, format_table
from limpet_bench.truth.stage import Timeline, open_stage

MEASURES = ("changed", "quiet", "lasting", "passing", "coordinated", "summary", "claims")


class Measure(Protocol):
    figures: list[Figure]

    def plan(self, timeline: Timeline) -> None:
        """Put what is said and asked on the timeline."""


def build(name: str, limit: int | None, ids: str = "") -> Measure:
    talk = pool_other_talk(load("dialogues"))
    builders: dict[str, Callable[[], Measure]] = {
        "changed": lambda: Changed(load("stories", limit, ids)),
        "quiet": lambda: Quiet(load("quiet", limit, ids)),
        "lasting": lambda: Lasting(load("lasting", limit, ids), talk),
        "passing": lambda: Passing(load("passing", limit, ids), talk),
        "coordinated": lambda: Coordinated(load("coordinated", limit, ids), talk),
        "summary": lambda: Summaries(load("dialogues", limit, ids)),
        "claims": lambda: Claims(load("messages", limit, ids)),
    }
    return builders[name]()


def measure(measures: Sequence[Measure], url: str | None, embedder: str) -> list[Figure]:
    """Live through all stories at once, and give the figures of the measures and of all contexts made for them."""
    timeline = Timeline()
    for each in measures:
        each.plan(timeline)
    with open_stage(url, embedder) as stage:
        timeline.play(stage, _print_day)
        repeated = count_repeated(stage) if stage.contexts else []
    return [figure for each in measures for figure in each.figures] + repeated


def _print_day(day: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kday {day}")
        sys.stderr.flush()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="URL",
        help="an empty store, such as postgresql://…, which is emptied again (default: SQLite in a temporary folder)",
    )
    parser.add_argument("--only", choices=MEASURES, action="append", help="this measure alone; may be repeated")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N stories, facts or messages of each measure")
    parser.add_argument("--ids", metavar="PREFIX", default="", help="those alone whose id begins so: u for u01 to u300")
    parser.add_argument(
        "--embedder",
        metavar="NAME",
        default=EmbeddingSettings().model,
        help="as embedding.model names it; none for words only (default: %(default)s)",
    )
    parser.add_argument("--lives", type=Path, metavar="FILE", help="labelled conversations; measures these alone")
    parser.add_argument("--faults", action="store_true", help="print each failure: what was asked and what came back")


def main(args: argparse.Namespace) -> int:
    measures: list[Measure]
    if args.lives is not None:
        measures = [Lives(load_excerpts(args.lives, args.limit))]
    else:
        measures = [build(name, args.limit, args.ids) for name in MEASURES if not args.only or name in args.only]
    figures = measure(measures, args.data, args.embedder)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if args.json:
        rows = [figure.as_dict() | ({"faults": figure.faults} if args.faults else {}) for figure in figures]
        print(json.dumps({"embedder": args.embedder, "figures": rows}, indent=2, ensure_ascii=False))
        return 0
    print("\n".join(format_table(figures)))
    if args.faults:
        for figure in figures:
            print("\n".join(("", f"{figure.measure}: {figure.name}", *figure.faults)))
    return 0
