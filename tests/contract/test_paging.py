"""Pages that go on behind the last entry: nothing twice and nothing missing, whatever comes in meanwhile."""

from __future__ import annotations

import pytest

from limpet import Limpet

pytestmark = pytest.mark.every_backend


def test_records_come_once_each_while_others_are_added(hf: Limpet) -> None:
    kept = {hf.remember(f"fact number {number}", user="alice").id for number in range(7)}
    first = hf.records(user="alice", limit=3)
    hf.remember("one more", user="alice")
    second = hf.records(user="alice", limit=3, before=(first[-1].updated_at, first[-1].id))
    third = hf.records(user="alice", limit=3, before=(second[-1].updated_at, second[-1].id))
    found = [record.id for record in (*first, *second, *third)]
    assert len(found) == 7
    assert set(found) == kept


def test_so_do_sessions_documents_and_schedules(hf: Limpet) -> None:
    sessions = [hf.session("test", f"chat{number}", user="alice") for number in range(3)]
    for number in range(3):
        hf.documents.add(f"note:{number}", "text", user="alice")
    schedules = [hf.schedules.create("alice", f"goal {number}", "every: 1h") for number in range(3)]
    a = hf.sessions(user="alice", limit=2)
    b = hf.documents.list(user="alice", limit=2)
    c = hf.schedules.search(user="alice", limit=2)
    hf.session("test", "late", user="alice")
    hf.documents.add("note:late", "text", user="alice")
    hf.schedules.create("alice", "late", "every: 1h")
    a += hf.sessions(user="alice", limit=2, before=(a[-1].last_active_at, a[-1].id))
    b += hf.documents.list(user="alice", limit=2, before=(b[-1].updated_at, b[-1].id))
    c += hf.schedules.search(user="alice", limit=2, before=(c[-1].created_at, c[-1].id))
    assert sorted(info.id for info in a) == sorted(session.id for session in sessions)
    assert sorted(found.uri for found in b) == ["note:0", "note:1", "note:2"]
    assert sorted(found.id for found in c) == sorted(made.id for made in schedules)


def test_usage_sums_up_the_sessions_of_a_user(hf: Limpet) -> None:
    for chat in ("one", "two"):
        hf.session("test", chat, user="alice").add_usage("small", input_tokens=10, output_tokens=2, cost=0.5)
    hf.session("test", "other", user="bob").add_usage("small", input_tokens=99)
    spent = hf.admin.usage(user="alice")
    assert (spent.input_tokens, spent.output_tokens, spent.cost) == (20, 4, 1.0)
    assert [entry.calls for entry in spent.models] == [2]
    assert hf.admin.usage().input_tokens == 119
