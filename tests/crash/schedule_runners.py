"""Two runners share the schedules of one store for a simulated week. Their clocks jump, and they are killed.

Simulated time moves on when nothing is due. Each runner's clock is a little off, and now and then hours or days off for
a while. In the end each firing came about once at most, and whatever did not is counted as missed by a run before it.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from limpet import Config, Firing, Limpet, Schedule
from limpet.cli.serve import StopEvent
from limpet.errors import StorageError, StoreUnavailable
from limpet.model.values import from_micros
from limpet.schedules.decide import parse_schedule_cadence
from tests.crash.fork_server import Nursery

# Clocks are put back in Lisbon in the night before the 25th.
START = datetime(2026, 10, 21, 12, 0, tzinfo=UTC)
WEEK = timedelta(days=7)
LIFE = 0.15  # seconds between two strikes
LEAST_KILLS = 12  # in a week
TICK = 1800.0  # simulated seconds that pass at a time
STEP = 0.003  # how long a run takes: time to be killed in
SKEW = 90  # seconds that clocks differ by
JUMPS = (-86_400, -7200, -600, 600, 5400, 21_600, 172_800)
PATIENCE = 300

CADENCES = (
    *(("cron: 0 * * * *", "UTC"), ("cron: 30 * * * *", "Europe/Lisbon"), ("cron: */30 * * * *", "Australia/Lord_Howe")),
    *(("cron: 30 1 * * *", "Europe/Lisbon"), ("cron: 0 9 * * 1-5", "America/New_York"), ("every: 90m", "UTC")),
    *(("cron: 0 */3 * * *", "Europe/Lisbon"), ("every: 1h17m", "Asia/Tokyo")),
)
FEW = (
    *(("cron: 30 1 * * *", "Europe/Lisbon"), ("cron: 0 9 * * 1-5", "America/New_York"), ("every: 5h", "UTC")),
    ("cron: 0 */4 * * *", "Australia/Lord_Howe"),
)
ONCE = 12

CONFIG = Config.load(
    overrides={
        "embedding.model": "none",
        "jobs.worker": False,
        "schedules.lease_s": 3600,
        "schedules.history": 100_000,
        "schedules.attempts": 1000,  # nobody's goal is to blame here
    }
)


class SharedTime:
    """Seconds since the week began, in a file that several processes have before them."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    @property
    def seconds(self) -> float:
        return float(struct.unpack("d", self._memory[:])[0])

    def set(self, seconds: float) -> None:
        self._memory[:] = struct.pack("d", seconds)

    def __call__(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


class JumpingClock:
    """The shared time, but for what is wrong with this clock."""

    def __init__(self, shared: SharedTime, chance: Random) -> None:
        self._shared, self._chance = shared, chance
        self._skew = chance.uniform(-SKEW, SKEW)
        self._wrong = 0.0
        self._until = time.monotonic() + chance.expovariate(1 / (LIFE * 2))

    def __call__(self) -> datetime:
        now = time.monotonic()
        if now > self._until:
            self._wrong = 0.0 if self._wrong else self._chance.choice(JUMPS)
            self._until = now + self._chance.expovariate(1 / (LIFE / 10 if self._wrong else LIFE * 2))
        return self._shared() + timedelta(seconds=self._skew + self._wrong)


def run(store: str, begun: str, shared: str, seed: int) -> None:
    """Run what is due until SIGTERM. SIGKILL is what this process is for."""
    stop = StopEvent()
    signal.signal(signal.SIGTERM, stop.set)
    chance, tally = Random(seed), os.open(begun, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    memory = open_patiently(store, JumpingClock(SharedTime(Path(shared)), Random(seed)))

    def callback(firing: Firing) -> str:
        os.write(tally, b".")
        time.sleep(chance.expovariate(1 / STEP))
        return firing.key

    while not stop.is_set():
        try:
            done = memory.schedules.run(callback, until_idle=False)
        except StorageError:  # the server is being started again
            done = 0
        if not done:
            stop.wait(0.005)
    memory.close()


def open_patiently(store: str, clock: Callable[[], datetime]) -> Limpet:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return Limpet.open(store, config=CONFIG, clock=clock)
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


class Crew:
    """The runners alive now. A killed one is followed at once by another."""

    def __init__(self, nursery: Nursery, store: str, folder: Path, chance: Random) -> None:
        self.chance = chance
        self.kills = 0
        self.accidents: list[str] = []
        self.time = SharedTime(folder / "time")
        self._nursery = nursery
        self._begun = folder / "begun"
        self._begun.touch()
        self._settings = {"store": store, "begun": str(self._begun), "shared": str(folder / "time")}
        self._pids = [self._start() for _ in range(2)]

    @property
    def begun(self) -> int:
        return self._begun.stat().st_size

    def kill_one(self) -> None:
        place = self.chance.randrange(len(self._pids))
        self._note(self._nursery.kill(self._pids[place]), (-signal.SIGKILL,))
        self.kills += 1
        self._pids[place] = self._start()

    def stop(self) -> None:
        """In peace, unless one is too young to know what it was told."""
        for pid in self._pids:
            self._note(self._nursery.stop(pid), (0, -signal.SIGTERM))

    def _note(self, status: int, expected: tuple[int, ...]) -> None:
        if status not in expected:
            self.accidents.append(f"a runner ended by itself with status {status}; its last words are on stderr")

    def _start(self) -> int:
        return self._nursery.start(
            "tests.crash.schedule_runners:run", seed=self.chance.getrandbits(32), **self._settings
        )


def fill(store: str, chance: Random, *, short: bool) -> None:
    with open_patiently(store, lambda: START) as memory:
        for number, (cadence, zone) in enumerate(FEW if short else CADENCES):
            memory.schedules.create(
                f"user {number % 3}", goal="what comes back", cadence=cadence, timezone=zone, notify="never"
            )
        for _ in range(ONCE):
            at = START + timedelta(seconds=chance.randrange(60, int(WEEK.total_seconds())))
            memory.schedules.create(
                "user once", goal="what comes once", cadence=f"once: {at.isoformat()}", notify="never"
            )


def live(crew: Crew, memory: Limpet, strike: Callable[[Any], None] = Crew.kill_one) -> None:
    """Let the week pass, and strike at random moments; on a quick machine more often, so that it is struck enough."""
    strike_at = time.monotonic()
    while crew.time.seconds < WEEK.total_seconds():
        crew.time.set(crew.time.seconds + TICK)
        deadline = time.monotonic() + PATIENCE
        while _is_due(memory):
            assert time.monotonic() < deadline, "nobody does what is due"
            too_peaceful = crew.kills < LEAST_KILLS * crew.time.seconds / WEEK.total_seconds()
            if too_peaceful or time.monotonic() > strike_at:
                strike(crew)
                strike_at = time.monotonic() + crew.chance.expovariate(1 / LIFE)
            time.sleep(0.002)


def _is_due(memory: Limpet) -> bool:
    """What somebody has taken is not waited for: were it killed, its lease would have to end first."""
    try:
        return bool(memory.schedules.due(limit=1))
    except StorageError:
        return True


def catch_up(store: str) -> Limpet:
    """With a clock that is right: what somebody died over is done."""
    now = START + WEEK
    memory = open_patiently(store, lambda: now)
    for _ in range(3):
        while memory.schedules.run(lambda firing: firing.key):
            pass
        now += timedelta(seconds=CONFIG.schedules.lease_s + 1)
        memory._runtime.runner._mend_at = 0.0
    return memory


class Found:
    """What the store says in the end."""

    def __init__(self, memory: Limpet) -> None:
        keeper: Any = memory._runtime.store
        rows = keeper.read(
            lambda tx: tx.db.execute_sql(
                "SELECT schedule_id, due_at, status, missed FROM schedule_runs ORDER BY due_at"
            )
        )
        self.runs = [(id_, from_micros(due), status, missed) for id_, due, status, missed in rows]
        self.schedules = {one.id: one for one in memory.schedules.search(limit=1000)}
        self.nominal = {id_: list(_firings(one)) for id_, one in self.schedules.items()}

    @property
    def meant(self) -> int:
        return sum(map(len, self.nominal.values()))

    @property
    def fired(self) -> int:
        wanted = {(id_, due) for id_, dues in self.nominal.items() for due in dues}
        return sum((id_, due) in wanted for id_, due, _, _ in self.runs)


def _firings(schedule: Schedule) -> Iterator[datetime]:
    """All that the week has, by the cadence alone."""
    cadence, at = parse_schedule_cadence(schedule), schedule.created_at
    while (following := cadence.next_after(at)) is not None and following <= START + WEEK:
        yield following
        at = following


def check(memory: Limpet, crew: Crew, found: Found) -> dict[str, list[str]]:
    """Each promise with what breaks it."""
    return dict(_faults(memory, crew, found))


def _faults(memory: Limpet, crew: Crew, found: Found) -> Iterator[tuple[str, list[str]]]:
    times = Counter((id_, due) for id_, due, status, _ in found.runs if status == "ok")
    yield "no firing came about twice", [f"{id_} {due}: {count}" for (id_, due), count in times.items() if count > 1]
    yield "no run failed", [f"{id_} {due}" for id_, due, status, _ in found.runs if status != "ok"]
    yield "nothing fired that was not meant to", list(_strangers(found))
    yield "no firing is lost: each came about, or was counted as missed", list(_lost(found, times))
    yield (
        "what comes once came once",
        [
            f"{one.id} is {one.state}"
            for one in found.schedules.values()
            if one.cadence.startswith("once") and (one.state, one.run_count) != ("completed", 1)
        ],
    )
    yield "no runner ended by itself", crew.accidents
    yield "the store is sound", [f"{one.check}: {one.detail}" for one in memory.admin.doctor() if not one.ok]


def _strangers(found: Found) -> Iterator[str]:
    for id_, due, _, _ in found.runs:
        if found.schedules[id_].created_at < due <= START + WEEK and due not in found.nominal[id_]:
            yield f"{found.schedules[id_].cadence} {due}"


def _lost(found: Found, times: Counter[tuple[str, datetime]]) -> Iterator[str]:
    """A run that stands for so many more stands for those that follow its own firing."""
    for id_, nominal in found.nominal.items():
        counted: set[int] = set()
        for of, due, _, missed in found.runs:
            if of == id_:
                at = bisect_left(nominal, due)
                counted |= set(range(at + 1, at + 1 + missed))
        for at, due in enumerate(nominal):
            if not times[id_, due] and at not in counted:
                yield f"{found.schedules[id_].cadence} {due}"
