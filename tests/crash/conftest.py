from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fork_server import Nursery


@pytest.fixture(scope="session", autouse=True)
def no_work_in_the_background() -> Iterator[None]:
    """Rows are compared before and after: nobody may be doing a job that a verb has asked for meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIMPET_JOBS_WORKER", "false")
        yield


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened
