"""A server that is killed while it answers; the long form is part of ``python -m tests.crash.torture``."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("starlette")

from limpet import Limpet
from tests.crash import http

pytestmark = pytest.mark.slow


def test_http_server_killed_loses_no_acknowledged_write(tmp_path: Path) -> None:
    siege, found = http.besieged(str(tmp_path / "data"), 1, Random(7))
    assert siege.answered > 30
    assert not any(found.values()), found


def test_http_check_detects_lost_and_duplicate_messages(tmp_path: Path) -> None:
    siege = http.Siege(str(tmp_path / "data"), Random(1))
    siege.clients = siege.clients[:1]
    told = siege.clients[0].told
    with Limpet.open(siege.store) as memory:
        session = memory.session("torture", "0")
        for text in ("message 2 of client 0", "message 2 of client 0", "whose is this"):
            session.append("user", text)
        told.session = session.id
    told.began = told.kept = {"0-1": "message 1 of client 0", "0-2": "message 2 of client 0"}
    found = http.check(siege.store, siege)
    assert found["nothing acknowledged is lost"] == ["message 1 of client 0"]
    assert found["nothing is there twice"] == ["message 2 of client 0"]
    assert found["nothing is there that nobody sent"] == ["whose is this"]
