"""Everyday talk written for Limpet.

The conversations of lives.jsonl, talk.jsonl and talk2.jsonl, the people of training/change with their questions and
those of people.tsv, and made lives drawn from frames.txt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from training.encoder.corpus import Corpus

_HERE = Path(__file__).parent
_HELD_OUT = 8  # one life in eight is never trained on
_SLOT = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def load_lives(path: Path, *, held_out: bool) -> list[dict[str, Any]]:
    """Return the lives to train on, or the eighth that only measures."""
    lives = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [life for life in lives if (crc32(life["id"].encode()) % _HELD_OUT == 0) == held_out]


def add_lives(corpus: Corpus, path: Path, random: Random) -> None:
    """Questions and claims with the turns they come from, with names and without, as the search asks."""
    for life in load_lives(path, held_out=False):
        names = find_names(life)
        said = {turn["n"]: strip_names(turn["text"], names) for turn in life["turns"]}
        group = corpus.add_group(said.values())
        corpus.add_passages(said.values(), everyday="lives")
        for asked in life["questions"]:
            question = strip_names(asked["q"], names) if random.random() < 0.7 else asked["q"]
            for turn in asked["evidence"]:
                corpus.add_pair("lives", question, said[turn], group)
        for claim in life["claims"]:
            statement = strip_names(claim["canonical"], names)
            corpus.add_pair(
                "lives-claim", re.sub(r"^The user('s)?\b", "", statement).strip(), said[claim["turn"]], group
            )


def add_people(corpus: Corpus, folder: Path) -> None:
    """Messages of the people in training/change/data, with what somebody asked about them."""
    said = {}
    for path in sorted(folder.glob("?.jsonl")):
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            person = json.loads(line)
            messages = _read_messages(person)
            corpus.add_passages(messages, everyday="people")
            group = corpus.add_group(messages)
            said[f"{path.stem}{at:03d}"] = messages, group
            for asked in person.get("questions", ()):
                answer = next(item["text"] for item in person["said"] if asked["needs"] in item.get("facts", ()))
                corpus.add_pair("people", asked["text"], answer, group)
    for line in (_HERE / "people.tsv").read_text(encoding="utf-8").splitlines():
        person_id, numbers, question = line.split("\t")
        messages, group = said[person_id]
        for number in numbers.split(","):
            corpus.add_pair("people", question, messages[int(number)], group)


def _read_messages(person: dict[str, Any]) -> list[str]:
    if "said" in person:
        return [item["text"] for item in person["said"]]
    items = (item for kind in ("facts", "changes", "others") for item in person.get(kind, ()))
    return list(dict.fromkeys(item.get("text") or item["quote"] for item in items))


def find_names(life: dict[str, Any]) -> tuple[str, ...]:
    speakers = {turn["speaker"] for turn in life["turns"]}
    return tuple(sorted(speakers - {"user", "assistant"}, key=len, reverse=True))


def strip_names(text: str, names: tuple[str, ...]) -> str:
    """Remove the speakers' names, as the search does before it embeds."""
    if not names:
        return text
    pattern = rf"\b(?:{'|'.join(map(re.escape, names))})(?:['\u2019]s)?\b"
    return " ".join(re.sub(pattern, " ", text, flags=re.IGNORECASE).split()) or text


@dataclass(frozen=True, slots=True)
class Topic:
    questions: list[str]
    statements: list[str]


_OPENINGS = (
    *(
        "Hey! ",
        "Hi, ",
        "Oh wow. ",
        "Nice one! ",
        "Thanks. ",
        "Yeah, ",
        "So ",
        "Well, ",
        "You know what, ",
        "Guess what. ",
    ),
    *("By the way, ", "Ha. ", "Sorry for the silence. ", "Morning. ", "Ok so ", "Right. ", "Not much here. ", "Ugh. "),
    *("",) * 14,
)
_ENDINGS = (
    *(" And you?", " What's new with you?", " Anyway.", " It is what it is.", " Can't wait.", " Send help.", " Lol"),
    *(" Tell me what you think.", " Wish me luck.", " How did yours go?", " Talk later!", " Long story.", " 😅"),
    *("",) * 14,
)
_PERSONS = ("", "", "", "she", "he", "they", "the user", "PERSON")
_FIRST = (
    (r"\{P\}'s", "my"),
    (r"\b([Dd])oes \{P\}", r"\1o I"),
    (r"\b([Hh])as \{P\}", r"\1ave I"),
    (r"\bIs \{P\}", "Am I"),
    (r"\bis \{P\}", "am I"),
    (r"\{P\}$|(for|with|between|address|reach|give) \{P\}", r"\1 me"),
    (r"\{P\}", "I"),
)


def read_topics() -> list[Topic]:
    topics = []
    for block in (_HERE / "frames.txt").read_text(encoding="utf-8").split("\n\n")[1:]:
        lines = block.strip().split("\n")
        topics.append(
            Topic(
                [line[2:] for line in lines if line.startswith("Q ")],
                [line[2:] for line in lines if line.startswith("S ")],
            )
        )
    return topics


def read_words() -> dict[str, list[str]]:
    lines = (_HERE / "words.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {slot: values.strip().split(", ") for slot, _, values in (line.partition(":") for line in lines)}


def make_lives(count: int, random: Random) -> Iterator[tuple[list[str], list[tuple[str, int]]]]:
    """Yield the turns of made conversations, and questions with the number of the turn that answers."""
    topics, words = read_topics(), read_words()
    for _ in range(count):
        turns: list[str] = []
        asked: list[tuple[str, int]] = []
        for topic in random.sample(topics, random.randint(9, 15)):
            values: dict[str, str] = {}
            parts = random.sample(topic.statements, 1 if random.random() < 0.65 else 2)
            said = [_fill(part, words, values, random) for part in parts]
            if random.random() < 0.2:  # another fact in the same turn
                other = random.choice(random.choice(topics).statements)
                said.insert(random.randint(0, 1), _fill(other, words, {}, random))
            text = random.choice(_OPENINGS) + " ".join(said) + random.choice(_ENDINGS)
            asked.append((_ask(random.choice(topic.questions), words, values, random), len(turns)))
            turns.append(text.lower() if random.random() < 0.15 else text)
        yield turns, asked


def _fill(frame: str, words: dict[str, list[str]], values: dict[str, str], random: Random) -> str:
    used: set[str] = set()

    def choose(match: re.Match[str]) -> str:
        slot, among = match[1], match[2]
        value = values.get(slot) if not among and random.random() < 0.8 else None
        while value is None or value in used:
            value = random.choice(among.split("|") if among else words[slot])
        used.add(value)
        values.setdefault(slot, value)
        return value

    return _SLOT.sub(choose, frame)


def _ask(frame: str, words: dict[str, list[str]], values: dict[str, str], random: Random) -> str:
    """Ask about a third person, whose name the search removes, or about oneself."""
    if random.random() < 0.35:
        for pattern, own in _FIRST:
            frame = re.sub(pattern, own, frame)
    else:
        person = random.choice(_PERSONS)
        person = random.choice(words["person"]) if person == "PERSON" else person
        frame = frame.replace("{P}'s", {"": "", "she": "her", "he": "his", "they": "their"}.get(person, f"{person}'s"))
        frame = frame.replace("{P}", person)
    return " ".join(_fill(frame, words, values, random).split()).replace(" ?", "?")


def add_made_lives(corpus: Corpus, count: int, random: Random) -> None:
    for turns, asked in make_lives(count, random):
        group = corpus.add_group(turns)
        corpus.add_passages(turns, everyday="made")
        for question, turn in asked:
            corpus.add_pair("made", question, turns[turn], group)
