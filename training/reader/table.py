"""Make the table the reader starts from: a vector for each word piece, from all-MiniLM-L6-v2 (Apache-2.0).

    python training/reader/table.py MODEL_FOLDER      # model.safetensors and vocab.txt

The vector of a piece is the model's output for that piece alone, in the first principal directions. Pieces of
scripts that nobody in the training data writes are left out.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

SIZE = 128
KEPT = re.compile(r"(?:##)?[\x21-\x7eà-ÿœß€£]+$|\[(?:UNK|SEP)\]$")


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if entry.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = torch.tensor(np.frombuffer(raw[start:end], "<f4").reshape(entry["shape"]).copy())
    return found


def encode(state: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """The model's last layer for short rows without padding."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    x = state["embeddings.word_embeddings.weight"][ids] + state["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + state["embeddings.position_embeddings.weight"][: ids.shape[1]], "embeddings.LayerNorm")
    rows, count, size = x.shape
    for at in range(6):
        layer = f"encoder.layer.{at}"
        query, key, value = (
            linear(x, f"{layer}.attention.self.{part}").view(rows, count, 12, size // 12).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(rows, count, size)
        x = norm(x + linear(seen, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = functional.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x


def main() -> None:
    folder = Path(sys.argv[1])
    vocabulary = folder.joinpath("vocab.txt").read_text().split("\n")
    state = read_safetensors(folder / "model.safetensors")
    kept = [at for at, piece in enumerate(vocabulary) if KEPT.match(piece) and not piece.startswith("[unused")]
    first, last = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    rows = []
    with torch.no_grad():
        for at in range(0, len(kept), 1024):
            ids = torch.tensor([[first, number, last] for number in kept[at : at + 1024]])
            rows.append(encode(state, ids)[:, 1])
    x = torch.cat(rows).numpy().astype(np.float64)
    x -= x.mean(0)
    directions = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :SIZE]
    x = x @ directions
    x *= 0.5 / x.std(0).mean()
    names = "\n".join(vocabulary[at] for at in kept)
    out = Path(__file__).with_name("table.npz")
    np.savez(out, table=x.astype(np.float32), vocabulary=np.frombuffer(names.encode(), dtype=np.uint8))
    print(len(kept), "pieces", out)


if __name__ == "__main__":
    main()
