from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from limpet import Limpet, Record
from limpet.errors import (
    InvalidInput,
    InvalidKey,
    LimpetError,
    RecordNotFound,
    SessionNotFound,
    WrongState,
)
from limpet.model.record import Layer, RecordType
from limpet.model.values import uuid7
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def contents(records: list[Record]) -> list[str]:
    return [record.content for record in records]


# Saving


def test_remember_keeps_every_field(durable_url: str, clock: FakeClock) -> None:
    begins = datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    with Limpet.open(durable_url, clock=clock) as memory:
        record = memory.remember(
            "Alice's dog is 'Biscuit' \U0001f415",
            user="alice",
            key="dog_name",
            type="preference",
            layer="episodic",
            tags=["pets", "a.b", "pets"],
            metadata={"source": "chat", 'q"': ""},
            confidence=0.25,
            salience=1,
            pinned=True,
            valid_from=begins,
            ttl=timedelta(days=2),
            title="Dog",
            references=["https://example.com", "msg:1"],
        )
    assert (record.type, record.layer) == (RecordType.PREFERENCE, Layer.EPISODIC)
    assert (record.tags, record.metadata) == (("pets", "a.b"), {"source": "chat", 'q"': ""})
    assert (record.confidence, record.salience, record.pinned, record.version) == (0.25, 1.0, True, 1)
    assert (record.created_at, record.updated_at, record.valid_from) == (clock.now, clock.now, begins)
    assert record.expires_at == clock.now + timedelta(days=2)
    assert (record.level, record.user, record.agent, record.session_id) == ("user", "alice", None, None)
    assert record.references == ("https://example.com", "msg:1")
    with Limpet.open(durable_url, clock=clock) as memory:
        assert memory.records.get(record.id) == record
        assert memory.records(user="alice") == [record]
        assert memory.records.history(record.id) == [record]


def test_remember_defaults_to_semantic_fact(memory: Limpet) -> None:
    record = memory.remember("x", user="alice")
    assert (record.type, record.layer, record.key, record.tags, record.metadata) == ("fact", "semantic", None, (), {})
    assert not record.pinned
    assert record.expires_at is None
    assert memory.records.get(record.id) == record


