"""Trains the encoder: python -m training.encoder.train --work FOLDER [STAGE ...].

Stages, in order: questions, teachers, average, students; without one, all of them. ``--plan`` chooses among teachers
and students. The folder holds what build.py and pack_teacher.py wrote; results go to FOLDER/out.
"""

from __future__ import annotations

import argparse
import lzma
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from training.encoder import measure
from training.encoder.corpus import Corpus, split_sentences
from training.encoder.data import Data
from training.encoder.lives import find_names, load_lives, strip_names
from training.encoder.questions import add_questions, write_questions
from training.encoder.student import StudentPlan, distil, encode_texts, export, first_table
from training.encoder.teacher import Plan, average, embed_texts, fine_tune, load_first
from training.encoder.texts import DEVICE, Texts, load_tokenizer

_SEED = 7
_NEAREST = 3  # a written question must find its text among so many of its conversation
_BASE = {"made": 0.25, "beam-plan": 0.5, "lives": 6.0, "people": 4.0, "lives-claim": 2.0, "written": 0.5}
TEACHERS = (
    Plan("t1", _BASE, seed=1),
    Plan("t2", _BASE | {"written": 1.0}, rate=1e-4, size=1024, seed=2),
)
STUDENTS = (
    StudentPlan("s1", seed=1),
    StudentPlan("s2", head=1024, seed=2),
    StudentPlan("s3", head=1024, hidden=512, seed=3),
)


