"""Fit what the model of change says in ordinary talk: python training/change/fit.py [--write]

The judge of train.py learned from people of whom eight things are known and most messages come close to one. Here its
features are weighed again by a logistic regression, on stories in which one thing changes and on talk in which little
does (bench/src/limpet_bench/truth, but the newest sets). The same is done for the question that brings both up, with
the judge's verdict, which has seen neither. Prints, set by set left out, how many changes are found at how many true
facts marked; then the weights. ``--write`` adds the first ones to the weights in the package; the others are constants
of src/limpet/knowledge/outdated.py.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from limpet.knowledge import change
from limpet.knowledge.candidate import TurnMessage
from limpet.knowledge.english import find_topics
from limpet.knowledge.read import read_turn
from limpet.knowledge.similarity import compute_signature
from limpet.model.message import Role
from limpet.providers.encoder import embed_text
from limpet_bench.truth.data import load
from limpet_bench.truth.text import mentions, overlaps

DAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
UNSEEN = ("y", "z", "b", "g", "h", "i")  # the sets that nothing is fitted on
FOLLOWS, RELATED, ALONE, LEAST_TOLD = 0.1, 0.05, 0.15, -2.0  # as in outdated.py, reconcile.py and apply.py


class Known(NamedTuple):
    """A claim, the number of its message, and whether it is the one that is asked about."""

    at: int
    content: str
    asked: bool


class Pair(NamedTuple):
    """A message and an earlier claim. ``group``: the fact that is marked if one of its pairs is."""

    id: str
    group: tuple[str, str]
    quiet: bool
    takes_back: bool
    features: list[float]
    question: list[float] | None  # what is weighed where a question brings them up


def read_claims(messages: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    for at, text in enumerate(messages):
        for each in read_turn([TurnMessage(1, Role.USER, text, DAY)]):
            yield at, each.content, each.sentence


def pair_up(messages: Sequence[str], claims: Sequence[Known], question: str | None) -> Iterator[tuple]:
    """Each message with the claims before it: the claim, the number of the message, and what is weighed."""
    for at, text in enumerate(messages):
        early = [each for each in claims if each.at < at]
        mine = [each.content for each in claims if each.at == at]
        contents = [each.content for each in early]
        near = {each: _near(each, question) for each in (*contents, *mine)} if question else {}
        for number, (clause, features) in change.measure(text, contents).items():
            claim, asked = early[number], None
            told = change.measure_telling(text)
            if question and mine and told >= LEAST_TOLD:
                likely = change.judge_pair(text, clause, claim.content, features)
                known = likely if likely >= change.DOUBTS else FOLLOWS if likely >= RELATED else 0.0
                behind = max(near.values()) - near[claim.content]
                like = max(_near(each, claim.content) for each in mine)
                others = [_near(each, other) for each in mine for other in contents if other != claim.content]
                same = any(find_topics(claim.content) & find_topics(each) for each in mine)
                close = max(_near(each, question) for each in mine)
                other = any(_has_other_number(claim.content, each) for each in mine)
                own = like - max(others, default=ALONE)
                asked = [_odds(known), told, behind, close, own, float(same), float(other)]
            yield claim, at, features, asked


def _near(text: str, question: str) -> float:
    return float(embed_text(text) @ embed_text(question))


def _has_other_number(claim: str, later: str) -> bool:
    known = compute_signature(claim).numbers
    return bool(known) and not compute_signature(later).numbers <= known


def _odds(likely: float) -> float:
    return float(np.log((likely + 0.01) / (1.01 - likely)))


def read_stories() -> Iterator[Pair]:
    for story in load("stories"):
        if story.ended or story.id.startswith(UNSEEN):
            continue
        messages = [text for _, text in story.messages]
        stated = messages.index(story.statement)
        claims = [Known(at, text, at == stated and mentions(text, story.old)) for at, text, _ in read_claims(messages)]
        if not any(each.asked for each in claims):
            claims.append(Known(stated, story.statement, asked=True))
        for claim, at, features, asked in pair_up(messages, claims, story.question):
            takes_back = claim.asked and mentions(messages[at], story.new)
            yield Pair(story.id, (story.id, claim.content), False, takes_back, features, asked)


def read_talk() -> Iterator[Pair]:
    for talk in load("quiet"):
        if talk.id.startswith(UNSEEN):
            continue
        messages = [said.text for said in talk.said]
        facts = {at: said for at, said in enumerate(talk.said) if said.fact is not None}
        found = list(read_claims(messages))
        claims = [Known(at, text, at in facts and overlaps(quote, facts[at].fact)) for at, text, quote in found]
        for asked_at, fact in facts.items():
            for claim, at, features, asked in pair_up(messages, claims, fact.question):
                if claim.at == asked_at and claim.asked:
                    takes_back = asked_at + 1 in talk.said[at].ends
                    yield Pair(talk.id, (talk.id, claim.content), True, takes_back, features, asked)


def fit(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """Weights and bias of a logistic regression on features of the same spread, by Newton's method."""
    mean, spread = x.mean(0), x.std(0) + 1e-9
    z = np.column_stack([(x - mean) / spread, np.ones(len(x))])
    ridge = np.diag([penalty] * x.shape[1] + [0.0])
    weights = np.zeros(z.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-(z @ weights)))
        weights += np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z + ridge, z.T @ (y - p) - ridge @ weights)
    return weights[:-1] / spread, float(weights[-1] - (weights[:-1] / spread) @ mean)


