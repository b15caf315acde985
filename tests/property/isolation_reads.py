"""Each reading operation: its answers, each with the owners it may and must show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pytest

from limpet import Limpet, Session, SessionInfo
from limpet.api.schedules import ScheduleOperations
from limpet.errors import (
    DocumentNotFound,
    InvalidInput,
    RecordNotFound,
    ScheduleNotFound,
    SessionNotFound,
    Unsupported,
)
from tests.property.isolation_world import Owner, World, refused

Seen = Iterator[tuple[object, set[int]]]


# Each reading verb: its answers, each with the owners it may and must show.


def _sessions(world: World, me: Owner) -> Seen:
    memory, sessions = world.on(me), {owner.number for owner in world.talkers()}
    yield memory.sessions(user=me.user, limit=1000), sessions & world.of_user(me.tenant, me.user)
    yield memory.sessions(agent=me.agent, limit=1000), sessions & world.among(me.tenant, agent=me.agent)
    yield memory.sessions(user=me.user, agent=me.agent, channel="chan", state="active"), {me.number}
    yield memory.sessions(limit=1000), sessions & {owner.number for owner in world.owners if owner.tenant == me.tenant}
    yield memory.sessions(user=f"{me.user}?"[-200:]), set()


def _jobs(world: World, me: Owner) -> Seen:
    world.lay_jobs_aside()
    mine = {owner.number for owner in world.talkers() if owner.tenant == me.tenant}
    yield world.on(me).jobs.list(limit=1000), mine
    yield world.on(me).jobs.list(state="dead", kind="watched", limit=1000), mine
    yield world.on(me).jobs.list(state="running", limit=1000), set()


def _load_session(world: World, me: Owner) -> Seen:
    assert me.session
    yield world.on(me).load_session(me.session).info, {me.number}
    yield world.on(me).load_session(me.session, user=me.user).messages(), {me.number}
    for other in world.strangers(me):
        assert other.session
        if other.tenant != me.tenant:
            yield refused(SessionNotFound, world.on(me).load_session, other.session), set()
        if other.user != me.user:
            yield refused(SessionNotFound, world.on(me).load_session, other.session, user=me.user), set()


def _find_session(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    found = memory.find_session("chan", "chat", user=me.user, agent=me.agent)
    assert found is not None
    yield found.info, {me.number}
    yield memory.find_session("chan", "chat", user=f"{me.user}?"[-200:], agent=me.agent), set()


def _recall(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    mine = world.of_user(me.tenant, me.user)
    yield memory.recall("secret", user=me.user, k=100), mine
    yield (
        memory.recall("secret", user=me.user, k=100, kinds=["message"]),
        mine - world.among(me.tenant, user=me.user, agent=None),
    )
    yield (
        memory.recall("secret", user=me.user, k=100, kinds=["document"]),
        world.among(me.tenant, user=me.user, agent=None),
    )
    yield memory.recall("secret", user=me.user, k=100, tags=["same"], metadata={"who": "same"}), mine
    yield memory.recall("secret", user=me.user, k=100, as_of=memory._now(), types=["fact"], layers=["semantic"]), mine
    yield memory.recall("secret", session=me.session, k=100), {me.number}
    yield memory.recall("secret", session=me.session, user=me.user, k=100), {me.number}
    yield memory.recall("secret", agent=me.agent, k=100), world.among(me.tenant, user=None, agent=me.agent)
    yield memory.recall("secret", scope="global", k=100), world.among(me.tenant, user=None, agent=None)
    for other in world.strangers(me):
        if other.user != me.user or other.tenant != me.tenant:
            yield refused(SessionNotFound, memory.recall, "secret", session=other.session, user=me.user), set()
        if other.user != me.user:
            yield memory.recall(other.mark, user=me.user), set()


def _recall_of_one_agent(world: World, me: Owner) -> Seen:
    """With a user and an agent named, nothing of another agent may come; to refuse the question is as good."""
    with suppress(InvalidInput):
        hits = world.on(me).recall("secret", user=me.user, agent=me.agent, k=100)
        yield hits, world.seen_in(hits) & world.among(me.tenant, user=me.user, agent=me.agent)


def _record(world: World, me: Owner) -> Seen:
    yield from _by_id(world, me, lambda memory: memory.records.get)


def _history(world: World, me: Owner) -> Seen:
    yield from _by_id(world, me, lambda memory: memory.records.history)


def _by_id(world: World, me: Owner, verb: Callable[[Limpet], Callable[..., object]]) -> Seen:
    call = verb(world.on(me))
    yield call(me.record), {me.number}
    yield call(me.record, user=me.user), {me.number}
    for other in world.owners:
        if other.tenant != me.tenant:
            yield refused(RecordNotFound, call, other.record), set()
        if other.tenant != me.tenant or other.user != me.user:
            yield refused(RecordNotFound, call, other.record, user=me.user), set()


def _records(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    yield memory.records(user=me.user, limit=1000), world.of_user(me.tenant, me.user)
    yield memory.records(user=me.user, limit=1000, history=True, tags=["same"]), world.of_user(me.tenant, me.user)
    yield memory.records(user=me.user, limit=1000, as_of=memory._now()), world.of_user(me.tenant, me.user)
    yield memory.records(agent=me.agent, limit=1000), world.among(me.tenant, user=None, agent=me.agent)
    yield memory.records(session=me.session, limit=1000), {me.number}
    yield memory.records(limit=1000), {owner.number for owner in world.owners if owner.tenant == me.tenant}
    for other in world.strangers(me):
        if other.tenant != me.tenant:
            yield memory.records(session=other.session), set()
        if other.user != me.user:
            yield memory.records(session=other.session, user=me.user), set()


def _count_records(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    assert memory.records.count(user=me.user) == len(world.of_user(me.tenant, me.user))
    assert memory.records.count(agent=me.agent) == len(world.among(me.tenant, user=None, agent=me.agent))
    assert memory.records.count(session=me.session) == 1
    yield from ()


def _search_metadata(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    yield memory.records.search_metadata("who", "same", user=me.user), world.of_user(me.tenant, me.user)
    yield (
        memory.records.search_metadata("who", "same", agent=me.agent),
        world.among(me.tenant, user=None, agent=me.agent),
    )
    for other in world.owners:
        if other.tenant != me.tenant:
            yield memory.records.search_metadata("is", other.mark), set()
        if other.user != me.user:
            yield memory.records.search_metadata("is", other.mark, user=me.user), set()


def _documents(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    yield memory.documents.list(user=me.user), world.among(me.tenant, user=me.user, agent=None)
    yield memory.documents.list(agent=me.agent), world.among(me.tenant, user=None, agent=me.agent)
    yield memory.documents.list(scope="global"), world.among(me.tenant, user=None, agent=None)
    yield memory.documents.list(user=f"{me.user}?"[-200:]), set()


def _document_text(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    yield memory.documents.text("same:uri", user=me.user), world.among(me.tenant, user=me.user, agent=None)
    yield memory.documents.text("same:uri", agent=me.agent), world.among(me.tenant, user=None, agent=me.agent)
    yield memory.documents.text("same:uri", scope="global"), world.among(me.tenant, user=None, agent=None)
    yield refused(DocumentNotFound, memory.documents.text, "same:uri", user=f"{me.user}?"[-200:]), set()


def _graph(world: World, me: Owner) -> Seen:
    memory = world.on(me)
    mine = world.of_user(me.tenant, me.user)
    yield memory.graph(user=me.user, fresh=True), mine
    yield memory.graph(agent=me.agent), world.among(me.tenant, user=None, agent=me.agent)
    yield memory.graph(scope="global"), world.among(me.tenant, user=None, agent=None)
    yield memory.graph(user=f"{me.user}?"[-200:]), set()
    assert memory.graph(user=me.user, entity=me.mark).entities
    for other in world.owners:
        if other.number not in mine:
            yield memory.graph(user=me.user, entity=other.mark, depth=5), set()


def _own(read: Callable[[Session], object]) -> Callable[[World, Owner], Seen]:
    """A verb of a session: its own, and through a handle made for somebody else, nothing."""

    def probe(world: World, me: Owner) -> Seen:
        assert me.session
        handle = world.on(me).load_session(me.session)
        yield read(handle), {me.number}
        for forged in forgeries(world, handle.info):
            with suppress(SessionNotFound):
                yield read(forged), set()

    return probe


def forgeries(world: World, info: SessionInfo) -> Iterator[Session]:
    """Handles that name this session, but not whose it is."""
    changes: list[dict[str, Any]] = [{"tenant": "elsewhere"}, {"user": "mallory"}, {"agent": "mallory"}]
    for change in changes:
        yield Session(world.memory._runtime, world.memory._authorizer, replace(info, metadata={}, **change))


def _context(world: World, me: Owner) -> Seen:
    """What its user, its agent and everybody in the tenant know, and what the user said in other chats."""
    assert me.session
    handle = world.on(me).load_session(me.session)
    shared = world.among(me.tenant, user=None, agent=None) | world.among(me.tenant, user=None, agent=me.agent)
    yield handle.context("secret"), shared | world.of_user(me.tenant, me.user)
    for forged in forgeries(world, handle.info):
        with suppress(SessionNotFound):
            yield forged.context("secret"), set()


def _user_context(world: World, me: Owner) -> Seen:
    """Without a conversation: what its user, the agent and everybody in the tenant know."""
    memory = world.on(me)
    shared = world.among(me.tenant, user=None, agent=None) | world.among(me.tenant, user=None, agent=me.agent)
    yield memory.context("secret", user=me.user, agent=me.agent), shared | world.of_user(me.tenant, me.user)
    yield (
        memory.context("secret", user=f"{me.user}?"[-200:], agent=f"{me.agent}?"[-200:]),
        world.among(me.tenant, user=None, agent=None),
    )


def _turn(world: World, me: Owner) -> Seen:
    """What a context sees; and a forged handle keeps nothing of the message it is given."""
    assert me.session
    handle = world.on(me).load_session(me.session)
    shared = world.among(me.tenant, user=None, agent=None) | world.among(me.tenant, user=None, agent=me.agent)
    with handle.turn("secret") as turn:
        yield turn.context, shared | world.of_user(me.tenant, me.user)
    for forged in forgeries(world, handle.info):
        before = world.rows()
        with pytest.raises(SessionNotFound), forged.turn("secret") as turn:
            turn.reply("mine now")
        assert world.rows() == before


def _list_files(world: World, me: Owner) -> Seen:
    """Only a store with a folder has any."""
    for answer, allowed in _own(lambda session: session.list_files())(world, me):
        yield answer, allowed if world.memory._runtime.folder else set()


def _file_sessions(world: World, me: Owner) -> Seen:
    """Plain files are one tenant's, too."""
    with suppress(Unsupported):
        for tenant in world.tenants:
            owner = next(owner for owner in world.owners if owner.tenant == tenant)
            world.on(owner).admin.file_sessions().create_session().set_working_memory(owner.mark)
        kept = [session.working_memory for session in world.on(me).admin.file_sessions().list()]
        yield kept, world.among(me.tenant, user=None, agent=None)


