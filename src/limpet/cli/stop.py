"""Being told to stop, by Ctrl-C or SIGTERM, while the main thread works and waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue


class StopEvent:
    """An event that a signal handler may set.

    ``threading.Event`` is none: its lock is held for a moment whenever somebody waits, and a handler that runs in that
    moment, in the thread that waits, waits for that lock for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()  # may be put into from a handler, says its documentation

    def set(self, *_signal: object) -> None:
        self._is_set = True
        self._bell.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """For one thread, which looks whether it is set before it waits again."""
        with suppress(Empty):
            self._bell.get(timeout=seconds)
        return self._is_set


@contextmanager
def stop_on_signal() -> Iterator[StopEvent]:
    """Set by Ctrl-C and by SIGTERM, instead of what they else do. A second one does what it always did."""
    stop = StopEvent()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def handle_signal(*_: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        for number in signals:
            signal.signal(number, handle_signal)
        yield stop
    finally:
        restore()
