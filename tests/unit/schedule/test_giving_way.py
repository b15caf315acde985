"""Background work in a program that answers somebody: it gives way, and is done all the same."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from limpet import Config, Limpet
from limpet.errors import InvalidInput

QUIET = Config.load(overrides={"embedding.model": "none", "jobs.worker": False})


def _with_a_job() -> Limpet:
    hf = Limpet.open(":memory:", config=QUIET)
    with hf.session("test", "one", user="alice").turn("I live in Porto.") as turn:
        turn.reply("Noted.")
    return hf


def test_a_job_waits_while_somebody_is_answered_but_not_for_ever() -> None:
    with _with_a_job() as hf:
        looked, begun = threading.Event(), monotonic()

        def busy() -> bool:
            looked.set()
            return True

        hf.jobs.start_worker(busy=busy)
        assert looked.wait(60)
        while hf.jobs.list(kind="extract") and monotonic() < begun + 60:
            threading.Event().wait(0.05)
        assert not hf.jobs.list(kind="extract")
        assert monotonic() - begun > 0.9


def test_busy_is_asked_so_it_must_be_a_function() -> None:
    with Limpet.open(":memory:") as hf, pytest.raises(InvalidInput, match="busy must be a function"):
        hf.jobs.start_worker(busy=True)  # type: ignore[arg-type]
