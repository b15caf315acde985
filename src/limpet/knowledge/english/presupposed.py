"""What people take for granted of themselves while they ask for something: "my landlord Piet", "with my asthma"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.assertions import (
    MAX_SENTENCE,
    asks_for_oneself,
    is_opt_out,
    is_retraction,
    mask_quotations,
)
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


def list_real_sentences(text: str) -> Iterator[tuple[Sentence, bool]]:
    """Yield the sentences, questions and requests included, each with whether it is about a text and ends the list.

    Fiction is left out, and so is what the next sentence takes back.
    """
    if is_opt_out(text):
        return
    sentences = list(split_sentences(mask_quotations(text)))
    for at, sentence in enumerate(sentences):
        following = sentences[at + 1].text if at + 1 < len(sentences) else ""
        if get_pattern("taken_back").match(following) or is_retraction(following):
            continue
        if len(sentence.text) > MAX_SENTENCE:
            return
        if get_pattern("material").search(sentence.text):
            yield sentence, True
            return
        if not get_pattern("fiction").search(sentence.text):
            yield sentence, False


def find_presupposed(text: str) -> Iterator[Presupposed]:
    """Yield what a message takes for granted, whether or not it states it: health, diet, names and things."""
    for sentence, material in list_real_sentences(text):
        if not material:
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
    for found in get_pattern("own_medicine").finditer(said):
        yield Presupposed(sentence, "", "medication", found["v"], f"The user takes {found['v']}.")
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
        value = found["several"] or found["aid"] or found["thing"]
        yield Presupposed(sentence, "", "", value, f"The user has {value if _is_many(value) else _add_article(value)}.")


def _is_many(thing: str) -> bool:
    return thing[0].isdigit() or thing == "insulin" or thing.endswith("s")


def _add_article(thing: str) -> str:
    return f"{'an' if thing[0].lower() in 'aeiou' else 'a'} {thing}"


def _describe(value: str) -> str:
    return f"a {value}" if value == "wheelchair user" else value


def _spell(condition: str) -> str:
    """Return the condition as people write it: short names in capitals, "a bad back" with its article."""
    if condition in {"adhd", "cfs", "copd", "hiv", "ibs", "me/cfs", "ocd", "pcos", "ptsd"}:
        return condition.upper()
    return f"a {condition}" if condition.startswith("bad ") and not condition.endswith("s") else condition
