"""How often recall finds the evidence in public conversations: through the public API, beside plain BM25.

A hit covers the messages of its sequence range that hold its text. Questions without an answer are left out of recall;
they show how often nothing is rightly returned. "in 2000" is the share of the evidence that is quoted in a context of
so many tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from limpet import Config, Limpet, Message
from limpet.config import EmbeddingSettings
from limpet.errors import InvalidInput
from limpet.model.chunk import Hit, SourceKind
from limpet.providers.choose import create_embedder
from limpet.providers.embedder import Embedder
from limpet.search import recipes, search
from limpet_bench.baseline import PlainBm25
from limpet_bench.datasets import SETS, Conversation, Question, Turn, load
from limpet_bench.remembered import RememberingEmbedder
from limpet_bench.timed import TimedEmbedder

DEPTH = 100
# Only explicit arguments count; no setting may change them.
WITHOUT_MODEL = Config.load(
    env={}, overrides={"embedding.model": "none", "embedding.when": "now", "retention.enabled": False}
)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of an engine: for each hit, the turns it covers and their session."""

    turns: list[frozenset[str]]
    sessions: list[str]


@dataclass(slots=True)
class Scores:
    """Sums over questions; the mean is printed."""

    count: int = 0
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, values: Mapping[str, float]) -> None:
        self.count += 1
        for name, value in values.items():
            self.sums[name] += value

    def mean(self, name: str) -> float:
        return self.sums[name] / self.count if self.count else 0.0


@dataclass(slots=True)
class Report:
    ours: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))
    plain: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))
    silent: Scores = field(default_factory=Scores)
    current: Scores = field(default_factory=Scores)  # of changed answers: whether the latest comes first
    messages: int = 0
    ingest_seconds: float = 0.0
    recall_seconds: list[float] = field(default_factory=list)
    ingest_embedding: float = 0.0  # the embedder's part of these seconds
    recall_embedding: float = 0.0


class Stored:
    """A conversation in its own store, and the mapping from hits to turns."""

    def __init__(
        self, conversation: Conversation, embedder: Embedder | None, recipe: str | None, *, learn: bool = False
    ) -> None:
        self.memory = Limpet.open(":memory:", config=WITHOUT_MODEL, embedder=embedder)
        self._recipe = recipe
        self._turns: dict[tuple[str, int], Turn] = {}
        self.session_names: dict[str, str] = {}
        start = perf_counter()
        for name, turns in _by_session(conversation.turns).items():
            session = self.memory.session("bench", name, user=conversation.id)
            stored = session.extend(
                [Message.new(turn.role, turn.text, name=turn.name, created_at=turn.at) for turn in turns]
            )
            self.session_names[session.id] = name
            for turn, message in zip(turns, stored, strict=True):
                self._turns[session.id, message.sequence] = turn
        self.seconds = perf_counter() - start
        self.order = {turn.id: (turn.at, place) for place, turn in enumerate(conversation.turns)}
        for session_id in self.session_names if learn else ():
            self.memory.load_session(session_id).learn()
        wanted = search.find_recipe(recipe) if recipe else recipes.DEFAULT
        if wanted.entity or wanted.community:
            self.memory.graph(user=conversation.id, fresh=True)  # extract the graph

    def find_quoted(self, user: str, question: Question, max_tokens: int) -> frozenset[str]:
        """Return the turns that a prompt of that size contains, in a new chat."""
        session = self.memory.session("bench", "a new chat", user=user)
        context = session.context(question.text, max_tokens=max_tokens, at=question.at)
        stated = [turn for id_ in context.records for turn in self._find_taught(id_)]
        return frozenset(stated).union(*self.find_covered(context.hits).turns)

    def ask(self, user: str, question: Question) -> list[Hit]:
        return self.memory.recall(question.text, user=user, k=DEPTH, at=question.at, recipe=self._recipe)

    def find_covered(self, hits: Iterable[Hit]) -> Found:
        turns, sessions = [], []
        for hit in hits:
            turns.append(frozenset(self._find_covered(hit)))
            sessions.append(self.session_names[self._session(hit)])
        return Found(turns, sessions)

    def _session(self, hit: Hit) -> str:
        if hit.source.kind is SourceKind.RECORD:
            return self.memory.records.get(hit.source.id).source.session_id or ""
        return hit.source.session_id or ""

    def _find_covered(self, hit: Hit) -> Iterator[str]:
        source = hit.source
        if source.kind is SourceKind.RECORD:  # the message it was learned from
            yield from self._find_taught(source.id)
            return
        for sequence in range(source.first_sequence or 0, (source.last_sequence or 0) + 1):
            turn = self._turns.get((source.session_id or "", sequence))
            if turn is not None and (source.first_sequence == source.last_sequence or hit.text in turn.text):
                yield turn.id

    def _find_taught(self, record: str) -> list[str]:
        """Return the turns that a record was learned from."""
        learned = self.memory.records.get(record).source
        return [self._turns[learned.session_id or "", sequence].id for sequence in learned.sequences]


