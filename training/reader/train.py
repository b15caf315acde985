"""Train the reader and write src/limpet/knowledge/reader.npz.

    python training/reader/train.py cv --lives LIVES.jsonl       # five folds by conversation: figures and calibration
    python training/reader/train.py hard --lives LIVES.jsonl     # trained without prefix d, measured on it
    python training/reader/train.py final --lives LIVES.jsonl    # on everything, with the calibration of cv

Needs torch; TABLE (training/reader/table.py) and the folder of extraction turns are found by default.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import random
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from examples import ROOT, Message, read_extraction, read_lives
from measure import curve, kept_of_nothing, labels, recall_of_care, score_clauses, score_sentences, threshold_for
from network import Batch, Network, loss_of
from pack import pack, unpack

from limpet.knowledge.pieces import Pieces
from limpet.knowledge.reader import ATTRIBUTES, WEIGHTS

Outputs = dict[int, dict[str, Any]]
FOLDS = 5


class Trainer:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        stored = np.load(options.table)
        self.vocabulary = stored["vocabulary"].tobytes().decode().split("\n")
        self.table = torch.tensor(stored["table"].astype(np.float32))
        self.pieces = Pieces(self.vocabulary, self.vocabulary.index("[UNK]"))
        self.separator = self.vocabulary.index("[SEP]")

    def train(self, messages: list[Message], seed: int) -> Network:
        options = self.options
        random.seed(seed)
        torch.manual_seed(seed)
        network = Network(self.table, hidden=options.hidden)
        if options.start:
            unpack(network, options.start)
        others = [value for name, value in network.named_parameters() if name != "table.weight"]
        groups = [
            {"params": [network.table.weight], "lr": options.rate / 4, "weight_decay": 0.0},
            {"params": others, "lr": options.rate, "weight_decay": 0.01},
        ]
        optimizer = torch.optim.AdamW(groups)
        rates = [group["lr"] for group in groups]
        steps = options.epochs * len(self._batches(messages, shuffle=False))
        average, step, start = copy.deepcopy(network), 0, time.time()
        for epoch in range(options.epochs):
            network.train()
            for chosen in self._batches(messages, shuffle=True):
                factor = min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / steps))
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                batch = Batch(chosen, self.pieces, sep=self.separator)
                loss = loss_of(network(batch), batch, soft_weight=options.label_weight)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                step += 1
                decay = min(options.average, step / (step + 10))
                with torch.no_grad():
                    for kept, now in zip(average.parameters(), network.parameters(), strict=True):
                        kept.lerp_(now, 1 - decay)
            print(f"  {time.time() - start:.0f}s epoch {epoch} loss {loss.item():.3f}", flush=True)
        return average.eval()

    def predict(self, networks: list[Network], messages: list[Message]) -> Outputs:
        """The mean of the networks' scores for each clause of each message."""
        found: Outputs = {}
        with torch.no_grad():
            for chosen in self._batches(messages, shuffle=False):
                batch = Batch(chosen, self.pieces, sep=self.separator)
                scores = [network(batch) for network in networks]
                mean = {name: torch.stack([one[name] for one in scores]).mean(0).numpy() for name in scores[0]}
                at = 0
                for message in chosen:
                    end = at + len(message.clauses)
                    found[id(message)] = {name: rows[at:end] for name, rows in mean.items()}
                    at = end
        return found

    def _batches(self, messages: list[Message], *, shuffle: bool) -> list[list[Message]]:
        size = self.options.batch
        messages = [message for message in messages if message.clauses]
        if not shuffle:
            messages.sort(key=lambda message: len(message.text))
            return [messages[at : at + size] for at in range(0, len(messages), size)]
        random.shuffle(messages)
        batches = []
        for at in range(0, len(messages), size * 20):  # messages of a length together: less padding
            some = sorted(messages[at : at + size * 20], key=lambda message: len(message.text))
            batches += [some[start : start + size] for start in range(0, len(some), size)]
        random.shuffle(batches)
        return batches


def fold_of(message: Message) -> int:
    return zlib.crc32(message.group.encode()) % FOLDS


