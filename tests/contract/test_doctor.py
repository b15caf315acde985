from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from limpet import Limpet, Message
from tests.conftest import _required_server
from tests.contract.rows import faults, sql

pytestmark = pytest.mark.every_backend

Damage = Callable[[Limpet], Any]


def fill(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    session.extend([Message.new("user", f"walrus number{number} speaking") for number in range(600)])
    hf.session("t", "2", user="bob").append("user", "a penguin")
    hf.remember("a walrus record", user="alice", key="k", tags=["a", "b"], metadata={"m": "1", "n": "2"})
    hf.remember("a gecko record", user="alice", tags=["a"], metadata={"m": "1"})


def answers(hf: Limpet) -> list[Any]:
    """What a user sees of the store."""
    session = hf.session("t", "1", user="alice")
    return [
        hf.recall("walrus number7 gecko penguin", user="alice", k=1000, recipe="words"),
        hf.recall("number599 number0", user="alice", recipe="words"),
        hf.records(user="alice", tags=["a", "b"]),
        hf.records.search_metadata("m", "1", user="alice"),
        session.count(),
        session.refresh(),
        hf.sessions(),
    ]


DAMAGES: dict[str, Damage] = {
    "a posting lost": lambda hf: sql(hf, "DELETE FROM postings WHERE term = (SELECT min(term) FROM postings)"),
    "all postings lost": lambda hf: sql(hf, "DELETE FROM postings"),
    "a posting damaged": lambda hf: sql(
        hf,
        "UPDATE postings SET data = :data WHERE term = (SELECT max(term) FROM postings)",
        data=bytes(8),
    ),
    "the words of a chunk lost": lambda hf: sql(
        hf, "UPDATE chunks SET terms = :none, word_count = 0 WHERE text LIKE '%number3 %'", none=b""
    ),
    "the newest chunk's words lost": lambda hf: sql(
        hf, "UPDATE chunks SET terms = :none WHERE text LIKE '%gecko%'", none=b""
    ),
    "a chunk count wrong": lambda hf: sql(hf, "UPDATE partitions SET chunk_count = chunk_count + 5"),
    "a word count wrong": lambda hf: sql(hf, "UPDATE partitions SET word_count = 0"),
    "a message count wrong": lambda hf: sql(hf, "UPDATE sessions SET message_count = message_count - 1"),
    "a last number too low": lambda hf: sql(hf, "UPDATE sessions SET last_sequence = 3 WHERE last_sequence > 3"),
    "a tag lost": lambda hf: sql(hf, "DELETE FROM record_tags WHERE tag = 'b'"),
    "a tag too many": lambda hf: sql(hf, "INSERT INTO record_tags SELECT bucket, partition_id, id, 'z' FROM records"),
    "a metadata row lost": lambda hf: sql(hf, "DELETE FROM record_metadata WHERE key = 'm'"),
    "a metadata row changed": lambda hf: sql(hf, "UPDATE record_metadata SET value = '9' WHERE key = 'n'"),
    "a merge half done": lambda hf: sql(hf, "UPDATE partitions SET merged_ordinal = merged_ordinal + 1"),
    "a merge forgotten": lambda hf: sql(hf, "UPDATE partitions SET merged_ordinal = 0"),
    "a chunk lost": lambda hf: sql(hf, "DELETE FROM chunks WHERE text LIKE '%number7 %'"),
    "the chunks of a record lost": lambda hf: sql(hf, "DELETE FROM chunks WHERE text LIKE '%gecko%'"),
    "the text of a chunk changed": lambda hf: sql(
        hf, "UPDATE chunks SET text = 'something that nobody said' WHERE text LIKE '%number7 %'"
    ),
}


def test_a_store_as_it_should_be_has_no_fault(hf: Limpet) -> None:
    assert faults(hf) == []
    fill(hf)
    findings = hf.admin.doctor()
    assert all(finding.ok and not finding.repaired for finding in findings)
    assert {finding.check for finding in findings} >= {"sessions", "summaries", "labels", "words", "vectors"}
    assert all(finding.ok and not finding.repaired for finding in hf.admin.doctor(repair=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_repaired(name: str) -> None:
    _found_and_repaired(":memory:", name)


@pytest.mark.postgres
def test_damage_is_found_and_repaired_on_postgres(request: pytest.FixtureRequest) -> None:
    """Each on a database of its own, made from one that was filled once."""
    server = _required_server(request.config)
    template = server.create_database()
    try:
        with Limpet.open(template) as hf:
            fill(hf)
        for name in (
            "all postings lost",
            "the newest chunk's words lost",
            "a chunk count wrong",
            "a last number too low",
            "a tag too many",
            "a metadata row lost",
        ):
            url = server.create_database(template=urlsplit(template).path.removeprefix("/"))
            try:
                _found_and_repaired(url, name)
            finally:
                server.drop_database(url)
    finally:
        server.drop_database(template)


def _found_and_repaired(url: str, name: str) -> None:
    with Limpet.open(url) as hf:
        if not hf.sessions():
            fill(hf)
        before = answers(hf)
        DAMAGES[name](hf)
        assert faults(hf), "the damage was not found"
        assert faults(hf), "looking repaired something"
        repaired = hf.admin.doctor(repair=True)
        assert any(finding.repaired for finding in repaired), "nothing was repaired"
        assert faults(hf) == [], "the repair left a fault"
        assert answers(hf) == before, "the repair did not bring back what was there"


@pytest.mark.slow
def test_a_summary_that_covers_too_much_is_found(hf: Limpet) -> None:
    fill(hf)
    hf.session("t", "1", user="alice").set_summary("s", 600)
    sql(hf, "UPDATE summaries SET upper_sequence = 601")
    assert [fault.split(":")[0] for fault in faults(hf)] == ["summaries"]


def test_words_cut_by_another_analysis_are_cut_again(hf: Limpet) -> None:
    fill(hf)
    before = answers(hf)
    sql(hf, "UPDATE properties SET value = 'an older one' WHERE name = 'analysis'")
    assert faults(hf)
    hf.admin.doctor(repair=True)
    assert faults(hf) == []
    assert answers(hf) == before


def test_a_row_that_points_to_nothing_is_found(tmp_path: Any) -> None:
    import sqlite3

    with Limpet.open(tmp_path) as hf:
        fill(hf)
    connection = sqlite3.connect(tmp_path / "limpet.db")
    connection.execute("DELETE FROM sessions WHERE user_id = 'bob'")
    connection.commit()
    connection.close()
    with Limpet.open(tmp_path) as hf:
        assert any(fault.startswith("references") for fault in faults(hf))


def test_a_damaged_page_is_found(tmp_path: Any) -> None:
    with Limpet.open(tmp_path) as hf:
        fill(hf)
    path = tmp_path / "limpet.db"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xaa" * 4096
    path.write_bytes(data)
    with Limpet.open(tmp_path) as hf:
        assert any(fault.startswith("file integrity") for fault in faults(hf))


def test_stats_count_over_all_tenants(hf: Limpet) -> None:
    kinds = ("sessions", "messages", "records", "chunks", "vectors", "documents", "users")
    assert [hf.admin.stats()[kind] for kind in kinds] == [0] * len(kinds)
    for tenant in ("a", "b"):
        view = hf.tenant(tenant)
        view.session("t", "1", user="alice").append("user", "x")
        view.session("t", "2", user="alice").append("system", "y")
        view.remember("z", user="bob")
    stats = hf.admin.stats()
    assert (stats["sessions"], stats["messages"], stats["records"], stats["chunks"], stats["users"]) == (4, 4, 2, 4, 4)
    assert stats["backend"] in ("sqlite", "memory", "postgres")
    assert stats["location"]


@pytest.mark.postgres
def test_a_password_is_not_shown(postgres_url: str) -> None:
    with_password = postgres_url.replace("postgres@", "postgres:secret-word@")
    with Limpet.open(with_password) as hf:
        assert "secret-word" not in repr(hf) + str(hf.admin.stats())
