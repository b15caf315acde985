"""The same memory in plain dicts: slow, obvious, and what every store must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from limpet import Message, Record, SessionInfo, Summary
from limpet.model.record import Layer, RecordSource, RecordType, fingerprint
from limpet.model.scope import Level, Owner, Scope, SessionKey
from limpet.model.session import ModelUsage, SessionStatus


@dataclass
class PlainSession:
    info: SessionInfo
    messages: list[Message] = field(default_factory=list)
    kv: dict[str, Any] = field(default_factory=dict)
    summary: Summary | None = None
    usage: dict[str, ModelUsage] = field(default_factory=dict)
    cleared_through: int = 0
    last_epoch: int = 0
    deleted: bool = False

    @property
    def owner(self) -> tuple[str, str, str, str]:
        """Whose live session under this key it is; there is one at most."""
        return self.info.tenant, self.info.user, self.info.agent, str(self.info.key)

    @property
    def is_live(self) -> bool:
        return not self.deleted and self.info.state is not SessionStatus.TERMINATED

    def change(self, **values: Any) -> None:
        self.info = replace(self.info, **values)

    def knows(self, given: Iterable[Message]) -> bool:
        """Whether all of them were stored before, under their keys."""
        keys = {message.idempotency_key for message in self.messages} - {None}
        return all(message.idempotency_key in keys for message in given)

    def append(self, given: Iterable[Message], now: datetime) -> list[Message] | None:
        """None when a sequence is refused, or another message has the key: then nothing is stored."""
        kept, last, active = list(self.messages), self.info.last_sequence, self.info.last_active_at
        answers = []
        for message in given:
            known = [old for old in kept if message.idempotency_key and old.idempotency_key == message.idempotency_key]
            if known:
                if not known[0].is_duplicate_of(message):
                    return None
                answers += known
                continue
            if message.sequence and message.sequence <= last:
                return None
            last = message.sequence or last + 1
            stored = replace(message, sequence=last, created_at=message.created_at or now)
            assert stored.created_at is not None
            active = max(active, min(stored.created_at, now))  # a date to come is no activity
            kept.append(stored)
            answers.append(stored)
        self.messages = kept
        self.change(last_sequence=last, message_count=len(kept), last_active_at=active)
        return answers

    def clear(self) -> None:
        self.messages, self.summary = [], None
        self.cleared_through = self.info.last_sequence
        self.change(message_count=0)

    def set_kv(self, key: str, value: Any, cap: int) -> None:
        self.kv.pop(key, None)
        self.kv[key] = value
        self.trim_kv(cap)

    def trim_kv(self, cap: int) -> None:
        self.kv = dict(list(self.kv.items())[-cap:])

    def swap(self, text: str, upper: int, expected: int | None, now: datetime) -> bool:
        epoch = self.summary.epoch if self.summary else 0
        covered = self.summary.upper_sequence if self.summary else 0
        if expected not in (None, epoch) or upper < covered or upper <= self.cleared_through:
            return False
        count = sum(message.sequence <= upper for message in self.messages)
        self.last_epoch += 1  # also past those that were cleared: an epoch is never used again
        self.summary = Summary(text, self.last_epoch, upper, count, now, upper, len(text))
        return True

    def add_usage(self, model: str, tokens: int, nanos: int) -> None:
        old = self.usage.get(model, ModelUsage(model))
        cost = (round(old.cost * 1e9) + nanos) / 1e9
        self.usage[model] = ModelUsage(model, old.calls + 1, old.input_tokens + tokens, 0, old.cached_tokens, cost)


@dataclass
class PlainRecord:
    versions: list[Record]

    @property
    def now(self) -> Record:
        return self.versions[-1]

    def at(self, moment: datetime) -> Record | None:
        """What it said then, if it was true then."""
        said = [version for version in self.versions if version.updated_at and version.updated_at <= moment]
        return said[-1] if said and is_true(said[-1], moment) else None

    def change(self, changes: Mapping[str, Any], now: datetime, *, said_again: bool = False) -> Record:
        """A change that changes nothing is none. What is said again is true again."""
        base = self.now
        if said_again and base.expires_at is not None and base.expires_at <= now:
            base = replace(base, expires_at=None)
        changed = replace(base, **changes)
        changed = replace(changed, fingerprint=fingerprint(changed.type, changed.content))
        if changed != self.now:
            self.versions.append(replace(changed, updated_at=now, version=self.now.version + 1))
        return self.now


class PlainMemory:
    def __init__(self) -> None:
        self.sessions: dict[str, PlainSession] = {}
        self.records: dict[str, PlainRecord] = {}

    # Sessions

    def live(self, owner: tuple[str, str, str, str]) -> PlainSession | None:
        return next((session for session in self.sessions.values() if session.is_live and session.owner == owner), None)

    def open(
        self, id: str, tenant: str, user: str, agent: str, key: SessionKey, metadata: Mapping[str, Any], now: datetime
    ) -> PlainSession:
        info = SessionInfo(id, tenant, user, agent, key, SessionStatus.ACTIVE, dict(metadata), now, now)
        self.sessions[id] = PlainSession(info)
        return self.sessions[id]

    def listed(self, tenant: str, **wanted: str | None) -> list[SessionInfo]:
        """The most recently active first, of those with all these values."""
        found = [
            session.info
            for session in self.sessions.values()
            if not session.deleted
            and session.info.tenant == tenant
            and all(value in (None, _value(session.info, name)) for name, value in wanted.items())
        ]
        return sorted(found, key=lambda info: (info.last_active_at, info.id), reverse=True)

    def delete_session(self, session: PlainSession) -> int:
        """With the records that belong to it. Answers how many those were."""
        session.deleted = True
        under = [id for id, record in self.records.items() if record.now.session_id == session.info.id]
        for id in under:
            del self.records[id]
        return len(under)

    # Records

    def remember(self, id: str, home: Owner, changes: Mapping[str, Any], now: datetime) -> Record:
        same = self.with_key(home, changes.get("key"))
        if same is not None:
            return same.change(changes, now, said_again=True)
        blank = Record(id, home, Layer.SEMANTIC, RecordType.FACT, "", created_at=now, updated_at=now, valid_from=now)
        blank = replace(blank, source=RecordSource(home.scope.session))  # the conversation it came up in
        record = replace(blank, **changes)
        self.records[id] = PlainRecord([replace(record, fingerprint=fingerprint(record.type, record.content))])
        return self.records[id].now

    def with_key(self, home: Owner, key: str | None) -> PlainRecord | None:
        if key is None:
            return None
        return next(
            (record for record in self.records.values() if (record.now.home, record.now.key) == (home, key)), None
        )

    def in_scope(self, tenant: str, **wanted: str | None) -> Iterator[PlainRecord]:
        """By user, agent and session id, each if given: a user's own and those of the user's sessions."""
        for record in self.records.values():
            scope = record.now.home.scope
            given = {name: value for name, value in wanted.items() if value is not None}
            if scope.tenant == tenant and all(getattr(scope, name) == value for name, value in given.items()):
                yield record

    def of_home(self, home: Owner) -> list[PlainRecord]:
        """What belongs to the owner: of a user, also what belongs to the user's sessions."""
        if home.level is Level.USER:
            return list(self.in_scope(home.scope.tenant, user=home.scope.user))
        return [record for record in self.records.values() if record.now.home == home]


def is_true(record: Record, moment: datetime) -> bool:
    assert record.valid_from is not None
    return record.valid_from <= moment and (record.expires_at is None or record.expires_at > moment)


def newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.updated_at, record.id), reverse=True)


def home_of_user(tenant: str, user: str) -> Owner:
    return Owner(Scope(tenant, user=user), Level.USER)


def home_of_agent(tenant: str, agent: str) -> Owner:
    return Owner(Scope(tenant, agent=agent), Level.AGENT)


def home_of_session(info: SessionInfo) -> Owner:
    return Owner(Scope(info.tenant, user=info.user, session=info.id), Level.SESSION)


def home_of_all(tenant: str) -> Owner:
    return Owner(Scope(tenant), Level.GLOBAL)


def _value(info: SessionInfo, name: str) -> str:
    return info.key.channel if name == "channel" else str(getattr(info, name))
