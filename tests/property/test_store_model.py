"""Random operations on a store and on plain dicts: every read must agree, across closing and opening."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from limpet import Config, Limpet, Message, Record, TextPart
from limpet.config import SessionSettings
from limpet.errors import (
    IdempotencyConflict,
    InvalidInput,
    RecordNotFound,
    SequenceConflict,
    SessionNotFound,
    WrongState,
)
from limpet.model.message import Role
from limpet.model.scope import Owner, SessionKey
from limpet.model.session import SessionStatus
from limpet.search import word_index as index
from tests.examples import examples
from tests.property.dict_model import (
    PlainRecord,
    PlainSession,
    home_of_agent,
    home_of_all,
    home_of_session,
    home_of_user,
)
from tests.property.store_comparison import AGENTS, CAPS, TENANTS, USERS, Backend, StoreComparison, name_owner
from tests.property.store_drafts import (
    Draft,
    drafts,
    fields,
    json_values,
    labels,
    metadata,
    names,
    tags,
    words,
)

EXAMPLES = {"memory": 60, "sqlite": 40, "postgres": 8}
STEPS = 50


class StoreMachine(StoreComparison):
    @initialize()
    def begin(self) -> None:
        """Two sessions of one user to begin with: most of what goes wrong needs several calls on the same thing."""
        self.open()
        for chat in ("1", "1:2"):
            self.get_or_create("default", "alice", "assistant", chat, None, {})

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

    def marked(self, text: str) -> str:
        """The text with a word in front that nothing else has."""
        return f"mark{next(self.marks)}q {text}"

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
        stored = self.on(home.scope.tenant).remember(content, key=key, **name_owner(home), **given)
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
                memory.forget(key="nothing", **name_owner(home))
            return
        gone = [record.id]
        asked: dict[str, Any] = {"id": record.id}
        if how == "key":
            asked = {"key": record.key, **name_owner(home)}
        elif how in ("word", "dog"):
            word = record.content.split()[0] if how == "word" else "dog"
            gone = [other.now.id for other in self.plain.of_home(home) if word in _words(other.now)]
            asked = {"query": word, **name_owner(home)}
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


def _words(record: Record) -> list[str]:
    return f"{record.title or ''} {record.content}".split()


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
