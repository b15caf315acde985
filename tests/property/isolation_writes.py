"""Each writing operation with a foreign id or scope: refused, or done to one's own only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from limpet import Limpet, Message, Receipt, Schedule, Session
from limpet.api.schedules import ScheduleOperations
from limpet.errors import (
    DocumentNotFound,
    InvalidInput,
    LimpetError,
    RecordNotFound,
    ScheduleNotFound,
    SessionNotFound,
)
from limpet.model.scope import Scope
from limpet.schedules.repository import ScheduleQueue
from limpet.store.tx import Tx
from tests.property.isolation_reads import forgeries
from tests.property.isolation_world import Owner, World, refused

# Each writing verb with a foreign id or scope: refused, or done to one's own only.


def _remember(world: World, me: Owner) -> None:
    memory = world.on(me)
    for other in world.strangers(me):
        assert other.session
        if other.tenant != me.tenant or other.user != me.user:
            refused(SessionNotFound, memory.remember, "mine now", session=other.session, user=me.user)
            refused(LimpetError, memory.remember, "mine now", id=other.record, user=me.user)
        refused(LimpetError, memory.remember, "mine now", id=other.record, scope="global")
        refused(LimpetError, memory.remember, "mine now", id=other.record, agent=me.agent)


def _update(world: World, me: Owner) -> None:
    for other in world.owners:
        if other.tenant != me.tenant:
            refused(RecordNotFound, world.on(me).records.update, other.record, content="mine now")
        if other.tenant != me.tenant or other.user != me.user:
            refused(RecordNotFound, world.on(me).records.update, other.record, user=me.user, content="mine now")


def _of_a_record(change: Callable[[Limpet], Callable[..., object]]) -> Callable[[World, Owner], None]:
    def attempt(world: World, me: Owner) -> None:
        for other in world.owners:
            if other.tenant != me.tenant:
                refused(RecordNotFound, change(world.on(me)), other.record)
            if other.tenant != me.tenant or other.user != me.user:
                refused(RecordNotFound, change(world.on(me)), other.record, user=me.user)

    return attempt


def _forget(world: World, me: Owner) -> None:
    memory = world.on(me)
    for other in world.owners:
        if other.tenant != me.tenant:
            refused(RecordNotFound, memory.forget, other.record)
        if other.tenant != me.tenant or other.user != me.user:
            refused(RecordNotFound, memory.forget, other.record, user=me.user)
            assert memory.forget(query=other.mark, user=me.user).ids == ()
        if other.session and (other.tenant != me.tenant or other.user != me.user):
            refused(SessionNotFound, memory.forget, key="same_key", session=other.session, user=me.user)
            refused(SessionNotFound, memory.forget, query="secret", session=other.session, user=me.user)
        if other.user or other.agent:
            assert memory.forget(query=other.mark, scope="global").ids == ()
    assert memory.forget(query="secret").ids == ()  # of the default user, who has nothing
    refused(RecordNotFound, memory.forget, key="same_key")


def _add_document(world: World, me: Owner) -> None:
    """The same uri is one's own, or nobody's: what is added for a newcomer is taken away again."""
    memory, newcomer = world.on(me), f"new {me.user}"[-200:]
    memory.documents.add("same:uri", "mine now", user=newcomer)
    memory.documents.remove("same:uri", user=newcomer)
    refused(InvalidInput, memory.documents.add, "same:uri", "mine now", user=me.user, scope="global")


def _remove_document(world: World, me: Owner) -> None:
    memory = world.on(me)
    refused(DocumentNotFound, memory.documents.remove, "same:uri", user=f"{me.user}?"[-200:])
    refused(DocumentNotFound, memory.documents.remove, "same:uri", agent=f"{me.agent}?"[-200:])
    refused(DocumentNotFound, memory.documents.remove, "same:uri")
    refused(InvalidInput, memory.documents.remove, "same:uri", user=me.user, agent=me.agent)


def _import(world: World, me: Owner) -> None:
    """A session that belongs to another user already."""
    with _foreign_sessions(world, me) as path, suppress(LimpetError):
        world.on(me).transfer.import_(path)


def _import_file(world: World, me: Owner) -> None:
    with _foreign_sessions(world, me) as path, path.open("rb") as file, suppress(LimpetError):
        world.on(me).transfer.import_file(file)


@contextmanager
def _foreign_sessions(world: World, me: Owner) -> Iterator[Path]:
    folder = Path(world.memory._runtime.folder or ".")
    path = folder / f"told-{me.tenant[-6:].replace('/', '_')}-{me.number}.json"
    others = [other for other in world.strangers(me) if other.tenant != me.tenant or other.user != me.user]
    path.write_text(
        json.dumps([{"id": other.session, "channel": "chan", "chat": "chat", "user": other.user} for other in others])
    )
    yield path
    path.unlink()


def _handle(write: Callable[[Session], object]) -> Callable[[World, Owner], None]:
    """Through a handle made for somebody else a session cannot be written to."""

    def attempt(world: World, me: Owner) -> None:
        assert me.session
        info = world.on(me).load_session(me.session).info
        for forged in forgeries(world, info):
            refused(SessionNotFound, write, forged)

    return attempt


def _import_items(world: World, me: Owner) -> None:
    """Lines with the ids of everybody else's records."""
    assert me.user
    others = [other for other in world.owners if other.tenant != me.tenant or other.user != me.user]
    notes = world.on(me).notes.long_term(user=me.user).path
    if notes is not None:
        path = notes.parent / "items" / "semantic.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        told = [{"id": other.record, "content": "mine now", "title": me.mark} for other in others]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in told))
        done = world.on(me).notes.import_items(user=me.user, delete_missing=True)
        assert (done.added, done.changed, done.removed) == (0, 0, 0)
        assert len(done.problems) == len(others)
        path.unlink()


