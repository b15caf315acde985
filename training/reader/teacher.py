"""The teacher: MiniLM that reads a message with the turn before it, with the heads of the reader on its clauses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from network import HEADS, Batch
from torch import Tensor, nn
from torch.nn import functional

LAYERS, ATTENTION = 6, 12


def read_packed(path: Path) -> dict[str, Tensor]:
    """MiniLM's weights, its matrices at eight bits with a scale a row."""
    weights = {}
    with np.load(path) as stored:
        for name in stored.files:
            if not name.endswith("|scale"):
                scale = stored[f"{name}|scale"][:, None] if f"{name}|scale" in stored.files else 1.0
                weights[name] = torch.tensor(stored[name].astype(np.float32) * scale, dtype=torch.float32)
    return weights


class Layer(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))
        self.norm, self.norm_out = nn.LayerNorm(size, 1e-12), nn.LayerNorm(size, 1e-12)
        self.wide, self.back = nn.Linear(size, inner), nn.Linear(inner, size)

    def forward(self, x: Tensor, seen: Tensor, dropout: float) -> Tensor:
        rows, count, size = x.shape
        query, key, value = (
            part(x).view(rows, count, ATTENTION, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        mixed = self.output(mixed.transpose(1, 2).reshape(rows, count, size))
        x = self.norm(x + functional.dropout(mixed, dropout, self.training))
        y = self.back(functional.gelu(self.wide(x)))
        return self.norm_out(x + functional.dropout(y, dropout, self.training))


def fill_layers(weights: dict[str, Tensor], norm: nn.LayerNorm, layers: nn.ModuleList) -> None:
    """Give the first norm and the layers MiniLM's weights."""
    names = {
        "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
        "output": "attention.output.dense", "norm": "attention.output.LayerNorm", "wide": "intermediate.dense",
        "back": "output.dense", "norm_out": "output.LayerNorm",
    }  # fmt: skip
    pairs = [(norm, "embeddings.LayerNorm")]
    for at, layer in enumerate(layers):
        pairs += [(getattr(layer, own), f"encoder.layer.{at}.{name}") for own, name in names.items()]
    for module, name in pairs:
        module.load_state_dict({part: weights[f"{name}.{part}"] for part in ("weight", "bias")})


class Teacher(nn.Module):
    def __init__(self, weights: dict[str, Tensor], first: int, dropout: float = 0.1) -> None:
        super().__init__()
        words = weights["embeddings.word_embeddings.weight"]
        size = words.shape[1]
        self.words = nn.Embedding.from_pretrained(words.clone(), freeze=False)
        self.places = nn.Embedding.from_pretrained(
            weights["embeddings.position_embeddings.weight"].clone(), freeze=False
        )
        self.shape, self.part = nn.Embedding(4, size), nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.layers = nn.ModuleList(Layer(size, 4 * size) for _ in range(LAYERS))
        self._fill(weights)
        self.first, self.dropout = first, dropout
        self.look = nn.Linear(size, 2, bias=False)
        self.hidden = nn.Linear(size * 4, 256)
        self.heads = nn.ModuleDict({name: nn.Linear(256, count) for name, count in HEADS.items()})

    def _fill(self, weights: dict[str, Tensor]) -> None:
        types = weights["embeddings.token_type_embeddings.weight"][0]
        with torch.no_grad():
            self.part.weight.copy_(types.expand(2, -1))
            self.shape.weight.zero_()
        fill_layers(weights, self.norm, self.layers)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        rows = len(batch.ids)
        ids = torch.cat([batch.ids.new_full((rows, 1), self.first), batch.ids], 1)
        mask = torch.cat([batch.mask.new_ones((rows, 1)), batch.mask], 1)
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        blank = batch.parts.new_zeros((rows, 1))
        x = x + self.shape(torch.cat([blank, batch.shapes], 1)) + self.part(torch.cat([blank + 1, batch.parts], 1))
        x = functional.dropout(self.norm(x), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :], self.dropout)
        x = x[:, 1:].float()
        inside = batch.owners >= 0
        flat, owner = x.flatten(0, 1)[batch.inside], batch.owners.flatten()[batch.inside]
        weight = torch.cat([torch.exp(self.look(flat).float().clamp(-8, 8)), flat.new_ones(len(flat), 1)], 1)
        total = x.new_zeros(batch.count, 3).index_add(0, owner, weight) + 1e-9
        pooled = [
            x.new_zeros(batch.count, x.shape[2]).index_add(0, owner, flat * weight[:, at : at + 1])
            / total[:, at : at + 1]
            for at in range(3)
        ]
        message = (x * inside[..., None]).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
        y = functional.dropout(torch.cat([*pooled, message[batch.rows]], 1), self.dropout, self.training)
        y = functional.relu(self.hidden(y))
        y = functional.dropout(y, self.dropout, self.training)
        return {name: head(y).float() for name, head in self.heads.items()}
