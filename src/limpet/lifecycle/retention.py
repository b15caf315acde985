"""Retention: what is older than the settings want it goes, hourly; and sessions whose time is over.

Messages go with their chunks, words, vectors and what the graph has of them; a summary is written again from what is
left, and daily notes go by their own rule or with the messages. So do the records of turns, which quote them. What was
learned stays, by the rule of records.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from limpet.config import Config
from limpet.documents.repository import Documents
from limpet.errors import KeyMissing
from limpet.knowledge import remember
from limpet.knowledge.delete_session import SessionRemover
from limpet.knowledge.repository import Records
from limpet.lifecycle.purge_repository import PurgeRequest, Purges
from limpet.lifecycle.purge_rows import PurgeTransaction
from limpet.model.dataclass import dataclass
from limpet.model.privacy import PurgeTarget, RetentionResult, parse_tenant_days
from limpet.model.record import Record
from limpet.model.scope import Level, Partition, Scope, user_partition
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock, to_micros
from limpet.notes.user_notes import UserNotes
from limpet.sessions.files import session_folder
from limpet.sessions.repository import Messages, Sessions
from limpet.store.idempotency import KEY_LIFETIME, IdempotencyKeys
from limpet.store.jobs import JobLease
from limpet.store.store import Store
from limpet.store.tx import Repository, Tx

log = logging.getLogger("limpet.retention")

HOUR = timedelta(hours=1)
_SESSIONS, _KEYS, _PAGE = 20, 2000, 50  # removed in one transaction


@dataclass(frozen=True, slots=True)
class RetentionSweeper:
    """Removes what is older than the settings allow: messages by their agent's, the rest by the shared ones."""

    store: Store
    config: Config  # the shared one, with those of the agents
    notes: UserNotes
    count: TokenCounter
    clock: Clock

    def run_job(self, lease: JobLease) -> datetime | None:
        if not self.config.retention.enabled:
            return None
        for tenant in self.store.list_tenants():
            try:
                swept = self.apply(tenant, between=lease.renew)
            except KeyMissing as error:  # its key is elsewhere: that must not keep the others' for longer
                log.warning("retention leaves out a tenant: %s", error)
                continue
            for done in swept:
                if done.counts:
                    log.info("retention of agent %s: %s", done.agent, dict(done.counts))
        return lease.now() + HOUR

    def apply(
        self, tenant: str, *, dry_run: bool = False, between: Callable[[], None] = lambda: None
    ) -> list[RetentionResult]:
        """One tenant's. With ``dry_run`` it is only counted."""
        work = _Sweep(self, tenant, self.clock(), between, dry_run=dry_run)
        scope = Scope(tenant)
        agents = self.store.read(lambda tx: ExpiredRows(tx).agents(scope))
        expired = work.sweep_expired()
        found = []
        for agent in sorted({*agents, *expired}):
            days = find_days(self.config.for_agent(agent), tenant)["messages"]
            counts = Counter(expired.get(agent, {}))
            counts.update(work.sweep_messages(agent, find_cutoff(days, work.now)))
            found.append(RetentionResult(tenant, agent, {"messages": days}, +counts))
        work.sweep_idempotency_keys()
        sweeps = {"records": work.sweep_records, "documents": work.sweep_documents, "notes": work.sweep_notes}
        rules = {kind: days for kind, days in find_days(self.config, tenant).items() if kind in sweeps}
        cutoffs = {kind: cutoff for kind, days in rules.items() if (cutoff := find_cutoff(days, work.now)) is not None}
        counts = Counter({kind: sweeps[kind](cutoff) for kind, cutoff in cutoffs.items()})
        return [*found, RetentionResult(tenant, None, rules, +counts)]


def find_days(config: Config, tenant: str) -> dict[str, int]:
    """How many days a tenant keeps each kind; 0 is for ever. Notes without days of their own go with the messages."""
    rules = config.retention
    days = {"messages": rules.messages_days, "records": rules.records_days, "documents": rules.documents_days}
    days |= {"notes": rules.notes_days} | parse_tenant_days(rules.tenants).get(tenant, {})
    return days | ({"notes": days["messages"]} if days["notes"] < 0 else {})


