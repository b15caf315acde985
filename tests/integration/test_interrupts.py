"""Ctrl-C, or another interrupt, at any line of a call: the store that stays open goes on working."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet import Limpet, Session
from limpet.store import writer as writer_module
from limpet.store.sqlite.connection import SqliteDb
from tests.interrupts import Alarm, interrupt_at

PATIENCE = 30.0
PACKAGE = str(Path(limpet.__file__).parent)
STORE = f"{PACKAGE}/store"
STEP = 13  # all places would take minutes
# An interrupt while a connection changes hands drops it, and that closes it; psycopg remarks on it.
pytestmark = pytest.mark.filterwarnings("ignore:.*was deleted while still open.*:ResourceWarning")


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_JOBS_WORKER", "false")
    monkeypatch.setenv("LIMPET_EMBEDDING_MODEL", "hashed")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that ask after an interrupt: one that waits for ever does not keep the test waiting."""
    made = ThreadPoolExecutor(4)
    yield made
    made.shutdown(wait=False, cancel_futures=True)


def use(memory: Limpet, session: Session) -> None:
    """A read that searches, one that does not, and a write."""
    memory.recall("message", user="alice")
    session.recent(5)
    session.append("user", "a message")


def check_usable(memory: Limpet, session: Session, pool: ThreadPoolExecutor) -> str:
    """What is wrong, if anything, for this thread and for more threads than there are readers."""
    asked: list[Future[Any]] = [pool.submit(session.count) for _ in range(4)]
    asked.append(pool.submit(session.append, "user", "after"))
    _, waiting = wait(asked, PATIENCE)
    if waiting:
        return f"{len(waiting)} callers wait for ever"
    errors = [error for future in asked if (error := future.exception()) is not None]
    if errors:
        return f"{errors[0]!r}"
    session.count()
    session.append("user", "after")
    if writer_module._forks.list_inside():
        return "a fork would wait for a thread that left"
    return ""


def test_interrupt_between_begin_and_read_leaves_store_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    execute = SqliteDb.execute

    def interrupt_once(self: SqliteDb, sql: str, *params: Any) -> list[Any]:
        rows = execute(self, sql, *params)
        if sql == "BEGIN":
            monkeypatch.setattr(SqliteDb, "execute", execute)
            raise Alarm
        return rows

    with Limpet.open(tmp_path) as memory:
        session = memory.session(user="alice")
        session.append("user", "hello")
        monkeypatch.setattr(SqliteDb, "execute", interrupt_once)
        with pytest.raises(Alarm):
            session.count()
        assert check_usable(memory, session, pool) == ""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda memory, session: session.count(), id="read"),
        pytest.param(lambda memory, session: session.append("user", "interrupted"), id="write"),
    ],
)
def test_interrupt_at_any_line_of_store_leaves_it_usable(
    store_url: str, pool: ThreadPoolExecutor, call: Callable[[Limpet, Session], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_STORAGE_READERS", "2")
    monkeypatch.setenv("LIMPET_STORAGE_POSTGRES_CONNECTIONS", "3")
    wrong: list[str] = []
    with Limpet.open(store_url) as memory:
        session = memory.session(user="alice")
        use(memory, session)
        for number in itertools.count(1):
            outcome = interrupt_at(number, lambda: call(memory, session), STORE)
            if outcome is None:
                break
            problem = check_usable(memory, session, pool)
            wrong += [f"{outcome}: {problem}"] if problem else []
            assert len(wrong) < 3, wrong
    assert number > 10
    assert wrong == []


def test_interrupts_anywhere_in_calls_leave_store_usable(store_url: str, pool: ThreadPoolExecutor) -> None:
    """At places all over the code, caches and search included, while another thread writes."""
    stop = threading.Event()
    with Limpet.open(store_url) as memory:
        session, others = memory.session(user="alice"), memory.session(user="bob")
        use(memory, session)

        def write_on() -> int:
            count = 0
            while not stop.is_set():
                others.append("user", "meanwhile")
                count += 1
            return count

        writing = pool.submit(write_on)
        try:
            for number in itertools.count(1, STEP):
                outcome = interrupt_at(number, lambda: use(memory, session), PACKAGE)
                if outcome is None and number > STEP:
                    break
                assert not writing.done(), writing.exception()
        finally:
            stop.set()
        count = writing.result(PATIENCE)
        assert others.count() == count > 0
        assert check_usable(memory, session, pool) == ""
        assert memory.recall("message", user="alice")


INTERRUPTED_IMPORT = """
import os, signal, sys, threading

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy.linalg":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.01)  # the main thread is interrupted where it is, whoever it waits for
        return None

from limpet import Limpet
with Limpet.open(sys.argv[1]) as memory:
    session = memory.session(user="alice")
    session.append("user", "The red bicycle is in the shed")
    sys.meta_path.insert(0, Interrupt())
    try:
        memory.recall("Where is the bicycle?", user="alice")
    except KeyboardInterrupt:
        print("interrupted")
    print(len(memory.recall("Where is the bicycle?", user="alice")))
"""


def test_interrupt_while_numpy_is_imported_leaves_search_usable(tmp_path: Path) -> None:
    environment = {**os.environ, "LIMPET_EMBEDDING_MODEL": "none"}
    program = [sys.executable, "-c", INTERRUPTED_IMPORT, str(tmp_path)]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert ran.stdout.split() == ["interrupted", "1"], ran.stderr