def _note_turn(world: World, me: Owner) -> None:
    """A name that reaches for another's folder is a name like any other."""
    assert me.user
    for name in {f"../{me.user[-197:]}", f"{me.user[-197:]}/.."} - {owner.user for owner in world.owners}:
        world.on(me).notes.add_turn(name, "mine now", "")
        assert "mine now" not in world.on(me).notes.day(user=me.user)


def _change_jobs(change: Callable[[Limpet, list[int]], int]) -> Callable[[World, Owner], None]:
    """With everybody's ids only one's own tenant's are changed."""

    def attempt(world: World, me: Owner) -> None:
        owners = world.lay_jobs_aside()
        others = [id for id, owner in owners.items() if owner.tenant != me.tenant]
        assert change(world.on(me), others) == 0
        assert change(world.on(me), list(owners)) == len(owners) - len(others)
        dead = {
            job.id
            for tenant in world.tenants
            for job in world.memory.tenant(tenant).jobs.list(state="dead", limit=1000)
        }
        assert dead & owners.keys() == set(others)
        world.drop_jobs()

    return attempt


def _grant(world: World, me: Owner) -> None:
    """What is given here is given nowhere else."""
    assert me.user
    world.on(me).access.grant(me.user, "read:global")
    for other in world.strangers(me):
        assert other.user
        if (other.tenant, other.user) != (me.tenant, me.user):
            assert world.on(other).access.grants(user=other.user) == []
            assert not world.on(other).access.revoke(other.user, "read:global")
    assert world.on(me).access.revoke(me.user, "read:global")


def _purge_session(world: World, me: Owner) -> None:
    for other in world.talkers():
        if other.tenant != me.tenant:
            refused(SessionNotFound, world.on(me).privacy.purge_session, other.session)
        if other.tenant != me.tenant or other.user != me.user:
            refused(SessionNotFound, world.on(me).privacy.purge_session, other.session, user=me.user)


def _purge_nobody(purge: Callable[[Limpet, str], Receipt]) -> Callable[[World, Owner], None]:
    """Names that are nearly somebody's are nobody's."""

    def attempt(world: World, me: Owner) -> None:
        assert me.user
        taken = {owner.user for owner in world.owners}
        for name in (f"{me.user}%"[:256], f"{me.user}x"[:256], f"' OR '{me.user}"[:256], "%", "_"):
            if name not in taken:
                assert purge(world.on(me), name).total == 0

    return attempt


def _change_schedule(change: Callable[[ScheduleOperations], Callable[..., object]]) -> Callable[[World, Owner], None]:
    def attempt(world: World, me: Owner) -> None:
        for other in world.strangers(me):
            if other.tenant != me.tenant:
                refused(ScheduleNotFound, change(world.on(me).schedules), world.plan(other)[0])
            if other.tenant != me.tenant or other.user != me.user:
                refused(ScheduleNotFound, change(world.on(me).schedules), world.plan(other)[0], user=me.user)

    return attempt


def _claim_schedule(world: World, me: Owner) -> None:
    """Of all that is due, one's own alone."""
    for owner in world.talkers():
        world.plan(owner)
    runtime = world.memory._runtime
    later, scope = runtime.clock() + timedelta(days=1), Scope(me.tenant, user=me.user)
    seen: list[Schedule] = []

    def claim(tx: Tx) -> None:
        while (lease := ScheduleQueue(tx).claim(later, later + timedelta(hours=1), scope)) is not None:
            seen.append(lease.schedule)
        raise NothingIsKept

    with pytest.raises(NothingIsKept):
        runtime.store.write(claim)
    assert {(schedule.tenant, schedule.user) for schedule in seen} == {(me.tenant, me.user)}


def _apply_retention(world: World, me: Owner) -> None:
    assert all(not each.counts for each in world.on(me).privacy.retention())


class NothingIsKept(Exception):
    """Rolls a transaction back."""


def _create_schedule(world: World, me: Owner) -> None:
    """Asked for in somebody else's session."""
    for other in world.strangers(me):
        if other.tenant != me.tenant or other.user != me.user:
            create = world.on(me).schedules.create
            refused(SessionNotFound, create, me.user, goal="mine now", cadence="every: 1h", session=other.session)


