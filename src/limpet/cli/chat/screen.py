"""All that the chat prints: for people, or one JSON object a line."""

from __future__ import annotations

import os
from typing import Any, TextIO

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
        """Something beside the conversation, on one line."""
        self._line(show.escape_line(line), _DIM)

    def show_error(self, line: str, code: str) -> None:
        self._line(show.escape_line(line), _RED)

    def write_piece(self, text: str) -> None:
        """A part of the reply, as it comes."""
        if text:
            self._inside = not text.endswith("\n")  # before it is written: it may be stopped right after
            self._write(show.escape(text))

    def finish(self, kind: str, **value: Any) -> None:
        """The end of a turn or a command."""
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