def find_cutoff(days: int, now: datetime) -> datetime | None:
    """What is older than this goes; None where all is kept."""
    try:
        return now - timedelta(days=days) if days else None
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class _Sweep:
    sweeper: RetentionSweeper
    tenant: str
    now: datetime
    between: Callable[[], None]
    dry_run: bool = False

    @property
    def _scope(self) -> Scope:
        return Scope(self.tenant)

    def sweep_expired(self) -> dict[str, Counter[str]]:
        """Sessions whose time is over, with everything under them; by their agents."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        most = 1 << 31 if self.dry_run else _SESSIONS
        while found := self.sweeper.store.read(lambda tx: ExpiredRows(tx).find_expired(self._scope, self.now, most)):
            for scope in found:
                counts[scope.agent or ""].update(self._end_session(scope))
            if self.dry_run:
                break
        return counts

    def _end_session(self, scope: Scope) -> Counter[str]:
        if self.dry_run:
            return Counter(sessions=1)
        self.between()
        remover = SessionRemover(self.sweeper.store, remember.RecordChunker.of(self.sweeper.config), lambda: self.now)
        gone = remover.delete(scope, partial(self._is_expired, scope=scope))
        assert scope.user is not None
        self.sweeper.notes.delete_item_lines(scope.tenant, scope.user, gone.records)
        root = self.sweeper.notes.folder
        if root is not None and scope.session is not None:
            folder = session_folder(root, scope.session)
            if not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
        return Counter(gone.counts)

    def _is_expired(self, tx: Tx, *, scope: Scope) -> bool:
        """Another may have been quicker, or given it more time."""
        info = Sessions(tx).get(scope)
        return info is not None and info.expires_at is not None and info.expires_at <= self.now

    def sweep_messages(self, agent: str, before: datetime | None) -> Counter[str]:
        counts: Counter[str] = Counter()
        if before is None:
            return counts
        scope = Scope(self.tenant, agent=agent)
        if self.dry_run:
            return self.sweeper.store.read(partial(self._count_messages, scope=scope, before=before))
        while found := self.sweeper.store.read(lambda tx: ExpiredRows(tx).sessions_before(scope, before, _SESSIONS)):
            for session in found:
                while gone := self.sweeper.store.write(partial(self._drop_turns, scope=session, before=before)):
                    self.sweeper.notes.delete_lines_of(self.tenant, ((session.user, id) for id in gone))
                    counts["records"] += len(gone)
                    self.between()
                self.between()
                counts.update(self.sweeper.store.write(partial(self._drop_some, scope=session, before=before)))
        return counts

    def _drop_turns(self, tx: Tx, *, scope: Scope, before: datetime) -> tuple[str, ...]:
        found = self._find_quoting(tx, scope, before, _PAGE)
        return remember.delete_records(tx, found, remember.RecordChunker.of(self.sweeper.config), self.now).ids

    def _find_quoting(self, tx: Tx, scope: Scope, before: datetime, limit: int | None) -> list[Record]:
        """Some records of a session's turns, with what was made of them: they quote its messages, and go with them."""
        assert scope.session is not None
        turns = Records(tx).find_turns(scope.partition, scope.session, limit)
        old = self._find_gone(tx, scope, before, turns)
        if not old and limit is not None and len(turns) == limit:  # the oldest stay: look at all
            turns = Records(tx).find_turns(scope.partition, scope.session)
            old = self._find_gone(tx, scope, before, turns)[:limit]
        return remember.find_with_copies(tx, self._scope, old)

    def _find_gone(self, tx: Tx, scope: Scope, before: datetime, turns: Sequence[Record]) -> list[str]:
        """Those of which no message stays, by the times of the messages."""
        places = [sequence for turn in turns for sequence in turn.source.sequences]
        if not places:
            return []
        messages = Messages(tx).range(scope, min(places) - 1, max(places) + 1, None)
        kept = {message.sequence for message in messages if (message.created_at or self.now) >= before}
        return [turn.id for turn in turns if kept.isdisjoint(turn.source.sequences) and not turn.pinned]

    def _count_messages(self, tx: Tx, *, scope: Scope, before: datetime) -> Counter[str]:
        sessions = ExpiredRows(tx).sessions_before(scope, before, 1 << 31)
        quoting = {each.id for session in sessions for each in self._find_quoting(tx, session, before, None)}
        return +Counter(messages=ExpiredRows(tx).count_messages(scope, before), records=len(quoting))

    def _drop_some(self, tx: Tx, *, scope: Scope, before: datetime) -> Counter[str]:
        """Some of a session's messages. It is found again as long as there are more."""
        assert scope.session is not None
        if Sessions(tx).get(scope) is None:
            return Counter()
        order = PurgeRequest(PurgeTarget.OLDER, scope.partition, before=before)
        removal = PurgeTransaction(tx, order, self.sweeper.config, self.sweeper.count, self.now)
        sequences, last = removal.take_messages(scope.session, before)
        removal.drop_messages(scope.session, sequences, last=last)
        return removal.counts

    def sweep_idempotency_keys(self) -> None:
        """Idempotency keys that are too old to be repeated. They are not memory, and are not counted."""
        before = self.now - KEY_LIFETIME
        while not self.dry_run:
            self.between()
            gone = self.sweeper.store.write(lambda tx: IdempotencyKeys(tx).trim(self._scope, before, _KEYS))
            if gone < _KEYS:
                return

    def sweep_records(self, before: datetime) -> int:
        after, count = "", 0
        while page := self.sweeper.store.read(
            lambda tx: ExpiredRows(tx).records_before(self._scope, before, after, _PAGE)  # noqa: B023 - read at once
        ):
            count, after = count + len(page), page[-1]
            if not self.dry_run:
                self.between()
                gone = self.sweeper.store.write(partial(self._delete_records, ids=page))
                self.sweeper.notes.delete_lines_of(self.tenant, gone)
        return count

    def _delete_records(self, tx: Tx, *, ids: Iterable[str]) -> list[tuple[str | None, str]]:
        found = [record for id in ids if (record := Records(tx).get(self._scope, id)) is not None]
        for record in found:
            Records(tx).delete(self._scope, record.id)
        return [(record.user, record.id) for record in found]

    def sweep_notes(self, before: datetime) -> int:
        """The notes of days that are over. MEMORY.md is the user's own, and stays."""
        notes, count = self.sweeper.notes, 0
        for user in self.sweeper.store.read(lambda tx: ExpiredRows(tx).users(self._scope)):
            self.between()
            partition = user_partition(self.tenant, user)
            found = notes.find_days_before(partition, notes.local_day(before, user))
            count += len(found)
            if found and not self.dry_run:
                notes.delete(partition, found)
        return count

    def sweep_documents(self, before: datetime) -> int:
        count, after = 0, ""
        while page := self.sweeper.store.read(
            lambda tx: ExpiredRows(tx).documents_before(self._scope, before, after, _PAGE)  # noqa: B023 - read at once
        ):
            count, after = count + len(page), page[-1].id
            for document in () if self.dry_run else page:
                self.between()
                while not self.sweeper.store.write(partial(_delete_document, document=document, before=before)):
                    self.between()
        return count


