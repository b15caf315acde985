"""A program that ends without close(): its background work is finished first, and nothing aborts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from limpet import Limpet

# An embedder that is at work in the background when the main thread ends, as one inside a library's threads may be.
PROGRAM = """
import os, sys, threading, time
from limpet import Config, Limpet
from limpet.api import agents

begun = threading.Event()

class SlowEmbedder:
    name, dimension = "slow", 4
    def embed(self, texts):
        if threading.current_thread().name == "limpet-worker":
            begun.set()
            while threading.main_thread().is_alive():
                time.sleep(0.001)
            for _ in range(ROUNDS):
                time.sleep(0.01)
            print("embedded", flush=True)
        return [[1.0, 0.0, 0.0, 0.0] for _ in texts]

def work(folder):
    memory = Limpet.open(folder, config=Config.load(overrides={"embedding.when": "later"}), embedder=SlowEmbedder())
    memory.session(user="alice").append("user", "I keep bees")
    assert begun.wait(20)
    return memory
"""


def run(ending: str, folder: Path, rounds: int = 30) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", f"ROUNDS = {rounds}\n{PROGRAM}\n{ending}", str(folder)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("memory = work(sys.argv[1])", id="kept"),
        pytest.param("work(sys.argv[1])", id="dropped"),
        pytest.param("memory = work(sys.argv[1])\nsys.exit(0)", id="sys.exit"),
        pytest.param(
            "child = os.fork()\nif child == 0:\n    memory = work(sys.argv[1])\nelse:\n"
            "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
            id="forked child",
        ),
    ],
)
def test_program_without_close_finishes_job_at_hand_before_it_ends(ending: str, tmp_path: Path) -> None:
    ran = run(ending, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "embedded\n", "")
    assert not (tmp_path / "limpet.db-wal").exists()  # closed, not only left
    with Limpet.open(tmp_path) as memory:
        assert memory.session(user="alice").count() == 1


def test_program_without_close_that_raises_ends_with_its_own_error(tmp_path: Path) -> None:
    ran = run("memory = work(sys.argv[1])\nraise SystemExit('my own')", tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "embedded\n", "my own\n")


def test_forked_child_of_open_store_ends_without_waiting_for_parent(tmp_path: Path) -> None:
    ending = """
memory = work(sys.argv[1])
child = os.fork()
if child == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    ran = run(ending, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3\nembedded\n", "")


def test_program_does_not_wait_for_ever_for_job_that_does_not_end(tmp_path: Path) -> None:
    ran = run("agents._EXIT_WAIT_S = 0.1\nmemory = work(sys.argv[1])", tmp_path, rounds=100_000)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "still at work when the program ended" in ran.stderr
