"""Put back what a clause leaves out: "I", "I'm", "my", or whom the sentence before is about."""

from __future__ import annotations

from collections.abc import Sequence

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import (
    Token,
    find_opening,
    find_tokens,
    is_auxiliary,
    is_past,
    skip_adverbs,
    third_person,
)

_NOT_MINE = frozenset("is are has does were let lets".split())
_REFERENCES = frozenset("it me that them this us".split())  # "keep it short" is an order


def complete_clause(plain: str, *, elided: bool, ordered: bool = False) -> str:
    """Return the clause with what it leaves out: "my" before one of the speaker's people, and "I" if it is elided.

    ``ordered``: a plain verb without a subject is an order, and nobody's: "keep it short".
    """
    opening, start = find_opening(plain), plain if plain[:2].isupper() else plain[:1].lower() + plain[1:]
    if opening is not None and opening.subject:
        kin = opening.subject.lower().removeprefix("the ")
        mine = find_role_word(kin) or find_role_word(kin.removesuffix("s"))
        return (
            f"my {start.removeprefix('the ')}" if mine and plain.lower().startswith(opening.subject.lower()) else plain
        )
    denied = opening is not None and opening.verb in {"can't", "cannot", "cant"}
    if not (elided or denied) or (opening is not None and not opening.rest):
        return plain
    if opening is None:
        return f"{lead} {start}" if (lead := _find_lead(plain, ordered=ordered)) else plain
    if opening.verb == "got":
        return f"I've {start}"
    told = is_past(opening.verb) and opening.verb not in get_words("verbs")
    if ordered and not told and not denied:
        return plain
    if opening.verb.endswith("ing") and opening.verb not in get_words("no_participles"):
        return f"I'm {start.removeprefix('being ')}"
    first = opening.rest[0].word if opening.rest else ""
    other = (
        opening.verb in _NOT_MINE or first in _REFERENCES or (first.isalpha() and len(first) == 1 and first not in "ai")
    )  # "row F"
    return plain if other or not opening.plain or opening.verb in third_person() else f"I {start}"


def _find_lead(plain: str, *, ordered: bool) -> str:
    """Return what is missing before a state: "I'm" before "still on crutches", "I've" before "never been there"."""
    tokens = find_tokens(plain)
    named = bool(tokens) and tokens[0].word in get_words("determiners")
    if not ordered and not named and get_pattern("part_occupation").match(plain):
        return "I'm an" if plain[0] in "aeiouAEIOU" else "I'm a"
    if get_pattern("part_adjective").match(plain):
        return "I'm"
    at = skip_adverbs(tokens, 0)
    if at + 1 >= len(tokens) or not tokens[at + 1].is_word:
        return ""
    first, second = tokens[at].word, tokens[at + 1].word
    if first == "been":
        return "I've"
    told = first.endswith("ed") and second in get_words("determiners") | {"it", "them"}
    acts = not ordered and first in get_words("verbs") and second not in _REFERENCES
    if told or (at and (is_past(first) or acts)):
        return "I"
    state = get_pattern("elided_state").match(plain[tokens[0].start :])
    timed = second in get_words("moments") | get_words("days") or second.isdigit()
    return "I'm" if state and not timed and not _names_actor(tokens[at + 1 :]) else ""


def _names_actor(tokens: Sequence[Token]) -> bool:
    """Return whether somebody else or something acts: "on Mondays Tom cooks"."""
    for token in tokens:
        if not token.is_word:
            return False
        acts = is_auxiliary(token.word) or token.word in third_person() or is_past(token.word)
        if token.short or acts or token.word in get_words("persons"):
            return True
    return False


def lacks_person(plain: str) -> bool:
    """Return whether it is about somebody who was named before: "rehearses in the bathroom"."""
    opening = find_opening(plain)
    return opening is not None and not opening.subject and opening.verb in third_person() and bool(opening.rest)
