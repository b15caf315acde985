"""Run the stages of a peer as processes with a time limit, and collect their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, perf_counter
from typing import Any

from limpet_bench.peers.peer import About
from limpet_bench.peers.registry import OURS, get_peer
from limpet_bench.peers.stages import Given, notes_path, write_given

WRITERS = 2
_STARTS = 2  # the faster one counts
_HUB = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}  # no model is downloaded during a measurement


@dataclass(frozen=True, slots=True)
class Effort:
    messages: int  # that are kept one at a time
    writes: int  # before the process is killed, and of each of two writers
    seconds: float  # of writing
    patience: float  # for one stage


class Running:
    def __init__(self, folder: Path, work: Path, model: str, vectors: Path, effort: Effort) -> None:
        self._folder, self._work, self._model, self._vectors = folder, work, model, vectors
        self._effort = effort
        self._numbers = count(1)

    def _make_given(self, about: About, stage: str, store: Path) -> Given:
        effort = self._effort
        return Given(
            stage,
            about.module,
            str(store),
            str(self._work),
            self._model,
            str(self._vectors),
            str(self._folder / f"out-{next(self._numbers)}"),
            messages=effort.messages if stage == "keep" else effort.writes,
            seconds=effort.seconds,
            patience=effort.patience,
        )

    def _store(self) -> Path:
        store = self._folder / f"store-{next(self._numbers)}"
        store.mkdir()
        return store

    def _start(self, about: About, given: Given) -> _Child:
        path = Path(f"{given.out}.given")
        write_given(path, given)
        return _Child([sys.executable, "-m", "limpet_bench.peers.stages", str(path)], self._around(about), given.out)

    def _around(self, about: About) -> dict[str, str]:
        switched = {name: value.format(folder=self._folder) for name, value in about.environment.items()}
        return {**os.environ, **_HUB, **switched}

    def _run(self, about: About, given: Given) -> dict[str, Any]:
        return self._start(about, given).read_result(self._effort.patience)

    def keep(self, about: About) -> dict[str, Any]:
        return self._run(about, self._make_given(about, "keep", self._store()))

    def ask(self, about: About) -> dict[str, Any]:
        return self._run(about, self._make_given(about, "ask", self._store()))

    def kill(self, about: About) -> dict[str, Any]:
        """Kill the process with SIGKILL while it writes, after that many acknowledged messages."""
        store = self._store()
        given = replace(self._make_given(about, "write", store), seconds=self._effort.patience)  # should nobody kill it
        child, notes = self._start(about, given), notes_path(str(store), 0)
        ends = monotonic() + self._effort.patience
        while _lines(notes) < self._effort.writes and child.is_running and monotonic() < ends:
            time.sleep(0.005)
        if not child.is_running:
            return child.read_result(1.0)
        child.kill()
        if not _lines(notes):
            return {"error": "nothing was acknowledged in time"}
        return self._run(about, self._make_given(about, "check", store))

    def two(self, about: About) -> dict[str, Any]:
        """Two processes that write into one store at the same time."""
        store = self._store()
        made = self._run(about, self._make_given(about, "make", store))
        if "error" in made:
            return made
        children = []
        for writer in range(WRITERS):
            given = replace(self._make_given(about, "write", store), writer=writer, writers=WRITERS)
            children.append(self._start(about, given))
        ends = monotonic() + self._effort.patience
        came = [child.read_result(max(1.0, ends - monotonic())) for child in children]
        check = self._run(about, replace(self._make_given(about, "check", store), writers=WRITERS))
        said = [each.get("error") or each.get("said") for each in came]
        return {
            **check,
            "tried": WRITERS * self._effort.writes,
            "raised": sum(each.get("raised", 0) for each in came),
            "shut_out": sum("error" in each for each in came),
            "said": next(filter(None, said), ""),
            "sought": came[0].get("sought", 0),
            "seen": came[0].get("seen", 0),
        }

    def imports(self, about: About) -> dict[str, Any]:
        """Return the memory that the import adds to an idle process."""
        took: dict[str, list[float]] = {"pass": [], about.imports: [], get_peer(OURS).imports: []}
        for _ in range(_STARTS):
            for words, times in took.items():
                start = perf_counter()
                child = _Child([sys.executable, "-c", words], self._around(about), None)
                ended = child.wait(self._effort.patience)
                if ended:
                    return {"error": ended}
                times.append(perf_counter() - start)
        bare = min(took["pass"])
        return {
            "ms": max(0.0, min(took[about.imports]) - bare) * 1e3,
            "beside_ms": max(0.0, min(took[get_peer(OURS).imports]) - bare) * 1e3,
        }


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


class _Child:
    def __init__(self, command: list[str], environment: Mapping[str, str], out: str | None) -> None:
        self._out = None if out is None else Path(out)
        self._said = TemporaryFile()  # noqa: SIM115 - closed when it has ended
        # What others print is theirs: what was found is in a file. The last line tells why one fell.
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    def wait(self, patience: float) -> str:
        """Return why it failed; empty if it did not."""
        try:
            status = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"took longer than {patience:g} s"
        with self._said as said:
            said.seek(0)
            lines = said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"ended with status {status}: {last[:200]}" if status else ""

    def read_result(self, patience: float) -> dict[str, Any]:
        ended = self.wait(patience)
        if self._out is None or not self._out.exists():
            return {"error": ended or "said nothing"}
        found: dict[str, Any] = json.loads(self._out.read_text(encoding="utf-8"))
        return found
