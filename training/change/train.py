"""Train the model of change: python training/change/train.py [--lives FILE] [--workers N] [--write]

Prints out-of-fold precision and recall, and those on data/heldout.jsonl. ``--write`` replaces the weights in the
package. Needs torch; see README.md.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from limpet.knowledge import change
from limpet.knowledge.candidate import TurnMessage
from limpet.knowledge.change_network import ChangeNetwork
from limpet.knowledge.read import read_turn
from limpet.knowledge.segment import split_clauses
from limpet.model.message import Role

HERE = Path(__file__).parent
SETS = tuple("abcdefg")
FOLDS, HIDDEN, WIDTH = 5, 48, 64
GATE = 2  # percent of changes that may be missed because no clause sounds like one
FOREIGN = 10  # messages of other people, and as many of ordinary talk, beside each person's own
FOREIGN_WEIGHT = 0.1  # of what other people said: far more of it is made than occurs among changes
DAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
Person = dict[str, Any]
Row = tuple[list[float], int, float]
Weights = dict[str, np.ndarray]
torch.set_num_threads(1)


# Whether a text tells of a change


class Teller(nn.Module):
    """The same as ChangeNetwork.score."""

    def __init__(self, drop: float = 0.4) -> None:
        super().__init__()
        self.proj, self.norm, self.norm2 = nn.Linear(256, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.far = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2)
        self.look, self.hidden, self.out = nn.Linear(WIDTH, 2), nn.Linear(3 * WIDTH, 32), nn.Linear(32, 1)
        self.drop = nn.Dropout(drop)

    def forward(self, pieces: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def convolve(layer: nn.Conv1d, x: torch.Tensor) -> torch.Tensor:
            return self.drop(functional.relu(layer((x * mask[..., None]).transpose(1, 2)).transpose(1, 2)))

        x = self.norm(self.proj(self.drop(pieces)))
        x = self.norm2(x + convolve(self.near, x))
        x = x + convolve(self.far, x)
        look = torch.softmax(self.look(x).masked_fill(mask[..., None] == 0, -1e4), 1)
        pooled = [(x * look[..., at : at + 1]).sum(1) for at in (0, 1)]
        pooled.append(x.masked_fill(mask[..., None] == 0, -1e4).amax(1))
        hidden = functional.relu(self.hidden(self.drop(torch.cat(pooled, -1))))
        return self.out(self.drop(hidden)).squeeze(-1)


@cache
def get_pieces(text: str) -> torch.Tensor:
    return torch.tensor(change.default_encoder().embed_pieces(text)[:96])


def cut_window(text: str, quote: str, chance: random.Random) -> str:
    """The clauses of a quote with some of those around it, so that length tells nothing."""
    clauses = list(split_clauses(text)) or [(0, len(text))]
    start, end = text.find(quote), text.find(quote) + len(quote)
    inside = [
        at
        for at, (low, high) in enumerate(clauses)
        if min(high, end) - max(low, start) > 0.4 * min(high - low, end - start)
    ] or [0]
    first = max(0, inside[0] - chance.choice([0, 0, 0, 1, 1, 2]))
    last = min(len(clauses) - 1, inside[-1] + chance.choice([0, 0, 0, 1, 1, 2]))
    return text[clauses[first][0] : clauses[last][1]].strip()


def make_texts(people: list[Person]) -> Iterator[tuple[str, str, int]]:
    """Texts with a quote, and whether it tells of a change; beside the quote of a change nothing does."""
    for person in people:
        for each in person["changes"]:
            yield each["text"], each["quote"], 1
            start, end = each["text"].find(each["quote"]), each["text"].find(each["quote"]) + len(each["quote"])
            for low, high in split_clauses(each["text"]):
                if (high <= start or low >= end) and high - low > 12:
                    words = each["text"][low:high].strip()
                    yield words, words, 0
        for each in (*person["others"], *person["facts"]):
            yield each["text"], each["quote"], 0


def read_lives(path: Path) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Of labelled conversations: what tells of a change and what states nothing, and all that people say."""
    texts, said = [], []
    for life in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        turns = {turn["n"]: turn["text"] for turn in life["turns"] if turn["speaker"] != "assistant"}
        said += turns.values()
        texts += [(turns[each["turn"]],) * 2 + (0,) for each in life["nothing"] if each["turn"] in turns]
        for claim in life["claims"]:
            text = turns.get(claim["turn"], "")
            if claim["quote"] in text and claim["status"] in ("ended", "corrected", "past", "passing"):
                texts.append((text, claim["quote"], int(claim["status"] in ("ended", "corrected"))))
    return texts, said


