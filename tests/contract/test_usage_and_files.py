from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput
from limpet.model.session import ModelUsage
from tests.contract.rows import faults
from tests.contract.threads import at_once

# Usage


def test_usage_is_counted_by_model(memory: Limpet) -> None:
    session = memory.session("t", "1")
    assert session.usage().models == ()
    session.add_usage("small", input_tokens=100, output_tokens=20, cached_tokens=50, cost=0.001)
    session.add_usage("large", input_tokens=10, output_tokens=2, cost=0.5)
    session.add_usage("small", input_tokens=1, cost=0.0000001)
    usage = session.usage()
    assert usage.models == (
        ModelUsage("large", 1, 10, 2, 0, 0.5),
        ModelUsage("small", 2, 101, 20, 50, 0.0010001),
    )
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost) == (111, 22, 50, 0.5010001)


def test_usage_cost_has_no_rounding_error(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for _ in range(100):
        session.add_usage("m", cost=0.1)
    assert session.usage().cost == 10.0


def test_usage_belongs_to_one_session_and_survives_reopen(durable_url: str) -> None:
    with Limpet.open(durable_url) as memory:
        session, other = memory.session("t", "1"), memory.session("t", "2")
        session.add_usage("m", input_tokens=5)
        session.clear()
    with Limpet.open(durable_url) as memory:
        assert memory.load_session(session.id).usage().input_tokens == 5
        assert memory.load_session(other.id).usage().models == ()


def test_usage_from_many_threads_is_exact(memory: Limpet) -> None:
    session = memory.session("t", "1")

    def count(_: int) -> None:
        for _ in range(10):
            session.add_usage("m", input_tokens=1, output_tokens=2, cost=0.25)

    at_once(count)
    assert session.usage().models == (ModelUsage("m", 80, 80, 160, 0, 20.0),)


def test_usage_rejects_invalid_numbers(memory: Limpet) -> None:
    session = memory.session("t", "1")
    wrong: list[Any] = [-1, 1.5, "1", None, True, 2**61, 2**63, 10**5000]
    for bad in wrong:
        for field in ("input_tokens", "output_tokens", "cached_tokens"):
            with pytest.raises(InvalidInput):
                session.add_usage("m", **{field: bad})
    costs: list[Any] = [-0.1, float("nan"), float("inf"), "1", None, True, 1e300, 10**5000]
    for bad in costs:
        with pytest.raises(InvalidInput):
            session.add_usage("m", cost=bad)
    for model in ("", "\x00", 5, None, "x" * 300):
        with pytest.raises(InvalidInput):
            session.add_usage(model)  # type: ignore[arg-type]
    assert session.usage().models == ()


def test_usage_of_very_large_numbers_is_exact(memory: Limpet) -> None:
    session = memory.session("t", "1")
    for _ in range(20):
        session.add_usage("m", input_tokens=10**12, output_tokens=10**12, cached_tokens=10**12, cost=1_000_000)
    [bill] = session.usage().models
    assert (bill.input_tokens, bill.cost) == (20 * 10**12, 20_000_000.0)
    assert isinstance(bill.input_tokens, int)
    assert faults(memory) == []


# Files


def test_list_files_returns_plain_files_of_session_folder(tmp_path: Path) -> None:
    with Limpet.open(tmp_path / "data") as memory:
        session, other = memory.session("t", "1"), memory.session("t", "2")
        assert session.list_files() == []
        folder = tmp_path / "data" / "sessions" / session.id
        folder.mkdir(parents=True)
        (folder / "notes é.md").write_bytes(b"12345")
        (folder / "a.bin").write_bytes(b"")
        os.utime(folder / "a.bin", ns=(0, 1_700_000_000_123_456_000))
        (folder / "folder").mkdir()
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "kv.json.lock").write_bytes(b"")
        found = session.list_files()
        assert [(info.name, info.size) for info in found] == [("a.bin", 0), ("notes é.md", 5)]
        assert found[0].modified_at == datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC)
        assert other.list_files() == []


def test_list_files_without_data_folder_is_empty(memory: Limpet) -> None:
    assert memory.session("t", "1").list_files() == []
