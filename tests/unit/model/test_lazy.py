from __future__ import annotations

import os
import threading
import time

import pytest

from limpet.model.late import lazy_property


class Slow:
    def __init__(self) -> None:
        self.is_computing, self.may_end = threading.Event(), threading.Event()
        self.computed = 0

    @lazy_property
    def value(self) -> int:
        self.computed += 1
        self.is_computing.set()
        assert self.may_end.wait(30)
        return self.computed


class Quick:
    @lazy_property
    def value(self) -> object:
        return object()


def test_lazy_property_is_computed_once() -> None:
    quick = Quick()
    assert quick.value is quick.value


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lazy_property_computed_during_fork_does_not_hang_child() -> None:
    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.is_computing.wait(30)
    child = os.fork()
    if child == 0:
        slow.may_end.set()
        os._exit(0 if slow.value and Quick().value else 1)
    try:
        assert _wait(child) == 0
    finally:
        slow.may_end.set()
        thread.join()


def _wait(child: int) -> int | None:
    """The child's status; None if it did not end within ten seconds."""
    for _ in range(1000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None
