"""A fork waits until no thread is inside a database's library.

Those libraries have locks for the whole process: SQLite has one for memory. A thread that holds one while another forks
is not in the child, and the lock stays held there: a store that the child opens would wait for it for ever.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from time import monotonic
from typing import Protocol
from weakref import WeakSet

_PATIENCE_S = 2.0  # whoever forks inside a transaction waits for itself: then the fork goes on as it would without us


class Pausable(Protocol):
    def pause(self, until: float, paused: ExitStack) -> None:
        """Let nobody in, and wait for those inside, but no longer than ``until``; undone when ``paused`` is closed."""


class _Forks:
    def __init__(self) -> None:
        self._stores: WeakSet[Pausable] = WeakSet()
        self._turn = threading.RLock()  # one fork at a time
        self._paused: list[ExitStack] = []
        self._over: threading.Event | None = None

    def watch(self, store: Pausable) -> None:
        self._stores.add(store)

    def give_way(self) -> None:
        """Before entering a store: those who come all the time would else leave no moment for a fork."""
        if (over := self._over) is not None:
            over.wait(_PATIENCE_S)

    def begin(self) -> None:
        self._turn.acquire()
        self._over = threading.Event()
        self._paused.append(paused := ExitStack())
        until = monotonic() + _PATIENCE_S
        for store in list(self._stores):
            store.pause(until, paused)

    def end(self) -> None:
        assert self._over is not None
        self._paused.pop().close()
        self._over.set()
        self._over = None
        self._turn.release()

    def end_in_child(self) -> None:
        """Whoever forked is the only thread, and the parent's stores refuse to work."""
        self._paused.pop().close()
        self.__init__()  # type: ignore[misc]  # as good as new


_forks = _Forks()
watch = _forks.watch
give_way = _forks.give_way
if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
    os.register_at_fork(before=_forks.begin, after_in_parent=_forks.end, after_in_child=_forks.end_in_child)
