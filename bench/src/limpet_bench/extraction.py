"""How much of what a turn teaches the rules find, and how much of what they find is right, on labelled turns.

The rules are one half of the local reader: ``read`` counts what all of it finds, by the words of the expected value.

The format of the labels is told beside them, in tests/data/extraction/README.md.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge.candidate import Candidate, TurnMessage
from limpet.knowledge.read import extract_candidates as extract
from limpet.knowledge.read import read_turn
from limpet.knowledge.similarity import tokenize
from limpet.model.message import Role, ToolCall
from limpet.model.record import RecordType

_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_LONGER = 3  # extra words a value may have besides the expected ones
_SURE = 0.5  # confidence from which a claim is shown


@dataclass(frozen=True, slots=True)
class Expected:
    type: str
    subject: str
    attribute: str
    value: str
    polarity: bool
    optional: bool

    def __str__(self) -> str:
        return f"{self.type}|{self.subject}|{'' if self.polarity else '-'}{self.attribute}|{self.value}"

    def fits(self, candidate: Candidate) -> bool:
        return (
            self.type == candidate.type
            and self.subject in {"", candidate.subject}
            and (not self.attribute or self.attribute == candidate.attribute)
            and (not self.attribute or self.polarity == candidate.polarity)
            and self._has_value(candidate)
        )

    def _has_value(self, candidate: Candidate) -> bool:
        if self.value.startswith("~"):
            return " ".join(tokenize(self.value[1:])) in " ".join(tokenize(candidate.sentence))
        wanted, found = tokenize(self.value), tokenize(candidate.value or "")
        run = f" {' '.join(wanted)} " in f" {' '.join(found)} "
        return run and len(found) <= len(wanted) + _LONGER

    def is_in(self, candidate: Candidate) -> bool:
        """Whether a claim says the value, in whatever words and under whatever attribute."""
        wanted = " ".join(tokenize(self.value.removeprefix("~")))
        return wanted in " ".join(tokenize(f"{candidate.content} {candidate.sentence}"))


@dataclass(frozen=True, slots=True)
class Labelled:
    id: str
    kind: str
    turn: tuple[TurnMessage, ...]
    expect: tuple[Expected, ...]
    recalled: tuple[str, ...] = ()


@dataclass(slots=True)
class Score:
    turns: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    neither: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    def as_dict(self) -> dict[str, float]:
        return {
            "turns": self.turns,
            "right": self.right,
            "wrong": self.wrong,
            "missed": self.missed,
            "optional": self.neither,
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
        }


@dataclass(slots=True)
class Report:
    whole: Score = field(default_factory=Score)
    read: Score = field(default_factory=Score)  # wrong: turns that teach nothing, and something was learned
    kinds: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    types: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


def load(path: Path) -> list[Labelled]:
    """Raises InvalidInput with the line that is not valid."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    found.append(_parse_turn(json.loads(line)))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InvalidInput(f"line {number} of {path} is not a labelled turn: {error!r}") from None
    return found


def _parse_turn(row: Mapping[str, Any]) -> Labelled:
    turn = tuple(_parse_message(at, message) for at, message in enumerate(row["turn"], start=1))
    expect = tuple(map(_parse_expectation, row["expect"]))
    return Labelled(row["id"], row["kind"], turn, expect, tuple(row.get("recalled", ())))


def _parse_message(at: int, message: Mapping[str, Any]) -> TurnMessage:
    role = next(role for role in Role if role.value in message)
    calls = tuple(
        ToolCall(f"{at}.{n}", call["name"], call["arguments"]) for n, call in enumerate(message.get("calls", ()))
    )
    return TurnMessage(
        at,
        role,
        message[role.value],
        _BEGIN + timedelta(seconds=at),
        message.get("speaker"),
        calls,
        None,
        message.get("error", False),
    )


def _parse_expectation(text: str) -> Expected:
    type_, subject, attribute, value = text.removeprefix("?").split("|", 3)
    RecordType(type_)
    return Expected(
        type_, subject, attribute.removeprefix("-"), value, not attribute.startswith("-"), text.startswith("?")
    )


