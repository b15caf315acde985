"""The teachers: MiniLM fine-tuned on questions and the turns that answer them, and the mean of several."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from training.encoder.data import Data
from training.encoder.texts import DEVICE, Texts

TEMPERATURE = 20.0  # the cosine of a question and a text, times this, is its score
_LONGEST_QUESTION, _LONGEST_TEXT = 64, 128
_RUN = 8  # pairs of one conversation that stay together in a batch
_HARD = 0.02  # a text this much nearer than the answer may be an answer too, in another conversation
_HARD_SAME = 0.15  # and in the same conversation
_NEVER = -1e4


@dataclass(frozen=True, slots=True)
class Plan:
    """How a teacher is trained. ``shares`` of a source's pairs are used in each epoch; above one, repeated."""

    name: str
    shares: Mapping[str, float] = field(default_factory=dict)
    rate: float = 8e-5
    epochs: int = 2
    size: int = 512
    keep: float = 0.1  # weight of staying near the first model
    seed: int = 0


def load_first(folder: Path) -> BertModel:
    """Load MiniLM from weights at eight bits, as pack_teacher.py writes them."""
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    stored = json.loads((folder / "config.json").read_text())
    model = BertModel(BertConfig(**{name: stored[name] for name in names}), add_pooling_layer=False)
    model.load_state_dict(read_weights([folder / "first.npz"]))
    return model.to(DEVICE)


def read_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    weights = {}
    for path in paths:
        with np.load(path) as stored:
            for name in stored.files:
                if not name.endswith("|scale"):
                    values = stored[name].astype(np.float32)
                    scale = stored[f"{name}|scale"][:, None] if f"{name}|scale" in stored.files else 1.0
                    weights[name] = torch.tensor(values * scale)
    return weights


def pack_weights(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return matrices at eight bits with a scale a row, and the rest as it is."""
    packed: dict[str, np.ndarray] = {}
    for name, values in weights.items():
        if values.ndim == 2:
            scale = np.abs(values).max(1) / 127 + 1e-12
            packed[name] = np.round(values / scale[:, None]).astype(np.int8)
            packed[f"{name}|scale"] = scale.astype(np.float32)
        else:
            packed[name] = values.astype(np.float32)
    return packed


def embed_batch(model: BertModel, pieces: Tensor, mask: Tensor) -> Tensor:
    hidden = model(input_ids=pieces, attention_mask=mask.long()).last_hidden_state.float()
    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
    return functional.normalize(mean, dim=-1)


def _embed_sorted(model: BertModel, texts: Texts, numbers: Tensor, longest: int, parts: int) -> Tensor:
    """Embed texts of like length together, so that little is padding."""
    order = torch.argsort(texts.lengths[numbers])
    embedded = [embed_batch(model, *texts.pad(part, longest, special=True)) for part in numbers[order].chunk(parts)]
    return torch.cat(embedded)[torch.argsort(order)]


@torch.no_grad()
def embed_texts(model: BertModel, texts: Texts, longest: int = 192) -> Tensor:
    model.eval()
    numbers = torch.arange(len(texts), device=DEVICE)
    vectors = torch.zeros(len(texts), model.config.hidden_size, device=DEVICE, dtype=torch.float16)
    for batch in texts.batches(numbers, longest, 1 << 17):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            vectors[batch] = embed_batch(model, *texts.pad(batch, longest, special=True)).half()
    return vectors


def _batches(data: Data, plan: Plan, random: np.random.Generator) -> Iterator[Tensor]:
    """Yield pairs by number. Those of one conversation come in runs: its other texts are hard to tell apart."""
    source = data.pairs[:, 0].cpu().numpy()
    share = np.array([plan.shares.get(name, 1.0) for name in data.sources])[source]
    times = np.floor(share).astype(int) + (random.random(len(share)) < share % 1)
    chosen = np.repeat(np.arange(len(share)), times)
    groups = data.pairs[:, 3].cpu().numpy()[chosen]
    random.shuffle(order := np.arange(len(chosen)))
    order = order[np.argsort(groups[order], kind="stable")]
    chosen, groups = chosen[order], groups[order]
    edges = np.flatnonzero(np.diff(groups, prepend=-2, append=-2))
    runs = [
        chosen[at : min(at + (_RUN if groups[start] >= 0 else 1), end)]
        for start, end in pairwise(edges)
        for at in range(start, end, _RUN if groups[start] >= 0 else 1)
    ]
    flat = np.concatenate([runs[at] for at in random.permutation(len(runs))])
    for start in range(0, len(flat) - plan.size, plan.size):
        yield torch.tensor(flat[start : start + plan.size], device=DEVICE)


def fine_tune(data: Data, first: Tensor, folder: Path, plan: Plan) -> BertModel:
    """``first`` holds the first model's vectors of all texts: it says which texts are too near to be wrong."""
    random = np.random.default_rng(plan.seed)
    torch.manual_seed(plan.seed)
    model, start = load_first(folder), time.time()
    batches = [batch for _ in range(plan.epochs) for batch in _batches(data, plan, random)]
    steps = len(batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / (0.1 * steps)) * max(0.0, 1 - at / steps)
    )
    model.train()
    for step, batch in enumerate(batches):
        loss = _loss(model, data, first, batch, plan.keep)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(
                f"{plan.name}: step {step} of {steps}, loss {loss.item():.3f}, {time.time() - start:.0f} s", flush=True
            )
    return model


def _loss(model: BertModel, data: Data, first: Tensor, batch: Tensor, keep: float) -> Tensor:
    source, question, text, group = data.pairs[batch].T
    others = data.draw_neighbours(group, text)
    candidates, groups = torch.cat([text, others]), torch.cat([group, group])
    with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        asked = _embed_sorted(model, data.texts, question, _LONGEST_QUESTION, 2)
        said = _embed_sorted(model, data.texts, candidates, _LONGEST_TEXT, 4)
    scores = asked @ said.T * TEMPERATURE
    with torch.no_grad():
        right = torch.arange(len(batch), device=DEVICE)
        before = first[question].float() @ first[candidates].float().T
        limit = before[right, right][:, None]
        elsewhere = group[:, None] != groups[None]
        made = data.is_made[source]
        wrong = candidates[None] == text[:, None]
        wrong |= elsewhere & (before > limit + _HARD)
        wrong |= before > limit + _HARD_SAME
        wrong |= elsewhere & made[:, None] & torch.cat([made, made])[None]  # made lives say the same things
        wrong |= data.find_answers(question, candidates)
        wrong[right, right] = False
    loss = functional.cross_entropy(scores.masked_fill(wrong, _NEVER), right)
    if keep:
        target = functional.softmax(before * TEMPERATURE, -1)
        loss = loss + keep * functional.kl_div(functional.log_softmax(scores, -1), target, reduction="batchmean")
    return loss


def average(folder: Path, models: Sequence[Mapping[str, Tensor]]) -> BertModel:
    """Return the mean of models that started from the same weights."""
    model = load_first(folder)
    model.load_state_dict(
        {name: torch.stack([one[name].float().to(DEVICE) for one in models]).mean(0) for name in models[0]}
    )
    return model
