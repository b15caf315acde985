"""Who did what: a row with every grave deed, counts of the rest, and never what was said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import AuditEntry, Config, Limpet
from limpet.errors import InvalidInput, LimpetError, PermissionDenied, StorageError, StoreFull, StoreReadOnly
from limpet.model.scope import Scope
from limpet.security.audit import AuditEntries
from limpet.testing import FakeClock
from tests.contract.processes import start
from tests.contract.rows import every_row, sql

pytestmark = pytest.mark.every_backend

SECRET = "xyzzy"


def told(memory: Limpet, **filters: Any) -> list[tuple[str, str, str, int]]:
    """Who, what, how it ended, how often; the oldest first."""
    found = reversed(memory.access.audit(**filters, limit=1000))
    return [
        (each.principal, each.operation, each.outcome.value, each.calls)
        for each in found
        if each.operation != "access.audit"
    ]


def test_audit_groups_equal_calls_within_a_minute(timed: Limpet, clock: FakeClock) -> None:
    chat = timed.session("a", "b", user="alice")
    begun = clock.advance(1)
    for _ in range(5):
        chat.append("user", "hello")
        clock.advance(10)
    timed.recall("hello", user="alice")
    [entry] = timed.access.audit(operation="session.append")
    assert (entry.calls, entry.at, entry.last_at) == (5, begun, begun + timedelta(seconds=40))
    assert (entry.user, entry.agent, entry.session) == ("alice", "assistant", chat.id)
    assert (entry.principal, entry.tenant, entry.access) == ("operator", "default", "write")
    assert told(timed) == [
        ("operator", "session", "done", 1),
        ("operator", "session.append", "done", 5),
        ("operator", "recall", "done", 1),
    ]


def test_audit_counts_are_flushed_with_next_write(timed: Limpet, clock: FakeClock) -> None:
    def rows() -> int:
        return int(sql(timed, "SELECT count(*) FROM audit")[0][0])

    chat = timed.session("a", "b", user="alice")
    chat.append("user", "one")
    assert rows() == 0
    clock.advance(minutes=1)
    chat.append("user", "two")  # notices that a minute is over
    assert rows() == 0
    chat.append("user", "three")  # takes the counts along
    assert rows() == 2
    assert told(timed, operation="session.append") == [
        ("operator", "session.append", "done", 2),
        ("operator", "session.append", "done", 1),
    ]


def test_audit_counts_are_flushed_by_read_when_no_write_follows(timed: Limpet, clock: FakeClock) -> None:
    chat = timed.session("a", "b", user="alice")
    for _ in range(3):
        chat.recent()
        clock.advance(seconds=50)
    assert sql(timed, "SELECT count(*) FROM audit") == [(0,)]
    chat.recent()
    assert sql(timed, "SELECT operation, calls FROM audit ORDER BY at, operation DESC") == [
        ("session.recent", 4),
        ("session", 1),
    ]


@pytest.mark.parametrize(
    "deed", ["forget", "clear", "delete", "documents.remove", "access.grant", "access.revoke", "jobs.drop"]
)
def test_audited_operation_and_its_audit_row_share_one_transaction(
    memory: Limpet, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the row cannot be written, nothing was done."""
    chat = memory.session("a", "b", user="alice")
    chat.append("user", "hello")
    record = memory.remember("a fact", user="alice")
    memory.documents.add("note:1", "a note", user="alice")
    memory.access.grant("bob", "read:global")
    store: Any = memory._runtime.store
    deeds = {
        "forget": lambda: memory.forget(record.id),
        "clear": chat.clear,
        "delete": chat.delete,
        "documents.remove": lambda: memory.documents.remove("note:1", user="alice"),
        "access.grant": lambda: memory.access.grant("alice", "read:global"),
        "access.revoke": lambda: memory.access.revoke("bob", "read:global"),
        "jobs.drop": lambda: memory.jobs.drop([1]),
    }
    memory.access.audit()  # what was counted so far is written
    before = every_row(memory)
    with monkeypatch.context() as broken:
        broken.setattr(AuditEntries, "add", _refuse)
        with pytest.raises(StoreFull):
            deeds[deed]()
    assert every_row(memory) == before
    commits: list[int] = []

    def counted(work: Any, real: Any = store.write) -> Any:
        commits.append(1)
        return real(work)

    with monkeypatch.context() as watched:
        watched.setattr(store, "write", counted)
        deeds[deed]()
    verb = f"session.{deed}" if deed in ("clear", "delete") else deed
    assert told(memory, operation=verb)[-1] == ("operator", verb, "done", 1)
    assert len(commits) == 1


def _refuse(*_: object) -> None:
    raise StoreFull("no space left")


