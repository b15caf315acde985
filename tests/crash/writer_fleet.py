"""Several writers on one store, killed and replaced at random moments, and a look at what is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.crash import writes
from tests.crash.fork_server import Nursery
from tests.crash.writer import notebook

WRITERS = 4
THREADS = 3
PACE = 0.006
LIFE = 0.2
PATIENCE = 60
LEAST_PER_KILL = 5
ANSWERED = b'["done"'

Strike = Callable[["Fleet"], None]


class Fleet:
    """The writers alive now. A killed one is followed at once by its next life, which goes on where it was."""

    def __init__(
        self,
        nursery: Nursery,
        store: str,
        folder: Path,
        chance: Random,
        *,
        writers: int = WRITERS,
        threads: int = THREADS,
        pace: float = PACE,
        target: str = "tests.crash.writer:run",
    ) -> None:
        self.chance = chance
        self.kills = 0
        self.accidents: list[str] = []
        self._nursery, self._target = nursery, target
        self._settings = {"store": store, "folder": str(folder), "threads": threads, "pace": pace}
        self._folder = folder
        self._lives = dict.fromkeys(range(writers), 0)
        self._pids = {writer: self._start(writer) for writer in self._lives}

    @property
    def pids(self) -> list[int]:
        return list(self._pids.values())

    def at_work(self) -> None:
        """Returns when every writer has been answered: on a busy machine that takes them a while."""
        deadline = time.monotonic() + PATIENCE
        while not all(self._has_been_answered(writer) for writer in self._pids):
            assert time.monotonic() < deadline, f"a writer has not been answered within {PATIENCE} seconds"
            time.sleep(0.01)

    def has_worked(self) -> bool:
        """Returns when enough calls were answered for one more kill; False when that takes too long.

        Who waits for others most of the time is killed while waiting, and proves nothing.
        """
        deadline = time.monotonic() + PATIENCE
        while sum(map(self._count_answers, self._lives)) < LEAST_PER_KILL * (self.kills + 1):
            if time.monotonic() > deadline:
                self.accidents.append(
                    f"the writers got fewer than {LEAST_PER_KILL} answers a kill in {PATIENCE} seconds"
                )
                return False
            time.sleep(0.02)
        return True

    def _count_answers(self, writer: int) -> int:
        books = [notebook(self._folder, writer, life) for life in range(self._lives[writer] + 1)]
        return sum(book.read_bytes().count(ANSWERED) for book in books if book.exists())

    def _has_been_answered(self, writer: int) -> bool:
        book = notebook(self._folder, writer, self._lives[writer])
        return book.exists() and ANSWERED in book.read_bytes()  # its last line may not be whole yet

    def kill_one(self) -> None:
        writer = self.chance.choice(list(self._pids))
        self._kill(self._pids[writer])
        self._lives[writer] += 1
        self._pids[writer] = self._start(writer)

    def kill_all(self) -> None:
        while self._pids:
            self._kill(self._pids.popitem()[1])

    def stop_all(self) -> list[int]:
        """In peace. Answers their exit statuses."""
        return [self._nursery.stop(self._pids.pop(writer)) for writer in list(self._pids)]

    def noted(self) -> list[writes.Deed]:
        found: list[writes.Deed] = []
        for writer, life in self._lives.items():
            paths = [notebook(self._folder, writer, number) for number in range(life + 1)]
            found += writes.read_notes(*paths).values()
        return found

    def _kill(self, pid: int) -> None:
        status = self._nursery.kill(pid)
        self.kills += 1
        if status != -signal.SIGKILL:
            self.accidents.append(f"a writer ended by itself with status {status}; its last words are on stderr")

    def _start(self, writer: int) -> int:
        seed = self.chance.getrandbits(32)
        return self._nursery.start(self._target, writer=writer, life=self._lives[writer], seed=seed, **self._settings)


def besiege(fleet: Fleet, kills: int, strike: Strike = Fleet.kill_one) -> None:
    """Strike at random moments until that many were killed; the last kills are all that are left at once."""
    while fleet.kills < kills - len(fleet.pids) and fleet.has_worked():
        time.sleep(fleet.chance.expovariate(1 / LIFE))
        strike(fleet)
    time.sleep(LIFE)
    fleet.kill_all()
