"""Train the model of what is not to be kept: python training/opt_out/distil.py --lives FILE --minilm FOLDER [--write]

A MiniLM learns from the messages of all hands but one, and a small student from what it says about variations of them;
each is measured on the hand it never saw. With ``--write`` both learn from all hands, are measured on data/k.jsonl,
and the student's weights go into the package. ``DEVICE=cuda`` takes two minutes. See README.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from teacher import LAYERS, Layer, fill_layers, read_packed
from torch import Tensor, nn
from torch.nn import functional
from train import Teller, pack_teller, read_people

from limpet.knowledge import english
from limpet.knowledge.change_network import ChangeNetwork
from limpet.knowledge.opt_out import ASKED, WEIGHTS
from limpet.knowledge.segment import Pieces, split_clauses
from limpet.providers.encoder import default_encoder

HERE = Path(__file__).parent
READER = HERE.parent / "reader" / "data"
TURNS = HERE.parents[1] / "tests" / "data" / "extraction"
DEVICE = os.environ.get("DEVICE", "cpu")
HANDS, UNSEEN = "pqrstu", "k"
JOINTS = (" ", ". ", ", ", " - ", "\n")
VARIATIONS = {True: 24, False: 6}  # of a message that asks, and of one that does not
ORDINARY = 0.3  # weight of a message of ordinary talk
PIECES = 160


class Example(NamedTuple):
    text: str
    asked: bool
    weight: float = 1.0
    quote: str = ""  # the words that ask it


def read_hand(name: str) -> list[Example]:
    lines = (HERE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Example(row["text"], row["asked"], 1.0, row.get("quote", "")) for row in map(json.loads, lines)]


def read_labelled() -> list[Example]:
    """The reader's single messages, which say why nothing is to be learned."""
    rows = [json.loads(line) for name in "abcd" for line in (READER / f"{name}.jsonl").read_text("utf-8").splitlines()]
    found = [Example(row["text"], row["nothing"] == "asked not to remember") for row in rows]
    turns = [json.loads(line)["turn"] for path in sorted(TURNS.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    said = [part["user"] for turn in turns for part in turn if "user" in part]  # about code, many of them
    return [*found, *(Example(text, False) for text in said if not english.is_opt_out(text))]


def read_talk(lives: Path, plain: Path | None) -> list[str]:
    """What people say to assistants and to each other, and have kept."""
    people = [person for name in "abcdefghi" for person in read_people(name)]
    said = [each["text"] for person in people for kind in ("facts", "changes", "others") for each in person[kind]]
    said += [each["text"] for name in "klmn" for person in read_people(name) for each in person["said"]]
    said += [json.loads(line)["text"] for line in plain.read_text("utf-8").splitlines()] if plain else []
    for life in map(json.loads, lives.read_text("utf-8").splitlines()):
        said += [turn["text"] for turn in life["turns"] if turn["speaker"] != "assistant"]
    return [text for text in said if not english.is_opt_out(text)]


def vary(example: Example, talk: Sequence[str], chance: random.Random) -> tuple[str, bool]:
    """The request alone, or with another message; a message without its request; or one clause of it."""
    text, asked, _, quote = example
    if quote:
        kind = chance.random()
        if kind < 0.3:
            return text.replace(quote, " ").strip(" ,.;:-") or text, False
        if kind < 0.5:
            return quote, True
        other, joint = chance.choice(talk), chance.choice(JOINTS)
        return (f"{quote}{joint}{other}" if chance.random() < 0.5 else f"{other}{joint}{quote}"), True
    clauses = [] if asked else split_clauses(text)
    if len(clauses) < 2:
        return text, asked
    start, end = chance.choice(clauses)
    return text[start:end].strip() or text, asked


def make_examples(hands: str, talk: Sequence[str]) -> list[Example]:
    chance = random.Random(3)
    found: dict[str, Example] = {}
    for each in itertools.chain.from_iterable(map(read_hand, hands)):
        found.setdefault(each.text, each)
        for _ in range(VARIATIONS[each.asked]):
            text, asked = vary(each, talk, chance)
            found.setdefault(text, Example(text, asked, 0.25 if each.asked else 0.5))
    ordinary = (Example(text, False, ORDINARY) for text in talk)
    return [*found.values(), *read_labelled(), *ordinary]


class Teacher(nn.Module):
    """MiniLM that reads a text."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        words = weights["embeddings.word_embeddings.weight"]
        size = words.shape[1]
        self.words = nn.Embedding.from_pretrained(words.clone(), freeze=False)
        places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self.places = nn.Embedding.from_pretrained(places.clone(), freeze=False)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.layers = nn.ModuleList(Layer(size, 4 * size) for _ in range(LAYERS))
        fill_layers(weights, self.norm, self.layers)
        self.look, self.hidden, self.out = nn.Linear(size, 1), nn.Linear(3 * size, 256), nn.Linear(256, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = functional.dropout(self.norm(self.words(ids) + self.places.weight[: ids.shape[1]]), 0.1, self.training)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :], 0.1)
        x, seen = x.float(), mask[..., None]
        look = torch.softmax(self.look(x).masked_fill(~seen, -1e4), 1)
        pooled = [x[:, 0], (x * look).sum(1), (x * seen).sum(1) / seen.sum(1)]
        y = functional.dropout(torch.cat(pooled, -1), 0.1, self.training)
        y = functional.dropout(functional.relu(self.hidden(y)), 0.1, self.training)
        return self.out(y).squeeze(-1)


def cut_batches(lengths: np.ndarray, size: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Texts of a length together: less padding."""
    order = random.permutation(len(lengths))
    parts = [order[at : at + size * 20] for at in range(0, len(order), size * 20)]
    parts = [part[np.argsort(lengths[part], kind="stable")] for part in parts]
    batches = [part[at : at + size] for part in parts for at in range(0, len(part), size)]
    yield from (batches[at] for at in random.permutation(len(batches)))


def take(rows: Sequence[Tensor], chosen: np.ndarray) -> tuple[Tensor, Tensor]:
    some = [rows[at] for at in chosen]
    padded = nn.utils.rnn.pad_sequence(some, batch_first=True).to(DEVICE)
    lengths = torch.tensor([len(each) for each in some])
    return padded, (torch.arange(padded.shape[1]) < lengths[:, None]).to(DEVICE)


def train(
    network: nn.Module, rows: Sequence[Tensor], goals: Tensor, weights: Tensor, *, rates: dict[str, float],
    epochs: int, average: nn.Module | None = None,
) -> None:  # fmt: skip
    """``rates``: of the parameters whose names begin so. ``average``: gets the mean of the last weights."""
    groups = [
        {
            "params": [value for name, value in network.named_parameters() if _find_prefix(name, rates) == each],
            "lr": rate,
        }
        for each, rate in rates.items()
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.03)
    lengths = np.array([len(each) for each in rows])
    random = np.random.default_rng(0)
    batches = [batch for _ in range(epochs) for batch in cut_batches(lengths, 64, random)]
    network.train()
    for step, batch in enumerate(batches):
        factor = min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / len(batches)))
        for group, rate in zip(optimizer.param_groups, rates.values(), strict=True):
            group["lr"] = rate * factor
        chosen = torch.from_numpy(batch)
        goal, weight = goals[chosen].to(DEVICE), weights[chosen].to(DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda" and average is None):
            logits = network(*take(rows, batch)).float()
        loss = (functional.binary_cross_entropy_with_logits(logits, goal, reduction="none") * weight).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if average is not None:
            with torch.no_grad():
                pairs = zip(average.parameters(), network.parameters(), strict=True)
                for kept, moving in pairs:
                    kept.lerp_(moving, 1 - min(0.998, step / (step + 10)))
    network.eval()


def _find_prefix(name: str, rates: dict[str, float]) -> str:
    return next(each for each in rates if name.startswith(each))


@torch.no_grad()
def measure(network: nn.Module, rows: Sequence[Tensor]) -> Tensor:
    found = torch.zeros(len(rows))
    order = np.argsort([len(each) for each in rows], kind="stable")
    for at in range(0, len(order), 512):
        some = order[at : at + 512]
        found[torch.from_numpy(some)] = network(*take(rows, some)).float().cpu()
    return found


class School:
    """Texts as the teacher's and the student's word pieces."""

    def __init__(self, minilm: Path) -> None:
        vocabulary = (minilm / "vocab.txt").read_text().split("\n")
        self.pieces, self.first = Pieces(vocabulary, vocabulary.index("[UNK]")), vocabulary.index("[CLS]")
        self.weights = read_packed(minilm / "first.npz")

    def cut(self, texts: Sequence[str]) -> list[Tensor]:
        return [torch.tensor([self.first, *self.pieces.cut(text)[0][: PIECES + 30]]) for text in texts]

    def teach(self, examples: Sequence[Example]) -> ChangeNetwork:
        texts = [each.text for each in examples]
        asked = torch.tensor([each.asked for each in examples], dtype=torch.float)
        weights = torch.tensor([each.weight for each in examples])
        torch.manual_seed(0)
        hard, heard = asked * 0.96 + 0.02, self.cut(texts)
        teacher = Teacher(self.weights).to(DEVICE)
        train(teacher, heard, hard, weights, rates={"look": 1e-3, "hidden": 1e-3, "out": 1e-3, "": 1e-4}, epochs=3)
        soft = torch.sigmoid(measure(teacher, heard))
        rows = [torch.tensor(default_encoder().embed_pieces(text)[:PIECES]) for text in texts]
        student, average = Teller(drop=0.15).to(DEVICE), Teller().to(DEVICE)
        average.load_state_dict(student.state_dict())
        train(
            student,
            rows,
            0.3 * hard + 0.7 * soft,
            weights.clamp(min=ORDINARY),
            rates={"": 2e-3},
            epochs=10,
            average=average,
        )
        return pack_teller(average.eval().cpu())


def report(name: str, weights: dict[str, np.ndarray], examples: Sequence[Example]) -> None:
    network = ChangeNetwork.from_weights(weights, 0.0)
    scores = np.array(network.score([default_encoder().embed_pieces(each.text)[:PIECES] for each in examples]))
    asked = np.array([each.asked for each in examples])
    rules = np.array([english.is_opt_out(each.text) for each in examples])
    for kind, found in (("rules", rules), *((f"from {at}", scores >= at) for at in (0, 1, ASKED, 3))):
        heard = found[asked].mean() if asked.any() else math.nan
        print(f"{name}, {kind}: heard {heard:.3f}, wrongly {found[~asked].mean():.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=Path, required=True, help="labelled conversations (lives.jsonl)")
    parser.add_argument("--minilm", type=Path, required=True, help="folder with first.npz and vocab.txt")
    parser.add_argument("--plain", type=Path, help="lines of JSON with text, of training/reader/plain.py")
    parser.add_argument("--hands", default=HANDS, help="leave out these in turn")
    parser.add_argument("--write", action="store_true")
    wanted = parser.parse_args()
    school, talk = School(wanted.minilm), read_talk(wanted.lives, wanted.plain)
    random.Random(1).shuffle(talk)
    held_out, talk = talk[:5000], talk[5000:105_000]
    for left_out in "" if wanted.write else wanted.hands:
        report(left_out, school.teach(make_examples(HANDS.replace(left_out, ""), talk)), read_hand(left_out))
    if wanted.write:
        weights = school.teach(make_examples(HANDS, talk))
        report(UNSEEN, weights, read_hand(UNSEEN))
        report("talk", weights, [Example(text, False) for text in held_out])
        packed = {**weights, "gate": np.array(ASKED)}
        small = {name: value.astype(np.float16 if value.size > 256 else np.float32) for name, value in packed.items()}
        np.savez_compressed(WEIGHTS, **small)


if __name__ == "__main__":
    main()
