"""What people take for granted of themselves while they ask for something: "my landlord Piet", "with my asthma"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.assertions import MAX_SENTENCE, asks_for_oneself, is_opt_out, mask_quotations
from limpet.knowledge.english.clause import find_role_word
from limpet.search.analysis import Sentence, split_sentences

_OTHER = re.compile(r"\b(?:he|she|they|his|her|their|my (?!gp\b|doctor)[a-z]+['’]s)\b")
_OVER = re.compile(r"\b(?:gone|remission|cured|cleared up|went away|grew out of|outgrew|outgrown|used to|wasn['’]t)\b")


class Presupposed(NamedTuple):
    """What the speaker has, or one of theirs, and the sentence that names it. ``attribute`` may be empty."""

    sentence: Sentence
    role: str  # empty for the speaker
    attribute: str
    value: str
    text: str


def find_presupposed(text: str) -> Iterator[Presupposed]:
    """Yield what a message takes for granted, whether or not it states it: health, diet, names and things."""
    if is_opt_out(text):
        return
    for sentence in split_sentences(mask_quotations(text)):
        if len(sentence.text) > MAX_SENTENCE or get_pattern("material").search(sentence.text):
            return
        if not get_pattern("fiction").search(sentence.text):
            yield from _find_in_sentence(sentence)


def _find_in_sentence(sentence: Sentence) -> Iterator[Presupposed]:
    said = sentence.text.lower()
    if _OVER.search(said):
        return
    for found in get_pattern("own_condition").finditer(said):
        named = found["role"] or found["whose"] or ""
        role, who = find_role_word(named) or "", f"The user's {named}" if named else "The user"
        if found["v"]:
            yield Presupposed(sentence, role, "health", found["v"], f"{who} has {_spell(found['v'])}.")
        else:
            yield Presupposed(
                sentence, role, "allergy", found["allergen"], f"{who} has {_add_article(found['thing'])}."
            )
    for found in get_pattern("as_one_with").finditer(said):
        if asks_for_oneself(sentence.text):
            value = found["v"] or found["being"]
            text = f"has {_spell(value)}" if found["v"] else f"is {_describe(value)}"
            diet = found["being"] and value not in ("diabetic", "asthmatic", "epileptic", "wheelchair user")
            yield Presupposed(sentence, "", "diet" if diet else "health", value, f"The user {text}.")
    yield from _find_named(sentence)
    diagnosed = None if _OTHER.search(said) else get_pattern("diagnosis").search(said)
    if diagnosed is not None:
        yield Presupposed(sentence, "", "health", diagnosed["v"], f"The user has {_spell(diagnosed['v'])}.")


def _find_named(sentence: Sentence) -> Iterator[Presupposed]:
    if get_pattern("translation").search(sentence.text):
        return
    for found in get_pattern("own_named").finditer(sentence.text):
        name, role = found["name"], find_role_word(found["role"].lower()) or found["role"].lower()
        if name.split()[0].casefold() not in get_words("places"):
            yield Presupposed(sentence, role, "name", name, f"The user's {found['role'].lower()} is called {name}.")
    for found in get_pattern("own_thing").finditer(sentence.text):
        thing = found["several"] or _add_article(found["thing"])
        yield Presupposed(sentence, "", "", found["several"] or found["thing"], f"The user has {thing}.")


def _add_article(thing: str) -> str:
    return f"{'an' if thing[0].lower() in 'aeiou' else 'a'} {thing}"


def _describe(value: str) -> str:
    return f"a {value}" if value == "wheelchair user" else value


def _spell(condition: str) -> str:
    """Return the condition as people write it: short names in capitals, "a bad back" with its article."""
    if condition in {"adhd", "cfs", "copd", "hiv", "ibs", "me/cfs", "ocd", "pcos", "ptsd"}:
        return condition.upper()
    return f"a {condition}" if condition.startswith("bad ") and not condition.endswith("s") else condition
