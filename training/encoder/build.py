"""Builds the training data: python -m training.encoder.build --repositories DIR --lives FILE --out corpus.json.xz."""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from training.encoder import lives, sources
from training.encoder.corpus import Corpus

_SEED = 7
_MADE = 8000
_TALK = ("talk.jsonl", "talk2.jsonl")
_PEOPLE = Path(__file__).parents[1] / "change" / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=Path, required=True, help="bare git directories: OWNER+NAME/repo")
    parser.add_argument("--lives", type=Path, required=True, help="lives.jsonl")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    corpus = Corpus()
    sources.add_all(corpus, args.repositories, _SEED)
    lives.add_lives(corpus, args.lives, Random(_SEED))
    lives.add_made_lives(corpus, _MADE, Random(_SEED))
    lives.add_people(corpus, _PEOPLE)
    for name in _TALK:
        lives.add_lives(corpus, Path(__file__).with_name(name), Random(_SEED))
    corpus.save(args.out)
    print(corpus.describe())
    print(f"{args.out}: {args.out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
