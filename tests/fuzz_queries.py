"""Random questions against a store of a few thousand chunks: no error, and none that takes far longer than the rest.

``python -m tests.fuzz_queries`` asks 100,000; ``--count``, ``--seed`` and ``--url`` change that. The tests ask fewer.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from limpet import Config, Limpet, Message
from limpet.errors import InvalidInput
from limpet.model.values import check_text
from limpet.providers.hashed import HashEmbedder
from limpet.search.recipes import RECIPES

COUNT = 100_000
CHUNKS = 3_000
WORDS = """walrus penguin lighthouse ferry ticket sourdough violin ladder harbour invoice sister bees roof remind me
what did you say when last Tuesday in March 2024 yesterday Caroline Melanie tell suggest how many days ago the of
and""".split()
OPERATORS = """' " - + * ^ ~ ? ! & | : ; , . ( ) [ ] { } < > = % _ \\ / # @ $ ` AND OR NOT NEAR NEAR/5 -- /* */ %s %(x)s
:x ?1 $1 <-> :* \\x00 \\u0000 NULL 1=1 0 -1 1e999 NaN inf ../ """.split()
# Where the scripts are: Latin with its marks, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, Hangul, kana,
# ideographs, presentation forms, half widths, emoji, the last characters of all; and spaces and marks of every kind.
SCRIPTS = (
    *((0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF)),
    *((0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x20A0, 0x27BF), (0x3000, 0x30FF)),
    *((0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF)),
    *((0x10FFF0, 0x10FFFF), (0x1, 0x1F), (0x7F, 0x9F)),
)


def texts(chance: random.Random) -> Iterator[str]:
    """Endless questions; a very long one now and then."""
    kinds: tuple[Callable[[random.Random], str], ...] = (_words, _operators, _script, _mixed, _repeated)
    while True:
        text = chance.choice(kinds)(chance)
        if chance.random() < 0.001:
            text *= 1 + 20_000 // max(1, len(text))
        try:
            yield check_text(text, "the question")
        except InvalidInput:  # half a character, or a sign no text may hold
            continue


def _words(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, 15)))


def _operators(chance: random.Random) -> str:
    return chance.choice(("", " ")).join(chance.choices(OPERATORS + WORDS, k=chance.randint(1, 20)))


def _script(chance: random.Random) -> str:
    low, high = chance.choice(SCRIPTS)
    return "".join(chr(chance.randint(low, high)) for _ in range(chance.randint(1, 60)))


def _mixed(chance: random.Random) -> str:
    parts = [chance.choice((_words, _operators, _script))(chance) for _ in range(chance.randint(1, 5))]
    return "".join(parts)


def _repeated(chance: random.Random) -> str:
    return chance.choice((*WORDS, *OPERATORS, "\n", "\u200d", "👍", "ا", "ﷺ", "İ", "ß")) * chance.randint(1, 300)


@dataclass(frozen=True, slots=True)
class Outcome:
    asked: int
    found: int
    seconds: list[float]

    def at(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]

    def __str__(self) -> str:
        shown = {"median": self.at(0.5), "99 %": self.at(0.99), "99.9 %": self.at(0.999), "longest": max(self.seconds)}
        times = ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in shown.items())
        return f"{self.asked:,} questions, {self.found:,} with an answer; {times}"


def fill(memory: Limpet, seed: int, chunks: int = CHUNKS) -> None:
    chance = random.Random(seed)
    said = texts(chance)
    for chat in range(10):
        lines = [next(said)[:500] for _ in range(chunks // 10)]
        speakers = ("Caroline", "Melanie") if chat % 2 else (None, None)
        session = memory.session("t", str(chat), user="alice")
        session.extend([Message.new("user", line, name=speakers[at % 2]) for at, line in enumerate(lines)])


def ask(memory: Limpet, seed: int, count: int) -> Outcome:
    """Raises what a recall raises, with the question that made it."""
    chance = random.Random(seed)
    found, seconds = 0, []
    for question, _ in zip(texts(chance), range(count), strict=False):
        recipe = chance.choice(tuple(RECIPES))
        begun = time.process_time()
        try:
            hits = memory.recall(question, user="alice", recipe=recipe)
        except Exception as error:
            error.add_note(f"the question was {question[:2000]!r}, the recipe {recipe}")
            raise
        seconds.append(time.process_time() - begun)
        found += bool(hits)
    return Outcome(count, found, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_queries", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", default=":memory:")
    args = parser.parse_args()
    with Limpet.open(args.url, config=Config(), embedder=HashEmbedder()) as memory:
        fill(memory, args.seed)
        print(ask(memory, args.seed + 1, args.count))


if __name__ == "__main__":
    main()