def _long_term(world: World, me: Owner) -> Seen:
    """Everybody writes their own, and nobody reads another's."""
    for owner in _people(world):
        assert owner.user
        memory = world.on(owner).notes.long_term(user=owner.user)
        memory.read()
        memory.write(f"secret {owner.mark}")
    assert me.user
    yield world.on(me).notes.long_term(user=me.user).read(), world.among(me.tenant, user=me.user, agent=None)


def _daily_notes(world: World, me: Owner) -> Seen:
    for owner in _people(world):
        assert owner.user
        if owner.mark not in world.on(owner).notes.day(user=owner.user):
            world.on(owner).notes.add_turn(owner.user, f"secret {owner.mark}", "")
    assert me.user
    yield world.on(me).notes.day(user=me.user), world.among(me.tenant, user=me.user, agent=None)


def _export_items(world: World, me: Owner) -> Seen:
    """What stands in the files of a user's folder, and in nobody else's."""
    assert me.user
    memory = world.on(me)
    memory.notes.export_items(user=me.user)
    path = memory.notes.long_term(user=me.user).path
    if path is not None:
        files = (path.parent / "items").rglob("*.jsonl")
        yield [file.read_text() for file in files], world.of_user(me.tenant, me.user)


def _profile(world: World, me: Owner) -> Seen:
    """What is known of a user in all chats, and nothing of any one chat."""
    assert me.user
    own = world.among(me.tenant, user=me.user, agent=None)
    yield world.on(me).profile(user=me.user), own
    yield world.on(me).profile(user=me.user), own  # as it was kept
    yield world.on(me).profile(user=f"{me.user}?"[-200:]), set()


