"""The student: one table of word-piece vectors and one convolution. It learns the teacher's nearness."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.encoder.data import Data
from training.encoder.teacher import TEMPERATURE, embed_texts
from training.encoder.texts import DEVICE, VOCABULARY_SIZE, Texts

_LONGEST_QUESTION, _LONGEST_TEXT = 64, 160
_MAX_WEIGHT = 8.0
_WIDE = 16.0  # a unit vector's components are small; the last layer sees them about one
# How often a pair is drawn, by source; 1 where nothing is said.
_DRAWN = {
    "made": 0.15,
    "lives": 6.0,
    "people": 4.0,
    "lives-claim": 3.0,
    "beam-probe": 6.0,
    "beam-plan": 0.6,
    "persona-line": 2.0,
}


@dataclass(frozen=True, slots=True)
class StudentPlan:
    name: str
    dimension: int = 256
    hidden: int = 256
    width: int = 3
    steps: int = 8000
    size: int = 2048
    table_rate: float = 5e-4
    rate: float = 1e-3
    contrast: float = 0.5
    head: int = 0  # width of a last layer over the text's vector; 0: none
    seed: int = 0


class Student(nn.Module):
    def __init__(self, table: Tensor, plan: StudentPlan) -> None:
        super().__init__()
        self.half = plan.width // 2
        self.table = nn.Embedding.from_pretrained(table.clone(), freeze=False)
        self.gate = nn.Embedding(len(table), 1)
        self.first = nn.Linear(plan.dimension * plan.width, plan.hidden)
        self.second = nn.Linear(plan.hidden, plan.dimension)
        self.pool = nn.Linear(plan.dimension, 1, bias=False)
        self.widen = nn.Linear(plan.dimension, plan.head) if plan.head else None
        self.narrow = nn.Linear(plan.head, plan.dimension) if plan.head else None
        zero = [self.gate.weight, self.second.weight, self.second.bias, self.pool.weight]
        for weight in [*zero, self.narrow.weight, self.narrow.bias] if self.narrow is not None else zero:
            nn.init.zeros_(weight)

    def forward(self, pieces: Tensor, mask: Tensor) -> Tensor:
        rows = self.table(pieces) * mask[..., None]
        padded, length = functional.pad(rows, (0, 0, self.half, self.half)), rows.shape[1]
        seen = torch.cat([padded[:, at : at + length] for at in range(2 * self.half + 1)], -1)
        rows = (rows + self.second(functional.relu(self.first(seen)))) * mask[..., None]
        weight = (self.gate(pieces) + self.pool(rows))[..., 0].clamp(-_MAX_WEIGHT, _MAX_WEIGHT)
        whole = functional.normalize((rows * (torch.exp(weight) * mask)[..., None]).sum(1).float(), dim=-1)
        if self.widen is None or self.narrow is None:
            return whole
        return functional.normalize(whole + self.narrow(functional.relu(self.widen(whole * _WIDE))).float(), dim=-1)

    def tables(self) -> list[Tensor]:
        return [self.table.weight, self.gate.weight]

    @torch.no_grad()
    def round_table(self) -> None:
        """Round to eight bits a row, as the table is shipped."""
        scale = _scale(self.table.weight)
        self.table.weight.copy_((self.table.weight / scale).round() * scale)


def _scale(weight: Tensor) -> Tensor:
    return weight.abs().amax(1, keepdim=True).clamp(min=1e-9) / 127


@torch.no_grad()
def first_table(teacher: nn.Module, data: Data, vectors: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Return the teacher's vector of each piece alone, rarer pieces longer, and the projection to fewer dimensions."""
    single = Texts.__new__(Texts)
    single.lengths = torch.ones(VOCABULARY_SIZE, dtype=torch.long, device=DEVICE)
    single.starts = torch.arange(VOCABULARY_SIZE, device=DEVICE)
    single.pieces = torch.arange(VOCABULARY_SIZE, device=DEVICE)
    sample = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:60_000].to(DEVICE)
    projection = torch.linalg.svd(vectors[sample].float(), full_matrices=False)[2][:dimension].T
    counts = torch.bincount(data.texts.pieces, minlength=VOCABULARY_SIZE).float()
    weight = 1e-3 / (1e-3 + (counts + 1) / counts.sum())
    return embed_texts(teacher, single).float() @ projection * weight[:, None], projection


