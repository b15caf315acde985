"""What Ctrl-C means at the moment, and how ``/stop`` reaches a reply that is being waited for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType
from typing import Any, Self


class ReplyInterrupt(KeyboardInterrupt):
    """The reply was stopped. No Exception, so that nothing on the way takes it for a failure."""


class _Phase(Enum):
    PROMPT = auto()
    REPLY = auto()
    BUSY = auto()


class Stopper:
    """At the prompt Ctrl-C interrupts, and in a reply it stops the reply, as ``ask`` does from another thread.

    Everywhere else it waits until the reply begins: what is being written is written whole. Whoever presses it once
    more in that time means the chat itself.
    """

    def __init__(self) -> None:
        self._now = _Phase.BUSY
        self._waiting = False  # somebody wants the next reply stopped
        self._typed = False  # the signal on its way is ours, not a Ctrl-C
        self._before: Any = None
        self._main: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self._main = threading.get_ident()
            self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *_: object) -> None:
        if self._main is not None:
            # None: what handled it before was not Python code, and cannot be put back.
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)

    @contextmanager
    def prompt(self) -> Iterator[None]:
        self._now = _Phase.PROMPT
        try:
            yield
        finally:
            self._now = _Phase.BUSY
            self._waiting = False

    @contextmanager
    def reply(self) -> Iterator[None]:
        """Raises Stopped wherever the reply is, also at once."""
        self._now = _Phase.REPLY
        try:
            self.check()
            yield
        finally:
            self._now = _Phase.BUSY
            self._waiting = False

    def check(self) -> None:
        """Between two pieces: where no signal can wake the thread that waits, this is how it is stopped."""
        if self._waiting:
            raise ReplyInterrupt

    def request_stop(self) -> None:
        """Stop the reply, from any thread."""
        self._waiting = True
        if self._main is not None and hasattr(signal, "pthread_kill"):
            self._typed = True
            signal.pthread_kill(self._main, signal.SIGINT)

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        typed, self._typed = self._typed, False
        now, self._now = self._now, _Phase.BUSY  # a second one must not hit what tidies up after the first
        if now is _Phase.REPLY:
            raise ReplyInterrupt
        if typed:
            self._now = now  # too early: reply() finds it. Too late: there is nothing to stop
        elif now is _Phase.PROMPT or self._waiting:
            raise KeyboardInterrupt
        else:
            self._waiting = True
