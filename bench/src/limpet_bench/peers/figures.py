"""The results of a peer, compared with those of Limpet."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet_bench.datasets import Conversation
from limpet_bench.peers.peer import About
from limpet_bench.peers.registry import OURS
from limpet_bench.recall import Found, Scores, score

METRICS = ("R@5", "R@10", "NDCG@10")
TIMED = ("per_second", "p50_ms")
COMPARED = {  # the figures that are compared with ours
    "kept_per_second": ("keep", "per_second"),
    "ask_p50_ms": ("ask", "p50_ms"),
    "import_ms": ("imports", "ms"),
    "bytes_per_message": ("keep", "bytes"),
}


@dataclass(slots=True)
class Line:
    """``found`` is the result of each stage; a failed stage has an error."""

    about: About
    missing: str | None = None
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: Scores = field(default_factory=Scores)

    @property
    def version(self) -> str | None:
        return None if self.missing else self.about.version()

    @property
    def errors(self) -> dict[str, str]:
        return {stage: str(found["error"]) for stage, found in self.found.items() if "error" in found}

    def figure(self, name: str) -> float | None:
        stage, field_ = COMPARED[name]
        found = self.found.get(stage, {})
        if field_ not in found:
            return None
        return float(found[field_]) / (found["messages"] if field_ == "bytes" else 1)

    def ratio(self, name: str, ours: Line) -> float | None:
        """Return the ratio to Limpet: the median over pairs of rounds, if they alternated."""
        stage, field_ = COMPARED[name]
        found = self.found.get(stage, {})
        if field_ in TIMED and "time_ratio" in found:
            return 1 / float(found["time_ratio"]) if field_ == "per_second" else float(found["time_ratio"])
        mine, theirs = self.figure(name), found.get(f"beside_{field_}") or ours.figure(name)
        return None if mine is None or not theirs else mine / theirs


def judge(line: Line, conversations: Iterable[Conversation]) -> None:
    """With the measures of ``bench recall``."""
    ranked: Mapping[str, list[str]] | None = line.found.get("ask", {}).pop("found", None)
    if ranked is None:
        return
    for conversation in conversations:
        sessions = {turn.id: turn.session for turn in conversation.turns}
        for question in conversation.questions:
            ids = ranked[question.id]
            found = Found([frozenset([id_]) for id_ in ids], [sessions.get(id_, "") for id_ in ids])
            line.scores.add(score(question, found))


def settle(ours: Line, others: Iterable[Line]) -> None:
    """Limpet was measured with each peer: its line shows the median of all."""
    for stage in ("keep", "ask"):
        found = ours.found.get(stage, {})
        for name in {"per_second", "p50_ms", "p95_ms"} & found.keys():
            beside = (line.found.get(stage, {}).get(f"beside_{name}") for line in others)
            found[name] = statistics.median([found[name], *(figure for figure in beside if figure is not None)])


def count_lost(line: Line) -> int:
    return sum(found["acknowledged"] - found["there"] for found in line.found.values() if "acknowledged" in found)


def as_json(line: Line, ours: Line) -> dict[str, Any]:
    about = line.about
    if line.missing is not None:
        return {"name": about.name, "what": about.what, "missing": line.missing}
    found: dict[str, Any] = {"name": about.name, "what": about.what, "version": line.version}
    for name in COMPARED:
        figure, ratio = line.figure(name), line.ratio(name, ours)
        found[name] = None if figure is None else round(figure, 2)
        found[f"{name}_ratio"] = None if ratio is None else round(ratio, 3)
    has_scores = bool(line.scores.count)
    found |= {name: round(line.scores.mean(name), 4) if has_scores else None for name in METRICS}
    return found | {"questions": line.scores.count, "stages": line.found, "errors": line.errors}


_FIRST = ("", "kept/s", "", "ask ms", "", "p95")
HEAD = (*_FIRST, *METRICS, "kill -9", "two writers", "seen", "import", "", "B/message", "")


def table(lines: Sequence[Line]) -> Iterator[str]:
    ours = next(line for line in lines if line.about.name == OURS)
    rows = [HEAD, *(_cells(line, ours) for line in lines if line.missing is None)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *rest]).rstrip()
    yield from _notes(lines)


def _cells(line: Line, ours: Line) -> tuple[str, ...]:
    def pair(name: str, form: str) -> tuple[str, str]:
        figure, ratio = line.figure(name), line.ratio(name, ours)
        beside = "" if ratio is None or line is ours else f"{ratio:.2f}×"
        return ("–" if figure is None else format(figure, form), beside)

    asked = line.found.get("ask", {})
    means = [f"{line.scores.mean(name):.3f}" if line.scores.count else "–" for name in METRICS]
    return (
        f"{line.about.name} {line.version}".strip(),
        *pair("kept_per_second", ",.0f"),
        *pair("ask_p50_ms", ".1f"),
        f"{asked['p95_ms']:.1f}" if "p95_ms" in asked else "–",
        *means,
        _there(line.found.get("kill", {})),
        _there(line.found.get("two", {})),
        _format_seen(line.found.get("two", {})),
        *pair("import_ms", ",.0f"),
        *pair("bytes_per_message", ",.0f"),
    )


def _there(found: Mapping[str, Any]) -> str:
    if "there" not in found:
        return "–"
    more = [
        f"{found[name]} {words}" for name, words in (("raised", "raised"), ("shut_out", "shut out")) if found.get(name)
    ]
    return ", ".join([f"{found['there']}/{found['acknowledged']}", *more])


def _format_seen(found: Mapping[str, Any]) -> str:
    return f"{found['seen']}/{found['sought']}" if found.get("sought") else "–"


def _notes(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        name = line.about.name
        if line.missing is not None:
            yield f"{name}: {line.missing}"
        for stage, error in line.errors.items():
            yield f"{name}: {stage}: {error}"
        said = line.found.get("two", {}).get("said")
        if said:
            yield f"{name}: two writers: {said}"
