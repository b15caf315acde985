"""Being told to stop while waiting: at whatever moment the signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import limpet
from limpet.cli.serve import StopEvent, stop_on_signal

# A timer's signal at each of the moments before, in and after a wait, some thousand times.
WAITS = """
import signal
from limpet.cli.serve import StopEvent

for number in range(4000):
    stop = StopEvent()
    signal.signal(signal.SIGALRM, stop.set)
    signal.setitimer(signal.ITIMER_REAL, (1 + number % 400) / 1e6)
    while not stop.is_set():
        stop.wait(0.00005)
print("stopped")
"""


@pytest.mark.slow
def test_stop_event_survives_signal_during_wait() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(limpet.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", WAITS], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_stop_event_wait_returns_on_set_or_timeout() -> None:
    stop = StopEvent()
    assert stop.wait(0.001) is False
    threading.Timer(0.01, stop.set).start()
    assert stop.wait(30) is True
    stop.set()
    assert stop.wait(30) is True, "set before the wait began"
    assert stop.is_set()


def test_stop_on_signal_restores_handler_after_first_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(30)
        assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGTERM) is before
