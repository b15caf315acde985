"""Put back what a clause leaves out: "I", "I'm", "my", or whom the sentence before is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import (
    Opening,
    Token,
    find_opening,
    find_tokens,
    is_auxiliary,
    is_finite,
    is_past,
    skip_adverbs,
    third_person,
)

_NOT_MINE = frozenset("is are has does were let lets".split())
_REFERENCES = frozenset("it me that them this us".split())  # "keep it short" is an order
_HEARER = frozenset("me your yourself".split())  # so is "use grams with me"


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
    if elided and opening is not None and opening.rest[:1] and opening.rest[0].word == "of" and _tells_state(plain):
        return f"I'm {start}"
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
        opening.verb in _NOT_MINE
        or first in _REFERENCES
        or (not told and _speaks_to_hearer(opening.rest))
        or (first.isalpha() and len(first) == 1 and first not in "ai")
    )  # "row F"
    return plain if other or not opening.plain or opening.verb in third_person() else f"I {start}"


def _speaks_to_hearer(rest: Sequence[Token]) -> bool:
    """Return whether "me" or "your" stands before another verb. "Me dad" is "my dad"."""
    words = [each.word for each in takewhile(lambda each: not is_finite(each.word), rest)]
    return any(
        word in _HEARER and (word != "me" or find_role_word(after) is None) for word, after in pairwise([*words, ""])
    )


def _tells_state(plain: str) -> bool:
    """Return whether it says how somebody is: "scared of needles"."""
    return get_pattern("part_adjective").match(plain) is not None


def _find_lead(plain: str, *, ordered: bool) -> str:
    """Return what is missing before a state: "I'm" before "still on crutches", "I've" before "never been there"."""
    tokens = find_tokens(plain)
    named = bool(tokens) and tokens[0].word in get_words("determiners")
    if not ordered and not named and get_pattern("part_occupation").match(plain):
        return "I'm an" if plain[0] in "aeiouAEIOU" else "I'm a"
    if _tells_state(plain):
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


# Name what "it" and "them" mean, where the sentence just before says so: "we pay them" becomes "pays the supplier".
# Only the subject of what was said before counts, or the one thing that the speaker has or got. Where neither fits, the
# pronoun stays.

# First in the sentence, or behind the user's verb: another thing that stands between may be meant instead.
_PRONOUN = re.compile(r"(?:(?P<lead>The user(?: [a-z'’]+){1,4}) )?(?:(?P<it>it)|they|them)\b(?!['’])", re.IGNORECASE)
_MINE = re.compile(r"^(?:my|our)\s+", re.IGNORECASE)
_AGENTS = ("er", "or", "ist", "man", "mate", "agent", "assistant", "priest", "nurse", "chef")
_OWNERS = frozenset("my our the".split())
_MEMBERS = ("er", "or", "ist", "team", "company", "shop", "bank", "landlord", "club", "school", "council")  # "them"
_GOT = frozenset("have has had bought buy got own drive ride adopted rent rented ordered keep play use".split())
_LONGEST = 4  # words of what a pronoun stands for


def name_things(content: str, before: Sequence[str]) -> str:
    """Return the sentence with the thing in the place of its "it" or "them".

    ``before``: the statements before it. "Them" may stand for what the last but one is about.
    """
    found = _PRONOUN.match(content)
    if found is None or _means_other(found):
        return content
    several, lead = found["it"] is None, found["lead"]
    said = before[-2:] if several and lead else before[-1:]
    thing = next((thing for each in reversed(said) if (thing := _find_thing(each, several, alone=not lead))), "")
    if not thing:
        return content
    named = _MINE.sub("their " if lead else "the user's ", thing, count=1)
    start = f"{lead} {named}" if lead else named[:1].upper() + named[1:]
    return f"{start}{content[found.end() :]}"


def _means_other(found: re.Match[str]) -> bool:
    """Return whether the pronoun may mean what stands before it, or nothing: "it rains"."""
    if found["lead"]:
        between = found["lead"].lower().split()[2:]
        return not get_words("before_a_thing").isdisjoint(between)
    after = found.string[found.end() :].split(maxsplit=1)[:1]
    return found["it"] is not None and (not after or after[0].lower().strip(".,") in get_words("after_empty_it"))


def _find_thing(before: str, several: bool, alone: bool) -> str:
    """Return what a statement is about; "" where the pronoun does not fit it. ``alone``: it is the subject itself."""
    text = before.strip()
    opening = find_opening(text)
    words = opening.subject.split() if opening is not None else []
    if opening is None or not words or len(words) > _LONGEST:
        return ""
    first, head = words[0].lower(), words[-1].lower()
    if first in {"i", "we"}:
        return "" if several else _find_object(text, opening)
    plural = head.endswith("s") and not head.endswith("ss")
    if first not in _OWNERS and not (several and plural and len(words) == 1):
        return ""  # a name
    named = any(word[0].isupper() for word in words[1:])
    if head in get_words("no_things") or (named and not several):
        return ""
    fits = plural or (head.endswith(_MEMBERS) and not alone) if several else not (plural or _is_person(head))
    return " ".join([first if first in _OWNERS else words[0], *words[1:]]) if fits else ""


def _is_person(head: str) -> bool:
    kin = get_words("kin") | get_words("persons")
    return head in kin or head.endswith(_AGENTS) or find_role_word(head) in kin


def _find_object(text: str, opening: Opening) -> str:
    """Return the thing that the speaker has or got: "the Leaf" of "I bought a Leaf in May"."""
    if "," in text or opening.verb not in _GOT or not opening.rest or opening.rest[0].word not in {"a", "an", "the"}:
        return ""
    closed = get_words("prepositions") | get_words("adverbs") | get_words("auxiliaries") | {"and", "or", "but", "that"}
    named = []
    for token in opening.rest[1:]:
        if not token.is_word or token.word in closed:
            break
        named.append(text[token.start : token.end])
    one = 0 < len(named) <= _LONGEST and not named[-1].endswith("s") and named[-1].lower() not in get_words("kin")
    return f"the {' '.join(named)}" if one else ""
