from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

import pytest

from limpet.cli import options


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-10", datetime(2026, 3, 9, 15, 0, tzinfo=UTC)),  # the tests live in Tokyo
        ("2026-03-10T09:30", datetime(2026, 3, 10, 0, 30, tzinfo=UTC)),
        ("2026-03-10T09:30Z", datetime(2026, 3, 10, 9, 30, tzinfo=UTC)),
        ("2026-03-10T09:30:15+01:00", datetime(2026, 3, 10, 8, 30, 15, tzinfo=UTC)),
    ],
)
def test_parse_time_without_zone_uses_local_zone(text, instant):
    assert options.parse_time(text) == instant
    assert options.parse_time(text).tzinfo is not None


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "0001-01-01", "2026-03-10T25:00"])
def test_parse_time_rejects_invalid_text(text):
    with pytest.raises(ArgumentTypeError, match="ISO 8601"):
        options.parse_time(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
        ("1d12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_parse_duration_accepts_units(text, span):
    assert options.parse_duration(text) == span


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1 d", "1y", "1d!", "9" * 400 + "d"])
def test_parse_duration_rejects_invalid_text(text):
    with pytest.raises(ArgumentTypeError):
        options.parse_duration(text)


def test_parse_pair_splits_at_first_equals_sign():
    assert options.parse_pair("a.b=c=d") == ("a.b", "c=d")
    assert options.parse_pair("empty=") == ("empty", "")
    for text in ("", "novalue", "=x"):
        with pytest.raises(ArgumentTypeError):
            options.parse_pair(text)
