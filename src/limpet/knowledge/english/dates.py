"""Dates in what somebody said: "tomorrow" and "last week" as days of the calendar, and when something will be past."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import pairwise

from limpet.knowledge.english import get_pattern, get_words
from limpet.knowledge.english.opening import find_opening
from limpet.knowledge.english.statement import is_quote
from limpet.search.analysis import parse_spans

_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTHS = "january february march april may june july august september october november december".split()
_NUMBERS = {
    word: number
    for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
} | {"a": 1, "an": 1, "a few": 3, "a couple of": 2, "couple of": 2}
_COUNT = rf"(\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNITS = {"day": 1, "night": 1, "week": 7, "fortnight": 14, "month": 30, "year": 365}
_UNIT = rf"({'|'.join(_UNITS)})s?"
_ALONE = r"(?<!every )(?<!each )(?<!and )(?<!or )(?<!to )(?<!till )"  # of a day of the week without "on"
RELATIVE = re.compile(
    rf"\b(?:(?P<ago>{_COUNT} {_UNIT} ago)|(?P<ahead>(?<!time )(?<!times )in {_COUNT} {_UNIT}(?:'s? time)?)"
    rf"|(?P<side>last|next|this) (?P<unit>week(?:end)?|month|year|{'|'.join(_WEEKDAYS)}|{'|'.join(_MONTHS)})\b(?! of\b)"
    rf"|(?P<day>yesterday|today|tonight|tomorrow|the day (?:after tomorrow|before yesterday)|last night|this morning)"
    rf"|on (?P<weekday>{'|'.join(_WEEKDAYS)})|(?<!day )(?<!days )(?:until|till) (?P<last>{'|'.join(_WEEKDAYS)})"
    r"|(?:by|before|until|till) (?:the )?end of (?P<which>the|this|next) (?P<period>week|month|year)"
    rf"|{_ALONE}\b(?P<bare>{'|'.join(_WEEKDAYS)})(?= (?:at \d|morning\b|afternoon\b|evening\b|night\b))"
    rf")\b(?! (?:morning|afternoon|evening|night)s\b)",
    re.IGNORECASE,
)
_DAYS = {
    "yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "the day after tomorrow": 2,
    "the day before yesterday": -2, "last night": -1, "this morning": 0,
}  # fmt: skip


def resolve_dates(sentence: str, said_at: datetime) -> str:
    """Return the sentence with the date after each relative one: "tomorrow (17 Nov 2026)". A quotation stays."""
    if is_quote(sentence):
        return sentence
    weekly = is_weekly(sentence)

    def note(match: re.Match[str]) -> str:
        found = None if weekly and _get_weekday(match) else find_date(match, said_at)
        return match.group() if found is None else f"{match.group()} ({found})"

    return RELATIVE.sub(note, sentence)


_WEEKDAY = f"(?:{'|'.join(_WEEKDAYS)})"
_DAY_TO_DAY = re.compile(
    rf"\b(?P<first>{_WEEKDAY})\b[^.;,!?]{{0,30}}?(?:\b(?:to|until|till|through)\b|['’]til\b|[-–])[^.;,!?]{{0,30}}?"
    rf"\b(?P<last>{_WEEKDAY})\b",
    re.IGNORECASE,
)
_ONCE = re.compile(r"\b(?:this|next|coming|last|will|won['’]t|going|away|visiting|staying)\b|['’]ll\b", re.IGNORECASE)


def is_weekly(text: str) -> bool:
    """Return whether it is so every week from one day to another: "I don't work from Friday sundown to Saturday"."""
    if not _DAY_TO_DAY.search(text) or _ONCE.search(text):
        return False
    return get_pattern("each_week").search(text) is not None or not _is_state(text)


def find_date(match: re.Match[str], said_at: datetime) -> str | None:
    """Return what a relative date means, as people write it."""
    try:
        if match["side"]:
            return _name_beside(said_at, match["side"].lower(), match["unit"].lower())
        if match["day"] or _get_weekday(match):
            return _name_day(_find_day(match, said_at))
        if match["period"]:
            return _name_day(_find_close(match, said_at))
        days, unit = _count_days(match)
        moment = said_at + timedelta(days=days)
    except (OverflowError, ValueError):
        return None
    if unit in ("day", "night"):
        return _name_day(moment)
    return f"about {moment.year if unit == 'year' else _name_month(moment) if unit == 'month' else _name_day(moment)}"


def _get_weekday(match: re.Match[str]) -> str:
    return match["weekday"] or match["bare"] or match["last"] or ""


def _find_close(match: re.Match[str], said_at: datetime) -> datetime:
    """Return the last day of this or the next week, month or year."""
    unit, step = match["period"].lower(), 1 if match["which"].lower() == "next" else 0
    if unit == "week":
        return said_at + timedelta(days=6 - said_at.weekday() + 7 * step)
    months = said_at.month + step if unit == "month" else 12 * (1 + step)
    first = said_at.replace(year=said_at.year + months // 12, month=months % 12 + 1, day=1)
    return first - timedelta(days=1)


def _find_day(match: re.Match[str], said_at: datetime) -> datetime:
    if match["day"]:
        return said_at + timedelta(days=_DAYS[match["day"].lower()])
    days = (_WEEKDAYS.index(_get_weekday(match).lower()) - said_at.weekday()) % 7
    return said_at + timedelta(days=days - 7 if lies_behind(match.string, *match.span()) else days)


def _count_days(match: re.Match[str]) -> tuple[int, str]:
    """Return the days of "two weeks ago" or "in a month", and the unit they were counted in."""
    words = (match["ago"] or match["ahead"].removeprefix("in ").removeprefix("In ")).lower()
    count, unit = re.match(_COUNT, words), re.search(_UNIT, words)
    assert count is not None
    assert unit is not None
    number = int(count[1]) if count[1].isdigit() else _NUMBERS[count[1]]
    return number * _UNITS[unit[1]] * (-1 if match["ago"] else 1), unit[1]


def _name_beside(said_at: datetime, side: str, unit: str) -> str:
    step = {"last": -1, "this": 0, "next": 1}[side]
    if unit in _WEEKDAYS or unit == "weekend":
        ahead = (_WEEKDAYS.index("saturday" if unit == "weekend" else unit) - said_at.weekday()) % 7
        return _name_day(said_at + timedelta(days=ahead - 7 if step < 0 else ahead or 7 * step))
    if unit in _MONTHS:
        number = _MONTHS.index(unit) + 1
        year = said_at.year - (step < 0 and number >= said_at.month) + (step > 0 and number <= said_at.month)
        return f"{unit.title()[:3]} {year}"
    if unit == "week":
        return f"about {_name_day(said_at + timedelta(days=7 * step))}"
    if unit == "month":
        month = said_at.month - 1 + step
        return f"{_MONTHS[month % 12].title()[:3]} {said_at.year + month // 12}"
    return str(said_at.year + step)


def _name_day(moment: datetime) -> str:
    return f"{moment.day} {_name_month(moment)}"


def _name_month(moment: datetime) -> str:
    return f"{_MONTHS[moment.month - 1].title()[:3]} {moment.year}"


def find_last_date(text: str, said_at: datetime) -> datetime | None:
    """Return the end of the last day a text names, if it is still to come."""
    if is_weekly(text) or _OPEN.search(text):
        return None
    years = (_find_ends(text, year) for year in (said_at.year, said_at.year + 1))
    ends = next((found for each in years if (found := [end for end in each if end > said_at])), [])
    moments = [_find_latest(match, said_at) for match in RELATIVE.finditer(text)]
    ends += [_end_of_day(moment) for moment in moments if moment is not None and moment >= said_at]
    return max(ends, default=None)


# "From April", "starting on Monday": when something begins, unless its end follows.
_OPEN = re.compile(
    rf"\b(?:from|since|as of|starting|beginning) (?:on )?(?:(?:next|this|the|early|mid|late) )?"
    rf"(?:{'|'.join((*_WEEKDAYS, *_MONTHS))}|tomorrow|week|month|year|\d)\b(?!.*\b(?:to|until|till|through)\b)",
    re.IGNORECASE,
)


def _find_ends(text: str, year: int) -> list[datetime]:
    """Return the ends of the days and months that a text names, without those that a past tense puts behind."""
    return [] if lies_behind(text, len(text), len(text)) else [span.end for span in parse_spans(text, None, (year,))]


def _end_of_day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _find_latest(match: re.Match[str], said_at: datetime) -> datetime | None:
    """Return the last day that a relative date may mean; None for one that is past."""
    if match["day"] or _get_weekday(match):
        return _find_day(match, said_at)
    if match["period"]:
        return _find_close(match, said_at)
    if match["ahead"]:
        days, unit = _count_days(match)
        return said_at + timedelta(days=days + _UNITS[unit] - 1)
    if not match["side"] or match["side"].lower() == "last":
        return None
    unit, step = match["unit"].lower(), 1 if match["side"].lower() == "next" else 0
    if unit in _WEEKDAYS:
        return said_at + timedelta(days=(_WEEKDAYS.index(unit) - said_at.weekday()) % 7 or 7 * step)
    days = {"week": 7, "weekend": 7, "month": 31, "year": 366}.get(unit, 366)
    return said_at + timedelta(days=days * (step + 1))


_BEGINNING = rf"(?:now|today|tomorrow|week|month|year|{'|'.join((*_WEEKDAYS, *_MONTHS))}|(?:the )?\d\S*)"
# "As of this week", "from June on", "now that": what begins goes on, unless its end follows.
_BEGINS = re.compile(
    rf"\b(?:from (?:now|here) on|now that|as (?:of|from) (?:(?:this|next) )?{_BEGINNING}"
    rf"|from (?:(?:this|next) )?{_BEGINNING} on(?:wards?)?)\b(?!.*\b(?:until|till)\b)",
    re.IGNORECASE,
)
FOR_NOW = timedelta(days=10)  # how long what is so "for now" holds
_FOR_NOW = re.compile(r"\b(?:for (?:now|the time being|the moment)|temporarily)\b", re.IGNORECASE)
_FOR = re.compile(
    rf"\bfor (?:(?:(?:the )?(?:next|another) )?{_COUNT} (?P<unit>day|night|week|fortnight|month)s?"
    r"|the (?:whole |rest of the )?(?P<whole>day|night|week|weekend|fortnight|month))\b"
    r"(?! (?:now|already|ago|every|each)\b)",
    re.IGNORECASE,
)
_THIS = re.compile(r"\b(?:for |in |during )?(?P<which>this) (?P<period>week|month|year)\b(?!['’]s)", re.IGNORECASE)
_DAY_OF_MONTH = re.compile(r"(?:\w+ ){0,5}?(?:on the )?(\d{1,2})(?:st|nd|rd|th)\b(?! \w+day)")
# When it is surely over, as month and day.
_NAMED_TIMES = {
    "easter": (4, 25), "christmas": (12, 26), "xmas": (12, 26), "new year": (1, 2), "spring": (5, 31),
    "summer": (8, 31), "autumn": (11, 30), "winter": (2, 28),
}  # fmt: skip


def find_bound(text: str, said_at: datetime) -> datetime | None:
    """Return when a state is past by its own words: "until Friday", "till the end of the month", "for now"."""
    if is_weekly(text) or _BEGINS.search(text):
        return None
    once = _is_state(text) or _ONCE.search(text)
    if (days := _DAY_TO_DAY.search(text)) and once and not lies_behind(text, *days.span()):
        first, last = (_WEEKDAYS.index(days[name].lower()) for name in ("first", "last"))
        start = said_at + timedelta(days=(first - said_at.weekday()) % 7)
        return _end_of_day(start + timedelta(days=(last - first) % 7))
    bounds = [
        _find_until(match, said_at)
        for match in get_pattern("until_when").finditer(text)
        if not lies_behind(text, *match.span("when"))
    ]
    if _is_state(text):
        bounds += [_end_of_day(said_at + _measure(match)) for match in _FOR.finditer(text)]
        bounds += [_end_of_day(_find_close(match, said_at)) for match in _THIS.finditer(text)]
    found = [bound for bound in bounds if bound is not None and bound > said_at]
    return max(found, default=said_at + FOR_NOW if _FOR_NOW.search(text) else None)


def _find_until(match: re.Match[str], said_at: datetime) -> datetime | None:
    when = match["when"].lower()
    if (end := find_last_date(f"until {when}", said_at)) is not None:
        return end
    if day := _DAY_OF_MONTH.match(when):
        return _end_of_day(_find_next(said_at, None, int(day[1])))
    named = next((time for name, time in _NAMED_TIMES.items() if when.startswith(name)), None)
    return None if named is None else _end_of_day(_find_next(said_at, *named))


def _find_next(said_at: datetime, month: int | None, number: int) -> datetime:
    """Return the next day that has this number, in this month if one is given."""
    days = (said_at + timedelta(days=ahead) for ahead in range(366))
    return next((day for day in days if day.day == number and month in (None, day.month)), said_at)


def _is_state(text: str) -> bool:
    """Return whether something is so now: "I'm here", "staying with Mum"; not "I go there", "I've been there"."""
    opening = find_opening(text)
    if opening is None:
        return get_pattern("elided_state").match(text) is not None
    return opening.verb in {"am", "is", "are"} or opening.verb.endswith("ing")


def _measure(match: re.Match[str]) -> timedelta:
    if match["whole"]:
        return timedelta(days=7 if match["whole"].lower() == "weekend" else _UNITS[match["whole"].lower()])
    number = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1].lower()]
    return timedelta(days=number * _UNITS[match["unit"].lower()])


_PEOPLE = frozenset("i we he she they my our".split())
_STARTS = frozenset("start starts begin begins join joins".split())
_STARTING = frozenset("starting beginning joining".split())


def tells_of_start(text: str) -> bool:
    """Return whether something begins that goes on after its date: "I start at the clinic on Monday"."""
    if _BEGINS.search(text):
        return True
    opening = find_opening(text)
    first = opening.subject.split(maxsplit=1)[0].lower() if opening is not None and opening.subject else ""
    if opening is None or not (first in _PEOPLE or first in get_words("given_names")):
        return False
    return opening.verb in _STARTS or any(token.word in _STARTING for token in opening.rest[:2])


# Tell what happened from what is so: "Moss died" is true for ever, "I'm on the train" until the train arrives

_STATES = frozenset("felt knew thought meant stood cost hurt let needed wanted liked loved hated seemed looked".split())
_NO_PAST = frozenset("need feed speed breed bleed exceed proceed succeed indeed hundred red bed shed weed seed".split())
_WAS = frozenset("was were wasn't weren't had hadn't did didn't".split())
_HAVE = frozenset("have has 've 's had".split())
_ADVERBS = frozenset("just finally already also actually both now not never all then so officially recently".split())
_TOKEN = re.compile(r"['’](?:m|s|re|ve|ll|d)\b|[^\W\d_]+(?:n['’]t)?", re.IGNORECASE)
_BREAK = re.compile(r"[.,;:!?\n–—]|\s(?:and|but|so|because|that|which|who|when|if|while)\s", re.IGNORECASE)
_PHRASE = 4  # words that may stand before the verb: "my little sister Anna died"


def _is_past(word: str) -> bool:
    return word in get_words("past") or (word.endswith("ed") and len(word) > 3 and word not in _NO_PAST)


def _is_participle(word: str) -> bool:
    return word in get_words("past_participles") or (_is_past(word) and word not in _STATES)


def is_dated_event(text: str) -> bool:
    """Return whether it tells of something that happened on a day it names: "I quit my job today"."""
    return any(
        get_pattern("this_day").search(text, *span) and _is_event(text[slice(*span)]) for span in _find_clauses(text)
    )


def _find_clauses(text: str) -> list[tuple[int, int]]:
    cuts = [0, *(match.start() + 1 for match in _BREAK.finditer(text)), len(text)]
    return list(pairwise(cuts))


def _split_words(text: str) -> list[str]:
    return [match.group().lower().replace("’", "'") for match in _TOKEN.finditer(text)]


def _is_event(clause: str) -> bool:
    """Return whether the main verb is the simple past, perfect or passive past of something that happens."""
    words = [word for word in _split_words(get_pattern("this_day").sub(" ", clause)) if word not in _ADVERBS]
    for at, word in enumerate(words[: _PHRASE + 2]):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "'s" and at + 1 < len(words) and not _is_participle(following):
            continue  # "the user's cat", "Tom's car"
        if word in _HAVE or word in {"was", "were", "been"}:
            return _is_participle(following) and following not in get_words("feelings")
        if word in get_words("in_the_present") or word in _WAS:
            return False
        if _is_past(word):
            return word not in _STATES and following not in get_words("feelings")
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
        if (
            word in get_words("arranged")
            or word == "to"
            or (word == "got" and following in {"a", "an", "my", "the", "our"})
        ):
            return False
        if word in get_words("in_the_present") and word != "'s":
            return _is_participle(following) and word in _HAVE
        if word in _WAS or _is_past(word):
            return True
    return None