def _by_session(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    sessions: dict[str, list[Turn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session, []).append(turn)
    return sessions


def score(question: Question, found: Found) -> dict[str, float]:
    values: dict[str, float] = {}
    for depth in (5, 10, 20):
        covered = frozenset().union(*found.turns[:depth])
        values[f"R@{depth}"] = len(question.turns & covered) / len(question.turns)
    values["NDCG@10"] = _ndcg(question.turns, found.turns[:10])
    distinct = list(dict.fromkeys(found.sessions))
    for depth in (5, 10):
        among = question.sessions & set(distinct[:depth])
        values[f"any@{depth}"] = float(bool(among))
        values[f"all@{depth}"] = float(among == question.sessions)
    return values


def current_first(question: Question, found: Found, order: Mapping[str, Any]) -> float:
    """Return whether the latest evidence ranks above all that it supersedes."""
    *outdated, current = sorted(question.turns, key=lambda turn: order[turn])
    ranks: dict[str, int] = {}
    for rank, turns in enumerate(found.turns):
        for turn in turns:
            ranks.setdefault(turn, rank)
    return float(ranks.get(current, DEPTH) < min(ranks.get(turn, DEPTH) for turn in outdated))


def _ndcg(evidence: frozenset[str], ranked: Sequence[frozenset[str]]) -> float:
    seen: set[str] = set()
    gain = 0.0
    for rank, turns in enumerate(ranked):
        fresh = (turns & evidence) - seen
        seen |= fresh
        gain += len(fresh) / math.log2(rank + 2)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(evidence), 10)))
    return min(1.0, gain / ideal)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder that holds the sets")
    parser.add_argument("--set", choices=SETS, action="append", help="only this set; may be given more than once")
    parser.add_argument(
        "--model",
        default=EmbeddingSettings().model,
        help="the embedder, as embedding.model names it; none for words only (default: %(default)s)",
    )
    parser.add_argument(
        "--remember", type=Path, metavar="FILE", help="keep vectors in this file, so that a second run is quick"
    )
    parser.add_argument("--learn", action="store_true", help="learn from the conversations by rules before asking")
    parser.add_argument("--recipe", help="the recipe to measure (default: the default one)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what happened to each question, as JSON lines")


def main(args: argparse.Namespace) -> int:
    chosen = args.set or [name for name in SETS if (args.data / name).is_dir()]
    if not chosen:
        raise InvalidInput(f"{args.data} has no folder called {', '.join(SETS)}; --data names the folder of the sets")
    lines: list[dict[str, Any]] = []
    embedder = create_embedder(args.model)
    if embedder is not None and args.remember is not None:
        embedder = RememberingEmbedder(embedder, args.remember)
    reports = {
        name: run(load(args.data / name), embedder, args.recipe, _note, lines.append, learn=args.learn)
        for name in chosen
    }
    _note("")
    if args.out is not None:
        args.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if getattr(args, "json", False):
        print(json.dumps({name: as_json(report) for name, report in reports.items()}, indent=2))
    else:
        for name, report in reports.items():
            print("\n".join(table(name, report)) + "\n")
    return 0


def run(
    conversations: Sequence[Conversation],
    embedder: Embedder | None,
    recipe: str | None,
    note: Callable[[str], None],
    write: Callable[[dict[str, Any]], None],
    *,
    learn: bool = False,
) -> Report:
    report, watch = Report(), None if embedder is None else TimedEmbedder(embedder)
    for number, conversation in enumerate(conversations, start=1):
        note(f"conversation {number} of {len(conversations)}: storing {len(conversation.turns):,} turns")
        before = _read_seconds(watch)
        stored = Stored(conversation, watch, recipe, learn=learn)
        report.messages += len(conversation.turns)
        report.ingest_seconds += stored.seconds
        report.ingest_embedding += _read_seconds(watch) - before
        plain = PlainBm25([turn.text for turn in conversation.turns])
        for question in conversation.questions:
            write(_ask(conversation, stored, plain, question, report, watch))
        stored.memory.close()
    return report


