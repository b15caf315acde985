"""What happened is true for ever; what is so on a day is past after it. A past tense puts a date behind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from limpet.knowledge.english.dates import find_bound, find_last_date, is_dated_event, resolve_dates, tells_of_start

FRIDAY = datetime(2026, 3, 6, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    [
        "Moss died this morning",
        "I quit my job today",
        "paid the vet bill today, finally",
        "our daughter was born today",
        "my little sister Anna got engaged last night",
        "I was promoted today",
        "I've just signed the contract today",
        "Today we adopted a puppy",
        "they finally fixed the roof this afternoon",
    ],
)
def test_event_of_a_day_is_not_a_passing_state(said: str) -> None:
    assert is_dated_event(said)


@pytest.mark.parametrize(
    "said",
    [
        "I have a headache today",
        "I'm working from home today",
        "I was tired today",
        "I had a headache this morning",
        "I need the report finished today",
        "the build is slow today",
        "my train is delayed tonight",
        "I feel a little homesick today, they played a song from my village",
        "I'm on the train",
    ],
)
def test_state_of_a_day_is_not_an_event(said: str) -> None:
    assert not is_dated_event(said)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("The oven guy is coming Thursday at 7am", datetime(2026, 3, 6, tzinfo=UTC)),
        ("The oven guy is coming every Thursday at 7am", None),
        ("The shop is open Monday to Thursday at 7am", None),
        ("new shift from April: start at 7", None),
        ("Swimming is on Tuesdays from next week", None),
    ],
)
def test_plan_for_a_weekday_at_a_time_is_past_after_it(said: str, end: datetime | None) -> None:
    assert find_last_date(said, datetime(2026, 3, 1, 12, tzinfo=UTC)) == end


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("The user's exam was on Monday, the user passed.", "2 Mar 2026"),
        ("The user lost 3-0 on Sunday.", "1 Mar 2026"),
        ("On Monday the user went to Oslo.", "2 Mar 2026"),
        ("The user flew home on Friday.", "27 Feb 2026"),
        ("The user's exam is on Monday.", "9 Mar 2026"),
        ("The user booked a table on Sunday.", "8 Mar 2026"),
        ("The user got an interview on Monday.", "9 Mar 2026"),
        ("The user forgot to say that they fly on Monday.", "9 Mar 2026"),
    ],
)
def test_weekday_of_a_past_tense_lies_behind(said: str, day: str) -> None:
    assert f"({day})" in resolve_dates(said, FRIDAY)


def test_month_and_day_of_a_past_tense_are_not_a_future_date() -> None:
    assert find_last_date("my exam was on March 2", FRIDAY) is None
    assert find_last_date("we got married in February", FRIDAY) is None
    assert find_last_date("my exam is on March 20", FRIDAY) == datetime(2026, 3, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("Mum is staying with us till Friday", datetime(2026, 3, 7, tzinfo=UTC)),
        ("my in-laws are here until the end of the month", datetime(2026, 4, 1, tzinfo=UTC)),
        ("We can't book anything until the end of next week", datetime(2026, 3, 16, tzinfo=UTC)),
        ("I'm in Utrecht, back home on Sunday", datetime(2026, 3, 9, tzinfo=UTC)),
        ("I'm on crutches until the cast comes off on the 3rd", datetime(2026, 4, 4, tzinfo=UTC)),
        ("I'm on crutches until the 3rd", datetime(2026, 4, 4, tzinfo=UTC)),
        ("Lena is on leave till December", datetime(2027, 1, 1, tzinfo=UTC)),
        ("their teacher is away until Easter", datetime(2026, 4, 26, tzinfo=UTC)),
        ("I'm at my mum's for two weeks", datetime(2026, 3, 21, tzinfo=UTC)),
        ("I'm covering the other class for now", datetime(2026, 3, 16, 9, tzinfo=UTC)),
        ("I work Monday till Friday", None),
        ("From Friday evening till Saturday night my phone is off", None),
        ("heaters: 420 for the week", None),
        ("I lived in Rome until June", None),
        ("I was in hospital until Monday", None),
        ("the library is open till nine", None),
        ("I go to Spain for two weeks every summer", None),
        ("I've been here for two weeks", None),
        ("I'm a nurse", None),
    ],
)
def test_state_with_a_bound_is_past_after_it(said: str, end: datetime | None) -> None:
    assert find_bound(said, FRIDAY) == end


def test_bounds_are_dated_in_the_sentence() -> None:
    said = "Mum stays till Friday, Dad until the end of the month, both were here until Monday"
    assert resolve_dates(said, FRIDAY) == (
        "Mum stays till Friday (6 Mar 2026), Dad until the end of the month (31 Mar 2026), "
        "both were here until Monday (2 Mar 2026)"
    )


MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    [
        "I'm offline from Friday sunset until Saturday night",
        "I do not work from Friday sundown till Saturday sundown",
        "My shop is open from Tuesday to Saturday",
        "the clinic is closed from Friday noon to Monday",
    ],
)
def test_what_is_so_every_week_has_no_end_and_no_date(said: str) -> None:
    assert find_bound(said, MONDAY) is None
    assert find_last_date(said, MONDAY) is None
    assert resolve_dates(said, MONDAY) == said


@pytest.mark.parametrize(
    "said",
    [
        "Choir is on Fridays as of this week",
        "I'm on the early shift from Monday on",
        "I'm doing three days from now on, Tuesday to Thursday",
    ],
)
def test_what_begins_has_no_end(said: str) -> None:
    assert find_bound(said, MONDAY) is None
    assert tells_of_start(said)


def test_what_begins_and_ends_has_its_end() -> None:
    said = "I'm on holiday from tomorrow on until Friday"
    assert find_bound(said, MONDAY) == datetime(2026, 3, 7, tzinfo=UTC)
    assert not tells_of_start(said)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("I'm in Paris from Friday until Sunday", datetime(2026, 3, 9, tzinfo=UTC)),
        ("I'm on holiday from Thursday to Monday", datetime(2026, 3, 10, tzinfo=UTC)),
        ("I'll be away from Wednesday until Thursday", datetime(2026, 3, 6, tzinfo=UTC)),
        ("I'm fasting this month", datetime(2026, 4, 1, tzinfo=UTC)),
    ],
)
def test_what_is_so_for_some_days_ends_after_the_last(said: str, end: datetime) -> None:
    assert find_bound(said, MONDAY) == end
