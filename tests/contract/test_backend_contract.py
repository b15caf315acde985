"""The contract that ``limpet.testing`` offers to those who write a backend, on ours."""

from __future__ import annotations

import pytest

from limpet.testing import BackendContract

pytestmark = pytest.mark.every_backend


class TestBackends(BackendContract):
    @pytest.fixture(autouse=True)
    def _ends_with_its_handle(self, store_url: str) -> None:
        self.durable = store_url != ":memory:"
