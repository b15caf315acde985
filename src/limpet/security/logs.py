"""Log lines without content: one line each, as words or as a JSON object.

A line of the log may carry an error, and an error's words may quote what somebody said: they are left out, unless they
are requested, and the error's code or the name of its class replaces them. Code that logs something worth counting
names it beside the words: ``log.info("…", extra={"event": "job", "fields": {"kind": "embed"}})``.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from limpet.security.telemetry import error_code

LOGGER = "limpet"
_FRAMES = 8  # of a traceback, the innermost

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]


class TextFormatter(logging.Formatter):
    """``2026-11-15T16:42:43.120Z warning limpet.jobs the job 7 (embed) failed …: provider_error``"""

    def __init__(self, *, words: bool = False) -> None:
        super().__init__()
        self._words = words

    def format(self, record: logging.LogRecord) -> str:
        parts = [_time(record), record.levelname.lower(), record.name, self._message(record)]
        error = self._error(record)
        if error is not None:
            parts.append(" ".join(f"{name}={value}" for name, value in error.items()))
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(parts))

    def _message(self, record: logging.LogRecord) -> str:
        if self._words or not record.args:
            return record.getMessage()
        args = record.args
        if isinstance(args, Mapping):
            return str(record.msg) % {name: _strip_error_text(value) for name, value in args.items()}
        return str(record.msg) % tuple(map(_strip_error_text, args))

    def _error(self, record: logging.LogRecord) -> dict[str, Any] | None:
        """What was raised and where; the lines of code beside it would not quote anybody, but are long."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is None:
            return None
        frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return {"error": error_code(error), "where": where} | ({"words": str(error)} if self._words else {})


class JsonFormatter(TextFormatter):
    """``{"time": …, "level": "info", "logger": "limpet.jobs", "event": "job", "kind": "embed", "seconds": 0.02}``"""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or self._message(record),
        }
        for name, value in (getattr(record, "fields", None) or {}).items():
            told.setdefault(name, value if self._words else _strip_error_text(value))
        return json.dumps(told | (self._error(record) or {}), default=str)  # ASCII: no character of it ends a line


def configure_logging(
    level: LogLevel = "warning",
    format: LogFormat = "text",
    stream: TextIO | None = None,
    *,
    words: bool = False,
    loggers: Iterable[str] = (LOGGER,),
) -> Callable[[], None]:
    """For programs that stay: these loggers write such lines to ``stream``, stderr if none is given. Answers what
    undoes it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(words=words) if format == "json" else TextFormatter(words=words))
    chosen = [logging.getLogger(name) for name in loggers]
    before = [(each, each.level, each.propagate) for each in chosen]
    for each in chosen:
        each.addHandler(handler)
        each.setLevel(level.upper())
        each.propagate = False

    def undo() -> None:
        for each, was, propagates in before:
            each.removeHandler(handler)
            each.setLevel(was)
            each.propagate = propagates

    return undo


def _strip_error_text(value: Any) -> Any:
    return error_code(value) if isinstance(value, BaseException) else value


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
