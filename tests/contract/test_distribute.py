"""A store that is spread over the machines of a Citus cluster."""

from __future__ import annotations

import os

import pytest

from limpet import Limpet
from limpet.errors import Unsupported
from tests.citus_server import CITUS_URL


@pytest.mark.skipif(CITUS_URL in os.environ, reason="the tests run on Citus")
def test_distribute_needs_citus(store_url: str) -> None:
    with Limpet.open(store_url) as memory, pytest.raises(Unsupported, match="Citus"):
        memory.admin.distribute()


@pytest.mark.citus
@pytest.mark.postgres
def test_distribute_spreads_a_store_with_memory_in_it_once(bare_postgres_url: str) -> None:
    with Limpet.open(bare_postgres_url) as memory:
        session = memory.session("app", "main", user="ana")
        session.append("user", "The harbour is quiet at night")
        memory.remember("Ana keeps bees", user="ana")
        done = memory.admin.distribute()
        placed = {table: placement for placement, tables in done.items() for table in tables}
        assert (placed["messages"], placed["audit"], placed["models"]) == ("bucket", "tenant", "reference")
        assert memory.admin.distribute() == {"bucket": [], "tenant": [], "reference": []}
        session.append("assistant", "Then let us walk there.")
        assert session.count() == 2
        assert [hit.text for hit in memory.recall("harbour", user="ana")] == ["The harbour is quiet at night"]
        assert [finding for finding in memory.admin.doctor() if not finding.ok] == []