def _grants(world: World, me: Owner) -> Seen:
    for owner in world.talkers():
        world.on(owner).access.grant(owner.user or "", f"read:user:{owner.mark}")
    yield world.on(me).access.grants(user=me.user), {owner.number for owner in _chats(world, me)}
    yield world.on(me).access.grants(), {owner.number for owner in world.talkers() if owner.tenant == me.tenant}
    for owner in world.talkers():
        world.on(owner).access.revoke(owner.user or "", f"read:user:{owner.mark}")


def _chats(world: World, me: Owner) -> list[Owner]:
    return [owner for owner in world.talkers() if (owner.tenant, owner.user) == (me.tenant, me.user)]


def _audit(world: World, me: Owner) -> Seen:
    memory, ours = world.on(me), {owner.number for owner in world.owners if owner.tenant == me.tenant}
    yield memory.access.audit(operation="remember", outcome="done", limit=1000), ours
    yield (
        memory.access.audit(operation="remember", outcome="done", user=me.user, limit=1000),
        world.of_user(me.tenant, me.user),
    )
    yield memory.access.audit(operation="session.append", user=f"{me.user}?"[-200:]), set()


def _schedule_search(world: World, me: Owner) -> Seen:
    for owner in world.talkers():
        world.plan(owner)
    schedules, mine = world.on(me).schedules, {owner.number for owner in world.talkers()}
    yield schedules.search(user=me.user), mine & world.of_user(me.tenant, me.user)
    yield schedules.search(user=me.user, agent=me.agent, text="secret", state="active"), {me.number}
    yield schedules.search(limit=1000), {number for number in mine if number in world.in_tenant(me.tenant)}
    assert schedules.count(user=me.user) == len(mine & world.of_user(me.tenant, me.user))
    for other in world.strangers(me):
        if other.user != me.user or other.tenant != me.tenant:
            yield schedules.search(user=me.user, text=other.mark), set()
    yield schedules.due(user=me.user), set()


