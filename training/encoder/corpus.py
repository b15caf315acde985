"""The training data: texts, questions with the texts that answer them, and texts of one conversation together."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_MAX_TEXT = 1200  # characters
_SENTENCE_END = re.compile(r"(?<=[.!?\n])\s+")
_CODE = re.compile(r"```.*?(```|$)", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]{3,}")
NO_GROUP = -1


class Pair(NamedTuple):
    """A question and a text that answers it, by number; the group holds texts of the same conversation."""

    source: str
    question: int
    text: int
    group: int


@dataclass(slots=True)
class Corpus:
    texts: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)  # texts without a question
    questions: list[int] = field(default_factory=list)  # questions without a text
    everyday: dict[str, list[int]] = field(default_factory=dict)  # by source: what people say, to be asked about
    _numbers: dict[str, int] = field(default_factory=dict)

    def add_text(self, text: str) -> int:
        """Return the number of a text; equal texts have one number."""
        text = re.sub(r"[ \t]+", " ", text).strip()[:_MAX_TEXT]
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def add_group(self, texts: Iterable[str]) -> int:
        self.groups.append(sorted({self.add_text(text) for text in texts}))
        return len(self.groups) - 1

    def add_pair(self, source: str, question: str, text: str, group: int = NO_GROUP) -> None:
        self.pairs.append(Pair(source, self.add_text(question), self.add_text(text), group))

    def add_passages(self, texts: Iterable[str], *, everyday: str | None = None) -> None:
        numbers = [self.add_text(text) for text in texts if len(text) > 12]
        self.passages += numbers
        if everyday is not None:
            self.everyday.setdefault(everyday, []).extend(numbers)

    def describe(self) -> str:
        counts = Counter(pair.source for pair in self.pairs)
        pairs = ", ".join(f"{source} {count:,}" for source, count in sorted(counts.items()))
        everyday = ", ".join(f"{source} {len(set(numbers)):,}" for source, numbers in self.everyday.items())
        return f"{len(self.texts):,} texts; everyday: {everyday}; pairs: {pairs}"

    def save(self, path: Path) -> None:
        content = {
            "texts": self.texts,
            "pairs": self.pairs,
            "groups": self.groups,
            "passages": sorted(set(self.passages)),
            "questions": sorted(set(self.questions)),
            "everyday": {source: sorted(set(numbers)) for source, numbers in self.everyday.items()},
        }
        with lzma.open(path, "wt", encoding="utf-8", preset=3) as file:
            json.dump(content, file, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, path: Path) -> Corpus:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            content = json.load(file)
        content["pairs"] = [Pair(*pair) for pair in content["pairs"]]
        corpus = cls(**content)
        corpus._numbers.update((text, number) for number, text in enumerate(corpus.texts))
        return corpus


def split_sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence]


def split_passages(text: str, longest: int = 600) -> list[str]:
    """Split into runs of whole sentences of at most ``longest`` characters, as the search does."""
    passages, current = [], ""
    for sentence in _SENTENCE_END.split(_CODE.sub(" ", text)):
        part = sentence[:longest]
        if current and len(current) + len(part) > longest:
            passages.append(current)
            current = ""
        current = f"{current} {part}".strip()
    return [*passages, current] if current else passages


def find_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def undo_tokenization(text: str) -> str:
    """Return "it 's here ." as "it's here."."""
    text = re.sub(r"-lrb- ?", "(", text, flags=re.IGNORECASE)
    text = re.sub(r" ?-rrb-", ")", text, flags=re.IGNORECASE)
    text = text.replace("`` ", '"').replace(" ''", '"')
    return re.sub(r" (n't|'[a-z]+|[.,!?;:%)])", r"\1", text).strip()
