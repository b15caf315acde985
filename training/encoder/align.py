"""Turns new weights onto the space of older ones: python -m training.encoder.align OLD.npz NEW.npz OUT.npz.

A rotation leaves every cosine as it is, so recall does not change. The model of change reads the rows of word pieces:
after the rotation it keeps working without another training.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

_FIRST_WORD = 999  # pieces are numbered by frequency, after the reserved ones


def read_rows(weights: dict[str, np.ndarray]) -> np.ndarray:
    rows: np.ndarray = weights["table"].astype(np.float64) * weights["scale"].astype(np.float64)[:, None]
    return rows


def align(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the new weights, rotated and scaled so that their rows are nearest to the old ones."""
    target, rows = read_rows(old), read_rows(new)
    frequency = 1 / np.sqrt(np.maximum(np.arange(len(rows)) - _FIRST_WORD, 0) + 100.0)[:, None]
    left, strength, right = np.linalg.svd(rows.T @ (frequency * target))
    rotation, factor = left @ right, strength.sum() / np.sum(frequency * rows**2)
    turned = factor * rows @ rotation
    scale = np.maximum(np.abs(turned).max(1), 1e-9) / 127
    changed = {
        "table": np.round(turned / scale[:, None]),
        "scale": scale,
        "first": new["first"].astype(np.float64) @ rotation / factor,
        "second": factor * rotation.T @ new["second"].astype(np.float64),
        "second_bias": factor * new["second_bias"].astype(np.float64) @ rotation,
        "pool": new["pool"].astype(np.float64) @ rotation / factor,
        "widen": new["widen"].astype(np.float64) @ rotation,
        "narrow": rotation.T @ new["narrow"].astype(np.float64),
        "narrow_bias": new["narrow_bias"].astype(np.float64) @ rotation,
    }
    return new | {name: values.astype(new[name].dtype) for name, values in changed.items()}


def main() -> None:
    old, new, out = (Path(argument) for argument in sys.argv[1:4])
    with np.load(old) as first, np.load(new) as second:
        aligned = align(dict(first), dict(second))
        rows, target = read_rows(aligned), read_rows(dict(first))
    np.savez(out, **aligned)  # type: ignore[arg-type]  # the stub takes a name for allow_pickle
    near = (rows * target).sum(1) / np.maximum(np.linalg.norm(rows, axis=1) * np.linalg.norm(target, axis=1), 1e-9)
    print(f"{out}: mean cosine of the rows with the old ones {near[_FIRST_WORD:].mean():.3f}")


if __name__ == "__main__":
    main()
