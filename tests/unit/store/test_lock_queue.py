"""Processes get the write lock of a SQLite file in the order in which they came, whatever becomes of one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from limpet.config import StorageSettings
from limpet.errors import StoreBusy
from limpet.model.values import system_clock
from limpet.store.sqlite import lock_queue
from limpet.store.sqlite.connection import SqliteConnection
from limpet.store.sqlite.store import SqliteStore

HOUR_NS = 3600 * 10**9
PATIENT = StorageSettings(busy_timeout_ms=600_000)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Nobody is passed over because the machine is slow."""
    monkeypatch.setattr(lock_queue, "_GONE_NS", HOUR_NS)
    return str(tmp_path / "a.db")


@pytest.fixture
def connect(path: str) -> Iterator[Callable[..., SqliteConnection]]:
    made: list[SqliteConnection] = []

    def connect(settings: StorageSettings = PATIENT) -> SqliteConnection:
        connection = SqliteConnection(path, settings)
        connection.use_lock_queue()
        made.append(connection)
        return connection

    yield connect
    for connection in made:
        connection.close()


def read_queue(path: str) -> list[tuple[int, int]]:
    found = struct.iter_unpack("<QQ", Path(f"{path}-queue").read_bytes()[: 64 * 16])
    return [(since, looked) for since, looked in found if looked]


def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        time.sleep(0.001)


def wait_for_waiters(path: str, number: int) -> None:
    wait_until(lambda: len(read_queue(path)) == number)


class Waiter(threading.Thread):
    """Takes a turn, and notes it with the lock held."""

    def __init__(self, connection: SqliteConnection, name: str, turns: list[str]) -> None:
        super().__init__(daemon=True)
        self._connection, self._name_noted, self._turns = connection, name, turns

    def run(self) -> None:
        self._connection.begin()
        self._turns.append(self._name_noted)
        self._connection.commit()


