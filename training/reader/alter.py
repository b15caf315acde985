"""Messages without labels made from labelled ones, for the teachers to judge.

A word is exchanged for one near to it in the table of word pieces, a message is written carelessly, two are joined.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
from examples import Clause, Message

from limpet.knowledge.segment import split_clauses

FREQUENT = 400  # the first words of the vocabulary are its most frequent: they stay
NEAR = 8
EXCHANGED = 0.25
COPIES = {"lives": 4, "frames": 0}
OTHER_COPIES = 10
_WORD = re.compile(r"[A-Za-z]{3,}")


class Neighbours:
    def __init__(self, table: np.ndarray, vocabulary: list[str], texts: list[str]) -> None:
        words = [(at, word) for at, word in enumerate(vocabulary) if re.fullmatch("[a-z]{3,}", word)][FREQUENT:]
        rows = table[[at for at, _ in words]]
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        used = {word.lower() for text in texts for word in _WORD.findall(text)}
        asked = [at for at, (_, word) in enumerate(words) if word in used]
        self.near: dict[str, list[str]] = {}
        for start in range(0, len(asked), 512):
            some = asked[start : start + 512]
            best = np.argpartition(-(rows[some] @ rows.T), NEAR + 1, axis=1)[:, : NEAR + 1]
            for at, found in zip(some, best, strict=True):
                self.near[words[at][1]] = [words[other][1] for other in found if other != at]

    def exchange(self, text: str, pick: random.Random) -> str:
        def change(found: re.Match[str]) -> str:
            word = found.group()
            near = self.near.get(word.lower())
            if near is None or pick.random() > EXCHANGED:
                return word
            other = pick.choice(near)
            return other.upper() if word.isupper() else other.capitalize() if word[0].isupper() else other

        return _WORD.sub(change, text)


def alter(folds: list[list[Message]], near: Neighbours) -> Iterator[Message]:
    """Each copy has the group of its message; a joined one has both parts from one fold."""
    pick = random.Random(1)
    for fold in folds:
        for message in fold:
            for _ in range(COPIES.get(message.source, OTHER_COPIES)):
                text = near.exchange(message.text, pick)
                if text != message.text:
                    yield leave_unlabelled(text, message.before, message.group)
            if message.source == "frames":
                continue
            if pick.random() < 0.5:
                text = message.text.lower().replace("'", "").replace("’", "").rstrip(".")
                yield leave_unlabelled(text, message.before.lower(), message.group)
            if pick.random() < 0.5:
                first, second = message.text.rstrip(), pick.choice(fold).text
                text = f"{first}{'' if first[-1:] in '.!?' else '.'} {second}"
                yield leave_unlabelled(text, message.before, message.group)


def leave_unlabelled(text: str, before: str, group: str) -> Message:
    return Message(group, text, before, [Clause(start, end, 0.0, 0.0) for start, end in split_clauses(text)])
