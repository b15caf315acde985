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


def rows(hf: Limpet) -> int:
    [(number,)] = sql(hf, "SELECT count(*) FROM idempotency_keys")
    return int(number)


def test_the_same_again_answers_with_the_first_as_it_is_now(hf: Limpet) -> None:
    def ask() -> Any:
        tags = (tag for tag in ("a", "b"))
        return hf.remember("Tea at four", user="alice", tags=tags, ttl=3600, idempotency_key=KEY)

    first = ask()
    assert ask() == first
    hf.records.update(first.id, content="Tea at five")
    assert ask().content == "Tea at five"
    assert hf.records.count(user="alice") == 1
    plan = hf.schedules.create("alice", "water the plants", "every: 1h", idempotency_key=KEY)
    hf.schedules.pause(plan.id)
    assert hf.schedules.create("alice", "water the plants", "every: 60m", idempotency_key=KEY).state == "paused"
    assert hf.schedules.count() == 1


def test_another_request_under_the_same_key_is_refused(hf: Limpet) -> None:
    hf.remember("Tea at four", user="alice", key="tea", idempotency_key=KEY)
    hf.schedules.create("alice", "water the plants", "every: 1h", idempotency_key=KEY)
    session = hf.session("a", "b", user="alice").id
    others: list[Callable[[], object]] = [
        lambda: hf.remember("Tea at five", user="alice", key="tea", idempotency_key=KEY),
        lambda: hf.remember("Tea at four", user="alice", idempotency_key=KEY),
        lambda: hf.remember("Tea at four", user="alice", key="tea", ttl=60, idempotency_key=KEY),
        lambda: hf.remember("Tea at four", session=session, key="tea", idempotency_key=KEY),
        lambda: hf.schedules.create("alice", "water the plants", "every: 2h", idempotency_key=KEY),
        lambda: hf.schedules.create("alice", "water the plants", "every: 1h", max_runs=2, idempotency_key=KEY),
    ]
    for other in others:
        with pytest.raises(IdempotencyConflict, match="used for another") as caught:
            other()
        assert isinstance(caught.value, InvalidInput)
        assert caught.value.code == "idempotency_conflict"
    assert (hf.records.count(), hf.schedules.count(), rows(hf)) == (1, 1, 2)
    for wrong in ("", " ", "a\nb", 5, "x" * 300):
        with pytest.raises(InvalidKey):
            hf.remember("x", user="alice", idempotency_key=wrong)  # type: ignore[arg-type]


def test_keys_are_each_owners_own(hf: Limpet) -> None:
    owners: list[dict[str, Any]] = [{"user": "alice"}, {"user": "bob"}, {"agent": "alice"}, {"scope": "global"}]
    views = (hf, hf.tenant("there"))
    made = [view.remember("the same", **owner, idempotency_key=KEY).id for view in views for owner in owners]
    assert len(set(made)) == len(made)
    assert hf.schedules.create("bob", "x", "every: 1h", idempotency_key=KEY).user == "bob"


def test_a_key_that_replaced_a_record_stands_for_that(hf: Limpet) -> None:
    first = hf.remember("Lisbon", user="alice", key="city")
    again = hf.remember("Porto", user="alice", key="city", idempotency_key=KEY)
    assert again.id == first.id
    hf.remember("Faro", user="alice", key="city")
    assert hf.remember("Porto", user="alice", key="city", idempotency_key=KEY).content == "Faro", "not taken back"


def test_what_is_gone_meanwhile_is_not_made_again(hf: Limpet) -> None:
    record = hf.remember("Tea at four", user="alice", idempotency_key=KEY)
    plan = hf.schedules.create("alice", "water", "every: 1h", idempotency_key=KEY)
    hf.forget(record.id)
    hf.schedules.delete(plan.id)
    with pytest.raises(RecordNotFound, match="gone since"):
        hf.remember("Tea at four", user="alice", idempotency_key=KEY)
    with pytest.raises(ScheduleNotFound, match="gone since"):
        hf.schedules.create("alice", "water", "every: 1h", idempotency_key=KEY)


