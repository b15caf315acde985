"""Signs that something changed or ended: the words people use when they say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from limpet.knowledge.english import load_table

_CHANGE = (
    r"now|nowadays|these days|from now on|as of|no longer|any ?more|any longer|moved|switched|changed|change of plans?",
    r"swapped|replaced|instead|actually|correction|correct that|i must correct|scrap (?:that|it|the)",
    r"forget (?:that|what i said)|never ?mind|turns out|i (?:was wrong|misspoke|meant)|not \w+ but|rather than|used to",
    r"starting|started|start at|begun|began|became|got (?:promoted|married|divorced|engaged|hired|the)|for good",
    r"new (?:job|place|flat|apartment|house|phone|car|number|boss|role|doctor|landlord|address|date|time|name|plan)",
    r"back (?:to|on)|extension|extended|postponed|rescheduled|pushed (?:back|to)|brought forward|put me down with",
    r"reports? to|signed with|migrat\w+|upgraded|after all|can go up to|only \w+ left",
)
_END = (
    r"no longer|no more|(?:n['’]?t|not|never)\b[^.;]{1,60}\bany ?(?:more|longer)|quit|quitting|stopped|resigned",
    r"(?:gave|giving|given) up|(?:i|we|he|she|they|have|has|['’]ve|['’]s) (?:just )?left|handed (?:in my notice|back)",
    r"sold|scrapped|got rid of|cancell?ed|called off|dropped|broke up|split up|separated|divorced|passed away|died",
    r"moved out|closed|lost my|finished with|done with|ended|is over|used to|retired|retiring|sacked|fired|laid off",
    r"is dead|let go|fell through|gone into administration|coming off|came off|is finished|powered off|in the bin",
    r"gave (?:it|the)|leaving|(?:was|were|had to be|be|been) put (?:down|to sleep)",
    r"(?:race|trip|wedding|party|match|game|deal|holiday|flight|tour|concert|move|event)(?:['’]s| is) off(?! to)",
    r"(?:isn['’]?t|not) going back|went on \w+day|without one|had enough of|that['’]?s (?:that|\w+ done)",
)

_STAYS = (
    r"still|again|as well|too|also|another|besides|same|this week|this (?:mon|tues|wednes|thurs|fri|satur|sun)day",
    r"for now|till|until|if|would|might|maybe|thinking|used to|back in|when i was|remember|as always|as usual|both",
)
_PASSING = (
    r"today|tonight|right now|rn|at the moment|this (?:morning|afternoon|evening)|just now|for today|out of \w+ again",
    r"i(?:['’]?m| am) (?:in the (?:kitchen|bath|shower|car|garden)|on (?:the|a) (?:train|bus|plane|phone)|at the \w+)",
    r"my (?:train|bus|tram|flight|taxi) (?:leaves|goes|is late)|(?:going|about) to\b[^.;]{1,60}\bnow",
)


def _compile(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """For text in small letters: so many alternatives take four times as long where case is ignored."""
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")


_CHANGES, _ENDS, _STAY, _PASSES = (_compile(phrases) for phrases in (_CHANGE, _END, _STAYS, _PASSING))

_LOSS = _compile(
    (
        r"died|dead|passed away|put (?:down|to sleep)|sold|stolen|got rid of|gave away|given away|rehomed|ran away",
        r"buried|lost|broke up|split up|divorced|separated|moved out|ex|no longer together|closed down|went bust|gone",
        r"scrapped|retired|resigned|quit|sacked|fired|laid off|fell through|cancell?ed|is over|is finished|for good",
    )
)
_RETRACTED = re.compile(
    r"\bturn(?:s|ed) out\b[^.;!?]{0,30}?\b(?:wasn['’]?t|isn['’]?t|was not|is not|not)\s+(?:actually\s+)?"
    r"(?:an?\s+|the\s+)?(?P<what>[^.,;!?]{2,60}?)(?=\s+(?:after all|at all|anyway)|[.,;!?]|$)",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"\blast (?:day|shift|week|month|class|lesson|session|game|season|term)\b[^.;!?]{0,30}?\b(?:is|will be|['’]s)\b",
    re.IGNORECASE,
)

_RETURN = re.compile(
    r"\b(?:back|return(?:s|ed|ing)?) (?:to|on|in|at|with) (?P<whither>[^.,;:!?]{2,40})"
    r"|(?P<which>[^.,;:!?]{2,40}?)(?: (?:is|are|am)|['’](?:s|re|m)) back\b"
    r"|(?:^|[.,;:!?]|\b(?:am|is|are)|['’](?:m|s|re)) ?(?P<what>(?:[\w'’-]+ ){1,2})(?:again|once (?:more|again))\b"
    r"|(?P<before>[^.;!?]{2,40}) as (?:before|at the start)\b"
)

_WORDS = re.compile(r"[^\W_]+")


def has_change_sign(sentence: str) -> bool:
    return _CHANGES.search(sentence.lower()) is not None or has_end_sign(sentence)


def has_end_sign(sentence: str) -> bool:
    return _ENDS.search(sentence.lower()) is not None


def has_stay_sign(sentence: str) -> bool:
    """Return whether it speaks of the same, of something beside it, or of what is not so yet or any more."""
    return _STAY.search(sentence.lower()) is not None


def tells_of_loss(sentence: str) -> bool:
    """Return whether somebody or something is gone, rather than something they did: "Rex died", not "Rex stopped"."""
    return _LOSS.search(sentence.lower()) is not None


def find_retracted(sentence: str) -> str:
    """Return what a sentence says was never so: "turns out it wasn't gluten after all". Empty if it says nothing."""
    found = _RETRACTED.search(sentence)
    return found["what"] if found else ""


def find_return(text: str) -> str:
    """Return what a text says is as it was: "back to nights", "the old pot is back". Empty if it says nothing."""
    return " ".join(part for found in _RETURN.finditer(text.lower()) for part in found.groups() if part)


def is_last(sentence: str) -> bool:
    """Return whether it says when something will be over: "my last day is April 30"."""
    return _LAST.search(sentence) is not None


def is_passing(sentence: str) -> bool:
    """Return whether it tells of this day only: "I'm on the train", "the build is slow today"."""
    return _PASSES.search(sentence.lower()) is not None


def find_topics(text: str) -> frozenset[str]:
    """Return what a text is about, of what people mostly have one of: a car, a bank, a partner."""
    said = _WORDS.findall(text.casefold())
    return frozenset(topic for word in said for topic in _list_topics().get(word, ()))


@cache
def _list_topics() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for topic, words in load_table("topics.toml").items():
        for word in words.split():
            found[word] = (*found.get(word, ()), topic)
    return found
