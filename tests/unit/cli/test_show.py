from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from limpet.cli import show

HOSTILE = "a\x1b[2Jb\x07c\x9bd\x7fe\u202ef\u2066g\rh\x08i\ud83dj"


def test_escape_spells_out_control_characters():
    assert show.escape(HOSTILE) == r"a\x1b[2Jb\x07c\x9bd\x7fe\u202ef\u2066g\x0dh\x08i\ud83dj"


def test_escape_keeps_newlines_tabs_and_all_scripts():
    text = "two\nlines\tand 日本語 עברית 👩\u200d👧 é"
    assert show.escape(text) == text


def test_one_line_collapses_whitespace():
    assert show.one_line(" a\n\n b\tc\u2028d ") == "a b c d"
    assert "\n" not in show.escape_line("a\nb")


def test_to_json_round_trips_and_escapes_control_characters():
    text = show.to_json({"x": HOSTILE, "y": "日本"})
    assert json.loads(text) == {"x": HOSTILE, "y": "日本"}
    assert not set(text) & set("\x1b\x07\x9b\x7f\u202e\u2066\r\x08\ud83d")


def test_format_time_uses_local_zone():
    assert show.format_time(datetime(2026, 3, 10, 12, 0, tzinfo=UTC)) == "2026-03-10 21:00 JST"
    assert show.format_time(None) == "-"
    assert show.format_time(datetime.max.replace(tzinfo=UTC)).startswith("9999-12-31")


@pytest.mark.parametrize(
    ("text", "width", "kept"),
    [
        ("short", 5, "short"),
        ("longer text", 8, "longer…"),
        ("日本語テキスト", 7, "日本語…"),
        ("e\u0301" * 5, 5, "e\u0301" * 5),
    ],
)
def test_truncate_counts_display_columns(text, width, kept):
    assert show.truncate(text, width) == kept
    assert show.display_width(kept) <= width


def test_format_table_fits_terminal_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = show.format_table(("ID", ">N", "TEXT"), [("a", "1", "x" * 500), ("bb", "22", "日本" * 100)])
    assert all(show.display_width(line) <= 60 for line in lines)
    assert lines[0].startswith("ID   N  TEXT")
    assert lines[1].startswith("a    1  xxx")


def test_format_table_drops_optional_columns_when_narrow(monkeypatch):
    titles, rows = ("ID", "?OWNER", "?WHEN", "TEXT"), [("i" * 30, "o" * 20, "w" * 20, "t" * 30)]
    monkeypatch.setenv("COLUMNS", "120")
    assert show.format_table(titles, rows)[0].split() == ["ID", "OWNER", "WHEN", "TEXT"]
    monkeypatch.setenv("COLUMNS", "80")
    assert show.format_table(titles, rows)[0].split() == ["ID", "OWNER", "TEXT"]
    monkeypatch.setenv("COLUMNS", "40")
    assert show.format_table(titles, rows)[0].split() == ["ID", "TEXT"]


def test_format_table_escapes_control_characters():
    lines = show.format_table(("A", "B"), [("x\ny\x1b[0m", "z" * 10)])
    assert len(lines) == 2
    assert "\x1b" not in lines[1]


def test_pluralize_and_format_size():
    assert [show.pluralize(number, "row") for number in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert [show.format_size(number) for number in (5, 1500, 2_500_000, 7e9)] == [
        "5 bytes",
        "1.5 KB",
        "2.5 MB",
        "7.0 GB",
    ]
