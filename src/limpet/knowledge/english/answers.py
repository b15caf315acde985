"""Answers to a question that the assistant just asked: "How old is she?" "Seven" says that the daughter is seven.

Only sure patterns: the question and its answer become the sentence that the speaker could have said instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from limpet.knowledge.english import compile_pattern, get_pattern, get_words, load_table
from limpet.knowledge.english.assertions import is_opt_out
from limpet.knowledge.english.clause import find_role_word
from limpet.knowledge.english.opening import inflect
from limpet.search.analysis import split_sentences


class Answer(NamedTuple):
    """``words`` from ``start`` to ``end`` of a message answer a question; ``text`` is what they say in full."""

    start: int
    end: int
    text: str
    attribute: str
    value: str


class _QuestionPattern(NamedTuple):
    asked: re.Pattern[str]
    answer: str  # what kind of answer it has
    text: str  # with {who}, {whose}, {is}, {s} and {value}
    attribute: str


@cache
def _list_questions() -> list[_QuestionPattern]:
    rows = load_table("patterns.toml")["questions"]
    return [
        _QuestionPattern(compile_pattern(rf"(?:^|[\s,]){asked}{{asked_now}}\s*\?$"), *rest) for asked, *rest in rows
    ]


_ATTRIBUTES = {
    "allergic": "allergy", "vegetarian": "diet", "vegan": "diet", "pescatarian": "diet", "married": "relationship",
    "single": "relationship", "engaged": "relationship", "divorced": "relationship", "from": "origin",
}  # fmt: skip
_FEMALE = frozenset("mother sister daughter wife girlfriend aunt grandmother niece fiancee".split())
_MALE = frozenset("father brother son husband boyfriend uncle grandfather nephew fiance".split())


def complete_answer(message: str, before: Sequence[str]) -> Answer | None:
    """What the beginning of a message says in full, where the last text ``before`` it ends with a question.

    Texts before are the user's and the assistant's in turn, the last one the assistant's.
    """
    asked = _find_question(before[-1]) if before else None
    if asked is None or is_opt_out(message):
        return None
    first = next(iter(split_sentences(message)), None)
    if first is None or first.text.rstrip().endswith("?"):
        return None
    found = _answer_yes_no(asked, first.text, before) or _fill(asked, first.text, before)
    return None if found is None else found._replace(start=first.start, end=first.start + found.end)


def _find_question(text: str) -> str | None:
    sentences = list(split_sentences(text[-1000:]))
    last = sentences[-1].text.strip() if sentences else ""
    return last if last.endswith("?") else None


def _answer_yes_no(asked: str, said: str, before: Sequence[str]) -> Answer | None:
    match = get_pattern("asked_state").search(asked)
    if match is None:
        return None
    who = _name_subject(match["who"], before)
    lowered = said.lower().lstrip()
    agrees, denies = get_pattern("answer_yes").match(lowered), get_pattern("answer_no").match(lowered)
    if who is None or not (agrees or denies) or len(said.split()) > 4:
        return None
    state = match["state"]
    is_ = "am" if who == "I" else "is"
    text = f"{_capitalize(who)} {is_} {'' if agrees else 'not '}{state}."
    value = re.sub(r"^(?:an? |allergic to |from )", "", state)
    return Answer(0, len(said), text, _ATTRIBUTES.get(state.split()[0].lower(), "health"), value)


def _fill(asked: str, said: str, before: Sequence[str]) -> Answer | None:
    for question in _list_questions():
        match = question.asked.search(asked)
        who = None if match is None else _name_subject(match["who"] or "you", before)
        if match is None or who is None:
            continue
        lead = get_pattern("answer_lead").match(said)
        start = lead.end() if lead else 0
        stop = get_pattern("answer_stop").search(said, start)
        end = stop.start() if stop else len(said)
        words = said[start:end].strip()
        full = get_pattern(f"answer_{question.answer}").fullmatch(words)
        if full is None or not full["value"] or get_pattern("answer_unsure").search(words) or len(words.split()) > 6:
            return None
        value = full["value"].strip()
        if question.answer == "number" or value.split()[0].lower() in get_words("determiners"):
            value = f"{value[0].lower()}{value[1:]}" if question.answer != "number" else value.lower()
        return Answer(0, end, _write(question, match, who, value), question.attribute, value)
    return None


def _write(question: _QuestionPattern, match: re.Match[str], who: str, value: str) -> str:
    mine, asked = who == "I", {name: words or "" for name, words in match.groupdict().items()}
    if question.attribute == "role" and not re.match(r"an? |the |retired|unemployed|self", value, re.IGNORECASE):
        value = f"{'an' if value[0].lower() in 'aeiou' else 'a'} {value}"
    words = {
        "who": who,
        "whose": "my" if mine else f"{who}'s",
        "value": value,
        "is": "am" if mine else "is",
        "s": "" if mine else "s",
        "ies": "y" if mine else "ies",
        "verb": inflect(asked["verb"]) if asked.get("verb") and not mine else asked.get("verb"),
    }
    return _capitalize(question.text.format(**{**asked, **words, "object": _place(value, asked.get("rest", ""))}) + ".")


def _place(value: str, rest: str) -> str:
    """The answer and what the question has behind its verb: "Granny Smith in a pie", but "to the Y"."""
    ahead = rest.startswith(" to ") or rest.rpartition(" ")[2].lower() in get_words("prepositions")
    return f"{rest.strip()} {value}" if ahead else f"{value}{rest}"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _name_subject(who: str, before: Sequence[str]) -> str | None:
    """Whom the question is about, as the speaker says it: I, my daughter, a name. None where that is not clear."""
    lowered = who.lower()
    if lowered in {"you", "your"}:
        return "I"
    if lowered.startswith("your "):
        return f"my {who[5:].removesuffix(chr(39) + 's').removesuffix('’s')}"
    if lowered in {"she", "her"}:
        return _find_last(before, lambda role: role not in _MALE)
    if lowered in {"he", "him", "his"}:
        return _find_last(before, lambda role: role not in _FEMALE)
    if lowered in {"it", "its"}:
        return _find_last(before, lambda role: role in get_words("pets"))
    if lowered in {"they", "them", "their"} or " " in who:
        return None
    return re.sub(r"['’]s$", "", who)


def _find_last(before: Sequence[str], fits: Callable[[str], bool]) -> str | None:
    """The relative or pet that was spoken of last."""
    for text in reversed(before):
        found = [
            word
            for match in re.finditer(r"\b(?:my|our|your)\s+((?:[\w-]+\s+){0,2}[\w-]+)", text, re.IGNORECASE)
            if (word := next((each for each in match[1].lower().split() if find_role_word(each)), None))
            and fits(find_role_word(word) or "")
        ]
        if found:
            return f"my {found[-1]}"
    return None
