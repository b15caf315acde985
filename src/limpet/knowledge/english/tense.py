"""Tell what happened from what is so, by tense and aspect.

"Moss died this morning" is true for ever; "I'm on the train" is true until the train arrives.
"""

from __future__ import annotations

import re
from itertools import pairwise

from limpet.knowledge.english import get_words

_PARTICIPLES = frozenset(
    """gone come seen taken given gotten eaten driven ridden written spoken broken chosen worn grown thrown flown drawn
    begun swum sung born sworn torn frozen stolen risen beaten fallen bitten hidden shaken woken forgotten become
    done""".split()
)
_STATES = frozenset("felt knew thought meant stood cost hurt let needed wanted liked loved hated seemed looked".split())
_FEELINGS = frozenset(
    """tired bored stressed exhausted worried annoyed excited relaxed depressed frustrated confused scared
    swamped""".split()
)
_NO_PAST = frozenset("need feed speed breed bleed exceed proceed succeed indeed hundred red bed shed weed seed".split())
# What was arranged lies ahead: "we booked a table on Friday".
_ARRANGED = frozenset(
    """booked scheduled rescheduled arranged planned agreed decided postponed moved pushed shifted delayed invited
    promised expected told said asked changed set put""".split()
)
_PRESENT = frozenset(
    """am is are 'm 's 're isn't aren't have has 've haven't hasn't do does don't doesn't can can't could will 'll won't
    would should must may might need needs want wants""".split()
)
_WAS = frozenset("was were wasn't weren't had hadn't did didn't".split())
_HAVE = frozenset("have has 've 's had".split())
_ADVERBS = frozenset("just finally already also actually both now not never all then so officially recently".split())
_TOKEN = re.compile(r"['’](?:m|s|re|ve|ll|d)\b|[^\W\d_]+(?:n['’]t)?", re.IGNORECASE)
_BREAK = re.compile(r"[.,;:!?\n–—]|\s(?:and|but|so|because|that|which|who|when|if|while)\s", re.IGNORECASE)
_THIS_DAY = re.compile(
    r"\b(?:today|tonight|this (?:morning|afternoon|evening)|just now|last night|yesterday)\b", re.IGNORECASE
)
_PHRASE = 4  # words that may stand before the verb: "my little sister Anna died"


def _is_past(word: str) -> bool:
    return word in get_words("past") or (word.endswith("ed") and len(word) > 3 and word not in _NO_PAST)


def _is_participle(word: str) -> bool:
    return word in _PARTICIPLES or (_is_past(word) and word not in _STATES)


def is_dated_event(text: str) -> bool:
    """Return whether it tells of something that happened on a day it names: "I quit my job today"."""
    return any(_THIS_DAY.search(text, *span) and _is_event(text[slice(*span)]) for span in _find_clauses(text))


def _find_clauses(text: str) -> list[tuple[int, int]]:
    cuts = [0, *(match.start() + 1 for match in _BREAK.finditer(text)), len(text)]
    return list(pairwise(cuts))


def _split_words(text: str) -> list[str]:
    return [match.group().lower().replace("’", "'") for match in _TOKEN.finditer(text)]


def _is_event(clause: str) -> bool:
    """Return whether the main verb is the simple past, perfect or passive past of something that happens."""
    words = [word for word in _split_words(_THIS_DAY.sub(" ", clause)) if word not in _ADVERBS]
    for at, word in enumerate(words[: _PHRASE + 2]):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "'s" and at + 1 < len(words) and not _is_participle(following):
            continue  # "the user's cat", "Tom's car"
        if word in _HAVE or word in {"was", "were", "been"}:
            return _is_participle(following) and following not in _FEELINGS
        if word in _PRESENT or word in _WAS:
            return False
        if _is_past(word):
            return word not in _STATES and following not in _FEELINGS
    return False


def lies_behind(text: str, start: int, end: int) -> bool:
    """Return whether a date in a text, such as "on Monday", stands with a past tense: "my exam was on Monday"."""
    clause = next(((first, last) for first, last in _find_clauses(text) if first <= start < last), (0, len(text)))
    before, after = _split_words(text[clause[0] : start]), _split_words(text[end : clause[1]])
    tenses = (_find_tense(words) for words in (before, *(after[:count] for count in range(1, len(after) + 1))))
    return next((seen for seen in tenses if seen is not None), False)


def _find_tense(words: list[str]) -> bool | None:
    """Return whether the last verb is past. What follows "to" and what was arranged lie ahead; None: no verb."""
    for at in range(len(words) - 1, -1, -1):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        if word in _ARRANGED or word == "to" or (word == "got" and following in {"a", "an", "my", "the", "our"}):
            return False
        if word in _PRESENT and word != "'s":
            return _is_participle(following) and word in _HAVE
        if word in _WAS or _is_past(word):
            return True
    return None
