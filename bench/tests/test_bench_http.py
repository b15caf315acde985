"""The bench of the server, so short that its figures mean nothing."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from limpet_bench import http, http_load

pytestmark = pytest.mark.slow

ODD = ']] " \\ \n é'


def test_bench_http_measures_throughput_and_loses_nothing_on_kill(tmp_path: Path) -> None:
    bench = http.Bench(
        tmp_path, http.Effort(seconds=0.3, connections=8, sessions=5, requests=40), http_load.choose_load("own")
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
def test_bench_http_reports_memory_growth(second: int, flat: bool) -> None:
    mb = 2**20
    assert http.Grown(500 * mb, 1000 * mb, second * mb).is_flat == flat


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if body["query"] == ODD else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_bench_http_wrk_sends_requests_and_counts_errors(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wanted = [http_load.Request("/", {"query": query}) for query in (ODD, "other", ODD)]
        done = http_load.wrk(f"http://127.0.0.1:{server.server_port}", wanted, 2, 1, tmp_path)
        server.shutdown()
    assert done.errors > 0
    assert done.errors / done.per_second == pytest.approx(0.5, rel=0.3)  # one of three
