"""The storage port. A backend is a ``Store``; work is done on a ``Tx``, inside one transaction.

Every method takes whose memory it touches as its first argument. There is no call without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from limpet.model.chunk import Source
from limpet.model.job import Job
from limpet.model.receipt import ErasureState
from limpet.model.schedule import Run, Schedule, ScheduleLease
from limpet.model.scope import Partition
from limpet.search.catalogue import Array
from limpet.store.tx import Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Features:
    """What a backend can do, as data."""

    name: str
    concurrent_readers: bool
    several_processes: bool
    location: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing doctor looked at."""

    check: str
    ok: bool
    detail: str
    repaired: bool = False


class Head(NamedTuple):
    """Where a session's history ends."""

    last_sequence: int
    message_count: int
    last_active_at: datetime


class Stored(NamedTuple):
    """A chunk as it is shown: its text, its source, and what its record or document says about itself."""

    text: str
    source: Source
    metadata: Mapping[str, Any]


class Cut(NamedTuple):
    """What a stored chunk was cut from, to be compared with cutting it again."""

    hash: bytes
    first_sequence: int | None
    last_sequence: int | None
    text: str


class Unembedded(NamedTuple):
    """A chunk that has no vector of a model."""

    ordinal: int
    text: str


class WordScores(NamedTuple):
    """By ordinal, BM25 and the share of the question's weight a chunk holds; and the share that is known at all."""

    scores: Array
    covered: Array
    known: float


class Notice(NamedTuple):
    """A run that somebody is to be told of, with all it said."""

    schedule: Schedule
    run: Run
    output: str


class Owned(NamedTuple):
    """Something that is due, and whose it is."""

    id: str
    space: Partition


Work = Callable[[Tx], T]
Progress = Callable[[str, int, int], None]
Wanted = tuple[str, str]  # a kind of job, and its detail if only jobs with that one


class Store(Protocol):
    @property
    def features(self) -> Features: ...
    def write(self, work: Work[T]) -> T:
        """Run the work in a transaction; return once it is durable. It may run again; only one run stays."""

    def read(self, work: Work[T]) -> T:
        """Run the work on one consistent view of the store."""

    def prepend_to_next_write(self, work: Work[None]) -> AbstractContextManager[Callable[[], bool]]:
        """What this thread writes next is preceded by this work, in the same transaction.

        Inside the block; the function it gives tells whether that has happened.
        """

    def claim_job(self, wanted: Sequence[Wanted], now: datetime, lease: timedelta) -> Job | None:
        """Of the first of these kinds that has any due, the job that has waited longest; nobody else gets it meanwhile.

        Another may get it when the lease has ended. What the first one does to the job then has no effect.
        """

    def renew_job(self, job: Job, until: datetime) -> Job | None:
        """The job under a longer lease; None when it was lost."""

    def finish_job(self, job: Job, again: datetime | None = None) -> bool:
        """Done, or to come again. False when the lease was lost."""

    def fail_job(self, job: Job, error: str, run_at: datetime, *, dead: bool) -> bool: ...
    def release_stuck_jobs(self, now: datetime, longest_wait: timedelta) -> int:
        """Free what a clock that was ahead has put off further than anything is put off. Answers how many."""

    def next_job_time(self, wanted: Sequence[Wanted]) -> datetime | None:
        """When there will be something to take."""

    def count_jobs(self, wanted: Sequence[Wanted]) -> int: ...
    def claim_schedule(self, now: datetime, lease: timedelta) -> ScheduleLease | None:
        """Whichever of all has been due longest; nobody else gets it until the lease has ended."""

    def renew_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        """False when the lease was lost."""

    def release_schedule(self, held: ScheduleLease, until: datetime) -> bool:
        """Not run after all; nobody takes it before then."""

    def next_schedule_time(self) -> datetime | None:
        """When there will be one to take."""

    def find_misdated_schedules(self, now: datetime) -> list[Schedule]:
        """Those that were settled or leased by a clock far ahead of this one."""

    def claim_notification(self, now: datetime, oldest: datetime, until: datetime) -> Notice | None:
        """A run that somebody is to be told of; nobody else gets it until then."""

    def set_embedding_model(self, model: str, now: datetime) -> None:
        """Make this the model whose vectors are kept, and ask for them wherever they are missing."""

    def count_rows(self) -> Mapping[str, int]: ...
    def list_tenants(self) -> list[str]: ...
    def erase(self, *, whole: bool, vacuum: bool = False) -> ErasureState:
        """After something was purged: remove what the database still holds of it in unused places of its files.

        Without ``whole`` a large file is left to a job. With ``vacuum`` the files are made anew, however large.
        """

    def is_encrypted(self, tenant: str) -> bool:
        """Whether this program keeps the tenant's text sealed."""

    def doctor(self, *, repair: bool) -> Iterable[Finding]: ...
    def backup(self, path: str, progress: Progress | None = None) -> None: ...
    def close(self) -> None: ...