def distil(data: Data, vectors: Tensor, table: Tensor, projection: Tensor, plan: StudentPlan) -> Student:
    """``vectors``: the teacher's, of all texts."""
    torch.manual_seed(plan.seed)
    random = torch.Generator(device=DEVICE).manual_seed(plan.seed)
    target = functional.normalize(vectors.float() @ projection, dim=-1).half()
    student = Student(table, plan).to(DEVICE)
    known = {id(weight) for weight in student.tables()}
    rest = [weight for weight in student.parameters() if id(weight) not in known]
    optimizer = torch.optim.Adam(
        [{"params": student.tables(), "lr": plan.table_rate}, {"params": rest, "lr": plan.rate}],
        betas=(0.9, 0.98),
        fused=DEVICE == "cuda",
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / 100) * (1 - at / plan.steps) + 1e-3
    )
    drawn = torch.tensor([_DRAWN.get(source, 1.0) for source in data.sources], device=DEVICE)
    chances = torch.cumsum(drawn[data.pairs[:, 0]].double(), 0)
    start = time.time()
    for step in range(plan.steps):
        loss = _loss(student, data, vectors, target, chances, plan, random)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(rest, 1.0)
        optimizer.step()
        schedule.step()
        if step % 500 == 0:
            print(
                f"{plan.name}: step {step} of {plan.steps}, loss {loss.item():.4f}, {time.time() - start:.0f} s",
                flush=True,
            )
    student.round_table()
    return student


def _loss(
    student: Student,
    data: Data,
    vectors: Tensor,
    target: Tensor,
    chances: Tensor,
    plan: StudentPlan,
    random: torch.Generator,
) -> Tensor:
    """Questions with an answer, questions without, and texts as questions; against answers, neighbours and texts."""

    def draw(among: Tensor, count: int) -> Tensor:
        return among[torch.randint(len(among), (count,), device=DEVICE, generator=random)]

    size = plan.size
    thrown = torch.rand(size * 3 // 8, device=DEVICE, generator=random, dtype=torch.float64) * chances[-1]
    _, asked, text, group = data.pairs[torch.searchsorted(chances, thrown).clamp(max=len(chances) - 1)].T
    answered = len(asked)
    questions = torch.cat(
        [asked, draw(data.questions, size // 8), draw(data.passages, size // 4), draw(data.everyday, size // 4)]
    )
    near = data.draw_neighbours(group, text)
    rest = size - answered - size // 4
    texts = torch.cat([text, near[: size // 4], draw(data.passages, rest // 2), draw(data.everyday, rest - rest // 2)])
    with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        left = _encode(student, data.texts, questions, _LONGEST_QUESTION, 2)
        right = _encode(student, data.texts, texts, _LONGEST_TEXT, 4)
    loss = (1 - (left * target[questions]).sum(-1)).mean() + (1 - (right * target[texts]).sum(-1)).mean()
    scores = left @ right.T * TEMPERATURE
    wanted = (vectors[questions] @ vectors[texts].T).float() * TEMPERATURE
    loss = loss + _diverge(scores, wanted) + 0.5 * _diverge(scores.T, wanted.T)
    if plan.contrast:
        own = torch.arange(answered, device=DEVICE)
        doubtful = wanted[:answered] > wanted[own, own][:, None] - 0.02 * TEMPERATURE
        doubtful[own, own] = False
        loss = loss + plan.contrast * functional.cross_entropy(scores[:answered].masked_fill(doubtful, -1e4), own)
    return loss


def _diverge(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.kl_div(functional.log_softmax(scores, -1), functional.softmax(wanted, -1), reduction="batchmean")


def _encode(student: Student, texts: Texts, numbers: Tensor, longest: int, parts: int) -> Tensor:
    """Encode texts of like length together, so that little is padding."""
    order = torch.argsort(texts.lengths[numbers])
    encoded = torch.cat([student(*texts.pad(part, longest)) for part in numbers[order].chunk(parts)])
    return encoded[torch.argsort(order)]


@torch.no_grad()
def encode_texts(student: Student, texts: Texts) -> Tensor:
    numbers = torch.arange(len(texts), device=DEVICE)
    vectors = torch.zeros(len(texts), student.table.embedding_dim, device=DEVICE)
    for batch in texts.batches(numbers, 254, 1 << 18):
        vectors[batch] = student(*texts.pad(batch, 254))
    return vectors


@torch.no_grad()
def export(student: Student, path: Path) -> None:
    """Write the weights as limpet.providers.encoder reads them; uncompressed, so that the table can be mapped."""
    width, dimension = 2 * student.half + 1, student.table.embedding_dim
    scale = _scale(student.table.weight)
    halves = {
        "gate": student.gate.weight[:, 0],
        "first": student.first.weight.reshape(-1, width, dimension).permute(1, 0, 2).reshape(-1, dimension),
        "first_bias": student.first.bias,
        "second": student.second.weight,
        "second_bias": student.second.bias,
        "pool": student.pool.weight[0],
    }
    if student.widen is not None and student.narrow is not None:
        halves |= {
            "widen": student.widen.weight * _WIDE,
            "widen_bias": student.widen.bias,
            "narrow": student.narrow.weight,
            "narrow_bias": student.narrow.bias,
        }
    np.savez(
        path,
        table=(student.table.weight / scale).round().to(torch.int8).cpu().numpy(),
        scale=scale[:, 0].cpu().numpy(),
        **{name: np.ascontiguousarray(weight.cpu().numpy().astype(np.float16)) for name, weight in halves.items()},
    )
