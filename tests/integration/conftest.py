from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=("sqlite", pytest.param("postgres", marks=pytest.mark.postgres)))
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is still there when it was closed, and that several processes may open."""
    if request.param == "sqlite":
        return str(tmp_path / "data")
    url: str = request.getfixturevalue("postgres_url")
    return url
