"""Find the things that share one verb, each a fact of its own: "I've got asthma, a mortgage and a very loud dog".

Coordination joins like with like. A list of three or more says so by itself. Two things are taken apart only where
each has a determiner or a place, a time or a purpose of its own: "fish and chips", "Marks and Spencer" and "a dog with
a limp and a bad eye" stay whole. So does what happened once, and whatever the verb takes together ("mix", "between").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import (
    Opening,
    Token,
    find_opening,
    find_tokens,
    is_auxiliary,
    is_done,
    is_finite,
    is_participle,
    is_past,
    is_person,
    skip_adverbs,
    third_person,
)

_JOINT = re.compile(r"\s*,\s*(and|or|plus|&)?\s+|\s+(and|or|plus|&)\s+", re.IGNORECASE)
_MAX_TOKENS = 80
_MAX_CLAUSE = 300  # characters: longer ones are not lists
_MAX_THING = 12  # words of a thing at most: more tell a story
_MAX_THINGS = 8
_PAIR = 2
_SURELY = 3  # things that are a list by their number
_PERSONS = frozenset({"i", "he", "she", "we", "they"})
_BEFORE_VERBS = frozenset("still always never often usually".split())  # "credits still turn around"
_ONES = frozenset("me us him them it you".split())  # stand for somebody or something else
_PLACES = frozenset("at by from in near on".split())
_OFTEN = frozenset("every each once twice daily".split())
_HAVE = frozenset({"have", "has"})
_NOUNS_TOO = frozenset({"fish", "exercise"})  # of the verbs


class ThingList(NamedTuple):
    """``things``: where each stands in the clause. ``texts``: the clause with each of them alone."""

    things: tuple[tuple[int, int], ...]
    texts: tuple[str, ...]


class _Thing(NamedTuple):
    start: int
    end: int
    joint: str  # the conjunction before it; "," for a comma alone
    tokens: tuple[Token, ...]

    @property
    def kind(self) -> str:
        """How it is determined: things alike are joined."""
        first, second = self.tokens[0], self.tokens[1].word if len(self.tokens) > 1 else ""
        if first.word in get_words("definite"):
            return "definite"
        amount = first.word in get_words("quantities") and (second == "of" or first.word not in get_words("amounts"))
        if first.word in get_words("determiners") or amount or _is_number(first.word):
            return "indefinite"
        return "name" if first.capital else "bare"

    @property
    def is_name(self) -> bool:
        return all(token.capital for token in self.tokens)

    @property
    def may_have_name(self) -> bool:
        """Whether a name behind it may be its own: "a Labrador, Pilot", but not "the Economist, Netflix"."""
        common = not any(token.capital for token in self.tokens)
        return self.kind == "indefinite" or (self.kind == "definite" and common)

    @property
    def preposition(self) -> str:
        """The first preposition behind its noun ("a ticket for Hibs") or word of a time ("iron twice a week")."""
        for noun, each in pairwise(self.tokens):
            if each.word in get_words("prepositions") | _OFTEN and not (
                each.word == "of" and noun.word in get_words("amounts")
            ):
                return each.word
        return ""


class _Object(NamedTuple):
    at: int  # the token it begins with
    negated: bool
    verb: str
    preposition: str  # right before it


def find_list(clause: str) -> ThingList | None:
    """Return the things of a clause that can stand apart, at least two; None where it has to stay whole."""
    opening = find_opening(clause) if len(clause) <= _MAX_CLAUSE else None
    if opening is None or not opening.rest or not _may_list(clause, opening):
        return None
    tokens = find_tokens(clause, limit=_MAX_TOKENS)
    found = _find_object(opening, tokens)
    if found is None:
        return None
    inner = find_opening(clause[tokens[found.at].start :])
    if inner is not None and inner.subject:
        return None  # "I think my sister has a cat and a dog"
    cut = _cut(clause, tokens[found.at].start)
    if len(cut) == _PAIR and cut[1].joint == "," and _are_things(clause, cut, negated=False):
        gapped = _fill_gaps(clause, opening, found, cut)  # "my mum lives in Cork, my dad in Perth"
        return ThingList(tuple((each.start, each.end) for each in cut), gapped) if gapped else None
    things = _merge(cut)
    if not 2 <= len(things) <= _MAX_THINGS or not _are_things(clause, things, negated=found.negated):
        return None
    spans = tuple((thing.start, thing.end) for thing in things)
    if gapped := _fill_gaps(clause, opening, found, things):
        return ThingList(spans, gapped)
    shared = _find_shared(clause[: tokens[found.at].start], opening, found, things)
    return None if shared is None else ThingList(spans, tuple(f"{shared}{clause[low:high]}" for low, high in spans))


def _may_list(clause: str, opening: Opening) -> bool:
    subject = opening.subject.lower()
    if subject in get_words("persons") - _PERSONS or get_pattern("part_condition").match(clause.strip()):
        return False
    ordered = get_words("possession") | get_words("liking") | {"use", "avoid", "speak", "play", "drive"}
    return get_pattern("list_together").search(clause) is None and (bool(subject) or opening.verb in ordered)


def _find_shared(before: str, opening: Opening, found: _Object, things: Sequence[_Thing]) -> str | None:
    """Return the words that go before each thing; None where the things belong together."""
    if opening.verb in get_words("copula") and before.rstrip().endswith(opening.words):
        return _word_inclusion(opening, before, things)
    kinds = {thing.kind for thing in things}
    if found.preposition and ({"bare", "name"} <= kinds or (found.verb in get_words("copula") and len(kinds) > 1)):
        return None
    if len(things) >= _SURELY:
        return before if _are_alike(things) else None
    denied = found.negated and things[1].joint == "or"
    return before if denied or _are_apart(found.verb, *things) else None


def _find_object(opening: Opening, tokens: Sequence[Token]) -> _Object | None:
    """Return the object of a state or a habit; None for what happened once."""
    verb, negated = opening.verb, opening.verb.endswith("n't")
    habit = verb in get_words("verbs") or is_auxiliary(verb) or verb == "got"
    if (is_past(verb) and not habit) or verb in {"will", "would", "should", "was", "were", "had", "did"}:
        return None
    at = next((at for at, token in enumerate(tokens) if token.start >= opening.rest[0].start), len(tokens))
    while at < len(tokens):
        word, after = tokens[at].word, skip_adverbs(tokens, at)
        if after > at or word == "not":
            negated = negated or word in {"never", "not"}
            at = max(after, at + 1)
        elif is_auxiliary(verb) and _goes_on(verb, word):
            verb, at = word, at + 1
        else:
            break
    return _skip_preposition(tokens, at, verb, negated=negated) if at < len(tokens) else None


def _goes_on(auxiliary: str, word: str) -> bool:
    """Whether a word is the verb that an auxiliary goes with: "have got", "am learning", "can play"."""
    if auxiliary in get_words("copula"):
        return is_participle(word)
    return word == "got" if auxiliary in _HAVE else word in get_words("verbs") or word == "have"


def _skip_preposition(tokens: Sequence[Token], at: int, verb: str, *, negated: bool) -> _Object | None:
    """The object from a token on. A preposition of the verb goes before it: "pay for", "allergic to"."""
    word, after = tokens[at].word, tokens[at + 1].word if at + 1 < len(tokens) else ""
    perfect = verb in _HAVE and is_done(word)
    if perfect or verb in get_words("together") or word in get_words("relatives") | get_words("persons"):
        return None
    prepositions = get_words("prepositions")
    if word in prepositions:
        infinitive = word == "to" and (after in get_words("verbs") or verb in _HAVE)
        return None if infinitive or not after else _Object(at + 1, negated, verb, word)
    governs = verb in get_words("copula") and after in prepositions and word not in get_words("determiners")
    if governs and get_pattern("list_governs").match(f"{word} {after}") and not tokens[at].capital:
        return _Object(at + 2, negated, word, after) if at + 2 < len(tokens) else None
    return None if verb in get_words("intransitive") else _Object(at, negated, verb, "")


def _cut(clause: str, start: int) -> list[_Thing]:
    things, joint = [], ""
    body = clause.rstrip(" .!;")
    for found in [*_JOINT.finditer(body, start), None]:
        end = len(body) if found is None else found.start()
        tokens = tuple(token for token in find_tokens(clause[:end], start) if token.is_word)
        if not tokens:
            return []
        things.append(_Thing(start, end, joint, tokens))
        if found is not None:
            start, joint = found.end(), (found[1] or found[2] or ",").lower()
    return things


def _merge(things: Sequence[_Thing]) -> list[_Thing]:
    """The things of a list; what belongs to the one before goes with it.

    That are the words behind the last, a name in apposition ("a son, Leo, and a daughter") and the second half of a
    pair ("fish and chips, curry and a roast").
    """
    last = max((at for at, thing in enumerate(things) if thing.joint not in {"", ","}), default=0)
    kept: list[_Thing] = []
    for at, thing in enumerate(things):
        before = kept[-1] if kept else None
        inner = thing.joint not in {"", ","} and at < last and thing.kind in {"bare", "name"}
        named = before is not None and before.may_have_name and thing.is_name
        pair = before is not None and f"{before.tokens[-1].word} {thing.tokens[0].word}" in get_words("pairs")
        if before is not None and (at > last or named):
            kept[-1] = before._replace(end=thing.end)
        elif before is not None and (inner or pair):
            kept[-1] = before._replace(end=thing.end, tokens=before.tokens + thing.tokens)
        else:
            kept.append(thing)
    return kept if last and kept[-1].joint != "," else []


def _are_things(clause: str, things: Sequence[_Thing], *, negated: bool) -> bool:
    """Whether each is a noun with what belongs to it, joined as a list is."""
    joints = {thing.joint for thing in things[1:]}
    if ("or" in joints) != negated and ("or" in joints or len(things) < _SURELY):
        return False
    first, *others = things
    if re.search(r"[:\"“”]|(?<!\w)['‘]", clause[first.start : things[-1].end]) or _has_infinitive(first):
        return False
    apposed = not first.tokens[0].capital and first.kind != "definite" and all(map(_is_named, others))
    if apposed and (len(things) >= _SURELY or _is_number(first.tokens[0].word)):  # "two cats, Miso and Ponzu"
        return False
    if len({thing.tokens[0].word in get_words("days") for thing in things}) > 1:
        return False  # "evening classes, Mondays and Wednesdays"
    return (
        all(map(_is_thing, things)) and not any(_is_verb(thing) for thing in others) and not _is_count(first, *others)
    )


def _is_thing(thing: _Thing) -> bool:
    """Whether it is not a clause, a state, a number or a word for something said elsewhere."""
    words = [token.word for token in thing.tokens]
    closed = ("adverbs", "persons", "prepositions", "relatives", "vague")
    if any(words[0] in get_words(kind) for kind in closed) or is_auxiliary(words[0]) or len(words) > _MAX_THING:
        return False
    if (len(words) == 1 and _is_number(words[0])) or words[0] in _ONES or words[-1] in {"one", "ones"}:
        return False
    state = get_pattern("part_adjective").match(words[0]) or get_pattern("list_rest").match(" ".join(words))
    return not state and not _holds_clause(thing.tokens)


def _is_named(thing: _Thing) -> bool:
    return thing.kind == "name"


def _is_verb(thing: _Thing) -> bool:
    first = thing.tokens[0]
    return is_finite(first.word) and first.word not in _NOUNS_TOO and not first.capital


def _has_infinitive(thing: _Thing) -> bool:
    words = [token.word for token in thing.tokens]
    return any(one == "to" and other in get_words("verbs") for one, other in pairwise(words))


def _is_count(*things: _Thing) -> bool:
    """Whether "and" stands inside a number: "two hundred and ten", "16 and 17 August"."""
    return any(_is_number(one.tokens[-1].word) and _is_number(other.tokens[0].word) for one, other in pairwise(things))


def _is_number(word: str) -> bool:
    return word[:1].isdigit() or word in {"hundred", "thousand"} or get_pattern("number").fullmatch(word) is not None


def _holds_clause(tokens: Sequence[Token]) -> bool:
    """Whether a verb or its subject stands among the words: "and eleven people use it". A relative clause may."""
    for one, other in pairwise(tokens):
        relative = other.word in get_words("relatives") | {"whenever", "while", "if", "till", "until"}
        if relative and one.word not in get_words("prepositions"):
            return False
        if is_auxiliary(other.word) or other.word in _PERSONS or one.short not in {"", "is"}:
            return True
        if one.word in _BEFORE_VERBS and other.word in get_words("verbs"):
            return True
        object_of = other.word in _ONES | get_words("determiners") or other.word[0].isdigit()
        acts = one.word in get_words("verbs") or one.word in third_person() or one.word.endswith("ed")
        if object_of and acts and one is not tokens[0]:
            return True
    return False


def _are_alike(things: Sequence[_Thing]) -> bool:
    """Whether several things are a list, and the last two do not only say more about the first."""
    kinds = {thing.kind for thing in things}
    if not things[0].preposition or all(thing.preposition for thing in things):
        return True
    return len(kinds) == 1 and kinds != {"name"}  # "in Roscommon with the donkeys, Bosco and Elaine"


def _are_apart(verb: str, one: _Thing, other: _Thing) -> bool:
    """Whether two things are two facts: each is determined, or has a place, a time or a purpose of its own."""
    parallel = bool(one.preposition and other.preposition)
    if other.kind in {"bare", "name"}:
        if one.tokens[-1].capital and other.kind == "bare" and one.kind == "indefinite":
            return True  # "a pony called Truffle and asthma"
        return parallel and (one.preposition == other.preposition or not _has_like(one, other))
    if one.kind == "name" and other.kind == "definite" and verb in get_words("liking"):
        return False  # "I love Florence and the Machine"
    if one.preposition in {"", *_OFTEN} or one.tokens[0].word == other.tokens[0].word == "my":
        return True
    placed = one.preposition in _PLACES and not other.preposition  # "a house in France and a boat"
    named = {each.kind for each in _list_inside(one)} == {"name"}  # "a mortgage with Nationwide and a bad knee"
    apart = named and other.kind == "indefinite" and not other.preposition and not _is_person(other.tokens[-1].word)
    return (parallel or placed or apart) and not _has_like(one, other)


def _is_person(word: str) -> bool:
    if get_pattern("part_occupation").fullmatch(word):
        return True
    return any(find_role_word(form) is not None for form in (word, word.removesuffix("s")))


def _has_like(one: _Thing, other: _Thing) -> bool:
    """Whether the other may be joined to a noun inside the first: "a dog with a limp and a bad eye"."""
    return any(
        each.kind == other.kind and not all(_is_number(token.word) for token in each.tokens)
        for each in _list_inside(one)
    )


def _list_inside(thing: _Thing) -> list[_Thing]:
    """Return the nouns behind the prepositions of a thing: "Nationwide" in "a mortgage with Nationwide"."""
    return [
        thing._replace(tokens=thing.tokens[at + 1 :])
        for at, token in enumerate(thing.tokens[:-1])
        if at and token.word in get_words("prepositions")
    ]


def _word_inclusion(opening: Opening, before: str, things: Sequence[_Thing]) -> str | None:
    """Return what goes before each thing that something or somebody is: "my stack includes " before "Redis"."""
    if is_person(opening):
        single = opening.verb in {"am", "is"} and not any(_is_number(thing.tokens[0].word) for thing in things)
        several = len(things) >= _SURELY
        own = _are_alike(things) if several else (bool(things[0].preposition) and _are_apart(opening.verb, *things))
        acts = any(token.word in get_words("verbs") for thing in things for token in thing.tokens[1:])
        return before if single and own and not acts else None
    named = all(thing.kind != "bare" for thing in things)
    mine = opening.subject.lower().startswith(("my ", "our ")) and opening.verb == "is"
    if not mine or len(things) < _SURELY or not named or things[0].tokens[0].word[0].isdigit():
        return None
    return f"{before[: before.rindex(opening.words)]}{opening.subject} includes "


def _fill_gaps(clause: str, opening: Opening, found: _Object, things: Sequence[_Thing]) -> tuple[str, ...] | None:
    """Return the clauses of a list that leaves out the verb: "my mum lives in Cork and my dad in Perth"."""
    others = things[1:]
    if not found.preposition or opening.subject.lower() in _PERSONS:
        return None
    if not all(each.kind in {"definite", "name"} and each.preposition == found.preposition for each in others):
        return None
    texts = [clause[: things[0].end]]
    for each in others:
        at = next(token.start for token in each.tokens[1:] if token.word == found.preposition)
        texts.append(f"{clause[each.start : at]}{opening.verb} {clause[at : each.end]}")
    return tuple(texts)
