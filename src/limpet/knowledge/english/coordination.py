"""Split a sentence into the statements it joins: clauses, predicates of a shared subject, and things somebody has.

There is no parser. A part starts where a subject meets a finite verb, or where a verb, a state or a thing goes on with
the clause before it. What may be half a statement ("want to quit and start again") stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.model.text_cache import cache_texts
from limpet.search.analysis import split_sentences

_MAX_PARTS = 8
_AHEAD = 90  # characters behind a joint that decide about it
_TOKENS = 24
_REMARK = 2  # words of a clause that belongs to the one before
_SUBJECT = 6  # words of a subject at most
_TOKEN = re.compile(r"[^\W_]+(?:[-.][^\W_]+)*(?:['’][a-z]+)?|[^\w\s]", re.IGNORECASE)
_NAMED = re.compile(r"^\w+ (?:first |full )?name .*\b(?:is|was) ([A-ZÀ-Þ][\w’'-]+)$")  # "her name is Biscuit, a beagle"
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w’'-]+$")
_JOINS = frozenset("and but plus &".split())
_TIMES = frozenset("as at on since still".split())
_OWN = frozenset("i we my our".split())
_FULL = {"m": "am", "s": "is", "re": "are", "ve": "have", "ll": "will", "d": "would"}


class StatementSpan(NamedTuple):
    """``start`` and ``end``: its words in the text. ``text``: the same with the subject it shares."""

    start: int
    end: int
    text: str


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


def split_statements(text: str) -> Iterator[StatementSpan]:
    """The statements of a text in order, each with a subject of its own. Runs in linear time."""
    for sentence in split_sentences(text):
        yield from _split_sentence(sentence.text, sentence.start)


def _split_sentence(sentence: str, offset: int) -> Iterator[StatementSpan]:
    cuts, shared = [0], [""]
    opening = find_opening(sentence[: 2 * _AHEAD])
    for joint in get_pattern("part_joint").finditer(sentence):
        rest = sentence[joint.end() : joint.end() + _AHEAD]
        if len(cuts) >= _MAX_PARTS or not rest:
            break
        before = sentence[cuts[-1] : joint.start()]
        if _is_bound(before, rest):
            continue
        found, said = find_opening(rest), joint.group().replace(",", " ").replace(";", " ").strip().lower()
        own = found is not None and bool(found.subject)
        if own and said == "and" and not shared[-1] and _is_pair(before):
            continue
        if found is not None and own and _elaborates(found, said, first=len(cuts) == 1):
            continue
        if own and not said and _is_remark(sentence[joint.end() :]):
            opening = found
            continue
        listed = "," in joint.group() or bool(shared[-1].strip())
        own = own or (said == "so" and get_pattern("part_order").match(rest) is not None)
        prefix = "" if own else _share(opening, before, rest, listed=listed, joined=said in _JOINS)
        if prefix is not None and (own or said != "so"):
            cuts.append(joint.end())
            shared.append(prefix)
            opening = found if own else find_opening(f"{prefix}{rest}") or opening
    for start, end, prefix in zip(cuts, [*cuts[1:], len(sentence)], shared, strict=True):
        words = get_pattern("part_joint_end").sub("", sentence[start:end]).rstrip(" ,;")
        if any(map(str.isalnum, words)):
            yield StatementSpan(offset + start, offset + start + len(words), f"{prefix}{words}")


def _is_bound(before: str, rest: str) -> bool:
    """Whether the words before a joint do not stand alone: a condition, a supposition, what somebody says, one word."""
    words = before.lower().split()
    alone = len(words) > 1 or get_pattern("part_adjective").match(before.strip()) is not None
    return (
        not alone
        or (get_pattern("part_adverbial").match(before.strip()) is not None and find_opening(before) is None)
        or get_pattern("part_condition").match(before.strip()) is not None
        or get_pattern("part_unreal").search(before) is not None
        or get_pattern("part_filler").match(rest) is not None
        or before.rstrip().endswith(("not only", "both"))
    )


def _elaborates(clause: Opening, joint: str, *, first: bool) -> bool:
    """Whether a clause only gives a reason or a consequence of the one before.

    "No grapefruit, it messes with my pills", "so the steps for Windows are useless", "left the guild, fees went mad".
    """
    subject = clause.subject.lower().split()
    if joint == "so":
        return subject[0] not in _OWN
    if joint:
        return first and joint in _JOINS and subject[0] in get_words("references")
    named = clause.subject[0].isupper() or subject[0] in get_words("determiners") | get_words("persons")
    bare = not named and find_role_word(subject[0]) is None and find_role_word(subject[0].removesuffix("s")) is None
    return subject[0] in get_words("references") or (bare and first)


def _is_remark(rest: str) -> bool:
    """Whether a clause says nothing without the one before: "my exam was on Monday, I passed"."""
    clause = get_pattern("part_joint").split(rest, maxsplit=1)[0]
    telling = get_pattern("part_adjective").search(clause) or get_pattern("part_number").search(clause)
    return len(clause.split()) <= _REMARK and telling is None


def _is_pair(before: str) -> bool:
    """Whether the words are the first of two that share a verb: "my partner Aoife and I have been together"."""
    words = before.split()
    named = before[:1].isupper() or words[0].lower() in get_words("determiners")
    return named and len(words) <= _SUBJECT and find_opening(before) is None and not _is_fragment(before)


def lacks_verb(text: str) -> bool:
    """Whether a text has neither a clause nor a state that says something by itself: "night shifts mostly"."""
    return find_opening(text) is None and get_pattern("part_adjective").match(text.strip()) is None


# How a clause begins: a subject with its verb, or a verb alone


@cache_texts(256)  # a statement is looked at several times
def find_opening(text: str) -> Opening | None:
    lead = get_pattern("part_lead").match(text)
    tokens = _tokenize(text, lead.end() if lead else 0)
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


def _tokenize(text: str, start: int = 0) -> tuple[Token, ...]:
    found: list[Token] = []
    for match in _TOKEN.finditer(text, start):
        word, _, ending = match.group().lower().replace("’", "'").partition("'")
        short = _FULL.get(ending, "")
        plain = word if short or not ending else f"{word}'{ending}"
        found.append(Token(plain, short, match.start(), match.end(), match.group()[0].isupper()))
        if len(found) == _TOKENS:
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
        at = _skip_adverbs(tokens, 1)
        return at if at < len(tokens) and _is_finite(tokens[at].word) else None
    if first.word in get_words("determiners"):
        return _find_verb_of_noun(tokens, 1, definite=first.word in get_words("definite"))
    if any(first.word in get_words(kind) for kind in ("prepositions", "adverbs", "relatives")):
        return None
    begins = (_is_finite(first.word) or first.word.endswith("ing")) and not first.short
    if begins and not (second and _is_verb_of(first, second)):
        return None if first.capital and first.word in get_words("given_names") else 0
    return _find_verb_of_noun(tokens, 0, definite=True)


def _is_verb_of(noun: Token, after: Token) -> bool:
    """Whether the second word is the verb of the first, which could be a verb itself: "deploys go out"."""
    if after.short or _is_auxiliary(after.word):
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
        if token.short and _is_contracted(tokens, at):
            return at
        if at == noun or token.short:
            continue
        if _is_auxiliary(token.word) or token.word in third_person():
            return at
        if (definite and _is_past(token.word)) or (
            token.word in get_words("verbs") and tokens[at - 1].word.endswith("s")
        ):
            return at
        if token.word in {"and", "or", "but"}:
            return None
    return None


def _find_copula(tokens: Sequence[Token], preposition: int) -> int | None:
    """The "is" behind a noun with a preposition: "my budget for the trip is 400 euros"."""
    ahead = range(preposition + 2, min(len(tokens), preposition + _SUBJECT))
    at = next((at for at in ahead if not tokens[at].is_word or _is_auxiliary(tokens[at].word)), None)
    return at if at is not None and tokens[at].word in get_words("copula") else None


def _is_contracted(tokens: Sequence[Token], at: int) -> bool:
    """Whether "'s" is a verb ("the bike's on finance") and not of an owner ("my sister's dog")."""
    if tokens[at].short != "is" or at + 1 == len(tokens):
        return tokens[at].short not in ("", "is")
    after = tokens[at + 1]
    closed = ("determiners", "prepositions", "adverbs", "persons", "past")
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


def _skip_adverbs(tokens: Sequence[Token], at: int) -> int:
    while at < len(tokens) and (tokens[at].word in get_words("adverbs") or tokens[at].word.endswith("ly")):
        at += 1
    return at


def _is_plain(tokens: Sequence[Token], verb: int) -> bool:
    subject = [token.word for token in tokens[:verb] if token.word not in get_words("adverbs")]
    return not subject or subject[-1] in {"i", "we", "you", "they"} or "and" in subject or subject[-1].endswith("s")


# Verbs


@cache
def third_person() -> frozenset[str]:
    return frozenset(map(_inflect, get_words("verbs"))) | {"has", "does", "is"}


def _inflect(verb: str) -> str:
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def _is_auxiliary(word: str) -> bool:
    return word in get_words("auxiliaries") or word.endswith("n't")


def _is_past(word: str) -> bool:
    if word in get_words("past"):
        return True
    stems = (word[:-1], word[:-2], f"{word[:-3]}y", word[:-3]) if word.endswith("ed") else ()
    return any(stem in get_words("verbs") for stem in stems)


def _is_finite(word: str) -> bool:
    return word in get_words("verbs") or _is_auxiliary(word) or word in third_person() or _is_past(word)


# What words behind a joint share with the clause before it


def _share(opening: Opening | None, before: str, rest: str, *, listed: bool, joined: bool) -> str | None:
    """What the words share: "I'm " before "allergic to nuts", "I " before "work", nothing for a clause without subject.

    None: they belong to the words before.
    """
    tokens = _tokenize(rest)
    start = _skip_adverbs(tokens, 0)
    words = [token for token in tokens[start:] if token.is_word]
    if not words:
        return None
    if opening is None:
        return "" if listed and _is_fragment(before) and _is_fragment(rest) else None
    if _continues(opening, words, before, joined=joined):
        return f"{opening.subject} " if opening.subject else ""
    if opening.verb in get_words("copula") and opening.subject and _goes_on_with_state(tokens, rest):
        named = _NAMED.search(f"{opening.subject} {before}")
        return f"{named[1]} is " if named else f"{opening.words} "
    if opening.verb == "am" and _NAME.search(before) and get_pattern("part_occupation").match(rest):
        return f"{opening.words} {'an' if rest[0] in 'aeiou' else 'a'} "
    if _goes_on_with_thing(opening, words, listed=listed):
        return f"{opening.words} "
    if opening.subject or words[0].word in get_words("prepositions"):
        return None
    refuses = words[0].word in {"no", "not", "nothing"} and opening.verb in get_words("verbs") and len(words) > 1
    return "" if refuses or (listed and _is_fragment(rest)) else None


def _continues(opening: Opening, words: Sequence[Token], before: str, *, joined: bool) -> bool:
    """Whether the words begin with another verb of the same subject.

    After a bare comma a verb may be an order ("don't tell"), a question ("is it") or a participle ("bought used").
    """
    first = words[0].word
    behind = opening.rest[0] if opening.rest else None
    if (
        words[0].short
        or len(words) < 2
        or (behind and not behind.is_word)
        or (_is_auxiliary(first) and words[1].word in get_words("persons"))
    ):
        return False
    if first.endswith("ing") and len(first) > 4:
        progressive = opening.verb in get_words("copula") and behind is not None and behind.word.endswith("ing")
        return progressive or (opening.verb.endswith("ing") and not opening.subject)
    if opening.verb.endswith("ing") and not opening.subject:
        return False
    if first in get_words("verbs"):
        return opening.plain and (joined or not opening.subject) and not _is_governed(before)
    if first in third_person() and first != "is":
        return not opening.plain
    if _is_auxiliary(first):
        return joined and (opening.plain or not first.startswith("don"))
    return _is_past(first) and (joined or _is_past(opening.verb))


def _is_governed(before: str) -> bool:
    """Whether a plain verb may depend on one before it: "I want to quit and start again"."""
    infinitive = any(
        one.word == "to" and other.word in get_words("verbs") for one, other in pairwise(_tokenize(before))
    )
    return infinitive or get_pattern("part_governed").search(before) is not None


def _goes_on_with_state(tokens: Sequence[Token], rest: str) -> bool:
    return get_pattern("part_state").match(rest) is not None or (tokens[0].word == "both" and len(tokens) > 2)


def _goes_on_with_thing(opening: Opening, words: Sequence[Token], *, listed: bool) -> bool:
    """Whether the words are another thing somebody has, or likes in some way, each a fact of its own."""
    if not opening.rest or len(words) < 2:
        return False
    first, there = words[0].word, opening.rest[0].word
    if first == "exactly":
        first = words[1].word
    counted = get_words("determiners") - get_words("definite")
    if opening.verb in get_words("possession") or there == "got":
        there = opening.rest[1].word if there == "got" and len(opening.rest) > 1 else there
        apart = listed or not any(token.word in get_words("prepositions") for token in opening.rest[:8])
        return there in counted and first in counted and apart
    return opening.verb in get_words("liking") and there == first == "my"


def _is_fragment(text: str) -> bool:
    """Whether a text without a verb says something by itself: a state, or something with a time or a number."""
    tokens = [token for token in _tokenize(text) if token.is_word]
    if get_pattern("part_adjective").match(text.strip()):
        return True
    if tokens and tokens[0].word in get_words("prepositions") | get_words("relatives"):
        return False
    times = get_words("days") | _TIMES
    return len(tokens) > 1 and any(token.word in times or token.word.isdigit() for token in tokens[1:5])