def _change_keys(world: World, me: Owner) -> None:
    """The same name is another key in another tenant, and neither that nor an id reaches across."""
    made = {
        tenant: world.memory.tenant(tenant).access.keys.create("same", user=me.user).info for tenant in world.tenants
    }
    for tenant, key in made.items():
        assert world.on(me).access.keys.revoke(key.id) == (tenant == me.tenant)
    assert not world.on(me).access.keys.revoke("same")
    live = {tenant for tenant in world.tenants if world.memory.tenant(tenant).access.keys()}
    assert live == set(world.tenants) - {me.tenant}
    refused(InvalidInput, world.on(me).access.keys.allow_anonymous)  # others have keys
    world.drop_keys()


WRITES: dict[str, Callable[[World, Owner], None]] = {
    "access.keys.create": _change_keys,
    "access.keys.allow_anonymous": _change_keys,
    "access.keys.revoke": _change_keys,
    "access.grant": _grant,
    "access.revoke": _grant,
    "privacy.purge_session": _purge_session,
    "privacy.purge_user": _purge_nobody(lambda memory, name: memory.privacy.purge_user(name)),
    "privacy.purge_older": _purge_nobody(lambda memory, name: memory.privacy.purge_older(name, 0, everything=True)),
    "privacy.retention": _apply_retention,
    "schedules.create": _create_schedule,
    "schedules.edit": _change_schedule(lambda schedules: partial(schedules.edit, goal="mine now")),
    "schedules.delete": _change_schedule(lambda schedules: schedules.delete),
    "schedules.claim": _claim_schedule,
    "schedules.finish": _change_schedule(lambda schedules: partial(schedules.finish, token=1)),
    "schedules.pause": _change_schedule(lambda schedules: schedules.pause),
    "schedules.resume": _change_schedule(lambda schedules: schedules.resume),
    "jobs.retry": _change_jobs(lambda memory, ids: memory.jobs.retry(ids)),
    "jobs.retry of a kind": _change_jobs(lambda memory, ids: memory.jobs.retry(ids, kind="watched")),
    "jobs.drop": _change_jobs(lambda memory, ids: memory.jobs.drop(ids)),
    "remember": _remember,
    "records.update": _update,
    "forget": _forget,
    "records.promote": _of_a_record(lambda memory: memory.records.promote),
    "records.revive": _of_a_record(lambda memory: memory.records.revive),
    "documents.add": _add_document,
    "documents.remove": _remove_document,
    "notes.add_turn": _note_turn,
    "notes.import_items": _import_items,
    "transfer.import_": _import,
    "transfer.import_file": _import_file,
    "session.append": _handle(lambda session: session.append("user", "mine now")),
    "session.extend": _handle(lambda session: session.extend([Message.new("user", "mine now")])),
    "session.set_summary": _handle(lambda session: session.set_summary("mine now", 2)),
    "session.swap_summary": _handle(lambda session: session.swap_summary("mine now", 2, 1)),
    "session.compact": _handle(lambda session: session.compact(keep=0)),
    "session.compact_if_due": _handle(lambda session: session.compact_if_due(1)),
    "session.learn": _handle(lambda session: session.learn()),
    "session.new": _handle(lambda session: session.new()),
    "session.clear": _handle(lambda session: session.clear()),
    "session.pause": _handle(lambda session: session.pause()),
    "session.resume": _handle(lambda session: session.resume()),
    "session.terminate": _handle(lambda session: session.terminate()),
    "session.delete": _handle(lambda session: session.delete()),
    "session.update_metadata": _handle(lambda session: session.update_metadata({"mine": "now"})),
    "session.expire_in": _handle(lambda session: session.expire_in(None)),
    "session.set_working_memory": _handle(lambda session: session.set_working_memory("mine now")),
    "session.add_usage": _handle(lambda session: session.add_usage("mine")),
    "session.kv.set": _handle(lambda session: session.kv.set("same", "mine now")),
    "session.kv.delete": _handle(lambda session: session.kv.delete("same")),
}

# What reads and writes nobody's memory, and why.
NEITHER = {
    "tenant": "the store as a whole",
    **dict.fromkeys(
        ("admin.doctor", "admin.backup", "admin.stats"), "for whoever runs the store; the last counts and names nobody"
    ),
    "admin.restore": "for whoever runs the store; it replaces every tenant's memory: test_backup.py",
    "admin.distribute": "for whoever runs the store; it moves every tenant's tables: test_distribute.py",
    "admin.owners": "for whoever runs the tenant: test_tenants.py",
    "acting": "the same store through another authorizer: test_gate.py",
    "admin.observe": "for whoever runs the store; what it tells is in test_observe.py",
    **dict.fromkeys(
        ("jobs.run", "jobs.start_worker", "schedules.run"), "for whoever runs the store; each job has its own space"
    ),
    **dict.fromkeys(("notes.long_term.write", "notes.long_term.append"), "one file for each user, as for its read"),
    "turn.reply": "a session's handle, as session.append",
    "session": "finds or makes one's own: test_session_ids_differ_for_every_key_user_agent_and_tenant",
}
