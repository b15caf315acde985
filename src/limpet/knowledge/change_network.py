"""The arithmetic of the model of change. training/change/network.py trains the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
        return cls(weights, float(weights.pop("gate")))

    def score(self, pieces: Floats) -> float:
        """Return the logit that a text tells of a change, from the vectors of its word pieces."""
        w = self.weights
        x = _normalize(pieces @ w["proj"] + w["proj_bias"], w["norm"], w["norm_bias"])
        x = _normalize(x + _convolve(x, w["near"], w["near_bias"], 1), w["norm2"], w["norm2_bias"])
        x = x + _convolve(x, w["far"], w["far_bias"], 2)
        look = x @ w["look"] + w["look_bias"]
        look = np.exp(look - look.max(axis=0))
        pooled = np.concatenate([((look / look.sum(axis=0)).T @ x).reshape(-1), x.max(axis=0)])
        hidden = np.maximum(pooled @ w["hidden"] + w["hidden_bias"], 0)
        return float((hidden @ w["out"] + w["out_bias"])[0])

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


def _convolve(x: Floats, weights: Floats, bias: Floats, distance: int) -> Floats:
    """A piece and its neighbours at a distance; ``weights`` are for the earlier one, the piece and the later one."""
    y = x @ weights[1] + bias
    if len(x) > distance:
        y[distance:] += x[:-distance] @ weights[0]
        y[:-distance] += x[distance:] @ weights[2]
    result: Floats = np.maximum(y, 0)
    return result


def _normalize(x: Floats, scale: Floats, bias: Floats) -> Floats:
    centred = x - x.mean(axis=1, keepdims=True)
    result: Floats = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * scale + bias
    return result
