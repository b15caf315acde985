"""When cadences fire, by moments that were worked out by hand."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest

from limpet.config import ScheduleSettings
from limpet.errors import InvalidInput
from limpet.model.values import load_timezone
from limpet.schedules.cadence import Interval, parse_cadence, smallest_gap
from limpet.schedules.decide import check_min_gap

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}+00:00")


def firings(cadence: str, zone: str, after: str, count: int) -> list[str]:
    """The next ones in UTC, as ``month-day hour:minute``."""
    found, moment = parse_cadence(cadence, zone, NOW), at(after)
    shown = []
    for _ in range(count):
        following = found.next_after(moment)
        assert following is not None
        shown.append(following.strftime("%m-%d %H:%M"))
        moment = following
    return shown


# Nights on which clocks are changed. Lisbon: 29 March 01:00 UTC forward, 25 October 01:00 UTC back, by an hour. New
# York: 8 March 07:00 UTC forward, 1 November 06:00 UTC back. Lord Howe Island: half an hour, back on 4 April 15:00 UTC,
# forward on 3 October 15:30 UTC.


@pytest.mark.parametrize(
    ("zone", "cadence", "after", "expected"),
    [
        # 01:30 is skipped: it fires when the clock has moved on to 02:00.
        ("Europe/Lisbon", "cron: 30 1 * * *", "03-27T12:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        # 01:30 comes twice: it fires the first time.
        ("Europe/Lisbon", "cron: 30 1 * * *", "10-23T12:00", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        # Nine in the morning is nine in the morning.
        ("Europe/Lisbon", "cron: 0 9 * * *", "03-27T12:00", ["03-28 09:00", "03-29 08:00", "03-30 08:00"]),
        ("America/New_York", "cron: 30 2 * * *", "03-06T12:00", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
        ("America/New_York", "cron: 30 1 * * *", "10-30T12:00", ["10-31 05:30", "11-01 05:30", "11-02 06:30"]),
        # 02:00 and 02:30 are both skipped, and 03:00 falls on the same moment: one firing.
        ("America/New_York", "cron: */30 2,3 8 3 *", "03-08T00:00", ["03-08 07:00", "03-08 07:30"]),
        ("Australia/Lord_Howe", "cron: 15 2 * * *", "10-02T12:00", ["10-02 15:45", "10-03 15:30", "10-04 15:15"]),
        ("Australia/Lord_Howe", "cron: 45 1 * * *", "04-03T12:00", ["04-03 14:45", "04-04 14:45", "04-05 15:15"]),
    ],
)
def test_daily_cron_fires_once_on_dst_change(zone: str, cadence: str, after: str, expected: list[str]) -> None:
    assert firings(cadence, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("zone", "cadence", "after", "expected"),
    [
        # Both of the hours between one and two.
        ("Europe/Lisbon", "cron: 30 * * * *", "10-25T00:00", ["10-25 00:30", "10-25 01:30", "10-25 02:30"]),
        ("America/New_York", "cron: 0 0-23 * * *", "11-01T04:30", ["11-01 05:00", "11-01 06:00", "11-01 07:00"]),
        ("Europe/Lisbon", "cron: 0 * * * *", "03-29T00:30", ["03-29 01:00", "03-29 02:00"]),
        # 01:30 in summer time, 01:30 half an hour later, 02:00.
        ("Australia/Lord_Howe", "cron: */30 * * * *", "04-04T14:00", ["04-04 14:30", "04-04 15:00", "04-04 15:30"]),
        ("Australia/Lord_Howe", "cron: 30 * * * *", "04-04T14:00", ["04-04 14:30", "04-04 15:00", "04-04 16:00"]),
        # The clock shows 02:00 never: it is 02:30 at once.
        ("Australia/Lord_Howe", "cron: 0 * * * *", "10-03T14:00", ["10-03 14:30", "10-03 16:00", "10-03 17:00"]),
    ],
)
def test_hourly_cron_follows_elapsed_time_on_dst_change(
    zone: str, cadence: str, after: str, expected: list[str]
) -> None:
    assert firings(cadence, zone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("zone", "cadence", "moment"),
    [
        ("Europe/Lisbon", "once: 2026-07-01T09:00", "07-01T08:00"),
        ("Europe/Lisbon", "once: 2026-07-01 09:00", "07-01T08:00"),
        ("Europe/Lisbon", "once: 2026-07-01T09:00+02:00", "07-01T07:00"),
        ("Europe/Lisbon", "once: 2026-07-01T09:00Z", "07-01T09:00"),
        ("Europe/Lisbon", "once: 2026-03-29T01:30", "03-29T01:00"),  # skipped
        ("Europe/Lisbon", "once: 2026-10-25T01:30", "10-25T00:30"),  # twice
        ("America/New_York", "once: 2026-03-08T02:59:59", "03-08T07:00"),
        ("Australia/Lord_Howe", "once: 2026-10-04T02:10", "10-03T15:30"),
    ],
)
def test_once_cadence_uses_schedule_timezone_unless_given(zone: str, cadence: str, moment: str) -> None:
    found = parse_cadence(cadence, zone, NOW)
    assert found.next_after(NOW) == at(moment)
    assert found.next_after(at(moment)) is None
    assert parse_cadence(found.text, zone, NOW) == found


def test_interval_cadence_ignores_dst() -> None:
    found = parse_cadence("every: 1d", "Europe/Lisbon", at("03-28T12:00"))
    assert found.next_after(at("03-28T12:00")) == at("03-29T12:00")
    assert found.next_after(at("03-29T12:00")) == at("03-30T12:00")
    assert found.next_after(at("04-20T00:00")) == at("04-20T12:00")


@pytest.mark.parametrize(
    ("text", "seconds", "kept"),
    [
        ("every: 15m", 900, "every: 15m"),
        ("Every: 90 seconds", 90, "every: 1m30s"),
        ("interval: 900", 900, "every: 15m"),
        ("every: 1h30m", 5400, "every: 1h30m"),
        ("every: 2 days and 3 hours", 183_600, "every: 2d3h"),
        ("EVERY:1W", 604_800, "every: 1w"),
    ],
)
def test_interval_cadence_accepts_common_spellings(text: str, seconds: int, kept: str) -> None:
    found = parse_cadence(text, "UTC", NOW)
    assert found == Interval(kept, timedelta(seconds=seconds), NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cron: 0 0 L * *", ["01-31 00:00", "02-28 00:00"]),
        ("cron: 0 0 * * MON#2", ["01-12 00:00", "02-09 00:00"]),
        ("cron: 0 0 * jan fri", ["01-02 00:00", "01-09 00:00"]),
        ("cron: @weekly", ["01-04 00:00", "01-11 00:00"]),
        ("cron: 0 0 1,15 * 3", ["01-07 00:00", "01-14 00:00", "01-15 00:00"]),  # either day
    ],
)
def test_cron_cadence_supports_extended_syntax(text: str, expected: list[str]) -> None:
    assert firings(text, "UTC", "01-01T00:00", len(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "hourly",
            "cron:",
            "cron: ",
            "cron: * * * *",
            "cron: * * * * * *",
            "cron: 60 * * * *",
            "cron: * 24 * * *",
        ),
        *("cron: 0 0 0 * *", "cron: 0 0 31 2 *", "cron: a b c d e", "cron: */0 * * * *", "cron: 5-1 * * * *"),
        *("cron: 0 0 * * 1L/2", "cron: 0 0 * * 1#9", "cron: ; ls * * *", "cron: " + "9" * 150 + " * * * *"),
        *("once: tomorrow", "once: 2026-13-01T00:00", "once: 9999-12-31T23:59:59-12:00", "every: 0s", "every: -5m"),
        *("every: 5 fortnights", "every: 99999999w", "every: m", "at: 5", "every: 5m\x00", "cron: " + "1," * 200),
    ],
)
def test_parse_cadence_rejects_invalid_text_with_advice(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"cron: |once: |every: |interval|bytes|NUL|outside"):
        parse_cadence(text, "UTC", NOW)


def test_cadence_that_never_fires_has_no_next_time() -> None:
    # Every twentieth day that is the month's last Monday, which is never the 1st or the 21st.
    assert parse_cadence("cron: 0 0 */20 * 1L", "UTC", NOW).next_after(NOW) is None
    assert parse_cadence("cron: 0 0 1 1 *", "UTC", NOW).next_after(datetime(9999, 12, 31, tzinfo=UTC)) is None
    assert (
        parse_cadence("cron: 0 * * * *", "Asia/Tokyo", NOW).next_after(datetime(9999, 12, 31, 23, tzinfo=UTC)) is None
    )
    assert parse_cadence("every: 10w", "UTC", NOW).next_after(datetime(9999, 12, 31, tzinfo=UTC)) is None


def test_smallest_gap_examines_many_firings() -> None:
    # The two that are close stand a year apart: 23:59 on the last day, 00:00 on the first.
    close = parse_cadence("cron: 0,59 0,23 1,31 1,12 *", "UTC", NOW)
    assert smallest_gap(close, at("01-02T00:00"), 2) == timedelta(minutes=59)
    assert smallest_gap(close, at("01-02T00:00"), 500) == timedelta(minutes=1)
    with pytest.raises(InvalidInput, match="60 seconds apart; at least 120"):
        check_min_gap(close, NOW, ScheduleSettings(smallest_gap_s=120))
    check_min_gap(close, NOW, ScheduleSettings())
    assert smallest_gap(parse_cadence("once: 2026-07-01T09:00", "UTC", NOW), NOW, 500) is None


def test_missing_timezone_database_names_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(InvalidInput, match="pip install tzdata"):
        parse_cadence("cron: 0 9 * * *", "Europe/Lisbon", NOW)
    assert load_timezone("UTC") is UTC
