from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_work_in_the_background() -> Iterator[None]:
    """Rows are compared before and after: nobody may be doing a job that a verb has asked for meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIMPET_JOBS_WORKER", "false")
        yield
