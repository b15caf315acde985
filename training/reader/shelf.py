"""Many messages in a few long tensors, from which a batch is taken without touching a message again."""

from __future__ import annotations

import numpy as np
import torch
from examples import Clause, Message, targets
from network import Batch, cut_message
from torch import Tensor

from limpet.knowledge.segment import Pieces

SOFT = ("kind", "attribute", "status", "about")


class Shelf:
    def __init__(self, messages: list[Message], pieces: Pieces, *, sep: int, weights: dict[str, float]) -> None:
        cuts = [cut_message(message, pieces, sep) for message in messages]
        rows, shapes, owners = (np.concatenate([cut[part] for cut in cuts]) for part in range(3))
        self.owned = owners >= 0
        columns = {"ids": rows, "shapes": shapes, "parts": 1 - self.owned, "owners": owners}
        self.pieces = {name: torch.tensor(values, dtype=torch.long) for name, values in columns.items()}
        clauses = [(clause, weights.get(message.source, 1.5)) for message in messages for clause in message.clauses]
        self.clauses = {
            "keep": torch.tensor([clause.keep for clause, _ in clauses]),
            "weight": torch.tensor([clause.weight * weight for clause, weight in clauses]),
        }
        blank = targets(Clause(0, 0, 0.0, 0.0))
        soft = [targets(clause) if clause.claims else blank for clause, _ in clauses]
        self.soft = {name: torch.tensor([row[name] for row in soft]) for name in SOFT}
        self.lengths = np.array([len(cut[0]) for cut in cuts])
        self.counts = np.array([len(message.clauses) for message in messages])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.firsts = np.cumsum(self.counts) - self.counts
        self.device = "cpu"

    def to(self, device: str) -> Shelf:
        self.device = device
        for part in (self.pieces, self.clauses, self.soft):
            part.update({name: value.to(device) for name, value in part.items()})
        return self

    def take(self, chosen: np.ndarray) -> Batch:
        """The batch of these messages, by place."""
        lengths, counts = self.lengths[chosen], self.counts[chosen]
        width = int(lengths.max())
        mask = np.arange(width) < lengths[:, None]
        places = np.where(mask, self.starts[chosen][:, None] + np.arange(width), 0)
        bases = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(len(chosen)), counts)
        seen, where = self._send(mask), self._send(places)
        place = self._send(self.firsts[chosen][rows] + np.arange(len(rows)) - bases[rows])
        found = {name: values[where].masked_fill(~seen, 0) for name, values in self.pieces.items()}
        owned = seen & (found["owners"] >= 0)
        return Batch(
            ids=found["ids"],
            mask=seen,
            shapes=found["shapes"],
            parts=found["parts"],
            owners=torch.where(owned, found["owners"] + self._send(bases)[:, None], -1),
            inside=self._send(np.flatnonzero(mask & self.owned[places])),
            rows=self._send(rows),
            count=len(rows),
            keep=self.clauses["keep"][place],
            weight=self.clauses["weight"][place],
            soft={name: values[place] for name, values in self.soft.items()},
            place=place,
        )

    def _send(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device, non_blocking=True)
