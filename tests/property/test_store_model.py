"""Random operations on a store and on plain dicts: every read must agree, across closing and opening."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from limpet import Config, FilePart, ImagePart, Limpet, Message, Record, Session, TextPart, ToolCall
from limpet.config import EmbeddingSettings, SessionSettings
from limpet.errors import (
    IdempotencyConflict,
    InvalidInput,
    RecordNotFound,
    SequenceConflict,
    SessionNotFound,
    WrongState,
)
from limpet.model.message import Part, Role
from limpet.model.record import Layer, RecordType
from limpet.model.scope import Level, Owner, SessionKey
from limpet.model.session import SessionStatus
from limpet.search import word_index as index
from limpet.store.tables import TABLES
from tests.examples import examples
from tests.property.dict_model import (
    PlainMemory,
    PlainRecord,
    PlainSession,
    home_of_agent,
    home_of_all,
    home_of_session,
    home_of_user,
    is_true,
    newest_first,
)

TENANTS = ("default", "acme")
USERS = ("alice", "Alice", "a:b")
AGENTS = ("assistant", "coder")
CAPS = (2, 3, 5)
EXAMPLES = {"memory": 60, "sqlite": 40, "postgres": 8}
STEPS = 50

# A run may draw only so much: what is stored comes from a few choices of every kind, the order of calls from many.
words = st.sampled_from(
    (
        "",
        "the dog runs",
        "naïve café 東京タワー 🦊",
        "AND OR 'quotes\" %s :x $1 \\u0000",
        "control \x01\x1b[31m \r\n\t\u2028 \ufeff \U0010ffff",
        "x" * 700,
        "one. two. " * 90,
    )
)
names = st.sampled_from(("n", "x.y", "quote'", 'double"', "ключ", "a:b%c"))
json_values = st.sampled_from(
    (None, True, 0, -(2**60), 2**70, 0.1, 1e300, "", "ü'\"\\", [], {}, [1, [None, {"a.b": ["c"]}]], {"": {"k'": False}})
)
metadata = st.dictionaries(names, json_values, max_size=2)
labels = st.dictionaries(names, st.sampled_from(("v", "w", "ü'")), max_size=2)
moments = st.sampled_from(
    (
        datetime(1990, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 10, 12, 0, 30, 5, tzinfo=UTC),
        datetime(2100, 1, 1, tzinfo=UTC),
    )
)
parts = st.sampled_from(
    (
        (),
        (),
        (ImagePart("https://example.org/i.png", "image/png", "a 🐈"), TextPart("")),
        (FilePart("file:///tmp/a.txt", None, "näme"), ImagePart("data:image/png;base64,AAAA")),
    )
)
calls = st.sampled_from(
    (
        (),
        (),
        (ToolCall("c1", "look", {"for": "dogs", "deep": [1, None]}),),
        (ToolCall("", "a"), ToolCall("c1", "b", {"": ""})),
    )
)
tags = st.sampled_from(((), ("red",), ("blue", "red"), ("ta'g",)))


fields = st.fixed_dictionaries(
    {"type": st.sampled_from(RecordType), "layer": st.sampled_from(Layer)},
    optional={
        "tags": tags,
        "metadata": labels,
        "title": words,
        "confidence": st.sampled_from((0, 0.3, 1)),
        "pinned": st.just(True),
        "ttl": st.just(timedelta(seconds=30)),
    },
)


@dataclass(frozen=True)
class Draft:
    """A message before its text has its mark, and its number, if any, its place: so far above or below the last."""

    role: Role
    text: str
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...]
    metadata: dict[str, Any]
    created_at: datetime | None
    ahead: int | None
    idempotency_key: str | None


drafts = st.builds(
    Draft,
    role=st.sampled_from(Role),
    text=words,
    parts=parts,
    tool_calls=calls,
    metadata=metadata,
    created_at=st.none() | moments,
    ahead=st.sampled_from((None, None, None, None, None, 1, 3, 0, -1)),
    idempotency_key=st.sampled_from((None, None, "k1", "k2")),
)


class Backend:
    """Opens the store; a new one for each run of the machine."""

    def __init__(self, url: str) -> None:
        self.name = "memory" if url == ":memory:" else "postgres" if "://" in url else "sqlite"
        self._url = url
        self._runs = 0

    def fresh(self) -> str:
        self._runs += 1
        if self.name == "postgres":
            with Limpet.open(self._url) as memory:
                names = ", ".join(table.name for table in TABLES if table.name != "properties")
                store: Any = memory._runtime.store
                store.write(lambda tx: tx.db.execute_sql(f"TRUNCATE {names}"))
        return f"{self._url}/{self._runs}" if self.name == "sqlite" else self._url


class StoreMachine(RuleBasedStateMachine):
    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.url = backend.fresh()
        self.now = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
        self.cap = 3
        self.plain = PlainMemory()
        self.handles: dict[str, Session] = {}
        self.marks = itertools.count()
        self.gone: list[tuple[str, str, str]] = []  # tenant, user, and a word that must not be found any more
        self.keys = itertools.count()

    @initialize()
    def begin(self) -> None:
        """Two sessions of one user to begin with: most of what goes wrong needs several calls on the same thing."""
        self.open()
        for chat in ("1", "1:2"):
            self.get_or_create("default", "alice", "assistant", chat, None, {})

    def open(self) -> None:
        config = Config(session=SessionSettings(kv_cap=self.cap), embedding=EmbeddingSettings(model="none"))
        self.memory = Limpet.open(self.url, config=config, clock=lambda: self.now)

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.compare_everything()
            assert [finding for finding in self.memory.admin.doctor() if not finding.ok] == []
            self.find_every_word()
            self.memory.close()

    # Drawing what is there

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def a_session(self, data: st.DataObject, *, or_deleted: bool = True) -> PlainSession:
        known = [session for session in self.plain.sessions.values() if or_deleted or not session.deleted]
        return known[data.draw(st.integers(0, len(known) - 1), label="session")]

    def a_record(self, data: st.DataObject) -> PlainRecord:
        known = list(self.plain.records.values())
        return known[data.draw(st.integers(0, len(known) - 1), label="record")]

    def a_home(self, data: st.DataObject, tenant: str) -> Owner:
        homes = [home_of_user(tenant, user) for user in USERS]
        homes += [home_of_agent(tenant, agent) for agent in AGENTS] + [home_of_all(tenant)]
        homes += [home_of_session(session.info) for session in self.alive() if session.info.tenant == tenant]
        return homes[data.draw(st.integers(0, len(homes) - 1), label="home")]

    def alive(self) -> list[PlainSession]:
        return [session for session in self.plain.sessions.values() if not session.deleted]

    def handle(self, session: PlainSession) -> Session:
        return self.handles[session.info.id]

    def marked(self, text: str) -> str:
        """The text with a word in front that nothing else has."""
        return f"mark{next(self.marks)}q {text}"

    def on(self, tenant: str) -> Limpet:
        return self.memory if tenant == "default" else self.memory.tenant(tenant)

    has_session = precondition(lambda self: self.plain.sessions)
    has_record = precondition(lambda self: self.plain.records)

    # Sessions

    @rule(
        tenant=st.sampled_from(TENANTS),
        user=st.sampled_from(USERS),
        agent=st.sampled_from(AGENTS),
        chat=st.sampled_from(("1", "1:2", "x%3A")),
        thread=st.sampled_from((None, None, "1")),
        about=metadata,
    )
    def get_or_create(self, tenant: str, user: str, agent: str, chat: str, thread: str | None, about: Any) -> None:
        key = SessionKey("chan", chat, thread)
        now = self.tick()
        handle = self.on(tenant).session("chan", chat, thread, user=user, agent=agent, metadata=about)
        found = self.plain.live((tenant, user, agent, str(key)))
        if found is None:
            assert handle.id not in self.plain.sessions
            found = self.plain.open(handle.id, tenant, user, agent, key, about, now)
        assert handle.info == found.info
        self.handles[handle.id] = handle

    @has_session
    @rule(data=st.data(), given=st.lists(drafts, min_size=1, max_size=3))
    def append(self, data: st.DataObject, given: list[Draft]) -> None:
        session, now = self.a_session(data), self.tick()
        last = session.info.last_sequence
        messages = []
        for draft in given:
            marked = self.marked(draft.text)
            message = Message.new(
                draft.role,
                [TextPart(marked), *draft.parts] if draft.parts else marked,
                name="ann" if draft.tool_calls else None,
                tool_calls=draft.tool_calls,
                tool_call_id="c1" if draft.role is Role.TOOL else None,
                is_error=draft.role is Role.TOOL and bool(draft.parts),
                metadata=draft.metadata,
                created_at=draft.created_at,
                sequence=None if draft.ahead is None else max(1, last + draft.ahead),
                idempotency_key=draft.idempotency_key,
            )
            last = message.sequence or last + 1
            messages.append(message)
        self.store(session, messages, now)

    def store(self, session: PlainSession, messages: list[Message], now: datetime) -> None:
        handle = self.handle(session)
        if session.deleted:
            with pytest.raises(SessionNotFound):
                handle.extend(messages)
            return
        if session.info.state is not SessionStatus.ACTIVE and not session.knows(messages):
            with pytest.raises((WrongState, IdempotencyConflict)):
                handle.extend(messages)
            self.compare(session)
            return
        expected = session.append(messages, now)
        if expected is None:
            with pytest.raises((SequenceConflict, IdempotencyConflict)):
                handle.extend(messages)
        else:
            assert handle.extend(messages) == expected
        self.compare(session)

    @has_session
    @rule(data=st.data())
    def append_what_was_said_before(self, data: st.DataObject) -> None:
        """The same text again extends its chunk and adds none."""
        session = self.a_session(data, or_deleted=False) if self.alive() else None
        if session is not None and session.messages:
            old = session.messages[data.draw(st.integers(0, len(session.messages) - 1), label="message")]
            self.store(session, [replace(old, sequence=0, created_at=None, idempotency_key=None)], self.tick())

    @has_session
    @rule(data=st.data(), count=st.sampled_from((3, 8, 20)))
    def append_many(self, data: st.DataObject, count: int) -> None:
        session = self.a_session(data)
        self.store(session, [Message.new("user", self.marked("filler")) for _ in range(count)], self.tick())

    @has_session
    @rule(data=st.data(), go_on=st.booleans())
    def clear(self, data: st.DataObject, go_on: bool) -> None:
        session = self.a_session(data)
        if self.refused(session, self.handle(session).clear):
            return
        self.forget_words_of(session)
        session.clear()
        self.compare(session)
        if go_on:
            self.store(session, [Message.new("user", self.marked("on"))], self.tick())

    @has_session
    @rule(data=st.data())
    def rotate(self, data: st.DataObject) -> None:
        session, now = self.a_session(data), self.tick()
        handle = self.handle(session)
        if session.deleted:
            assert self.refused(session, handle.new)
            return
        fresh = handle.new()
        session.change(state=SessionStatus.TERMINATED)
        found = self.plain.live(session.owner)
        if found is None:
            info = session.info
            found = self.plain.open(fresh.id, info.tenant, info.user, info.agent, info.key, {}, now)
        assert fresh.info == found.info
        self.handles[fresh.id] = fresh
        self.compare(session)

    @has_session
    @rule(data=st.data(), wanted=st.sampled_from(("pause", "resume", "terminate")))
    def set_state(self, data: st.DataObject, wanted: str) -> None:
        session = self.a_session(data)
        call = getattr(self.handle(session), wanted)
        if self.refused(
            session, call, but=lambda: session.info.state is SessionStatus.TERMINATED and wanted != "terminate"
        ):
            return
        states = {"pause": SessionStatus.PAUSED, "resume": SessionStatus.ACTIVE, "terminate": SessionStatus.TERMINATED}
        session.change(state=states[wanted])
        assert self.handle(session).info == session.info

    def refused(self, session: PlainSession, call: Callable[[], Any], but: Callable[[], bool] = lambda: False) -> bool:
        """Make the call. True when it was refused, as it must be on a deleted session, or where ``but`` says so."""
        expected = SessionNotFound if session.deleted else InvalidInput if but() else None
        if expected is None:
            call()
            return False
        with pytest.raises(expected):
            call()
        return True

    @has_session
    @rule(data=st.data(), changes=st.dictionaries(names, json_values, max_size=3))
    def update_metadata(self, data: st.DataObject, changes: dict[str, str | None]) -> None:
        session = self.a_session(data)
        if not self.refused(session, lambda: self.handle(session).update_metadata(changes)):
            merged = {**session.info.metadata, **changes}
            session.change(metadata={key: value for key, value in merged.items() if value is not None})
            assert self.handle(session).metadata == session.info.metadata

    @precondition(lambda self: len(self.plain.sessions) > 3)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        session = self.a_session(data)
        if session.deleted:
            assert self.refused(session, self.handle(session).delete)
            return
        counts = self.handle(session).delete()
        expected = {"messages": len(session.messages), "summaries": int(session.summary is not None)}
        self.forget_words_of(session)
        for record in self.plain.of_home(home_of_session(session.info)):
            self.forget_words_in(record.now)
        expected |= {"sessions": 1, "records": self.plain.delete_session(session), "usage": len(session.usage)}
        assert {kind: counts.get(kind, 0) for kind in expected} == expected
        self.compare(session)

    # What hangs on a session

    @has_session
    @rule(data=st.data(), keys=st.sampled_from(("a", "b", "ab", "bc", "cab", "abcde", "edc")), value=json_values)
    def kv_set(self, data: st.DataObject, keys: str, value: Any) -> None:
        session = self.a_session(data)
        for key in keys:
            if not self.refused(session, lambda key=key: self.handle(session).kv.set(key, value)):  # type: ignore[misc]
                session.set_kv(key, value, self.cap)
        self.compare(session)

    @has_session
    @rule(data=st.data(), key=st.sampled_from("abcde"))
    def kv_delete(self, data: st.DataObject, key: str) -> None:
        session = self.a_session(data)
        answers = []
        if not self.refused(session, lambda: answers.append(self.handle(session).kv.delete(key))):
            session.trim_kv(self.cap)  # what is beyond a lowered cap is gone, and does not come back
            assert answers == [session.kv.pop(key, self) is not self]
            self.compare(session)

    @has_session
    @rule(
        data=st.data(),
        text=words,
        ahead=st.sampled_from((0, 0, -1, -2, 1)),
        stale=st.sampled_from((0, 0, 0, 1)),
        anyway=st.booleans(),
    )
    def swap_summary(self, data: st.DataObject, text: str, ahead: int, stale: int, anyway: bool) -> None:
        session, now = self.a_session(data), self.tick()
        handle, upper = self.handle(session), max(0, session.info.last_sequence + ahead)
        epoch = (session.summary.epoch if session.summary else 0) + stale
        answers: list[bool] = []

        def call() -> None:
            answers.append(handle.set_summary(text, upper) if anyway else handle.swap_summary(text, upper, epoch))

        if not self.refused(session, call, but=lambda: upper > session.info.last_sequence):
            assert answers == [session.swap(text, upper, None if anyway else epoch, now)]
            self.compare(session)

    @has_session
    @rule(data=st.data(), model=names, tokens=st.sampled_from((0, 7, 10**9)), nanos=st.sampled_from((0, 1, 10**9 - 1)))
    def add_usage(self, data: st.DataObject, model: str, tokens: int, nanos: int) -> None:
        session = self.a_session(data)
        call = self.handle(session).add_usage
        if not self.refused(session, lambda: call(model, input_tokens=tokens, cost=nanos / 1e9)):
            session.add_usage(model, tokens, nanos)
            self.compare(session)

    # Records

    @rule(
        data=st.data(),
        tenant=st.sampled_from(TENANTS),
        key=st.sampled_from((None, "dog", "cat")),
        text=words,
        given=fields,
    )
    def remember(self, data: st.DataObject, tenant: str, key: str | None, text: str, given: dict[str, Any]) -> None:
        self.keep(self.a_home(data, tenant), key, text, given)

    @precondition(lambda self: any(record.now.key for record in self.plain.records.values()))
    @rule(data=st.data(), later=st.sampled_from((0, 60)), text=words, given=fields)
    def say_again(self, data: st.DataObject, later: int, text: str, given: dict[str, Any]) -> None:
        keyed = [record.now for record in self.plain.records.values() if record.now.key]
        record = keyed[data.draw(st.integers(0, len(keyed) - 1), label="record")]
        self.now += timedelta(seconds=later)
        self.keep(record.home, record.key, text, given)

    def keep(self, home: Owner, key: str | None, text: str, given: dict[str, Any]) -> None:
        now, content = self.tick(), self.marked(text)
        stored = self.on(home.scope.tenant).remember(content, key=key, **_owner(home), **given)
        if (old := self.plain.with_key(home, key)) is not None:
            self.forget_words_in(old.now)
        changes = {"content": content, "key": key, **given}
        # What is left out, or empty, stays as it was.
        changes = {name: value for name, value in changes.items() if value not in (None, ())}
        if (ttl := changes.pop("ttl", None)) is not None:
            changes["expires_at"] = now + ttl
        assert stored == self.plain.remember(stored.id, home, changes, now)
        self.compare_record(stored.id)

    @has_record
    @rule(
        data=st.data(),
        text=st.none() | words,
        changes=st.fixed_dictionaries(
            {},
            optional={
                "tags": tags,
                "metadata": labels,
                "title": words,
                "salience": st.sampled_from((0.25, 1)),
                "pinned": st.booleans(),
            },
        ),
        foreign=st.booleans(),
    )
    def update(self, data: st.DataObject, text: str | None, changes: dict[str, Any], foreign: bool) -> None:
        record, now = self.a_record(data), self.tick()
        memory = self.on(record.now.home.scope.tenant)
        if text is not None:
            changes = {**changes, "content": self.marked(text)}
        if foreign:
            with pytest.raises(RecordNotFound):
                memory.records.update(record.now.id, user="nobody", **changes)
        else:
            if "content" in changes:
                self.forget_words_in(record.now)
            assert memory.records.update(record.now.id, **changes) == record.change(changes, now)
        self.compare_record(record.now.id)

    @has_record
    @rule(data=st.data(), how=st.sampled_from(("id", "key", "dog", "word", "no such key")))
    def forget(self, data: st.DataObject, how: str) -> None:
        record = self.a_record(data).now
        home = record.home
        memory = self.on(home.scope.tenant)
        if how == "no such key" or (how == "key" and record.key is None):
            with pytest.raises(RecordNotFound):
                memory.forget(key="nothing", **_owner(home))
            return
        gone = [record.id]
        asked: dict[str, Any] = {"id": record.id}
        if how == "key":
            asked = {"key": record.key, **_owner(home)}
        elif how in ("word", "dog"):
            word = record.content.split()[0] if how == "word" else "dog"
            gone = [other.now.id for other in self.plain.of_home(home) if word in _words(other.now)]
            asked = {"query": word, **_owner(home)}
        answer = memory.forget(**asked)
        assert sorted(answer.ids) == sorted(gone)
        assert answer.counts.get("records", 0) == len(gone)
        for id in gone:
            self.forget_words_in(self.plain.records.pop(id).now)
            self.compare_record(id)

    # Time, and the store itself

    @rule(seconds=st.sampled_from((1, 10, 60)))
    def let_time_pass(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.backend.name != "memory")
    @rule(cap=st.sampled_from(CAPS))
    def reopen(self, cap: int) -> None:
        self.memory.close()
        self.cap = cap
        self.open()
        for session in self.plain.sessions.values():
            if not session.deleted:
                self.handles[session.info.id] = self.on(session.info.tenant).load_session(session.info.id)
            else:
                with pytest.raises(SessionNotFound):
                    self.on(session.info.tenant).load_session(session.info.id)
                self.handles.pop(session.info.id)
        self.plain.sessions = {id: session for id, session in self.plain.sessions.items() if not session.deleted}
        self.compare_everything()

    # Comparing

    def compare(self, session: PlainSession) -> None:
        handle = self.handle(session)
        if session.deleted:
            with pytest.raises(SessionNotFound):
                handle.count()
            assert (handle.messages(), handle.recent(5), handle.kv.items(), handle.summary()) == ([], [], {}, None)
            return
        assert handle.refresh() == session.info
        assert handle.messages() == session.messages
        assert handle.count() == len(session.messages)
        assert handle.recent(3) == session.messages[-3:]
        middle = session.info.last_sequence // 2
        assert handle.messages(after=middle, limit=2) == [m for m in session.messages if m.sequence > middle][:2]
        assert handle.messages(before=middle) == [m for m in session.messages if m.sequence < middle]
        assert list(handle.kv.items().items()) == list(session.kv.items())[-self.cap :]
        assert handle.summary() == session.summary
        assert list(handle.usage().models) == [session.usage[model] for model in sorted(session.usage)]

    def compare_record(self, id: str) -> None:
        for tenant in TENANTS:
            record = self.plain.records.get(id)
            memory = self.on(tenant)
            if record is None or record.now.home.scope.tenant != tenant:
                for call in (memory.records.get, memory.records.history):
                    with pytest.raises(RecordNotFound):
                        call(id)
            else:
                assert memory.records.get(id) == record.now
                assert memory.records.history(id) == record.versions

    def compare_everything(self) -> None:
        for session in self.plain.sessions.values():
            self.compare(session)
        for id in self.plain.records:
            self.compare_record(id)
        for tenant in TENANTS:
            self.compare_lists(tenant)
        stats = self.memory.admin.stats()
        assert stats["sessions"] == len(self.alive())
        assert stats["messages"] == sum(len(session.messages) for session in self.alive())
        assert stats["records"] == len(self.plain.records)

    def compare_lists(self, tenant: str) -> None:
        memory = self.on(tenant)
        everything: dict[str, Any] = {"limit": 1000}
        assert memory.sessions(**everything) == self.plain.listed(tenant)
        assert memory.sessions(channel="chan", limit=2, offset=1) == self.plain.listed(tenant)[1:3]
        assert memory.sessions(channel="other") == []
        for state in SessionStatus:
            assert memory.sessions(state=state, **everything) == self.plain.listed(tenant, state=state)
        for agent in AGENTS:
            assert memory.sessions(agent=agent, **everything) == self.plain.listed(tenant, agent=agent)
            self.compare_records(tenant, agent=agent)
        for user in USERS:
            assert memory.sessions(user=user, **everything) == self.plain.listed(tenant, user=user)
            self.compare_records(tenant, user=user)
        self.compare_records(tenant)

    def compare_records(self, tenant: str, **scope: Any) -> None:
        memory = self.on(tenant)
        in_scope = list(self.plain.in_scope(tenant, **scope))
        everything = newest_first(record.now for record in in_scope)
        true_now = [record for record in everything if is_true(record, self.now)]
        assert memory.records(limit=1000, **scope) == true_now
        assert memory.records(limit=2, offset=1, **scope) == true_now[1:3]
        assert memory.records.count(**scope) == len(true_now)
        assert memory.records(limit=1000, history=True, **scope) == everything
        then = self.now - timedelta(seconds=10)
        true_then = newest_first(said for record in in_scope if (said := record.at(then)) is not None)
        assert memory.records(limit=1000, as_of=then, **scope) == true_then
        assert memory.records(limit=2, offset=1, as_of=then, **scope) == true_then[1:3]
        assert memory.records(tags=["red"], as_of=then, **scope) == [
            record for record in true_then if "red" in record.tags
        ]
        assert memory.records(types=["fact"], tags=["red"], limit=1000, **scope) == [
            record for record in true_now if record.type == "fact" and "red" in record.tags
        ]
        for key, value in (("x.y", "v"), ("quote'", "ü'"), ("a:b%c", "w")):
            expected = [record for record in true_now if record.metadata.get(key) == value]
            assert memory.records.search_metadata(key, value, **scope) == expected

    # Words

    def forget_words_of(self, session: PlainSession) -> None:
        where = session.info.tenant, session.info.user
        self.gone += [(*where, message.text.split()[0]) for message in session.messages[:3]]

    def forget_words_in(self, record: Record) -> None:
        if record.user is not None:
            self.gone.append((record.home.scope.tenant, record.user, record.content.split()[0]))

    def find_every_word(self) -> None:
        """Each word that stands in exactly one place is found there, and those that were removed nowhere."""
        for session in self.alive():
            for message in [*session.messages[:20], *session.messages[-20:]]:
                self.find_message(session, message)
        for record in self.plain.records.values():
            self.find_record(record)
        for tenant, user, word in self.gone[-50:]:
            assert self.on(tenant).recall(word, user=user) == []

    def find_message(self, session: PlainSession, message: Message) -> None:
        word = message.text.split()[0]
        hits = self.on(session.info.tenant).recall(word, user=session.info.user, k=5, recipe="words")
        if message.role is Role.SYSTEM:
            hits = [hit for hit in hits if hit.source.role == "system"]
            assert hits == []
            return
        mine = [hit for hit in hits if hit.source.id == session.info.id and hit.source.role == message.role]
        assert mine, f"{word} is not found"
        for hit in mine:
            assert word in hit.text.split()
            assert hit.source.first_sequence is not None
            assert hit.source.last_sequence is not None
            assert (
                hit.source.first_sequence <= message.sequence <= hit.source.last_sequence
                or hit.source.name != message.name
            )

    def find_record(self, plain: PlainRecord) -> None:
        record = plain.now
        word = record.content.split()[0]
        hits = self.on(record.home.scope.tenant).recall(word, **_owner(record.home))
        if not is_true(record, self.now):
            assert hits == []
        else:
            assert [hit.source.id for hit in hits] == [record.id]


def _words(record: Record) -> list[str]:
    return f"{record.title or ''} {record.content}".split()


def _owner(home: Owner) -> dict[str, Any]:
    """How a caller says whose memory it is."""
    match home.level:
        case Level.USER:
            return {"user": home.scope.user}
        case Level.AGENT:
            return {"agent": home.scope.agent}
        case Level.SESSION:
            return {"session": home.scope.session}
        case Level.GLOBAL:
            return {"scope": "global"}


@pytest.mark.hypothesis
@pytest.mark.slow
def test_store_matches_dict_model(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few enough that the word index is merged and taken apart again and again.
    monkeypatch.setattr(index, "MAX_TAIL", 7)
    monkeypatch.setattr(index, "BLOCK_ENTRIES", 3)
    backend = Backend(store_url)
    run_state_machine_as_test(
        lambda: StoreMachine(backend),  # type: ignore[arg-type]  # a factory will do
        settings=settings(
            max_examples=examples(EXAMPLES[backend.name]),
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_kv_entry_evicted_by_lower_cap_stays_deleted(store_url: str) -> None:
    """Deleting one of the entries that are left must not bring back one that is gone."""
    if store_url == ":memory:":
        pytest.skip("what is in memory is not opened twice")

    def opened(cap: int) -> Limpet:
        return Limpet.open(store_url, config=Config(session=SessionSettings(kv_cap=cap)))

    with opened(3) as memory:
        for key in "abc":
            memory.session("chan", "chat", user="alice").kv.set(key, key)
    with opened(2) as memory:
        kv = memory.session("chan", "chat", user="alice").kv
        assert not kv.delete("a")
        assert kv.delete("c")
        assert kv.items() == {"b": "b"}
    with opened(3) as memory:
        assert memory.session("chan", "chat", user="alice").kv.items() == {"b": "b"}
