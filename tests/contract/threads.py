"""Calls made by several threads at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")


def at_once(call: Callable[[int], T], count: int = 8) -> list[T]:
    """What ``call(0)``, ``call(1)``… answered, all begun together."""
    barrier = Barrier(count)

    def run(number: int) -> T:
        barrier.wait(60)
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
