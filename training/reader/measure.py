"""What the reader gets right: by sentence for ``keep``, by clause for what it says about it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from examples import Message

from limpet.knowledge.reader import ATTRIBUTES, KINDS, STATUSES

CARE = {"health", "diet", "allergy", "medication", "assistant_rule", "assistant_style"}


def score_sentences(messages: list[Message], out: dict[int, dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each sentence states something, and the score of its best clause."""
    stated, scores = [], []
    for message in messages:
        keep = out[id(message)]["keep"][:, 0]
        for start, end, label in message.sentences:
            inside = [keep[at] for at, clause in enumerate(message.clauses) if start <= clause.start < end]
            if inside:
                stated.append(label)
                scores.append(max(inside))
    return np.array(stated), np.array(scores)


def score_clauses(messages: list[Message], out: dict[int, dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = [
        (clause.keep, out[id(message)]["keep"][at, 0], clause.weight)
        for message in messages
        for at, clause in enumerate(message.clauses)
        if clause.weight
    ]
    stated, scores, weights = (np.array(column) for column in zip(*rows, strict=True))
    return stated, scores, weights


def curve(stated: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(stated[order])
    precision, recall = right / np.arange(1, len(order) + 1), right / max(1, stated.sum())
    found = {f"P at R {goal}": precision[np.argmax(recall >= goal)] for goal in (0.6, 0.7, 0.8)}
    for goal in (0.8, 0.9):
        enough = np.flatnonzero(precision[30:] >= goal)
        found[f"R at P {goal}"] = recall[enough[-1] + 30] if len(enough) else 0.0
    found["AP"] = (precision * stated[order]).sum() / max(1, stated.sum())
    return {name: round(float(value), 3) for name, value in found.items()}


def labels(messages: list[Message], out: dict[int, dict[str, Any]]) -> dict[str, float]:
    """Shares of clauses with a claim whose label is one of its claims'."""
    right: dict[str, list[bool]] = defaultdict(list)
    for message in messages:
        row = out[id(message)]
        for at, clause in enumerate(message.clauses):
            for name, known in (("kind", KINDS), ("attribute", ATTRIBUTES), ("status", STATUSES)):
                expected = {claim[name] for claim in clause.claims if claim.get(name)}
                if expected:
                    right[name].append(known[int(row[name][at].argmax())] in expected)
            if clause.claims:
                right["about"].append(bool(row["about"][at, 0] > 0) in {bool(claim["user"]) for claim in clause.claims})
    return {name: round(float(np.mean(values)), 3) for name, values in right.items()}
