"""The lines of notes: a turn as one line, sentences taken out of lines, and two edits of one text joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime

USER_CHARS, ASSISTANT_CHARS = 200, 300
_MIN_CUT_CHARS = 12  # characters of a sentence that a cut line shows, to recognise it by
_SHOWN_CHARS = 65_536  # of a day, in a context: its end
# White space, controls, and what reverses the direction of text: none of it may end or turn a line.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


def format_line(moment: datetime, user: str, assistant: str) -> str:
    """Return ``[HH:mm] User: … | Assistant: …``, without a silent side; "" if both were silent."""
    said = (("User", _clip(user, USER_CHARS)), ("Assistant", _clip(assistant, ASSISTANT_CHARS)))
    parts = [f"{who}: {text}" for who, text in said if text]
    return f"[{moment:%H:%M}] {' | '.join(parts)}" if parts else ""


def redact_lines(text: str, gone: Iterable[str], mark: str) -> list[tuple[str, str]]:
    """Return each line, and the same with a mark in place of these sentences, even if cut off by the line's end."""
    wanted = [_flatten(sentence) for sentence in gone]
    return [(line, _redact_line(line, wanted, mark)) for line in text.splitlines(keepends=True)]


def _redact_line(line: str, gone: Iterable[str], mark: str) -> str:
    for sentence in gone:
        if sentence in line:
            line = line.replace(sentence, mark)
            continue
        for length in range(len(sentence) - 1, _MIN_CUT_CHARS - 1, -1):
            if f"{sentence[:length]}…" in line:
                line = line.replace(f"{sentence[:length]}…", mark)
                break
    return line


def trim_to_tail(text: str) -> str:
    """Return as much of a day's end as a context can need, from the start of a line."""
    return text if len(text) <= _SHOWN_CHARS else text[-_SHOWN_CHARS:].partition("\n")[2]


def iter_days_before(today: date, count: int) -> Iterator[date]:
    """The oldest first."""
    first = max(today.toordinal() - count, date.min.toordinal())
    return (date.fromordinal(ordinal) for ordinal in range(first, today.toordinal()))


def prefix_day(day: date, text: str) -> str:
    """Put the day before every line: a line that alone finds room still says when."""
    name = day.isoformat()
    return "\n".join(f"{name} {line}" for line in text.splitlines() if line.strip())


def _clip(text: str, most: int) -> str:
    plain = _flatten(text)
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _flatten(text: str) -> str:
    # The bar separates the two speakers; neither of them may write one.
    return _SPACE.sub(" ", text).replace("|", "¦").strip()


def merge_edits(base: str, there: str, new: str) -> str | None:
    """Return the text with both edits of the base; None if both do more than append."""
    if there in (base, new):
        return new
    if not base:
        return None
    if (added := _find_appended(base, new)) is not None:
        return end_line(there) + added
    if (added := _find_appended(base, there)) is not None:
        return end_line(new) + added
    return None


def _find_appended(base: str, text: str) -> str | None:
    """Return the lines that a text appends to its base; None if it differs in another way."""
    rest = text.removeprefix(base)
    if not text.startswith(base) or not (base.endswith("\n") or rest.startswith(("\n", "\r\n"))):
        return None
    return rest.lstrip("\r\n")


def end_line(text: str) -> str:
    """Return the text with its last line ended."""
    return text if not text or text.endswith("\n") else f"{text}\n"
