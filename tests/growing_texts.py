"""Texts of any length that are hard on code that looks at some part of them again and again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

PIECES = {
    "one letter": "a",
    "digits": "7",
    "spaces": " ",
    "line breaks": "\n",
    "full stops": ".",
    "words": "walrus ferry ",
    "new words": "",  # see make_text
    "capitals": "Alice Bob ",
    "brackets": "([{",
    "tags": "<a",
    "quotes": "\"'",
    "backticks": "`",
    "bullets": "- a\n",
    "headings": "# a\n",
    "tables": "| a ",
    "stars": "*_",
    "commas": "red, blue, ",
    "and": "and ",
    "negations": "not never ",
    "if": "if I ",
    "I": "I like ",
    "I am": "I'm a nurse and ",
    "my": "my sister's dog's ",
    "name": "my name is Ann ",
    "facts": "I live in Oslo. I work at Acme. ",
    "corrections": "no, actually I meant ",
    "opt out": "don't remember that ",
    "forget": "forget that ",
    "questions": "what? when did you say ",
    "roles": "user: assistant: system: ",
    "speakers": "Alice: hello\n",
    "dates": "on May 5th, 2020, ",
    "days": "last Tuesday in March ",
    "months": "May ",
    "years": "in 2020 of 2021 ",
    "ago": "3 weeks ago ",
    "times": "at 5 pm at 10:30 ",
    "iso dates": "2020-01-02T03:04:05Z ",
    "urls": "https://a.example/b?c=d ",
    "slashes": "/",
    "mails": "a@b.example ",
    "at signs": "a@",
    "secrets": "password: x1Y2z3W4 ",
    "keys": "sk-abcdefghijklmnopqrstuvwx ",
    "equals": "a=",
    "base64": "QUJDREVGRw",
    "hex": "deadbeef",
    "dashes": "-",
    "underscores": "a_",
    "dots": "a.",
    "cjk": "漢字",
    "accents": "e\u0301",
    "marks": "\u0301",
    "zero width": "\u200b",
    "emoji": "👩\u200d🚀",
    "arabic": "مرحبا ",
    "json": '{"a": [',
    "money": "$5.00 and 3.50 EUR ",
    "numbers": "1 2 3 ",
    "versions": "v1.2.3 ",
    "paths": "src/a/b.py:12 ",
    "errors": "Error: failed at line 3\n",
    "relations": "Ann is married to Bob. ",
    "likes": "I love tea, but I hate coffee. ",
    "moves": "I moved from Rome to Oslo. ",
    "said": "she said that he said that ",
    "who": "who is the man who ",
    "semicolons": "a; b; ",
    "because": "because I ",
}


def make_text(name: str, length: int) -> str:
    if name == "new words":
        return " ".join(f"w{number}" for number in range(length // 6))[:length]
    if name in _LINES:
        return _lines(_LINES[name], length)
    piece = PIECES[name]
    return (piece * (length // len(piece) + 1))[:length]


def _lines(make: Callable[[int], str], length: int) -> str:
    lines: list[str] = []
    size = 0
    while size < length:
        lines.append(make(len(lines)))
        size += len(lines[-1])
    return "".join(lines)[:length]


def _bank(number: int) -> str:
    day = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)
    return f"{day:%B} {day.day}, {day.year}  Card payment SUPERMARKET {number}  -{number % 90}.50 EUR\n"


def _log(number: int) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=37 * number)
    return f"{at:%Y-%m-%d %H:%M:%S} INFO worker-{number % 8} handled request {number} in {number % 97} ms\n"


_LINES: dict[str, Callable[[int], str]] = {"bank statement": _bank, "log": _log}
NAMES = (*PIECES, *_LINES)
