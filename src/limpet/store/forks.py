"""A fork waits until no other thread is inside a database's library.

Those libraries have locks for the whole process: SQLite has one for memory. A thread that holds one while another forks
is not in the child, and the lock stays held there: a store that the child opens would wait for it for ever.

Nothing here takes a lock on the way in or out. Whoever enters says so first and looks for a fork then, and a fork says
so first and looks for those inside then: one of the two sees the other.
"""

from __future__ import annotations

import os
import threading
from threading import get_ident
from time import monotonic, sleep

_MAX_WAIT_S = 2.0  # then the fork goes on as it would without us: somebody inside may wait for whoever forks
_POLL_S = 0.0005


class _ForkGuard:
    def __init__(self) -> None:
        self._turn = threading.RLock()  # one fork at a time, but for one that a signal handler makes within another
        self._depth = 0
        self._forker: int | None = None
        self._inside: set[int] = set()  # threads; adding one and taking it out are single steps

    def enter(self) -> bool:
        """False for a thread that is inside already, and has nothing to leave."""
        me = get_ident()
        if me in self._inside:
            return False
        self._inside.add(me)
        if self._forker is not None:
            self.yield_to_fork()
        return True

    def leave(self) -> None:
        self._inside.discard(get_ident())

    def yield_to_fork(self) -> None:
        """To a fork, if there is one; also between two calls, for who stays inside for long."""
        me, until = get_ident(), monotonic() + 2 * _MAX_WAIT_S  # whoever forks may wait for this thread, too
        while self._forker not in (None, me) and monotonic() < until:  # what runs around a fork waits for nobody
            self._inside.discard(me)
            sleep(_POLL_S)
            self._inside.add(me)

    def before_fork(self) -> None:
        self._turn.acquire()
        self._depth += 1
        self._forker = me = get_ident()
        until = monotonic() + _MAX_WAIT_S
        while self._inside - {me} and monotonic() < until:
            sleep(_POLL_S)

    def after_fork_in_parent(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._forker = None
        self._turn.release()

    def after_fork_in_child(self) -> None:
        """Whoever forked is the only thread, and the parent's stores refuse to work."""
        self.__init__()  # type: ignore[misc]  # as good as new


_forks = _ForkGuard()
yield_to_fork = _forks.yield_to_fork
if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
    os.register_at_fork(
        before=_forks.before_fork,
        after_in_parent=_forks.after_fork_in_parent,
        after_in_child=_forks.after_fork_in_child,
    )


class block_forks:  # noqa: N801 - reads as a word: with forks.inside()
    """Around every use of a database's library. Within one another they count once."""

    __slots__ = ("_entered",)

    def __enter__(self) -> None:
        self._entered = _forks.enter()

    def __exit__(self, *_: object) -> None:
        if self._entered:
            _forks.leave()
