"""A server of its own process on a folder, as a user starts one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parent.parent


class Server:
    """``limpet serve`` on any free port until the block ends, or it is killed. What it logs goes to ``log``."""

    def __init__(
        self, folder: Path | str, *arguments: str, env: dict[str, str] | None = None, log: Path | None = None
    ) -> None:
        told = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "LIMPET_EMBEDDING_MODEL": "none"}
        place = ["--data", str(folder)]
        command = [sys.executable, "-m", "limpet", "serve", *place, "--port", "0", "--json", *arguments]
        log = log or Path(os.devnull)
        with log.open("ab") as errors:
            self.process: subprocess.Popen[Any] = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**_around(), **told, **(env or {})}
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with {self.process.wait(30)} before it served; see {log}")
        self.url: str = json.loads(line)["url"]

    def stop(self, seconds: float = 60) -> int:
        """In order; its exit status."""
        self.process.terminate()
        return self._ended(seconds)

    def kill(self) -> int:
        self.process.kill()
        return self._ended(60)

    def _ended(self, seconds: float) -> int:
        try:
            return self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def _around() -> dict[str, str]:
    """Settings of whoever runs the tests are not the tests'."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}


@contextmanager
def served(folder: Path, *arguments: str, **env: str) -> Iterator[str]:
    """The address of a server, for those who need no more of it."""
    with Server(folder, *arguments, env=env) as server:
        yield server.url


def ask(url: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers by their names in small letters, and the body."""
    data = None if body is None else json.dumps(body).encode()
    given = {**({"Content-Type": "application/json"} if data else {}), **headers}
    try:
        with urlopen(Request(url, data, given, method=method), timeout=60) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, {name.lower(): value for name, value in refused.headers.items()}, refused.read()
