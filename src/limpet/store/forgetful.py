"""A store for memory that is switched off: it does all that is asked, answers, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from limpet.model.job import Job
from limpet.model.receipt import ErasureState
from limpet.model.schedule import Schedule, ScheduleLease
from limpet.model.session import SessionInfo
from limpet.sessions.repository import Sessions
from limpet.store.base import Features, Finding, Notice, Progress, Store, Wanted, Work
from limpet.store.tx import Tx

T = TypeVar("T")


class _Rollback(Exception):
    """Ends a transaction that is not to stay, with its answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer


class RollbackStore:
    """In front of an empty store, which stays empty. ``held`` is a session that is there while a call lasts."""

    def __init__(self, store: Store, held: SessionInfo | None = None) -> None:
        self._store = store
        self._held = held

    def with_session(self, info: SessionInfo) -> RollbackStore:
        return RollbackStore(self._store, info)

    @property
    def features(self) -> Features:
        return self._store.features

    def write(self, work: Work[T]) -> T:
        def run_and_rollback(tx: Tx) -> T:
            if self._held is not None:
                Sessions(tx).add(self._held.scope, self._held)
            raise _Rollback(work(tx))

        try:
            return self._store.write(run_and_rollback)
        except _Rollback as done:
            answer: T = done.answer
            return answer

    def read(self, work: Work[T]) -> T:
        return self._store.read(work) if self._held is None else self.write(work)

    def prepend_to_next_write(self, work: Work[None]) -> AbstractContextManager[Callable[[], bool]]:
        return self._store.prepend_to_next_write(work)

    def claim_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        return None

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        return None

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        return False

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool:
        return False

    def release_stuck_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        return 0

    def next_job_time(self, wanted: Sequence[Wanted]) -> datetime | None:
        return None

    def count_jobs(self, wanted: Sequence[Wanted]) -> int:
        return 0

    def claim_schedule(self, now: datetime, lease: timedelta) -> ScheduleLease | None:
        return None

    def renew_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        return False

    def release_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        return False

    def next_schedule_time(self) -> datetime | None:
        return None

    def find_misdated_schedules(self, now: datetime) -> list[Schedule]:
        return []

    def claim_notification(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        return None

    def set_embedding_model(self, model: str, now: datetime) -> None:
        """Without chunks no model is needed."""

    def count_rows(self) -> Mapping[str, int]:
        return self._store.count_rows()

    def list_tenants(self) -> list[str]:
        return self._store.list_tenants()

    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        return ErasureState.GONE  # nothing was ever kept

    def is_encrypted(self, tenant: str) -> bool:
        return self._store.is_encrypted(tenant)

    def doctor(self, *, repair: bool) -> Iterable[Finding]:
        return self._store.doctor(repair=repair)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        self._store.backup(path, progress)

    def close(self) -> None:
        self._store.close()
