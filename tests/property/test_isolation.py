"""Nothing leaks: whoever asks with one scope gets that scope's rows, whatever everybody is called.

Everything stored carries the mark of its owner, and every public verb has its entry below. A new verb without one fails
the first test.
"""

from __future__ import annotations

import itertools
import json
import re
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from limpet import Document, Limpet, Message, Receipt, Schedule, Session, SessionInfo
from limpet.api.schedules import ScheduleOperations
from limpet.errors import (
    DocumentNotFound,
    InvalidInput,
    LimpetError,
    RecordNotFound,
    ScheduleNotFound,
    SessionNotFound,
    Unsupported,
)
from limpet.model.scope import Level, Partition, Scope
from limpet.model.values import check_name
from limpet.schedules.repository import ScheduleQueue
from limpet.schedules.runner import RunHandlers, Runner
from limpet.security.operation import OPERATIONS
from limpet.store.jobs import Jobs
from limpet.store.tables import TABLES
from limpet.store.tx import Tx
from tests.examples import examples

HOSTILE = (
    "alice",
    "Alice",
    "ALICE",
    "alice:bob",
    "alice%3Abob",
    "alice%3abob",
    "alice%253Abob",
    "a:b",
    "a",
    "' OR 1=1",
    "'; DROP TABLE messages; --",
    "%",
    "_",
    "al%",
    "*",
    "\\",
    "alice\\",
    '"alice"',
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{CYRILLIC SMALL LETTER A}lice",
    "\N{FULLWIDTH LATIN SMALL LETTER A}lice",
    "alice\N{ZERO WIDTH SPACE}",
    "stra\N{LATIN SMALL LETTER SHARP S}e",
    "strasse",
    "\N{LATIN SMALL LETTER DOTLESS I}",
    "i",
    "default",
    "global",
    "user",
    "None",
    "null",
    "0",
    "../alice",
    "日本",
    "🦊",
    "x" * 256,
)


def _is_name(text: str) -> bool:
    with suppress(LimpetError):
        return check_name(text, "name") == text
    return False


names = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=12).filter(_is_name))
few = st.lists(names, min_size=2, max_size=3, unique=True)
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_MARK = re.compile(rf"owner(\d+)x|({_ID.pattern})")
_numbers = itertools.count()


@dataclass
class Owner:
    """A session with its user and agent in a tenant, or only some of these, and all that bears its mark."""

    number: int
    tenant: str
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    record: str = ""

    @property
    def mark(self) -> str:
        return f"owner{self.number}x"