def measure(turns: Sequence[Labelled]) -> Report:
    report = Report()
    for labelled in turns:
        start = perf_counter()
        found = extract(labelled.turn, labelled.recalled)
        report.seconds += perf_counter() - start
        _judge(labelled, found, report)
        _judge_reading(labelled, read_turn(labelled.turn, labelled.recalled), report.read)
    return report


def _judge_reading(labelled: Labelled, found: Sequence[Candidate], score: Score) -> None:
    shown = [candidate for candidate in found if candidate.confidence >= _SURE and not candidate.tentative]
    score.turns += 1
    score.wrong += bool(shown) and not labelled.expect
    for expected in labelled.expect:
        if not expected.optional:
            said = any(expected.is_in(candidate) for candidate in shown)
            score.right, score.missed = score.right + said, score.missed + (not said)


def _judge(labelled: Labelled, found: Sequence[Candidate], report: Report) -> None:
    """Match each candidate to one expectation, those that count first."""
    open_ = sorted(labelled.expect, key=lambda expected: expected.optional)
    scores = (report.whole, report.kinds[labelled.kind])
    for score in scores:
        score.turns += 1
    for candidate in found:
        expected = next((one for one in open_ if one.fits(candidate)), None)
        if expected is None:
            _count(report, scores, candidate.type, "wrong")
            report.faults.append(f"{labelled.id} wrong:  {_format_candidate(candidate)}")
            continue
        open_.remove(expected)
        _count(report, scores, candidate.type, "neither" if expected.optional else "right")
    for expected in open_:
        if not expected.optional:
            _count(report, scores, expected.type, "missed")
            report.faults.append(f"{labelled.id} missed: {expected}")


def _count(report: Report, scores: Sequence[Score], type_: str, what: str) -> None:
    for score in (*scores, report.types[str(type_)]):
        setattr(score, what, getattr(score, what) + 1)


def _format_candidate(candidate: Candidate) -> str:
    sign = "" if candidate.polarity else "-"
    found = f"{candidate.type}|{candidate.subject}|{sign}{candidate.attribute or ''}|{candidate.value}"
    return f"{found} <- {candidate.sentence}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        action="append",
        required=True,
        help="labelled turns, a line of JSON each; may be repeated",
    )
    parser.add_argument("--faults", action="store_true", help="print what was wrong and what was missed")


def main(args: argparse.Namespace) -> int:
    reports = {str(path): measure(load(path)) for path in args.data}
    if args.json:
        print(json.dumps({name: _as_dict(report) for name, report in reports.items()}, indent=2))
        return 0
    for name, report in reports.items():
        print("\n".join(_lines(name, report, faults=args.faults)))
    return 0


def _as_dict(report: Report) -> dict[str, Any]:
    return {
        **report.whole.as_dict(),
        "read": report.read.as_dict(),
        "kinds": {kind: score.as_dict() for kind, score in sorted(report.kinds.items())},
        "types": {kind: score.as_dict() for kind, score in sorted(report.types.items())},
        "faults": report.faults,
    }


def _lines(name: str, report: Report, *, faults: bool) -> Iterator[str]:
    yield f"{name}: {report.whole.turns} turns in {report.seconds * 1000:.0f} ms"
    yield f"{'':16} {'precision':>9} {'recall':>7} {'right':>6} {'wrong':>6} {'missed':>7} {'optional':>9}"
    rows = [("all", report.whole), *sorted(report.kinds.items()), *sorted(report.types.items())]
    for kind, score in rows:
        yield (
            f"{kind:16} {score.precision:9.3f} {score.recall:7.3f} {score.right:6} {score.wrong:6} {score.missed:7}"
            f" {score.neither:9}"
        )
    read = report.read
    said = f"{read.right} of {read.right + read.missed} said"
    yield f"whole reader: {said}; {read.wrong} turns should have taught nothing"
    if faults:
        yield from report.faults
