"""Asks about everyday talk: a small language model learns from our questions, and writes more for other texts.

SmolLM2-135M (Apache-2.0) learns "what was said" -> "what is asked about it later" from the corpus, then writes
questions for texts that have none. What it writes is checked in train.py: the text must be among the nearest of its
conversation.
"""

from __future__ import annotations

import json
import lzma
import time
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.encoder.corpus import Corpus
from training.encoder.texts import DEVICE

# How often a pair is learned from, by source. Wikipedia teaches the form, lives teach what people want to know.
_LEARN = {"lives": 6, "people": 4, "beam-probe": 4, "fairy": 0.8, "squad": 0.5, "xquad": 0.5, "qamr": 0.5, "made": 0.05}
_STYLES = {"lives": "later", "people": "later", "beam-probe": "later", "made": "plain"}
# How many questions are written, by source of the text.
_WRITE = {
    "lives": 10_000,
    "people": 20_000,
    "persona-reply": 30_000,
    "chitchat": 36_000,
    "topical": 14_000,
    "beam": 20_000,
    "meeting": 3_000,
    "made": 3_000,
}
_MAX_TEXT, _MAX_QUESTION = 120, 28  # tokens
_FEWEST_WORDS = 5  # of a text to be asked about


def write_questions(corpus: Corpus, model_file: Path, out: Path, *, seed: int, share: float = 1.0) -> None:
    """Write pairs of a question and a text's number. ``share`` below one is for trials."""
    torch.manual_seed(seed)
    random = Random(seed)
    tokenizer = AutoTokenizer.from_pretrained(model_file.parent, gguf_file=model_file.name)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(model_file.parent, gguf_file=model_file.name, dtype=torch.float32)
    model = model.to(DEVICE)
    _learn(model, tokenizer, corpus, random, share)
    written = _write(model.bfloat16(), tokenizer, corpus, random, share)
    with lzma.open(out, "wt", encoding="utf-8") as file:
        json.dump(written, file, ensure_ascii=False)


def _prompt(text: str, style: str) -> str:
    return f"Said: {text[:500]}\nAsked ({style}):"


def _learn(model: torch.nn.Module, tokenizer: AutoTokenizer, corpus: Corpus, random: Random, share: float) -> None:
    examples = []
    for pair in corpus.pairs:
        times = _LEARN.get(pair.source, 0.0) * share
        count = int(times) + (random.random() < times % 1)
        examples += [(_prompt(corpus.texts[pair.text], _STYLES.get(pair.source, "facts")), pair)] * count
    random.shuffle(examples)
    size, start = 128, time.time()
    steps = max(1, len(examples) // size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1, (at + 1) / 30) * (1 - at / steps))
    for step in range(steps):
        batch = examples[step * size : (step + 1) * size]
        pieces, mask, labels = _encode(tokenizer, [(prompt, corpus.texts[pair.question]) for prompt, pair in batch])
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = model(input_ids=pieces, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"questions: step {step} of {steps}, loss {loss.item():.3f}, {time.time() - start:.0f} s", flush=True)


def _encode(tokenizer: AutoTokenizer, rows: list[tuple[str, str]]) -> tuple[Tensor, Tensor, Tensor]:
    encoded = []
    for prompt, question in rows:
        asked = tokenizer(f" {question}").input_ids[:_MAX_QUESTION]
        encoded.append((tokenizer(prompt).input_ids, [*asked, tokenizer.eos_token_id]))
    width = max(len(prompt) + len(asked) for prompt, asked in encoded)
    pieces = torch.full((len(rows), width), tokenizer.pad_token_id)
    labels = torch.full((len(rows), width), -100)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for row, (prompt, asked) in enumerate(encoded):
        end = len(prompt) + len(asked)
        pieces[row, :end] = torch.tensor(prompt + asked)
        labels[row, len(prompt) : end] = torch.tensor(asked)
        mask[row, :end] = 1
    return pieces.to(DEVICE), mask.to(DEVICE), labels.to(DEVICE)


@torch.no_grad()
def _write(
    model: torch.nn.Module, tokenizer: AutoTokenizer, corpus: Corpus, random: Random, share: float
) -> list[tuple[str, str, int]]:
    """Return (source of the text, question, number of the text)."""
    model.eval()
    wanted: list[tuple[str, int]] = []
    for source, count in _WRITE.items():
        numbers = [at for at in corpus.everyday.get(source, []) if len(corpus.texts[at].split()) >= _FEWEST_WORDS]
        if numbers:
            wanted += [(source, number) for number in random.choices(numbers, k=int(count * share))]
    wanted.sort(key=lambda item: len(corpus.texts[item[1]]))
    tokenizer.padding_side = "left"
    written: list[tuple[str, str, int]] = []
    size, start = 4096, time.time()
    for at in range(0, len(wanted), size):
        batch = wanted[at : at + size]
        prompts = [_prompt(corpus.texts[number], "later" if random.random() < 0.85 else "plain") for _, number in batch]
        encoded = tokenizer(prompts, return_tensors="pt", padding=True).to(DEVICE)
        made = model.generate(
            input_ids=encoded.input_ids,
            attention_mask=encoded.attention_mask,
            max_new_tokens=_MAX_QUESTION,
            do_sample=True,
            top_p=0.95,
            temperature=0.8,
            pad_token_id=tokenizer.pad_token_id,
        )
        asked = tokenizer.batch_decode(made[:, encoded.input_ids.shape[1] :], skip_special_tokens=True)
        for (source, number), question in zip(batch, asked, strict=True):
            first = question.strip().split("\n")[0]
            if len(first) > 8 and first.endswith("?"):
                written.append((source, first, number))
        if at // size % 10 == 0:
            print(f"questions: {at:,} of {len(wanted):,} texts, {time.time() - start:.0f} s", flush=True)
    random.shuffle(written)
    return written


def add_questions(corpus: Corpus, path: Path) -> None:
    """Add written questions as pairs of the source "written"; the group is the text's conversation."""
    home = {number: group for group, numbers in enumerate(corpus.groups) for number in numbers}
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for _, question, number in json.load(file):
            corpus.add_pair("written", question, corpus.texts[number], home.get(number, -1))
