"""Gather texts without labels for the teachers: python training/reader/plain.py LIVES CORPUS OUT.jsonl CSV...

CSV are files of Synthetic-Persona-Chat (CC BY 4.0). Of each conversation six messages are taken; of lives, its
questions; of CORPUS, which training/encoder/build.py made, what people say to assistants and to each other.
"""

from __future__ import annotations

import csv
import json
import lzma
import random
import sys
from collections.abc import Iterator
from pathlib import Path

EACH = 6
TALK = {"beam": 40_000, "chitchat": 45_000, "topical": 10_000, "people": 10_000}  # by source of the corpus
LONGEST = 400  # characters


def read_personas(path: Path) -> Iterator[dict[str, str]]:
    pick = random.Random(path.name)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            said = [line.split(": ", 1)[-1].strip() for line in row["Best Generated Conversation"].splitlines()]
            places = [at for at, text in enumerate(said) if len(text) > 20]
            for at in pick.sample(places, min(EACH, len(places))):
                yield {"text": said[at], "before": said[at - 1] if at else ""}


def read_questions(path: Path) -> Iterator[dict[str, str]]:
    for line in path.read_text().splitlines():
        for question in json.loads(line).get("questions", []):
            yield {"text": question["q"], "before": ""}


def read_corpus(path: Path) -> Iterator[dict[str, str]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        corpus = json.load(file)
    pick = random.Random(path.name)
    for source, count in TALK.items():
        texts = [text for number in corpus["everyday"][source] if 20 < len(text := corpus["texts"][number]) <= LONGEST]
        for text in pick.sample(texts, min(count, len(texts))):
            yield {"text": text, "before": ""}


if __name__ == "__main__":
    lives, encoder_corpus, out, *files = map(Path, sys.argv[1:])
    texts = [
        *read_questions(lives),
        *read_corpus(encoder_corpus),
        *(row for path in files for row in read_personas(path)),
    ]
    out.write_text("".join(json.dumps(row) + "\n" for row in texts))
    print(len(texts), "texts")
