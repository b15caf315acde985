"""A store beside plain dicts, and whether both say the same."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from limpet import Config, Limpet, Message, Record, Session
from limpet.config import EmbeddingSettings, SessionSettings
from limpet.errors import (
    RecordNotFound,
    SessionNotFound,
)
from limpet.model.message import Role
from limpet.model.scope import Level, Owner
from limpet.model.session import SessionStatus
from limpet.store.tables import TABLES
from tests.property.dict_model import (
    PlainMemory,
    PlainRecord,
    PlainSession,
    is_true,
    newest_first,
)

TENANTS = ("default", "acme")
USERS = ("alice", "Alice", "a:b")
AGENTS = ("assistant", "coder")
CAPS = (2, 3, 5)


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


class StoreComparison(RuleBasedStateMachine):
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

    def open(self) -> None:
        config = Config(session=SessionSettings(kv_cap=self.cap), embedding=EmbeddingSettings(model="none"))
        self.memory = Limpet.open(self.url, config=config, clock=lambda: self.now)

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.compare_everything()
            assert [finding for finding in self.memory.admin.doctor() if not finding.ok] == []
            self.find_every_word()
            self.memory.close()

    def alive(self) -> list[PlainSession]:
        return [session for session in self.plain.sessions.values() if not session.deleted]

    def handle(self, session: PlainSession) -> Session:
        return self.handles[session.info.id]

    def on(self, tenant: str) -> Limpet:
        return self.memory if tenant == "default" else self.memory.tenant(tenant)

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
        hits = self.on(record.home.scope.tenant).recall(word, **name_owner(record.home))
        if not is_true(record, self.now):
            assert hits == []
        else:
            assert [hit.source.id for hit in hits] == [record.id]


def name_owner(home: Owner) -> dict[str, Any]:
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
