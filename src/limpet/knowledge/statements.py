"""The statements of a message, each with what the trained reader makes of it; and those that only add to a claim."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from limpet.knowledge import english
from limpet.knowledge.candidate import Candidate
from limpet.knowledge.prominence import DOUBTFUL as SURE_ENOUGH
from limpet.knowledge.reader import DOUBTFUL, SHOWN, SURE, VITAL_ATTRIBUTES, Reading, default_reader
from limpet.model.dataclass import replace
from limpet.model.text_cache import cache_texts

_SEVERAL = 3  # clauses that are a list
ALONE = 0.8  # how sure the reader is of a comment that stands apart from what it is about
_REQUEST = 80  # characters of a request to remember something
_SENTENCE_END = re.compile(r"[.!?]\s+|\n+")
ORDERS = frozenset({"instruction", "constraint", "decision"})  # their verb without a subject is not the speaker's
_LOWER = frozenset("the it that this they these those she he".split())  # inside a sentence
SCRAP = 2  # words that go with another sentence
LEAST = 0.2  # how sure the reader is of a few words from which on they say something: "hey!" does not
_ASIDE = 6  # words without a verb that add to the sentence before them
_LONGEST_JOINT = 12  # characters: ", and also "
_OF_US = re.compile(r"(?:I|we|my|our)\b", re.IGNORECASE)
_BESIDE = 0.3  # of a statement beside a sure one, from which on it is kept with it


class Statement(NamedTuple):
    """A statement of a message, and what the reader makes of it."""

    own: english.OwnStatement
    words: str  # as they stand in the message
    reading: Reading | None
    comment: bool = False  # it goes with the clause before it

    @property
    def text(self) -> str:
        """The same with a subject of its own."""
        return self.own.text


@cache_texts(8)  # a message is gone through several times
def list_statements(text: str) -> tuple[english.OwnStatement, ...]:
    return tuple(english.find_own_statements(text))


def read_statements(text: str, before: str) -> Iterator[Statement]:
    """The statements that the speaker asserts, each with its reading. ``before``: the turn before the message."""
    statements = list_statements(text)
    cuts = {each.start: each.listed for each in statements}
    read = default_reader().read(text, before, cuts) if statements else []
    readings = sorted(read, key=lambda reading: reading.start)
    starts, ends = [each.start for each in readings], list(accumulate((each.end for each in readings), max))
    found: list[Statement] = []
    for own in statements:
        if not any(character.isalpha() for character in own.text):
            continue  # "(3)"
        near = readings[bisect_right(ends, own.start) : bisect_left(starts, own.end)]
        reading = _find_reading(near, own.start, own.end)
        if reading is not None:
            reading = _raise_keep(reading, text, own)
        found.append(Statement(own, text[own.start : own.end], reading))
    told: list[Statement] = []
    for _, together in groupby(found, key=lambda each: each.own.sentence):
        told += _encourage(list(_mark_comments(list(_read_in_full(list(together))))))
    yield from sorted([*told, *_read_beside(text, told)], key=lambda each: each.own.start)


def _read_beside(text: str, told: Sequence[Statement]) -> Iterator[Statement]:
    """What stands beside a request or in a statement that is not sure, where it alone says something that lasts."""
    read = {each.own.start for each in told}
    sure = [each.own for each in told if each.reading is not None and each.reading.shown]
    end = 0
    for own in english.find_beside(text):
        known = own.start in read and own.text == text[own.start : own.end]
        if known or own.start < end or any(own.start < each.end and each.start < own.end for each in sure):
            continue
        reading = _raise_keep(default_reader().read_whole(own.text), text, own)
        if reading.keep >= DOUBTFUL and (reading.status == "holds" or _is_told(own, reading)):
            end = own.end
            yield Statement(own, text[own.start : own.end], reading)


def _is_told(own: english.OwnStatement, reading: Reading) -> bool:
    """Whether a clause surely tells what the speaker will do, or no longer does."""
    return reading.shown and reading.status in {"planned", "ended"} and _OF_US.match(own.text) is not None


def _raise_keep(reading: Reading, text: str, own: english.OwnStatement) -> Reading:
    """The reading, surer where the words show what the trained reader has seen too little of."""
    if english.tells_reaction(own.text):
        return replace(reading, keep=max(reading.keep, SURE), attribute="allergy", attribute_sure=1.0)
    if _is_asked_to_keep(text, own) or english.tells_style(own.text):
        return replace(reading, keep=max(reading.keep, SURE))
    return reading


def _is_asked_to_keep(text: str, own: english.OwnStatement) -> bool:
    """Whether the words before a statement ask to remember it."""
    before = _SENTENCE_END.split(text[max(0, own.sentence.start - _REQUEST) : own.sentence.start])[-1]
    return bool(before) and english.find_kept(f"{before}{own.sentence.text}") == len(before)


def _read_in_full(together: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a sentence that says something, each read with the subject it shares: "works the ferries" says
    more behind "my son"."""
    told = any(each.reading is not None and each.reading.shown for each in together)
    for each in together:
        reading = each.reading
        if told and reading is not None and reading.keep < SHOWN and each.text.strip() != each.words.strip():
            full = default_reader().read_whole(each.text)
            reading = replace(full, start=reading.start, end=reading.end) if full.keep > reading.keep else reading
        yield each._replace(reading=reading)