def test_record_belongs_to_exactly_one_level(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice", agent="coder")
    made = {
        "user": memory.remember("of the user", user="alice"),
        "agent": memory.remember("of the agent", agent="coder"),
        "session": memory.remember("of the session", session=session.id),
        "global": memory.remember("of everybody", scope="global"),
    }
    assert {record.level for record in made.values()} == set(made)
    assert made["session"].user == "alice"
    assert all(memory.records.get(record.id).level == level for level, record in made.items())
    assert contents(memory.records(session=session.id)) == ["of the session"]
    assert sorted(contents(memory.records(user="alice"))) == ["of the session", "of the user"]
    assert contents(memory.records(agent="coder")) == ["of the agent"]
    assert memory.remember("of nobody in particular").user == "me"
    with pytest.raises(InvalidInput):
        memory.remember("x", user="alice", scope="global")
    with pytest.raises(InvalidInput):
        memory.remember("x", scope="user")  # type: ignore[arg-type]
    with pytest.raises(SessionNotFound):
        memory.remember("x", session=UNKNOWN)
    with pytest.raises(SessionNotFound):
        memory.remember("x", session=session.id, user="bob")
    assert memory.records.count() == 5


# Keys


def test_record_key_is_validated(memory: Limpet) -> None:
    for good in ("a", "dog_name", "a1", "z_", "a" * 64, "system", "internal", "systems_", "an_internal_key"):
        assert memory.remember("x", user="alice", key=good).key == good
    wrong: list[Any] = [
        "", "A", "Dog", "1a", "_a", "a-b", "a b", "a.b", "é", "a\n", "a" * 65, "system_", "system_x", "internal_x", 5,
        b"a", "\x00", "\ud800", "ａ", "a\u0301",
    ]  # fmt: skip
    for bad in wrong:
        with pytest.raises(InvalidKey):
            memory.remember("x", user="alice", key=bad)
        with pytest.raises(InvalidKey):
            memory.forget(key=bad, user="alice")
    assert memory.records.count(user="alice") == 9


def test_remember_with_same_key_replaces_content_and_keeps_history(timed: Limpet, clock: FakeClock) -> None:
    first = timed.remember("lives in Porto", user="alice", key="city", tags=["home"], metadata={"n": "1"}, salience=0.9)
    clock.advance(60)
    second = timed.remember("lives in Lisbon", user="alice", key="city")
    assert (second.id, second.created_at, second.version) == (first.id, first.created_at, 2)
    assert second.updated_at == clock.now
    assert (second.tags, second.metadata, second.salience) == (("home",), {"n": "1"}, 0.9)
    assert contents(timed.records(user="alice")) == ["lives in Lisbon"]
    assert contents(timed.records.history(first.id)) == ["lives in Porto", "lives in Lisbon"]
    assert timed.records.history(first.id)[0] == first
    assert timed.records.count(user="alice") == 1
    assert faults(timed) == []


def test_remember_with_same_content_adds_no_version(timed: Limpet, clock: FakeClock) -> None:
    first = timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(60)
    assert timed.remember("lives in Porto", user="alice", key="city") == first
    assert len(timed.records.history(first.id)) == 1


def test_record_key_is_unique_per_owner(memory: Limpet) -> None:
    session, other = memory.session("t", "1", user="alice"), memory.session("t", "2", user="alice")
    owners: list[dict[str, Any]] = [
        {"user": "alice"}, {"user": "bob"}, {"agent": "alice"}, {"scope": "global"}, {"session": session.id},
        {"session": other.id},
    ]  # fmt: skip
    ids = {memory.remember(f"mine {at}", key="k", **owner).id for at, owner in enumerate(owners)}
    assert len(ids) == len(owners)
    for at, owner in enumerate(owners):
        assert memory.remember(f"again {at}", key="k", **owner).id in ids
    assert memory.records.count() == len(owners)


def test_remember_with_same_key_revives_expired_record(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("parked on level 2", user="alice", key="parking", ttl=3600)
    clock.advance(7200)
    assert timed.records(user="alice") == []
    again = timed.remember("parked on level 5", user="alice", key="parking")
    assert again.id == record.id
    assert contents(timed.records(user="alice")) == ["parked on level 5"]
    assert [hit.text for hit in timed.recall("parked", user="alice")] == ["parked on level 5"]
    timed.records.update(record.id, valid_to=clock.now)
    clock.advance(1)
    assert timed.records(user="alice") == []
    timed.remember("parked on level 5", user="alice", key="parking")
    assert contents(timed.records(user="alice")) == ["parked on level 5"]


def test_remember_same_statement_again_counts_it(memory: Limpet, clock: FakeClock) -> None:
    first = memory.remember("Alice's dog is Biscuit", user="alice", tags=["dog"])
    clock.advance(days=1)
    again = memory.remember("  alice's dog  is biscuit.", user="alice", tags=["pet"])
    assert (again.id, again.content, again.said, again.tags) == (first.id, first.content, 2, ("dog", "pet"))
    third = memory.remember("Alice's dog is Biscuit", user="alice")
    assert (third.id, third.said, third.version) == (first.id, 3, again.version)
    assert memory.records(user="alice") == [third]
    assert memory.context("dog", user="alice").text.count("Biscuit") == 1


def test_remember_same_statement_elsewhere_is_another_record(memory: Limpet) -> None:
    kept = [
        memory.remember("Tea at four", user="alice"),
        memory.remember("Tea at four", user="bob"),
        memory.remember("Tea at four", scope="global"),
        memory.remember("Tea at four", session=memory.session(user="alice").id),
        memory.remember("Tea at four", user="alice", type="note"),
        memory.remember("Tea at four", user="alice", layer="procedural"),
        memory.remember("Tea at four", user="alice", key="tea"),
        memory.remember("Tea at four", user="alice", id="01890000-0000-7000-8000-0000000000aa"),
        memory.remember("Tea at four", user="alice", title="Daily"),
        memory.remember("Tea at four", user="alice", metadata={"file": "a"}),
        memory.remember("Tea at four", user="alice", metadata={"file": "b"}),
    ]
    assert len({record.id for record in kept}) == len(kept)


@pytest.mark.every_backend
def test_remember_same_statement_from_many_threads_creates_one_record(memory: Limpet) -> None:
    saved = at_once(lambda _: memory.remember("Alice's dog is Biscuit", user="alice"))
    [kept] = memory.records(user="alice")
    assert {record.id for record in saved} == {kept.id}
    assert sorted(record.said for record in saved) == list(range(1, 9))
    assert kept.said == 8


def test_remember_same_key_from_many_threads_creates_one_record(memory: Limpet) -> None:
    records = at_once(lambda number: memory.remember(f"value {number}", user="alice", key="k"))
    assert len({record.id for record in records}) == 1
    assert memory.records.count(user="alice") == 1
    assert sorted(contents(memory.records.history(records[0].id))) == sorted(f"value {number}" for number in range(8))
    assert faults(memory) == []


def test_remember_same_key_from_many_processes_creates_one_record(durable_url: str) -> None:
    Limpet.open(durable_url).close()
    code = """
with Limpet.open(given) as memory:
    begin()
    ids = []
    for at in range(25):
        ids.append(memory.remember(f"{number} {at}", user="alice", key=f"key_{at}").id)
    answer(ids)
"""
    answers = run_together(code, durable_url, count=3)
    assert answers[0] == answers[1] == answers[2]
    with Limpet.open(durable_url) as memory:
        assert memory.records.count(user="alice") == 25
        assert faults(memory) == []


# Ids


def test_remember_with_same_id_replaces_content(memory: Limpet) -> None:
    own = uuid7(datetime(2026, 1, 1, tzinfo=UTC), bytes(10))
    first = memory.remember("one", user="alice", id=own)
    assert first.id == own
    second = memory.remember("two", user="alice", id=own.upper())
    assert (second.id, second.created_at, second.version) == (own, first.created_at, 2)
    assert contents(memory.records.history(own)) == ["one", "two"]
    for bad in ("", "x", "1" * 32, 5, b"x", "01890000-0000-7000-8000-00000000000g"):
        with pytest.raises(InvalidKey):
            memory.remember("x", user="alice", id=bad)  # type: ignore[arg-type]


def test_remember_cannot_overwrite_id_of_other_owner(memory: Limpet) -> None:
    session = memory.session("t", "1", user="alice")
    secret = memory.remember("alice's secret", user="alice", metadata={"m": "1"})
    inner = memory.remember("said in a session", session=session.id)
    before = every_row(memory)
    attempts: list[dict[str, Any]] = [
        {"user": "bob"}, {"agent": "assistant"}, {"scope": "global"}, {"session": session.id},
    ]  # fmt: skip
    for owner in attempts:
        with pytest.raises(LimpetError):
            memory.remember("overwritten", id=secret.id, **owner)
    elsewhere: list[dict[str, Any]] = [{"user": "bob"}, {"scope": "global"}, {"user": "alice"}]
    for owner in elsewhere:
        with pytest.raises(LimpetError):
            memory.remember("overwritten", id=inner.id, **owner)
    with pytest.raises(WrongState, match="would move or share it"):
        memory.remember("overwritten", id=inner.id, user="alice")
    with pytest.raises(LimpetError):
        memory.tenant("other").remember("overwritten", id=secret.id, scope="global")
    after = every_row(memory)
    assert {name: rows for name, rows in after.items() if name != "spaces"} == {
        name: rows for name, rows in before.items() if name != "spaces"
    }


# Reading


def test_records_filters_are_combined_with_and(memory: Limpet) -> None:
    memory.remember("one", user="alice", type="fact", layer="semantic", tags=["a", "b"], metadata={"k": "1"})
    memory.remember("two", user="alice", type="fix", layer="procedural", tags=["a"], metadata={"k": "1", "l": "2"})
    memory.remember("three", user="alice", type="decision", layer="semantic", tags=["b"], metadata={"k": "2"})
    memory.remember("four", user="bob", type="fact", tags=["a", "b"], metadata={"k": "1"})

    def found(**filters: Any) -> set[str]:
        kept = set(contents(memory.records(user="alice", **filters)))
        assert {
            hit.text
            for hit in memory.recall("one two three four", user="alice", kinds=["record"], recipe="words", **filters)
        } == kept
        return kept

    assert found() == {"one", "two", "three"}
    assert found(types=["fact", "fix"]) == {"one", "two"}
    assert found(types="fix") == {"two"}
    assert found(layers=["semantic"]) == {"one", "three"}
    assert found(layers=["semantic", "procedural"], types=["fix", "decision"]) == {"two", "three"}
    assert found(tags=["a"]) == {"one", "two"}
    assert found(tags=["a", "b"]) == {"one"}
    assert found(tags=["c"]) == set()
    assert found(metadata={"k": "1"}) == {"one", "two"}
    assert found(metadata={"k": "1", "l": "2"}) == {"two"}
    assert found(metadata={"k": "1"}, tags=["b"], types=["fact"], layers=["semantic"]) == {"one"}
    for wrong in ({"types": ["opinion"]}, {"layers": ["deep"]}, {"tags": 5}, {"metadata": {"k": 1}}, {"types": 5}):
        with pytest.raises(InvalidInput):
            memory.records(user="alice", **wrong)


def test_records_are_paged_by_latest_change_first(timed: Limpet, clock: FakeClock) -> None:
    ids = []
    for number in range(20):
        ids.append(timed.remember(f"n {number}", user="alice").id)
        clock.advance(number % 2)
    timed.records.update(ids[0], content="changed")
    listed = timed.records(user="alice")
    assert listed[0].content == "changed"
    pages = [timed.records(user="alice", limit=6, offset=offset) for offset in range(0, 24, 6)]
    assert [record for page in pages for record in page] == listed
    assert len({record.id for record in listed}) == 20
    assert timed.records(user="alice", limit=0) == []


def test_records_filter_by_since_and_until_of_creation(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    for number in range(4):
        timed.remember(f"n {number}", user="alice")
        clock.advance(60)

    def found(**filters: Any) -> list[str]:
        return sorted(contents(timed.records(user="alice", **filters)))

    assert found(since=start + timedelta(seconds=60)) == ["n 1", "n 2", "n 3"]
    assert found(until=start + timedelta(seconds=60)) == ["n 0"]
    assert found(since=start + timedelta(seconds=60), until=start + timedelta(seconds=180)) == ["n 1", "n 2"]
    with pytest.raises(InvalidInput, match="since"):
        timed.records(user="alice", since=datetime(2026, 1, 1))


def test_count_records_counts_only_valid_records(timed: Limpet, clock: FakeClock) -> None:
    session = timed.session("t", "1", user="alice")
    timed.remember("a", user="alice")
    timed.remember("b", user="alice", ttl=10)
    timed.remember("c", user="alice", valid_from=clock.now + timedelta(days=1))
    timed.remember("d", session=session.id)
    timed.remember("e", agent="coder")
    assert (timed.records.count(), timed.records.count(user="alice")) == (4, 3)
    assert (timed.records.count(agent="coder"), timed.records.count(session=session.id)) == (1, 1)
    clock.advance(11)
    assert timed.records.count(user="alice") == 2
    clock.advance(days=2)
    assert timed.records.count(user="alice") == 3


def test_unknown_record_raises_record_not_found(memory: Limpet) -> None:
    memory.remember("x", user="alice")
    for call in (
        lambda: memory.records.get(UNKNOWN),
        lambda: memory.records.history(UNKNOWN),
        lambda: memory.records.update(UNKNOWN, content="y"),
        lambda: memory.forget(UNKNOWN),
        lambda: memory.forget(key="nothing", user="alice"),
    ):
        with pytest.raises(RecordNotFound):
            call()
    for call in (
        lambda: memory.records.get(""),
        lambda: memory.records.history(""),
        lambda: memory.records.update(" ", content="y"),
        lambda: memory.forget("../x"),
    ):
        with pytest.raises(InvalidKey):
            call()
    for missing in ("x", "1712345678901234567-0-3", "01890000-0000-7000-8000-00000000000g"):
        with pytest.raises(RecordNotFound):
            memory.records.get(missing)
        with pytest.raises(RecordNotFound):
            memory.forget(missing)


def test_explicit_memory_knows_the_session_it_came_up_in(memory: Limpet) -> None:
    """It is the user's all the same, also when the session goes."""
    first, second = (memory.session("t", chat, user="alice") for chat in "12")
    saved = memory.remember("Alice keeps bees", user="alice", key="hobby", source=first.id)
    assert (saved.source.session_id, saved.level, saved.session_id) == (first.id, "user", None)
    assert (
        memory.remember("Alice keeps two hives", user="alice", key="hobby", source=second.id).source.session_id
        == second.id
    )
    assert memory.remember("Alice keeps three hives", user="alice", key="hobby").source.session_id == second.id
    assert memory.remember("For this chat", session=first.id).source.session_id == first.id
    assert memory.recall("hives", user="alice")[0].text == "Alice keeps three hives"
    assert memory.privacy.purge_session(second.id).verified
    kept = memory.records.get(saved.id)
    assert (kept.content, kept.source.session_id) == ("Alice keeps three hives", None)
    assert contents(memory.records.history(saved.id)) == ["Alice keeps bees", "Alice keeps three hives"]
    assert faults(memory) == []


def test_source_of_explicit_memory_must_be_a_session_of_its_owner(memory: Limpet) -> None:
    theirs = memory.session("t", "1", user="bob")
    before = every_row(memory)
    for missing in (theirs.id, "01890000-0000-7000-8000-000000000009"):
        with pytest.raises(SessionNotFound, match="leave source out"):
            memory.remember("x", user="alice", source=missing)
    with pytest.raises(InvalidInput, match="no user"):
        memory.remember("x", agent="coder", source=theirs.id)
    assert every_row(memory) == before


def test_record_of_other_user_is_not_found(memory: Limpet) -> None:
    record = memory.remember("x", user="alice", key="k")
    for call in (
        lambda: memory.records.get(record.id, user="bob"),
        lambda: memory.records.history(record.id, user="bob"),
        lambda: memory.records.update(record.id, user="bob", content="y"),
        lambda: memory.forget(record.id, user="bob"),
        lambda: memory.forget(key="k", user="bob"),
    ):
        with pytest.raises(RecordNotFound):
            call()
    assert memory.records.get(record.id, user="alice") == record


def test_fields_of_a_record_can_be_emptied(memory: Limpet) -> None:
    made = memory.remember("text", user="alice", key="k", title="heading", tags=["a"], metadata={"m": "1"}, ttl=3600)
    emptied = memory.records.update(made.id, clear=("expires_at", "tags", "title"))
    assert (emptied.expires_at, emptied.tags, emptied.title) == (None, (), None)
    assert (emptied.key, emptied.metadata, emptied.content) == ("k", {"m": "1"}, "text")
    assert memory.records.get(made.id) == emptied


def test_records_are_counted_by_the_filters_of_the_list(memory: Limpet) -> None:
    memory.remember("one", user="alice", tags=["a"])
    memory.remember("two", user="alice", type="preference")
    memory.remember("three", user="bob")
    assert memory.records.count() == 3
    assert memory.records.count(user="alice") == 2
    assert memory.records.count(user="alice", tags=["a"]) == 1
    assert memory.records.count(types=["preference"]) == 1