def _read_seconds(watch: TimedEmbedder | None) -> float:
    return 0.0 if watch is None else watch.seconds


def _ask(
    conversation: Conversation,
    stored: Stored,
    plain: PlainBm25,
    question: Question,
    report: Report,
    watch: TimedEmbedder | None,
) -> dict[str, Any]:
    before, start = _read_seconds(watch), perf_counter()
    hits = stored.ask(conversation.id, question)
    report.recall_seconds.append(perf_counter() - start)
    report.recall_embedding += _read_seconds(watch) - before
    line: dict[str, Any] = {"question": question.id, "category": question.category, "hits": len(hits)}
    if not question.answerable:
        report.silent.add({"silent": float(not hits)})
        return line
    found = stored.find_covered(hits)
    ours = score(question, found)
    if question.category in CHANGING and len(question.turns) > 1:
        report.current.add({"first": current_first(question, found, stored.order)})
    for size in CONTEXTS:
        quoted = stored.find_quoted(conversation.id, question, size)
        ours[f"in {size}"] = len(question.turns & quoted) / len(question.turns)
    turns = [conversation.turns[at] for at in plain.search(question.text, DEPTH)]
    beside = score(question, Found([frozenset([turn.id]) for turn in turns], [turn.session for turn in turns]))
    for category in (question.category, "all"):
        report.ours[category].add(ours)
        report.plain[category].add(beside)
    return line | {"ours": ours, "plain": beside}


CONTEXTS = (2000, 4000)  # tokens
CHANGING = ("knowledge-update", "knowledge_update", "contradiction_resolution")
COLUMNS = ("R@5", "R@10", "R@20", "NDCG@10", "any@5", "all@5", "any@10", "all@10")


QUOTED = tuple(f"in {size}" for size in CONTEXTS)


def as_json(report: Report) -> dict[str, Any]:
    def means(scores: Mapping[str, Scores]) -> dict[str, Any]:
        return {
            category: {"questions": found.count} | {name: round(found.mean(name), 4) for name in found.sums}
            for category, found in scores.items()
        }

    times = sorted(report.recall_seconds)
    return {
        "ours": means(report.ours),
        "plain_bm25": means(report.plain),
        "rightly_silent": round(report.silent.mean("silent"), 4),
        "unanswerable": report.silent.count,
        "current_first": round(report.current.mean("first"), 4),
        "changed": report.current.count,
        "messages_per_second": round(report.messages / report.ingest_seconds),
        "recall_p50_ms": round(times[len(times) // 2] * 1e3, 2),
        "recall_p95_ms": round(times[int(len(times) * 0.95)] * 1e3, 2),
        "embedder_share_of_ingest": round(report.ingest_embedding / report.ingest_seconds, 3),
        "embedder_ms_a_recall": round(report.recall_embedding / len(times) * 1e3, 2),
    }


def table(name: str, report: Report) -> Iterator[str]:
    facts = as_json(report)
    yield (
        f"{name}: {report.messages:,} turns stored at {facts['messages_per_second']:,} a second;"
        f" recall p50 {facts['recall_p50_ms']} ms, p95 {facts['recall_p95_ms']} ms;"
        f" the embedder takes {facts['embedder_share_of_ingest']:.0%} of storing and"
        f" {facts['embedder_ms_a_recall']} ms of a recall"
    )
    yield f"{'':28}{'asked':>6}" + "".join(f"{column:>9}" for column in (*COLUMNS, *QUOTED))
    for category in sorted(report.ours, key=lambda category: (category == "all", category)):
        for label, scores in ((category, report.ours[category]), ("  plain BM25", report.plain[category])):
            shown = (*COLUMNS, *QUOTED) if label == category else COLUMNS
            yield f"{label:28}{scores.count:>6}" + "".join(f"{scores.mean(column):>9.3f}" for column in shown)
    if facts["changed"]:
        share, changed = facts["current_first"], facts["changed"]
        yield f"current above outdated: {share:.3f} of {changed} questions whose answer changed"
    yield f"rightly silent: {facts['rightly_silent']:.3f} of {facts['unanswerable']} questions without an answer"


def _note(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
