"""The bench of scale, so short that its figures mean nothing."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet_bench import scale, scale_load
from limpet_bench.workload import time_call
from tests.postgres_server import PostgresMissing, PostgresServer

pytestmark = pytest.mark.slow
TINY = scale.Effort(0.2, (1, 2), (0.0, 1.0), (2,), 2, (40,), 80, 40)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer.start_private()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


def test_bench_scale_measures_server_as_ratios(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "SHORT", TINY)
    assert scale.main(Namespace(url=server.url(), folder=None, short=True, json=True)) == 0
    shown = json.loads(capsys.readouterr().out)
    rows = {(row["name"], row["against"]): row for row in shown["rows"]}
    for latency in ("0 ms", "1 ms"):
        compared = rows[f"append, 2 processes, {latency}, 2 users each", "bare inserts"]
        assert compared["ratio"] == pytest.approx(compared["ours"] / compared["plain"], abs=0.001)
        assert compared["errors"] == 0
        assert rows[f"turn, 2 processes, {latency}", "1 process"]["ratio"] > 0
    assert rows["first recall, 40 messages", "the next ones"]["ratio"] > 0
    assert rows["bytes a message, vectors", "all tables"]["ours"] > 384
    assert shown["estimate"]["terabytes"] == pytest.approx(rows["bytes a message", "its text"]["ours"] / 100, abs=0.1)
    assert shown["estimate"]["python_cores"] > 0
    assert server.run("SELECT 1 FROM pg_database WHERE datname LIKE 'limpet_bench%'") == []


def test_bench_scale_measures_file_without_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "SHORT", TINY)
    assert scale.main(Namespace(url=None, folder=tmp_path, short=True)) == 0
    shown = capsys.readouterr().out
    assert "first recall, 40 messages" in shown
    assert "bytes a message, vectors" in shown
    assert " TB" in shown
    assert list(tmp_path.iterdir()) == []


def test_slow_network_takes_as_long_as_it_says(server: PostgresServer) -> None:
    import psycopg

    with scale_load.SlowNetwork(server.url(), 40.0) as network, psycopg.connect(network.url) as connection:
        assert min(time_call(lambda: connection.execute("SELECT 1")) for _ in range(3)) >= 0.04


def test_call_that_fails_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failed = scale.Row("append", 10.0, "/s", "bare inserts", 20.0, errors=3)
    monkeypatch.setattr(scale.Bench, "measure", lambda _: iter([failed]))
    assert scale.main(Namespace(url=None, folder=None, short=True)) == 1
    assert "3 failed" in capsys.readouterr().out
