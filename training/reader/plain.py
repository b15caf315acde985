"""Gather texts without labels for the teachers: python training/reader/plain.py LIVES.jsonl OUT.jsonl CSV...

CSV are files of Synthetic-Persona-Chat (CC BY 4.0). Of each conversation six messages are taken;
of lives, its questions.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

EACH = 6


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


if __name__ == "__main__":
    lives, out, *files = map(Path, sys.argv[1:])
    rows = [*read_questions(lives), *(row for path in files for row in read_personas(path))]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(len(rows), "texts")
