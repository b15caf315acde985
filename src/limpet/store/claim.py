"""A job in the hands of the worker that took it: what a handler is given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from limpet.errors import LeaseLost
from limpet.model.job import Job
from limpet.model.values import Clock
from limpet.store.jobs import Jobs
from limpet.store.store import Store
from limpet.store.tx import Tx

# Done, or when there is more of it to do: now, or at a later time.
JobHandler = Callable[["JobLease"], datetime | None]


class JobLease:
    """A handler that takes long renews the lease between its steps, and looks whether it is to stop.

    Where its effect is a write to the store, it finishes the job in the same transaction: then a job is never done
    twice, whoever is killed or held up, and whenever.
    """

    def __init__(
        self, job: Job, store: Store, clock: Clock, lease: timedelta, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.job = job
        self.finished = False
        self.stopping = stopping
        self.now = clock
        self._store = store
        self._lease = lease

    def renew(self) -> None:
        """Keep the job for as long again. Cheap: the store is asked when a third of the lease is gone."""
        now = self.now()
        if self.job.leased_until - now > self._lease * 2 / 3:
            return
        renewed = self._store.renew_job(self.job, now + self._lease)
        if renewed is None:
            raise LeaseLost(f"the lease of the job {self.job.id} ({self.job.kind}) ran out and somebody else has it")
        self.job = renewed

    def finish(self, tx: Tx, again: datetime | None = None) -> None:
        """The effect is in this transaction. When the lease was lost it raises, and nothing of the effect stays."""
        Jobs(tx).finish(self.job, again)
        self.finished = True
