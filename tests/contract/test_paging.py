"""Pages that go on behind the last entry: nothing twice and nothing missing, whatever comes in meanwhile."""

from __future__ import annotations

import pytest

from limpet import Limpet

pytestmark = pytest.mark.every_backend


def test_records_paging_is_stable_while_records_are_added(memory: Limpet) -> None:
    kept = {memory.remember(f"fact number {number}", user="alice").id for number in range(7)}
    first = memory.records(user="alice", limit=3)
    memory.remember("one more", user="alice")
    second = memory.records(user="alice", limit=3, before=(first[-1].updated_at, first[-1].id))
    third = memory.records(user="alice", limit=3, before=(second[-1].updated_at, second[-1].id))
    found = [record.id for record in (*first, *second, *third)]
    assert len(found) == 7
    assert set(found) == kept


def test_sessions_documents_and_schedules_paging_is_stable(memory: Limpet) -> None:
    sessions = [memory.session("test", f"chat{number}", user="alice") for number in range(3)]
    for number in range(3):
        memory.documents.add(f"note:{number}", "text", user="alice")
    schedules = [memory.schedules.create("alice", goal=f"goal {number}", cadence="every: 1h") for number in range(3)]
    a = memory.sessions(user="alice", limit=2)
    b = memory.documents.list(user="alice", limit=2)
    c = memory.schedules.search(user="alice", limit=2)
    memory.session("test", "late", user="alice")
    memory.documents.add("note:late", "text", user="alice")
    memory.schedules.create("alice", goal="late", cadence="every: 1h")
    a += memory.sessions(user="alice", limit=2, before=(a[-1].last_active_at, a[-1].id))
    b += memory.documents.list(user="alice", limit=2, before=(b[-1].updated_at, b[-1].id))
    c += memory.schedules.search(user="alice", limit=2, before=(c[-1].created_at, c[-1].id))
    assert sorted(info.id for info in a) == sorted(session.id for session in sessions)
    assert sorted(found.uri for found in b) == ["note:0", "note:1", "note:2"]
    assert sorted(found.id for found in c) == sorted(made.id for made in schedules)


def test_usage_sums_sessions_of_user(memory: Limpet) -> None:
    for chat in ("one", "two"):
        memory.session("test", chat, user="alice").add_usage("small", input_tokens=10, output_tokens=2, cost=0.5)
    memory.session("test", "other", user="bob").add_usage("small", input_tokens=99)
    spent = memory.admin.usage(user="alice")
    assert (spent.input_tokens, spent.output_tokens, spent.cost) == (20, 4, 1.0)
    assert [entry.calls for entry in spent.models] == [2]
    assert memory.admin.usage().input_tokens == 119
