"""The arithmetic of the model of change. training/change/network.py trains the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limpet.knowledge.reader_network import lay_out, multiply, normalize
from limpet.model.dataclass import dataclass

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ChangeNetwork:
    weights: dict[str, Floats]
    gate: float  # the least score of a message that is compared with what is known

    @classmethod
    def load(cls, path: Path) -> ChangeNetwork:
        with np.load(path, allow_pickle=False) as stored:
            weights = {name: stored[name].astype(np.float32) for name in stored.files}
        return cls.from_weights(weights, float(weights.pop("gate")))

    @classmethod
    def from_weights(cls, weights: dict[str, Floats], gate: float) -> ChangeNetwork:
        sides = {name: lay_out(np.concatenate(list(weights[name]), axis=1)) for name in ("near", "far")}
        return cls({**weights, **sides, "proj": lay_out(weights["proj"])}, gate)

    def score(self, texts: Sequence[Floats]) -> list[float]:
        """Return for each text the logit that it tells of a change, from the vectors of its word pieces."""
        w = self.weights
        lengths = np.array([len(text) for text in texts])
        starts, owner = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(texts)), lengths)
        x = normalize(multiply(np.concatenate(texts), w["proj"]) + w["proj_bias"], w["norm"], w["norm_bias"])
        x = normalize(x + _convolve(x, w["near"], w["near_bias"], 1, owner), w["norm2"], w["norm2_bias"])
        x = x + _convolve(x, w["far"], w["far_bias"], 2, owner)
        look = x @ w["look"] + w["look_bias"]
        look = np.exp(look - np.maximum.reduceat(look, starts)[owner])
        look /= np.add.reduceat(look, starts)[owner]
        means = [np.add.reduceat(x * look[:, at : at + 1], starts) for at in (0, 1)]
        pooled = np.concatenate([*means, np.maximum.reduceat(x, starts)], axis=1)
        hidden = np.maximum(pooled @ w["hidden"] + w["hidden_bias"], 0)
        scores: list[float] = (hidden @ w["out"] + w["out_bias"])[:, 0].tolist()
        return scores

    def judge(self, features: list[float]) -> float:
        """Return the probability that a message takes a claim back."""
        w = self.weights
        x = (np.array(features, dtype=np.float32) - w["mean"]) / w["spread"]
        hidden = np.maximum(x @ w["judge"] + w["judge_bias"], 0)
        return float(1 / (1 + np.exp(-(hidden @ w["verdict"] + w["verdict_bias"])[0])))

    def doubt(self, features: list[float]) -> float:
        """Return the same probability among people of whom much is known and little changes."""
        x = np.array(features, dtype=np.float32)
        return float(1 / (1 + np.exp(-(x @ self.weights["doubt"] + self.weights["doubt_bias"][0]))))


def _convolve(x: Floats, weights: Floats, bias: Floats, distance: int, owner: NDArray[np.int_]) -> Floats:
    """A piece and its neighbours at a distance, in the same text: the earlier one, the piece and the later one."""
    size = len(bias)
    parts = multiply(x, weights)
    y: Floats = parts[:, size : 2 * size] + bias
    here = np.flatnonzero(owner[distance:] == owner[:-distance])
    y[here + distance] += parts[here, :size]
    y[here] += parts[here + distance, 2 * size :]
    return np.maximum(y, 0, out=y)
