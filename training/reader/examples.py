"""Labelled messages for the reader, in one form: a message, the turn before it, a label for each clause.

- lives: excerpts of conversations with claims (its README has the format); ours in data/ have the same form.
- extraction: the turns in tests/data/extraction, whose labels name values; a clause that holds the value is positive.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.knowledge.reader import ATTRIBUTES, KINDS, STATUSES
from limpet.knowledge.segment import split_clauses, split_sentences

FOLDS = 5
ROOT = Path(__file__).resolve().parents[2]
THINGS = re.compile(r"'s (?:project|farm|shop|team|employer|school|company|business|house|home|car|office|band|club)\b")


@dataclass
class Clause:
    start: int
    end: int
    keep: float
    weight: float  # 0: not labelled
    claims: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Message:
    group: str  # the conversation, for a split that keeps one together
    text: str
    before: str
    clauses: list[Clause]
    speaker: str = "user"
    sentences: list[tuple[int, int, bool]] = field(default_factory=list)  # span, and whether it states something
    why: str = ""  # why it teaches nothing
    claims: list[dict[str, Any]] = field(default_factory=list)
    source: str = ""


def fold_of(message: Message) -> int:
    return zlib.crc32(message.group.encode()) % FOLDS


def read_lives(path: Path) -> Iterator[Message]:
    for line in path.read_text().splitlines():
        excerpt = json.loads(line)
        nothing = {entry["turn"]: entry["why"] for entry in excerpt.get("nothing", [])}
        before = ""
        for turn in excerpt["turns"]:
            if turn["speaker"] != "assistant":
                claims = [dict(claim) for claim in excerpt["claims"] if claim["turn"] == turn["n"]]
                message = label_message(turn["text"], claims, turn["speaker"])
                message.group, message.before = excerpt["id"], before
                message.why = nothing.get(turn["n"], "")
                for clause in message.clauses:
                    if not clause.keep and not message.why:
                        clause.weight = 0.7  # a second reader might have kept it
                yield message
            before = turn["text"]


def read_messages(path: Path) -> Iterator[Message]:
    """Conversations in the form of lives, or a message a line (``check.py`` says how)."""
    lines = path.read_text().splitlines()
    if "turns" in json.loads(lines[0]):
        yield from read_lives(path)
        return
    for at, line in enumerate(lines):
        row = json.loads(line)
        message = label_message(row["text"], [dict(claim) for claim in row["claims"]])
        message.group, message.before, message.why = f"{path.stem}-{at}", row.get("before") or "", row["nothing"] or ""
        yield message


def label_message(text: str, claims: list[dict[str, Any]], speaker: str = "user") -> Message:
    clauses = [Clause(start, end, 0.0, 1.0) for start, end in split_clauses(text)]
    spans = []
    for claim in claims:
        start = text.index(claim["quote"])
        spans.append((start, start + len(claim["quote"])))
        claim["user"] = is_about_speaker(claim["about"], speaker)
    for claim, (start, end) in zip(claims, spans, strict=True):
        best = max(clauses, key=lambda clause: _overlap(clause.start, clause.end, start, end))
        for clause in clauses:
            shared = _overlap(clause.start, clause.end, start, end)
            if clause is best or shared > 0.5 * (clause.end - clause.start):
                clause.keep = 1.0
                clause.claims.append({**claim, "share": shared / (end - start)})
                if clause is not best and shared < 0.9 * (clause.end - clause.start):
                    clause.weight = 0.6
    message = Message("", text, "", clauses, speaker, claims=claims)
    for start, end in split_sentences(text):
        stated = any(_overlap(start, end, *span) >= 0.5 * min(end - start, span[1] - span[0]) for span in spans)
        message.sentences.append((start, end, stated))
    return message


def is_about_speaker(about: str, speaker: str) -> bool:
    if about == "user" or about.split(" and ", maxsplit=1)[0] == speaker or about.endswith(f"and {speaker}"):
        return True
    return bool(THINGS.search(about)) and about.startswith(("user", speaker))


def _overlap(start: int, end: int, start2: int, end2: int) -> int:
    return max(0, min(end, end2) - max(start, start2))


_NAMES = {
    "habit": "routine", "owns": "possession", "uses": "tools", "eats": "diet", "drinks": "diet", "prefers": "likes",
    "location": "home", "nickname": "name", "learning": "studies", "email": "contact", "phone": "contact",
    "relationship": "family", "status": "other", "plays": "sport", "visited": "trip", "timezone": "other",
}  # fmt: skip


def read_extraction(folder: Path) -> Iterator[Message]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            before = ""
            said = [part for part in row["turn"] if "user" in part]
            for part in row["turn"]:
                text = next((part[role] for role in ("user", "assistant", "tool") if role in part), "")
                if "user" in part and text.strip():
                    message = _label_values(text, row["expect"], alone=len(said) == 1)
                    message.group, message.before = row["id"], before
                    message.why = "" if row["expect"] else row["kind"]
                    yield message
                before = text


def _label_values(text: str, expected: list[str], *, alone: bool) -> Message:
    clauses = [Clause(start, end, 0.0, 1.0) for start, end in split_clauses(text)]
    lost = False
    for entry in expected:
        optional = entry.startswith("?")
        kind, subject, attribute, value = (entry.lstrip("?").split("|", 3) + [""] * 3)[:4]
        words = [word.lower() for word in re.findall(r"\w+", value.lstrip("~"))]
        found = [c for c in clauses if words and all(w in text[c.start : c.end].lower() for w in words)]
        if not found:
            lost = True
            continue
        for clause in found[:1]:
            if optional:
                clause.weight = clause.weight if clause.keep else 0.0
                continue
            ended = attribute.startswith("-")
            label = attribute.lstrip("-").split(":")[0]
            label = _NAMES.get(label, "likes" if label == "favourite" else label)
            clause.keep, clause.weight = 1.0, 1.0
            claim = {
                "user": subject in {"", "user"},
                "attribute": label if label in ATTRIBUTES else "",
                "kind": kind if kind in KINDS else "",
                "status": "ended" if ended else "holds" if label else "",
                "share": 1.0,
            }
            clause.claims.append(claim)
    if lost or not alone:
        for clause in clauses:
            clause.weight = clause.weight if clause.keep else 0.0
    message = Message("", text, "", clauses)
    for start, end in split_sentences(text):
        inside = [clause for clause in clauses if start <= clause.start < end]
        if all(clause.weight for clause in inside):
            message.sentences.append((start, end, any(clause.keep for clause in inside)))
    return message


def targets(clause: Clause) -> dict[str, list[float]]:
    """The soft labels of one clause: a clause with two claims is half of each."""
    out = {}
    for name, labels in (("kind", KINDS), ("attribute", ATTRIBUTES), ("status", STATUSES)):
        row = [0.0] * len(labels)
        known = [claim for claim in clause.claims if claim.get(name) in labels]
        for claim in known:
            row[labels.index(claim[name])] += claim["share"] / sum(one["share"] for one in known)
        out[name] = row
    about = [float(claim["user"]) for claim in clause.claims]
    out["about"] = [sum(about) / len(about)] if about else [-1.0]
    return out
