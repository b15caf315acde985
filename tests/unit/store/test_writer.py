"""The writer that groups commits, on a connection that only remembers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from limpet.errors import ConstraintFailed, OutcomeUnknown, StorageError, StoreBusy, StoreUnavailable
from limpet.store.tx import Connection
from limpet.store.writer import Writer

PATIENCE = 60.0


class Rows(list[Any]):
    """A transaction whose rows are the list's items."""

    def run(self, work: Callable[[Any], Any]) -> Any:
        return work(self)


class Memory(Connection):
    """A connection to a list: what is appended to ``tx`` inside a transaction stays when it is committed."""

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.tx: Any = Rows()
        self.log: list[str] = []
        self.is_open = False
        self.marks: list[int] = []
        self.before_begin: Callable[[], None] = lambda: None
        self.before_commit: Callable[[], None] = lambda: None
        self.after_commit: Callable[[], None] = lambda: None
        self.transient: type[StorageError] | None = None

    def begin(self, *, exclusive: bool = False) -> None:
        if self.is_open:
            raise StorageError("cannot start a transaction within a transaction")
        self.before_begin()
        self.log.append("begin")
        self.is_open, self.marks = True, []
        self.tx[:] = self.stored

    def commit(self) -> None:
        assert self.is_open
        assert not self.marks
        self.before_commit()
        self.log.append("commit")
        self.stored[:] = self.tx
        self.is_open = False
        self.after_commit()

    def has_committed(self) -> bool:
        return not self.is_open

    def rollback(self) -> None:
        if self.is_open:
            self.log.append("rollback")
        self.is_open, self.marks = False, []

    def savepoint(self) -> None:
        assert self.is_open
        self.log.append("savepoint")
        self.marks.append(len(self.tx))

    def release(self) -> None:
        self.log.append("release")
        self.marks.pop()

    def rollback_to_savepoint(self) -> None:
        self.log.append("rollback to savepoint")
        del self.tx[self.marks.pop() :]

    def is_transient(self, error: StorageError) -> bool:
        return self.transient is not None and isinstance(error, self.transient)


def adding(value: Any) -> Callable[[Any], Any]:
    def work(tx: Any) -> Any:
        tx.append(value)
        return value

    return work


def failing(value: Any, error: BaseException) -> Callable[[Any], Any]:
    def work(tx: Any) -> Any:
        tx.append(value)
        raise error

    return work


