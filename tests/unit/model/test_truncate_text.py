"""Texts are cut between what readers see as characters."""

from __future__ import annotations

import pytest

from limpet.model.tokens import truncate_text

FAMILY = "👩‍👩‍👧‍👦"


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("abcdef", 4, "abcd"),
        ("abc", 4, "abc"),
        ("ab" + FAMILY, 4, "ab"),
        ("ab" + FAMILY, 9, "ab" + FAMILY),
        ("ab" + FAMILY + "c", 9, "ab" + FAMILY),
        ("ae\u0301b", 2, "a"),  # e and its accent
        ("ae\u0301b", 3, "ae\u0301"),
        ("🇵🇹🇺🇸", 3, "🇵🇹"),
        ("🇵🇹🇺🇸", 2, "🇵🇹"),
        ("a👍🏽b", 2, "a"),
        ("a❤\ufe0fb", 2, "a"),
        ("a\r\nb", 2, "a"),
        ("한\u11a8글", 1, "한\u11a8"[:1]),
        ("क्षि", 3, "क्"),
        ("", 0, ""),
    ],
)
def test_truncate_text_cuts_at_grapheme_boundary(text: str, most: int, kept: str) -> None:
    assert truncate_text(text, most) == kept
    assert len(truncate_text(text, most)) <= most


def test_truncate_text_cuts_endless_combining_marks() -> None:
    assert len(truncate_text("a" + "\u0301" * 1000, 500)) == 500
