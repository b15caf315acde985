"""Name what "it" and "them" mean, where the sentence just before says so: "we pay them" becomes "pays the supplier".

Only the subject of what was said before counts, or the one thing that the speaker has or got. Where neither fits,
the pronoun stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from limpet.knowledge.english import get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import Opening, find_opening

# First in the sentence, or behind the user's verb: another thing that stands between may be meant instead.
_PRONOUN = re.compile(r"(?:(?P<lead>The user(?: [a-z'’]+){1,4}) )?(?:(?P<it>it)|they|them)\b(?!['’])", re.IGNORECASE)
_MINE = re.compile(r"^(?:my|our)\s+", re.IGNORECASE)
_DETERMINED = frozenset(
    """a an the this that these those my our his her their and but if when because says said two three""".split()
)
_AGENTS = ("er", "or", "ist", "man", "mate", "agent", "assistant", "priest", "nurse", "chef")
_OWNERS = frozenset("my our the".split())
_NO_THINGS = frozenset(
    "one name hobby job plan dream idea problem thing boy girl lad man woman friend guy gp boss".split()
)
_MEMBERS = ("er", "or", "ist", "team", "company", "shop", "bank", "landlord", "club", "school", "council")  # "them"
# After "it" as a subject these mostly mean nothing that was named: "it rains", "it takes an hour".
_EMPTY = frozenset(
    """is was isn't wasn't be been has had will would could might may can should must takes took rains rained snows
    snowed seems seemed turns turned feels felt depends means meant looks looked sounds makes made helps happens
    happened works worked matters costs hurts""".split()
)
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
        return not _DETERMINED.isdisjoint(between)
    after = found.string[found.end() :].split(maxsplit=1)[:1]
    return found["it"] is not None and (not after or after[0].lower().strip(".,") in _EMPTY)


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
    if head in _NO_THINGS or (named and not several):
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
