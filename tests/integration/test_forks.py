"""A process that forks while it has a store open."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.store import writer as writer_module
from tests.contract.processes import start
from tests.contract.rows import faults

# Forks


def in_a_child(work: Any) -> str:
    """What the work said in a forked child; nothing if it says nothing in a minute."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                answer = repr(work())
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writing, answer.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        if not select.select([file], [], [], 60)[0]:
            os.kill(child, signal.SIGKILL)
        said = file.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_gets_clear_error_and_keeps_parent_store_intact(durable_url: str, tmp_path: Path) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.append("user", "before")
        calls = {
            "append": lambda: session.append("user", "from the child"),
            "messages": session.messages,
            "recall": lambda: memory.recall("before", user="alice"),
            "remember": lambda: memory.remember("x", user="alice"),
            "sessions": memory.sessions,
            "stats": memory.admin.stats,
            "doctor": memory.admin.doctor,
            "backup": lambda: memory.admin.backup(tmp_path / "backup.db"),
        }
        for name, call in calls.items():
            said = in_a_child(call)
            assert said.startswith("StorageError"), f"{name}: {said}"
            assert "open it again in the child" in said
        assert in_a_child(memory.close) == "None"
        assert session.append("user", "after").sequence == 2
        assert in_a_child(lambda: _opened_again(durable_url)) == "2"
        assert session.count() == 3
        assert faults(memory) == []


def _opened_again(url: str) -> int:
    with Limpet.open(url) as memory:
        session = memory.session("t", "1", user="alice")
        before = session.count()
        session.append("user", "from a child that opened its own")
        return before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("what", ["recall", "open", "backup"])
def test_fork_during_sqlite_call_does_not_hang_child(what: str, tmp_path: Path) -> None:
    def use(memory: Limpet, over: threading.Event) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            if what == "recall":
                memory.recall("before", user="alice")
            elif what == "open":
                Limpet.open(":memory:").close()
            else:
                memory.admin.backup(tmp_path / f"{threading.get_ident()}-{number}.db")

    over, times = threading.Event(), 20
    with Limpet.open(tmp_path / "data") as memory, ThreadPoolExecutor(2) as pool:
        memory.session("t", "1", user="alice").append("user", "before")
        using = [pool.submit(use, memory, over) for _ in range(2)]
        try:
            said = [in_a_child(lambda: _opened_again(str(tmp_path / "other"))) for _ in range(times)]
        finally:
            over.set()
    assert said == [str(number) for number in range(times)]
    assert [future.exception() for future in using] == [None, None]


AROUND = """
import os, sys
said = []
os.register_at_fork(
    before=lambda: said.append(session.append("user", "before").sequence),
    after_in_parent=lambda: said.append(session.append("user", "after").sequence),
    after_in_child=lambda: said.append(own()),
)
from limpet import Limpet

def own():
    with Limpet.open(sys.argv[1] + "-child") as memory:
        return memory.session("t", "1", user="alice").append("user", "in the child").sequence

with Limpet.open(sys.argv[1]) as memory:
    session = memory.session("t", "1", user="alice")
    child = os.fork()
    if child == 0:
        os._exit(10 + said[-1])
    print(said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_at_fork_handlers_may_use_the_store(tmp_path: Path) -> None:
    """Functions that were registered before ours are called within ours: they waited for themselves."""
    command = [sys.executable, "-c", AROUND, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[1, 2] 11\n", "")


@pytest.mark.postgres
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_closing_store_does_not_affect_postgres(postgres_url: str) -> None:
    def writers(store: Any) -> int:
        [(found,)] = store.read(lambda tx: tx.db.execute_sql("SELECT count(*) FROM limpet_writers"))
        return int(found)

    with Limpet.open(postgres_url) as memory:
        store: Any = memory._runtime.store
        before = writers(store)
        assert in_a_child(memory.close) == "None"
        assert in_a_child(store.close) == "None"
        assert writers(store) == before
    with Limpet.open(postgres_url) as memory:  # whoever closes their own takes its row along
        assert writers(memory._runtime.store) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_inside_transaction_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_MAX_WAIT_S", 0.1)
    with Limpet.open(tmp_path) as memory:
        assert memory._runtime.store.write(lambda tx: in_a_child(lambda: "from inside")) == "'from inside'"
        assert memory._runtime.store.read(lambda tx: in_a_child(lambda: "from inside")) == "'from inside'"
        assert memory.session("t", "1", user="alice").append("user", "after").sequence == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_exiting_normally_keeps_parent_store_intact(tmp_path: Path) -> None:
    code = """
import os, sys
memory = Limpet.open(given)
session = memory.session("t", "1", user="alice")
for number in range(5):
    session.append("user", f"before {number}")
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    session.append("user", f"after {number}")
begin()
answer(session.count())
memory.close()
"""
    process = start(code, str(tmp_path))
    out, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert out.split() == ["ready", "10"]
    with Limpet.open(tmp_path) as memory:
        assert memory.admin.stats()["messages"] == 10
        assert faults(memory) == []
