"""Code that runs in several processes at the same moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60

_BEFORE = """
import json, sys
from limpet import Limpet
given = json.loads(sys.argv[1])
number = int(sys.argv[2])
def begin():
    print("ready", flush=True)
    sys.stdin.readline()
def answer(value):
    print(json.dumps(value), flush=True)
"""


def start(code: str, given: Any = None, number: int = 0) -> subprocess.Popen[str]:
    """A process with ``given``, ``number``, ``begin()`` (waits for the others) and ``answer(value)``."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-c", _BEFORE + code, json.dumps(given), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def run_together(code: str, given: Any = None, *, count: int = 2) -> list[Any]:
    """What each of the processes answered. The code calls ``begin()`` once; nobody goes on before all are there."""
    running = [start(code, given, number) for number in range(count)]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    assert [process.returncode for process in running] == [0] * count
    return [json.loads(output) for output in outputs]
