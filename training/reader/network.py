"""The reader as a torch module, and messages as batches. ``limpet.knowledge.reader_network`` computes the same."""

from __future__ import annotations

import numpy as np
import torch
from examples import Message, targets
from torch import Tensor, nn
from torch.nn import functional

from limpet.knowledge.pieces import Pieces
from limpet.knowledge.reader import ATTRIBUTES, KINDS, MAX_BEFORE, MAX_PIECES, STATUSES

HEADS = {"keep": 1, "kind": len(KINDS), "attribute": len(ATTRIBUTES), "status": len(STATUSES), "about": 1}


class Batch:
    """Messages as rows of pieces. ``owners`` gives the clause of each piece; one of the turn before has none."""

    def __init__(self, messages: list[Message], pieces: Pieces, *, sep: int) -> None:
        rows, shapes, parts, owners = [], [], [], []
        clauses = [clause for message in messages for clause in message.clauses]
        base = 0
        for message in messages:
            if message.cut is None:
                message.cut = _cut(message, pieces, sep)
            row, shape, own = message.cut
            rows.append(row)
            shapes.append(shape)
            parts.append([int(owner < 0) for owner in own])
            owners.append([owner if owner < 0 else owner + base for owner in own])
            base += len(message.clauses)
        width = max(map(len, rows))
        self.ids = _padded(rows, width, 0)
        self.mask = _padded([[1] * len(row) for row in rows], width, 0).bool()
        self.shapes, self.parts = _padded(shapes, width, 0), _padded(parts, width, 0)
        self.owners = _padded(owners, width, -1)
        self.rows = torch.tensor([at for at, message in enumerate(messages) for _ in message.clauses])
        self.count = len(clauses)
        self.keep = torch.tensor([clause.keep for clause in clauses])
        self.weight = torch.tensor([clause.weight for clause in clauses])
        soft = [targets(clause) for clause in clauses]
        self.soft = {
            name: torch.tensor([row[name] for row in soft]) for name in ("kind", "attribute", "status", "about")
        }


def _cut(message: Message, pieces: Pieces, sep: int) -> tuple[list[int], list[int], list[int]]:
    """The pieces of the turn before and of the message, their shapes, and the clause of each."""
    numbers, places, shapes = (part[:MAX_PIECES] for part in pieces.cut(message.text))
    early, _, early_shapes = (part[-MAX_BEFORE:] for part in pieces.cut(message.before))
    owners = np.searchsorted([clause.start for clause in message.clauses], places, side="right") - 1
    return [*early, sep, *numbers], [*early_shapes, 0, *shapes], [-1] * (len(early) + 1) + owners.tolist()


def _padded(rows: list[list[int]], width: int, filling: int) -> Tensor:
    return torch.tensor([row + [filling] * (width - len(row)) for row in rows])


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
            x = x * (torch.rand(ids.shape) > self.word_dropout)[..., None]
        x = functional.dropout(x + self.shape(batch.shapes) + self.part(batch.parts), self.dropout, self.training)
        x = x * mask[..., None]
        for block in self.blocks:
            x = block(x, mask) * mask[..., None]
        x = self.norm(x)
        inside = batch.owners >= 0
        flat, owner = x[inside], batch.owners[inside]
        score = torch.exp(self.look(flat).clamp(-8, 8))
        total = torch.zeros(batch.count, self.queries).index_add(0, owner, score) + 1e-9
        pooled = torch.stack([
            torch.zeros(batch.count, x.shape[2]).index_add(0, owner, flat * score[:, at : at + 1])
            for at in range(self.queries)
        ], 1) / total[..., None]  # fmt: skip
        highest = torch.full((batch.count, x.shape[2]), -1e4).index_reduce(0, owner, flat, "amax")
        highest = torch.where(highest < -9e3, torch.zeros(()), highest)
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
    for name in ("kind", "attribute", "status"):
        target = batch.soft[name]
        known = target.sum(1) > 0
        if known.any():
            total = total + soft_weight * functional.cross_entropy(out[name][known], target[known])
    known = batch.soft["about"][:, 0] >= 0
    if known.any():
        total = total + soft_weight * functional.binary_cross_entropy_with_logits(
            out["about"][known, 0], batch.soft["about"][known, 0]
        )
    return total
