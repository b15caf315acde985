"""Daily notes: ``YYYY-MM-DD.md``, one line a turn, in the order the turns came."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path

from limpet.errors import StoreFull
from limpet.notes import edited

USER_CHARS, ASSISTANT_CHARS = 200, 300
_CUT_AT_LEAST = 12  # characters of a sentence that a cut line shows, to be known by them
_SHOWN_CHARS = 65_536  # of a day, in a context: its end
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# White space, controls, and what reverses the direction of text: none of it may end or turn a line.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


def format_line(moment: datetime, user: str, assistant: str) -> str:
    """``[HH:mm] User: … | Assistant: …`` at a local time; who said nothing is left out, "" when nobody did."""
    said = (("User", _clip(user, USER_CHARS)), ("Assistant", _clip(assistant, ASSISTANT_CHARS)))
    parts = [f"{who}: {text}" for who, text in said if text]
    return f"[{moment:%H:%M}] {' | '.join(parts)}" if parts else ""


def append_line(root: Path, folder: Path, day: date, line: str, most: int) -> None:
    path = day_path(folder, day)

    def change(there: bytes) -> bytes:
        ended = there if not there or there.endswith(b"\n") else there + b"\n"
        after = ended + line.encode() + b"\n"
        if len(after) > most:
            raise StoreFull(f"{path} has reached its limit of {most:,} bytes (notes.max_day_bytes)")
        return after

    with edited.lock_notes_file(root, path):
        edited.rewrite(path, change)


def redact_lines(text: str, gone: Iterable[str], mark: str) -> tuple[str, int]:
    """The notes with a mark in the place of these sentences, also where a line ends in their middle; and how many."""
    wanted = [_flatten(sentence) for sentence in gone]
    before = text.splitlines(keepends=True)
    after = [_redact_line(line, wanted, mark) for line in before]
    return "".join(after), sum(one != two for one, two in zip(before, after, strict=True))


def _redact_line(line: str, gone: Iterable[str], mark: str) -> str:
    for sentence in gone:
        if sentence in line:
            line = line.replace(sentence, mark)
            continue
        for length in range(len(sentence) - 1, _CUT_AT_LEAST - 1, -1):
            if f"{sentence[:length]}…" in line:
                line = line.replace(f"{sentence[:length]}…", mark)
                break
    return line


def list_days(folder: Path) -> list[date]:
    """The days that have a file, the oldest first."""
    names = [path.stem for path in folder.glob("[0-9]*-[0-9]*-[0-9]*.md")]
    return sorted(date.fromisoformat(name) for name in names if _DAY.fullmatch(name) and _is_date(name))


def _is_date(name: str) -> bool:
    try:
        date.fromisoformat(name)
    except ValueError:
        return False
    return True


def has_day(folder: Path, day: date) -> bool:
    """Whether anything may be read under the day's name: whatever is wrong with it, reading tells."""
    try:
        os.lstat(day_path(folder, day))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def read_day(root: Path, folder: Path, day: date, most: int) -> str:
    path = day_path(folder, day)
    return edited.decode_text(path, edited.read_file(root, path, most))


def trim_to_tail(text: str) -> str:
    """As much of a day's end as a context can need, from the beginning of a line."""
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[-_SHOWN_CHARS:].partition("\n")[2]


def iter_days_before(today: date, count: int) -> Iterator[date]:
    """The oldest first."""
    first = max(today.toordinal() - count, date.min.toordinal())
    return (date.fromordinal(ordinal) for ordinal in range(first, today.toordinal()))


def prefix_day(day: date, text: str) -> str:
    """Every line with its day before it: a line that alone finds room still says when."""
    name = day.isoformat()
    return "\n".join(f"{name} {line}" for line in text.splitlines() if line.strip())


def day_path(folder: Path, day: date) -> Path:
    return folder / f"{day.isoformat()}.md"


def _clip(text: str, most: int) -> str:
    plain = _flatten(text)
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _flatten(text: str) -> str:
    # The bar is what parts the two speakers; neither of them may write one.
    return _SPACE.sub(" ", text).replace("|", "¦").strip()
