from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from limpet import Limpet, Record
from limpet.errors import InvalidInput, InvalidKey, LimpetError, RecordNotFound, SessionNotFound
from limpet.model.ids import uuid7
from limpet.model.record import Layer, RecordType
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

UNKNOWN = "01890000-0000-7000-8000-000000000000"

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


def contents(records: list[Record]) -> list[str]:
    return [record.content for record in records]


# Saving


def test_a_record_keeps_everything_it_was_given(durable_url: str, clock: FakeClock) -> None:
    begins = datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    with Limpet.open(durable_url, clock=clock) as hf:
        record = hf.remember(
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
    with Limpet.open(durable_url, clock=clock) as hf:
        assert hf.records.get(record.id) == record
        assert hf.records(user="alice") == [record]
        assert hf.records.history(record.id) == [record]


def test_defaults_are_a_plain_semantic_fact(hf: Limpet) -> None:
    record = hf.remember("x", user="alice")
    assert (record.type, record.layer, record.key, record.tags, record.metadata) == ("fact", "semantic", None, (), {})
    assert not record.pinned
    assert record.expires_at is None
    assert hf.records.get(record.id) == record


def test_a_record_belongs_to_exactly_one_level(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice", agent="coder")
    made = {
        "user": hf.remember("of the user", user="alice"),
        "agent": hf.remember("of the agent", agent="coder"),
        "session": hf.remember("of the session", session=session.id),
        "global": hf.remember("of everybody", scope="global"),
    }
    assert {record.level for record in made.values()} == set(made)
    assert made["session"].user == "alice"
    assert all(hf.records.get(record.id).level == level for level, record in made.items())
    assert contents(hf.records(session=session.id)) == ["of the session"]
    assert sorted(contents(hf.records(user="alice"))) == ["of the session", "of the user"]
    assert contents(hf.records(agent="coder")) == ["of the agent"]
    assert hf.remember("of nobody in particular").user == "me"
    with pytest.raises(InvalidInput):
        hf.remember("x", user="alice", scope="global")
    with pytest.raises(InvalidInput):
        hf.remember("x", scope="user")  # type: ignore[arg-type]
    with pytest.raises(SessionNotFound):
        hf.remember("x", session=UNKNOWN)
    with pytest.raises(SessionNotFound):
        hf.remember("x", session=session.id, user="bob")
    assert hf.records.count() == 5


# Keys


def test_keys_have_rules(hf: Limpet) -> None:
    for good in ("a", "dog_name", "a1", "z_", "a" * 64, "system", "internal", "systems_", "an_internal_key"):
        assert hf.remember("x", user="alice", key=good).key == good
    wrong: list[Any] = [
        "", "A", "Dog", "1a", "_a", "a-b", "a b", "a.b", "é", "a\n", "a" * 65, "system_", "system_x", "internal_x", 5,
        b"a", "\x00", "\ud800", "ａ", "a\u0301",
    ]  # fmt: skip
    for bad in wrong:
        with pytest.raises(InvalidKey):
            hf.remember("x", user="alice", key=bad)
        with pytest.raises(InvalidKey):
            hf.forget(key=bad, user="alice")
    assert hf.records.count(user="alice") == 9


def test_the_same_key_again_replaces_the_text_and_keeps_the_history(timed: Limpet, clock: FakeClock) -> None:
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


def test_saying_the_same_again_is_no_new_version(timed: Limpet, clock: FakeClock) -> None:
    first = timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(60)
    assert timed.remember("lives in Porto", user="alice", key="city") == first
    assert len(timed.records.history(first.id)) == 1


def test_a_key_is_unique_for_its_owner_only(hf: Limpet) -> None:
    session, other = hf.session("t", "1", user="alice"), hf.session("t", "2", user="alice")
    owners: list[dict[str, Any]] = [
        {"user": "alice"}, {"user": "bob"}, {"agent": "alice"}, {"scope": "global"}, {"session": session.id},
        {"session": other.id},
    ]  # fmt: skip
    ids = {hf.remember(f"mine {at}", key="k", **owner).id for at, owner in enumerate(owners)}
    assert len(ids) == len(owners)
    for at, owner in enumerate(owners):
        assert hf.remember(f"again {at}", key="k", **owner).id in ids
    assert hf.records.count() == len(owners)


def test_what_expired_is_there_again_when_it_is_said_again(timed: Limpet, clock: FakeClock) -> None:
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


def test_threads_that_save_one_key_make_one_record(hf: Limpet) -> None:
    records = at_once(lambda number: hf.remember(f"value {number}", user="alice", key="k"))
    assert len({record.id for record in records}) == 1
    assert hf.records.count(user="alice") == 1
    assert sorted(contents(hf.records.history(records[0].id))) == sorted(f"value {number}" for number in range(8))
    assert faults(hf) == []


def test_processes_that_save_one_key_make_one_record(durable_url: str) -> None:
    Limpet.open(durable_url).close()
    code = """
with Limpet.open(given) as hf:
    begin()
    ids = []
    for at in range(25):
        ids.append(hf.remember(f"{number} {at}", user="alice", key=f"key_{at}").id)
    answer(ids)
"""
    answers = run_together(code, durable_url, count=3)
    assert answers[0] == answers[1] == answers[2]
    with Limpet.open(durable_url) as hf:
        assert hf.records.count(user="alice") == 25
        assert faults(hf) == []


# Ids


def test_the_same_id_again_replaces_the_text(hf: Limpet) -> None:
    own = uuid7(datetime(2026, 1, 1, tzinfo=UTC), bytes(10))
    first = hf.remember("one", user="alice", id=own)
    assert first.id == own
    second = hf.remember("two", user="alice", id=own.upper())
    assert (second.id, second.created_at, second.version) == (own, first.created_at, 2)
    assert contents(hf.records.history(own)) == ["one", "two"]
    for bad in ("", "x", "1" * 32, 5, b"x", "01890000-0000-7000-8000-00000000000g"):
        with pytest.raises(InvalidKey):
            hf.remember("x", user="alice", id=bad)  # type: ignore[arg-type]


def test_an_id_of_somebody_else_cannot_be_written_over(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    secret = hf.remember("alice's secret", user="alice", metadata={"m": "1"})
    inner = hf.remember("said in a session", session=session.id)
    before = every_row(hf)
    attempts: list[dict[str, Any]] = [
        {"user": "bob"}, {"agent": "assistant"}, {"scope": "global"}, {"session": session.id},
    ]  # fmt: skip
    for owner in attempts:
        with pytest.raises(LimpetError):
            hf.remember("overwritten", id=secret.id, **owner)
    elsewhere: list[dict[str, Any]] = [{"user": "bob"}, {"scope": "global"}, {"user": "alice"}]
    for owner in elsewhere:
        with pytest.raises(LimpetError):
            hf.remember("overwritten", id=inner.id, **owner)
    with pytest.raises(LimpetError):
        hf.tenant("other").remember("overwritten", id=secret.id, scope="global")
    after = every_row(hf)
    assert {name: rows for name, rows in after.items() if name != "spaces"} == {
        name: rows for name, rows in before.items() if name != "spaces"
    }


# Metadata and tags


def test_metadata_is_found_by_any_key(hf: Limpet) -> None:
    for at, key in enumerate(TRICKY):
        hf.remember(f"record {at}", user="alice", metadata={key: f"value of {key}", "common": "yes"})
    for at, key in enumerate(TRICKY):
        wanted = {key: f"value of {key}"}
        assert contents(hf.records.search_metadata(key, wanted[key], user="alice")) == [f"record {at}"]
        assert contents(hf.records(user="alice", metadata=wanted)) == [f"record {at}"]
        assert [hit.text for hit in hf.recall("record", user="alice", metadata=wanted)] == [f"record {at}"]
        assert hf.records.search_metadata(key, "yes", user="alice") == []
    assert len(hf.records.search_metadata("common", "yes", user="alice")) == len(TRICKY)
    assert hf.records.search_metadata("common", "yes", user="bob") == []
    assert hf.records.search_metadata("a.c", "value of a.b", user="alice") == []
    assert faults(hf) == []


def test_one_record_may_have_all_those_keys_at_once(hf: Limpet) -> None:
    metadata = {key: key for key in TRICKY}
    record = hf.remember("x", user="alice", metadata=metadata, tags=TRICKY)
    assert hf.records.get(record.id).metadata == metadata
    assert hf.records.get(record.id).tags == tuple(TRICKY)
    assert all(contents(hf.records(user="alice", metadata={key: key}, tags=[key])) == ["x"] for key in TRICKY)
    assert contents(hf.records(user="alice", metadata=dict(list(metadata.items())[:20]))) == ["x"]
    assert hf.records(user="alice", metadata={**metadata, "a.b": "other"}) == []


def test_metadata_values_are_compared_exactly(hf: Limpet) -> None:
    for value in ("", " ", "1", "1.0", "true", "é", "e\u0301", "É", "a%", "x" * 10_000):
        hf.remember(f"={value[:10]}", user="alice", metadata={"k": value})
    for value in ("", " ", "1", "1.0", "true", "é", "e\u0301", "É", "a%", "x" * 10_000):
        assert contents(hf.records.search_metadata("k", value, user="alice")) == [f"={value[:10]}"]


def test_metadata_and_tags_that_cannot_be_kept_are_refused(hf: Limpet) -> None:
    metadata: list[Any] = [
        {"": "x"}, {"k": 1}, {"k": None}, {"k": ["x"]}, {1: "x"}, {"k": "\x00"}, {"\x00": "x"}, {"k": "\ud800"},
        {"x" * 1025: "x"}, {"k": "x" * 300_000}, {f"k{at}": "x" for at in range(1001)}, ["x"], "x", 5,
    ]  # fmt: skip
    for bad in metadata:
        with pytest.raises(InvalidInput):
            hf.remember("x", user="alice", metadata=bad)
    tags: list[Any] = ["text", [""], [5], [None], 5, ["\x00"], ["x" * 1025], [str(at) for at in range(101)], [["x"]]]
    for bad in tags:
        with pytest.raises(InvalidInput):
            hf.remember("x", user="alice", tags=bad)
        with pytest.raises(InvalidInput):
            hf.remember("x", user="alice", references=bad)
    assert hf.records.count() == 0
    for bad in ("", 5, None, "\x00"):
        with pytest.raises(InvalidInput):
            hf.records.search_metadata(bad, "x", user="alice")  # type: ignore[arg-type]


# Reading


def test_filters_hold_together(hf: Limpet) -> None:
    hf.remember("one", user="alice", type="fact", layer="semantic", tags=["a", "b"], metadata={"k": "1"})
    hf.remember("two", user="alice", type="fix", layer="procedural", tags=["a"], metadata={"k": "1", "l": "2"})
    hf.remember("three", user="alice", type="decision", layer="semantic", tags=["b"], metadata={"k": "2"})
    hf.remember("four", user="bob", type="fact", tags=["a", "b"], metadata={"k": "1"})

    def found(**filters: Any) -> set[str]:
        kept = set(contents(hf.records(user="alice", **filters)))
        assert {
            hit.text
            for hit in hf.recall("one two three four", user="alice", kinds=["record"], recipe="words", **filters)
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
            hf.records(user="alice", **wrong)


def test_the_latest_change_comes_first_and_pages_meet_all(timed: Limpet, clock: FakeClock) -> None:
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


def test_since_and_until_look_at_when_it_was_made(timed: Limpet, clock: FakeClock) -> None:
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


def test_counting_counts_what_is_true_now(timed: Limpet, clock: FakeClock) -> None:
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


def test_an_unknown_record_is_a_clear_error(hf: Limpet) -> None:
    hf.remember("x", user="alice")
    for call in (
        lambda: hf.records.get(UNKNOWN),
        lambda: hf.records.history(UNKNOWN),
        lambda: hf.records.update(UNKNOWN, content="y"),
        lambda: hf.forget(UNKNOWN),
        lambda: hf.forget(key="nothing", user="alice"),
    ):
        with pytest.raises(RecordNotFound):
            call()
    for call in (
        lambda: hf.records.get("x"),
        lambda: hf.records.history(""),
        lambda: hf.records.update("x", content="y"),
        lambda: hf.forget("x"),
    ):
        with pytest.raises(InvalidKey):
            call()


def test_records_of_another_user_are_not_found(hf: Limpet) -> None:
    record = hf.remember("x", user="alice", key="k")
    for call in (
        lambda: hf.records.get(record.id, user="bob"),
        lambda: hf.records.history(record.id, user="bob"),
        lambda: hf.records.update(record.id, user="bob", content="y"),
        lambda: hf.forget(record.id, user="bob"),
        lambda: hf.forget(key="k", user="bob"),
    ):
        with pytest.raises(RecordNotFound):
            call()
    assert hf.records.get(record.id, user="alice") == record


# Changing


def test_update_changes_what_is_given_and_keeps_the_rest(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("old text", user="alice", key="k", tags=["a"], metadata={"m": "1"}, title="T")
    clock.advance(5)
    changed = timed.records.update(record.id, content="new text", tags=["b"], salience=0.1, pinned=True, type="note")
    assert (changed.id, changed.created_at, changed.key, changed.title) == (
        record.id,
        record.created_at,
        "k",
        "T",
    )
    assert (changed.content, changed.tags, changed.metadata) == ("new text", ("b",), {"m": "1"})
    assert (changed.salience, changed.pinned, changed.type) == (0.1, True, "note")
    assert (changed.updated_at, changed.version) == (clock.now, 2)
    assert timed.records.get(record.id) == changed
    assert timed.records.history(record.id) == [record, changed]
    assert timed.records(user="alice", tags=["a"]) == []
    assert timed.records(user="alice", tags=["b"]) == [changed]
    assert timed.recall("old", user="alice") == []
    assert [hit.source.id for hit in timed.recall("new", user="alice")] == [record.id]
    assert faults(timed) == []


def test_an_update_that_is_refused_changes_nothing(hf: Limpet) -> None:
    record = hf.remember("text", user="alice", key="taken", tags=["a"])
    other = hf.remember("other", user="alice")
    before = every_row(hf)
    wrong: list[dict[str, Any]] = [
        {"content": ""}, {"content": "  \n"}, {"content": 5}, {"content": "\x00"}, {"content": "x" * 5_000_000},
        {"key": "Bad"}, {"tags": "text"}, {"metadata": {"a": 1}}, {"confidence": 1.1}, {"confidence": "1"},
        {"salience": -0.1}, {"salience": float("nan")}, {"type": "x"}, {"layer": "x"},
        {"valid_to": datetime(2026, 1, 1)},
        {"ttl": 0}, {"ttl": -5}, {"ttl": "1"}, {"ttl": float("inf")}, {"ttl": float("nan")}, {"ttl": timedelta.max},
        {"colour": "red"}, {"id": UNKNOWN}, {"created_at": datetime(2026, 1, 1, tzinfo=UTC)}, {"title": "x" * 5000},
        {"content": "new", "colour": "red"}, {"clear": "expires_at"}, {"clear": ["content"]},
        {"title": "x", "clear": ["title"]},
    ]  # fmt: skip
    for changes in wrong:
        with pytest.raises(InvalidInput):
            hf.records.update(record.id, **changes)
    with pytest.raises(LimpetError):
        hf.records.update(other.id, content="with a key that is taken", key="taken")
    assert every_row(hf) == before


def test_update_without_changes_is_no_version(hf: Limpet) -> None:
    record = hf.remember("text", user="alice", tags=["a"])
    assert hf.records.update(record.id) == record
    assert hf.records.update(record.id, content="text", tags=["a"]) == record
    assert hf.records.history(record.id) == [record]


def test_many_versions_are_kept_in_order(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("v1", user="alice")
    for number in range(2, 21):
        clock.advance(1)
        timed.records.update(record.id, content=f"v{number}")
    assert contents(timed.records.history(record.id)) == [f"v{number}" for number in range(1, 21)]
    assert timed.admin.stats()["chunks"] == 1


def test_a_clock_set_back_breaks_no_history(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("one", user="alice")
    clock.advance(days=-30)
    changed = timed.records.update(record.id, content="two")
    assert changed.updated_at is not None
    assert record.updated_at is not None
    assert changed.updated_at >= record.updated_at
    assert contents(timed.records.history(record.id)) == ["one", "two"]


def test_threads_that_update_one_record_lose_no_version(hf: Limpet) -> None:
    record = hf.remember("v", user="alice")
    at_once(lambda number: hf.records.update(record.id, content=f"version by {number}"))
    history = hf.records.history(record.id)
    assert [version.version for version in history] == list(range(1, 10))
    assert sorted(contents(history)[1:]) == [f"version by {number}" for number in range(8)]
    assert faults(hf) == []


# Time


def test_as_of_gives_what_was_said_then(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    city = timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("lives in Lisbon", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("has a dog", user="alice")

    def then(days: float) -> list[str]:
        return sorted(contents(timed.records(user="alice", as_of=start + timedelta(days=days))))

    assert then(-1) == []
    assert then(0) == ["lives in Porto"]
    assert then(9.9) == ["lives in Porto"]
    assert then(10) == ["lives in Lisbon"]
    assert then(25) == ["has a dog", "lives in Lisbon"]
    assert contents(timed.records.history(city.id)) == ["lives in Porto", "lives in Lisbon"]


def test_as_of_finds_what_was_true_before_a_change_that_began_later(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    timed.remember("lives in Porto", user="alice", key="city")
    clock.advance(days=10)
    timed.remember("lives in Lisbon", user="alice", key="city", valid_from=clock.now)
    assert contents(timed.records(user="alice", as_of=start + timedelta(days=5))) == ["lives in Porto"]
    assert contents(timed.records(user="alice")) == ["lives in Lisbon"]


def test_as_of_finds_what_ended_later(timed: Limpet, clock: FakeClock) -> None:
    start = clock.now
    record = timed.remember("works at Acme", user="alice")
    clock.advance(days=10)
    timed.records.update(record.id, valid_to=clock.now)
    clock.advance(days=1)
    assert timed.records(user="alice") == []
    assert contents(timed.records(user="alice", history=True)) == ["works at Acme"]
    assert contents(timed.records(user="alice", as_of=start + timedelta(days=5))) == ["works at Acme"]
    assert timed.records(user="alice", as_of=start + timedelta(days=10)) == []


def test_what_begins_later_is_not_true_yet(timed: Limpet, clock: FakeClock) -> None:
    timed.remember("the walrus moves to Rome", user="alice", valid_from=clock.now + timedelta(days=30))
    assert timed.records(user="alice") == []
    assert timed.recall("walrus", user="alice") == []
    clock.advance(days=30)
    assert len(timed.records(user="alice")) == 1
    assert len(timed.recall("walrus", user="alice")) == 1


def test_a_record_expires_after_its_time_to_live(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("walrus for a minute", user="alice", ttl=60, metadata={"k": "v"})
    timed.remember("walrus for an hour", user="alice", ttl=timedelta(hours=1))
    clock.advance(59.999999)
    assert len(timed.records(user="alice")) == 2
    clock.advance(microseconds=1)
    assert contents(timed.records(user="alice")) == ["walrus for an hour"]
    assert timed.records.search_metadata("k", "v", user="alice") == []
    assert [hit.text for hit in timed.recall("walrus", user="alice")] == ["walrus for an hour"]
    assert timed.records.count(user="alice") == 1
    assert timed.records.get(record.id).content == "walrus for a minute"
    assert len(timed.records(user="alice", as_of=clock.now - timedelta(seconds=30))) == 2


def test_a_session_that_is_deleted_takes_its_records_along(hf: Limpet) -> None:
    session = hf.session("t", "1", user="alice")
    inner = hf.remember("inner", session=session.id, key="k", tags=["t"])
    outer = hf.remember("outer", user="alice", key="k", tags=["t"])
    session.delete()
    with pytest.raises(RecordNotFound):
        hf.records.get(inner.id)
    assert hf.records(user="alice") == [outer]
    assert sql(hf, "SELECT count(*) FROM record_tags") == [(1,)]
    assert faults(hf) == []


def test_fields_of_a_record_can_be_emptied(hf: Limpet) -> None:
    made = hf.remember("text", user="alice", key="k", title="heading", tags=["a"], metadata={"m": "1"}, ttl=3600)
    emptied = hf.records.update(made.id, clear=("expires_at", "tags", "title"))
    assert (emptied.expires_at, emptied.tags, emptied.title) == (None, (), None)
    assert (emptied.key, emptied.metadata, emptied.content) == ("k", {"m": "1"}, "text")
    assert hf.records.get(made.id) == emptied


def test_records_are_counted_by_the_filters_of_the_list(hf: Limpet) -> None:
    hf.remember("one", user="alice", tags=["a"])
    hf.remember("two", user="alice", type="preference")
    hf.remember("three", user="bob")
    assert hf.records.count() == 3
    assert hf.records.count(user="alice") == 2
    assert hf.records.count(user="alice", tags=["a"]) == 1
    assert hf.records.count(types=["preference"]) == 1
