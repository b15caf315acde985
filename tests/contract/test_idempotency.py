"""The same idempotency key makes one thing, however often and by however many it is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import (
    IdempotencyConflict,
    InvalidInput,
    InvalidKey,
    PermissionDenied,
    RecordNotFound,
    ScheduleNotFound,
)
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

KEY = "7c1e-of-the-client"


def rows(memory: Limpet) -> int:
    [(number,)] = sql(memory, "SELECT count(*) FROM idempotency_keys")
    return int(number)


def test_idempotency_key_repeated_returns_current_state_of_first_result(memory: Limpet) -> None:
    def ask() -> Any:
        tags = (tag for tag in ("a", "b"))
        return memory.remember("Tea at four", user="alice", tags=tags, ttl=3600, idempotency_key=KEY)

    first = ask()
    assert ask() == first
    memory.records.update(first.id, content="Tea at five")
    assert ask().content == "Tea at five"
    assert memory.records.count(user="alice") == 1
    plan = memory.schedules.create("alice", goal="water the plants", cadence="every: 1h", idempotency_key=KEY)
    memory.schedules.pause(plan.id)
    assert (
        memory.schedules.create("alice", goal="water the plants", cadence="every: 60m", idempotency_key=KEY).state
        == "paused"
    )
    assert memory.schedules.count() == 1


def test_idempotency_key_rejects_different_request(memory: Limpet) -> None:
    memory.remember("Tea at four", user="alice", key="tea", idempotency_key=KEY)
    memory.schedules.create("alice", goal="water the plants", cadence="every: 1h", idempotency_key=KEY)
    session = memory.session("a", "b", user="alice").id
    others: list[Callable[[], object]] = [
        lambda: memory.remember("Tea at five", user="alice", key="tea", idempotency_key=KEY),
        lambda: memory.remember("Tea at four", user="alice", idempotency_key=KEY),
        lambda: memory.remember("Tea at four", user="alice", key="tea", ttl=60, idempotency_key=KEY),
        lambda: memory.remember("Tea at four", session=session, key="tea", idempotency_key=KEY),
        lambda: memory.schedules.create("alice", goal="water the plants", cadence="every: 2h", idempotency_key=KEY),
        lambda: memory.schedules.create(
            "alice", goal="water the plants", cadence="every: 1h", max_runs=2, idempotency_key=KEY
        ),
    ]
    for other in others:
        with pytest.raises(IdempotencyConflict, match="used for another") as caught:
            other()
        assert isinstance(caught.value, InvalidInput)
        assert caught.value.code == "idempotency_conflict"
    assert (memory.records.count(), memory.schedules.count(), rows(memory)) == (1, 1, 2)
    for wrong in ("", " ", "a\nb", 5, "x" * 300):
        with pytest.raises(InvalidKey):
            memory.remember("x", user="alice", idempotency_key=wrong)  # type: ignore[arg-type]


def test_idempotency_keys_are_scoped_to_owner(memory: Limpet) -> None:
    owners: list[dict[str, Any]] = [{"user": "alice"}, {"user": "bob"}, {"agent": "alice"}, {"scope": "global"}]
    views = (memory, memory.tenant("there"))
    made = [view.remember("the same", **owner, idempotency_key=KEY).id for view in views for owner in owners]
    assert len(set(made)) == len(made)
    assert memory.schedules.create("bob", goal="x", cadence="every: 1h", idempotency_key=KEY).user == "bob"


def test_idempotency_key_covers_record_replaced_by_key(memory: Limpet) -> None:
    first = memory.remember("Lisbon", user="alice", key="city")
    again = memory.remember("Porto", user="alice", key="city", idempotency_key=KEY)
    assert again.id == first.id
    memory.remember("Faro", user="alice", key="city")
    assert memory.remember("Porto", user="alice", key="city", idempotency_key=KEY).content == "Faro", "not taken back"


def test_idempotency_key_of_deleted_object_raises_not_found(memory: Limpet) -> None:
    record = memory.remember("Tea at four", user="alice", idempotency_key=KEY)
    plan = memory.schedules.create("alice", goal="water", cadence="every: 1h", idempotency_key=KEY)
    memory.forget(record.id)
    memory.schedules.delete(plan.id)
    with pytest.raises(RecordNotFound, match="was deleted; use a new key"):
        memory.remember("Tea at four", user="alice", idempotency_key=KEY)
    with pytest.raises(ScheduleNotFound, match="was deleted; use a new key"):
        memory.schedules.create("alice", goal="water", cadence="every: 1h", idempotency_key=KEY)


def test_idempotency_key_is_not_stored_when_request_fails(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("limpet.api.memory.enqueue_maintenance", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.remember("Tea at four", user="alice", layer="episodic", idempotency_key=KEY)
    assert rows(memory) == 0
    assert memory.remember("Tea at four", user="alice", layer="episodic", idempotency_key=KEY).content == "Tea at four"


def test_idempotency_key_from_many_threads_creates_one(memory: Limpet) -> None:
    made = at_once(lambda _: memory.remember("Tea at four", user="alice", idempotency_key=KEY).id, 6)
    plans = at_once(
        lambda _: memory.schedules.create("alice", goal="water", cadence="every: 1h", idempotency_key=KEY).id, 6
    )
    assert len({*made}) == len({*plans}) == 1
    assert (memory.records.count(), memory.schedules.count()) == (1, 1)


def test_idempotency_key_from_two_processes_creates_one(durable_url: str) -> None:
    code = """
