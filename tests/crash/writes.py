"""What the writers write, told by the name of each deed alone: whoever checks can say word for word what must be there.

A deed's name says who did it, ``op2x0x7x31``: writer 2, its thread 0, its seventh life, deed 31. A deed of several
messages numbers them: ``op2x0x7x31i0``, ``op2x0x7x31i1``, … The name is the first word of the text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from limpet import FilePart, Message, TextPart, ToolCall

_NAME = re.compile(r"op(\d+)x(\d+)x(\d+)x(\d+)(?:i(\d+))?\b")
_WORDS = (
    "amber bridge candle delta ember forest garden harbour island jungle kettle ladder meadow needle orchard pepper "
    "quarry river saddle timber umbrella valley window yellow zephyr 東京 café наука 🦊 running walked houses children"
).split()
_START = datetime(2025, 1, 1, tzinfo=UTC)


class Doer(NamedTuple):
    """A thread of a writer, whatever life it is in: its deeds come one after the other."""

    writer: int
    thread: int


def name(doer: Doer, life: int, number: int) -> str:
    return f"op{doer.writer}x{doer.thread}x{life}x{number}"


def doer_of(deed: str) -> Doer:
    match = _NAME.fullmatch(deed)
    assert match is not None
    return Doer(int(match[1]), int(match[2]))


def named_in(text: str) -> str | None:
    """The deed, with its message's number if it has one, that begins this text."""
    match = _NAME.match(text)
    return match.group() if match else None


def deed_of(marker: str) -> str:
    return marker.partition("i")[0]


def text(marker: str) -> str:
    """Short, or now and then long enough for several chunks."""
    chance = Random(marker)
    count = chance.randint(150, 400) if chance.random() < 0.04 else chance.randint(1, 25)
    return f"{marker} {' '.join(chance.choices(_WORDS, k=count))}"


def message(marker: str, *, once: bool = False) -> Message:
    """A message in one of the shapes there are. ``once``: with an idempotency key."""
    chance = Random(f"shape of {marker}")
    words = text(marker)
    shape = chance.randrange(8)
    content: Any = [TextPart(words), FilePart(f"file:///{marker}", "text/plain", marker)] if shape == 0 else words
    calls = (
        [ToolCall(f"call-{marker}", "look", {"for": marker, "deep": {"list": [1, None, "ü"]}})] if shape == 1 else ()
    )
    return Message.new(
        "assistant" if calls else chance.choice(("user", "assistant", "tool", "user")),
        content,
        name="tester" if shape == 2 else None,
        tool_calls=calls,
        metadata={"deed": marker, "n": shape},
        created_at=_START + timedelta(seconds=chance.randrange(10**7)),
        idempotency_key=marker if once else None,
    )


def document(deed: str) -> str:
    """A text of many chunks: written, replaced and removed in several slices."""
    chance = Random(f"document of {deed}")
    lines = [" ".join(chance.choices(_WORDS, k=40)) for _ in range(chance.randint(2, 40))]
    return "\n\n".join([deed, *lines])


@dataclass
class Deed:
    """One call, as its writer noted it: begun, and perhaps answered. Without an answer it may have happened or not."""

    name: str
    kind: str
    target: str
    size: int = 1
    done: bool = False
    result: Any = None
    errors: list[str] = field(default_factory=list)

    @property
    def markers(self) -> list[str]:
        return [f"{self.name}i{at}" for at in range(self.size)]


class Notes:
    """A writer's notebook. A line is one write to an append-only file, which no kill can take back or cut in half."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, deed: str, kind: str, target: str, size: int = 1) -> None:
        self._note(["begin", deed, kind, target, size])

    def done(self, deed: str, result: Any = None) -> None:
        self._note(["done", deed, result])

    def fail(self, deed: str, error: BaseException) -> None:
        self._note(["fail", deed, f"{type(error).__name__}: {error}"])

    def _note(self, line: list[Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())


def read_notes(*paths: Path) -> dict[str, Deed]:
    """The deeds in the order they were begun, from the notebooks of one writer's lives, in that order."""
    deeds: dict[str, Deed] = {}
    for word, deed, *rest in _lines(paths):
        if word == "begin":
            deeds.setdefault(deed, Deed(deed, *rest))
        elif word == "done":
            deeds[deed].done, deeds[deed].result = True, rest[0]
        else:
            deeds[deed].errors.append(rest[0])
    return deeds


def _lines(paths: tuple[Path, ...]) -> Iterator[list[Any]]:
    for path in paths:
        if path.exists():
            yield from (json.loads(line) for line in path.read_bytes().split(b"\n") if line)