def calibrate(messages: list[Message], out: Outputs) -> tuple[float, float, float]:
    """Fit ``keep`` = sigmoid(slope * score + offset) by clause, and how sharp the attribute's softmax is."""
    stated, scores, weights = (torch.tensor(part, dtype=torch.float64) for part in score_clauses(messages, out))
    line = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    rows = [
        (out[id(message)]["attribute"][at], [label in {c["attribute"] for c in clause.claims} for label in ATTRIBUTES])
        for message in messages
        for at, clause in enumerate(message.clauses)
        if any(claim.get("attribute") for claim in clause.claims)
    ]
    logits = torch.tensor(np.array([row for row, _ in rows]), dtype=torch.float64)
    right = torch.tensor([found for _, found in rows], dtype=torch.float64)
    sharpness = torch.ones((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line, sharpness], max_iter=100)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(line[0] * scores + line[1], stated, weights)
        share = (torch.softmax(sharpness * logits, 1) * right).sum(1)
        loss = loss - torch.log(share + 1e-9).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return float(line[0].detach()), float(line[1].detach()), float(sharpness.detach())


def report(name: str, messages: list[Message], out: Outputs, threshold: float | None = None) -> None:
    stated, scores = score_sentences(messages, out)
    print(f"{name}: {len(stated)} sentences, {int(stated.sum())} state something")
    print("  ", curve(stated, scores), labels(messages, out))
    if threshold is not None:
        chosen = scores >= threshold
        right = stated[chosen].sum()
        print(f"   at {threshold:.2f}: precision {right / chosen.sum():.3f} recall {right / stated.sum():.3f}")
        print("   health, diet, rules:", recall_of_care(messages, out, threshold))
        print("   kept although nothing:", kept_of_nothing(messages, out, threshold))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cv", "hard", "final"))
    parser.add_argument("--lives", type=Path, required=True)
    parser.add_argument("--extraction", type=Path, default=ROOT / "tests/data/extraction")
    parser.add_argument("--more", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--table", type=Path, default=Path(__file__).parent / "table.npz")
    parser.add_argument("--calibration", type=Path, default=Path(__file__).parent / "calibration.json")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--label-weight", type=float, default=0.8, help="of kind, attribute, status and about")
    parser.add_argument("--start", type=Path, help="weights to train further")
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--average", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folds", type=int, default=FOLDS, help="of the five, how many to run")
    parser.add_argument("--jobs", type=int, default=2, help="folds at a time")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    trainer = Trainer(options)
    lives = list(read_lives(options.lives))
    extraction = list(read_extraction(options.extraction))
    more = [message for path in sorted(options.more.glob("*.jsonl")) for message in read_lives(path)]
    if options.what == "hard":
        tested = [message for message in lives if message.group[0] == "d"]
        network = trainer.train(
            [message for message in lives if message.group[0] != "d"] + extraction + more, options.seed
        )
        report("hard", tested, trainer.predict([network], tested))
    elif options.what == "cv":
        cross_validate(trainer, lives, extraction, more)
    else:
        network = trainer.train(lives + extraction + more, options.seed)
        calibration = json.loads(options.calibration.read_text())
        pack(network, trainer.vocabulary, calibration["calibration"], WEIGHTS)


def cross_validate(trainer: Trainer, lives: list[Message], extraction: list[Message], more: list[Message]) -> None:
    everything = [message for message in (*lives, *extraction, *more) if message.clauses]
    known = {id(message) for message in lives}
    out: Outputs = {}
    tested = []
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(trainer.options.jobs, mp_context=context) as pool:
        parts = [[message for message in everything if fold_of(message) == fold] for fold in range(FOLDS)]
        folds = range(trainer.options.folds)
        jobs = [pool.submit(_run_fold, trainer, [m for m in everything if fold_of(m) != at], parts[at]) for at in folds]
        for part, job in zip(parts, jobs, strict=False):
            tested += part
            out |= {id(message): row for message, row in zip(part, job.result(), strict=True)}
    own = [message for message in tested if id(message) in known]
    stated, scores = score_sentences(own, out)
    sure, doubtful = (threshold_for(stated, scores, precision) for precision in (0.9, 0.75))
    slope, offset, sharpness = calibrate(own, out)
    for name, part in (("lives", own), ("extraction", [m for m in extraction if id(m) in out]),
                       ("more", [m for m in more if id(m) in out])):  # fmt: skip
        if part:
            report(name, part, out, sure)
            report(name, part, out, doubtful)
    as_keep = {
        name: 1 / (1 + math.exp(-(slope * at + offset))) for name, at in (("sure", sure), ("doubtful", doubtful))
    }
    print(as_keep, (slope, offset, sharpness))
    found = {"calibration": [slope, offset, sharpness], **as_keep}
    trainer.options.calibration.write_text(json.dumps(found, indent=1) + "\n")


def _run_fold(trainer: Trainer, messages: list[Message], tested: list[Message]) -> list[dict[str, Any]]:
    out = trainer.predict([trainer.train(messages, trainer.options.seed)], tested)
    return [out[id(message)] for message in tested]


if __name__ == "__main__":
    main()
