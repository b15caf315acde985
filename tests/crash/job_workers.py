"""Workers in several processes that share the jobs of one store and are killed at random moments.

Each job's effect, a count that would show a second time, is in the transaction that finishes the job. In the end every
job was done, and none twice.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from limpet import Config, Limpet
from limpet.cli.serve import StopEvent
from limpet.errors import StorageError, StoreUnavailable
from limpet.model.scope import Level, Partition
from limpet.model.values import system_clock
from limpet.store.jobs import JobLease, JobQueue, Jobs
from tests.crash.fork_server import Nursery

KIND = "labour"
LEASE_S = 1
LIFE = 0.2
STEP = 0.003  # how long a job takes before its effect: time to be killed in
PAUSED = 0.05  # of the strikes: a worker stands still for longer than its lease, and then goes on
PATIENCE = 600

CONFIG = Config.load(
    overrides={
        "embedding.model": "none",
        "jobs.worker": False,
        "jobs.lease_s": LEASE_S,
        "jobs.attempts": 10_000,  # no job is to blame here
        "jobs.longest_wait_s": 1,
    }
)


def run(store: str, begun: str, seed: int, step: float) -> None:
    """Work until SIGTERM. SIGKILL is what this process is for."""
    stop = StopEvent()
    signal.signal(signal.SIGTERM, stop.set)
    chance, tally = Random(seed), os.open(begun, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    memory = open_patiently(store)
    keeper: Any = memory._runtime.store

    def handler(lease: JobLease) -> None:
        os.write(tally, b".")
        time.sleep(chance.expovariate(1 / step))

        def effect(tx: Any) -> None:
            count(tx, lease.job.detail)
            lease.finish(tx)

        keeper.write(effect)

    memory._runtime.worker.register(KIND, handler)
    while not stop.is_set():
        try:
            done = memory.jobs.run(until_idle=False)
        except StorageError:  # the server is being started again
            done = 0
        if not done:
            stop.wait(0.02)
    memory.close()


def count(tx: Any, detail: str) -> None:
    tx.db.execute_sql(
        "INSERT INTO properties (name, value) VALUES (:name, '1')"
        " ON CONFLICT (name) DO UPDATE SET value = properties.value || '1'",
        {"name": f"labour {detail}"},
    )


def open_patiently(store: str) -> Limpet:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return Limpet.open(store, config=CONFIG)
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Gang:
    """The workers alive now. A killed one is followed at once by another."""

    def __init__(
        self, nursery: Nursery, store: str, folder: Path, chance: Random, workers: int = 2, step: float = STEP
    ) -> None:
        self.chance = chance
        self.kills = self.pauses = 0
        self.accidents: list[str] = []
        self._nursery = nursery
        self._begun = folder / "begun"
        self._settings = {"store": store, "begun": str(self._begun), "step": step}
        self._begun.touch()
        self._pids = [self._start() for _ in range(workers)]

    @property
    def begun(self) -> int:
        return self._begun.stat().st_size

    def kill_one(self) -> None:
        self._kill(self.chance.randrange(len(self._pids)))

    def pause_one(self) -> None:
        pid = self.chance.choice(self._pids)
        self._nursery.pause(pid)
        time.sleep(LEASE_S * 1.3)
        self._nursery.resume(pid)
        self.pauses += 1

    def stop(self) -> None:
        """In peace, unless one is too young to know what it was told."""
        for pid in self._pids:
            self._note(self._nursery.stop(pid), (0, -signal.SIGTERM))

    def _kill(self, place: int) -> None:
        self._note(self._nursery.kill(self._pids[place]), (-signal.SIGKILL,))
        self.kills += 1
        self._pids[place] = self._start()

    def _note(self, status: int, expected: tuple[int, ...]) -> None:
        if status not in expected:
            self.accidents.append(f"a worker ended by itself with status {status}; its last words are on stderr")

    def _start(self) -> int:
        seed = self.chance.getrandbits(32)
        return self._nursery.start("tests.crash.job_workers:run", seed=seed, **self._settings)


def ask(memory: Limpet, jobs: int) -> None:
    """All the work there is, of a few users."""
    store: Any = memory._runtime.store

    def enter(first: int) -> Callable[[Any], None]:
        def work(tx: Any) -> None:
            for number in range(first, min(first + 500, jobs)):
                space = Partition("default", Level.USER, f"user {number % 7}")
                Jobs(tx).enqueue(space, KIND, str(number), system_clock())

        return work

    for first in range(0, jobs, 500):
        store.write(enter(first))


def torment(gang: Gang, memory: Limpet, strike: Callable[[Gang], None] = Gang.kill_one) -> None:
    """Strike at random moments until no job is left."""
    deadline = time.monotonic() + PATIENCE
    while _left(memory):
        assert time.monotonic() < deadline, f"{_left(memory)} jobs are left after {PATIENCE} seconds"
        time.sleep(gang.chance.expovariate(1 / LIFE))
        if gang.chance.random() < PAUSED:
            gang.pause_one()
        else:
            strike(gang)


def _left(memory: Limpet) -> int:
    store: Any = memory._runtime.store
    while True:
        try:
            return int(JobQueue(store).count([(KIND, "")]))
        except StorageError:
            time.sleep(0.02)


def check(memory: Limpet, gang: Gang, jobs: int) -> dict[str, list[str]]:
    """Each promise with what breaks it. A server that was struck takes its time to be back."""
    _left(memory)
    return {name: list(found) for name, found in _faults(memory, gang, jobs)}


def _faults(memory: Limpet, gang: Gang, jobs: int) -> Iterator[tuple[str, list[str]]]:
    store: Any = memory._runtime.store
    rows = store.read(lambda tx: tx.db.execute_sql("SELECT name, value FROM properties WHERE name LIKE 'labour %'"))
    effects = Counter({name.removeprefix("labour "): len(value) for name, value in rows})
    yield "every job was done", [str(number) for number in range(jobs) if not effects[str(number)]]
    yield "no job was done twice in effect", [f"{name}: {times}" for name, times in effects.items() if times > 1]
    yield "no job is left", [f"{job.id} {job.state} {job.error}" for job in memory.jobs.list()]
    yield "no worker ended by itself", gang.accidents
    yield "the store is sound", [f"{one.check}: {one.detail}" for one in memory.admin.doctor() if not one.ok]
