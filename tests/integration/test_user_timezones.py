"""notes.timezones: each user's notes and schedules follow their own clock."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from limpet import Config, Limpet
from limpet.errors import ConfigError
from limpet.testing import FakeClock

ZONES = {"notes.timezones": "ana=Asia/Tokyo, ben=America/New_York", "embedding.model": "none", "jobs.worker": False}
EVENING = datetime(2026, 3, 10, 20, tzinfo=UTC)  # the next morning in Tokyo


def test_notes_and_schedules_follow_the_time_zone_of_their_user(tmp_path: Path) -> None:
    with Limpet.open(tmp_path, config=Config.load(overrides=ZONES), clock=FakeClock(EVENING)) as memory:
        days = {"ana": (11, "05:00"), "ben": (10, "16:00"), "carol": (10, "20:00")}
        for user, (day, hour) in days.items():
            with memory.session("t", "1", user=user).turn("I live in Porto.") as turn:
                turn.reply("Noted.")
            assert memory.notes.day(user).startswith(f"[{hour}] User: I live in Porto.")
            assert memory.notes.day(user, date(2026, 3, day)) == memory.notes.day(user)
        zones = [memory.schedules.create(user, goal="x", cadence="cron: 0 9 * * *").timezone for user in days]
        assert zones == ["Asia/Tokyo", "America/New_York", "UTC"]
        given = memory.schedules.create("ana", goal="x", cadence="cron: 0 9 * * *", timezone="Europe/Lisbon")
        assert given.timezone == "Europe/Lisbon"
        memory.jobs.run()
        memory.forget(query="Porto", user="ana")
        assert "Porto" not in memory.notes.day("ana")
        session = memory.find_session("t", "1", user="ben")
        assert session is not None
        session.delete()
        assert memory.notes.day("ben") == ""


def test_contexts_and_summaries_name_days_of_the_users_zone(tmp_path: Path) -> None:
    config = Config.load(overrides={**ZONES, "context.recent_messages": 2})
    with Limpet.open(tmp_path, config=config, clock=FakeClock(EVENING)) as memory:
        for user, day in {"ana": 11, "ben": 10}.items():
            session = memory.session("t", "1", user=user)
            for text in ("I live in Porto.", "The ferry to Vila Nova is slow but pretty."):
                with session.turn(text) as turn:
                    turn.reply("The bridge is faster than the ferry.")
            memory.jobs.run()
            session.compact(keep=0)
            with session.turn("Bye") as turn:
                turn.reply("Bye")
            assert f"- The user lives in Porto. ({day} Mar 2026)" in session.context("Where do I live?").text
            assert f"assistant, {day} Mar: The bridge" in session.context("hello").text
            assert f"2026-03-{day}" in memory.context("Which bridge is faster?", user=user).text


@pytest.mark.parametrize("wrong", ["ana", "ana=Nowhere/Land", "=UTC"])
def test_wrong_time_zones_of_users_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"notes\.timezones"):
        Config.load(overrides={"notes.timezones": wrong})
