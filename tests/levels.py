"""Which tests run when: ``make quick`` runs those that are quick, ``make test`` adds more, ``make test-all`` the rest.

Every test belongs to one level, so that none runs twice. Only properties run again in ``make test-all``, with ten times
the examples.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import pytest

Level = Literal["quick", "test", "rest"]
LEVELS: tuple[Level, ...] = ("quick", "test", "rest")

QUICK = ("unit", "contract", "test_architecture.py", "test_public_names.py")
BACKEND_FIXTURES = ("store_url", "durable_url", "backend")
# What a client must do right before anything else; the rest of the contract runs with ``make test-all``.
CORE_OF_REMOTE = (
    *("test_kv.py", "test_messages.py", "test_sessions.py", "test_turn.py"),
    *("test_records.py", "test_records_in_time.py", "test_record_metadata.py"),
)
_HERE = Path(__file__).parent


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--level", choices=LEVELS, help="run only the tests of this level; default: all of them")


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: Level | None = config.getoption("level")
    if wanted is None:
        return
    runs: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (runs if runs_in(item, wanted) else left_out).append(item)
    items[:] = runs
    config.hook.pytest_deselected(items=left_out)


def runs_in(item: pytest.Item, wanted: Level) -> bool:
    again = wanted == "rest" and item.get_closest_marker("hypothesis") is not None
    return again or find_level(item) == wanted


def find_level(item: pytest.Item) -> Level:
    suite, backend = find_suite(item.path), find_backend(item)
    if suite in {"crash", "bench"} or _has(item, "long"):
        return "rest"
    if backend == "postgres" and not _has(item, "every_backend"):
        return "rest"
    if backend == "remote" and item.path.name not in CORE_OF_REMOTE:
        return "rest"
    if suite in QUICK and backend in {None, "memory"} and not _has(item, "slow"):
        return "quick"
    return "test"


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


@cache
def find_suite(path: Path) -> str:
    """The folder, or the file where it is in none."""
    return path.relative_to(_HERE).parts[0] if path.is_relative_to(_HERE) else "bench"


def find_backend(item: pytest.Item) -> str | None:
    if item.get_closest_marker("postgres") is not None:
        return "postgres"
    call = getattr(item, "callspec", None)
    given = (call.params.get(name) for name in BACKEND_FIXTURES) if call is not None else ()
    return next((str(name) for name in given if name is not None), None)
