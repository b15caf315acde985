"""A store for memory that is switched off: it does all that is asked, answers, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from limpet.model.job import Job
from limpet.model.receipt import Bytes
from limpet.model.schedule import Held, Schedule
from limpet.model.session import SessionInfo
from limpet.sessions.repository import Sessions
from limpet.store.base import Features, Finding, Notice, Progress, Store, Wanted, Work
from limpet.store.tx import Tx

T = TypeVar("T")


class _Undone(Exception):
    """Ends a transaction that is not to stay, with its answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class Forgetful:
    """In front of an empty store, which stays empty. ``held`` is a session that is there while a call lasts."""

    def __init__(self, store: Store, held: SessionInfo | None = None) -> None:
        self._store = store
        self._held = held

    def holding(self, info: SessionInfo) -> Forgetful:
        return Forgetful(self._store, info)

    @property
    def features(self) -> Features:
        return self._store.features

    def write(self, work: Work[T]) -> T:
        def undone(tx: Tx) -> T:
            if self._held is not None:
                Sessions(tx).add(self._held.scope, self._held)
            raise _Undone(work(tx))

        try:
            return self._store.write(undone)
        except _Undone as done:
            answer: T = done.answer
            return answer

    def read(self, work: Work[T]) -> T:
        return self._store.read(work) if self._held is None else self.write(work)

    def beside(self, work: Work[None]) -> AbstractContextManager[Callable[[], bool]]:
        return self._store.beside(work)

    def take_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        return None

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        return None

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        return False

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        return False

    def mend_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        return 0

    def next_job(self, wanted: Sequence[Wanted]) -> datetime | None:
        return None

    def count_jobs(self, wanted: Sequence[Wanted]) -> int:
        return 0

    def take_schedule(self, now: datetime, lease: timedelta) -> Held | None:
        return None

    def renew_schedule(self, held: Held, until: datetime) -> bool:
        return False

    def put_back_schedule(self, held: Held, until: datetime) -> bool:
        return False

    def next_schedule(self) -> datetime | None:
        return None

    def astray_schedules(self, now: datetime) -> list[Schedule]:
        return []

    def take_notice(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        return None

    def adopt(self, model: str, now: datetime) -> None:
        """Without chunks no model is needed."""

    def counts(self) -> Mapping[str, int]:
        return self._store.counts()

    def tenants(self) -> list[str]:
        return self._store.tenants()

    def erase(self, *, whole: bool, vacuum: bool = False) -> Bytes:
        return Bytes.GONE  # nothing was ever kept

    def is_sealed(self, tenant: str) -> bool:
        return self._store.is_sealed(tenant)

    def doctor(self, *, repair: bool) -> Iterable[Finding]:
        return self._store.doctor(repair=repair)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        self._store.backup(path, progress)

    def close(self) -> None:
        self._store.close()