def test_writer_without_others_never_sleeps(
    path: str, connect: Callable[..., SqliteConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_queue, "sleep", lambda _: pytest.fail("it waited for nobody"))
    writer = connect()
    for _ in range(3):
        writer.begin()
        writer.commit()
    assert read_queue(path) == []


def test_lock_is_given_in_the_order_of_arrival(path: str, connect: Callable[..., SqliteConnection]) -> None:
    holder, turns = connect(), list[str]()
    holder.begin()
    waiters = [Waiter(connect(), name, turns) for name in ("first", "second", "third", "fourth")]
    for number, waiter in enumerate(waiters, 1):
        waiter.start()
        wait_for_waiters(path, number)
    holder.commit()
    for waiter in waiters:
        waiter.join()
    assert turns == ["first", "second", "third", "fourth"]
    assert read_queue(path) == []


def test_writer_in_a_tight_loop_lets_a_waiter_in_after_one_commit(
    path: str, connect: Callable[..., SqliteConnection]
) -> None:
    busy, turns = connect(), list[str]()
    busy.begin()
    waiter = Waiter(connect(), "waiter", turns)
    waiter.start()
    wait_for_waiters(path, 1)
    for _ in range(5):
        busy.commit()
        busy.begin()
        turns.append("busy")
    busy.commit()
    waiter.join()
    assert turns == ["waiter"] + ["busy"] * 5


def test_two_that_take_one_place_both_get_their_turn(path: str, connect: Callable[..., SqliteConnection]) -> None:
    holder, turns = connect(), list[str]()
    holder.begin()
    waiter = Waiter(connect(), "waiter", turns)
    waiter.start()
    wait_for_waiters(path, 1)
    earlier = 1
    with open(f"{path}-queue", "r+b", buffering=0) as file:
        file.write(struct.pack("<QQ", earlier, time.monotonic_ns()))  # over the other's
        wait_for_waiters(path, 2)
        assert read_queue(path)[0][0] == earlier
        holder.commit()
        assert turns == []  # somebody came before it
        file.seek(0)
        file.write(bytes(16))
    waiter.join()
    assert turns == ["waiter"]


@pytest.mark.parametrize("looked", [1, 1 << 62], ids=["long ago", "before the machine was started again"])
def test_place_of_one_that_looks_no_more_counts_for_nothing(
    path: str, connect: Callable[..., SqliteConnection], monkeypatch: pytest.MonkeyPatch, looked: int
) -> None:
    monkeypatch.setattr(lock_queue, "_GONE_NS", 1)
    monkeypatch.setattr(lock_queue, "sleep", lambda _: pytest.fail("it waited for nobody"))
    writer = connect()
    with open(f"{path}-queue", "r+b") as file:
        file.write(struct.pack("<QQ", 1, looked))
    writer.begin()
    writer.commit()


def test_writer_gives_up_after_busy_timeout_and_leaves_its_place(
    path: str, connect: Callable[..., SqliteConnection]
) -> None:
    holder, writer = connect(), connect(StorageSettings(busy_timeout_ms=30))
    holder.begin()
    with pytest.raises(StoreBusy, match="locked by another process"):
        writer.begin()
    assert read_queue(path) == []
    holder.commit()
    writer.begin()
    writer.commit()


# How long one waits, by a clock that goes on only when somebody sleeps or syncs


class Clock:
    """One second passes with each sleep, and as many as the disk needs with each sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.sync_s, self.while_asleep = 0.0, 0.001, list[Callable[[], None]]()
        monkeypatch.setattr(lock_queue, "monotonic_ns", lambda: int((self.seconds + 1000) * 1e9))
        monkeypatch.setattr(lock_queue, "sleep", self._sleep)
        monkeypatch.setattr(os, "fsync", self._sync)

    def attempt(self, free_at: float) -> Callable[[], float]:
        def attempt() -> float:
            if self.seconds < free_at:
                raise StoreBusy("held")
            return self.seconds

        return attempt

    def _sleep(self, _: float) -> None:
        self.seconds += 1
        for act in self.while_asleep:
            act()

    def _sync(self, _: int) -> None:
        self.seconds += self.sync_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Callable[[], lock_queue.LockQueue]]:
    made: list[lock_queue.LockQueue] = []
    database = tmp_path / "b.db"
    database.touch()

    def make() -> lock_queue.LockQueue:
        made.append(lock_queue.LockQueue(str(database)))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


def test_waiter_gives_up_on_a_lock_that_does_not_move(clock: Clock, queues: Callable[[], lock_queue.LockQueue]) -> None:
    with pytest.raises(StoreBusy):
        queues().take_turn(clock.attempt(free_at=60), 6)
    assert 6 < clock.seconds < 9


def test_waiter_counts_from_the_last_turn_of_another(clock: Clock, queues: Callable[[], lock_queue.LockQueue]) -> None:
    def pass_on() -> None:
        """Every fourth second another one, which has waited too, gets the lock and gives it back."""
        if clock.seconds % 4 == 0:
            answers = iter([StoreBusy("held"), None])

            def attempt() -> None:
                if answer := next(answers):
                    raise answer

            other.take_turn(attempt, 6)

    other = queues()
    clock.while_asleep.append(pass_on)
    assert queues().take_turn(clock.attempt(free_at=60), 6) >= 60
    clock.while_asleep.clear()
    with pytest.raises(StoreBusy):  # and gives up when they stop
        queues().take_turn(clock.attempt(free_at=600), 6)
    assert clock.seconds < 80


def test_waiter_that_gives_up_does_not_prolong_the_wait_of_others(
    clock: Clock, queues: Callable[[], lock_queue.LockQueue]
) -> None:
    def give_up() -> None:
        if clock.seconds % 4 == 0:
            with pytest.raises(StoreBusy):
                other.take_turn(clock.attempt(free_at=600), 1e-9)

    other = queues()
    clock.while_asleep.append(give_up)
    with pytest.raises(StoreBusy):
        queues().take_turn(clock.attempt(free_at=600), 6)
    assert clock.seconds < 20


def test_time_in_which_the_disk_stalls_does_not_count(clock: Clock, queues: Callable[[], lock_queue.LockQueue]) -> None:
    clock.sync_s = 40  # the holder's commit waits as long
    assert queues().take_turn(clock.attempt(free_at=44), 6) >= 44


def test_disk_that_stalls_is_waited_for_once(clock: Clock, queues: Callable[[], lock_queue.LockQueue]) -> None:
    clock.sync_s = 40
    with pytest.raises(StoreBusy):
        queues().take_turn(clock.attempt(free_at=600), 6)
    assert 46 < clock.seconds < 50


def test_turn_taken_while_a_waiter_waits_for_the_disk_counts(
    clock: Clock, queues: Callable[[], lock_queue.LockQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiter, other = queues(), queues()
    turns = iter([other])
    monkeypatch.setattr(waiter, "_wait_for_disk", lambda: [each._note_taken(None) for each in turns])
    with pytest.raises(StoreBusy):
        waiter.take_turn(clock.attempt(free_at=600), 6)
    assert clock.seconds >= 3 + 6


def test_turn_noted_before_the_machine_was_started_again_counts_for_nothing(
    tmp_path: Path, clock: Clock, queues: Callable[[], lock_queue.LockQueue]
) -> None:
    queue = queues()
    with open(tmp_path / "b.db-queue", "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(struct.pack("<Q", 1 << 62))
    with pytest.raises(StoreBusy):
        queue.take_turn(clock.attempt(free_at=60), 6)
    assert clock.seconds < 9


def test_writer_that_must_not_wait_does_not_wait_for_the_disk_either(
    clock: Clock, queues: Callable[[], lock_queue.LockQueue]
) -> None:
    with pytest.raises(StoreBusy):
        queues().take_turn(clock.attempt(free_at=60), 0)
    assert clock.seconds == 0


def test_program_that_does_not_know_the_queue_is_waited_for(
    path: str, connect: Callable[..., SqliteConnection]
) -> None:
    turns: list[str] = []
    waiter = Waiter(connect(), "waiter", turns)
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        waiter.start()
        wait_for_waiters(path, 1)
        turns.append("foreign")
        foreign.execute("COMMIT")
        waiter.join()
    assert turns == ["foreign", "waiter"]


def test_interrupt_while_waiting_leaves_no_place_behind(
    path: str, connect: Callable[..., SqliteConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        assert len(read_queue(path)) == 1
        raise KeyboardInterrupt

    holder, writer = connect(), connect()
    holder.begin()
    monkeypatch.setattr(lock_queue, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        writer.begin()
    assert read_queue(path) == []
    holder.commit()
    writer.begin()
    writer.commit()


def test_queue_that_cannot_be_opened_costs_the_order_only(path: str, connect: Callable[..., SqliteConnection]) -> None:
    os.mkdir(f"{path}-queue")  # as in a folder that cannot be written
    holder, turns = connect(), list[str]()
    holder.begin()
    waiter = Waiter(connect(), "waiter", turns)
    waiter.start()
    holder.commit()
    waiter.join()
    assert turns == ["waiter"]


def test_queue_that_was_cut_short_costs_the_order_only(path: str, connect: Callable[..., SqliteConnection]) -> None:
    writer = connect()
    os.truncate(f"{path}-queue", 5)
    writer.begin()
    writer.commit()


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_queue_has_the_mode_of_its_database(path: str, connect: Callable[..., SqliteConnection]) -> None:
    connect()
    assert stat.S_IMODE(os.stat(f"{path}-queue").st_mode) == 0o600
    os.chmod(path, 0o660)
    connect()
    assert stat.S_IMODE(os.stat(f"{path}-queue").st_mode) == 0o660


# Processes that die


def open_store(path: str) -> SqliteStore:
    return SqliteStore(path, PATIENT, system_clock)


def hold(path: str, holds: Event) -> None:
    store = open_store(path)

    def work(_: object) -> None:
        holds.set()
        time.sleep(3600)

    store.write(work)


def write_once(path: str) -> None:
    store = open_store(path)
    store.write(lambda _: None)
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_killed_holder_and_killed_waiter_let_the_next_proceed(tmp_path: Path) -> None:
    path, context = str(tmp_path / "a.db"), multiprocessing.get_context("spawn")
    holds = context.Event()
    open_store(path).close()
    holder = context.Process(target=hold, args=(path, holds))
    holder.start()
    assert holds.wait()
    first, second = (context.Process(target=write_once, args=(path,)) for _ in range(2))
    for number, process in enumerate((first, second), 1):
        process.start()
        wait_for_waiters(path, number)
    for process in (first, holder):
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    second.join()
    assert second.exitcode == 0
    write_once(path)  # beside the place that the killed one left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_child_that_is_forked_while_a_thread_waits_has_a_place_of_its_own(path: str) -> None:
    store, context, turns = open_store(path), multiprocessing.get_context("spawn"), list[str]()
    holds = context.Event()
    holder = context.Process(target=hold, args=(path, holds))
    holder.start()
    assert holds.wait()
    waiter = threading.Thread(target=lambda: store.write(lambda _: turns.append("waiter")), daemon=True)
    waiter.start()
    wait_for_waiters(path, 1)
    child = os.fork()
    if not child:
        try:
            write_once(path)
            os._exit(0)
        finally:
            os._exit(1)
    wait_for_waiters(path, 2)
    holder.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    waiter.join()
    assert turns == ["waiter"]
    assert read_queue(path) == []
    store.close()
