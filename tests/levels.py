"""Which tests run when: ``make quick`` runs those that are quick, ``make test`` adds more, ``make test-all`` the rest.

Every test belongs to one level, so that none runs twice. Only properties run again in the levels after theirs: each
level tries more examples than the one before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

Level = Literal["quick", "test", "rest"]
LEVELS: tuple[Level, ...] = ("quick", "test", "rest")

QUICK = ("unit", "contract", "test_architecture.py", "test_public_names.py")
BACKEND_FIXTURES = ("store_url", "durable_url", "backend")
# What a client must do right before anything else; the rest of the contract runs with ``make test-all``.
CORE_OF_REMOTE = ("test_kv.py", "test_messages.py", "test_sessions.py", "test_records.py", "test_turn.py")
_HERE = Path(__file__).parent


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--level", choices=LEVELS, help="run only the tests of this level; default: all of them")


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: Level | None = config.getoption("level")
    if wanted is None:
        return
    left_out = [item for item in items if not runs_in(item, wanted)]
    items[:] = [item for item in items if runs_in(item, wanted)]
    config.hook.pytest_deselected(items=left_out)


def runs_in(item: pytest.Item, wanted: Level) -> bool:
    level = find_level(item)
    again = item.get_closest_marker("hypothesis") is not None and LEVELS.index(level) < LEVELS.index(wanted)
    return level == wanted or again


def find_level(item: pytest.Item) -> Level:
    suite, backend = _suite(item), find_backend(item)
    differs = item.get_closest_marker("every_backend") is not None
    if suite in {"crash", "bench"} or (backend == "postgres" and not differs):
        return "rest"
    if suite in QUICK and backend in {None, "memory"} and item.get_closest_marker("slow") is None:
        return "quick"
    return "test"


def _suite(item: pytest.Item) -> str:
    """The folder, or the file where it is in none."""
    return item.path.relative_to(_HERE).parts[0] if item.path.is_relative_to(_HERE) else "bench"


def find_backend(item: pytest.Item) -> str | None:
    if item.get_closest_marker("postgres") is not None:
        return "postgres"
    call = getattr(item, "callspec", None)
    given = (call.params.get(name) for name in BACKEND_FIXTURES) if call is not None else ()
    return next((str(name) for name in given if name is not None), None)
