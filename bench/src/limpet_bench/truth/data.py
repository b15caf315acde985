"""The stories, facts, states, messages and dialogues of this folder, and excerpts of lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from limpet.errors import InvalidInput
from limpet_bench.truth.text import mentions

FOLDER = Path(__file__).parent
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Story:
    """Messages by day in which one thing changes, or ends and has no new value."""

    id: str
    messages: tuple[tuple[int, str], ...]
    question: str
    day: int
    new: tuple[str, ...]
    old: tuple[str, ...]

    @property
    def ended(self) -> bool:
        return not self.new

    @property
    def statement(self) -> str:
        """The message that stated the old value."""
        return next((text for _, text in self.messages if mentions(text, self.old)), "")

    @property
    def later(self) -> tuple[str, ...]:
        """Later messages that name the old value. They tell of the change."""
        return tuple(text for _, text in self.messages if text != self.statement and mentions(text, self.old))


@dataclass(frozen=True, slots=True)
class Said:
    """A message, the words of it that state something lasting, and the numbers of earlier messages that it ends.

    ``question``: what the user may ask weeks later that needs what it states.
    """

    day: int
    text: str
    fact: str | None
    ends: tuple[int, ...]
    question: str | None = None


@dataclass(frozen=True, slots=True)
class QuietTalk:
    """Messages of a user over weeks in which little changes."""

    id: str
    said: tuple[Said, ...]

    @property
    def ended(self) -> frozenset[int]:
        """The numbers of the messages that no longer hold at the end."""
        return frozenset(number for each in self.said for number in each.ends)


@dataclass(frozen=True, slots=True)
class LastingFact:
    id: str
    message: str
    question: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PassingState:
    id: str
    message: str
    question: str
    state: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coordination:
    """A sentence of several facts, and a message that changes one of them."""

    id: str
    message: str
    facts: tuple[tuple[str, ...], ...]
    change: str
    changed: int


@dataclass(frozen=True, slots=True)
class Label:
    """A claim that a person found in a message."""

    quote: str
    attribute: str
    value: str
    status: str


@dataclass(frozen=True, slots=True)
class LabelledMessage:
    id: str
    before: str | None
    text: str
    claims: tuple[Label, ...]
    nothing: str | None


@dataclass(frozen=True, slots=True)
class Line:
    day: int
    role: str
    text: str
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    id: str
    turns: tuple[Line, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A conversation with the claims of each of its turns. In the setting "friends" two people talk."""

    id: str
    setting: str
    turns: tuple[Line, ...]
    claims: tuple[tuple[int, Label], ...]  # by the index of the turn


def load(name: str, limit: int | None = None, ids: str = "") -> list[Any]:
    """The lines of one file of this folder: stories, quiet, lasting, passing, coordinated, messages or dialogues.

    ``ids``: those whose id begins with it.
    """
    found = read_lines(FOLDER / f"{name}.jsonl", _READERS[name])
    return [each for each in found if each.id.startswith(ids)][:limit]


def load_excerpts(path: Path, limit: int | None = None) -> list[Excerpt]:
    return read_lines(path, _excerpt, limit)


def read_lines(path: Path, build: Callable[[Mapping[str, Any]], T], limit: int | None = None) -> list[T]:
    """Raises InvalidInput with the line that is not valid."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{path} cannot be read: {reason}") from None
    found: list[T] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(build(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InvalidInput(f"line {number} of {path} is not valid: {error!r}") from None
    return found[:limit]


def _story(row: Mapping[str, Any]) -> Story:
    messages = tuple((int(each["day"]), str(each["text"])) for each in row["messages"])
    story = Story(row["id"], messages, row["question"], row["question_day"], tuple(row["new"]), tuple(row["old"]))
    if story.ended != bool(row.get("ended")):
        raise ValueError("a story has a new value, or it has ended")
    return story


def _quiet(row: Mapping[str, Any]) -> QuietTalk:
    said = tuple(
        Said(int(each["day"]), str(each["text"]), each.get("fact"), tuple(each.get("ends", ())), each.get("question"))
        for each in row["said"]
    )
    if wrong := [each for each in said if each.fact is not None and each.fact not in each.text]:
        raise ValueError(f"{wrong[0].fact!r} is not in its message")
    return QuietTalk(row["id"], said)


def _build_lasting(row: Mapping[str, Any]) -> LastingFact:
    return LastingFact(row["id"], row["message"], row["question"], tuple(row["needs"]))


def _build_passing(row: Mapping[str, Any]) -> PassingState:
    return PassingState(row["id"], row["message"], row["question"], tuple(row["state"]))


def _coordination(row: Mapping[str, Any]) -> Coordination:
    facts = tuple(map(tuple, row["facts"]))
    if not 0 <= row["changed"] < len(facts):
        raise ValueError(f"changed is {row['changed']}, and there are {len(facts)} facts")
    return Coordination(row["id"], row["message"], facts, row["change"], row["changed"])


def _label(row: Mapping[str, Any]) -> Label:
    return Label(row["quote"], row["attribute"], row["value"] or "", row["status"])


def _message(row: Mapping[str, Any]) -> LabelledMessage:
    return LabelledMessage(row["id"], row["before"], row["text"], tuple(map(_label, row["claims"])), row["nothing"])


def _dialogue(row: Mapping[str, Any]) -> Dialogue:
    turns = tuple(Line(each["day"], each["role"], each["text"]) for each in row["turns"])
    return Dialogue(row["id"], turns, tuple(row["key"]))


def _excerpt(row: Mapping[str, Any]) -> Excerpt:
    days = [date.fromisoformat(each["day"]).toordinal() for each in row["turns"]]
    turns = tuple(_line(each, day - days[0]) for each, day in zip(row["turns"], days, strict=True))
    at = {each["n"]: index for index, each in enumerate(row["turns"])}
    claims = tuple((at[each["turn"]], _label(each)) for each in row["claims"])
    return Excerpt(row["id"], row["setting"], turns, claims)


def _line(row: Mapping[str, Any], day: int) -> Line:
    speaker = row["speaker"]
    if speaker in {"user", "assistant"}:
        return Line(day, speaker, row["text"])
    return Line(day, "user", row["text"], speaker)


def pool_other_talk(dialogues: Iterable[Dialogue]) -> tuple[str, ...]:
    """What people say in the dialogues: talk to fill the days of others with."""
    return tuple(turn.text for dialogue in dialogues for turn in dialogue.turns if turn.role == "user")


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "stories": _story,
    "quiet": _quiet,
    "lasting": _build_lasting,
    "passing": _build_passing,
    "coordinated": _coordination,
    "messages": _message,
    "dialogues": _dialogue,
}
