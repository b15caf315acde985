"""Cadences against a plain model: look at every minute and ask whether it is one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from limpet.api.parameters import CadenceCodec
from limpet.config import ScheduleSettings
from limpet.schedules.cadence import count_between, parse_cadence, smallest_gap
from limpet.schedules.decide import check_min_gap
from tests.examples import examples

MINUTE = timedelta(minutes=1)
USUAL = CadenceCodec().schema()["pattern"]
DAYS = 3
# Ordinary changes, half an hour, at midnight, the other way round the year, a quarter of an hour off, and none.
ZONES = (
    *(
        "Europe/Lisbon",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Havana",
        "Africa/Cairo",
        "Africa/Casablanca",
    ),
    *("Europe/Dublin", "Pacific/Chatham", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia", "UTC"),
)
NIGHTS = (
    *(date(2026, 3, 29), date(2026, 10, 25), date(2026, 3, 8), date(2026, 11, 1), date(2026, 4, 5), date(2026, 10, 4)),
    *(
        date(2026, 4, 24),
        date(2026, 10, 30),
        date(2026, 2, 15),
        date(2026, 3, 22),
        date(2026, 9, 27),
        date(2018, 11, 4),
    ),
    *(date(2018, 2, 18), date(2026, 2, 28), date(2024, 2, 29), date(2011, 12, 30), date(2026, 12, 31)),
)
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
ALL = [set(range(low, high + 1)) for low, high in LIMITS]


@st.composite
def fields(draw: st.DrawFn, at: int) -> tuple[str, set[int]]:
    """A field of a cron line, and the numbers it means."""
    low, high = LIMITS[at]
    kind = draw(st.sampled_from(("all", "all", "one", "list", "range", "step", "range step")))
    if kind == "all":
        return "*", ALL[at]
    first, last = sorted(draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    step = draw(st.integers(1, 30))
    if kind == "one":
        return str(first), {first}
    if kind == "list":
        chosen = draw(st.sets(st.integers(low, high), min_size=2, max_size=5))
        return ",".join(map(str, sorted(chosen))), chosen
    if kind == "range":
        return f"{first}-{last}", set(range(first, last + 1))
    if kind == "step":
        return f"*/{step}", set(range(low, high + 1, step))
    assume(first < last)
    return f"{first}-{last}/{step}", set(range(first, last + 1, step))


def line_of(text: str) -> tuple[tuple[str, set[int]], ...]:
    """A line of single numbers and stars."""
    return tuple((part, ALL[at] if part == "*" else {int(part)}) for at, part in enumerate(text.split()))


lines = st.tuples(*(fields(at) for at in range(5)))


def is_meant(local: datetime, line: tuple[tuple[str, set[int]], ...]) -> bool:
    (_, minutes), (_, hours), (days_text, days), (_, months), (week_text, week) = line
    in_month, in_week = local.day in days, local.isoweekday() in week or local.isoweekday() % 7 in week
    both = days_text.startswith("*") or week_text.startswith("*")
    day = (in_month and in_week) if both else (in_month or in_week)
    return local.minute in minutes and local.hour in hours and local.month in months and day


def expected(line: tuple[tuple[str, set[int]], ...], zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Every minute that passes, with what the clock shows then and all that it has skipped since the minute before."""
    found, seen = [], set()
    hourly = line[1][1] == ALL[1]
    at = start - timedelta(days=2)
    shown = at.astimezone(zone).replace(tzinfo=None)
    while at < end:
        at += MINUTE
        now = at.astimezone(zone).replace(tzinfo=None)
        skipped = [shown + MINUTE * number for number in range(1, max(0, (now - shown) // MINUTE))]
        meant = is_meant(now, line) and (hourly or now not in seen)
        meant = meant or (not hourly and any(is_meant(each, line) for each in skipped))
        seen.add(now)
        shown = now
        if meant and start < at <= end:
            found.append(at)
    return found


@settings(max_examples=examples(150))
@given(lines, st.sampled_from(ZONES), st.sampled_from(NIGHTS), st.integers(0, 24 * 60 * 60))
@example(line_of("30 2 * * *"), "America/New_York", date(2026, 3, 8), 0)
@example(line_of("30 1 * * *"), "America/New_York", date(2026, 11, 1), 0)
@example(line_of("30 * * * *"), "Australia/Lord_Howe", date(2026, 4, 5), 7)
@example(line_of("0 0 * * *"), "Pacific/Apia", date(2011, 12, 30), 0)
@example(line_of("0 * 30 * *"), "Pacific/Apia", date(2011, 12, 30), 0)
@example(line_of("0 * 8 3 *"), "America/Havana", date(2026, 3, 8), 0)
def test_cron_matches_minute_by_minute_model(
    line: tuple[tuple[str, set[int]], ...], zone: str, night: date, second: int
) -> None:
    start = datetime(night.year, night.month, night.day, tzinfo=UTC) - timedelta(days=1) + timedelta(seconds=second)
    # The model looks at whole minutes.
    aligned = start.replace(second=0)
    end = aligned + timedelta(days=DAYS)
    cadence = parse_cadence("cron: " + " ".join(text for text, _ in line), zone, start)
    found, at = [], cadence.next_after(start)
    while at is not None and at <= end:
        found.append(at)
        at = cadence.next_after(at)
    wanted = [moment for moment in expected(line, ZoneInfo(zone), aligned, end) if moment > start]
    assert found == wanted
    assert count_between(cadence, start, end) == min(1000, len(wanted))


@given(lines, st.sampled_from(ZONES), st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))
@settings(max_examples=examples(60))
def test_cron_firings_always_move_forward(line: tuple[tuple[str, set[int]], ...], zone: str, start: datetime) -> None:
    from limpet.errors import InvalidInput

    moment = start.replace(tzinfo=UTC)
    try:
        cadence = parse_cadence("cron: " + " ".join(text for text, _ in line), zone, moment)
    except InvalidInput:  # the 31st of February
        return
    firings: list[datetime] = []
    at = cadence.next_after(moment)
    while at is not None and len(firings) < 60:
        firings.append(at)
        at = cadence.next_after(at)
    assert all(second - first >= MINUTE for first, second in pairwise(firings))
    assert all(firing > moment and firing.utcoffset() == timedelta(0) for firing in firings)
    again = parse_cadence(cadence.text, zone, moment)
    assert [again.next_after(firing) for firing in firings[:-1]] == firings[1:]
    gaps = [second - first for first, second in pairwise(firings)]
    assert smallest_gap(cadence, moment, 60) == (min(gaps) if gaps else None)


@given(st.integers(1, 10**7), st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.integers(-(10**6), 10**8))
def test_interval_firings_are_counted_from_anchor(seconds: int, anchor: datetime, passed: int) -> None:
    begun = anchor.replace(tzinfo=UTC)
    cadence = parse_cadence(f"every: {seconds}s", "Europe/Lisbon", begun)
    moment = begun + timedelta(seconds=passed)
    at = cadence.next_after(moment)
    assert at is not None
    assert at > moment
    assert (at - begun) % timedelta(seconds=seconds) == timedelta(0)
    assert passed < 0 or at - moment <= timedelta(seconds=seconds)
    assert parse_cadence(cadence.text, "UTC", begun) == cadence
    assert count_between(cadence, moment, at) == 1


@given(st.from_regex(USUAL, fullmatch=True))
@settings(max_examples=examples(200))
def test_cadence_pattern_of_api_schema_is_parsable(text: str) -> None:
    now = datetime(2026, 5, 2, 9, 30, tzinfo=UTC)
    check_min_gap(parse_cadence(text, "Europe/Lisbon", now), now, ScheduleSettings())
