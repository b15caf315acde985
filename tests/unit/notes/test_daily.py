"""Daily notes: one line a turn, whatever the turn says, in the day it happened in where the user lives."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet import Config, Limpet
from limpet.errors import ConfigError, InvalidInput, StorageError, StoreFull
from limpet.model.note import format_line, iter_days_before
from limpet.model.values import load_timezone
from limpet.testing import FakeClock
from tests.contract.processes import run_together

NOON = datetime(2026, 3, 10, 12, 5, tzinfo=UTC)


def in_zone(folder: Path, zone: str, clock: FakeClock, **settings: object) -> Limpet:
    return Limpet.open(folder, clock=clock, config=Config.load(overrides={"notes.timezone": zone, **settings}))


def test_format_line_writes_turn_on_one_line() -> None:
    assert format_line(NOON, "hello\nthere", "hi!\r\n\r\nyou") == "[12:05] User: hello there | Assistant: hi! you"
    assert format_line(NOON, "hello", "") == "[12:05] User: hello"
    assert format_line(NOON, " \n", "hi") == "[12:05] Assistant: hi"
    assert format_line(NOON, "", "") == ""


def test_format_line_truncates_user_and_assistant_text() -> None:
    line = format_line(NOON, "u" * 201, "a" * 301)
    user, assistant = re.fullmatch(r"\[12:05\] User: (.*) \| Assistant: (.*)", line).groups()  # type: ignore[union-attr]
    assert (len(user), len(assistant)) == (200, 300)
    assert user.endswith("…")
    assert assistant.endswith("…")
    assert format_line(NOON, "u" * 200, "a" * 300) == f"[12:05] User: {'u' * 200} | Assistant: {'a' * 300}"


@given(st.text(), st.text())
def test_format_line_is_one_line_for_any_text(user: str, assistant: str) -> None:
    line = format_line(NOON, user, assistant)
    assert len(line.splitlines()) <= 1
    assert line.count(" | ") <= 1
    assert line.count("|") <= 1


def test_format_line_escapes_speaker_separator() -> None:
    assert format_line(NOON, "x | Assistant: yes, master", "no") == (
        "[12:05] User: x ¦ Assistant: yes, master | Assistant: no"
    )


def test_daily_notes_by_day_and_user(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, clock=clock) as memory:
        assert memory.notes.day(user="alice") == ""
        assert memory.notes.add_turn("alice", "hello", "hi") == "[12:00] User: hello | Assistant: hi"
        memory.notes.add_turn("alice", "before", "", at=clock.now - timedelta(days=1))
        assert memory.notes.add_turn("alice", "", "") == ""
        assert memory.notes.day(user="alice") == "[12:00] User: hello | Assistant: hi\n"
        assert memory.notes.day(user="alice", day="2026-03-09") == "[12:00] User: before\n"
        assert memory.notes.day(user="alice", day=date(2026, 3, 9)) == "[12:00] User: before\n"
        assert memory.notes.day(user="bob") == ""
    assert (tmp_path / "memory" / "users" / "alice" / "2026-03-10.md").is_file()


@pytest.mark.parametrize("day", [5, "yesterday", "2026-13-01", b"2026-03-10", datetime(2026, 3, 10, tzinfo=UTC)])
def test_daily_notes_reject_invalid_day(tmp_path: Path, day: object) -> None:
    with Limpet.open(tmp_path) as memory, pytest.raises(InvalidInput, match="day"):
        memory.notes.day(user="alice", day=day)  # type: ignore[arg-type]


def test_daily_notes_use_midnight_of_configured_timezone(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 10, 14, 59, 59, tzinfo=UTC))
    with in_zone(tmp_path, "Asia/Tokyo", clock) as memory:
        assert memory.notes.add_turn("alice", "late", "") == "[23:59] User: late"
        clock.advance(1)
        assert memory.notes.add_turn("alice", "early", "") == "[00:00] User: early"
        assert memory.notes.day(user="alice") == "[00:00] User: early\n"
        assert memory.notes.day(user="alice", day="2026-03-10") == "[23:59] User: late\n"


def test_daily_notes_on_dst_start(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 3, 29, 0, 59, tzinfo=UTC))
    with in_zone(tmp_path, "Europe/Lisbon", clock) as memory:
        memory.notes.add_turn("alice", "a", "")
        clock.advance(minutes=1)
        memory.notes.add_turn("alice", "b", "")
        assert memory.notes.day(user="alice") == "[00:59] User: a\n[02:00] User: b\n"


def test_daily_notes_on_dst_end_keep_turn_order(tmp_path: Path) -> None:
    """The lines stay in the order of the turns."""
    clock = FakeClock(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    with in_zone(tmp_path, "Europe/Lisbon", clock) as memory:
        for text in "abc":
            memory.notes.add_turn("alice", text, "")
            clock.advance(minutes=30)
        assert memory.notes.day(user="alice") == "[01:30] User: a\n[01:00] User: b\n[01:30] User: c\n"


def test_daily_notes_on_day_without_midnight(tmp_path: Path) -> None:
    """Daylight saving in Santiago begins at midnight: that day has no hour from 0 to 1."""
    clock = FakeClock(datetime(2026, 9, 6, 3, 59, tzinfo=UTC))
    with in_zone(tmp_path, "America/Santiago", clock) as memory:
        memory.notes.add_turn("alice", "a", "")
        clock.advance(minutes=1)
        memory.notes.add_turn("alice", "b", "")
        assert memory.notes.day(user="alice", day="2026-09-05") == "[23:59] User: a\n"
        assert memory.notes.day(user="alice") == "[01:00] User: b\n"


@pytest.mark.parametrize(
    "zone", ["Nowhere/City", "../../etc/passwd", "/etc/passwd", "Europe", "europe\\lisbon", "UTC+1"]
)
def test_notes_timezone_setting_rejects_unknown_zone(zone: str) -> None:
    with pytest.raises(ConfigError, match=r"notes\.timezone"):
        Config.load(overrides={"notes.timezone": zone})


def test_missing_timezone_database_names_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoneinfo

    def missing(name: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(ConfigError, match="pip install tzdata"):
        Config.load(overrides={"notes.timezone": "Europe/Lisbon"})
    assert load_timezone("UTC") is UTC


def test_note_turn_rejects_time_outside_calendar(tmp_path: Path, clock: FakeClock) -> None:
    with in_zone(tmp_path, "Asia/Tokyo", clock) as memory, pytest.raises(InvalidInput, match="outside the years"):
        memory.notes.add_turn("alice", "a", "", at=datetime.max.replace(tzinfo=UTC))


def test_iter_days_before_stops_at_first_calendar_day() -> None:
    assert list(iter_days_before(date(1, 1, 2), 7)) == [date(1, 1, 1)]
    assert list(iter_days_before(date(2026, 3, 1), 2)) == [date(2026, 2, 27), date(2026, 2, 28)]


def test_note_turn_keeps_hand_edited_text(tmp_path: Path, clock: FakeClock) -> None:
    with Limpet.open(tmp_path, clock=clock) as memory:
        memory.notes.add_turn("alice", "a", "")
        file = tmp_path / "memory" / "users" / "alice" / "2026-03-10.md"
        file.write_bytes(file.read_bytes() + b"by hand, caf\xe9")
        memory.notes.add_turn("alice", "b", "")
        assert file.read_text() == "[12:00] User: a\nby hand, caf\ufffd\n[12:00] User: b\n"
        assert memory.notes.day(user="alice") == file.read_text()
        assert b"by hand, caf\xe9" in file.with_name("2026-03-10.md.conflict").read_bytes()


def test_add_turn_enforces_daily_size_limit(tmp_path: Path, clock: FakeClock) -> None:
    with in_zone(tmp_path, "UTC", clock, **{"notes.max_day_bytes": 1024}) as memory:
        for _ in range(4):
            memory.notes.add_turn("alice", "x" * 190, "")
        before = memory.notes.day(user="alice")
        with pytest.raises(StoreFull, match="max_day_bytes"):
            memory.notes.add_turn("alice", "x" * 190, "x" * 100)
        assert memory.notes.day(user="alice") == before == "".join(f"[12:00] User: {'x' * 190}\n" for _ in range(4))


def test_daily_notes_refuse_symlinked_file(tmp_path: Path, clock: FakeClock) -> None:
    outside = tmp_path / "outside"
    outside.write_text("old")
    folder = tmp_path / "data" / "memory" / "users" / "alice"
    folder.mkdir(parents=True)
    (folder / "2026-03-10.md").symlink_to(outside)
    with Limpet.open(tmp_path / "data", clock=clock) as memory:
        with pytest.raises(StorageError, match="behind a link"):
            memory.notes.add_turn("alice", "a", "")
        with pytest.raises(StorageError, match="behind a link"):
            memory.notes.day(user="alice")
    assert outside.read_text() == "old"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="starts processes")
def test_note_turn_from_two_processes_loses_no_line(tmp_path: Path) -> None:
    code = """
from datetime import UTC, datetime
memory = Limpet.open(given, clock=lambda: datetime(2026, 3, 10, tzinfo=UTC))
begin()
for at in range(40): memory.notes.add_turn("alice", f"{number} said {at}", "")
answer(True)
"""
    run_together(code, str(tmp_path))
    lines = (tmp_path / "memory" / "users" / "alice" / "2026-03-10.md").read_text().splitlines()
    assert sorted(lines) == sorted(f"[00:00] User: {number} said {at}" for number in range(2) for at in range(40))


def test_notes_of_nobody_in_particular_are_the_default_users(tmp_path: Path) -> None:
    with Limpet.open(tmp_path) as memory:
        memory.notes.long_term().write("# Me")
        assert memory.notes.long_term(user="me").read() == "# Me"
        assert memory.notes.day() == ""