class Run:
    """The folder of a training run, and what its stages share."""

    def __init__(self, folder: Path, share: float) -> None:
        self.folder, self.share = folder, share
        self.out = folder / "out"
        self.out.mkdir(exist_ok=True)
        self.tokenizer = load_tokenizer((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
        self._start = time.time()

    def note(self, text: str) -> None:
        print(f"[{time.time() - self._start:6.1f} s] {text}", flush=True)

    @cached_property
    def data(self) -> Data:
        corpus = Corpus.load(self.folder / "corpus.json.xz")
        if (self.out / "questions.json.xz").exists():
            add_questions(corpus, self.out / "questions.json.xz")
        self.note(corpus.describe())
        data = Data(_add_sentences(corpus), self.tokenizer)
        self.note(f"{len(data.texts):,} texts with single sentences")
        return data

    @cached_property
    def first_vectors(self) -> Tensor:
        """The vectors of MiniLM as it comes. They also decide which written questions stay."""
        vectors = self._keep("first", lambda: embed_texts(load_first(self.folder), self.data.texts))
        if "written" in self.data.sources:
            self.note(f"{self.data.keep_found(vectors, 'written', _NEAREST):,} written questions find their text")
        return vectors

    @cached_property
    def teacher(self) -> nn.Module:
        model = load_first(self.folder)
        model.load_state_dict(torch.load(self.out / "teacher.pt", map_location=DEVICE))
        return model

    @cached_property
    def teacher_vectors(self) -> Tensor:
        _ = self.first_vectors  # the pairs are chosen first
        return self._keep("vectors", lambda: embed_texts(self.teacher, self.data.texts))

    def _keep(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """Return what an earlier command computed; several may train side by side."""
        path = self.out / f"{name}.pt"
        if path.exists():
            return torch.load(path, map_location=DEVICE)
        vectors, own = compute(), path.with_suffix(f".{os.getpid()}")
        torch.save(vectors, own)
        own.rename(path)
        return vectors

    def embed_by(self, model: nn.Module) -> measure.Embed:
        return lambda texts: embed_texts(model, Texts(self.tokenizer, texts), 254).float().cpu().numpy()

    def measure(self, label: str, embed: measure.Embed) -> None:
        """Print recall@10 on the development sets and on the lives that are held out."""
        shown = [f"lives {_measure_lives(self.folder / 'lives.jsonl', embed):.4f}"]
        captured = self.folder / "captured.pkl.xz"
        if captured.exists():
            with lzma.open(captured) as file:
                sets = pickle.load(file)  # noqa: S301 - written by training.encoder.measure
            for name, conversations in sets.items():
                recalls = measure.measure(conversations, embed)
                low, high = measure.interval(recalls)
                shown.append(f"{name} {np.mean(recalls):.4f} ({low:.3f}-{high:.3f})")
        self.note(f"MEASURED {label:12} {'  '.join(shown)}")


def _add_sentences(corpus: Corpus) -> Corpus:
    """Add the sentences of longer texts as texts of their own."""
    home = {number: source for source, numbers in corpus.everyday.items() for number in numbers}
    for number, text in enumerate(list(corpus.texts)):
        if len(sentences := split_sentences(text)) > 1:
            corpus.add_passages(sentences[:4], everyday=home.get(number))
    return corpus


def _measure_lives(path: Path, embed: measure.Embed) -> float:
    """Recall@10 by vectors alone among the turns of all held-out lives."""
    texts: list[str] = []
    asked: list[tuple[str, list[int]]] = []
    for life in load_lives(path, held_out=True):
        names, first = find_names(life), len(texts)
        place = {turn["n"]: first + at for at, turn in enumerate(life["turns"])}
        texts += [strip_names(turn["text"], names) for turn in life["turns"]]
        asked += [(strip_names(item["q"], names), [place[n] for n in item["evidence"]]) for item in life["questions"]]
    best = np.argsort(-(embed([question for question, _ in asked]) @ embed(texts).T), axis=1)[:, :10].tolist()
    found = [len(set(row) & set(evidence)) / len(evidence) for row, (_, evidence) in zip(best, asked, strict=True)]
    return float(np.mean(found))


def ask_questions(run: Run) -> None:
    corpus = Corpus.load(run.folder / "corpus.json.xz")
    model = next(run.folder.glob("*.gguf"))
    write_questions(corpus, model, run.out / "questions.json.xz", seed=_SEED, share=run.share)


def train_teacher(run: Run, plan: Plan) -> None:
    plan = replace(plan, size=max(16, int(plan.size * run.share)))
    model = fine_tune(run.data, run.first_vectors, run.folder, plan)
    torch.save(model.state_dict(), run.out / f"{plan.name}.pt")
    run.measure(plan.name, run.embed_by(model))


def average_teachers(run: Run) -> None:
    states = [torch.load(path, map_location="cpu") for path in sorted(run.out.glob("t[0-9].pt"))]
    model = average(run.folder, states)
    torch.save(model.state_dict(), run.out / "teacher.pt")
    (run.out / "vectors.pt").unlink(missing_ok=True)
    run.measure("average", run.embed_by(model))


def train_student(run: Run, plan: StudentPlan) -> None:
    plan = replace(plan, steps=int(plan.steps * run.share), size=max(64, int(plan.size * run.share)))
    table, projection = first_table(run.teacher, run.data, run.teacher_vectors, plan.dimension)
    student = distil(run.data, run.teacher_vectors, table, projection, plan)
    export(student, run.out / f"{plan.name}.npz")
    run.measure(plan.name, lambda texts: encode_texts(student, Texts(run.tokenizer, texts)).cpu().numpy())


def main() -> None:
    stages = ("questions", "teachers", "average", "students")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="below 1: smaller batches, for a trial")
    parser.add_argument("--plan", action="append", help="only this teacher or student; may be repeated")
    parser.add_argument("stages", nargs="*", help=f"some of {', '.join(stages)}")
    args = parser.parse_args()
    if unknown := set(args.stages) - set(stages):
        parser.error(f"{', '.join(sorted(unknown))} is not a stage; use some of {', '.join(stages)}")
    run, wanted = Run(args.work, args.share), args.stages or stages
    if "questions" in wanted:
        ask_questions(run)
    for teacher in TEACHERS if "teachers" in wanted else ():
        if not args.plan or teacher.name in args.plan:
            train_teacher(run, teacher)
    if "average" in wanted:
        average_teachers(run)
    for student in STUDENTS if "students" in wanted else ():
        if not args.plan or student.name in args.plan:
            train_student(run, student)


if __name__ == "__main__":
    main()
