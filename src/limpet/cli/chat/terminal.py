"""The terminal of a chat: what it prints, what is typed or piped in, and what Ctrl-C means at the moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from select import select
from threading import Thread
from types import FrameType
from typing import Any, Self, TextIO

from limpet.cli import show

_DIM, _RED, _BOLD, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[1m", "\x1b[0m"


class Screen:
    """Whatever text it is given has its control characters spelled out: only the screen itself drives a terminal."""

    def __init__(self, out: TextIO, *, terminal: bool = False, colour: bool = False) -> None:
        self._out = out
        self.terminal = terminal
        self._colour = colour
        self._inside = False  # in the middle of a line

    @classmethod
    def of(cls, out: TextIO) -> Screen:
        terminal = out.isatty()
        return cls(out, terminal=terminal, colour=terminal and not os.environ.get("NO_COLOR"))

    def say(self, *lines: str) -> None:
        for line in lines:
            self._line(line)

    def note(self, line: str) -> None:
        self._line(show.escape_line(line), _DIM)

    def show_error(self, line: str, code: str) -> None:
        self._line(show.escape_line(line), _RED)

    def write_piece(self, text: str) -> None:
        if text:
            self._inside = not text.endswith("\n")  # before it is written: it may be stopped right after
            self._write(show.escape(text))

    def finish(self, kind: str, **value: Any) -> None:
        self._end_line()

    def break_line(self) -> None:
        """At a terminal the key that was pressed stands there: what comes next begins a line."""
        self._inside = self._inside or self.terminal
        self._end_line()

    def echo(self, prompt: str, line: str) -> None:
        """What was typed ahead, where it is taken up."""
        if self.terminal:
            self._line(f"{prompt}{line}", _BOLD)

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        text = show.escape(text)
        self._write(f"{style}{text}{_PLAIN}\n" if style and self._colour else f"{text}\n")

    def _end_line(self) -> None:
        if self._inside:
            self._write("\n")
            self._inside = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class JsonScreen(Screen):
    """One object for the start, each turn and each command, with what was said in ``lines``."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._said: list[str] = []
        self._fault: dict[str, str] | None = None

    def say(self, *lines: str) -> None:
        self._said += lines

    def note(self, line: str) -> None:
        self._said.append(line)

    def show_error(self, line: str, code: str) -> None:
        self._fault = {"code": code, "message": line}

    def write_piece(self, text: str) -> None:
        """The reply is in the turn's object, whole or not at all."""

    def finish(self, kind: str, **value: Any) -> None:
        found = {"kind": kind, **value, "lines": self._said, "error": self._fault}
        self._said, self._fault = [], None
        self._write(f"{show.to_json(found, indent=None)}\n")


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
            # Loaded, it is what input() reads with. Not every Python has it.
            with suppress(ImportError):
                import readline  # noqa: F401
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
        """Yes means yes, everything else no. In a pipe, a line that is not an answer is the next input."""
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


def _descriptor(source: TextIO | None) -> int | None:
    """None for an input that is not a system file, such as a test's."""
    with suppress(AttributeError, OSError, ValueError):
        return None if source is None else source.fileno()
    return None


class ReplyInterrupt(KeyboardInterrupt):
    """The reply was stopped. No Exception, so that nothing on the way takes it for a failure."""


class _Phase(Enum):
    PROMPT = auto()
    REPLY = auto()
    BUSY = auto()


class Stopper:
    """At the prompt Ctrl-C interrupts, and in a reply it stops the reply, as ``request_stop`` does from any thread.

    Everywhere else it waits until the reply begins: what is being written is written whole. Whoever presses it once
    more in that time means the chat itself.
    """

    def __init__(self) -> None:
        self._now = _Phase.BUSY
        self._waiting = False  # somebody wants the next reply stopped
        self._typed = False  # the signal on its way is ours, not a Ctrl-C
        self._before: Any = None
        self._main: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self._main = threading.get_ident()
            self._before = signal.signal(signal.SIGINT, self._on_sigint)
        return self

    def __exit__(self, *_: object) -> None:
        if self._main is not None:
            # None: what handled it before was not Python code, and cannot be put back.
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)

    @contextmanager
    def prompt(self) -> Iterator[None]:
        self._now = _Phase.PROMPT
        try:
            yield
        finally:
            self._now = _Phase.BUSY
            self._waiting = False

    @contextmanager
    def reply(self) -> Iterator[None]:
        """Raises ReplyInterrupt wherever the reply is, also at once."""
        self._now = _Phase.REPLY
        try:
            self.check()
            yield
        finally:
            self._now = _Phase.BUSY
            self._waiting = False

    def check(self) -> None:
        """Between two pieces: where no signal can wake the thread that waits, this is how it is stopped."""
        if self._waiting:
            raise ReplyInterrupt

    def request_stop(self) -> None:
        """Stop the reply, from any thread."""
        self._waiting = True
        if self._main is not None and hasattr(signal, "pthread_kill"):
            self._typed = True
            signal.pthread_kill(self._main, signal.SIGINT)

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        typed, self._typed = self._typed, False
        now, self._now = self._now, _Phase.BUSY  # a second one must not hit what tidies up after the first
        if now is _Phase.REPLY:
            raise ReplyInterrupt
        if typed:
            self._now = now  # too early: reply() finds it. Too late: there is nothing to stop
        elif now is _Phase.PROMPT or self._waiting:
            raise KeyboardInterrupt
        else:
            self._waiting = True
