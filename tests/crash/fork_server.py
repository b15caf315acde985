"""Processes that start in milliseconds: one child imports everything once and forks when asked.

    with Nursery() as nursery:
        pid = nursery.start("tests.crash.writer:run", store="data", ...)
        nursery.kill(pid)

The child holds no store open and runs no thread, so what it forks is as good as new. When this process is gone, however
it went, the child ends whatever it started.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import limpet

ROOT = Path(__file__).parents[2]


class Nursery:
    def __init__(self) -> None:
        source = Path(limpet.__file__).parents[1]
        # Threads of a numeric library would not survive the forks.
        env = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=env,
            text=True,
            start_new_session=True,  # an interrupt is for whoever uses the nursery, who then ends it
        )

    def start(self, target: str, /, **arguments: Any) -> int:
        """Run ``module:function`` with the arguments in a process of its own."""
        return self._ask({"target": target, "arguments": arguments})

    def wait(self, pid: int) -> int:
        """The exit status once it has ended; negative is the signal that ended it."""
        return self._ask({"wait": pid})

    def kill(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def stop(self, pid: int) -> int:
        """Ask it to finish until it does: a signal that another of its threads takes does not wake its main thread."""
        ended = threading.Event()

        def ask() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                while not ended.wait(1):
                    os.kill(pid, signal.SIGTERM)

        threading.Thread(target=ask).start()
        try:
            return self.wait(pid)
        finally:
            ended.set()

    def pause(self, pid: int) -> None:
        """Returns when it stands still."""
        self._ask({"pause": pid})

    def resume(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)

    def run(self, target: str, /, **arguments: Any) -> int:
        return self.wait(self.start(target, **arguments))

    def close(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the nursery ended; its own words are above")
        return int(answer)


def _serve() -> None:
    _warm_up()
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            children.discard(request["wait"])
            answer = os.waitstatus_to_exitcode(status)
        elif "pause" in request:
            os.kill(request["pause"], signal.SIGSTOP)
            answer, _ = os.waitpid(request["pause"], os.WUNTRACED)
        else:
            answer = os.fork()
            if answer == 0:
                _live(request["target"], request["arguments"])
            children.add(answer)
        print(answer, flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _warm_up() -> None:
    """What every writer would import for itself."""
    for name in ("numpy", "psycopg", "tests.crash.writer"):
        if importlib.util.find_spec(name):
            importlib.import_module(name)
    from limpet import Limpet

    with Limpet.open(":memory:") as memory:
        memory.remember("reading and writing", user="warm")
        memory.recall("written", user="warm")


def _live(target: str, arguments: dict[str, Any]) -> None:
    """In the forked child: the pipes belong to the nursery, and so does the way out."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        module, _, function = target.partition(":")
        getattr(importlib.import_module(module), function)(**arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve()
