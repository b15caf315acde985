from __future__ import annotations

from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidKey, LimpetError, RecordNotFound, SessionNotFound
from tests.contract.rows import every_row, faults

pytestmark = pytest.mark.every_backend


def test_tenants_share_no_data(memory: Limpet) -> None:
    here, there = memory.tenant("here"), memory.tenant("there")
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
    assert memory.sessions() == []
    assert memory.records() == []
    assert memory.recall("walrus", user="alice") == []
    assert memory.admin.stats()["sessions"] == 2
    assert faults(memory) == []


def test_tenant_cannot_reach_ids_of_other_tenant(memory: Limpet) -> None:
    there = memory.tenant("there")
    session = there.session("t", "1", user="alice")
    session.append("user", "the walrus")
    record = there.remember("a walrus", user="alice", key="k")
    inner = there.remember("inside", session=session.id)
    everybody = there.remember("for all of there", scope="global")
    before = every_row(memory)
    calls: list[tuple[type[LimpetError], Any]] = [
        (SessionNotFound, lambda: memory.load_session(session.id)),
        (SessionNotFound, lambda: memory.recall("walrus", session=session.id)),
        (SessionNotFound, lambda: memory.remember("x", session=session.id)),
        (RecordNotFound, lambda: memory.records.get(record.id)),
        (RecordNotFound, lambda: memory.records.get(everybody.id)),
        (RecordNotFound, lambda: memory.records.history(record.id)),
        (RecordNotFound, lambda: memory.records.update(record.id, content="x")),
        (RecordNotFound, lambda: memory.forget(record.id)),
        (RecordNotFound, lambda: memory.forget(inner.id, session=session.id)),
        (RecordNotFound, lambda: memory.forget(key="k", user="alice")),
        (LimpetError, lambda: memory.remember("x", user="alice", id=record.id)),
    ]
    for kind, call in calls:
        with pytest.raises(kind):
            call()
    assert memory.recall("walrus", scope="global") == []
    assert memory.forget(query="walrus", user="alice").total == 0
    assert memory.forget(query="all", scope="global").total == 0
    assert every_row(memory) == before


def test_tenant_names_are_compared_exactly(memory: Limpet) -> None:
    names = ["a", "A", "a.b", "a:b", "é", "e\u0301", "%", "_", "a%", "default "[:-1], "ａ"]
    for name in names:
        memory.tenant(name).remember(f"walrus of {name}", user="alice")
    for name in names:
        assert [hit.text for hit in memory.tenant(name).recall("walrus", user="alice")] == [f"walrus of {name}"]
    for bad in ("", " ", "a\n", "\x00", "x" * 257, None, 5):
        with pytest.raises(InvalidKey):
            memory.tenant(bad)  # type: ignore[arg-type]


def test_user_names_are_compared_exactly(memory: Limpet) -> None:
    names = ["alice", "Alice", "alice2", "ali%", "ali_e", "alice'", "álice", "ａlice", "alice:1"]
    for name in names:
        memory.session("t", "1", user=name).append("user", f"walrus of {name}")
        memory.remember(f"walrus fact of {name}", user=name, key="k")
    for name in names:
        assert {hit.text for hit in memory.recall("walrus", user=name)} == {
            f"walrus of {name}",
            f"walrus fact of {name}",
        }
        assert [info.user for info in memory.sessions(user=name)] == [name]
        assert [record.content for record in memory.records(user=name)] == [f"walrus fact of {name}"]


def test_store_can_be_opened_as_tenant(durable_url: str) -> None:
    with Limpet.open(durable_url, tenant="here") as memory:
        memory.remember("walrus", user="alice")
    with Limpet.open(durable_url) as memory:
        assert memory.records.count() == 0
        assert memory.tenant("here").records.count() == 1


def test_recall_scores_do_not_depend_on_other_tenants_or_users(memory: Limpet) -> None:
    """Word statistics are a tenant's own: a score must not tell what somebody else has stored."""
    here, there = memory.tenant("here"), memory.tenant("there")
    here.remember("the walrus sings", user="alice")
    before = here.recall("walrus", user="alice")
    for number in range(50):
        there.remember(f"walrus {number}", user="alice")
        here.remember(f"walrus {number}", user="bob")
    assert here.recall("walrus", user="alice") == before


def test_the_owners_of_a_tenant_are_its_own(memory: Limpet) -> None:
    memory.remember("one", user="alice")
    memory.remember("two", agent="coder")
    memory.remember("three", scope="global")
    memory.tenant("other").remember("four", user="bob")
    assert {(each.level.value, each.owner) for each in memory.admin.owners()} == {
        ("user", "alice"),
        ("agent", "coder"),
        ("global", ""),
    }
    assert [each.owner for each in memory.tenant("other").admin.owners()] == ["bob"]
    memory.privacy.purge_user("alice")
    assert "alice" not in {each.owner for each in memory.admin.owners()}
