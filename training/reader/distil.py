"""Train teachers and, from what they say, the reader's network.

    python training/reader/distil.py --lives LIVES.jsonl --minilm FOLDER --out FOLDER [--plain TEXTS.jsonl]

The student of fold k learns from teachers that saw neither fold k nor the message they judge: a teacher for each pair
of folds. The final student learns from the five teachers that lack one fold each. ``out`` gets ``student.npz`` and
``predictions.npz``: what the students say about the fold that neither they nor their teachers saw (``settle.py``).
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alter import Neighbours, alter, leave_unlabelled
from examples import FOLDS, ROOT, Message, fold_of, read_extraction, read_lives, read_messages
from measure import curve, labels, score_clauses
from network import HEADS, Network, loss_of
from pack import pack
from shelf import Shelf
from teacher import Teacher, read_packed
from torch import Tensor
from torch.nn import functional

from limpet.knowledge.segment import Pieces

DEVICE = os.environ.get("DEVICE", "cpu")  # asking torch would start CUDA before the processes part
Said = dict[str, np.ndarray]  # a row for each clause
WEIGHTS = {"lives": 1.0, "extraction": 0.7, "frames": 1.0}  # messages by hand: 1.5
BODY = {"words", "places", "shape", "part", "norm", "layers"}


class School:
    """The data, and how to train on some of it. Messages are known by their place: labelled ones first."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        stored = np.load(options.table)
        self.vocabulary = stored["vocabulary"].tobytes().decode().split("\n")
        table = stored["table"].astype(np.float32)
        self.table = torch.tensor(table)
        whole = (options.minilm / "vocab.txt").read_text().split("\n")
        self.first = whole.index("[CLS]")
        self.minilm = read_packed(options.minilm / "first.npz")
        self.labelled = [message for message in read_labelled(options) if message.clauses]
        if options.sample:
            self.labelled = random.Random(0).sample(self.labelled, options.sample)
        folds = [[m for m in self.labelled if fold_of(m) == fold and len(m.text) < 600] for fold in range(FOLDS)]
        near = Neighbours(table, self.vocabulary, [message.text for message in self.labelled])
        plain = [*_read_plain(options.plain), *alter(folds, near)]
        self.messages = self.labelled + [message for message in plain if message.clauses]
        self.known = np.arange(len(self.messages)) < len(self.labelled)
        self.fold = np.array([fold_of(message) if message.group else -1 for message in self.messages])
        shelves = [
            Shelf(self.messages, Pieces(pieces, pieces.index("[UNK]")), sep=pieces.index("[SEP]"), weights=WEIGHTS)
            for pieces in (self.vocabulary, whole)
        ]
        self.shelf, self.teacher_shelf = shelves

    def train_teacher(self, without: tuple[int, ...], seed: int) -> tuple[np.ndarray, Said, float]:
        """What a teacher says about the labelled messages it did not see, their copies, and plain texts."""
        start, options = _begin(seed), self.options
        shelf = self.teacher_shelf.to(DEVICE)
        chosen = np.flatnonzero(self.known & ~np.isin(self.fold, without))
        network = Teacher(self.minilm, self.first).to(DEVICE)
        parts: dict[bool, list[Tensor]] = {True: [], False: []}
        for name, value in network.named_parameters():
            parts[name.split(".")[0] in BODY].append(value)
        groups = [{"params": parts[True], "rate": options.teacher_rate}, {"params": parts[False], "rate": 1e-3}]
        optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=DEVICE == "cuda")
        steps = options.teacher_epochs * math.ceil(len(chosen) / 32)
        batches = itertools.chain.from_iterable(_cut_batches(shelf, chosen, 32) for _ in range(options.teacher_epochs))
        for step, some in enumerate(batches):
            _set_rate(optimizer, min(1.0, (step + 1) / 60) * (1 - step / (steps + 20)))
            batch = shelf.take(some)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
                out = network(batch)
            _step(optimizer, network, loss_of(out, batch, soft_weight=0.3))
        heard = np.flatnonzero(np.isin(self.fold, (-1, *without)))
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            return heard, predict(network, shelf, heard), time.time() - start

    def train_student(
        self, without: int | None, goals: Said | None, variant: dict[str, Any]
    ) -> tuple[Said, dict[str, Tensor], str]:
        start = _begin(variant.get("seed", 0))
        shelf = self.shelf.to(DEVICE)
        fits = (self.known if goals is None else self.fold >= -1) & (self.fold != (-2 if without is None else without))
        chosen = np.flatnonzero(fits)
        aims = goals and {name: torch.tensor(value, device=DEVICE).float() for name, value in goals.items()}
        network = Network(self.table, hidden=192, dropout=variant.get("dropout", 0.15)).to(DEVICE)
        others = [value for name, value in network.named_parameters() if name != "table.weight"]
        rate, size = variant.get("rate", 2.5e-3), variant.get("size", 128)
        groups = [
            {"params": [network.table.weight], "rate": rate / 4, "weight_decay": 0.0},
            {"params": others, "rate": rate, "weight_decay": 0.01},
        ]
        optimizer = torch.optim.AdamW(groups, fused=DEVICE == "cuda")
        epochs = variant.get("epochs", self.options.epochs)
        steps = epochs * math.ceil(len(chosen) / size)
        average = copy.deepcopy(network)
        kept, moving = list(average.parameters()), list(network.parameters())
        batches = itertools.chain.from_iterable(_cut_batches(shelf, chosen, size) for _ in range(epochs))
        network.train()
        for step, some in enumerate(batches):
            part = max(step / steps, (time.time() - start) / self.options.student_seconds)
            if part >= 1:
                break
            _set_rate(optimizer, min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * part)))
            batch = shelf.take(some)
            out = network(batch)
            loss = loss_of(out, batch, soft_weight=0.3)
            if aims is not None:
                rows = {name: value[batch.place] for name, value in aims.items()}
                loss = variant.get("hard", 0.4) * loss + _follow(out, rows)
            _step(optimizer, network, loss)
            with torch.no_grad():
                torch._foreach_lerp_(kept, moving, 1 - min(0.998, step / (step + 10)))
        tested = np.flatnonzero(self.known & (self.fold == (-2 if without is None else without)))
        said = predict(average, shelf, tested)
        state = {name: value.cpu() for name, value in average.state_dict().items()}
        return said, state, f"{step}/{steps} steps, {time.time() - start:.0f}s"

    def gather(self, teachers: list[tuple[tuple[int, ...], np.ndarray, Said]], without: int | None) -> Said:
        """What a student may hear, as probabilities: on a message, the mean of the teachers that did not see it."""
        total = int(self.shelf.counts.sum())
        goals = {name: np.zeros((total, count), dtype=np.float32) for name, count in HEADS.items()}
        times = np.zeros((total, 1), dtype=np.float32)
        for folds, heard, said in teachers:
            if without is None or without in folds:
                rows = self.find_rows(heard)
                times[rows] += 1
                for name, value in _soften(said).items():
                    goals[name][rows] += value
        return {name: (value / np.maximum(times, 1)).astype(np.float16) for name, value in goals.items()}

    def find_rows(self, chosen: np.ndarray) -> np.ndarray:
        """The clauses of these messages, in their order."""
        counts = self.shelf.counts[chosen]
        ends = np.cumsum(counts)
        return np.repeat(self.shelf.firsts[chosen] - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)

    def show(self, name: str, chosen: np.ndarray, said: Said) -> None:
        ends = np.cumsum(self.shelf.counts[chosen])
        rows = {place: {head: value[end - self.shelf.counts[place] : end].astype(np.float32)
                        for head, value in said.items()} for place, end in zip(chosen, ends, strict=True)}  # fmt: skip
        for source in ("lives", "extraction", "messages", "a", "b"):
            own = [place for place in chosen if self.messages[place].source == source]
            if own:
                part = [self.messages[place] for place in own]
                out = {id(self.messages[place]): rows[place] for place in own}
                stated, scores, _ = score_clauses(part, out)
                print(f"{name:20} {source:10}", curve(stated, scores), labels(part, out), flush=True)