@dataclass
class World:
    """Tenants, each with the same users and agents, who all say the same in the same chats, but for their marks."""

    memory: Limpet
    tenants: list[str]
    owners: list[Owner] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Limpet, tenants: list[str], users: list[str], agents: list[str]) -> World:
        number = next(_numbers)
        world = cls(memory, [f"{tenant[:32]}#{number}" for tenant in tenants])
        for tenant in world.tenants:
            world._settle(world._new(tenant), scope="global")
            for agent in agents:
                world._settle(world._new(tenant, agent=agent), agent=agent)
            for user in users:
                world._settle(world._new(tenant, user=user), user=user)
                for agent in agents:
                    world._talk(world._new(tenant, user=user, agent=agent))
            memory.tenant(tenant).jobs.run()
        return world

    def _new(self, tenant: str, **names: str) -> Owner:
        self.owners.append(Owner(next(_numbers), tenant, **names))
        return self.owners[-1]

    def _settle(self, owner: Owner, **scope: Any) -> None:
        """A record with a key and labels that everybody has."""
        record = self.on(owner).remember(
            f"secret #{owner.mark}", key="same_key", tags=["same"], metadata={"who": "same", "is": owner.mark}, **scope
        )
        self.on(owner).records.update(record.id, title=owner.mark)
        owner.record = record.id
        self.ids[record.id] = owner.number
        if "session" not in scope:
            document = self.on(owner).documents.add(
                "same:uri", f"# {owner.mark}\n\nsecret {owner.mark}", metadata={"is": owner.mark}, **scope
            )
            assert isinstance(document, Document)
            self.ids[document.id] = owner.number

    def plan(self, owner: Owner) -> tuple[str, str]:
        """A schedule of one who talks, and a run of it."""
        schedules = self.on(owner).schedules
        found = schedules.search(user=owner.user, agent=owner.agent)
        if not found:
            made = schedules.create(
                str(owner.user), goal=f"secret {owner.mark}", cadence="every: 1h", agent=owner.agent, chat="same"
            )
            self.ids[made.id] = owner.number
            runtime = self.memory._runtime
            later = runtime.clock() + timedelta(hours=2)
            Runner(runtime.store, lambda: later, runtime.config.schedules, runtime.new_id).run(
                RunHandlers(lambda firing: firing.goal, None, lambda schedule: None), until_idle=True
            )
            found = [made]
        [run] = schedules.runs(found[0].id)
        self.ids[run.id] = owner.number
        return found[0].id, run.id

    def _talk(self, owner: Owner) -> None:
        session = self.on(owner).session(
            "chan", "chat", user=owner.user, agent=owner.agent, metadata={"is": owner.mark}
        )
        owner.session = session.id
        self.ids[session.id] = owner.number
        session.append("user", f"secret #{owner.mark}", idempotency_key="same", metadata={"is": owner.mark})
        session.append("assistant", f"answer {owner.mark}")
        session.kv.set("same", owner.mark)
        session.set_working_memory(owner.mark)
        session.swap_summary(owner.mark, 1, 0)
        session.add_usage(f"model {owner.mark}", input_tokens=1)
        folder = self.memory._runtime.session_folder(session.id)
        if folder is not None:
            folder.mkdir(parents=True)
            (folder / f"{owner.mark}.txt").write_text(owner.mark)
        self._settle(owner, session=session.id)

    def lay_jobs_aside(self) -> dict[int, Owner]:
        """A dead job of everybody who talks, by its id."""
        store: Any = self.memory._runtime.store
        now = self.memory._now()
        for owner in self.talkers():
            space = Partition(owner.tenant, Level.USER, owner.user or "")
            store.write(lambda tx, space=space, mark=owner.mark: Jobs(tx).enqueue(space, "watched", mark, now))
        store.write(lambda tx: tx.db.execute_sql("UPDATE jobs SET dead = 1 WHERE kind = 'watched'"))
        marks = {owner.mark: owner for owner in self.talkers()}
        found = {job.id: job for tenant in self.tenants for job in self.memory.tenant(tenant).jobs.list(limit=1000)}
        return {id: marks[job.detail] for id, job in found.items() if job.detail in marks}

    def drop_jobs(self) -> None:
        store: Any = self.memory._runtime.store
        store.write(lambda tx: tx.db.execute_sql("DELETE FROM jobs WHERE kind = 'watched'"))

    def drop_keys(self) -> None:
        store: Any = self.memory._runtime.store
        store.write(lambda tx: tx.db.execute_sql("DELETE FROM api_keys"))
        self.memory.access.keys.allow_anonymous()

    def on(self, owner: Owner) -> Limpet:
        return self.memory.tenant(owner.tenant)

    def talkers(self) -> list[Owner]:
        return [owner for owner in self.owners if owner.session]

    def strangers(self, me: Owner) -> list[Owner]:
        """Sessions that are not mine: of another tenant, of another user, or with another agent."""
        return [other for other in self.talkers() if other is not me]

    def among(self, tenant: str, **names: str | None) -> set[int]:
        """The owners with all these names."""
        return {
            owner.number
            for owner in self.owners
            if owner.tenant == tenant and all(getattr(owner, name) == value for name, value in names.items())
        }

    def in_tenant(self, tenant: str) -> set[int]:
        return {owner.number for owner in self.owners if owner.tenant == tenant}

    def of_user(self, tenant: str, user: str | None) -> set[int]:
        return self.among(tenant, user=user)

    def seen_in(self, answer: object) -> set[int]:
        """Whose marks and ids an answer shows."""
        return {
            int(mark) if mark else self.ids[id] for mark, id in _MARK.findall(repr(answer)) if mark or id in self.ids
        }

    def rows(self) -> dict[str, list[str]]:
        """Every row there is, as text."""
        store: Any = self.memory._runtime.store
        return store.read(  # type: ignore[no-any-return]
            lambda tx: {
                table.name: sorted(
                    map(_shown, tx.db.execute_sql(f"SELECT {', '.join(table.columns)} FROM {table.name}"))
                )
                for table in TABLES
                if table.name != "audit"  # what was tried is told there
            }
        )

    def rows_of(self, numbers: set[int]) -> list[str]:
        return [row for found in self.rows().values() for row in found if self.seen_in(row) & numbers]


def _shown(row: tuple[Any, ...]) -> str:
    return repr([bytes(value) if isinstance(value, memoryview) else value for value in row])


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