def report(name: str, pairs: Sequence[Pair], x: np.ndarray, penalty: float) -> None:
    """Print what is found in the sets that were left out, and fit on all."""
    y = np.array([pair.takes_back for pair in pairs], dtype=float)
    sets = np.array([pair.id[0] for pair in pairs])
    scores = np.zeros(len(pairs))
    for left_out in sorted(set(sets)):
        weights, bias = fit(x[sets != left_out], y[sets != left_out], penalty)
        scores[sets == left_out] = 1 / (1 + np.exp(-(x[sets == left_out] @ weights + bias)))
    changed, true = defaultdict[object, float](float), defaultdict[object, float](float)
    ended = {pair.group for pair in pairs if pair.quiet and pair.takes_back}
    for pair, score in zip(pairs, scores, strict=True):
        if pair.takes_back and not pair.quiet:
            changed[pair.id] = max(changed[pair.id], score)
        elif pair.quiet and pair.group not in ended and pair.id[0] in "rtu":
            true[pair.group] = max(true[pair.group], score)
    marked = sorted(true.values(), reverse=True)
    for share in (0.05, 0.1, 0.15):
        least = marked[int(share * len(marked))]
        found = np.mean([score >= least for score in changed.values()])
        print(f"{name}: from {least:.3f}, {share:.0%} of {len(marked)} true facts marked, {found:.3f} of changes found")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    wanted = parser.parse_args()
    pairs = [*read_stories(), *read_talk()]
    unique = list({(pair.group, tuple(pair.features)): pair for pair in pairs}.values())
    features = np.array([pair.features for pair in unique])
    report("by the message", unique, features, 3.0)
    weights, bias = fit(features, np.array([pair.takes_back for pair in unique], dtype=float), 3.0)
    asked = [pair for pair in pairs if pair.question is not None]
    questions = np.array([pair.question for pair in asked])
    report("by the question", asked, questions, 1.0)
    print("outdated.py:", *fit(questions, np.array([pair.takes_back for pair in asked], dtype=float), 1.0))
    if wanted.write:
        with np.load(change.WEIGHTS) as stored:
            packed = {name: stored[name] for name in stored.files}
        packed |= {"doubt": weights.astype(np.float32), "doubt_bias": np.array([bias], dtype=np.float32)}
        np.savez_compressed(change.WEIGHTS, **packed)


if __name__ == "__main__":
    main()
