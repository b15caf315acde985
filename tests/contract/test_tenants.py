from __future__ import annotations

from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidKey, LimpetError, RecordNotFound, SessionNotFound
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend


def test_two_tenants_have_nothing_in_common_but_the_store(hf: Limpet) -> None:
    here, there = hf.tenant("here"), hf.tenant("there")
    one, two = here.session("t", "1", user="alice"), there.session("t", "1", user="alice")
    assert one.id != two.id
    one.append("user", "the walrus of here")
    two.append("user", "the walrus of there")
    one.kv.set("k", "here")
    mine = here.remember("a walrus fact of here", user="alice", key="k", metadata={"m": "1"})
    theirs = there.remember("a walrus fact of there", user="alice", key="k", metadata={"m": "1"})
    assert mine.id != theirs.id
    assert {hit.text for hit in here.recall("walrus", user="alice")} == {"the walrus of here", "a walrus fact of here"}
    assert [info.id for info in here.sessions()] == [one.id]
    assert here.records() == here.records.search_metadata("m", "1") == [mine]
    assert here.records.count() == 1
    assert hf.sessions() == []
    assert hf.records() == []
    assert hf.recall("walrus", user="alice") == []
    assert hf.admin.stats()["sessions"] == 2
    assert faults(hf) == []


def test_ids_of_another_tenant_are_unknown(hf: Limpet) -> None:
    there = hf.tenant("there")
    session = there.session("t", "1", user="alice")
    session.append("user", "the walrus")
    record = there.remember("a walrus", user="alice", key="k")
    inner = there.remember("inside", session=session.id)
    everybody = there.remember("for all of there", scope="global")
    before = every_row(hf)
    calls: list[tuple[type[LimpetError], Any]] = [
        (SessionNotFound, lambda: hf.load_session(session.id)),
        (SessionNotFound, lambda: hf.recall("walrus", session=session.id)),
        (SessionNotFound, lambda: hf.remember("x", session=session.id)),
        (RecordNotFound, lambda: hf.records.get(record.id)),
        (RecordNotFound, lambda: hf.records.get(everybody.id)),
        (RecordNotFound, lambda: hf.records.history(record.id)),
        (RecordNotFound, lambda: hf.records.update(record.id, content="x")),
        (RecordNotFound, lambda: hf.forget(record.id)),
        (RecordNotFound, lambda: hf.forget(inner.id, session=session.id)),
        (RecordNotFound, lambda: hf.forget(key="k", user="alice")),
        (LimpetError, lambda: hf.remember("x", user="alice", id=record.id)),
    ]
    for kind, call in calls:
        with pytest.raises(kind):
            call()
    assert hf.recall("walrus", scope="global") == []
    assert hf.forget(query="walrus", user="alice").total == 0
    assert hf.forget(query="all", scope="global").total == 0
    assert every_row(hf) == before


def test_names_that_look_alike_are_different_tenants(hf: Limpet) -> None:
    names = ["a", "A", "a.b", "a:b", "é", "e\u0301", "%", "_", "a%", "default "[:-1], "ａ"]
    for name in names:
        hf.tenant(name).remember(f"walrus of {name}", user="alice")
    for name in names:
        assert [hit.text for hit in hf.tenant(name).recall("walrus", user="alice")] == [f"walrus of {name}"]
    for bad in ("", " ", "a\n", "\x00", "x" * 257, None, 5):
        with pytest.raises(InvalidKey):
            hf.tenant(bad)  # type: ignore[arg-type]


def test_users_whose_names_look_alike_share_nothing(hf: Limpet) -> None:
    names = ["alice", "Alice", "alice2", "ali%", "ali_e", "alice'", "álice", "ａlice", "alice:1"]
    for name in names:
        hf.session("t", "1", user=name).append("user", f"walrus of {name}")
        hf.remember(f"walrus fact of {name}", user=name, key="k")
    for name in names:
        assert {hit.text for hit in hf.recall("walrus", user=name)} == {f"walrus of {name}", f"walrus fact of {name}"}
        assert [info.user for info in hf.sessions(user=name)] == [name]
        assert [record.content for record in hf.records(user=name)] == [f"walrus fact of {name}"]


def test_a_store_can_be_opened_as_a_tenant(durable_url: str) -> None:
    with Limpet.open(durable_url, tenant="here") as hf:
        hf.remember("walrus", user="alice")
    with Limpet.open(durable_url) as hf:
        assert hf.records.count() == 0
        assert hf.tenant("here").records.count() == 1


def test_one_tenant_is_not_slowed_or_told_by_another(hf: Limpet) -> None:
    """Word statistics are a tenant's own: a score must not tell what somebody else has stored."""
    here, there = hf.tenant("here"), hf.tenant("there")
    here.remember("the walrus sings", user="alice")
    before = here.recall("walrus", user="alice")
    for number in range(50):
        there.remember(f"walrus {number}", user="alice")
        here.remember(f"walrus {number}", user="bob")
    assert here.recall("walrus", user="alice") == before


def test_the_owners_of_a_tenant_are_its_own(hf: Limpet) -> None:
    hf.remember("one", user="alice")
    hf.remember("two", agent="coder")
    hf.remember("three", scope="global")
    hf.tenant("other").remember("four", user="bob")
    assert {(each.level.value, each.owner) for each in hf.admin.owners()} == {
        ("user", "alice"),
        ("agent", "coder"),
        ("global", ""),
    }
    assert [each.owner for each in hf.tenant("other").admin.owners()] == ["bob"]
    hf.privacy.purge_user("alice")
    assert "alice" not in {each.owner for each in hf.admin.owners()}
