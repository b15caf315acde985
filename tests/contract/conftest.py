from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.testing import FakeClock


@pytest.fixture(params=("sqlite", pytest.param("postgres", marks=pytest.mark.postgres)))
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is still there when it was closed, and that several processes may open."""
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def timed(store_url: str, clock: FakeClock) -> Iterator[Limpet]:
    """A store on each backend whose time is the fixture ``clock``."""
    with Limpet.open(store_url, clock=clock) as opened:
        yield opened
