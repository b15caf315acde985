"""Several processes on one store, with all operations mixed, and a look at what was lost and how long it took.

    python -m tests.crash.mix [--minutes 30] [--processes 10] [--pace 0.1] [--backend sqlite|postgres] [--seed S]

Nobody is killed. Each process notes every call before it and after its answer. At the end the store is compared with
the notes. Exit status 1 if anything acknowledged is missing, there twice or unsound, if a call raised an error that it
should not, or if the slowest hundredth of the appends took more than twenty times as long as the median.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

from limpet import Limpet
from limpet.security.operation import OPERATIONS
from tests.crash import mixer, writes
from tests.crash.check import Findings, check
from tests.crash.fork_server import Nursery
from tests.crash.torture import Postgres, Sqlite, open_siege, print_faults
from tests.crash.writer_fleet import Fleet

MAX_RATIO = 20.0  # p99 / p50 of an append
APPEND = "session.append"
# A call may find that what it names is not there: by its name nobody knows that it went.
DECLARED = frozenset({"not_found", "record_not_found", "document_not_found"})

Timings = Mapping[str, list[float]]


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="limpet-mix-"))
    with Nursery() as nursery, open_siege(options.backend, folder) as siege:
        faults = _mix(siege, nursery, folder, Random(seed), options)
    print_faults(faults)
    failed = any(faults.values())
    if failed:
        print(f"the store and what its writers noted are kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print("failed" if failed else "passed")
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mix", description="Several processes on one store, all operations mixed.")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--processes", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--pace", type=float, default=0.1, help="seconds between two calls of a process (default 0.1)")
    parser.add_argument("--backend", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, help="repeat the choices of a run, though never its timing")
    return parser.parse_args(arguments)


def _mix(
    siege: Sqlite | Postgres, nursery: Nursery, folder: Path, chance: Random, options: argparse.Namespace
) -> dict[str, list[str]]:
    store = siege.new_store()
    Limpet.open(store, config=mixer.CONFIG).close()
    count, pace = options.processes, options.pace
    fleet = Fleet(nursery, store, folder, chance, writers=count, threads=1, pace=pace, target="tests.crash.mixer:run")
    fleet.at_work()
    _wait(options.minutes * 60)
    statuses = fleet.stop_all()
    noted = fleet.noted()
    timings, errors = _read_measures(folder, count)
    with Limpet.open(store, config=mixer.CONFIG) as memory:
        findings = check(memory, noted, ignores=lambda user: user.startswith(("talker-", "copy-")))
        _check_turns(memory, noted, findings)
        _check_schedules(memory, noted, findings)
    findings.unsound += siege.look_into(store)
    findings.refused += [f"a process ended with {status}" for status in statuses if status]
    _print_table(timings, errors, findings)
    faults = findings.faults()
    faults["no call raised an error but a declared one"] = [
        f"{name}: {code} {times} times"
        for name, codes in errors.items()
        for code, times in codes.items()
        if code not in DECLARED
    ]
    ratio = _ratio(timings[APPEND])
    faults[f"p99 of an append is at most {MAX_RATIO:.0f} times its p50"] = (
        [] if ratio <= MAX_RATIO else [f"it is {ratio:.1f} times"]
    )
    return faults


def _wait(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(60.0, left))
        print(f"  {max(0.0, ends - time.monotonic()) / 60:.0f} minutes left", flush=True)


def _read_measures(folder: Path, processes: int) -> tuple[Timings, dict[str, Counter[str]]]:
    timings: defaultdict[str, list[float]] = defaultdict(list)
    errors: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in (mixer.measures(folder, number) for number in range(processes)):
        if path.exists():  # a process that failed has written none, and its status says so
            found = json.loads(path.read_text())
            for name, seconds in found["seconds"].items():
                timings[name] += seconds
            for name, codes in found["errors"].items():
                errors[name].update(codes)
    return timings, errors


# What the check of the torture does not know


def _check_turns(memory: Limpet, noted: Iterable[writes.Deed], findings: Findings) -> None:
    by_session: defaultdict[str, list[str]] = defaultdict(list)
    for deed in noted:
        if deed.kind == "turn" and deed.done:
            by_session[deed.result].append(deed.name)
    for id, names in by_session.items():
        messages = memory.load_session(id).messages()
        said = Counter(message.text.partition(" I love")[0].partition(":")[0] for message in messages)
        for text in (text for name in names for text in (name, f"reply to {name}")):
            if said[text] != 1:
                faults = findings.doubled if said[text] else findings.lost
                faults.append(f"turn: {text!r} is there {said[text]} times")


def _check_schedules(memory: Limpet, noted: Iterable[writes.Deed], findings: Findings) -> None:
    made, gone, names = {}, set(), {}
    for deed in noted:
        if deed.kind == "schedule" and deed.done:
            made[deed.name], names[deed.name] = deed.result, deed.name
        elif deed.kind == "edit schedule" and deed.done:
            names[deed.target] = deed.name
        elif deed.kind == "delete schedule":
            gone.add(deed.target)
    for maker, id in made.items():
        if maker in gone:
            continue
        found = memory.schedules.get(id)
        if found.name != names[maker]:
            findings.lost.append(f"schedule {maker} is called {found.name}, not {names[maker]}")


# What is printed


def _print_table(timings: Timings, errors: Mapping[str, Counter[str]], findings: Findings) -> None:
    print(f"{'operation':<28} {'calls':>8} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}  errors")
    for name, seconds in sorted(timings.items(), key=lambda item: -len(item[1])):
        half, most, longest = (1000 * _quantile(seconds, part) for part in (0.5, 0.99, 1.0))
        told = ", ".join(f"{code} {count}" for code, count in errors.get(name, Counter()).most_common())
        print(f"{name:<28} {len(seconds):>8} {half:>9.2f} {most:>9.2f} {longest:>9.2f}  {told}")
    print(f"{len(timings)} of {len(OPERATIONS)} operations, {sum(map(len, timings.values()))} calls")
    print(f"acknowledged {findings.acknowledged}, lost {len(findings.lost)}, doubled {len(findings.doubled)}")
    codes = sum(errors.values(), Counter[str]())
    print(f"errors: {', '.join(f'{code} {number}' for code, number in codes.most_common()) or 'none'}")
    print(f"p99 / p50 of an append: {_ratio(timings[APPEND]):.1f}; load {os.getloadavg()[0]:.1f}")


def _quantile(seconds: list[float], part: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(part * len(seconds)))]


def _ratio(seconds: list[float]) -> float:
    return _quantile(seconds, 0.99) / _quantile(seconds, 0.5)


if __name__ == "__main__":
    sys.exit(main())
