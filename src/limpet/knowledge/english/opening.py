"""How a clause begins: a subject with its finite verb, or a verb alone. There is no parser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.model.text_cache import cache_texts

_TOKENS = 24
_SUBJECT = 6  # words of a subject at most
_NAMED = 3  # of the first of two
_TOKEN = re.compile(r"[^\W_]+(?:[-.][^\W_]+)*(?:['’][a-z]+)?|[^\w\s]", re.IGNORECASE)
_FULL = {"m": "am", "s": "is", "re": "are", "ve": "have", "ll": "will", "d": "would"}
_RUN_TOGETHER = re.compile(r"(i)(m|ve)|(s?he)(s)|(they|you)(re|ve)|(we)(ve)")  # "im", "shes"


class Token(NamedTuple):
    word: str  # lower case, without what is contracted with it
    short: str  # the verb contracted with it, in full
    start: int
    end: int
    capital: bool

    @property
    def is_word(self) -> bool:
        return self.word[:1].isalnum()


class Opening(NamedTuple):
    """How a clause begins. ``subject`` is empty where it is understood: "drive a Golf, park at the station"."""

    subject: str
    verb: str  # lower case, not contracted
    words: str  # the subject and the verb as they stand in the text
    rest: tuple[Token, ...]  # behind the verb
    plain: bool  # the subject takes the plain form of a verb, as "I" and "we" do


@cache_texts(256)  # a statement is looked at several times
def find_opening(text: str) -> Opening | None:
    lead = get_pattern("part_lead").match(text)
    tokens = find_tokens(text, lead.end() if lead else 0)
    at = _find_verb(tokens)
    if at is None:
        return None
    verb = tokens[at]
    ends = (
        verb.start + len(verb.word)
        if verb.short
        else next(
            (token.end for token in reversed(tokens[:at]) if token.word not in get_words("adverbs")), tokens[0].start
        )
    )
    start, plain = tokens[0].start, _is_plain(tokens, at + bool(verb.short))
    return Opening(text[start:ends], verb.short or verb.word, text[start : verb.end], tokens[at + 1 :], plain)


def find_tokens(text: str, start: int = 0, limit: int = _TOKENS) -> tuple[Token, ...]:
    found: list[Token] = []
    for match in _TOKEN.finditer(text, start):
        word, _, ending = match.group().lower().replace("’", "'").partition("'")
        if joined := _RUN_TOGETHER.fullmatch(word):
            word, ending = filter(None, joined.groups())
        short = _FULL.get(ending, "")
        plain = word if short or not ending else f"{word}'{ending}"
        found.append(Token(plain, short, match.start(), match.end(), match.group()[0].isupper()))
        if len(found) == limit:
            break
    return tuple(found)


def _find_verb(tokens: Sequence[Token]) -> int | None:
    """Where the finite verb of a clause stands that begins here; 0 where the verb begins it."""
    if not tokens or not tokens[0].is_word:
        return None
    first, second = tokens[0], tokens[1] if len(tokens) > 1 else None
    if first.word in get_words("persons"):
        if first.short:
            return 0
        at = skip_adverbs(tokens, 1)
        return at if at < len(tokens) and _is_verb_of_person(first.word, tokens[at]) else None
    if first.word in get_words("determiners"):
        return _find_verb_of_noun(tokens, 1, definite=first.word in get_words("definite"))
    if first.word in {"never", "always"} and second and (second.word in get_words("verbs") or _is_ordered(tokens)):
        return 1
    if any(first.word in get_words(kind) for kind in ("prepositions", "adverbs", "relatives", "conjunctions")):
        return None
    acting = first.word.endswith("ing") and first.word not in get_words("no_participles")
    begins = (is_finite(first.word) or acting) and not first.short
    denied = first.word.endswith("n't") or first.word in {"cannot", "cant", "dont", "wont"}
    if begins and (denied or not (second and _is_verb_of(first, second))):
        return None if first.capital and first.word in get_words("given_names") else 0
    return _find_verb_of_noun(tokens, 0, definite=True)


def _is_verb_of_person(person: str, word: Token) -> bool:
    """Whether a word is the verb of a person. Behind "I" and "we" it is, unless it is one of the closed classes."""
    if is_finite(word.word):
        return True
    closed = ("conjunctions", "determiners", "persons", "prepositions", "relatives")
    plain = word.word.isalpha() and not word.capital and not any(word.word in get_words(kind) for kind in closed)
    return person in {"i", "we"} and plain and not word.short


def _is_ordered(tokens: Sequence[Token]) -> bool:
    """Whether the second word is a verb by what follows it: "never book me"."""
    after = tokens[2].word if len(tokens) > 2 else ""
    return tokens[1].word.isalpha() and after in {"me", "my", "it", "them", "the"}


def _is_verb_of(noun: Token, after: Token) -> bool:
    """Whether the second word is the verb of the first, which could be a verb itself: "deploys go out"."""
    if after.short or is_auxiliary(after.word):
        return True
    if noun.word.endswith("s"):
        return after.word in get_words("verbs") and after.word != "like"
    return noun.word.endswith("ing") and after.word in third_person()


def _find_verb_of_noun(tokens: Sequence[Token], noun: int, *, definite: bool) -> int | None:
    """The verb after a subject whose first noun may stand at ``noun``. "A cat called Tom" has none."""
    for at in range(noun, min(len(tokens), noun + _SUBJECT)):
        token = tokens[at]
        if not token.is_word or (token.word in get_words("prepositions") and token.word != "of"):
            return _find_copula(tokens, at) if definite and noun and token.is_word and at > noun else None
        if at > noun and (token.word in get_words("relatives") or token.word in {"if", "so", "whenever", "while"}):
            return _find_copula(tokens, at + 1) if definite else None
        if token.short and _is_contracted(tokens, at):
            return at
        if at == noun or token.short:
            continue
        if is_auxiliary(token.word) or token.word in third_person():
            return at
        if (definite and is_past(token.word)) or (
            token.word in get_words("verbs") and tokens[at - 1].word.endswith("s")
        ):
            return at
        if token.word in {"and", "or", "but"}:
            first = tokens[noun:at]
            named = len(first) <= _NAMED and any(each.capital or find_role_word(each.word) for each in first)
            return _find_verb_of_pair(tokens, at) if named and definite and token.word == "and" else None
    return None


def _find_verb_of_pair(tokens: Sequence[Token], conjunction: int) -> int | None:
    """The verb of two that share one: "Kerstin and I are vegetarians"."""
    at = skip_adverbs(tokens, conjunction + 2)
    second = tokens[conjunction + 1 : conjunction + 2]
    person = bool(second) and second[0].word in {"i", "he", "she"} and not second[0].short
    return at if person and at < len(tokens) and is_finite(tokens[at].word) else None


def _find_copula(tokens: Sequence[Token], preposition: int) -> int | None:
    """The "is" behind a noun with a preposition: "my budget for the trip is 400 euros"."""
    ahead = range(preposition + 2, min(len(tokens), preposition + _SUBJECT))
    at = next((at for at in ahead if not tokens[at].is_word or is_auxiliary(tokens[at].word)), None)
    return at if at is not None and tokens[at].word in get_words("copula") else None


def _is_contracted(tokens: Sequence[Token], at: int) -> bool:
    """Whether "'s" is a verb ("the bike's on finance") and not of an owner ("my sister's dog")."""
    if tokens[at].short != "is" or at + 1 == len(tokens):
        return tokens[at].short not in ("", "is")
    after = tokens[at + 1]
    closed = ("determiners", "prepositions", "adverbs", "persons", "past", "participles")
    known = (
        after.word == "not"
        or any(after.word in get_words(kind) for kind in closed)
        or get_pattern("part_state").match(after.word)
    )
    return (
        bool(known)
        or after.capital
        or after.word[:1].isdigit()
        or (after.word.endswith(("ing", "ed")) and len(after.word) > 4)
    )


def skip_adverbs(tokens: Sequence[Token], at: int) -> int:
    while at < len(tokens) and _is_adverb(tokens[at].word):
        at += 1
    return at


def _is_adverb(word: str) -> bool:
    return word in get_words("adverbs") or (word.endswith("ly") and word not in get_words("verbs"))


def _is_plain(tokens: Sequence[Token], verb: int) -> bool:
    subject = [token.word for token in tokens[:verb] if token.word not in get_words("adverbs")]
    return not subject or subject[-1] in {"i", "we", "you", "they"} or "and" in subject or subject[-1].endswith("s")


# Verbs


@cache
def third_person() -> frozenset[str]:
    return frozenset(map(inflect, get_words("verbs"))) | {"has", "does", "is"}


def inflect(verb: str) -> str:
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def is_auxiliary(word: str) -> bool:
    return word in get_words("auxiliaries") or word.endswith("n't")


def is_past(word: str) -> bool:
    if word in get_words("past"):
        return True
    stems = (word[:-1], word[:-2], f"{word[:-3]}y", word[:-3]) if word.endswith("ed") else ()
    return any(stem in get_words("verbs") for stem in stems)


def is_done(word: str) -> bool:
    """Whether a word behind "have" may be its participle: "been", "moved"."""
    return is_past(word) or word.endswith("ed") or word in get_words("participles")


def is_finite(word: str) -> bool:
    return word in get_words("verbs") or is_auxiliary(word) or word in third_person() or is_past(word)


def is_participle(word: str) -> bool:
    """Whether a word is a verb with "ing": "renting", and not "evening"."""
    stem = word.removesuffix("ing")
    forms = (stem, f"{stem}e", stem[:-1])
    return word == "doing" or (stem != word and any(form in get_words("verbs") for form in forms))


def is_person(opening: Opening) -> bool:
    """Whether the subject of a clause is a person or a pet: "I", "my sister", "Anna"."""
    first, *rest = opening.subject.split() or [""]
    if {"i", "he", "she", "we", "they"} & {first.lower(), *rest} or any(find_role_word(each.lower()) for each in rest):
        return True
    named = first[:1].isupper() and not first.endswith("s")
    return not rest and (named or find_role_word(first.lower()) is not None)
