"""``holdfast serve`` as a process of its own, on a store in some folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]


@contextmanager
def served(folder: Path, *arguments: str, **env: str) -> Iterator[str]:
    """The address of a server on any free port. ``env`` is added to what it finds around it."""
    command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--json", *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
            "PYTHONPATH": str(ROOT / "src"),
            "HOLDFAST_DATA": str(folder),
            "HOLDFAST_EMBEDDING_MODEL": "none",
            **env,
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield str(json.loads(_first_line(process))["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _first_line(process: subprocess.Popen[str], seconds: float = 60) -> str:
    """A server that does not come up fails the test instead of stopping the run."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    Thread(target=lambda out=process.stdout: lines.put(out.readline()), daemon=True).start()
    try:
        line = lines.get(timeout=seconds)
    except Empty:
        raise RuntimeError(f"the server did not start within {seconds:.0f} seconds") from None
    if not line:
        raise RuntimeError(f"the server ended with {process.wait(10)} before it served")
    return line


def ask(url: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers by their names in small letters, and the body."""
    data = None if body is None else json.dumps(body).encode()
    given = {**({"Content-Type": "application/json"} if data else {}), **headers}
    try:
        with urlopen(Request(url, data, given, method=method), timeout=30) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, {name.lower(): value for name, value in refused.headers.items()}, refused.read()
