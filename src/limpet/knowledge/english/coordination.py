"""Split a sentence into the statements it joins: clauses, predicates of a shared subject, and things somebody has.

There is no parser. A part starts where a subject meets a finite verb, or where a verb, a state or a thing goes on with
the clause before it. What may be half a statement ("want to quit and start again") stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.lists import find_list
from limpet.knowledge.english.opening import (
    Opening,
    Token,
    find_opening,
    find_tokens,
    is_auxiliary,
    is_finite,
    is_participle,
    is_past,
    is_person,
    skip_adverbs,
    third_person,
)
from limpet.search.analysis import split_sentences

_MAX_PARTS = 8
_AHEAD = 90  # characters behind a joint that decide about it
_REMARK = 2  # words of a clause that belongs to the one before
_SUBJECT = 6  # words of a subject at most
_NAMED = re.compile(r"^\w+ (?:first |full )?name .*\b(?:is|was) ([A-ZÀ-Þ][\w’'-]+)$")  # "her name is Biscuit, a beagle"
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w’'-]+$")
_JOINS = frozenset("and but plus &".split())
_TIMES = frozenset("as at on since still".split())
_AWAY = get_words("references") | {"everything", "everybody", "everyone", "nobody", "nothing", "there"}
_SOMEBODY = frozenset("he she".split())
_OWN = frozenset("i we my our".split())
_ONE = frozenset("am is has".split())  # of one person: "my father in Nagoya and I'm in Sapporo" are no pair
_PLEASE = frozenset("please pls".split())
_DENIALS = frozenset("don't dont can't cant cannot won't wont".split())
_WITH = re.compile(r"\bwith (?:an?|one|two|three|my|no)\b[^,]*$", re.IGNORECASE)
_CLOSING = re.compile(r",?\s+(?:and|plus|&)\s+", re.IGNORECASE)


class StatementSpan(NamedTuple):
    """``start`` and ``end``: its words in the text. ``text``: the same with the subject it shares.

    ``clause``: where the words that it shares begin. ``listed``: it is one of several things that share a verb.
    """

    start: int
    end: int
    text: str
    clause: int
    listed: bool = False


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
        if _is_bound(f"{shared[-1]}{before}", rest):
            continue
        found, said = find_opening(rest), joint.group().replace(",", " ").replace(";", " ").strip().lower()
        own = found is not None and bool(found.subject)
        single = found is None or found.verb in _ONE
        if own and said == "and" and not shared[-1] and not single and _is_pair(before):
            continue
        alone = len(cuts) == 1 and not _lists_clauses(sentence[joint.end() :])
        if found is not None and own and _elaborates(found, said, first=alone):
            opening = found
            continue
        if own and not said and _is_remark(sentence[joint.end() :]):
            opening = found
            continue
        listed = "," in joint.group() or bool(shared[-1].strip())
        own = own or (said == "so" and (get_pattern("part_order").match(rest) is not None or is_standing_order(rest)))
        goes_on = sentence[joint.end() :]
        prefix = "" if own else _share(opening, before, goes_on, shared[-1], listed=listed, joined=said in _JOINS)
        if prefix is not None and (own or said != "so"):
            cuts.append(joint.end())
            shared.append(prefix)
            opening = found if own else find_opening(f"{prefix}{rest}") or opening
    clause = offset
    for start, end, prefix in zip(cuts, [*cuts[1:], len(sentence)], shared, strict=True):
        first = offset + start
        clause = clause if prefix else first
        words = get_pattern("part_joint_end").sub("", sentence[start:end]).rstrip(" ,;")
        if any(map(str.isalnum, words)):
            yield from _split_list(StatementSpan(first, first + len(words), f"{prefix}{words}", clause))


def _split_list(statement: StatementSpan) -> Iterator[StatementSpan]:
    """The statement once for each thing that it lists: "I've got asthma", "I've got a mortgage"."""
    listed = find_list(statement.text)
    if listed is None:
        yield statement
        return
    shift = statement.end - len(statement.text)  # of its words; what it shares stands before them
    for at, ((start, end), text) in enumerate(zip(listed.things, listed.texts, strict=True)):
        first = statement.start if at == 0 else shift + start
        yield statement._replace(start=first, end=shift + end, text=text, listed=True)


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


def _lists_clauses(rest: str) -> bool:
    """Whether the last of several clauses follows: "bed is at eight, screens are off at six and lunch is cold"."""
    end = _CLOSING.search(rest)
    last = find_opening(rest[end.end() : end.end() + _AHEAD]) if end else None
    return last is not None and bool(last.subject) and last.subject.lower() not in get_words("references")


def _is_remark(rest: str) -> bool:
    """Whether a clause says nothing without the one before: "my exam was on Monday, I passed"."""
    clause = get_pattern("part_joint").split(rest, maxsplit=1)[0]
    telling = get_pattern("part_adjective").search(clause) or get_pattern("part_number").search(clause)
    return len(clause.split()) <= _REMARK and telling is None


def _is_pair(before: str) -> bool:
    """Whether the words are the first of two that share a verb: "my partner Aoife and I have been together"."""
    before = before.rpartition(", ")[2]
    words = before.split()
    named = before[:1].isupper() or words[0].lower() in get_words("determiners")
    return named and len(words) <= _SUBJECT and find_opening(before) is None and not _is_fragment(before)


def lacks_verb(text: str) -> bool:
    """Whether a text has neither a clause nor a state that says something by itself: "night shifts mostly"."""
    return find_opening(text) is None and get_pattern("part_adjective").match(text.strip()) is None


def states_habit(text: str) -> bool:
    """Whether a text says what somebody is, has or does: "I run the box office"."""
    opening = find_opening(text)
    if opening is None or not is_person(opening):
        return False
    return opening.verb not in {"will", "would", "should", "might", "may", "need"} and not is_past(opening.verb)


def states_fact(text: str) -> bool:
    """Whether a text only says how things are, with nothing to heed: "the knee is fine again", "no sign of the cat"."""
    if get_pattern("nothing_new").match(text):
        return True
    opening = find_opening(text)
    told = opening is not None and bool(opening.subject) and not {"you", "your"} & set(opening.subject.lower().split())
    return told and get_pattern("rule_words").search(text) is None


def is_order(text: str) -> bool:
    """Whether a clause begins with a plain verb and no subject: "keep it short", not "keep that in mind"."""
    opening = find_opening(text)
    if opening is None or opening.subject or not opening.rest:
        return False
    noun = any(token.word in get_words("copula") for token in takewhile(_goes_on, opening.rest))
    return opening.verb in get_words("verbs") and opening.rest[0].word not in {"that", "this"} and not noun


def is_comment(clause: str, joint: str) -> bool:
    """Whether a clause behind a joint says what came of the one before, or how it is, and not another fact.

    "so we're never late", "the bill is a mystery", "she comes up in welts", "the bank laughed", "I've forgotten it".
    """
    opening = find_opening(clause)
    if opening is None or not opening.subject or joint == "but":
        return False
    first, *rest = opening.subject.lower().split()
    away = first in _AWAY or (first in _SOMEBODY and joint not in _JOINS)
    thing = first == "the" and not any(find_role_word(word) or find_role_word(word.removesuffix("s")) for word in rest)
    happens = (
        _is_going_on(opening) or (first not in _OWN and is_past(opening.verb)) or opening.verb in {"will", "would"}
    )
    return away or thing or happens or (bool(joint) and joint not in _JOINS)


def _is_going_on(opening: Opening) -> bool:
    """Whether a clause tells what has happened or is happening: "has escaped again", "is still climbing the walls"."""
    at = skip_adverbs(opening.rest, 0)
    word = opening.rest[at].word if at < len(opening.rest) else ""
    if opening.verb in {"have", "has"}:
        return is_past(word) or word.endswith("ed") or word in get_words("participles")
    return opening.verb in get_words("copula") and word.endswith("ing")


# What words behind a joint share with the clause before it


def _share(opening: Opening | None, before: str, rest: str, last: str, *, listed: bool, joined: bool) -> str | None:
    """What the words share: "I'm " before "allergic to nuts", "I " before "work", nothing for a clause without subject.

    None: they belong to the words before.
    """
    tokens = find_tokens(rest[:_AHEAD])
    start = skip_adverbs(tokens, 0)
    words = [token for token in tokens[start:] if token.is_word]
    if not words:
        return None
    if opening is None:
        return "" if listed and _is_fragment(before) and _is_fragment(rest) else None
    if not joined and words[0].word in get_words("orders") | _PLEASE and opening.subject:
        return ""  # "I'm at home, call my mum"
    if not opening.subject and get_pattern("part_order").match(rest) and _is_order(rest):
        return ""  # "call me after ten and please don't text"
    plain = words[0].word in get_words("verbs") | _DENIALS | {"be", "have"}
    if last.endswith(" to ") and plain:
        return last
    if not joined and plain and _is_listed(opening, words, rest):
        return _find_infinitive(before) or (None if _is_governed(before) else f"{opening.subject} ")
    stated = opening.verb in get_words("copula") and get_pattern("part_adjective").match(rest)
    if not stated and _continues(opening, words, before, rest, joined=joined):
        return f"{opening.subject} " if opening.subject else ""
    inside = words[0].word in {"a", "an"} and joined and _WITH.search(before)  # "with a bad hip and a garden"
    is_state = opening.verb in get_words("copula") and opening.subject and not inside
    if is_state and _is_state(opening, tokens, rest, joined=joined):
        named = _NAMED.search(f"{opening.subject} {before}")
        return f"{named[1]} is " if named else f"{opening.words} "
    if opening.verb == "am" and _NAME.search(before) and get_pattern("part_occupation").match(rest):
        return f"{opening.words} {'an' if rest[0] in 'aeiou' else 'a'} "
    if opening.subject or words[0].word in get_words("prepositions"):
        return None
    refuses = words[0].word in {"no", "not", "nothing"} and opening.verb in get_words("verbs") and len(words) > 1
    apart = listed and _is_fragment(rest) and find_list(f"{before}, {rest}") is None
    return "" if refuses or apart else None


def _continues(opening: Opening, words: Sequence[Token], before: str, behind_it: str, *, joined: bool) -> bool:
    """Whether the words begin with another verb of the same subject.

    After a bare comma a verb may be an order ("don't tell"), a question ("is it") or a participle ("bought used").
    """
    first = words[0].word
    behind = opening.rest[0] if opening.rest else None
    if (
        words[0].short
        or len(words) < 2
        or (behind and not behind.is_word and not joined)
        or (is_auxiliary(first) and words[1].word in get_words("persons"))
    ):
        return False
    if first.endswith("ing") and len(first) > 4:
        return opening.verb.endswith("ing") and not opening.subject
    if opening.verb.endswith("ing") and not opening.subject:
        return False
    if first in get_words("verbs") or (joined and _acts(*words[:2])):
        return opening.plain and (joined or not opening.subject) and not _is_governed(before)
    if first in third_person() and (first != "is" or _CLOSING.search(behind_it)):
        return not opening.plain and words[1].word not in get_words("persons")
    if is_auxiliary(first):
        denied = first == opening.verb and first.endswith("n't")  # "I don't drink, don't smoke"
        return (joined or denied) and (opening.plain or not first.startswith("don"))
    return is_past(first) and (joined or is_past(opening.verb))


def _acts(word: Token, after: Token) -> bool:
    """Whether a word that may be a noun is a verb here: "bank with Nationwide"."""
    closed = (get_words("prepositions") | get_words("determiners")) - {"of"}
    return word.word in get_words("verbs_too") and (after.word in closed or after.word.isdigit() or after.capital)


def _is_governed(before: str) -> bool:
    """Whether a plain verb may depend on one before it: "I want to quit and start again"."""
    return bool(_find_infinitive(before)) or get_pattern("part_governed").search(before) is not None


def _is_listed(opening: Opening, words: Sequence[Token], rest: str) -> bool:
    """Whether a verb behind a comma is one of a list: an "and" with another follows, or it has a list of its own.

    "I rent a studio, share a dog and study law"; "we live in Aarhus, have three kids and no car".
    """
    end = _CLOSING.search(rest)
    ordered = len(words) > 1 and words[1].word in {"it", "me", "them", "this"}
    if end is None or ordered or not opening.subject or not opening.plain:
        return False
    after = find_tokens(rest[end.end() : end.end() + _AHEAD])
    at = skip_adverbs(after, 0)
    acts = at < len(after) and (is_finite(after[at].word) or (at + 1 < len(after) and _acts(*after[at : at + 2])))
    return acts or find_list(f"{opening.subject} {rest}") is not None


def is_standing_order(text: str) -> bool:
    """Whether a clause orders how things are done, and not a task of now: "keep it short", not "write me a letter"."""
    opening = find_opening(text)
    return is_order(text) and opening is not None and opening.verb in get_words("manners")


def _goes_on(token: Token) -> bool:
    return token.is_word and token.word not in get_words("relatives") | get_words("persons") | {"how", "if"}


def _is_order(text: str) -> bool:
    opening = find_opening(text)
    return opening is not None and not opening.subject and bool(opening.rest)


def _find_infinitive(before: str) -> str:
    """Return the words that several infinitives share: "I want to " of "I want to learn Dutch, run a marathon and"."""
    tokens = find_tokens(before)
    pairs = (one for one, other in pairwise(tokens) if one.word == "to" and other.word in get_words("verbs") - {"work"})
    return next((f"{before[: one.end]} " for one in pairs), "")


def _is_state(opening: Opening, tokens: Sequence[Token], rest: str, *, joined: bool) -> bool:
    """Whether the words say what else somebody is: "allergic to nuts", "renting a studio", "in the choir"."""
    first, prepositions = tokens[0].word, get_words("prepositions")
    if first in {"a", "an"}:
        one = is_person(opening) or opening.subject.endswith("name")  # "her name is Biscuit, a beagle"
        placed = bool(opening.rest) and opening.rest[0].word in prepositions
        return one and not placed and opening.verb not in {"are", "were"}
    if first.isdigit() and opening.verb in {"are", "were"}:
        return False  # "my kids are 4, 7 and 9"
    if get_pattern("part_state").match(rest) or (first == "both" and len(tokens) > 2):
        return True
    placed = joined and bool(opening.rest) and opening.rest[0].word in prepositions and first in prepositions
    return is_person(opening) and len(tokens) > 1 and (placed or is_participle(first))


def _is_fragment(text: str) -> bool:
    """Whether a text without a verb says something by itself: a state, or something with a time or a number."""
    tokens = [token for token in find_tokens(text) if token.is_word]
    if get_pattern("part_adjective").match(text.strip()):
        return True
    if tokens and tokens[0].word in get_words("prepositions") | get_words("relatives"):
        return False
    times = get_words("days") | _TIMES
    return len(tokens) > 1 and any(token.word in times or token.word.isdigit() for token in tokens[1:5])
