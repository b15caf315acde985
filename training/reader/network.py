"""The reader as a torch module, and messages as batches. ``limpet.knowledge.reader_network`` computes the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from examples import Message
from torch import Tensor, nn
from torch.nn import functional

from limpet.knowledge.reader import ATTRIBUTES, KINDS, MAX_BEFORE, MAX_PIECES, STATUSES
from limpet.knowledge.segment import Pieces

HEADS = {"keep": 1, "kind": len(KINDS), "attribute": len(ATTRIBUTES), "status": len(STATUSES), "about": 1}


@dataclass
class Batch:
    """Messages as rows of pieces, padded; and their clauses, one after the other."""

    ids: Tensor
    mask: Tensor  # where there is a piece
    shapes: Tensor
    parts: Tensor  # 1 for the turn before
    owners: Tensor  # the clause of each piece; one of the turn before has none, -1
    inside: Tensor  # the places of the pieces that have one, in the rows laid end to end
    rows: Tensor  # the message of each clause
    count: int  # of clauses
    keep: Tensor
    weight: Tensor
    soft: dict[str, Tensor]
    place: Tensor  # of each clause among all


def cut_message(message: Message, pieces: Pieces, sep: int) -> tuple[list[int], list[int], list[int]]:
    """The pieces of the turn before and of the message, their shapes, and the clause of each."""
    numbers, places, shapes = (part[:MAX_PIECES] for part in pieces.cut(message.text))
    early, _, early_shapes = (part[-MAX_BEFORE:] for part in pieces.cut(message.before))
    owners = np.searchsorted([clause.start for clause in message.clauses], places, side="right") - 1
    return [*early, sep, *numbers], [*early_shapes, 0, *shapes], [-1] * (len(early) + 1) + owners.tolist()


class Block(nn.Module):
    """Each piece with its neighbours, through one hidden layer, added to what it was."""

    def __init__(self, size: int, hidden: int, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.mix = nn.Conv1d(size, hidden, width, padding=dilation * (width // 2), dilation=dilation)
        self.out = nn.Linear(hidden, size)
        self.dropout = dropout
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.norm(x) * mask[..., None]
        y = functional.relu(self.mix(y.transpose(1, 2)).transpose(1, 2))
        return x + self.out(functional.dropout(y, self.dropout, self.training))


class Network(nn.Module):
    def __init__(self, table: Tensor, *, hidden: int = 192, dropout: float = 0.2, queries: int = 4) -> None:
        super().__init__()
        size = table.shape[1]
        self.table = nn.Embedding.from_pretrained(table.clone(), freeze=False)
        self.shape = nn.Embedding(4, size)
        self.part = nn.Embedding(2, size)
        nn.init.zeros_(self.shape.weight)
        nn.init.zeros_(self.part.weight)
        self.blocks = nn.ModuleList(Block(size, hidden, 3, dilation, dropout) for dilation in (1, 2, 4))
        self.norm = nn.LayerNorm(size)
        self.look = nn.Linear(size, queries, bias=False)
        self.wide = nn.Linear(size, 2, bias=False)  # over the whole message, over the turn before
        self.hidden = nn.Linear(size * (queries + 3), 128)
        self.heads = nn.ModuleDict({name: nn.Linear(128, count) for name, count in HEADS.items()})
        self.dropout, self.queries = dropout, queries
        self.word_dropout = 0.1

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        ids, mask = batch.ids, batch.mask
        x = self.table(ids)
        if self.training:
            x = x * (torch.rand(ids.shape, device=ids.device) > self.word_dropout)[..., None]
        x = functional.dropout(x + self.shape(batch.shapes) + self.part(batch.parts), self.dropout, self.training)
        x = x * mask[..., None]
        for block in self.blocks:
            x = block(x, mask) * mask[..., None]
        x = self.norm(x)
        inside = batch.owners >= 0
        flat, owner = x.flatten(0, 1)[batch.inside], batch.owners.flatten()[batch.inside]
        score = torch.exp(self.look(flat).clamp(-8, 8))
        total = x.new_zeros(batch.count, self.queries).index_add(0, owner, score) + 1e-9
        pooled = torch.stack([
            x.new_zeros(batch.count, x.shape[2]).index_add(0, owner, flat * score[:, at : at + 1])
            for at in range(self.queries)
        ], 1) / total[..., None]  # fmt: skip
        highest = x.new_full((batch.count, x.shape[2]), -1e4).index_reduce(0, owner, flat, "amax")
        highest = torch.where(highest < -9e3, x.new_zeros(()), highest)
        wide = torch.exp(self.wide(x).clamp(-8, 8))
        around = []
        for at, seen in enumerate((inside, mask & ~inside)):
            weight = wide[..., at] * seen
            around.append(((x * weight[..., None]).sum(1) / (weight.sum(1, keepdim=True) + 1e-9))[batch.rows])
        y = torch.cat([pooled.flatten(1), highest, *around], 1)
        y = functional.relu(self.hidden(functional.dropout(y, self.dropout, self.training)))
        y = functional.dropout(y, self.dropout, self.training)
        return {name: head(y) for name, head in self.heads.items()}


def loss_of(out: dict[str, Tensor], batch: Batch, *, soft_weight: float) -> Tensor:
    keep = functional.binary_cross_entropy_with_logits(out["keep"][:, 0], batch.keep, batch.weight, reduction="sum")
    total = keep / batch.weight.sum().clamp(min=1)
    for name in ("kind", "attribute", "status"):  # a row of zeros costs nothing
        target = batch.soft[name]
        lost = functional.cross_entropy(out[name], target, reduction="sum")
        total = total + soft_weight * lost / target.sum().clamp(min=1)
    about = batch.soft["about"][:, 0]
    lost = functional.binary_cross_entropy_with_logits(out["about"][:, 0], about.clamp(min=0), reduction="none")
    return total + soft_weight * (lost * (about >= 0)).sum() / (about >= 0).sum().clamp(min=1)
