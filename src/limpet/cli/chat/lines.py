"""What is typed or piped in: one input after the other, watched for ``/stop`` while a reply comes."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from threading import Thread
from typing import TextIO

from limpet.cli.chat.screen import Screen

STOP = "/stop"
PROMPT, MORE = "> ", "... "
_YES, _NO = ("y", "yes"), ("n", "no")
_PIECE = 1 << 16


class InputReader:
    """Lines are read as bytes by ourselves wherever two may read at once: a buffer in between would hide some.

    At a terminal any number of lines may be typed ahead. A pipe gives its lines all at once, and they mean what they do
    in their order: only the very next one is looked at, so that a ``/stop`` further on stops no reply before its own.
    """

    def __init__(self, source: TextIO | None, screen: Screen) -> None:
        self._source = source
        self._screen = screen
        self.terminal = source is not None and source.isatty()
        self._fd = _descriptor(source)
        self._edits = self.terminal and screen.terminal and self._fd == 0
        if self._edits:
            _load_readline()
        self._ahead: deque[str] = deque()
        self._bytes = b""
        self._ended = source is None

    def next(self) -> str | None:
        """The next input; None at the end. A line that ends in a backslash goes on in the next one."""
        line = self._next_line(PROMPT)
        if line is None:
            return None
        parts = [line]
        while _is_continued(parts[-1]):
            parts[-1] = parts[-1][:-1]
            line = self._next_line(MORE)
            if line is None:
                break
            parts.append(line)
        return "\n".join(parts)

    def confirm(self, question: str) -> bool:
        """Yes means yes, everything else no. In a pipe a line that is no answer stays what it is: the next input."""
        if self.terminal:
            answer = self._read(f"{question} [y/N] ")
            return answer is not None and answer.strip().lower() in _YES
        answer = self._next_line("")
        if answer is not None and answer.strip().lower() not in (*_YES, *_NO):
            self._ahead.appendleft(answer)
        return answer is not None and answer.strip().lower() in _YES

    @contextmanager
    def watch(self, stop: Callable[[], None]) -> Iterator[None]:
        """Meanwhile ``/stop`` calls ``stop``; whatever else is typed is kept for later."""
        if self._fd is None or sys.platform == "win32":  # there select is for sockets only
            yield
            return
        wake, closing = os.pipe()
        thread = Thread(target=self._watch, args=(self._fd, wake, stop), name="limpet-chat-input", daemon=True)
        thread.start()
        try:
            yield
        finally:
            os.close(closing)
            thread.join()
            os.close(wake)

    def _watch(self, fd: int, wake: int, stop: Callable[[], None]) -> None:
        while self.terminal or not self._ahead:
            line = self._pop_line()
            if line is None:
                if self._ended or wake in select([fd, wake], [], [])[0]:
                    return
                self._receive(fd)
            elif line.strip() == STOP:
                stop()
            else:
                self._ahead.append(line)

    def _next_line(self, prompt: str) -> str | None:
        if self._ahead:
            line = self._ahead.popleft()
            self._screen.echo(prompt, line)
            return line
        return self._read(prompt)

    def _read(self, prompt: str) -> str | None:
        if self._edits and not self._bytes:
            return None if self._ended else _read_with_readline(prompt)
        if self.terminal:
            print(prompt, end="", file=sys.stdout if self._screen.terminal else sys.stderr, flush=True)
        if self._fd is None:
            line = self._source.readline() if self._source is not None else ""
            return line.rstrip("\r\n") if line else None
        while (found := self._pop_line()) is None and not self._ended:
            self._receive(self._fd)
        return found

    def _receive(self, fd: int) -> None:
        try:
            data = os.read(fd, _PIECE)
        except OSError:  # a terminal that was closed
            data = b""
        self._bytes += data
        self._ended = not data

    def _pop_line(self) -> str | None:
        """A whole line of what has come, the last one also without its end."""
        line, end, rest = self._bytes.partition(b"\n")
        if not end and not (self._ended and line):
            return None
        self._bytes = rest
        return line.removesuffix(b"\r").decode("utf-8", "replace")


def _is_continued(line: str) -> bool:
    """Two backslashes at the end are meant as they stand."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _read_with_readline(prompt: str) -> str | None:
    """With the keys and the history of readline. The history is not kept on disk: no purge would find it there."""
    try:
        line = input(prompt)
    except EOFError:
        return None
    except UnicodeDecodeError:
        return "\ufffd"
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _load_readline() -> None:
    """Loaded, it is what input() reads with. Not every Python has it."""
    with suppress(ImportError):
        import readline  # noqa: F401


def _descriptor(source: TextIO | None) -> int | None:
    """None for an input that is no file of the system, such as a test's."""
    with suppress(AttributeError, OSError, ValueError):
        return None if source is None else source.fileno()
    return None