def _of_a_schedule(verb: Callable[[ScheduleOperations], Callable[..., object]]) -> Callable[[World, Owner], Seen]:
    def probe(world: World, me: Owner) -> Seen:
        call = verb(world.on(me).schedules)
        yield call(world.plan(me)[0]), {me.number}
        yield call(world.plan(me)[0], user=me.user), {me.number}
        for other in world.strangers(me):
            if other.tenant != me.tenant:
                yield refused(ScheduleNotFound, call, world.plan(other)[0]), set()
            if other.tenant != me.tenant or other.user != me.user:
                yield refused(ScheduleNotFound, call, world.plan(other)[0], user=me.user), set()

    return probe


def _run_output(world: World, me: Owner) -> Seen:
    call = world.on(me).schedules.run_output
    yield call(world.plan(me)[1], user=me.user), {me.number}
    for other in world.strangers(me):
        if other.tenant != me.tenant or other.user != me.user:
            yield refused(ScheduleNotFound, call, world.plan(other)[1], user=me.user), set()


def _people(world: World) -> list[Owner]:
    """Each user once."""
    return [owner for owner in world.owners if owner.user and not owner.agent]


def _export(world: World, me: Owner) -> Seen:
    """Every byte of an export is the user's own, or the tenant's."""
    with TemporaryDirectory() as place:
        for name, user in (("user", me.user), ("tenant", None)):
            world.on(me).transfer.export(Path(place) / name, user=user)
            files = [file for file in (Path(place) / name).rglob("*") if file.is_file()]
            written = [file.name + file.read_text(encoding="utf-8") for file in files]
            tenant = {owner.number for owner in world.owners if owner.tenant == me.tenant}
            yield written, world.of_user(me.tenant, user) if user is not None else tenant


