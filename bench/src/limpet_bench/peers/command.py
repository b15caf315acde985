"""``limpet bench peers``: Limpet beside other ways to keep an agent's memory, as ratios inside one run.

Everybody keeps the same texts, is asked the same questions, and gets the same vectors, made before by one model: its
time is in no figure. Each stage of each peer is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from limpet.config import EmbeddingSettings
from limpet.providers.choose import create_embedder
from limpet.providers.embedder import Embedder
from limpet_bench.datasets import SETS, Conversation
from limpet_bench.peers import asked, ours
from limpet_bench.peers.figures import Line, as_json, count_lost, judge, settle, table
from limpet_bench.peers.peer import About, format_turn
from limpet_bench.peers.registry import OURS, PEERS
from limpet_bench.peers.running import Effort, Running
from limpet_bench.peers.stages import DEPTH, UNCOUNTED, fill
from limpet_bench.remembered import RememberingEmbedder
from limpet_bench.speed import machine

STAGES = ("imports", "keep", "ask", "kill", "two")
_BATCH = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [about.name for about in PEERS if about.name != OURS]
    parser.add_argument(
        "--only", choices=names, action="append", metavar="NAME", help=f"only this one beside us: {', '.join(names)}"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the folder of public sets (default: scripted lives of three users)"
    )
    parser.add_argument("--set", choices=SETS, action="append", help="only this set; may be given more than once")
    parser.add_argument("--stage", choices=STAGES, action="append", help="only this stage; may be given more than once")
    parser.add_argument("--messages", type=int, default=500, help="kept one at a time by each (default 500)")
    parser.add_argument("--questions", type=int, default=100, help="asked at most, of each set (default 100)")
    parser.add_argument(
        "--writes", type=int, default=100, help="before it is killed, and of each of two writers (default 100)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of writing at most (default 10)")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds a stage may take at most (default 60)")
    parser.add_argument(
        "--model",
        default=EmbeddingSettings().model,
        help="the embedder, as embedding.model names it; none for words only (default: %(default)s)",
    )
    parser.add_argument(
        "--remember", type=Path, metavar="FILE", help="keep vectors in this file, so that a second run is quick"
    )
    parser.add_argument("--folder", type=Path, help="where the stores go (default: a temporary folder)")


def main(args: argparse.Namespace) -> int:
    chosen = [about for about in PEERS if args.only is None or about.name in (OURS, *args.only)]
    sets = asked.public(args.data, args.set) if args.data else {"scripted": asked.script_lives(args.messages)}
    effort = Effort(max(1, args.messages), max(1, args.writes), args.seconds, args.patience)
    wholes, failed = {}, False
    for name, whole in sets.items():
        conversations = asked.limit_questions(whole, max(1, args.questions))
        with tempfile.TemporaryDirectory(dir=args.folder, prefix="limpet-peers-") as folder:
            bench = Bench(Path(folder), conversations, args.model, args.remember, effort)
            lines = [bench.measure(about, args.stage or STAGES) for about in chosen]
        settle(lines[0], lines[1:])
        _note("")
        wholes[name] = bench.whole(lines)
        failed = failed or bool(count_lost(lines[0]) or lines[0].errors)
        if not getattr(args, "json", False):
            print("\n".join([*bench.head(name), *table(lines)]) + "\n", flush=True)
    if getattr(args, "json", False):
        print(json.dumps(wholes, indent=2))
    return 1 if failed else 0


class Bench:
    def __init__(
        self, folder: Path, conversations: Sequence[Conversation], model: str, remember: Path | None, effort: Effort
    ) -> None:
        self._conversations, self._effort = conversations, effort
        vectors = remember or folder / "vectors.db"
        asked.save(folder / "work", conversations)
        embedder = create_embedder(model)
        self._model = None if embedder is None else RememberingEmbedder(embedder, vectors)
        self._texts_a_second: float | None = None
        if self._model is not None:
            self._embed(self._model, folder)
        self._running = Running(folder, folder / "work", model, vectors, effort)

    def _embed(self, model: RememberingEmbedder, folder: Path) -> None:
        """Embed every text in advance: as it is, and as Limpet embeds it."""
        texts = [format_turn(turn) for each in self._conversations for turn in each.turns]
        texts += [question.text for each in self._conversations for question in each.questions]
        start = perf_counter()
        for at in range(0, len(texts), _BATCH):
            _note(f"embedding {at:,} of {len(texts):,} texts")
            model.embed(texts[at : at + _BATCH])
        if model.asked > _BATCH:
            self._texts_a_second = model.asked / (perf_counter() - start)
        _note("embedding what Limpet makes of them")
        _warm(self._conversations, model, folder, self._effort.messages + UNCOUNTED)

    def measure(self, about: About, stages: Sequence[str] = STAGES) -> Line:
        line = Line(about, about.find_missing(has_vectors=self._model is not None))
        for stage in stages if line.missing is None else ():
            _note(f"{about.name}: {stage}")
            line.found[stage] = getattr(self._running, stage)(about)
        judge(line, self._conversations)
        return line

    def _facts(self) -> dict[str, Any]:
        return {
            "machine": machine(),
            "model": None if self._model is None else self._model.name,
            "model_texts_per_second": self._texts_a_second and round(self._texts_a_second, 1),
            "users": len(self._conversations),
            "stored": sum(len(each.turns) for each in self._conversations),
            "questions": sum(len(each.questions) for each in self._conversations),
            "effort": asdict(self._effort),
        }

    def whole(self, lines: Sequence[Line]) -> dict[str, Any]:
        return {**self._facts(), "peers": [as_json(line, lines[0]) for line in lines]}

    def head(self, name: str) -> list[str]:
        facts = self._facts()
        rate = facts["model_texts_per_second"]
        speed = f" ({rate:g} texts a second, in no figure below)" if rate else ""
        amount = f"{facts['stored']:,} messages of {facts['users']} users, {facts['questions']} questions"
        return [
            f"{name}: {amount}; model {facts['model'] or 'none'}{speed}",
            f"{machine()}; × is to Limpet, measured in turn with it",
        ]


def _warm(conversations: Sequence[Conversation], model: Embedder, folder: Path, messages: int) -> None:
    """Run once as it will be measured: what Limpet embeds depends on the names known by then."""
    for place, one_by_one in (("warm-1", True), ("warm-2", False)):
        peer = ours.open_peer(folder / place, model)
        if one_by_one:
            for user, turn in asked.first_turns(conversations, messages):
                peer.add(user, [turn])
        else:
            fill(peer, conversations)
            for each in conversations:
                for question in each.questions:
                    peer.search(each.id, question.text, DEPTH, question.at)
        peer.close()


def _note(text: str) -> None:
    """A progress line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
