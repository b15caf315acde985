"""``limpet bench``: run the benchmarks. Each is imported on demand, with its options."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from limpet.cli.options import Parser, add_command

BENCHES = {
    "extract": "how much of what a turn teaches the rules find, on labelled turns",
    "http": "how many requests a server answers, and whether it keeps what it acknowledged",
    "peers": "Limpet beside other ways to keep an agent's memory",
    "recall": "how often recall finds the evidence in public conversations",
    "scale": "what more processes, a slow network and more users do to a store",
    "speed": "how fast this store is on this machine",
    "truth": "whether memory says what holds, keeps what matters, and says it once",
    "year": "what a simulated year of several users leaves in the store",
}

# Named after what it measures if the command is a verb, or one of several files.
MODULES = {"extract": "extraction", "peers": "peers.command", "truth": "truth.command"}


def add(commands: Any) -> None:
    bench = add_command(commands, "bench", "measure Limpet", None)
    kinds = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    for name, summary in BENCHES.items():
        # A benchmark may give an option of ours its own meaning.
        parser = add_command(kinds, name, summary, None, conflict_handler="resolve")
        parser.late = lambda parser, name=name: _fill(parser, name)


def _fill(parser: Parser, name: str) -> None:
    module = import_module(f"limpet_bench.{MODULES.get(name, name)}")
    module.add_arguments(parser)

    def run(args: argparse.Namespace) -> int:
        return int(module.main(args))

    parser.set_defaults(run=run)