with Limpet.open(given) as memory:
    begin()
    answer([memory.remember(f"number {at}", user="alice", idempotency_key=str(at)).id for at in range(20)])
"""
    Limpet.open(durable_url).close()
    one, two = run_together(code, durable_url)
    assert one == two
    assert len(set(one)) == 20


def test_idempotency_key_returns_schedule_whose_time_has_passed(timed: Limpet, clock: FakeClock) -> None:
    when = (clock.now + timedelta(hours=1)).isoformat()
    made = timed.schedules.create("alice", goal="call", cadence=f"once: {when}", idempotency_key=KEY)
    clock.advance(hours=2)
    assert timed.schedules.create("alice", goal="call", cadence=f"once: {when}", idempotency_key=KEY) == made
    with pytest.raises(InvalidInput, match="no firing left"):
        timed.schedules.create("alice", goal="call", cadence=f"once: {when}")


def test_idempotency_key_expires_after_two_days(timed: Limpet, clock: FakeClock) -> None:
    first = timed.remember("Tea at four", user="alice", idempotency_key=KEY)
    clock.advance(hours=47)
    assert timed.remember("Tea at four", user="alice", idempotency_key=KEY) == first
    timed.remember("later", user="alice", idempotency_key="later")
    clock.advance(hours=2)
    timed.privacy.retention(dry_run=True)
    assert rows(timed) == 2
    timed.privacy.retention()
    assert rows(timed) == 1
    again = timed.remember("Tea at four", user="alice", idempotency_key=KEY)
    assert (again.id, again.said) == (first.id, 2), "it is another call, of the same statement"
    clock.advance(hours=49)  # not cleared away yet, and over all the same
    assert timed.remember("Coffee", user="alice", idempotency_key=KEY).content == "Coffee"
    assert rows(timed) == 1, "each new one clears a few away"


def test_idempotency_key_and_request_are_stored_as_keyed_digests(memory: Limpet) -> None:
    """Whoever has the table and not the key cannot have a guess confirmed: another key, another digest."""
    for number, key in itertools.product(range(1), (KEY, "another")):
        memory.remember(f"number {number}", user="alice", idempotency_key=key)
    assert KEY not in repr(every_row(memory)["idempotency_keys"])
    assert len({digest for (digest,) in sql(memory, "SELECT digest FROM idempotency_keys")}) == 2


def test_purge_deletes_idempotency_keys_of_user(memory: Limpet) -> None:
    for user in ("alice", "bob"):
        memory.remember("Tea at four", user=user, idempotency_key=KEY)
        memory.remember("Tea at four", session=memory.session("a", "b", user=user).id, idempotency_key="in a chat")
        memory.schedules.create(user, goal="water", cadence="every: 1h", idempotency_key=KEY)
    receipt = memory.privacy.purge_user("alice")
    assert receipt.verified
    assert {owner for (owner,) in sql(memory, "SELECT owner FROM idempotency_keys")} == {"bob"}
    assert rows(memory) == 3
    assert memory.remember("Tea at four", user="alice", idempotency_key=KEY).content == "Tea at four"
    memory.privacy.purge_older("bob", 0, everything=True)
    assert {owner for (owner,) in sql(memory, "SELECT owner FROM idempotency_keys")} == {"alice"}


def test_idempotency_key_requires_read_grant(memory: Limpet) -> None:
    writer = memory.acting(name="feed", grants=["write:user:bob"])
    writer.remember("one", user="bob")
    with pytest.raises(PermissionDenied, match="read:user:bob"):
        writer.remember("one", user="bob", idempotency_key=KEY)
    with pytest.raises(PermissionDenied, match="read:user:bob"):
        writer.schedules.create("bob", goal="x", cadence="every: 1h", idempotency_key=KEY)


def test_idempotency_keys_are_encrypted_in_encrypted_tenant(encrypted: None, store_url: str) -> None:
    with Limpet.open(store_url) as memory:
        first = memory.remember("Tea at four", user="alice", idempotency_key=KEY)
        assert memory.remember("Tea at four", user="alice", idempotency_key=KEY) == first
        [(hashed, digest)] = sql(memory, "SELECT key_hash, digest FROM idempotency_keys")
        assert not {len(hashed), len(digest)} & {64}, "more than a hash"
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