def predict(network: torch.nn.Module, shelf: Shelf, chosen: np.ndarray) -> Said:
    """The scores of the clauses of these messages, in their order."""
    network.eval()
    counts = shelf.counts[chosen]
    firsts = np.cumsum(counts) - counts
    found = {name: np.zeros((int(counts.sum()), count), dtype=np.float16) for name, count in HEADS.items()}
    order = np.argsort(shelf.lengths[chosen], kind="stable")
    with torch.no_grad():
        for at in range(0, len(order), 256):
            some = order[at : at + 256]
            out = network(shelf.take(chosen[some]))
            rows = np.concatenate([firsts[one] + np.arange(counts[one]) for one in some])
            for name, value in out.items():
                found[name][rows] = value.float().cpu().numpy()
    return found


def _begin(seed: int) -> float:
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return time.time()


def _set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * factor


def _step(optimizer: torch.optim.Optimizer, network: torch.nn.Module, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()


def _soften(said: Said) -> Said:
    """Scores as probabilities."""
    out = {}
    for name, scores in said.items():
        value = scores.astype(np.float32)
        if name in {"keep", "about"}:
            out[name] = 1 / (1 + np.exp(-value))
        else:
            raised = np.exp(value - value.max(1, keepdims=True))
            out[name] = raised / raised.sum(1, keepdims=True)
    return out


def _follow(out: dict[str, Tensor], goals: dict[str, Tensor]) -> Tensor:
    """How far the student is from the teachers; what a clause states counts as far as it states something."""
    keep = goals["keep"][:, 0]
    loss = functional.binary_cross_entropy_with_logits(out["keep"][:, 0], keep)
    total = keep.sum().clamp(min=1)
    for name in ("kind", "attribute", "status"):
        loss = loss + 0.3 * (functional.cross_entropy(out[name], goals[name], reduction="none") * keep).sum() / total
    about = functional.binary_cross_entropy_with_logits(out["about"][:, 0], goals["about"][:, 0], reduction="none")
    return loss + 0.3 * (about * keep).sum() / total


def _cut_batches(shelf: Shelf, chosen: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Messages of a length together: less padding."""
    chosen = chosen[random.sample(range(len(chosen)), len(chosen))]
    batches = []
    for at in range(0, len(chosen), size * 20):
        some = chosen[at : at + size * 20]
        some = some[np.argsort(shelf.lengths[some], kind="stable")]
        batches += [some[start : start + size] for start in range(0, len(some), size)]
    random.shuffle(batches)
    yield from batches


def read_labelled(options: argparse.Namespace) -> Iterator[Message]:
    readers = [("lives", read_lives(options.lives)), ("extraction", read_extraction(options.extraction))]
    readers += [(path.stem, read_messages(path)) for path in sorted(options.more.glob("*.jsonl"))]
    for source, messages in readers:
        for message in messages:
            message.source = source
            yield message


def _read_plain(path: Path | None) -> Iterator[Message]:
    for line in path.read_text().splitlines() if path else []:
        row = json.loads(line)
        yield leave_unlabelled(row["text"], row["before"], "")


SCHOOL: School | None = None


def _teach(without: tuple[int, ...], seed: int) -> Any:
    return SCHOOL.train_teacher(without, seed)


def _study(without: int | None, goals: Any, variant: dict[str, Any]) -> Any:
    return SCHOOL.train_student(without, goals, variant)


def add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lives", type=Path, required=True)
    parser.add_argument("--extraction", type=Path, default=ROOT / "tests/data/extraction")
    parser.add_argument("--more", type=Path, default=Path(__file__).parent / "data")


def main() -> None:
    global SCHOOL  # noqa: PLW0603 - the processes inherit it
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--minilm", type=Path, required=True, help="folder with first.npz and vocab.txt")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plain", type=Path, help="lines of JSON with text and before, no labels")
    parser.add_argument("--table", type=Path, default=Path(__file__).parent / "table.npz")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--teacher-epochs", type=int, default=4)
    parser.add_argument("--teacher-rate", type=float, default=1.5e-4)
    parser.add_argument("--student-seconds", type=float, default=1e9, help="a student ends its training by then")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--sample", type=int, default=0, help="train on few messages, to try the program")
    options = parser.parse_args()
    start = time.time()
    SCHOOL = school = School(options)
    print(f"{len(school.labelled)} labelled, {sum(~school.known)} plain, {time.time() - start:.0f}s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        run_all(school, pool, start)


def run_all(school: School, pool: ProcessPoolExecutor, start: float) -> None:
    options = school.options
    folds = range(FOLDS)
    left_out = [*((k,) for k in folds), *itertools.combinations(folds, 2)]
    jobs = [pool.submit(_teach, without, 0) for without in left_out]
    heard = [job.result() for job in jobs]
    print(f"teachers {[round(took) for _, _, took in heard]} {time.time() - start:.0f}s", flush=True)
    teachers = [(without, chosen, said) for without, (chosen, said, _) in zip(left_out, heard, strict=True)]
    alone, paired = teachers[:FOLDS], teachers[FOLDS:]
    final = pool.submit(_study, None, school.gather(alone, None), {})
    students = [pool.submit(_study, fold, school.gather(paired, fold), {}) for fold in folds]
    untaught = [pool.submit(_study, fold, None, {"size": 48, "epochs": 8, "dropout": 0.2}) for fold in folds]
    parts = [np.flatnonzero(school.known & (school.fold == fold)) for fold in folds]
    tested = np.concatenate(parts)
    teacher = _join([_pick(school, part, *own[1:]) for part, own in zip(parts, alone, strict=True)])
    school.show("teacher", tested, teacher)
    _, state, took = final.result()
    network = Network(school.table, hidden=192)
    network.load_state_dict(state)
    pack(network, school.vocabulary, [1.0, 0.0, 1.0], options.out / "student.npz")
    print(f"final student {took}, {time.time() - start:.0f}s", flush=True)
    results = [job.result() for job in students]
    student = _join([said for said, _, _ in results])
    print([took for _, _, took in results], f"{time.time() - start:.0f}s", flush=True)
    school.show("student", tested, student)
    save = {"place": tested}
    save |= {f"{who}.{name}": value for who, said in (("teacher", teacher), ("student", student))
             for name, value in said.items()}  # fmt: skip
    np.savez_compressed(options.out / "predictions.npz", **save)
    results = [job.result() for job in untaught]
    print([took for _, _, took in results], f"{time.time() - start:.0f}s", flush=True)
    said = _join([said for said, _, _ in results])
    school.show("no teacher", tested, said)
    np.savez_compressed(options.out / "predictions.npz", **save, **{f"alone.{n}": v for n, v in said.items()})


def _pick(school: School, wanted: np.ndarray, heard: np.ndarray, said: Said) -> Said:
    rows = school.find_rows(heard)
    place = {row: at for at, row in enumerate(rows)}
    chosen = [place[row] for row in school.find_rows(wanted)]
    return {name: value[chosen] for name, value in said.items()}


def _join(parts: list[Said]) -> Said:
    return {name: np.concatenate([part[name] for part in parts]) for name in HEADS}


if __name__ == "__main__":
    main()
