from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from limpet.model.values import Clock, uuid7
from limpet.sessions.files import FileSessions

START = datetime(2026, 11, 15, 10, 30, 1, 123456, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    """A second later at each look."""
    seconds = itertools.count()
    return lambda: START + timedelta(seconds=next(seconds))


@pytest.fixture
def ids() -> Iterator[str]:
    return (uuid7(START, number.to_bytes(10, "big")) for number in itertools.count(1))


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock, ids: Iterator[str]) -> FileSessions:
    return FileSessions(tmp_path, clock=clock, new_id=lambda: next(ids))
