"""The reader's arithmetic: word pieces in, scores for each clause out. training/reader/network.py trains the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limpet.knowledge.segment import Pieces
from limpet.model.dataclass import dataclass

Floats = NDArray[np.float32]
Scores = tuple[float, int, int, float, int, bool]
_LIMIT = 8.0  # of a pooling score before it is exponentiated
_FORMAT = 1
_ROWS = 32  # of a product, at a time
_SMALL = 250_000  # multiplications that OpenBLAS does in the calling thread


@dataclass(frozen=True, slots=True)
class Block:
    """A convolution over a piece and its two neighbours at a distance, and the way back to the piece's size."""

    distance: int
    norm: tuple[Floats, Floats]
    mix: Floats  # laid out; its columns are for the earlier neighbour, the piece and the later neighbour
    bias: Floats
    out: Floats
    out_bias: Floats

    def apply(self, x: Floats) -> Floats:
        hidden = len(self.bias)
        y = multiply(normalize(x, *self.norm), self.mix)
        z: Floats = y[:, hidden : 2 * hidden] + self.bias
        if len(x) > self.distance:
            z[self.distance :] += y[: -self.distance, :hidden]
            z[: -self.distance] += y[self.distance :, 2 * hidden :]
        np.maximum(z, 0, out=z)
        mixed = multiply(z, self.out)
        mixed += x
        mixed += self.out_bias
        return mixed


@dataclass(frozen=True, slots=True)
class ReaderNetwork:
    pieces: Pieces
    separator: int
    table: NDArray[np.int8]
    scale: Floats
    shape: Floats
    part: Floats
    blocks: tuple[Block, ...]
    norm: tuple[Floats, Floats]
    look: Floats
    wide: Floats
    hidden: tuple[Floats, Floats]
    heads: tuple[Floats, Floats]  # keep, about, kind, attribute, status, side by side
    ends: tuple[int, ...]  # of kind, attribute and status in it
    calibration: tuple[float, float, float]  # keep's slope and offset, attribute's slope

    @classmethod
    def load(cls, path: Path) -> ReaderNetwork:
        with np.load(path, allow_pickle=False) as stored:
            data = {name: stored[name] for name in stored.files}
        if int(data["format"]) != _FORMAT:
            raise ValueError(
                f"{path} has format {int(data['format'])}, but this version reads {_FORMAT}: train it again"
            )

        def get(name: str) -> Floats:
            return np.ascontiguousarray(data[name], dtype=np.float32)

        vocabulary = data["vocabulary"].tobytes().decode().split("\n")
        blocks = tuple(
            Block(int(distance), (get(f"{at}.norm"), get(f"{at}.norm_bias")), lay_out(get(f"{at}.mix")),
                  get(f"{at}.bias"), lay_out(get(f"{at}.out")), get(f"{at}.out_bias"))
            for at, distance in enumerate(data["distances"])
        )  # fmt: skip
        slope, offset, sharpness = (float(value) for value in data["calibration"])
        return cls(
            pieces=Pieces(vocabulary, vocabulary.index("[UNK]")), separator=vocabulary.index("[SEP]"),
            table=data["table"], scale=get("scale"), shape=get("shape"), part=get("part"), blocks=blocks,
            norm=(get("norm"), get("norm_bias")), look=get("look"), wide=get("wide"),
            hidden=(lay_out(get("hidden")), get("hidden_bias")), heads=(lay_out(get("heads")), get("heads_bias")),
            ends=tuple(int(end) for end in data["ends"]), calibration=(slope, offset, sharpness),
        )  # fmt: skip

    def score(
        self, numbers: list[int], shapes: list[int], groups: Sequence[tuple[list[int], int]]
    ) -> list[list[Scores]]:
        """Score the clauses of each way to divide the pieces. The pieces are encoded once for all of them.

        A group gives the clause of each piece, in order, and how many there are; -1 is the turn before.
        """
        owners = [np.asarray(owner) for owner, _ in groups]
        x = self._encode(np.asarray(numbers), np.asarray(shapes), owners[0] < 0)
        wide = _exponentiate(x @ self.wide)
        pooled = [self._pool(x, wide, owner, count) for owner, (_, count) in zip(owners, groups, strict=True)]
        scores = iter(self._decide(np.concatenate(pooled)))
        return [list(islice(scores, count)) for _, count in groups]

    def _decide(self, rows: Floats) -> Iterator[Scores]:
        """Yield for each row: keep, kind, attribute, how sure of it, status, and whether it is about the writer."""
        y = np.maximum(multiply(rows, self.hidden[0]) + self.hidden[1], 0)
        out = multiply(y, self.heads[0]) + self.heads[1]
        slope, offset, sharpness = self.calibration
        keep = 1 / (1 + np.exp(-(slope * out[:, 0] + offset)))
        kind_end, attribute_end, _ = self.ends
        kind = out[:, 2:kind_end].argmax(1)
        attribute = out[:, kind_end:attribute_end]
        status = out[:, attribute_end:].argmax(1)
        sure = np.exp(sharpness * (attribute - attribute.max(1, keepdims=True)))
        sure = (sure / sure.sum(1, keepdims=True)).max(1)
        best = attribute.argmax(1)
        for at in range(len(rows)):
            yield float(keep[at]), int(kind[at]), int(best[at]), float(sure[at]), int(status[at]), bool(out[at, 1] > 0)

    def _encode(self, numbers: NDArray[np.int_], shapes: NDArray[np.int_], early: NDArray[np.bool_]) -> Floats:
        x: Floats = self.table[numbers] * self.scale[numbers][:, None]
        x += self.shape[shapes]
        x += self.part[early.astype(np.intp)]
        for block in self.blocks:
            x = block.apply(x)
        return normalize(x, *self.norm)

    def _pool(self, x: Floats, wide: Floats, owner: NDArray[np.int_], count: int) -> Floats:
        """Return a row for each clause: weighted means of its pieces, their maximum, the message, the turn before."""
        size, looks = x.shape[1], self.look.shape[1]
        inside = owner >= 0
        own, owner = x[inside], owner[inside]
        rows = np.zeros((count, size * (looks + 3)), dtype=np.float32)
        if len(own):
            starts = np.flatnonzero(np.diff(owner, prepend=-1))  # where a clause begins
            present = owner[starts]
            weight = _exponentiate(own @ self.look)
            means = np.add.reduceat(own[:, None, :] * weight[:, :, None], starts)
            means /= np.add.reduceat(weight, starts)[:, :, None]
            rows[present, : looks * size] = means.reshape(len(present), -1)
            rows[present, looks * size : -2 * size] = np.maximum.reduceat(own, starts)
        for at, seen in enumerate((inside, ~inside)):
            weight = wide[seen, at]
            if len(weight):
                low = (at - 2) * size
                rows[:, low : low + size if at == 0 else None] = np.einsum("i,ij->j", weight, x[seen]) / weight.sum()
        return rows


