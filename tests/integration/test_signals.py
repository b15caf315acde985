"""The programs that stay end in order when told to, also by a signal that a thread other than the main one takes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limpet import Limpet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the process table of Linux"),
]
WAIT = 60  # seconds, which only a failure takes
# Python runs the handler in the main thread, which may wait in C and not notice.
PROGRAM = """
import signal, sys, threading, time
from pathlib import Path
from limpet.cli.main import main

def take_signal():
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), int(sys.argv[2]))

threading.Thread(target=take_signal, daemon=True).start()
sys.exit(main(sys.argv[3:]))
"""
HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["serve", "worker", "mcp"])
def test_program_ends_in_order_on_signal_that_another_thread_takes(
    command: str, number: signal.Signals, tmp_path: Path
) -> None:
    if command != "worker":
        pytest.importorskip("mcp" if command == "mcp" else "uvicorn")
    data, now = tmp_path / "data", tmp_path / "now"
    with Limpet.open(data) as memory:
        memory.remember("I keep bees", user="me")
    more = ["--port", "0"] if command == "serve" else []
    arguments = [sys.executable, "-c", PROGRAM, str(now), str(int(number)), "--json", "--data", str(data), command]
    with subprocess.Popen([*arguments, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            _wait_until_ready(program, command)
            now.touch()
            assert program.wait(WAIT) == 0
        finally:
            program.kill()
    assert not (data / "limpet.db-wal").exists(), "the store was not closed"


def _wait_until_ready(program: subprocess.Popen[bytes], command: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    if command == "mcp":
        program.stdin.write(HELLO)
        program.stdin.flush()
    if command != "worker":
        assert program.stdout.readline()
        return
    deadline = time.monotonic() + WAIT
    while not _catches(program.pid, signal.SIGTERM):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _catches(pid: int, number: signal.Signals) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (number - 1) & 1)
