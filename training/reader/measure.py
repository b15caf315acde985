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


def threshold_for(stated: np.ndarray, scores: np.ndarray, precision: float) -> float:
    """The lowest score from which on the precision is reached."""
    order = np.argsort(-scores, kind="stable")
    reached = np.cumsum(stated[order]) / np.arange(1, len(order) + 1)
    return float(scores[order][np.flatnonzero(reached[30:] >= precision)[-1] + 30])


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


def recall_of_care(messages: list[Message], out: dict[int, dict[str, Any]], threshold: float) -> float:
    """Of the claims on health, diet and rules, the share with a clause above the threshold."""
    found = []
    for message in messages:
        keep = out[id(message)]["keep"][:, 0]
        best: dict[str, float] = {}
        for at, clause in enumerate(message.clauses):
            for claim in clause.claims:
                if claim["attribute"] in CARE and "quote" in claim:
                    best[claim["quote"]] = max(best.get(claim["quote"], -99.0), float(keep[at]))
        found += [value >= threshold for value in best.values()]
    return round(float(np.mean(found)), 3)


def kept_of_nothing(messages: list[Message], out: dict[int, dict[str, Any]], threshold: float) -> dict[str, str]:
    """Of the messages that teach nothing, by reason, how many have a clause above the threshold."""
    kept: dict[str, list[bool]] = defaultdict(list)
    for message in messages:
        if message.why and message.clauses and not any(clause.keep for clause in message.clauses):
            kept[message.why].append(bool(out[id(message)]["keep"].max() >= threshold))
    return {why: f"{sum(values)}/{len(values)}" for why, values in sorted(kept.items())}
