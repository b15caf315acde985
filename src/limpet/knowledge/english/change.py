"""Signs that something changed or ended: the words people use when they say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from limpet.knowledge.english import get_pattern, get_signs, get_words, load_table
from limpet.model.text_cache import cache_texts

_WORDS = re.compile(r"[^\W_]+")


def has_change_sign(sentence: str) -> bool:
    return get_signs("change_signs").search(sentence.lower()) is not None or has_end_sign(sentence)


def has_end_sign(sentence: str) -> bool:
    return get_signs("end_signs").search(sentence.lower()) is not None


def has_stay_sign(sentence: str) -> bool:
    """Return whether it speaks of the same, of something beside it, or of what is not so yet or any more."""
    return get_signs("stay_signs").search(sentence.lower()) is not None


def tells_of_loss(sentence: str) -> bool:
    """Return whether somebody or something is gone, rather than something they did: "Rex died", not "Rex stopped"."""
    return get_signs("loss_signs").search(sentence.lower()) is not None


def is_kin_still(claim: str, sentence: str) -> bool:
    """Return whether a claim is about family that a sentence does not call dead: a son who moves out stays one.

    That he lives with somebody is over.
    """
    if not get_pattern("kin_for_life").search(claim) or get_signs("death_signs").search(sentence.lower()):
        return False
    return not (get_pattern("lives_somewhere").search(claim) and "moved out" in sentence.lower())


def list_owners(sentence: str) -> list[str]:
    """Return whose friends and family a sentence speaks of: "Kwame's mate got divorced" is not about Kwame."""
    return [found["whose"] for found in get_pattern("friend_of").finditer(sentence)]


def find_retracted(sentence: str) -> str:
    """Return what a sentence says was never so: "turns out it wasn't gluten after all". Empty if it says nothing."""
    found = get_pattern("retracted").search(sentence)
    return found["what"] if found else ""


def find_called_off(sentence: str) -> str:
    """Return what a sentence says will not take place: "the race is off". Empty if it says nothing."""
    found = get_pattern("called_off").search(sentence)
    return next(filter(None, found.groups())) if found else ""


def find_return(text: str) -> str:
    """Return what a text says is as it was: "back to nights", "the old pot is back". Empty if it says nothing."""
    return " ".join(part for found in get_pattern("returns").finditer(text.lower()) for part in found.groups() if part)


def is_last(sentence: str) -> bool:
    """Return whether it says when something will be over: "my last day is April 30"."""
    return get_pattern("last_time").search(sentence) is not None


def is_passing(sentence: str) -> bool:
    """Return whether it tells of this day only: "I'm on the train", "the build is slow today"."""
    return get_signs("passing_signs").search(sentence.lower()) is not None


def find_topics(text: str) -> frozenset[str]:
    """Return what a text is about, of what people mostly have one of: a car, a bank, a partner."""
    said = _WORDS.findall(text.casefold())
    return frozenset(topic for word in said for topic in _list_topics().get(word, ()))


@cache
def _list_topics() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for topic, words in load_table("topics.toml").items():
        for word in [*words.split(), *(get_words("occupations") if topic == "work" else ())]:
            found[word] = (*found.get(word, ()), topic)
    return found


# Instructions that are lifted or replaced: "you can use emojis again", "English from now on"

_JOINED_WORDS = re.compile(r"[^\W_]+(?:['’/-][^\W_]+)*")
_BEFORE = 24  # characters before a style in which it may be forbidden


def changes_instructions(sentence: str) -> bool:
    """Return whether it may tell the assistant to do something in another way from now on, not only once."""
    if "?" in sentence or get_pattern("once").search(sentence):
        return False
    return allows(sentence) or forbids(sentence) or get_pattern("instructs_anew").search(sentence) is not None


def forbids(sentence: str) -> bool:
    return get_pattern("forbids").search(sentence) is not None


def allows(sentence: str) -> bool:
    """Return whether it leaves to the assistant what may have been forbidden, or asked for, before."""
    return get_pattern("allows").search(sentence) is not None


def list_instructed(sentence: str) -> list[str]:
    """Return the words that say what is to be done or left, without those that say only that it is."""
    return [word for word in _JOINED_WORDS.findall(sentence.lower()) if word not in get_words("instructing")]


def replaces_style(sentence: str, instruction: str) -> bool:
    """Return whether it asks for another style of the same kind: for prose where bullet points were asked for."""
    said, known = _find_styles(sentence), _find_styles(instruction)
    return any(styles.isdisjoint(known.get(kind, styles)) for kind, styles in said.items())


@cache_texts(1 << 12)  # of a claim, for each message
def _find_styles(text: str) -> Mapping[str, set[str]]:
    """Return what a text asks for, by kind; what it forbids does not count."""
    said = f" {' '.join(_JOINED_WORDS.findall(text.lower()))} "
    found: dict[str, set[str]] = {}
    for words, (kind, style) in _list_styles().items():
        at = said.find(f" {words} ")
        if at >= 0 and not forbids(said[max(0, at - _BEFORE) : at + 1]):
            found.setdefault(kind, set()).add(style)
    return found


@cache
def _list_styles() -> Mapping[str, tuple[str, str]]:
    return {
        words.replace("_", " "): (kind, style)
        for kind, styles in load_table("styles.toml").items()
        for style, listed in styles.items()
        for words in listed.split()
    }
