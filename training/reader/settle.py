"""Calibrate the reader, measure it out of fold, and write its weights.

    python training/reader/settle.py --lives LIVES.jsonl --from FOLDER [--write]

FOLDER is what ``distil.py`` wrote, from the same data. Precision is by clause, recall by claim, as in ``check.py``; a
clause that the English rules refuse is left out, as in ``limpet.knowledge.read``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from check import overlaps
from distil import add_sources, read_labelled
from examples import Message
from measure import CARE, score_clauses, score_sentences

from limpet.knowledge import english
from limpet.knowledge.reader import ATTRIBUTES, KINDS, WEIGHTS, Reading

SINGLE = ("messages", "a", "b")  # written to an assistant, by three hands: the thresholds hold for them
GOALS = {"SURE": 0.9, "SHOWN": 0.86, "DOUBTFUL": 0.75}
VITAL_GOAL = 0.8


class Row(NamedTuple):
    """A clause that the rules let pass."""

    keep: float
    vital: bool
    right: bool
    claims: tuple[tuple[int, int], ...]  # message and place of those it overlaps


def is_vital(kind: str, attribute: str) -> bool:
    return kind in {"instruction", "constraint"} or attribute in CARE


def pass_rules(start: int, end: int, own: Sequence[Any]) -> bool:
    return any(min(each.end, end) - max(each.start, start) >= 0.5 * (end - start) for each in own)


def judge(messages: list[Message], read: Callable[[Message], list[Reading]]) -> list[Row]:
    rows = []
    for number, message in enumerate(messages):
        own = list(english.find_own_statements(message.text))
        for one in read(message):
            if pass_rules(one.start, one.end, own):
                hit = tuple(
                    (number, at)
                    for at, claim in enumerate(message.claims)
                    if overlaps(message.text, claim["quote"], one)
                )
                rows.append(Row(one.keep, is_vital(one.kind, one.attribute), bool(hit), hit))
    return rows


def find_threshold(rows: list[Row], goal: float) -> float:
    """The lowest ``keep`` from which on the precision is reached."""
    keep, right = (np.array(column) for column in zip(*((row.keep, row.right) for row in rows), strict=True))
    steps = np.arange(0.3, 0.99, 0.01)
    reached = [step for step in steps if (keep >= step).sum() >= 30 and right[keep >= step].mean() >= goal]
    return round(float(min(reached, default=0.99)), 2)


def describe(messages: list[Message], rows: list[Row], shown: Callable[[Row], bool]) -> str:
    kept = [row for row in rows if shown(row)]
    found = {claim for row in kept for claim in row.claims}
    claims = [(number, at) for number, message in enumerate(messages) for at in range(len(message.claims))]
    care = [key for key in claims if messages[key[0]].claims[key[1]]["attribute"] in CARE]
    vital = [row.right for row in kept if row.vital]
    right = sum(row.right for row in kept)
    return (
        f"precision {right / max(1, len(kept)):.3f} ({right}/{len(kept)}) recall {len(found) / len(claims):.3f} "
        f"({len(found)}/{len(claims)}) health, diet, rules: recall {np.mean([key in found for key in care]):.3f} "
        f"of {len(care)}, precision {np.mean(vital):.3f} of {len(vital)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="the weights, with the calibration")
    options = parser.parse_args()
    labelled = [message for message in read_labelled(options) if message.clauses]
    stored = np.load(options.folder / "predictions.npz")
    for who in ("alone", "teacher", "student"):
        if f"{who}.keep" in stored.files:
            calibration = measure(who, labelled, stored)
    if options.write:
        with np.load(options.folder / "student.npz") as file:
            data = {name: file[name] for name in file.files}
        data["calibration"] = np.array(calibration, dtype=np.float64)
        np.savez_compressed(WEIGHTS, **data)


def calibrate(messages: list[Message], out: dict[int, dict[str, Any]]) -> tuple[float, float, float]:
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


def measure(who: str, labelled: list[Message], stored: Any) -> tuple[float, float, float]:
    heads = {name: stored[f"{who}.{name}"].astype(np.float32) for name in ("keep", "kind", "attribute")}
    out, at = {}, 0
    for place in stored["place"]:
        message = labelled[place]
        end = at + len(message.clauses)
        out[id(message)] = {name: value[at:end] for name, value in heads.items()}
        at = end
    single = [message for message in labelled if message.source in SINGLE]
    slope, offset, sharpness = calibrate(single, out)
    print(f"== {who}: calibration {slope:.4f} {offset:.4f} {sharpness:.4f}")

    def read(message: Message) -> list[Reading]:
        row = out[id(message)]
        keep = 1 / (1 + np.exp(-(slope * row["keep"][:, 0] + offset)))
        kinds, attributes = row["kind"].argmax(1), row["attribute"].argmax(1)
        return [
            Reading(c.start, c.end, float(keep[at]), KINDS[kinds[at]], ATTRIBUTES[attributes[at]], 0.0, "", "")
            for at, c in enumerate(message.clauses)
        ]

    rows = judge(single, read)
    limits = {name: find_threshold(rows, goal) for name, goal in GOALS.items()}
    vital = find_threshold([row for row in rows if row.vital], VITAL_GOAL)
    print("  ", limits, "SHOWN_VITAL", vital)
    shown = limits["SHOWN"]
    parts = (SINGLE, ("messages",), ("a",), ("b",), ("a", "b"), ("lives",))
    for part in parts:
        own = [message for message in labelled if message.source in part]
        rows = judge(own, read)
        print(" ", *part)
        for name, limit in limits.items():
            print(f"    {name} {limit}", describe(own, rows, lambda row, limit=limit: row.keep >= limit))
        print("    shown", describe(own, rows, lambda row: row.keep >= (min(shown, vital) if row.vital else shown)))
    stated, scores = score_sentences([message for message in labelled if message.source == "lives"], out)
    chosen = 1 / (1 + np.exp(-(slope * scores + offset))) >= shown
    right = stated[chosen].sum()
    print(f"   lives by sentence at SHOWN: precision {right / chosen.sum():.3f} recall {right / stated.sum():.3f}")
    return slope, offset, sharpness


if __name__ == "__main__":
    main()
