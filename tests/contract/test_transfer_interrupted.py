"""Exports and imports that are interrupted, killed, or made while others write."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet import Limpet, Message
from limpet.errors import LimpetError
from tests.contract.exports import contents
from tests.contract.rows import every_row, faults
from tests.contract.test_transfer import Folders, exported, folders

pytestmark = pytest.mark.every_backend


__all__ = ["folders"]  # fixtures


# Interrupted


# Five batches and a part of one, which need not be large.
BATCH = 50
MANY = 258
SMALL_BATCHES = {"limpet.lifecycle.importer._LINES": BATCH, "limpet.lifecycle.export._PROGRESS_EVERY": BATCH}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL_BATCHES.items():
        monkeypatch.setattr(name, value)


def many(memory: Limpet, messages: int = MANY) -> None:
    for chat in range(3):
        session = memory.session("t", str(chat), user="alice")
        session.extend([Message.new("user", f"walrus {chat} {number}") for number in range(messages // 3)])
        session.set_summary("walruses", 5)
        session.kv.set("k", chat)


class Stop(Exception):
    pass


def stopping(after: int) -> Callable[[str, int, int], None]:
    count = itertools.count(1)

    def stop(stage: str, done: int, total: int) -> None:
        if not stage.startswith("checking") and next(count) == after:
            raise Stop

    return stop


@pytest.mark.usefixtures("small_batches")
def test_import_resumes_after_interruption(store_url: str, folders: Folders) -> None:
    folder = folders()
    with Limpet.open(":memory:") as source:
        many(source)
        source.transfer.export(folder, "alice")
    with Limpet.open(store_url) as memory:
        with pytest.raises(Stop):
            memory.transfer.import_(folder, progress=stopping(4))
        half = memory.admin.stats()["messages"]
        assert 0 < half < MANY
        assert faults(memory) == []
        seen: list[tuple[str, int, int]] = []
        done = memory.transfer.import_(folder, progress=lambda *step: seen.append(step))
        assert done.continued >= half
        assert (done.sessions, done.messages) == (3, MANY)
        assert next(line for stage, line, _ in seen if stage == "messages") > half
        assert exported(memory, folders, "alice") == contents(folder)
        assert every_row(memory)["transfers"] == []
        assert faults(memory) == []


KILLED = """
import sys
from limpet import Limpet
from limpet.lifecycle import export, importer

importer._LINES = export._PROGRESS_EVERY = int(sys.argv[6])
stage, at = sys.argv[3], int(sys.argv[4])

def progress(now, done, total):
    if now == stage and done >= at:
        print("now", flush=True)
        sys.stdin.readline()  # nobody answers: the killer is on his way

with Limpet.open(sys.argv[1]) as memory:
    getattr(memory.transfer, sys.argv[5])(sys.argv[2], progress=progress)
"""


def killed_at(url: str, folder: Path, stage: str, at: int, verb: str) -> None:
    command = [sys.executable, "-c", KILLED, url, str(folder), stage, str(at), verb, str(BATCH)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "now\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()


@pytest.mark.parametrize(("stage", "at"), [("sessions", 1), ("messages", BATCH), ("messages", 4 * BATCH), ("kv", 1)])
@pytest.mark.usefixtures("small_batches")
def test_import_resumes_after_process_kill(durable_url: str, folders: Folders, stage: str, at: int) -> None:
    folder = folders()
    with Limpet.open(":memory:") as source:
        many(source)
        source.transfer.export(folder, "alice")
    killed_at(durable_url, folder, stage, at, "import_")
    with Limpet.open(durable_url) as memory:
        assert memory.admin.stats()["messages"] < MANY
        assert faults(memory) == []
        done = memory.transfer.import_(folder)
        assert done.continued > 0
        assert exported(memory, folders, "alice") == contents(folder)
        assert faults(memory) == []


@pytest.mark.usefixtures("small_batches")
def test_export_killed_leaves_only_unfinished_folder(durable_url: str, folders: Folders) -> None:
    folder, whole = folders(), folders()
    with Limpet.open(durable_url) as memory:
        many(memory)
        memory.transfer.export(whole)
    killed_at(durable_url, folder, "messages", 2 * BATCH, "export")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    assert unfinished.is_dir()
    assert not folder.exists()
    with Limpet.open(durable_url) as memory, pytest.raises(LimpetError):
        memory.transfer.import_(unfinished)
    with Limpet.open(durable_url) as memory:
        memory.transfer.export(folder)
    assert not unfinished.exists()
    assert contents(folder) == contents(whole)


def test_export_during_writes_is_consistent_snapshot(store_url: str, folders: Folders) -> None:
    """Each turn is two messages in one transaction: an odd number of them is no moment that ever was."""
    with Limpet.open(store_url) as memory:
        session = memory.session("t", "1", user="alice")
        session.extend([Message.new("user", f"walrus {number}") for number in range(1000)])
        stop, written = threading.Event(), itertools.count()

        def write() -> None:
            while not stop.is_set():
                number = next(written)
                session.extend([Message.new("user", f"q {number}"), Message.new("assistant", f"a {number}")])
                memory.remember(f"record of {number}", user="alice")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            exports = [exported(memory, folders, "alice") for _ in range(3)]
        finally:
            stop.set()
            writer.join()
        assert next(written) > 3
        for export in exports:
            lines = export["data/messages.jsonl"].splitlines()
            assert len(lines) % 2 == 0
            assert json.loads(export["data/sessions.jsonl"])["last_sequence"] == len(lines)


@pytest.mark.long
def test_export_and_import_use_constant_memory(tmp_path: Path) -> None:
    """Four times the messages are moved with hardly more memory: what grows is less than the messages weigh."""
    peaks = []
    for messages in (1200, 4800):
        folder = tmp_path / f"export {messages}"
        with Limpet.open(tmp_path / f"from {messages}") as source, Limpet.open(tmp_path / f"to {messages}") as to:
            many(source, messages)
            tracemalloc.start()
            source.transfer.export(folder, "alice")
            exporting = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            to.transfer.import_(folder)
            peaks.append((exporting, tracemalloc.get_traced_memory()[1]))
            tracemalloc.stop()
    (small_out, small_in), (large_out, large_in) = peaks
    assert large_out < 1.5 * small_out + 1_000_000
    assert large_in < 1.5 * small_in + 1_000_000
