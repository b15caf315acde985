"""What people read: tables, local times, and stored text that cannot drive their terminal."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from limpet.errors import LimpetError

# The titles of a noun's columns, or the names of its fields, and where each value comes from.
Columns = tuple[tuple[str, str | Callable[[Any], object]], ...]

WIDTH = 120  # where there is no terminal to ask
WIDEST = 48  # of any column but the last
NARROWEST = 24  # of the last column

# Controls, what reverses the direction of text, and halves of characters. A line end and a tab are for the caller.
_BODY = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_HIDDEN = re.compile(f"[{_BODY}]")
_JSON_HIDDEN = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    """The text with its control characters spelled out. Lines and tabs stay."""
    return _HIDDEN.sub(lambda found: ("\\x{:02x}" if found[0] < "\u0100" else "\\u{:04x}").format(ord(found[0])), text)


def one_line(text: str) -> str:
    return escape(" ".join(text.split()))


def escape_line(text: str) -> str:
    """An error or a log record on one line."""
    return escape(text).replace("\n", "\\n").replace("\t", " ")


def print_result(args: Namespace, value: Any, lines: Iterable[str]) -> None:
    """The command's result: one JSON document, or lines for people."""
    if args.json:
        print(to_json(value))
        return
    for line in lines:
        print(line)


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON in any encoding the output may have, with nothing in it that a terminal would obey."""
    import json

    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=not utf8)
    return _JSON_HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def format_time(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    except (OverflowError, OSError, ValueError):
        return moment.isoformat(" ", "minutes")


def pluralize(number: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun; ``nouns`` is the plural where it does not end in -s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {nouns or f'{noun}s'}"


def next_page_hint(shown: int, limit: int, offset: int) -> list[str]:
    return [f"{shown:,} shown; --offset {offset + shown} shows the next."] if shown and shown == limit else []


def format_size(number: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def format_fields(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """``name  value`` lines; what is empty is left out."""
    kept = [(name, value) for name, value in pairs if value]
    longest = max((len(name) for name, _ in kept), default=0)
    return [f"{name.ljust(longest)}  {escape(value)}" for name, value in kept]


def format_cell(noun: object, source: str | Callable[[Any], object]) -> str:
    """What people read of an attribute, or of what a function returns: "" for nothing."""
    value: Any = getattr(noun, source) if isinstance(source, str) else source(noun)
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return to_json(dict(value), indent=None) if value else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def format_nouns(columns: Columns, found: Iterable[Any], under: Sequence[Sequence[str]] | None = None) -> list[str]:
    rows = [[format_cell(noun, source) or "-" for _, source in columns] for noun in found]
    return format_table([title for title, _ in columns], rows, under)


def format_noun(fields: Columns, noun: Any) -> list[str]:
    return format_fields((name, format_cell(noun, source)) for name, source in fields)


def indent_lines(text: str, by: int = 4) -> list[str]:
    return [" " * by + line for line in escape(text).split("\n")]


def format_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], under: Sequence[Sequence[str]] | None = None
) -> list[str]:
    """Aligned columns, the last cut to the width. Lines ``under`` follow a row.

    Before a title ``>`` aligns its column right, and ``?`` leaves it out where the screen is too narrow.
    """
    cells = [[title.strip("?>") for title in titles], *([one_line(cell) for cell in row] for row in rows)]
    last = len(titles) - 1
    cells = [[truncate(cell, WIDEST) if at < last else cell for at, cell in enumerate(row)] for row in cells]
    widths = [max(display_width(row[at]) for row in cells) for at in range(len(titles))]
    kept = _visible_columns(titles, widths)
    widths[last] = min(widths[last], max(NARROWEST, screen_width() - sum(widths[at] + 2 for at in kept[:-1])))
    lines = []
    for number, row in enumerate(cells):
        padded = [_pad(truncate(row[at], widths[at]), widths[at], ">" in titles[at]) for at in kept]
        lines.append("  ".join(padded).rstrip())
        if number and under is not None:
            lines += under[number - 1]
    return lines


def _visible_columns(titles: Sequence[str], widths: Sequence[int]) -> list[int]:
    kept = list(range(len(titles)))
    for at in reversed(kept[:-1]):
        needed = sum(widths[other] + 2 for other in kept[:-1]) + min(widths[kept[-1]], NARROWEST)
        if needed > screen_width() and "?" in titles[at]:
            kept.remove(at)
    return kept


def screen_width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size((WIDTH, 24)).columns


def display_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200b\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def truncate(text: str, width: int) -> str:
    if display_width(text) <= width:
        return text
    kept, room = [], width - 1
    for char in text:
        room -= _char_width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(text))
    return space + text if right else text + space


class ConfirmationError(LimpetError):
    code = "not_confirmed"


def confirm(args: Namespace, question: str) -> None:
    """Go on after ``--yes`` or a yes; raise ConfirmationError otherwise."""
    if args.yes:
        return
    if not is_interactive():
        raise ConfirmationError("this needs confirmation, and the input is not a terminal; add --yes to confirm")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfirmationError("nothing was removed")


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class ProgressLine:
    """A line on stderr that is written over, and nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._next = 0.0
        self._drawn = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._on or (time.monotonic() < self._next and done < total):
            return
        self._next = time.monotonic() + 0.1
        share = f" {100 * done // total} %" if total else ""
        self._draw(f"{stage}: {done:,} of {total:,}{share}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _draw(self, line: str) -> None:
        sys.stderr.write(f"\r{line.ljust(self._drawn)}")
        sys.stderr.flush()
        self._drawn = len(line)
