"""Talking with ``limpet chat``: through pipes, and at a terminal of the test's own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import limpet
from tests.unit.providers.embedding_server import Answering, EmbeddingServer, Handler
from tests.unit.providers.llm_server import OPENAI, streams

PATIENCE = 120  # seconds, on a busy machine
RETRY = 5
COMMAND = (sys.executable, "-m", "limpet", "chat")
# Only its own terminal's Ctrl-C reaches a program.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def surroundings(data: Path, **more: str) -> dict[str, str]:
    """A program's environment without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LIMPET_", "XDG_"))}
    return kept | {
        "PYTHONPATH": str(Path(limpet.__file__).parents[1]),
        "LIMPET_DATA": str(data),
        "LIMPET_EMBEDDING_MODEL": "none",
        "LIMPET_LEARN_ENABLED": "false",  # else the server is asked in the background too
        "COLUMNS": "120",
        "NO_PROXY": "*",
        "no_proxy": "*",
        "TERM": "xterm",
        **more,
    }


def says(*pieces: str) -> Answering:
    return streams(OPENAI.events(*pieces))


class Story:
    """An answer that begins, and goes on only until the reader hangs up or it is told to end."""

    def __init__(self, *beginning: str) -> None:
        self._beginning = beginning
        self.begun = threading.Event()
        self.hung_up = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, handler: Handler) -> None:
        streams(OPENAI.events(*self._beginning, finish=None), then=self._go_on)(handler)

    def _go_on(self, handler: Handler) -> None:
        self.begun.set()
        deadline = time.monotonic() + PATIENCE
        while not self.may_end.wait(0.01) and time.monotonic() < deadline:
            try:
                handler.wfile.write(b": still thinking\n\n")
                handler.wfile.flush()
            except OSError:
                self.hung_up.set()
                return
        whole = "".join(f"data: {event}\n\n" for event in OPENAI.events("The end.")[1:])
        handler.wfile.write(whole.encode())


def asked(server: EmbeddingServer) -> list[list[dict[str, Any]]]:
    """The messages of each request."""
    return [request["messages"] for request in server.requests]


def piped(text: str, *arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], input=text, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def found(pattern: str, text: str, flags: int = 0) -> tuple[str, ...]:
    """The groups of what must be there."""
    match = re.search(pattern, text, flags)
    assert match is not None, f"{pattern!r} is not in {text!r}"
    return match.groups()


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class Terminal:
    """A program at a terminal. ``until`` reads on until something is shown."""

    def __init__(self, command: Sequence[str], env: dict[str, str]) -> None:
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=env,
            start_new_session=True,
        )
        os.close(inside)
        self._bytes = b""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def enter(self, line: str) -> None:
        self.type(f"{line}\r")

    def until(self, wanted: str) -> str:
        """What was shown since the last time, up to and with what is wanted, without colours."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text[self._seen :]:
            assert time.monotonic() < deadline, f"{wanted!r} is not in {self.text[self._seen :]!r}"
            self._receive(0.1)
        start, self._seen = self._seen, self.text.index(wanted, self._seen) + len(wanted)
        return self.text[start : self._seen]

    def interrupt(self, wanted: str) -> str:
        """Ctrl-C until it shows: one between a prompt and readline's waiting is seen with the next key only."""
        for _ in range(PATIENCE // RETRY):
            self.type("\x03")
            again = time.monotonic() + RETRY
            while time.monotonic() < again:
                if wanted in self.text[self._seen :]:
                    return self.until(wanted)
                self._receive(0.1)
        return self.until(wanted)

    def until_prompt(self) -> str:
        return self.until("\n> ")

    @property
    def raw(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        return _STYLE.sub("", self.raw).replace("\r", "")

    def ended(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._receive(0.1):
            assert time.monotonic() < deadline, f"it has not ended after {self.text[self._seen :]!r}"
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    def _receive(self, seconds: float) -> bool:
        if select.select([self._fd], [], [], seconds)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # nobody holds the other end any more
                return False
            self._bytes += data
            return bool(data)
        return self._process.poll() is None


@contextmanager
def terminal_of(*command: str, env: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(command, env)
    try:
        yield terminal
    finally:
        terminal.close()


def at_terminal(*arguments: str, env: dict[str, str]) -> AbstractContextManager[Terminal]:
    return terminal_of(*COMMAND, *arguments, env=env)
