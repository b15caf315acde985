"""Time expressions in a question: "last Tuesday", "in March", "two weeks ago", "8 May 2023"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple


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
# These are also ordinary words: they mean a month only beside a word that says so.
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
    """A date without a year may be of any year in ``years``; what is relative needs ``now``."""
    text = question.lower()
    found = list(_find_absolute(text, list(years)))
    if now is not None:
        found += _find_relative(text, now.replace(hour=0, minute=0, second=0, microsecond=0))
    return found


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
        return  # no such day


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