def _delete_document(tx: Tx, *, document: ExpiredDocument, before: datetime) -> bool:
    """A slice of a document; whether it was the last. It may have been added again meanwhile."""
    if not Purges(tx).is_document_before(document.space, document.id, before):
        return True
    return Documents(tx).delete(document.space, document.id).done


class ExpiredDocument(NamedTuple):
    id: str
    space: Partition


class ExpiredRows(Repository):
    """What is older than somebody wants to keep it, a page at a time."""

    def users(self, scope: Scope) -> list[str]:
        return [user for (user,) in self._db.all("retention.users", {"tenant": scope.tenant})]

    def agents(self, scope: Scope) -> list[str]:
        """Those that have messages."""
        return [agent for (agent,) in self._db.all("retention.agents", {"tenant": scope.tenant})]

    def sessions_before(self, scope: Scope, moment: datetime, limit: int) -> list[Scope]:
        where = "agent = :agent AND oldest_at < :moment"
        return self._sessions(scope, where, {"agent": scope.agent, "moment": to_micros(moment), "limit": limit})

    def find_expired(self, scope: Scope, now: datetime, limit: int) -> list[Scope]:
        return self._sessions(scope, "expires_at <= :now", {"now": to_micros(now), "limit": limit})

    def _sessions(self, scope: Scope, where: str, params: dict[str, Any]) -> list[Scope]:
        rows = self._db.all("retention.sessions", {"tenant": scope.tenant, **params}, where=where)
        return [Scope(scope.tenant, user=user, agent=agent, session=id_) for id_, user, agent in rows]

    def count_messages(self, scope: Scope, moment: datetime) -> int:
        params = {"tenant": scope.tenant, "agent": scope.agent, "moment": to_micros(moment)}
        row = self._db.one("retention.count_messages", params)
        return 0 if row is None else int(row[0])

    def records_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[str]:
        """Neither changed nor used since; no explicit and no pinned ones."""
        params = {"tenant": scope.tenant, "moment": to_micros(moment), "after": after, "limit": limit}
        return [id_ for (id_,) in self._db.all("retention.records", params)]

    def documents_before(self, scope: Scope, moment: datetime, after: str, limit: int) -> list[ExpiredDocument]:
        params = {"tenant": scope.tenant, "moment": to_micros(moment), "after": after, "limit": limit}
        rows = self._db.all("retention.documents", params)
        return [ExpiredDocument(id_, Partition(scope.tenant, Level(level), owner)) for id_, level, owner in rows]