class Crowd:
    """Callers in threads, made to wait for each other so that their work is queued together."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.pool = ThreadPoolExecutor(32)

    def call(self, work: Callable[[Any], Any]) -> Future[Any]:
        return self.pool.submit(self.writer.write, work)

    @contextmanager
    def held(self) -> Iterator[Future[Any]]:
        """Somebody is at work, and everybody who calls meanwhile queues."""
        begun, go_on = threading.Event(), threading.Event()

        def work(tx: Any) -> str:
            begun.set()
            assert go_on.wait(PATIENCE)
            return "held"

        holder = self.call(work)
        assert begun.wait(PATIENCE)
        try:
            yield holder
        finally:
            go_on.set()
        assert holder.result(PATIENCE) == "held"

    def queued(self, works: list[Callable[[Any], Any]]) -> list[Future[Any]]:
        """Call all of them so that they become one group, in this order."""
        with self.held():
            futures = []
            for number, work in enumerate(works, start=1):
                futures.append(self.call(work))
                self.wait_for(number)
        return futures

    def wait_for_leader_or(self, done: Future[Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.writer._queue and not done.done():
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(0.001)

    def wait_for_calls(self, queued: int) -> None:
        """As many as can be queued by now are; a caller that found nobody leading is at work."""
        deadline = time.monotonic() + 0.05
        while len(self.writer._queue) < queued and time.monotonic() < deadline:
            time.sleep(0.0005)

    def wait_for(self, queued: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.writer._queue) < queued:
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def writer(memory: Memory) -> Writer:
    return Writer(memory, 256)


@pytest.fixture
def crowd(writer: Writer) -> Iterator[Crowd]:
    made = Crowd(writer)
    yield made
    made.pool.shutdown(wait=False, cancel_futures=True)


def outcome(future: Future[Any]) -> Any:
    error = future.exception(PATIENCE)
    return future.result() if error is None else error


# Grouping


def test_write_alone_uses_no_savepoint(memory: Memory, writer: Writer) -> None:
    assert writer.write(adding(1)) == 1
    assert memory.log == ["begin", "commit"]
    assert memory.stored == [1]
    assert writer.write(lambda tx: None) is None


def test_concurrent_writes_share_one_commit(memory: Memory, crowd: Crowd) -> None:
    futures = crowd.queued([adding(number) for number in range(10)])
    assert [outcome(future) for future in futures] == list(range(10))
    assert memory.stored == list(range(10))
    assert memory.log == ["begin", "commit", "begin", *["savepoint", "release"] * 10, "commit"]


def test_write_group_size_is_limited(memory: Memory) -> None:
    crowd = Crowd(Writer(memory, 4))
    futures = crowd.queued([adding(number) for number in range(10)])
    assert [outcome(future) for future in futures] == list(range(10))
    assert memory.stored == list(range(10))
    assert memory.log.count("commit") == 1 + 3
    crowd.pool.shutdown()


def test_write_returns_only_after_commit(memory: Memory, crowd: Crowd) -> None:
    at_commit, go_on = threading.Event(), threading.Event()
    with crowd.held():
        futures = [crowd.call(adding(number)) for number in range(5)]
        crowd.wait_for(5)

        def wait() -> None:
            if memory.tx:
                at_commit.set()
                assert go_on.wait(PATIENCE)

        memory.before_commit = wait
    assert at_commit.wait(PATIENCE)
    time.sleep(0.05)
    assert not any(future.done() for future in futures)
    go_on.set()
    assert sorted(outcome(future) for future in futures) == list(range(5))


def test_concurrent_writes_from_many_threads_keep_order_per_thread(memory: Memory, writer: Writer) -> None:
    def run(thread: int) -> list[Any]:
        return [writer.write(adding((thread, number))) for number in range(200)]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(run, range(16)))
    assert answers == [[(thread, number) for number in range(200)] for thread in range(16)]
    assert sorted(memory.stored) == sorted(pair for own in answers for pair in own)
    for thread in range(16):
        assert [number for who, number in memory.stored if who == thread] == list(range(200))


# One caller's mistake


def test_failed_write_does_not_affect_others_in_group(memory: Memory, crowd: Crowd) -> None:
    mistake = ValueError("mine")
    futures = crowd.queued([adding(1), failing("bad", mistake), adding(3)])
    assert [outcome(future) for future in futures] == [1, mistake, 3]
    assert memory.stored == [1, 3]
    assert memory.log.count("commit") == 2
    assert memory.log.count("rollback to savepoint") == 1


def test_failed_write_alone_is_rolled_back(memory: Memory, writer: Writer) -> None:
    with pytest.raises(ValueError, match="mine"):
        writer.write(failing("bad", ValueError("mine")))
    assert memory.log == ["begin", "rollback"]
    assert writer.write(adding(1)) == 1
    assert memory.stored == [1]


def test_storage_error_is_raised_only_to_its_caller(memory: Memory, crowd: Crowd) -> None:
    futures = crowd.queued([adding(1), failing("bad", ConstraintFailed("taken")), adding(3)])
    first, second, third = (outcome(future) for future in futures)
    assert (first, third) == (1, 3)
    assert isinstance(second, ConstraintFailed)
    assert memory.stored == [1, 3]


# The transaction itself fails


def test_begin_failure_is_raised_to_whole_group(memory: Memory, crowd: Crowd, writer: Writer) -> None:
    def locked() -> None:
        raise StoreBusy("locked")

    with crowd.held():
        futures = [crowd.call(adding(number)) for number in range(5)]
        crowd.wait_for(5)
        memory.before_begin = locked
    errors = [outcome(future) for future in futures]
    assert all(isinstance(error, StoreBusy) for error in errors)
    assert len({id(error) for error in errors}) == 5
    assert memory.stored == []
    memory.before_begin = lambda: None
    assert writer.write(adding(1)) == 1


def test_failed_group_commit_is_retried_one_by_one(memory: Memory, crowd: Crowd) -> None:
    def full() -> None:
        if len(memory.tx) > 1 or "big" in memory.tx:
            raise StorageError("full")

    with crowd.held():
        futures = [crowd.call(adding("big"))]
        crowd.wait_for(1)
        futures.append(crowd.call(adding("small")))
        crowd.wait_for(2)
        memory.before_commit = full
    first, second = (outcome(future) for future in futures)
    assert isinstance(first, StorageError)
    assert second == "small"
    assert memory.stored == ["small"]


def test_commit_with_unknown_outcome_is_never_retried(memory: Memory, crowd: Crowd, writer: Writer) -> None:
    def lost() -> None:
        if memory.stored:
            raise OutcomeUnknown("lost")

    with crowd.held():
        futures = [crowd.call(adding(number)) for number in range(3)]
        crowd.wait_for(3)
        memory.after_commit = lost
    assert all(isinstance(outcome(future), OutcomeUnknown) for future in futures)
    memory.after_commit = lambda: None
    assert sorted(memory.stored) == [0, 1, 2]
    memory.after_commit = lost
    with pytest.raises(OutcomeUnknown):
        writer.write(adding("alone"))
    memory.after_commit = lambda: None
    assert memory.stored.count("alone") == 1


def test_transient_error_is_retried_a_few_times(memory: Memory, writer: Writer) -> None:
    memory.transient = StoreBusy
    tries = 0

    def deadlocked(tx: Any) -> str:
        nonlocal tries
        tries += 1
        tx.append(tries)
        if tries < 3:
            raise StoreBusy("deadlock")
        return "done"

    assert writer.write(deadlocked) == "done"
    assert memory.stored == [3]
    with pytest.raises(StoreBusy):
        writer.write(failing("never", StoreBusy("deadlock")))
    assert memory.log.count("rollback") == 2 + 5
    assert memory.stored == [3]


# Nesting and closing


def test_nested_write_is_rejected(memory: Memory, writer: Writer) -> None:
    with pytest.raises(StorageError, match="inside its own transaction"):
        writer.write(lambda tx: writer.write(adding("inner")))
    with pytest.raises(StorageError, match="inside its own transaction"):
        writer.write(lambda tx: writer.run_exclusive(lambda: None))
    with pytest.raises(StorageError, match="inside its own transaction"):
        writer.run_exclusive(lambda: writer.write(adding("inner")))
    assert memory.stored == []
    assert writer.write(adding(1)) == 1


def test_close_inside_transaction_does_not_deadlock(writer: Writer) -> None:
    """A signal handler that closes the store may run in the middle of a write."""
    done = threading.Event()

    def close() -> None:
        with pytest.raises(StorageError):
            writer.write(lambda tx: writer.close())
        done.set()

    threading.Thread(target=close, daemon=True).start()
    assert done.wait(PATIENCE), "close() waits for the transaction it was called in"


def test_run_exclusive_runs_between_transactions(memory: Memory, crowd: Crowd, writer: Writer) -> None:
    with crowd.held():
        seen = crowd.pool.submit(writer.run_exclusive, lambda: memory.is_open)
        time.sleep(0.02)
        assert not seen.done()
    assert seen.result(PATIENCE) is False
    with pytest.raises(ValueError, match="mine"):
        writer.run_exclusive(_raise)
    assert writer.write(adding(1)) == 1


def _raise() -> None:
    raise ValueError("mine")


def test_close_finishes_queued_writes_then_rejects_new_ones(memory: Memory, crowd: Crowd, writer: Writer) -> None:
    with crowd.held():
        futures = [crowd.call(adding(number)) for number in range(5)]
        crowd.wait_for(5)
        closing = crowd.pool.submit(writer.close)
        time.sleep(0.02)
        assert not closing.done()
    closing.result(PATIENCE)
    assert sorted(outcome(future) for future in futures) == list(range(5))
    for call in (lambda: writer.write(adding("late")), lambda: writer.run_exclusive(lambda: None)):
        with pytest.raises(StoreUnavailable):
            call()
    writer.close()
    assert sorted(memory.stored) == list(range(5))


def test_close_returns_when_server_is_gone(memory: Memory, writer: Writer) -> None:
    def gone() -> None:
        raise StoreUnavailable("gone")

    memory.before_begin = gone
    writer.close()
    with pytest.raises(StoreUnavailable):
        writer.write(adding(1))
