"""Instructions that are lifted or replaced: "you can use emojis again", "English from now on"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from limpet.knowledge.english import get_pattern, get_words, load_table

_WORDS = re.compile(r"[^\W_]+(?:['’/-][^\W_]+)*")
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
    return [word for word in _WORDS.findall(sentence.lower()) if word not in get_words("instructing")]


def replaces_style(sentence: str, instruction: str) -> bool:
    """Return whether it asks for another style of the same kind: for prose where bullet points were asked for."""
    said, known = _find_styles(sentence), _find_styles(instruction)
    return any(styles.isdisjoint(known.get(kind, styles)) for kind, styles in said.items())


def _find_styles(text: str) -> dict[str, set[str]]:
    """Return what a text asks for, by kind; what it forbids does not count."""
    said = f" {' '.join(_WORDS.findall(text.lower()))} "
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