def _exponentiate(scores: Floats) -> Floats:
    weights: Floats = np.exp(np.minimum(np.maximum(scores, -_LIMIT), _LIMIT))
    return weights


def lay_out(weights: Floats) -> Floats:
    """Cut a matrix into parts (part, row, column) for ``multiply``."""
    size, width = weights.shape
    parts = next(
        parts for parts in range(1, width + 1) if width % parts == 0 and width // parts * size * _ROWS <= _SMALL
    )
    return np.ascontiguousarray(weights.reshape(size, parts, -1).transpose(1, 0, 2))


def multiply(x: Floats, parts: Floats) -> Floats:
    """Return the product, in steps so small that OpenBLAS starts no threads: on a busy machine they mostly wait."""
    rows, size = x.shape
    steps = -(-rows // _ROWS)
    step = max(2, -(-rows // steps))  # a single row is a product of another kind, with other limits
    if rows < steps * step:
        x = np.concatenate([x, np.zeros((steps * step - rows, size), dtype=np.float32)])
    product: Floats = np.matmul(x.reshape(steps, 1, step, size), parts[None])
    return product.transpose(0, 2, 1, 3).reshape(len(x), -1)[:rows]


def normalize(x: Floats, scale: Floats, bias: Floats) -> Floats:
    """Each row with mean zero and spread one, then scaled and shifted."""
    size = x.shape[1]
    y: Floats = x - np.add.reduce(x, axis=1, keepdims=True) / size
    y /= np.sqrt(np.add.reduce(y * y, axis=1, keepdims=True) / size + 1e-5)
    y *= scale
    y += bias
    return y