def refused(kind: type[LimpetError], call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """The answer of a call that must be refused: what its error says beside the id it was asked for."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return _ID.sub("…", str(caught.value))


def test_every_operation_is_watched() -> None:
    watched = {verb for verb in READS.keys() | WRITES.keys() if " " not in verb}
    assert OPERATIONS.keys() - watched - NEITHER.keys() == set(), "a new operation: show here that it leaks nothing"
    assert watched - OPERATIONS.keys() == set(), "gone: remove its entry"


EXAMPLES = {"memory": 4, "sqlite": 2, "postgres": 1}
worlds = {"tenants": few, "users": few, "agents": few}
look_alike = {
    "tenants": ["acme", "ACME"],
    "users": ["\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}", "' OR 1=1"],
    "agents": ["a:b", "a%3Ab"],
}
paths = {"tenants": ["acme", "../acme"], "users": ["alice", "../alice", "x" * 256], "agents": ["a", "../a"]}


def _in_worlds(test: Callable[..., None]) -> Callable[[Limpet], None]:
    def run(memory: Limpet) -> None:
        @settings(
            max_examples=examples(EXAMPLES[memory.admin.stats()["backend"]]),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(**worlds)
        @example(**look_alike)
        @example(**paths)
        def on_one_store(tenants: list[str], users: list[str], agents: list[str]) -> None:
            test(World.of(memory, tenants, users, agents))

        on_one_store()

    return run


@pytest.mark.hypothesis
@pytest.mark.slow
def test_reads_never_return_data_of_others(memory: Limpet) -> None:
    def look(world: World) -> None:
        for me in world.talkers()[:: max(1, len(world.talkers()) // 6)]:
            for verb, probe in READS.items():
                for answer, allowed in probe(world, me):
                    assert world.seen_in(answer) == allowed, f"{verb} asked by {me}"

    _in_worlds(look)(memory)


def _within(partitions: set[int], rows: list[str]) -> list[str]:
    return [row for row in rows if literal_eval(row)[1] in partitions]


@pytest.mark.hypothesis
@pytest.mark.slow
def test_writes_never_change_data_of_others(memory: Limpet) -> None:
    def attack(world: World) -> None:
        for owner in world.talkers():
            world.plan(owner)
        before = world.rows()
        known = {literal_eval(row)[1] for row in before["partitions"]}
        for me in world.talkers()[:: max(1, len(world.talkers()) // 4)]:
            for verb, attempt in WRITES.items():
                attempt(world, me)
                after = world.rows()
                if verb in ("transfer.import_", "transfer.import_file"):
                    after = {**after, "imports": before["imports"]}
                if verb == "documents.add":
                    before = {**before, "partitions": after["partitions"]}  # the newcomer's own
                if verb == "notes.add_turn":  # the newcomers' own
                    assert _within(known, after["notes"]) == _within(known, before["notes"])
                    before = {**before, "partitions": after["partitions"], "notes": after["notes"]}
                if verb == "notes.import_items":
                    before = {**before, "imports": after["imports"]}  # the mark of one's own files
                if verb.startswith("privacy.purge_"):  # of nobody: a receipt
                    before = {**before, "receipts": after["receipts"], "properties": after["properties"]}
                assert after == before, f"{verb} by {me}"

    _in_worlds(attack)(memory)


@pytest.mark.hypothesis
@pytest.mark.slow
def test_forget_and_delete_keep_data_of_others(memory: Limpet) -> None:
    def remove(world: World) -> None:
        me = world.talkers()[0]
        assert me.user
        mine = world.of_user(me.tenant, me.user)
        others = {owner.number for owner in world.owners} - mine
        before = world.rows_of(others)
        assert world.on(me).forget(query="secret", user=me.user).total == len(mine)
        world.on(me).documents.remove("same:uri", user=me.user)
        for owner in world.talkers():
            if owner.number in mine:
                world.on(owner).load_session(owner.session or "").delete()
        assert world.rows_of(others) == before
        assert world.rows_of(mine) == []
        assert [finding for finding in world.memory.admin.doctor() if not finding.ok] == []

    _in_worlds(remove)(memory)


@pytest.mark.hypothesis
@pytest.mark.slow
def test_purge_keeps_data_of_others(memory: Limpet) -> None:
    def purge(world: World) -> None:
        me = world.talkers()[0]
        assert me.user
        mine = world.of_user(me.tenant, me.user)
        others = {owner.number for owner in world.owners} - mine
        before = world.rows_of(others)
        assert world.on(me).privacy.purge_older(me.user, 1).total == 0
        assert world.on(me).privacy.purge_user(me.user).verified
        assert world.rows_of(others) == before
        assert world.rows_of(mine) == []
        assert [finding for finding in world.memory.admin.doctor() if not finding.ok] == []

    _in_worlds(purge)(memory)


def test_session_ids_differ_for_every_key_user_agent_and_tenant(memory: Limpet) -> None:
    """Keys are built from parts: no part may reach into the next."""
    seen: dict[str, tuple[str | None, ...]] = {}
    parts = ("a", "a:b", "b", "b:c", "c", "a%3Ab", "%", "%25", "%3A")
    for channel, chat, thread in itertools.product(parts[:5], parts, (None, *parts[2:5])):
        made = memory.session(channel, chat, thread, user="u")
        assert seen.setdefault(made.id, (channel, chat, thread)) == (channel, chat, thread)
    for user, agent in itertools.product(HOSTILE, ("a", "A", "a:b")):
        made = memory.session("a", "b", user=user, agent=agent)
        assert seen.setdefault(made.id, (user, agent)) == (user, agent)
    for tenant in HOSTILE:
        made = memory.tenant(f"t {tenant}"[:256]).session("a", "b", user="u", agent="a")
        assert seen.setdefault(made.id, (tenant,)) == (tenant,)
