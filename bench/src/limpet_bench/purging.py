"""How long a purge takes: it depends on what is purged, not on the size of the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limpet import Config, Limpet, Message
from limpet.api.runtime import DATABASE
from limpet_bench.workload import texts, time_call

if TYPE_CHECKING:
    from limpet_bench.speed import Bench, Times

USER = "leaver"
# Otherwise the worker would scrub the file of the last purge during the next measurement.
CONFIG = Config.load(env={}, overrides={"embedding.model": "none", "jobs.worker": False, "retention.enabled": False})


def purge_among_others(bench: Bench) -> Times:
    """Purge the same user in a store of ten times the size and in the smaller one, in turn."""
    from limpet_bench.speed import Times

    times, rounds = Times(), bench.effort.rounds
    with (
        Limpet.open(bench.fill_store(bench.effort.large), config=CONFIG) as large,
        Limpet.open(bench.fill_store(bench.effort.large // 10), config=CONFIG) as small,
    ):
        for _ in range(rounds):
            for memory, taken in ((large, times.ours), (small, times.plain)):
                _talk(memory, bench.effort.purged)
                taken.append(time_call(lambda memory=memory: memory.privacy.purge_user(USER)))  # type: ignore[misc]
    return times


def scrub(bench: Bench) -> Times:
    """Overwrite the unused pages of a large store's file, compared with reading the file once."""
    from limpet_bench.speed import Times

    folder = bench.fill_store(bench.effort.large)
    times = Times()
    with Limpet.open(folder, config=CONFIG) as memory:
        _talk(memory, bench.effort.purged)
        memory.privacy.purge_user(USER)
        store = memory._runtime.store  # noqa: SLF001 - as the job does it, without the jobs of all others
        store.erase(whole=True)  # the first run has all the history to do
        times.ours.append(time_call(lambda: store.erase(whole=True)))
    times.plain.append(time_call(lambda: _read(folder / DATABASE)))
    return times


def _talk(memory: Limpet, messages: int) -> None:
    lines = texts(messages, seed=11)
    for start in range(0, messages, 500):
        session = memory.session("bench", f"chat {start}", user=USER)
        session.extend([Message.new("user", line) for line in lines[start : start + 500]])


def _read(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
