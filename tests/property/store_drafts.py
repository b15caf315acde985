"""What the store is given: a few choices of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from limpet import FilePart, ImagePart, TextPart, ToolCall
from limpet.model.message import Part, Role
from limpet.model.record import Layer, RecordType

# A run may draw only so much: what is stored comes from a few choices of every kind, the order of calls from many.
words = st.sampled_from(
    (
        "",
        "the dog runs",
        "naïve café 東京タワー 🦊",
        "AND OR 'quotes\" %s :x $1 \\u0000",
        "control \x01\x1b[31m \r\n\t\u2028 \ufeff \U0010ffff",
        "x" * 700,
        "one. two. " * 90,
    )
)
names = st.sampled_from(("n", "x.y", "quote'", 'double"', "ключ", "a:b%c"))
json_values = st.sampled_from(
    (None, True, 0, -(2**60), 2**70, 0.1, 1e300, "", "ü'\"\\", [], {}, [1, [None, {"a.b": ["c"]}]], {"": {"k'": False}})
)
metadata = st.dictionaries(names, json_values, max_size=2)
labels = st.dictionaries(names, st.sampled_from(("v", "w", "ü'")), max_size=2)
moments = st.sampled_from(
    (
        datetime(1990, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 10, 12, 0, 30, 5, tzinfo=UTC),
        datetime(2100, 1, 1, tzinfo=UTC),
    )
)
parts = st.sampled_from(
    (
        (),
        (),
        (ImagePart("https://example.org/i.png", "image/png", "a 🐈"), TextPart("")),
        (FilePart("file:///tmp/a.txt", None, "näme"), ImagePart("data:image/png;base64,AAAA")),
    )
)
calls = st.sampled_from(
    (
        (),
        (),
        (ToolCall("c1", "look", {"for": "dogs", "deep": [1, None]}),),
        (ToolCall("", "a"), ToolCall("c1", "b", {"": ""})),
    )
)
tags = st.sampled_from(((), ("red",), ("blue", "red"), ("ta'g",)))


fields = st.fixed_dictionaries(
    {"type": st.sampled_from(RecordType), "layer": st.sampled_from(Layer)},
    optional={
        "tags": tags,
        "metadata": labels,
        "title": words,
        "confidence": st.sampled_from((0, 0.3, 1)),
        "pinned": st.just(True),
        "ttl": st.just(timedelta(seconds=30)),
    },
)


@dataclass(frozen=True)
class Draft:
    """A message before its text has its mark, and its number, if any, its place: so far above or below the last."""

    role: Role
    text: str
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...]
    metadata: dict[str, Any]
    created_at: datetime | None
    ahead: int | None
    idempotency_key: str | None


drafts = st.builds(
    Draft,
    role=st.sampled_from(Role),
    text=words,
    parts=parts,
    tool_calls=calls,
    metadata=metadata,
    created_at=st.none() | moments,
    ahead=st.sampled_from((None, None, None, None, None, 1, 3, 0, -1)),
    idempotency_key=st.sampled_from((None, None, "k1", "k2")),
)