def test_what_failed_was_not_made(hf: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("limpet.api.memory.enqueue_maintenance", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hf.remember("Tea at four", user="alice", layer="episodic", idempotency_key=KEY)
    assert rows(hf) == 0
    assert hf.remember("Tea at four", user="alice", layer="episodic", idempotency_key=KEY).content == "Tea at four"


def test_threads_that_ask_together_make_one(hf: Limpet) -> None:
    made = at_once(lambda _: hf.remember("Tea at four", user="alice", idempotency_key=KEY).id, 6)
    plans = at_once(lambda _: hf.schedules.create("alice", "water", "every: 1h", idempotency_key=KEY).id, 6)
    assert len({*made}) == len({*plans}) == 1
    assert (hf.records.count(), hf.schedules.count()) == (1, 1)


def test_processes_that_ask_together_make_one(durable_url: str) -> None:
    code = """
with Limpet.open(given) as hf:
    begin()
    answer([hf.remember(f"number {at}", user="alice", idempotency_key=str(at)).id for at in range(20)])
"""
    Limpet.open(durable_url).close()
    one, two = run_together(code, durable_url)
    assert one == two
    assert len(set(one)) == 20


def test_a_schedule_whose_time_has_passed_is_answered_all_the_same(timed: Limpet, clock: FakeClock) -> None:
    when = (clock.now + timedelta(hours=1)).isoformat()
    made = timed.schedules.create("alice", "call", f"once: {when}", idempotency_key=KEY)
    clock.advance(hours=2)
    assert timed.schedules.create("alice", "call", f"once: {when}", idempotency_key=KEY) == made
    with pytest.raises(InvalidInput, match="no firing left"):
        timed.schedules.create("alice", "call", f"once: {when}")


def test_a_key_is_remembered_for_two_days(timed: Limpet, clock: FakeClock) -> None:
    first = timed.remember("Tea at four", user="alice", idempotency_key=KEY)
    clock.advance(hours=47)
    assert timed.remember("Tea at four", user="alice", idempotency_key=KEY) == first
    timed.remember("later", user="alice", idempotency_key="later")
    clock.advance(hours=2)
    timed.privacy.retention(dry_run=True)
    assert rows(timed) == 2
    timed.privacy.retention()
    assert rows(timed) == 1
    assert timed.remember("Tea at four", user="alice", idempotency_key=KEY).id != first.id
    clock.advance(hours=49)  # not cleared away yet, and over all the same
    assert timed.remember("Coffee", user="alice", idempotency_key=KEY).content == "Coffee"
    assert rows(timed) == 1, "each new one clears a few away"


def test_neither_the_key_nor_a_bare_hash_of_what_was_asked_is_kept(hf: Limpet) -> None:
    """Whoever has the table and not the key cannot have a guess confirmed: another key, another digest."""
    for number, key in itertools.product(range(1), (KEY, "another")):
        hf.remember(f"number {number}", user="alice", idempotency_key=key)
    assert KEY not in repr(every_row(hf)["idempotency_keys"])
    assert len({digest for (digest,) in sql(hf, "SELECT digest FROM idempotency_keys")}) == 2


def test_a_purge_takes_them_with_the_user(hf: Limpet) -> None:
    for user in ("alice", "bob"):
        hf.remember("Tea at four", user=user, idempotency_key=KEY)
        hf.remember("Tea at four", session=hf.session("a", "b", user=user).id, idempotency_key="in a chat")
        hf.schedules.create(user, "water", "every: 1h", idempotency_key=KEY)
    receipt = hf.privacy.purge_user("alice")
    assert receipt.verified
    assert {owner for (owner,) in sql(hf, "SELECT owner FROM idempotency_keys")} == {"bob"}
    assert rows(hf) == 3
    assert hf.remember("Tea at four", user="alice", idempotency_key=KEY).content == "Tea at four"
    hf.privacy.purge_older("bob", 0)
    assert {owner for (owner,) in sql(hf, "SELECT owner FROM idempotency_keys")} == {"alice"}


def test_who_may_not_read_may_not_ask_what_was_made(hf: Limpet) -> None:
    writer = hf.acting(name="feed", grants=["write:user:bob"])
    writer.remember("one", user="bob")
    with pytest.raises(PermissionDenied, match="read:user:bob"):
        writer.remember("one", user="bob", idempotency_key=KEY)
    with pytest.raises(PermissionDenied, match="read:user:bob"):
        writer.schedules.create("bob", "x", "every: 1h", idempotency_key=KEY)


def test_in_a_sealed_tenant_they_are_sealed(sealed: None, store_url: str) -> None:
    with Limpet.open(store_url) as hf:
        first = hf.remember("Tea at four", user="alice", idempotency_key=KEY)
        assert hf.remember("Tea at four", user="alice", idempotency_key=KEY) == first
        [(hashed, digest)] = sql(hf, "SELECT key_hash, digest FROM idempotency_keys")
        assert not {len(hashed), len(digest)} & {64}, "more than a hash"
        assert [finding for finding in hf.admin.doctor() if not finding.ok] == []