def test_audit_row_survives_process_kill(durable_url: str) -> None:
    code = """
import os
memory = Limpet.open(given)
chat = memory.session("a", "b", user="alice")
chat.append("user", "hello")
memory.forget(memory.remember("a fact", user="alice").id)
memory.recall("hello", user="alice")
os._exit(9)
"""
    process = start(code, durable_url)
    process.communicate(timeout=60)
    with Limpet.open(durable_url) as memory:
        # The deed, and what went along with it; not the read that came after.
        assert told(memory) == [
            ("operator", "session", "done", 1),
            ("operator", "session.append", "done", 1),
            ("operator", "remember", "done", 1),
            ("operator", "forget", "done", 1),
        ]


def test_audit_counts_are_flushed_on_close(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        memory.acting("alice").recall("hello")
    with Limpet.open(durable_url) as memory:
        assert told(memory) == [("alice", "recall", "done", 1)]


def test_audit_records_denied_call_with_missing_grant(memory: Limpet) -> None:
    """Before it is answered, and equal ones of a minute in one row."""
    alice = memory.acting("alice", name="key 7 of alice")
    for count in (1, 2, 3):
        with pytest.raises(PermissionDenied):
            alice.recall("secret", user="bob")
        assert sql(memory, "SELECT calls FROM audit") == [(count,)]
    with pytest.raises(PermissionDenied):
        alice.admin.backup("/nowhere/copy.db")
    found = memory.access.audit(outcome="refused")
    assert [(each.operation, each.user, each.missing, each.calls) for each in found] == [
        ("admin.backup", None, "read:store", 1),
        ("recall", "bob", "read:user:bob", 3),
    ]
    assert {each.principal for each in found} == {"key 7 of alice"}


def test_audit_groups_denied_calls_within_a_minute(timed: Limpet, clock: FakeClock) -> None:
    began = clock()
    calls = [(timed.acting(user), verb) for user in ("alice", "carol") for verb in ("recall", "forget")]
    for _ in range(7):
        for who, verb in calls:
            with pytest.raises(PermissionDenied):
                getattr(who, verb)(query="secret", user="bob")
        clock.advance(10)
    found = timed.access.audit(outcome="refused", principal="alice", operation="forget")
    assert [(each.calls, each.at - began, each.last_at - began) for each in found] == [
        (1, timedelta(seconds=60), timedelta(seconds=60)),
        (6, timedelta(0), timedelta(seconds=50)),
    ]
    assert sum(each.calls for each in timed.access.audit(outcome="refused")) == 7 * len(calls)
    assert len(timed.access.audit(outcome="refused")) == 2 * len(calls)


def test_audit_limits_rows_for_denied_calls_on_many_users(timed: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first are named; of all others the number is known."""
    monkeypatch.setattr("limpet.security.audit._TARGETS", 3)
    alice = timed.acting("alice")
    for number in range(20):
        with pytest.raises(PermissionDenied):
            alice.recall("secret", user=f"user{number}")
    with pytest.raises(PermissionDenied):
        timed.acting("carol").recall("secret", user="user9")
    found = {(each.principal, each.user, each.missing, each.calls) for each in timed.access.audit(outcome="refused")}
    assert found == {
        *(("alice", f"user{number}", f"read:user:user{number}", 1) for number in range(3)),
        ("alice", None, "read:user", 17),
        ("carol", "user9", "read:user:user9", 1),
    }


def test_audit_of_denied_call_after_purge_omits_user_name(memory: Limpet) -> None:
    for _ in range(2):
        with pytest.raises(PermissionDenied):
            memory.acting("alice").recall("secret", user="bob")
        memory.privacy.purge_user("bob")
    [told] = memory.access.audit(outcome="refused")
    assert (told.calls, told.missing) == (2, None)
    assert "bob" not in repr(told)


def test_audit_records_failed_calls(memory: Limpet) -> None:
    unknown = "01890000-0000-7000-8000-000000000009"
    for call in (memory.records.get, memory.forget):
        with pytest.raises(LimpetError):
            call(unknown)
    with pytest.raises(InvalidInput):
        memory.recall(5, user="alice")  # type: ignore[arg-type]
    assert told(memory) == [
        ("operator", "records.get", "failed", 1),
        ("operator", "forget", "failed", 1),
        ("operator", "recall", "failed", 1),
    ]
    assert memory.access.audit(operation="forget")[0].record == unknown


def test_audit_and_log_never_contain_content(memory: Limpet, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG, "limpet.audit")
    alice = memory.acting("alice")
    chat = alice.session("a", "b", metadata={"m": SECRET})
    chat.append("user", f"I am {SECRET}", name=SECRET, metadata={"m": SECRET}, idempotency_key=SECRET)
    chat.kv.set(SECRET, SECRET)
    chat.set_working_memory(SECRET)
    chat.swap_summary(SECRET, 1, 0)
    with chat.turn(f"who is {SECRET}?") as turn:
        turn.reply(f"{SECRET} is you")
    record = alice.remember(SECRET, key=SECRET, tags=[SECRET], metadata={SECRET: SECRET}, title=SECRET)
    alice.records.update(record.id, content=f"{SECRET}!")
    alice.recall(SECRET, tags=[SECRET], metadata={SECRET: SECRET})
    alice.records.search_metadata(SECRET, SECRET)
    alice.documents.add(f"note:{SECRET}", SECRET)
    alice.graph(entity=SECRET)
    alice.forget(query=SECRET)
    alice.documents.remove(f"note:{SECRET}")
    for wrong in (
        lambda: alice.records.get(SECRET),
        lambda: alice.load_session(SECRET),
        lambda: alice.recall(SECRET, session=SECRET),
        lambda: alice.recall(SECRET, scope=SECRET),  # type: ignore[arg-type]
        lambda: alice.recall(SECRET, user="bob"),
        lambda: alice.recall(SECRET, user=f"{SECRET}\n"),
        lambda: alice.documents.add(tmp_path / SECRET),
        lambda: alice.admin.backup(tmp_path / SECRET),
    ):
        with pytest.raises(LimpetError):
            wrong()
    shown = [repr(entry) for entry in memory.access.audit(limit=1000)]
    lines = [record.getMessage() for record in caplog.records if record.name == "limpet.audit"]
    assert len(shown) > 20
    assert len(lines) > 20
    assert SECRET not in "".join(shown + lines)


def test_audit_log_has_one_line_per_call(memory: Limpet, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "limpet.audit")
    alice = memory.acting("alice", name="a key")
    chat = alice.session("a", "b")
    chat.append("user", "hello")
    chat.append("user", "hello")
    chat.clear()
    with pytest.raises(PermissionDenied):
        alice.admin.stats()
    whose = f"user=alice agent=assistant session={chat.id}"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"principal='a key' tenant=default operation={operation} access={access} outcome={outcome}{more}")
        for operation, access, outcome, more in (
            ("session", "write", "done", f" {whose}"),
            ("session.append", "write", "done", f" {whose}"),
            ("session.append", "write", "done", f" {whose}"),
            ("session.clear", "write", "done", f" {whose}"),
            ("admin.stats", "read", "refused", " missing=read:store"),
        )
    ]


@pytest.mark.parametrize(
    ("overrides", "verbs", "lines"),
    [
        ({"audit.enabled": False}, set(), 4),
        ({"audit.reads": False}, {"remember", "forget"}, 3),
        ({"audit.log": False, "audit.operator": "me"}, {"remember", "recall", "forget"}, 0),
    ],
)
def test_audit_settings_disable_each_part(
    store_url: str, caplog: pytest.LogCaptureFixture, overrides: dict[str, Any], verbs: set[str], lines: int
) -> None:
    caplog.set_level(logging.INFO, "limpet.audit")
    with Limpet.open(store_url, config=Config.load(overrides={"embedding.model": "none", **overrides})) as memory:
        record = memory.remember("a fact", user="alice")
        memory.recall("fact", user="alice")
        memory.forget(record.id)
        with pytest.raises(PermissionDenied):
            memory.acting("alice").remember("x", scope="global")
        assert len(caplog.records) == lines
        found = memory.access.audit(outcome="done")
        assert {entry.operation for entry in found} - {"access.audit"} == verbs
        assert {entry.principal for entry in found} <= {overrides.get("audit.operator", "operator")}


def test_audit_filters_by_user_principal_time_and_outcome(timed: Limpet, clock: FakeClock) -> None:
    moments: list[datetime] = []
    for user in ("alice", "bob", "carol"):
        moments.append(clock.advance(hours=1))
        timed.acting(user).remember("a fact")
    timed.tenant("there").remember("a fact", user="alice")

    def users(**filters: Any) -> list[str | None]:
        return [entry.user for entry in timed.access.audit(operation="remember", **filters)]

    assert users() == ["carol", "bob", "alice"]
    assert users(user="bob") == users(principal="bob") == ["bob"]
    assert users(since=moments[1]) == ["carol", "bob"]
    assert users(until=moments[1]) == ["alice"]
    assert users(limit=1, offset=1) == ["bob"]
    assert users(outcome="failed") == []
    with pytest.raises(InvalidInput, match="outcome must be one of"):
        timed.access.audit(outcome="maybe")
    timed.access.grant("alice", "read:global")
    assert timed.acting("alice").access.audit(operation="remember")


def test_audit_deletes_entries_older_than_keep_days(store_url: str, clock: FakeClock) -> None:
    config = Config.load(overrides={"audit.keep_days": 30, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, clock=clock) as memory:
        memory.forget(query="x", user="alice")
        memory.tenant("there").forget(query="x", user="alice")
        clock.advance(days=29)
        memory.forget(query="y", user="alice")
        assert len(memory.access.audit(operation="forget")) == 2
        clock.advance(days=2)
        memory.forget(query="z", user="alice")
        assert len(memory.access.audit(operation="forget")) == 2
        assert len(memory.tenant("there").access.audit(operation="forget")) == 1  # until somebody there does something
        trimmed = memory._runtime.store.write(lambda tx: AuditEntries(tx).trim(Scope("there"), clock()))
        assert trimmed == 1


def test_audit_anonymizes_purged_user(memory: Limpet) -> None:
    """Also not by the row of the deed itself, which is written first, in the same transaction."""
    bob = memory.acting("bob")
    chat = bob.session("a", "b")
    record = bob.remember("a fact")
    memory.forget(record.id)
    for call in (lambda: memory.acting("alice").recall("x", user="bob"), lambda: bob.recall("x", user="alice")):
        with pytest.raises(PermissionDenied):
            call()
    with pytest.raises(PermissionDenied):
        memory.acting("alice", session=record.id).load_session(chat.id)  # names bob's session
    audit_log, store = memory._runtime.audit_log, memory._runtime.store
    assert audit_log is not None
    audit_log.flush()
    deed = AuditEntry(
        **{
            **_fields(memory.access.audit(operation="forget")[0]),
            "id": "deed",
            "operation": "privacy.purge_user",
            "user": "bob",
        }
    )
    with store.prepend_to_next_write(lambda tx: AuditEntries(tx).add(Scope("default"), [deed])) as written:
        store.write(lambda tx: AuditEntries(tx).erase(Scope("default", user="bob"), "somebody"))
        assert written()
    shown = repr([_fields(entry) for entry in memory.access.audit(limit=1000)])
    assert "bob" not in shown
    assert chat.id not in shown
    assert {entry.user for entry in memory.access.audit(operation="privacy.purge_user")} == {"somebody"}
    assert {entry.principal for entry in memory.access.audit(operation="remember")} == {"somebody"}


def _fields(entry: AuditEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__slots__}


@pytest.fixture
def refusing(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StorageError]]:
    """A store whose audit cannot be written while there is an error in the list."""
    errors: list[StorageError] = []
    real = AuditEntries.add

    def add(self: AuditEntries, *args: Any) -> None:
        if errors:
            raise errors[0]
        real(self, *args)

    monkeypatch.setattr(AuditEntries, "add", add)
    yield errors
    errors.clear()


def test_audit_write_failure_does_not_break_reads(
    memory: Limpet, refusing: list[StorageError], caplog: pytest.LogCaptureFixture
) -> None:
    refusing.append(StoreFull("no space left"))
    memory.recall("hello", user="alice")
    assert memory.access.audit() == []
    assert "the audit could not be written and waits: no space left" in caplog.text
    with pytest.raises(PermissionDenied):
        memory.acting("alice").admin.stats()
    refusing.clear()
    assert told(memory) == [("operator", "recall", "done", 1), ("alice", "admin.stats", "refused", 1)]


def test_audit_is_silent_on_read_only_store(
    memory: Limpet, refusing: list[StorageError], caplog: pytest.LogCaptureFixture
) -> None:
    refusing.append(StoreReadOnly("the file cannot be written"))
    memory.recall("hello", user="alice")
    assert memory.access.audit() == []
    assert caplog.records == []


def test_backup_includes_grants_and_audit(memory: Limpet, tmp_path: Path) -> None:
    memory.access.grant("alice", "read:global")
    memory.forget(query="x", user="alice")
    memory.admin.backup(tmp_path / "copy.db")
    with Limpet.open(tmp_path / "copy.db") as copy:
        assert copy.access.grants() == memory.access.grants()
        assert copy.access.audit(operation="forget") == memory.access.audit(operation="forget")


def test_audit_records_backup_when_reads_are_disabled(tmp_path: Path) -> None:
    config = Config.load(overrides={"audit.reads": False, "embedding.model": "none"})
    with Limpet.open(":memory:", config=config) as memory:
        memory.admin.backup(tmp_path / "copy.db")
        memory.admin.stats()
        assert told(memory) == [("operator", "admin.backup", "done", 1)]
