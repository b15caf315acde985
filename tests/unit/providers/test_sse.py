from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.providers.http import parse_events


def pieces(content: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    return [content[start:end] for start, end in pairwise(places)]


lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.lists(lines, min_size=1, max_size=3), max_size=5), st.lists(st.integers(0, 2000)), st.data())
def test_parse_events_is_independent_of_chunk_boundaries(said, cuts, data):
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    content = "".join("".join(f"data: {line}{end}" for line in event) + end for event in said).encode()
    assert list(parse_events(pieces(content, cuts))) == ["\n".join(event) for event in said]


@given(st.lists(st.binary(max_size=50)))
def test_parse_events_accepts_any_bytes(given_pieces):
    whole = b"".join(given_pieces)
    assert (
        list(parse_events(given_pieces))
        == list(parse_events([whole]))
        == list(parse_events(bytes([byte]) for byte in whole))
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b": ping\n\n: ping\n\ndata: a\n\n", ["a"]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", ["a"]),
        (b"data:a\n\ndata:  a\n\n", ["a", " a"]),
        (b"data\n\n", [""]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a\n\ndata: the last", ["a", "the last"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"", []),
    ],
)
def test_parse_events_ignores_comments_and_other_fields(content, expected):
    assert list(parse_events([content])) == expected


def test_parse_events_yields_event_before_next_arrives():
    def arriving():
        yield b"data: a\r\n\r"
        raise AssertionError("asked for more than the first event needs")

    assert next(parse_events(arriving())) == "a"