def train_teller(people: list[Person], talk: list[tuple[str, str, int]], seed: int, epochs: int) -> Weights:
    torch.manual_seed(seed)
    chance, teller, texts = random.Random(seed), Teller(), [*make_texts(people), *talk]
    optimizer = torch.optim.AdamW(teller.parameters(), lr=2e-3, weight_decay=0.05)
    steps = epochs * (len(texts) // 32 + 1) + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for _ in range(epochs):
        chance.shuffle(texts)
        for at in range(0, len(texts), 32):
            batch = texts[at : at + 32]
            pieces = [get_pieces(cut_window(text, quote, chance)) for text, quote, _ in batch]
            mask = nn.utils.rnn.pad_sequence([torch.ones(len(each)) for each in pieces], batch_first=True)
            labels = torch.tensor([label for *_, label in batch], dtype=torch.float) * 0.95 + 0.02
            logits = teller(nn.utils.rnn.pad_sequence(pieces, batch_first=True), mask)
            optimizer.zero_grad()
            functional.binary_cross_entropy_with_logits(logits, labels).backward()
            optimizer.step()
            schedule.step()
    return pack_teller(teller)


def pack_teller(teller: Teller) -> Weights:
    packed = {}
    for name in ("proj", "norm", "norm2", "near", "far", "look", "hidden", "out"):
        layer = getattr(teller, name)
        weight = layer.weight.detach().numpy()
        weight = weight.transpose(2, 1, 0) if weight.ndim == 3 else weight.T
        packed |= {name: np.ascontiguousarray(weight), f"{name}_bias": layer.bias.detach().numpy()}
    return packed


# Whether it takes a claim back


def find_claim(fact: dict[str, str]) -> str:
    """What Limpet learns from a fact, or its quote."""
    for each in read_turn([TurnMessage(1, Role.USER, fact["text"], DAY)]):
        if each.sentence in fact["text"] and (each.sentence in fact["quote"] or fact["quote"] in each.sentence):
            return each.content
    return fact["quote"]


def make_rows(person: Person, foreign: list[str]) -> Iterator[Row]:
    """Features, label and weight of each pair of a message and a claim."""
    claims = {fact["id"]: find_claim(fact) for fact in person["facts"]}
    for each in (*person["changes"], *person["others"]):
        near, over = each.get("near", ()), each.get("replaces", ())
        for at, (_, features) in change.measure(each["text"], list(claims.values())).items():
            name = list(claims)[at]
            yield features, int(name in over), 1.5 if name in near else 1.0
    for at, fact in enumerate(person["facts"][3:], 3):
        for _, features in change.measure(fact["text"], list(claims.values())[:at]).values():
            yield features, 0, 1.0
    for text in foreign:
        for _, features in change.measure(text, list(claims.values())).values():
            yield features, 0, FOREIGN_WEIGHT


def use_network(weights: Weights) -> None:
    """Let the package measure with these weights."""
    change._load.cache_clear()
    change._analyse_message.cache_clear()
    network = ChangeNetwork.from_weights(weights, 0.0)
    change._load = cache(lambda: network)


def train_judge(rows: list[Row], epochs: int) -> Weights:
    torch.manual_seed(0)
    features, labels, weights = (torch.tensor(column, dtype=torch.float) for column in zip(*rows, strict=True))
    mean, spread = features.mean(0), features.std(0) + 1e-3
    features = (features - mean) / spread
    judge = nn.Sequential(nn.Linear(features.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(0.2), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.AdamW(judge.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * (len(rows) // 256 + 1) + 1)
    for _ in range(epochs):
        order = torch.randperm(len(rows))
        for at in range(0, len(rows), 256):
            part = order[at : at + 256]
            logits = judge(features[part]).squeeze(-1)
            loss = functional.binary_cross_entropy_with_logits(logits, labels[part], weights[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    first, last = judge[0], judge[3]
    return {
        "mean": mean.numpy(),
        "spread": spread.numpy(),
        "judge": first.weight.detach().numpy().T,
        "judge_bias": first.bias.detach().numpy(),
        "verdict": last.weight.detach().numpy().T,
        "verdict_bias": last.bias.detach().numpy(),
    }


def report(name: str, weights: Weights, rows: list[Row]) -> None:
    network = ChangeNetwork(weights, 0.0)
    judged = [(network.judge(features), label) for features, label, weight in rows if weight != FOREIGN_WEIGHT]
    total = sum(label for _, label in judged)
    for least in (0.2, 0.3, 0.4, 0.5, 0.6):
        kept = [label for probability, label in judged if probability >= least]
        print(f"{name}, from {least}: precision {sum(kept) / max(1, len(kept)):.3f}, recall {sum(kept) / total:.3f}")


def run_fold(
    people: list[Person], talk: list[tuple[str, str, int]], said: list[str], fold: int, epochs: int
) -> list[Row]:
    """Pairs of the people of a fold, measured by a teller that never saw them."""
    use_network(train_teller([each for at, each in enumerate(people) if at % FOLDS != fold], talk, fold, epochs))
    changes = [each["text"] for person in people for each in (*person["changes"], *person["others"])]
    chance = random.Random(fold)
    return [
        row
        for person in people[fold::FOLDS]
        for row in make_rows(person, [*chance.sample(changes, FOREIGN), *chance.sample(said, min(len(said), FOREIGN))])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=Path, help="labelled conversations (lives.jsonl): ordinary talk besides")
    parser.add_argument("--people", type=int, help="the first so many of each set")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--write", action="store_true")
    wanted = parser.parse_args()
    people = [each for name in SETS for each in read_people(name)[: wanted.people]]
    random.Random(1).shuffle(people)
    talk, said = read_lives(wanted.lives) if wanted.lives else ([], [])
    with ProcessPoolExecutor(wanted.workers) as pool:
        parts = [pool.submit(run_fold, people, talk, said, fold, wanted.epochs) for fold in range(FOLDS)]
        whole = pool.submit(train_teller, people, talk, 10, wanted.epochs)
        rows, teller = [row for part in parts for row in part.result()], whole.result()
    judge = train_judge(rows, 30)
    use_network(teller)
    held_out = [row for person in read_people("heldout")[: wanted.people] for row in make_rows(person, [])]
    report("heldout", judge, held_out)
    gate = np.percentile([max(row[0][-13], row[0][-11]) for row in rows if row[1]], GATE)
    if wanted.write:
        packed = {**teller, **judge, "gate": np.array(gate)}
        small = {name: value.astype(np.float16 if value.size > 256 else np.float32) for name, value in packed.items()}
        np.savez_compressed(change.WEIGHTS, **small)


def read_people(name: str) -> list[Person]:
    lines = (HERE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


if __name__ == "__main__":
    main()
