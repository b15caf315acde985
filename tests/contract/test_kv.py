from __future__ import annotations

from typing import Any

import pytest

from limpet import Config, Limpet
from limpet.config import SessionSettings
from limpet.errors import InvalidInput, InvalidKey
from tests.contract.processes import run_together
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


def capped(cap: int) -> Config:
    return Config(session=SessionSettings(kv_cap=cap))


def test_kv_round_trips_every_json_type(memory: Limpet) -> None:
    kv = memory.session("t", "1").kv
    values: dict[str, Any] = {
        "text": "é\n\"'\\",
        "empty": "",
        "none": None,
        "true": True,
        "number": 10**20,
        "float": 1.5e-300,
        "list": [1, [2, {"a": None}]],
        "object": {"a.b": {"$": "é"}, "": 0},
        "key with spaces : and 'quotes'": "\\u0000",
        "日本語": "値",
    }
    for key, value in values.items():
        kv.set(key, value)
    assert kv.items() == values
    assert list(kv.items()) == list(values)
    assert {key: kv.get(key) for key in values} == values
    assert kv.get("missing") is None


def test_kv_set_of_existing_key_moves_it_to_the_end(memory: Limpet) -> None:
    kv = memory.session("t", "1").kv
    for key in "abc":
        kv.set(key, key)
    kv.set("a", "again")
    assert list(kv.items().items()) == [("b", "b"), ("c", "c"), ("a", "again")]
    assert kv.delete("c")
    assert not kv.delete("c")
    kv.set("c", "back")
    assert list(kv.items()) == ["b", "a", "c"]


def test_kv_evicts_oldest_entry_beyond_cap(memory: Limpet) -> None:
    kv = memory.session("t", "1").kv
    for number in range(205):
        kv.set(f"key {number}", number)
    assert list(kv.items().values()) == list(range(5, 205))
    assert kv.get("key 4") is None
    kv.set("key 5", "kept")
    kv.set("new", 1)
    assert kv.get("key 5") == "kept"
    assert kv.get("key 6") is None
    assert len(kv.items()) == 200


def test_kv_set_of_existing_key_at_cap_evicts_nothing(store_url: str) -> None:
    with Limpet.open(store_url, config=capped(3)) as memory:
        kv = memory.session("t", "1").kv
        for key in "abcabcabc":
            kv.set(key, key)
        assert list(kv.items()) == ["a", "b", "c"]


def test_kv_changed_cap_applies_to_existing_sessions(durable_url: str) -> None:
    with Limpet.open(durable_url, config=capped(10)) as memory:
        session = memory.session("t", "1")
        for number in range(10):
            session.kv.set(f"k{number}", number)
    with Limpet.open(durable_url, config=capped(4)) as memory:
        kv = memory.load_session(session.id).kv
        assert list(kv.items()) == ["k6", "k7", "k8", "k9"]
        assert kv.get("k5") is None
        kv.set("new", 1)
        assert list(kv.items()) == ["k7", "k8", "k9", "new"]
    with Limpet.open(durable_url, config=capped(6)) as memory:
        kv = memory.load_session(session.id).kv
        for number in range(3):
            kv.set(f"more {number}", number)
        assert list(kv.items()) == ["k8", "k9", "new", "more 0", "more 1", "more 2"]


def test_kv_entries_belong_to_one_session(memory: Limpet) -> None:
    one, two = memory.session("t", "1", user="alice"), memory.session("t", "2", user="alice")
    one.kv.set("k", 1)
    assert two.kv.get("k") is None
    assert two.kv.items() == {}
    two.kv.set("k", 2)
    two.kv.delete("k")
    assert one.kv.get("k") == 1
    assert one.new().kv.items() == {}
    assert one.kv.get("k") == 1


@pytest.mark.slow
def test_kv_rejects_invalid_keys_and_values(memory: Limpet) -> None:
    kv = memory.session("t", "1").kv
    wrong: list[Any] = ["", " a", "a\n", "\x00", "\ud800", "x" * 257, 5, None, b"k"]
    for key in wrong:
        for call in (lambda key=key: kv.set(key, 1), lambda key=key: kv.get(key), lambda key=key: kv.delete(key)):
            with pytest.raises(InvalidKey):
                call()
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    bad: list[Any] = [object(), float("nan"), "\x00", "\ud800", {1, 2}, b"x", {"a": "\x00"}, {(1,): 2}, nested]
    for value in bad:
        with pytest.raises(InvalidInput):
            kv.set("k", value)
    with pytest.raises(InvalidInput, match="limit"):
        kv.set("k", "x" * 1_100_000)
    assert kv.items() == {}


def test_kv_set_from_many_threads_loses_nothing(memory: Limpet) -> None:
    session = memory.session("t", "1")
    handles = [memory.load_session(session.id) for _ in range(8)]

    def write(number: int) -> None:
        for at in range(10):
            handles[number].kv.set(f"{number} {at}", at)

    at_once(write)
    assert sorted(session.kv.items()) == sorted(f"{number} {at}" for number in range(8) for at in range(10))
    at_once(lambda number: handles[number].kv.set("same", number))
    assert list(session.kv.items())[-1] == "same"
    assert len(session.kv.items()) == 81


def test_kv_set_from_two_processes_loses_nothing(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session = memory.session("t", "1", user="alice")
    code = """
with Limpet.open(given) as memory:
    kv = memory.session("t", "1", user="alice").kv
    begin()
    for at in range(20):
        kv.set(f"{number} {at}", at)
        kv.set("same", [number, at])
    answer(None)
"""
    run_together(code, durable_url)
    with Limpet.open(durable_url) as memory:
        items = memory.load_session(session.id).kv.items()
        assert len(items) == 41
        assert items["same"][1] == 19


def test_working_memory_is_stored_as_kv_entry(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert session.working_memory == ""
    session.set_working_memory("- buy milk\n- é")
    assert session.working_memory == "- buy milk\n- é"
    assert session.kv.items() == {"working_memory": "- buy milk\n- é"}
    session.set_working_memory("")
    assert session.working_memory == ""
    session.kv.set("working_memory", "by key")
    assert session.working_memory == "by key"
    assert memory.load_session(session.id).working_memory == "by key"


def test_working_memory_rejects_non_text(memory: Limpet) -> None:
    session = memory.session("t", "1")
    wrong: list[Any] = [5, None, ["x"], {"a": 1}, "\x00"]
    for bad in wrong:
        with pytest.raises(InvalidInput):
            session.set_working_memory(bad)
    session.kv.set("working_memory", {"a": 1})
    assert isinstance(session.working_memory, str)
