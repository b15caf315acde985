"""``limpet demo``: the command. What it shows is imported when it is asked for, with the engine."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from limpet.cli.options import add_command


def add(commands: Any) -> None:
    add_command(commands, "demo", "show recall, context, history and forgetting on a sample conversation", run)


def run(args: Namespace) -> int:
    from limpet.cli.demo_steps import show_demo

    return show_demo(args)
