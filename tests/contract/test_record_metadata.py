"""Metadata and tags of records: any key, exact values, and what is refused."""

from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import (
    InvalidInput,
)
from tests.contract.rows import faults
from tests.contract.test_records import contents

pytestmark = pytest.mark.every_backend

# Keys that look like a path, a pattern, a parameter or nothing at all. Each is a key like any other.
TRICKY = [
    *(
        "a.b",
        "a",
        "b",
        ".",
        "..",
        ".a",
        "a.",
        "$",
        "$.a",
        "$.a.b",
        "$[0]",
        "a[0]",
        "[0]",
        "0",
        '"',
        '"a"',
        'a"b',
        "'",
        "a'b",
    ),
    *(
        "\\",
        'a\\"b',
        "a b",
        " ",
        " a",
        "*",
        "%",
        "_",
        "a%",
        "?",
        ":key",
        "%(key)s",
        "{where}",
        "é",
        "e\u0301",
        "日本",
        "👍",
    ),
    *("A", "null", "true", "-", "--", ";", "a\nb", "a\tb", "x" * 1024),
]


# Metadata and tags


def test_metadata_search_accepts_any_key(memory: Limpet) -> None:
    for at, key in enumerate(TRICKY):
        memory.remember(f"record {at}", user="alice", metadata={key: f"value of {key}", "common": "yes"})
    for at, key in enumerate(TRICKY):
        wanted = {key: f"value of {key}"}
        assert contents(memory.records.search_metadata(key, wanted[key], user="alice")) == [f"record {at}"]
        assert contents(memory.records(user="alice", metadata=wanted)) == [f"record {at}"]
        assert [hit.text for hit in memory.recall("record", user="alice", metadata=wanted)] == [f"record {at}"]
        assert memory.records.search_metadata(key, "yes", user="alice") == []
    assert len(memory.records.search_metadata("common", "yes", user="alice")) == len(TRICKY)
    assert memory.records.search_metadata("common", "yes", user="bob") == []
    assert memory.records.search_metadata("a.c", "value of a.b", user="alice") == []
    assert faults(memory) == []


def test_record_accepts_many_unusual_metadata_keys(memory: Limpet) -> None:
    metadata = {key: key for key in TRICKY}
    record = memory.remember("x", user="alice", metadata=metadata, tags=TRICKY)
    assert memory.records.get(record.id).metadata == metadata
    assert memory.records.get(record.id).tags == tuple(TRICKY)
    assert all(contents(memory.records(user="alice", metadata={key: key}, tags=[key])) == ["x"] for key in TRICKY)
    assert contents(memory.records(user="alice", metadata=dict(list(metadata.items())[:20]))) == ["x"]
    assert memory.records(user="alice", metadata={**metadata, "a.b": "other"}) == []


def test_metadata_search_compares_values_exactly(memory: Limpet) -> None:
    for value in ("", " ", "1", "1.0", "true", "é", "e\u0301", "É", "a%", "x" * 10_000):
        memory.remember(f"={value[:10]}", user="alice", metadata={"k": value})
    for value in ("", " ", "1", "1.0", "true", "é", "e\u0301", "É", "a%", "x" * 10_000):
        assert contents(memory.records.search_metadata("k", value, user="alice")) == [f"={value[:10]}"]


def test_remember_rejects_invalid_metadata_and_tags(memory: Limpet) -> None:
    metadata: list[Any] = [
        {"": "x"}, {"k": 1}, {"k": None}, {"k": ["x"]}, {1: "x"}, {"k": "\x00"}, {"\x00": "x"}, {"k": "\ud800"},
        {"x" * 1025: "x"}, {"k": "x" * 300_000}, {f"k{at}": "x" for at in range(1001)}, ["x"], "x", 5,
    ]  # fmt: skip
    for bad in metadata:
        with pytest.raises(InvalidInput):
            memory.remember("x", user="alice", metadata=bad)
    tags: list[Any] = ["text", [""], [5], [None], 5, ["\x00"], ["x" * 1025], [str(at) for at in range(101)], [["x"]]]
    for bad in tags:
        with pytest.raises(InvalidInput):
            memory.remember("x", user="alice", tags=bad)
        with pytest.raises(InvalidInput):
            memory.remember("x", user="alice", references=bad)
    assert memory.records.count() == 0
    for bad in ("", 5, None, "\x00"):
        with pytest.raises(InvalidInput):
            memory.records.search_metadata(bad, "x", user="alice")  # type: ignore[arg-type]
