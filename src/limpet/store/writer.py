"""One writer that groups commits, without a thread of its own.

Every caller queues its work. The first becomes the leader: it runs all the work that is queued by then in one
transaction, a savepoint each, commits once, wakes the others with their results, and hands the lead to the one that
queued meanwhile. A lone caller is its own leader and pays an uncontended lock. No call returns before the commit.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from threading import get_ident
from time import monotonic, sleep
from typing import Any, Generic, TypeVar

from limpet.errors import OutcomeUnknown, StorageError, StoreUnavailable
from limpet.store.tx import Connection, Tx

T = TypeVar("T")


class WriteRequest(Generic[T]):
    """A caller's work and its outcome. The caller waits at ``gate`` until it is done, or is to lead.

    One whose caller was interrupted is done, too: nobody runs it any more.
    """

    __slots__ = ("done", "error", "exclusive", "gate", "leads", "result", "work")

    def __init__(self, work: Callable[[Tx], T], *, exclusive: bool = False) -> None:
        self.work = work
        self.exclusive = exclusive
        self.done = False
        self.leads = False
        self.result: T | None = None
        self.error: BaseException | None = None
        self.gate = threading.Lock()

    def wake(self) -> None:
        if self.gate.locked():
            try:  # noqa: SIM105 - suppress() takes longer than the rest
                self.gate.release()
            except RuntimeError:  # another one that leads opened it meanwhile
                pass

    def get_result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # done without an error: the work's own result, None included

    def fail(self, error: BaseException) -> None:
        self.result, self.error, self.done = None, error, True


_ATTEMPTS = 5
# How long a leader waits for as many callers as the last group had, for each of them. Those that were just answered
# are about to come again, and a commit shared by all of them is worth many times this.
_GATHER_TIMEOUT = 0.00005
# For so long a caller waits to be answered or named. Then it leads itself, as soon as the connection is free: the one
# that leads may be slow, or was interrupted again and again and named nobody.
_LEADER_TIMEOUT_S = 1.0


class Writer:
    """A ticket stays in the queue until it is done.

    An interrupt, which Ctrl-C may cause at the end of any call, loses nobody's work: what is not done is queued still.
    A second one may come while the first is handled, so nobody relies on a leader to name the next. Only ``_turn``
    says who may use the connection, and a lock that ``with`` holds is released whatever happens. Two that lead take
    turns, and the second does what the first left.
    """

    def __init__(self, connection: Connection, group_size: int) -> None:
        self._connection = connection
        self._group_size = group_size
        self._mutex = threading.Lock()  # guards the queue and who leads
        self._turn = threading.Lock()  # held by the thread that uses the connection
        self._queue: deque[WriteRequest[Any]] = deque()
        self._led = False
        self._crowd = 1
        self._gathering: WriteRequest[Any] | None = None
        self._begun = False
        self._committing: list[WriteRequest[Any]] = []
        self._busy: int | None = None
        self._closed = False

    def write(self, work: Callable[[Tx], T], *, exclusive: bool = False) -> T:
        self.refuse_nesting()
        me, ticket = get_ident(), WriteRequest(work, exclusive=exclusive)
        try:
            self._enqueue(ticket)
            while not ticket.done:
                if not ticket.leads and not ticket.gate.acquire(timeout=_LEADER_TIMEOUT_S):
                    ticket.leads = True
                if ticket.leads:
                    self._wait_for_group(ticket)
                    self._lead_group(ticket)
                    self._pass_leadership(ticket)
        except BaseException:  # why: an interrupted caller was told nothing: its work must not happen behind its back
            ticket.done = True  # these lines call nothing, so no interrupt comes between them
            if self._busy == me:
                self._busy = None
            self._cancel(ticket)
            raise
        return ticket.get_result()

    def run_exclusive(self, action: Callable[[], T]) -> T:
        """Run something on the write connection with no transaction open."""
        self.refuse_nesting()
        with self._turn:
            self._recover()
            self._refuse_closed()
            try:
                self._busy = get_ident()
                return action()
            finally:
                self._busy = None

    def refuse_nesting(self) -> None:
        if self._busy == get_ident():
            raise StorageError("the store was called inside its own transaction; use the transaction that it passed")

    def close(self) -> None:
        """Finish what is queued, then refuse."""
        self.refuse_nesting()
        with suppress(StorageError):  # a server that is gone, or a store that is closed, has nothing left to finish
            self.write(lambda _: None)
        with self._turn:
            self._closed = True

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")

    def _enqueue(self, ticket: WriteRequest[Any]) -> None:
        with self._mutex:
            self._queue.append(ticket)
            if self._led:
                ticket.gate.acquire()
                if self._gathering is not None and len(self._queue) >= self._crowd:
                    self._gathering.wake()
            else:
                ticket.leads = True
                self._led = True

    def _lead_group(self, leader: WriteRequest[Any]) -> None:
        with self._turn:
            if leader.done:  # by another one that led, while this one waited
                return
            group = self._run_or_recover()
        # Before the lock on the queue is taken: those who are answered come back to it at once.
        for ticket in group:
            if ticket.done:
                ticket.wake()

    def _run_or_recover(self) -> list[WriteRequest[Any]]:
        try:
            self._recover()
            return self._run_queued()
        except BaseException:  # why: whatever it was, the next finds no open transaction; it goes on as it came
            self._recover()
            raise

    def _wait_for_group(self, leader: WriteRequest[Any]) -> None:
        """Wait a moment for those who were in the last group; the one that completes it says so."""
        if len(self._queue) >= self._crowd:
            return
        with self._mutex:
            leader.gate.acquire(blocking=False)  # open, unless the last leader closed it
            self._gathering = leader
        leader.gate.acquire(timeout=_GATHER_TIMEOUT * self._crowd)
        with self._mutex:
            self._gathering = None

    def _recover(self) -> None:
        """After an interrupt: learn what became of the commit, and leave no transaction open."""
        self._busy = None
        if self._committing and self._connection.has_committed():
            self._mark_done()
        self._committing = []
        if self._begun:
            self._rollback()

    def _pass_leadership(self, leader: WriteRequest[Any]) -> None:
        """Let those go whose work is done, and the next one lead. Doing it twice changes nothing."""
        with self._mutex:
            while self._queue and self._queue[0].done:
                self._queue[0].wake()
                self._queue.popleft()
            if not self._queue:
                self._led = False
            else:
                self._queue[0].leads = True
                self._queue[0].wake()  # each time: an interrupt may have come before it was woken
            leader.leads = bool(self._queue) and self._queue[0] is leader

    def _cancel(self, ticket: WriteRequest[Any]) -> None:
        with self._mutex, suppress(ValueError):
            self._queue.remove(ticket)
        if ticket.leads:
            self._pass_leadership(ticket)

    def _run_queued(self) -> list[WriteRequest[Any]]:
        with self._mutex:
            group = [ticket for ticket in islice(self._queue, self._group_size) if not ticket.done]
        self._crowd = max(1, len(group))
        self._busy = get_ident()
        try:
            self._refuse_closed()
            self._begin(exclusive=any(ticket.exclusive for ticket in group))
            if len(group) == 1:
                self._run_alone(group[0])
            elif not self._run_group(group):
                for ticket in group:
                    self._begin(exclusive=ticket.exclusive)
                    self._run_alone(ticket)
        except StorageError as error:
            _fail(group, error)  # not even begun: locked, full, gone or closed; that is everybody's answer
        self._busy = None
        return group

    def _begin(self, *, exclusive: bool) -> None:
        self._begun = True
        self._connection.begin(exclusive=exclusive)

    def _rollback(self) -> None:
        self._connection.rollback()
        self._begun = False

    def _run_group(self, group: list[WriteRequest[Any]]) -> bool:
        """One commit for all. False when the transaction itself failed: then nothing of it happened."""
        connection = self._connection
        try:
            for ticket in group:
                connection.savepoint()
                try:
                    ticket.result, ticket.error = connection.tx.run(ticket.work), None
                    connection.release()
                except StorageError:
                    raise
                except Exception as error:  # why: one caller's mistake is that caller's answer, not the group's
                    connection.rollback_to_savepoint()
                    ticket.result, ticket.error = None, error
            self._commit(group)
        except OutcomeUnknown as error:
            _fail(group, error)  # running the work once more might do it twice
        except StorageError:
            self._rollback()
            return False
        return True

    def _run_alone(self, ticket: WriteRequest[Any]) -> None:
        connection = self._connection
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                ticket.result, ticket.error = connection.tx.run(ticket.work), None
                self._commit([ticket])
            except StorageError as error:
                self._rollback()
                if attempt == _ATTEMPTS or not connection.is_transient(error):
                    ticket.fail(error)
                    return
                self._begin(exclusive=ticket.exclusive)
            except Exception as error:  # why: whatever the work raised is its caller's answer, after the rollback
                self._rollback()
                ticket.fail(error)
                return
            else:
                return

    def _commit(self, group: list[WriteRequest[Any]]) -> None:
        self._committing = group
        try:
            self._connection.commit()
        except StorageError:
            self._committing = []
            raise
        self._mark_done()
        self._committing = []
        self._begun = False

    def _mark_done(self) -> None:
        for ticket in self._committing:
            ticket.done = True


def _fail(group: list[WriteRequest[Any]], error: StorageError) -> None:
    """The same answer for everybody, each in an exception of its own: a traceback belongs to one thread."""
    for ticket in group:
        if not ticket.done:
            ticket.fail(type(error)(*error.args))


# A fork waits until no other thread is inside a database's library. Those libraries have locks for the whole process:
# SQLite has one for memory. A thread that holds one while another forks is not in the child, and the lock stays held
# there: a store that the child opens would wait for it for ever.
#
# Nothing here takes a lock on the way in or out. A thread that enters says so first and looks for a fork then, and a
# fork says so first and looks for those inside then: one of the two sees the other.

_MAX_WAIT_S = 2.0  # then the fork goes on as it would without us: a thread inside may wait for the one that forks
_POLL_S = 0.0005


class _ForkGuard:
    def __init__(self) -> None:
        self._turn = threading.RLock()  # one fork at a time, but for one that a signal handler makes within another
        self._depth = 0
        self._forker: int | None = None
        # By thread; adding one and taking it out are single steps. A reference that is dead is of a thread that was
        # interrupted on its way out, and is not inside any more.
        self._inside: dict[int, weakref.ref[block_forks]] = {}

    def enter(self, block: block_forks) -> bool:
        """False for a thread that is inside already, and has nothing to leave."""
        me = get_ident()
        if _is_alive(self._inside.get(me)):
            return False
        self._inside[me] = weakref.ref(block)
        if self._forker is not None:
            self.yield_to_fork()
        return True

    def leave(self) -> None:
        self._inside.pop(get_ident(), None)

    def yield_to_fork(self) -> None:
        """To a fork, if there is one; also between two calls, for who stays inside for long."""
        me, until = get_ident(), monotonic() + 2 * _MAX_WAIT_S  # the forking thread may wait for this one, too
        while self._forker not in (None, me) and monotonic() < until:  # what runs around a fork waits for nobody
            held = self._inside.pop(me, None)
            sleep(_POLL_S)
            if held is not None:
                self._inside[me] = held

    def before_fork(self) -> None:
        self._turn.acquire()
        self._depth += 1
        self._forker = me = get_ident()
        until = monotonic() + _MAX_WAIT_S
        while self.list_inside() - {me} and monotonic() < until:
            sleep(_POLL_S)

    def list_inside(self) -> set[int]:
        return {thread for thread, block in list(self._inside.items()) if _is_alive(block)}

    def after_fork_in_parent(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._forker = None
        self._turn.release()

    def after_fork_in_child(self) -> None:
        """In the child only the forking thread exists, and the parent's stores refuse to work."""
        self.__init__()  # type: ignore[misc]  # as good as new


def _is_alive(block: weakref.ref[block_forks] | None) -> bool:
    return block is not None and block() is not None


_forks = _ForkGuard()
yield_to_fork = _forks.yield_to_fork
if hasattr(os, "register_at_fork"):  # not on Windows, where nobody forks
    os.register_at_fork(
        before=_forks.before_fork,
        after_in_parent=_forks.after_fork_in_parent,
        after_in_child=_forks.after_fork_in_child,
    )


class block_forks:  # noqa: N801 - reads as a verb: with block_forks()
    """Around every use of a database's library. Within one another they count once."""

    __slots__ = ("__weakref__", "_entered")

    def __enter__(self) -> None:
        self._entered = _forks.enter(self)

    def __exit__(self, *_: object) -> None:
        if self._entered:
            _forks.leave()
