"""The bench of the server, so short that its figures mean nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from holdfast.bench import http, http_load

pytestmark = pytest.mark.slow


def test_it_measures_compares_kills_and_looks_for_what_was_acknowledged(tmp_path: Path) -> None:
    bench = http.Bench(
        tmp_path, http.Effort(seconds=0.3, connections=8, sessions=5, requests=40), http_load.chosen("own")
    )
    turns = bench.measure("turns")
    assert turns.errors == 0
    assert turns.in_process is not None
    assert turns.ratio == pytest.approx(turns.per_second / turns.in_process, abs=0.02)
    assert 0 < turns.p50_ms <= turns.p99_ms
    killed = bench.kill()
    assert killed.acknowledged >= 100
    assert killed.lost == 0


@pytest.mark.parametrize(("second", "flat"), [(1040, True), (1049, True), (1051, False)])
def test_memory_that_grows_is_told(second: int, flat: bool) -> None:
    mb = 2**20
    assert http.Grown(500 * mb, 1000 * mb, second * mb).is_flat == flat


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_wrk_counts_what_was_refused(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    served = http_load.Served(tmp_path / "data")
    try:
        good = http_load.Request("/v1/recall", {"query": "a", "user": "b"})
        odd = http_load.Request("/v1/recall", {"query": ']] " \\ \n é', "user": "b"})
        bad = http_load.Request("/v1/nothing", {})
        done = http_load.wrk(served.url, [good, odd, bad], 2, 1, tmp_path)
        assert done.errors / done.per_second == pytest.approx(0.5, rel=0.3)  # one of three
    finally:
        served.stop()
