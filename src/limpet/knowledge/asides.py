"""What only adds to the claim before it becomes part of that claim: "I'm a nurse. Night shifts mostly."."""

from __future__ import annotations

from limpet.knowledge import english
from limpet.knowledge.candidate import Candidate
from limpet.knowledge.prominence import DOUBTFUL as SURE_ENOUGH
from limpet.knowledge.reader import VITAL_ATTRIBUTES
from limpet.knowledge.statements import ALONE, Statement
from limpet.model.dataclass import replace

_ORDERS = frozenset({"instruction", "constraint", "decision"})
_LOWER = frozenset("the it that this they these those she he".split())  # inside a sentence
SCRAP = 2  # words that go with another sentence
LEAST = 0.2  # how sure the reader is of a few words from which on they say something: "hey!" does not
_ASIDE = 6  # words without a verb that add to the sentence before them
_LONGEST_JOINT = 12  # characters: ", and also "


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
    vital = reading is not None and (reading.kind in _ORDERS or reading.attribute in VITAL_ATTRIBUTES)
    short = SCRAP < len(words) <= _ASIDE and ":" not in statement.text
    adds = reading is not None and reading.keep >= LEAST  # "anyway, good night" does not
    return adds and not vital and short and english.lacks_verb(statement.text)
