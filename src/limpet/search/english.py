"""English rules for search: filler words, kinds of question, time expressions, sentences.

To support another language, replace these lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import IntFlag
from typing import NamedTuple

# Questions

# They say that something is asked, not what. In a question without other words they count fully.
FILLER_WORDS = """
can could some any about not no all just more most very much many up out also get got please tell know let
one like give want need us too here now over such only own same other both each few suggest suggestion suggestions
recommend recommendation recommendations tip tips advice idea ideas help think thinking remind mention mentioned discuss
discussed talk talked chat conversation conversations previous previously earlier said say wondering"""
# They say when: a date answers them, not a text that repeats them.
TIME_WORDS = """
ago last next past previous yesterday today tomorrow day days week weeks weekend month months year years
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december one two three four five six seven eight nine ten eleven twelve couple few"""
ASKS_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow (?:long|many (?:days|weeks|months|years))\b", re.IGNORECASE
)
ASKS_BACK = re.compile(
    r"\b(?:first|original(?:ly)?|initial(?:ly)?|previous(?:ly)?|former(?:ly)?|earlier|before|back then|used to"
    r"|at the time|in the beginning|changed?|ago|last (?:week|month|year|time))\b",
    re.IGNORECASE,
)
ABOUT_ASSISTANT = re.compile(
    r"\b(?:remind me|you (?:\w+ )?(?:said|told|suggested|recommended|gave|mentioned|provided|listed|wrote|described"
    r"|explained|shared|advised|helped|came up|showed|created|made)|(?:did|had|have|were) you"
    r"|your (?:previous |last |earlier )?(?:suggestion|recommendation|advice|answer|reply|response|list|explanation)s?"
    r"|(?:we|we've|we had) (?:\w+ )?(?:discussed|talked|spoke|chatted|went over)"
    r"|our (?:previous|last|earlier|past) \w+)\b",
    re.IGNORECASE,
)
REQUEST = re.compile(
    r"^(?:can|could|would|will) you|^(?:please|show|help|suggest|recommend|give|write|explain"
    r"|what (?:are|should|would|libraries|tools)|how (?:should|can|do|would))"
    r"|\b(?:suggest|recommend|advice|tips|ideas|help me)\b",
    re.IGNORECASE,
)

# Flags of a text, computed when it is stored, so that ranking never reads texts


class TextFlag(IntFlag):
    ENDS_ASKING = 1  # the message ends in a question mark
    ONLY_ASKS = 2  # every sentence of the message is a question
    TIME_WORD = 4  # the chunk says when
    STANDING_WISH = 8  # the chunk states a permanent preference


_SENTENCE_END = re.compile(r"[.!?…]+[\"')\]]*(?:\s|$)")
_PLAIN_WORD = re.compile(r"[a-z]+|\d+")
_SAYS_WHEN = frozenset(
    """yesterday today tonight tomorrow ago last next week weeks weekend month months year years day days morning
    evening recently soon since monday tuesday wednesday thursday friday saturday sunday january february march
    april may june july august september october november december spring summer fall autumn winter""".split()
) | frozenset(map(str, range(1900, 2100)))
# Every standing wish contains one of these: most texts need no closer look.
_WISH_WORDS = frozenset("always never from whenever make prefer ask preference rather like".split())
_STANDING_WISH = re.compile(
    r"(?:^|[.!?]\s+)(?:please )?(?:always|never|from now on|whenever|make sure (?:to|you))\b"
    r"|\bi (?:really |would |'d |strongly |generally )?prefer\b|\bwhen i ask\b|\bmy preference\b"
    r"|\bi(?:'d| would) (?:rather|like)\b",
    re.IGNORECASE,
)


def flag_message(text: str) -> TextFlag:
    traits = TextFlag(0)
    if "?" in text:
        if text.rstrip().endswith("?"):
            traits |= TextFlag.ENDS_ASKING
        if _has_only_questions(text):
            traits |= TextFlag.ONLY_ASKS
    return traits


def flag_chunk(text: str) -> TextFlag:
    lowered = text.lower()
    words = set(_PLAIN_WORD.findall(lowered))
    traits = TextFlag(0) if words.isdisjoint(_SAYS_WHEN) else TextFlag.TIME_WORD
    if not words.isdisjoint(_WISH_WORDS) and _STANDING_WISH.search(lowered):
        return traits | TextFlag.STANDING_WISH
    return traits


def _has_only_questions(text: str) -> bool:
    ends = _SENTENCE_END.findall(text)
    rest = _SENTENCE_END.split(text)[-1]
    return bool(ends) and all("?" in end for end in ends) and not any(map(str.isalnum, rest))


# Times in a question: "last Tuesday", "in March", "two weeks ago", "8 May 2023"


class Span(NamedTuple):
    start: datetime
    end: datetime


_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = dict(
    zip("one two three four five six seven eight nine ten eleven twelve".split(), range(1, 13), strict=True)
)
_NUMBERS |= {"a": 1, "an": 1, "few": 3, "a few": 3, "couple of": 2, "a couple of": 2}
_NUMBER = r"(\d{1,4}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)) + ")"
_DAYS = {"day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25}
_SLACK = {"day": 0.0, "week": 2.0, "month": 10.0, "year": 60.0}
# Also ordinary words: they mean a month only next to a word that says so.
_AMBIGUOUS_MONTHS = ("may", "march", "mar")

_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b,?(?: (\d{{4}}))?")
_MONTH_DAY = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?")
_MONTH_ALONE = re.compile(
    rf"(\b(?:in|of|during|since|early|late|mid|last|this|by|until|from) )?\b{_MONTH}\b(?:,? (?:of )?(\d{{4}}))?"
)
_YEAR = re.compile(r"\b(?:in|during|of|since) ((?:19|20)\d\d)\b")
_AGO = re.compile(rf"\b{_NUMBER} (day|week|month|year)s? ago\b")
_LAST_ONE = re.compile(rf"\b(?:last|past|previous) ({'|'.join(_WEEKDAYS)}|week(?:end)?|month|year)\b")
_LAST_MANY = re.compile(rf"\b(?:last|past|previous) {_NUMBER} (day|week|month|year)s?\b")


def parse_spans(question: str, now: datetime | None, years: Iterable[int]) -> list[Span]:
    """Parse times. A date without a year may be in any of ``years``; relative times need ``now``."""
    text = question.lower()
    spans = list(_find_absolute(text, list(years)))
    if now is not None:
        spans += _find_relative(text, now.replace(hour=0, minute=0, second=0, microsecond=0))
    return spans


def _find_absolute(text: str, years: list[int]) -> Iterator[Span]:
    used: list[range] = []
    for pattern, day_first in ((_DAY_MONTH, True), (_MONTH_DAY, False)):
        for match in pattern.finditer(text):
            day, month = (match[1], match[2]) if day_first else (match[2], match[1])
            used.append(range(*match.span()))
            for year in [int(match[3])] if match[3] else years:
                yield from _day_span(year, _month_number(month), int(day))
    for match in _MONTH_ALONE.finditer(text):
        if any(match.start(2) in taken for taken in used):
            continue
        if match[2] in _AMBIGUOUS_MONTHS and not match[1] and not match[3]:
            continue
        used.append(range(*match.span()))
        for year in [int(match[3])] if match[3] else years:
            yield from _month_span(year, _month_number(match[2]))
    for match in _YEAR.finditer(text):
        if not any(match.start(1) in taken for taken in used):
            year = int(match[1])
            yield Span(datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC))


def _find_relative(text: str, today: datetime) -> Iterator[Span]:
    for match in _AGO.finditer(text):
        yield from _span_ago(today, _parse_number(match[1]) * _DAYS[match[2]], _SLACK[match[2]])
    for word, days in (("yesterday", 1), ("today", 0)):
        if re.search(rf"\b{word}\b", text):
            yield from _span_ago(today, days, 0)
    for match in _LAST_ONE.finditer(text):
        if match[1] in _WEEKDAYS:
            yield from _span_ago(today, (today.weekday() - _WEEKDAYS.index(match[1]) - 1) % 7 + 1, 0)
        elif match[1] == "weekend":
            monday = today - timedelta(today.weekday())
            yield Span(monday - timedelta(2), monday)
        else:
            yield from _span_since(today, 2 * _DAYS[match[1]])
    for match in _LAST_MANY.finditer(text):
        yield from _span_since(today, 1.15 * _parse_number(match[1]) * _DAYS[match[2]])


def _parse_number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _month_number(text: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, start=1) if month.startswith(text[:3]))


def _day_span(year: int, month: int, day: int) -> Iterator[Span]:
    try:
        start = datetime(year, month, day, tzinfo=UTC)
        yield Span(start, start + timedelta(1))
    except (ValueError, OverflowError):
        return  # not a valid day


def _month_span(year: int, month: int) -> Iterator[Span]:
    try:
        end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        yield Span(datetime(year, month, 1, tzinfo=UTC), end)
    except ValueError:
        return


def _span_ago(today: datetime, days: float, slack: float) -> Iterator[Span]:
    try:
        day = today - timedelta(days)
        yield Span(day - timedelta(slack), day + timedelta(1 + slack))
    except OverflowError:
        return


def _span_since(today: datetime, days: float) -> Iterator[Span]:
    try:
        yield Span(today - timedelta(days), today + timedelta(1))
    except OverflowError:
        return


# Sentences

# A mark ends a sentence only before white space: 3.14, main.py and v1.2 stay whole.
_END = re.compile(r"[.!?…]{1,50}[\"')\]”’»*_]{0,5}(?=\s|$)|[。！？]{1,50}|[/]s(?=\s*$)|\n")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:mrs?|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|approx|no|fig|dept|inc|ltd|co|mt|[a-z])\.$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*•–—‣▪]|\(?\d{1,3}[.)]|\[[ xX]?\])\s+")
_NUMBERED = re.compile(r"\s*\(?\d{1,3}[.)]$")


class Sentence(NamedTuple):
    """``start`` is the position of its first character; a bullet mark is not part of it."""

    start: int
    text: str
    bullet: bool = False


def split_sentences(text: str) -> Iterator[Sentence]:
    """Return the sentences in order, stripped. Runs in linear time."""
    start = 0
    for mark in _END.finditer(text):
        end = mark.end()
        if mark.group() == "." and _is_mid_sentence(text, start, end):
            continue
        if sentence := _make_sentence(text, start, end):
            yield sentence
        start = end
    if sentence := _make_sentence(text, start, len(text)):
        yield sentence


def _is_mid_sentence(text: str, start: int, end: int) -> bool:
    """Return whether this follows an abbreviation, an initial (but not the word I), or a list number."""
    before = text[max(start, end - 10) : end]
    if _NUMBERED.match(text[start:end] if end - start < 8 else ""):
        return True
    match = _ABBREVIATION.search(before)
    return match is not None and match.group().strip(" (\n\t").casefold() not in {"i.", "no."}


def _make_sentence(text: str, start: int, end: int) -> Sentence | None:
    bullet = _BULLET.match(text, start, min(end, start + 200))
    whole = text[bullet.end() if bullet else start : end]
    stripped = whole.strip()
    if not any(map(str.isalnum, stripped[:1000])):
        return None
    return Sentence(end - len(whole.lstrip()), stripped, bullet is not None)
