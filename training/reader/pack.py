"""Write a trained network in the form that ``limpet.knowledge.reader_network`` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from network import Network


def pack(network: Network, vocabulary: list[str], calibration: list[float], path: Path) -> None:
    """The table at eight bits with a scale a row, the rest at sixteen."""
    state = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    table = state["table.weight"]
    scale = np.abs(table).max(1) / 127 + 1e-12
    data: dict[str, np.ndarray] = {
        "format": np.array(1),
        "vocabulary": np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8),
        "table": np.round(table / scale[:, None]).astype(np.int8),
        "scale": scale.astype(np.float16),
        "shape": state["shape.weight"],
        "part": state["part.weight"],
        "norm": state["norm.weight"],
        "norm_bias": state["norm.bias"],
        "look": state["look.weight"].T,
        "wide": state["wide.weight"].T,
        "hidden": state["hidden.weight"].T,
        "hidden_bias": state["hidden.bias"],
        "distances": np.array([block.mix.dilation[0] for block in network.blocks]),
        "calibration": np.array(calibration, dtype=np.float64),
    }
    for at in range(len(network.blocks)):
        mix = state[f"blocks.{at}.mix.weight"]  # hidden, size, 3
        data |= {
            f"{at}.norm": state[f"blocks.{at}.norm.weight"],
            f"{at}.norm_bias": state[f"blocks.{at}.norm.bias"],
            f"{at}.mix": np.concatenate([mix[:, :, tap].T for tap in range(3)], axis=1),
            f"{at}.bias": state[f"blocks.{at}.mix.bias"],
            f"{at}.out": state[f"blocks.{at}.out.weight"].T,
            f"{at}.out_bias": state[f"blocks.{at}.out.bias"],
        }
    names = ("keep", "about", "kind", "attribute", "status")
    data["heads"] = np.concatenate([state[f"heads.{name}.weight"].T for name in names], axis=1)
    data["heads_bias"] = np.concatenate([state[f"heads.{name}.bias"] for name in names])
    data["ends"] = np.cumsum([len(state[f"heads.{name}.bias"]) for name in names])[2:]
    halved = {name: value.astype(np.float16) if value.dtype == np.float32 else value for name, value in data.items()}
    np.savez_compressed(path, **halved)
    print(path, path.stat().st_size, "bytes")
