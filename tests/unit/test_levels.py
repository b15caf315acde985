"""Which level a test belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.levels import find_level, runs_in

TESTS = Path(__file__).parent.parent


class Item:
    def __init__(self, path: str, *marks: str, **params: str) -> None:
        self.path = (TESTS / path).resolve()
        self._marks = marks
        self.callspec = type("Call", (), {"params": params})

    def get_closest_marker(self, name: str) -> object:
        return name if name in self._marks else None


@pytest.mark.parametrize(
    ("item", "level"),
    [
        (Item("unit/test_x.py"), "quick"),
        (Item("unit/test_x.py", "slow"), "test"),
        (Item("unit/cli/test_x.py", "postgres"), "rest"),
        (Item("test_architecture.py"), "quick"),
        (Item("test_docs.py"), "test"),
        (Item("contract/test_x.py", store_url="memory"), "quick"),
        (Item("contract/test_x.py", store_url="sqlite"), "test"),
        (Item("contract/test_x.py", "postgres", store_url="postgres"), "rest"),
        (Item("contract/test_x.py", "every_backend", durable_url="sqlite"), "test"),
        (Item("contract/test_x.py", "every_backend", "postgres", store_url="postgres"), "test"),
        (Item("contract/test_x.py", store_url="remote"), "rest"),
        (Item("contract/test_kv.py", store_url="remote"), "test"),
        (Item("integration/test_x.py"), "test"),
        (Item("integration/test_x.py", "long"), "rest"),
        (Item("property/test_x.py", "hypothesis"), "test"),
        (Item("crash/test_x.py"), "rest"),
        (Item("../bench/tests/test_x.py"), "rest"),
    ],
)
def test_levels(item: Any, level: str) -> None:
    assert find_level(item) == level


def test_property_runs_again_in_the_last_level() -> None:
    item: Any = Item("unit/test_x.py", "hypothesis")
    assert [runs_in(item, level) for level in ("quick", "test", "rest")] == [True, False, True]
    item = Item("property/test_x.py", "hypothesis")
    assert [runs_in(item, level) for level in ("quick", "test", "rest")] == [False, True, True]
    item = Item("unit/test_x.py")
    assert [runs_in(item, level) for level in ("quick", "test", "rest")] == [True, False, False]
