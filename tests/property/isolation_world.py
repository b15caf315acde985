"""Owners with hostile names, each with memory of its own, and what an answer shows of whom."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st

from limpet import Document, Limpet
from limpet.errors import (
    LimpetError,
)
from limpet.model.scope import Level, Partition
from limpet.model.values import check_name
from limpet.schedules.runner import RunHandlers, Runner
from limpet.store.jobs import Jobs
from limpet.store.tables import TABLES

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


def refused(kind: type[LimpetError], call: Callable[..., object], *args: Any, **kwargs: Any) -> str:
    """The answer of a call that must be refused: what its error says beside the id it was asked for."""
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return _ID.sub("…", str(caught.value))