def _archive(world: World, me: Owner) -> Seen:
    file = BytesIO()
    world.on(me).transfer.archive(file, user=me.user)
    with ZipFile(file) as packed:
        written = [name + packed.read(name).decode() for name in packed.namelist()]
    yield written, world.of_user(me.tenant, me.user)


def _usage(world: World, me: Owner) -> Seen:
    """Models are called after who used them."""
    for owner in world.owners:
        if owner.session:
            world.on(owner).load_session(owner.session).add_usage(owner.mark)
    same = [owner for owner in world.owners if (owner.tenant, owner.user) == (me.tenant, me.user)]
    yield [world.on(me).admin.usage(user=me.user)], {owner.number for owner in same if owner.session}


def _receipts(world: World, me: Owner) -> Seen:
    """Of one's own tenant, and they name nobody."""
    assert me.user
    world.on(me).privacy.purge_user("somebody who was never here")  # a name longer than those of a world
    found = world.on(me).privacy.receipts(limit=1000)
    assert all(receipt.tenant == me.tenant for receipt in found)
    yield [replace(receipt, tenant="") for receipt in found], set()


def _keys(world: World, me: Owner) -> Seen:
    for owner in world.talkers():
        world.on(owner).access.keys.create(owner.mark, user=owner.user)
    mine = {owner.number for owner in world.talkers() if (owner.tenant, owner.user) == (me.tenant, me.user)}
    yield world.on(me).access.keys(user=me.user), mine
    yield world.on(me).access.keys(), {owner.number for owner in world.talkers() if owner.tenant == me.tenant}
    yield world.on(me).access.keys(user=f"{me.user}?"[-200:]), set()
    world.drop_keys()


def _acting_by_key(world: World, me: Owner) -> Seen:
    """Whoever looks the secret up, it is whose it is."""
    secret = world.on(me).access.keys.create("same", user=me.user).secret
    for tenant in world.tenants:
        theirs = world.memory.tenant(tenant).access.keys.acting(secret)
        yield theirs.records(limit=1000), world.of_user(me.tenant, me.user)
    assert world.memory.access.keys.required()
    world.drop_keys()


READS: dict[str, Callable[[World, Owner], Seen]] = {
    "privacy.receipts": _receipts,
    "sessions": _sessions,
    "jobs.list": _jobs,
    "find_session": _find_session,
    "load_session": _load_session,
    "context": _user_context,
    "recall": _recall,
    "recall with an agent": _recall_of_one_agent,
    "records.get": _record,
    "records.list": _records,
    "records.count": _count_records,
    "records.search_metadata": _search_metadata,
    "records.history": _history,
    "profile": _profile,
    "documents.list": _documents,
    "documents.text": _document_text,
    "graph.get": _graph,
    "admin.file_sessions": _file_sessions,
    "notes.long_term.read": _long_term,
    "notes.day": _daily_notes,
    "notes.export_items": _export_items,
    "access.grants": _grants,
    "access.audit": _audit,
    "transfer.export": _export,
    "transfer.archive": _archive,
    "admin.usage": _usage,
    "session.refresh": _own(lambda session: session.refresh()),
    "session.recent": _own(lambda session: session.recent(50)),
    "session.messages": _own(lambda session: session.messages()),
    "session.count": _own(lambda session: (session.count(), session.id)),
    "session.restore": _own(lambda session: session.restore()),
    "session.context": _context,
    "session.turn": _turn,
    "session.summary": _own(lambda session: session.summary()),
    "session.working_memory": _own(lambda session: session.working_memory),
    "session.transcript": _own(lambda session: session.transcript()),
    "session.export_transcript": _own(lambda session: session.export_transcript()),
    "session.list_files": _list_files,
    "session.usage": _own(lambda session: session.usage()),
    "session.kv.get": _own(lambda session: session.kv.get("same")),
    "session.kv.items": _own(lambda session: session.kv.items()),
    "schedules.search": _schedule_search,
    "schedules.count": _schedule_search,
    "schedules.due": _schedule_search,
    "schedules.get": _of_a_schedule(lambda schedules: schedules.get),
    "schedules.runs": _of_a_schedule(lambda schedules: schedules.runs),
    "schedules.run_output": _run_output,
    "access.keys.list": _keys,
    "access.keys.acting": _acting_by_key,
    "access.keys.required": _acting_by_key,
}
