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


def fill(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    session.extend([Message.new("user", f"walrus number{number} speaking") for number in range(600)])
    memory.session("t", "2", user="bob").append("user", "a penguin")
    memory.remember("a walrus record", user="alice", key="k", tags=["a", "b"], metadata={"m": "1", "n": "2"})
    memory.remember("a gecko record", user="alice", tags=["a"], metadata={"m": "1"})


def answers(memory: Limpet) -> list[Any]:
    """What a user sees of the store."""
    session = memory.session("t", "1", user="alice")
    return [
        memory.recall("walrus number7 gecko penguin", user="alice", k=1000, recipe="words"),
        memory.recall("number599 number0", user="alice", recipe="words"),
        memory.records(user="alice", tags=["a", "b"]),
        memory.records.search_metadata("m", "1", user="alice"),
        session.count(),
        session.refresh(),
        memory.sessions(),
    ]


DAMAGES: dict[str, Damage] = {
    "a posting lost": lambda memory: sql(memory, "DELETE FROM postings WHERE term = (SELECT min(term) FROM postings)"),
    "all postings lost": lambda memory: sql(memory, "DELETE FROM postings"),
    "a posting damaged": lambda memory: sql(
        memory,
        "UPDATE postings SET data = :data WHERE term = (SELECT max(term) FROM postings)",
        data=bytes(8),
    ),
    "the words of a chunk lost": lambda memory: sql(
        memory, "UPDATE chunks SET terms = :none, word_count = 0 WHERE text LIKE '%number3 %'", none=b""
    ),
    "the newest chunk's words lost": lambda memory: sql(
        memory, "UPDATE chunks SET terms = :none WHERE text LIKE '%gecko%'", none=b""
    ),
    "a chunk count wrong": lambda memory: sql(memory, "UPDATE partitions SET chunk_count = chunk_count + 5"),
    "a word count wrong": lambda memory: sql(memory, "UPDATE partitions SET word_count = 0"),
    "a message count wrong": lambda memory: sql(memory, "UPDATE sessions SET message_count = message_count - 1"),
    "a last number too low": lambda memory: sql(
        memory, "UPDATE sessions SET last_sequence = 3 WHERE last_sequence > 3"
    ),
    "a tag lost": lambda memory: sql(memory, "DELETE FROM record_tags WHERE tag = 'b'"),
    "a tag too many": lambda memory: sql(
        memory, "INSERT INTO record_tags SELECT bucket, partition_id, id, 'z' FROM records"
    ),
    "a metadata row lost": lambda memory: sql(memory, "DELETE FROM record_metadata WHERE key = 'm'"),
    "a metadata row changed": lambda memory: sql(memory, "UPDATE record_metadata SET value = '9' WHERE key = 'n'"),
    "a merge half done": lambda memory: sql(memory, "UPDATE partitions SET merged_ordinal = merged_ordinal + 1"),
    "a merge forgotten": lambda memory: sql(memory, "UPDATE partitions SET merged_ordinal = 0"),
    "a chunk lost": lambda memory: sql(memory, "DELETE FROM chunks WHERE text LIKE '%number7 %'"),
    "the chunks of a record lost": lambda memory: sql(memory, "DELETE FROM chunks WHERE text LIKE '%gecko%'"),
    "the text of a chunk changed": lambda memory: sql(
        memory, "UPDATE chunks SET text = 'something that nobody said' WHERE text LIKE '%number7 %'"
    ),
}


def test_doctor_finds_no_fault_in_healthy_store(memory: Limpet) -> None:
    assert faults(memory) == []
    fill(memory)
    findings = memory.admin.doctor()
    assert all(finding.ok and not finding.repaired for finding in findings)
    assert {finding.check for finding in findings} >= {"sessions", "summaries", "labels", "words", "vectors"}
    assert all(finding.ok and not finding.repaired for finding in memory.admin.doctor(repair=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_doctor_finds_and_repairs_damage(name: str) -> None:
    _found_and_repaired(":memory:", name)


@pytest.mark.postgres
def test_doctor_finds_and_repairs_damage_on_postgres(request: pytest.FixtureRequest) -> None:
    """Each on a database of its own, made from one that was filled once."""
    server = _required_server(request.config)
    template = server.create_database()
    try:
        with Limpet.open(template) as memory:
            fill(memory)
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
    with Limpet.open(url) as memory:
        if not memory.sessions():
            fill(memory)
        before = answers(memory)
        DAMAGES[name](memory)
        assert faults(memory), "the damage was not found"
        assert faults(memory), "looking repaired something"
        repaired = memory.admin.doctor(repair=True)
        assert any(finding.repaired for finding in repaired), "nothing was repaired"
        assert faults(memory) == [], "the repair left a fault"
        assert answers(memory) == before, "the repair did not bring back what was there"


@pytest.mark.slow
def test_doctor_finds_summary_beyond_last_message(memory: Limpet) -> None:
    fill(memory)
    memory.session("t", "1", user="alice").set_summary("s", 600)
    sql(memory, "UPDATE summaries SET upper_sequence = 601")
    assert [fault.split(":")[0] for fault in faults(memory)] == ["summaries"]


def test_doctor_reindexes_words_of_older_analysis_version(memory: Limpet) -> None:
    fill(memory)
    before = answers(memory)
    sql(memory, "UPDATE properties SET value = 'an older one' WHERE name = 'analysis'")
    assert faults(memory)
    memory.admin.doctor(repair=True)
    assert faults(memory) == []
    assert answers(memory) == before


def test_doctor_finds_dangling_reference(tmp_path: Any) -> None:
    import sqlite3

    with Limpet.open(tmp_path) as memory:
        fill(memory)
    connection = sqlite3.connect(tmp_path / "limpet.db")
    connection.execute("DELETE FROM sessions WHERE user_id = 'bob'")
    connection.commit()
    connection.close()
    with Limpet.open(tmp_path) as memory:
        assert any(fault.startswith("references") for fault in faults(memory))


def test_doctor_finds_damaged_page(tmp_path: Any) -> None:
    with Limpet.open(tmp_path) as memory:
        fill(memory)
    path = tmp_path / "limpet.db"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xaa" * 4096
    path.write_bytes(data)
    with Limpet.open(tmp_path) as memory:
        assert any(fault.startswith("file integrity") for fault in faults(memory))


def test_stats_count_all_tenants(memory: Limpet) -> None:
    kinds = ("sessions", "messages", "records", "chunks", "vectors", "documents", "users")
    assert [memory.admin.stats()[kind] for kind in kinds] == [0] * len(kinds)
    for tenant in ("a", "b"):
        view = memory.tenant(tenant)
        view.session("t", "1", user="alice").append("user", "x")
        view.session("t", "2", user="alice").append("system", "y")
        view.remember("z", user="bob")
    stats = memory.admin.stats()
    assert (stats["sessions"], stats["messages"], stats["records"], stats["chunks"], stats["users"]) == (4, 4, 2, 4, 4)
    assert stats["backend"] in ("sqlite", "memory", "postgres")
    assert stats["location"]


@pytest.mark.postgres
def test_stats_and_repr_hide_password(postgres_url: str) -> None:
    with_password = postgres_url.replace("postgres@", "postgres:secret-word@")
    with Limpet.open(with_password) as memory:
        assert "secret-word" not in repr(memory) + str(memory.admin.stats())
