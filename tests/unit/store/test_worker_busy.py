"""Background work in a program that answers somebody: it gives way, and is done all the same."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from limpet import Config, Limpet
from limpet.errors import InvalidInput

QUIET = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


def _with_a_job() -> Limpet:
    memory = Limpet.open(":memory:", config=QUIET)
    with memory.session("test", "one", user="alice").turn("I live in Porto.") as turn:
        turn.reply("Noted.")
    return memory


def test_worker_delays_job_while_busy_but_not_forever() -> None:
    with _with_a_job() as memory:
        looked, begun = threading.Event(), monotonic()

        def busy() -> bool:
            looked.set()
            return True

        memory.jobs.start_worker(busy=busy)
        assert looked.wait(60)
        while memory.jobs.list(kind="extract") and monotonic() < begun + 60:
            threading.Event().wait(0.05)
        assert not memory.jobs.list(kind="extract")
        assert monotonic() - begun > 0.9


def test_start_worker_requires_callable_busy() -> None:
    with Limpet.open(":memory:") as memory, pytest.raises(InvalidInput, match="busy must be a function"):
        memory.jobs.start_worker(busy=True)  # type: ignore[arg-type]
