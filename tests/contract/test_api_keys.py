"""API keys: whoever shows one acts as what it is bound to, and as nothing else."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import Config, Limpet, NewKey
from limpet.errors import InvalidInput, InvalidKey, PermissionDenied, StoreBusy, Unauthenticated
from limpet.security.access_repository import ApiKeys
from limpet.testing import FakeClock
from tests.contract.rows import every_row, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


@pytest.fixture
def key(memory: Limpet) -> NewKey:
    return memory.access.keys.create("laptop", user="alice")


def test_api_key_acts_for_its_user_and_appears_in_audit(memory: Limpet, key: NewKey) -> None:
    assert re.fullmatch(r"lim_[A-Za-z0-9_-]{43}", key.secret)
    memory.remember("a secret of bob", user="bob")
    theirs = memory.access.keys.acting(key.secret)
    fact = theirs.remember("Biscuit is three")
    assert (fact.user, [record.id for record in theirs.records()]) == ("alice", [fact.id])
    with pytest.raises(PermissionDenied, match="read:user:bob"):
        theirs.recall("secret", user="bob")
    assert {entry.principal for entry in memory.access.audit(operation="recall")} == {"key:laptop"}
    with theirs:
        pass
    assert memory.records(user="alice"), "closing it closes nothing"


def test_api_key_is_limited_to_its_tenant_agent_and_grants(memory: Limpet) -> None:
    there = memory.tenant("there")
    there.remember("known to all", user="bob")
    there.remember("We answer within a day", agent="helper")
    made = there.access.keys.create("report", agent="helper", grants=["read:global"])
    theirs = memory.access.keys.acting(made.secret)
    assert [record.content for record in theirs.records(user="bob")] == ["known to all"]
    assert theirs.records(agent="helper")
    with pytest.raises(PermissionDenied):
        theirs.remember("x", user="bob")
    with pytest.raises(PermissionDenied):
        theirs.tenant("default")
    assert [str(grant) for grant in made.info.grants] == ["read:global"]


def test_api_key_with_store_grants_is_operator_but_cannot_close_store(memory: Limpet) -> None:
    admin = memory.access.keys.acting(memory.access.keys.create("admin", grants=["read:store", "write:store"]).secret)
    assert admin.admin.doctor()
    for handle in (admin, admin.tenant("there"), admin.agent("a"), admin.acting("alice")):
        handle.close()
    assert admin.admin.stats() == memory.admin.stats()
    made = admin.access.keys.create("another", user="alice")
    assert made.info.created_by == "key:admin"


def test_api_key_secret_is_never_stored(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        made = memory.access.keys.create("laptop", user="alice")
        memory.access.keys.acting(made.secret).remember("x")
        assert made.secret not in repr(made)
        assert made.secret[3:] not in repr(every_row(memory))
        assert made.secret not in repr(memory.access.keys()) + repr(memory.access.audit())
    if not durable_url.startswith("postgres"):
        files = [path for path in Path(durable_url).rglob("*") if path.is_file()]
        assert files
        assert all(made.secret[3:].encode() not in path.read_bytes() for path in files)


def test_api_key_revocation_takes_effect_in_all_processes(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory, Limpet.open(durable_url) as other:
        made = memory.access.keys.create("laptop", user="alice")
        assert other.access.keys.required()
        assert other.access.keys.acting(made.secret).records() == []
        assert memory.access.keys.revoke(made.info.id.upper())
        with pytest.raises(Unauthenticated, match="unknown, revoked or expired"):
            other.access.keys.acting(made.secret)
        assert other.access.keys.required()  # whoever asked for keys does not stop asking by itself
        assert not memory.access.keys.revoke("laptop")
        assert other.access.keys() == []
        [gone] = other.access.keys(include_revoked=True)
        assert gone.revoked_at is not None


def test_api_key_rejects_invalid_secret_without_echoing_it(memory: Limpet, key: NewKey) -> None:
    wrong: list[Any] = ["", "lim_", key.secret[:-1], key.secret + "x", key.secret.upper(), key.info.id, None, 5, b"x"]
    for secret in [*wrong, "lim_" + "A" * 43, f" {key.secret}", f"{key.secret}\n"]:
        with pytest.raises(Unauthenticated) as caught:
            memory.access.keys.acting(secret)
        assert str(caught.value) == "this key is unknown, revoked or expired"


def test_api_key_expires_and_frees_its_name(timed: Limpet, clock: FakeClock) -> None:
    made = timed.access.keys.create("laptop", user="alice", expires_in=timedelta(days=1))
    clock.advance(hours=23, minutes=59)
    timed.access.keys.acting(made.secret)
    with pytest.raises(InvalidInput, match="called 'laptop' already"):
        timed.access.keys.create("laptop", user="alice")
    clock.advance(minutes=1)
    with pytest.raises(Unauthenticated):
        timed.access.keys.acting(made.secret)
    assert timed.access.keys.required()  # whoever asked for keys does not stop asking by itself
    assert timed.access.keys() == []
    again = timed.access.keys.create("laptop", user="bob")
    assert [each.id for each in timed.access.keys(include_revoked=True)] == [again.info.id, made.info.id]
    with pytest.raises(Unauthenticated):
        timed.access.keys.acting(made.secret)
    for wrong in (0, -5, timedelta(), "soon"):
        with pytest.raises(InvalidInput, match="expires_in must be"):
            timed.access.keys.create("other", user="alice", expires_in=wrong)  # type: ignore[arg-type]


def test_api_key_name_is_unique_under_concurrent_creation(memory: Limpet) -> None:
    def create(number: int) -> str:
        try:
            return memory.access.keys.create("laptop", user=f"user{number}").info.id
        except InvalidInput:
            return ""

    made = [id for id in at_once(create, 4) if id]
    assert [each.id for each in memory.access.keys()] == made
    assert len(made) == 1
    assert memory.tenant("there").access.keys.create("laptop", user="alice")


def test_api_key_create_validates_name_and_grants(memory: Limpet, key: NewKey) -> None:
    with pytest.raises(InvalidInput, match="say what the key may"):
        memory.access.keys.create("nothing")
    with pytest.raises(InvalidInput, match="look like an id"):
        memory.access.keys.create(key.info.id, user="alice")
    with pytest.raises(InvalidKey):
        memory.access.keys.create("x" * 129, user="alice")
    with pytest.raises(InvalidInput, match="grants must be a list"):
        memory.access.keys.create("x", user="alice", grants="read:global")


def test_api_key_cannot_exceed_grants_of_its_creator(memory: Limpet) -> None:
    memory.access.grant("carol", "read:global")
    alice = memory.acting("alice")
    own = alice.access.keys.create("own")  # one's own user is filled in
    assert (own.info.user, own.info.created_by) == ("alice", "alice")
    manager = memory.acting("alice", grants=["write:global", "read:user:bob", "read:user:carol"])
    assert manager.access.keys.create("bobs", user="bob").info.user == "bob"
    refused: list[tuple[Limpet, str, dict[str, Any]]] = [
        (alice, "read:user:bob", {"user": "bob"}),
        (alice, "read:global", {"grants": ["read:global"]}),
        (alice, "read:agent:coder", {"agent": "coder"}),
        (memory.acting("alice", grants=["read:user:bob", "write:user:bob"]), "write:global", {"user": "bob"}),
        (memory.acting("alice", session=memory.session("a", "b", user="alice").id), "read:user:alice", {}),
        (memory.acting(name="reader", grants=["read:global"]), "write:user", {"grants": ["read:global"]}),
        (
            memory.acting(name="reader", grants=["read:global", "write:global"]),
            "read:store",
            {"grants": ["read:store"]},
        ),
        (memory.acting(name="writer", grants=["write:global"]), "read:user", {"agent": "coder"}),
        (manager, "read:global", {"user": "carol"}),  # who has been granted more than the manager has
    ]
    before = memory.access.keys()
    for handle, missing, given in refused:
        with pytest.raises(PermissionDenied) as caught:
            handle.access.keys.create("more", **given)
        assert caught.value.missing == missing, given
    assert memory.access.keys() == before
    memory.access.keys.create("admin", grants=["read:store", "write:store"])
    with pytest.raises(PermissionDenied, match=r"(write|read):store"):
        manager.access.keys.revoke("admin")
    assert manager.access.keys.revoke("bobs")


def test_api_key_last_use_is_stored_at_most_once_a_minute(
    timed: Limpet, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = timed.access.keys.create("laptop", user="alice")
    first = clock.now
    timed.access.keys.acting(made.secret)
    clock.advance(59)
    timed.access.keys.acting(made.secret)
    assert [each.last_used_at for each in timed.access.keys()] == [first]
    clock.advance(1)
    timed.access.keys.acting(made.secret)
    assert [each.last_used_at for each in timed.access.keys()] == [clock.now]
    clock.advance(minutes=5)
    asked = []

    def busy(work: Any) -> Any:
        asked.append(work)
        raise StoreBusy("somebody else writes")

    monkeypatch.setattr(timed._runtime.store, "write", busy)
    for _ in range(3):
        assert timed.access.keys.acting(made.secret)
    assert len(asked) == 1


def test_purge_deletes_api_keys_of_user_and_their_names(memory: Limpet) -> None:
    memory.access.keys.create("bobs", user="bob", grants=["read:user:alice", "write:user:alice", "read:agent:a"])
    old = memory.access.keys.create("old-phone", user="alice")
    memory.access.keys.revoke("old-phone")
    made = memory.access.keys.create("alices-laptop", user="alice")
    theirs = memory.access.keys.acting(made.secret)
    theirs.forget(query="nothing like it")
    theirs.access.keys.create("second", user="alice")
    assert memory.privacy.purge_user("alice", dry_run=True).counts["api_keys"] == 3
    receipt = memory.privacy.purge_user("alice")  # who has a key, and no memory at all
    assert receipt.verified
    assert receipt.counts["api_keys"] == 3
    for secret in (made.secret, old.secret):
        with pytest.raises(Unauthenticated):
            memory.access.keys.acting(secret)
    [left] = memory.access.keys(include_revoked=True)
    assert (left.name, [str(grant) for grant in left.grants]) == ("bobs", ["read:agent:a"])
    told = repr(every_row(memory)) + repr(memory.access.audit(limit=1000))
    assert "laptop" not in told
    assert "phone" not in told
    assert "alice" not in told


def test_purge_reports_api_key_it_failed_to_delete(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.access.keys.create("laptop", user="alice")
    monkeypatch.setattr(ApiKeys, "erase", lambda *_: 0)
    monkeypatch.setattr("limpet.lifecycle.purge_repository.Purges._delete", lambda *_: 0)
    receipt = memory.privacy.purge_user("alice")
    assert not receipt.verified
    assert receipt.left == ("1 rows in api_keys",)


def test_api_keys_of_agent_with_own_store_stay_in_main_store(tmp_path: Path) -> None:
    config = Config.load(overrides={"agents.coder.memory.place": "own"})
    with Limpet.open(tmp_path, config=config) as memory:
        made = memory.agent("coder").access.keys.create("ci", user="alice", agent="coder")
        theirs = memory.access.keys.acting(made.secret)
        theirs.remember("kept apart")
        assert memory.records(user="alice") == []
        assert [record.content for record in memory.agent("coder").records(user="alice")] == ["kept apart"]


def test_api_key_lookup_by_secret_uses_index(tmp_path: Path) -> None:
    with Limpet.open(tmp_path) as memory:
        plan = sql(memory, "EXPLAIN QUERY PLAN SELECT id FROM api_keys WHERE secret_hash = 'x'")
    assert "USING INDEX" in repr(plan)


def test_api_key_revocation_cascades_to_keys_it_created(timed: Limpet, clock: FakeClock) -> None:
    def made(name: str, by: NewKey | None = None, **more: Any) -> NewKey:
        clock.advance(1)
        whose = timed if by is None else timed.access.keys.acting(by.secret)
        return whose.access.keys.create(name, user="alice", **more)

    made("laptop", by=made("older", by=made("first")))
    timed.access.keys.revoke("laptop")
    stolen = made("laptop")
    child, other = made("child", by=stolen), made("other")
    made("grandchild", by=made("short", by=child, expires_in=60))
    clock.advance(minutes=5)  # one that has ended is on the way to one that has not
    assert timed.access.keys.revoke("laptop") == 4
    assert [key.name for key in timed.access.keys()] == ["other", "older", "first"]
    assert timed.access.keys.revoke("first") == 2
    assert timed.access.keys.acting(other.secret)


def test_revoked_api_key_cannot_create_keys(memory: Limpet) -> None:
    """Also not in the moment in which it is."""
    stolen = memory.access.keys.create("stolen", user="alice")
    thief = memory.access.keys.acting(stolen.secret)

    def call(number: int) -> int:
        if number == 0:
            return memory.access.keys.revoke("stolen")
        try:
            thief.access.keys.create(f"made {number}", user="alice")
        except Unauthenticated:
            return 0
        return 1

    gone, *created = at_once(call)
    assert gone == 1 + sum(created)
    assert memory.access.keys() == []
    with pytest.raises(Unauthenticated, match="revoked"):
        thief.access.keys.create("late", user="alice")