def _mark_comments(together: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a sentence. A clause that is not sure may comment on the one before it.

    What shares its subject or verb states more of the same, and so does a list of clauses.
    """
    yield together[0]
    for before, each in pairwise(together):
        whole, unsure = each.own.sentence, each.reading is not None and each.reading.keep < ALONE
        joint = whole.text[before.own.end - whole.start : each.own.start - whole.start].strip(" ,;").lower()
        shares = each.own.listed or each.text.strip() != each.words.strip()
        several = len(together) >= _SEVERAL and joint in {"", "and"}
        yield each._replace(comment=unsure and not shares and not several and english.is_comment(each.text, joint))


def _encourage(together: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a sentence. Beside a sure one each is surer: what is told in one breath is mostly kept so.

    Things that share a verb are as sure as the surest of them, and so are the clauses of a list: "I'm on the council, I
    bake for the fair and I run the raffle".
    """
    read = [each for each in together if each.reading is not None]
    best = max((each.reading.keep for each in read if each.reading), default=0.0)
    things = max((each.reading.keep for each in read if each.reading and each.own.listed), default=0.0)
    parallel = len(together) >= _SEVERAL and all(english.states_habit(each.text) for each in together)
    for each in together:
        reading = each.reading
        if reading is None or each.comment or each.text.lower().startswith("you"):
            yield each
        elif each.own.listed:
            yield each._replace(reading=replace(reading, keep=things))
        elif best >= SHOWN and parallel and reading.status == "holds":
            yield each._replace(reading=replace(reading, keep=best))
        elif best >= SHOWN and _BESIDE <= reading.keep < best:
            yield each._replace(reading=replace(reading, keep=(reading.keep + best) / 2))
        else:
            yield each


def _find_reading(readings: Sequence[Reading], start: int, end: int) -> Reading | None:
    """The reading of the clause most worth keeping of those that lie in these words, or else shares most with them."""
    shared = [(min(end, each.end) - max(start, each.start), each) for each in readings]
    inside = [each for size, each in shared if 2 * size > each.end - each.start]
    if inside:
        return max(inside, key=lambda each: each.keep)
    size, best = max(shared, key=lambda pair: pair[0], default=(0, None))
    return best if size > 0 else None


# What only adds to the claim before it becomes part of that claim: "I'm a nurse. Night shifts mostly.".


def extend_claim(
    text: str, before: Candidate, statement: Statement, claim: Candidate | None, *, apart: bool
) -> Candidate | None:
    """The claim before a statement, with the statement where that only adds to it. Its quote goes on to its end.

    ``claim``: what was read of the statement. ``apart``: it is another sentence.
    """
    start = text.find(before.sentence)
    joint = text[start + len(before.sentence) : statement.own.start]
    sure = not before.tentative and before.confidence >= SURE_ENOUGH and not english.is_quote(before.content)
    if not sure or start < 0 or not 0 < len(joint) <= _LONGEST_JOINT:
        return None
    if apart and ". " not in before.content and _is_aside(statement):
        words = f" {statement.words[:1].upper()}{statement.words[1:].rstrip(' .!')}."
    elif claim is None or claim.tentative or english.is_quote(claim.content):
        return None
    elif apart and ". " not in before.content and _refers_back(statement, claim):
        words = f" {claim.content}"
    elif not apart and (statement.comment or _refers_back(statement, claim)):
        first = claim.content.split()[0]
        lower = first.lower() in _LOWER or first.lower() == statement.words.split()[0]
        words = joint + (claim.content[:1].lower() if lower else claim.content[:1]) + claim.content[1:]
    else:
        return None
    content = before.content if apart else before.content.rstrip(".")
    return replace(before, content=f"{content}{words}", sentence=text[start : statement.own.end])


def says_nothing(statement: Statement, claim: Candidate) -> bool:
    """Whether a claim that is not sure is about an "it" or "they" that nothing names: "It paid for the roof."."""
    reading = statement.reading
    unsure = reading is not None and reading.keep < ALONE and reading.status != "corrected"
    return unsure and _refers_back(statement, claim)


def _refers_back(statement: Statement, claim: Candidate) -> bool:
    unnamed = claim.subject == "somebody" and claim.content.startswith(("She ", "He "))
    return unnamed or english.refers_back(claim.content, statement.words)


def _is_aside(statement: Statement) -> bool:
    """Whether a few words without a verb only add to the sentence before."""
    reading, words = statement.reading, statement.words.split()
    vital = reading is not None and (reading.kind in ORDERS or reading.attribute in VITAL_ATTRIBUTES)
    short = SCRAP < len(words) <= _ASIDE and ":" not in statement.text
    adds = reading is not None and reading.keep >= LEAST  # "anyway, good night" does not
    return adds and not vital and short and english.lacks_verb(statement.text)
