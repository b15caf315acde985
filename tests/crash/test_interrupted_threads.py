"""Interrupts in any of eight threads, from the first call of a new process on, leave none of them waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", range(3))
def test_interrupted_threads_of_new_process_go_on_and_lose_nothing(tmp_path: Path, seed: int) -> None:
    program = [sys.executable, "-m", "tests.crash.interrupted_threads", str(tmp_path), str(seed), "4"]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    counted = json.loads(ran.stdout)
    assert counted.pop("kept") > 0
    assert counted == {"stuck": 0, "errors": {}, "missing": 0}
