"""Talking with the person at the terminal: a question before something goes, progress while something takes long."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from limpet.errors import LimpetError


class ConfirmationError(LimpetError):
    code = "not_confirmed"


def confirm(args: Namespace, question: str) -> None:
    """Go on after ``--yes`` or a yes; raise NotConfirmed otherwise."""
    if args.yes:
        return
    if not is_interactive():
        raise ConfirmationError("nobody is there to say yes; add --yes to do it without being asked")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfirmationError("nothing was removed")


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class ProgressLine:
    """A line on stderr that is written over, and nothing at all where stderr is no terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._next = 0.0
        self._drawn = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._on or (time.monotonic() < self._next and done < total):
            return
        self._next = time.monotonic() + 0.1
        share = f" {100 * done // total} %" if total else ""
        self._draw(f"{stage}: {done:,} of {total:,}{share}")

    def end(self) -> None:
        if self._drawn:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _draw(self, line: str) -> None:
        sys.stderr.write(f"\r{line.ljust(self._drawn)}")
        sys.stderr.flush()
        self._drawn = len(line)
