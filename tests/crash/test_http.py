"""Servers that are killed while they answer; the long form is part of ``python -m tests.crash.torture``."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("starlette")
pytest.importorskip("mcp")

from limpet import Limpet
from tests.crash.clients import HttpClient, Siege
from tests.crash.mcp_clients import McpClient, ServerSiege, StdioSiege, record_key

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [ServerSiege, StdioSiege])
def test_killed_server_loses_no_acknowledged_write(kind: type[Siege], tmp_path: Path) -> None:
    siege = kind(str(tmp_path / "data"), Random(7))
    found = siege.run(kills=1)
    assert siege.answered > 20
    assert not any(found.values()), found
    assert all(client.told.kept for client in siege.clients)


def test_http_check_detects_lost_and_duplicate_messages(tmp_path: Path) -> None:
    siege = Siege(str(tmp_path / "data"), Random(1))
    client = siege.clients[0]
    siege.clients = [client]
    assert isinstance(client, HttpClient)
    with Limpet.open(siege.store) as memory:
        session = memory.session("torture", "0")
        for text in ("message 2 of client 0", "message 2 of client 0", "whose is this"):
            session.append("user", text)
        client.session = session.id
    client.told.began = client.told.kept = {"0-1": "message 1 of client 0", "0-2": "message 2 of client 0"}
    found = siege.check()
    assert found["nothing acknowledged is lost"] == ["message 1 of client 0"]
    assert found["nothing is there twice"] == ["message 2 of client 0"]
    assert found["nothing is there that nobody sent"] == ["whose is this"]


def test_mcp_check_detects_lost_duplicate_and_unforgotten_memories(tmp_path: Path) -> None:
    siege = Siege(str(tmp_path / "data"), Random(1))
    client = McpClient(0, siege)
    siege.clients = [client]
    texts = {f"0-{number}": f"message {number} of client 0" for number in (1, 2, 3, 4, 6)}
    with Limpet.open(siege.store) as memory:
        for key in ("0-2", "0-4"):
            memory.remember(texts[key], user="me", key=record_key(key))
        memory.remember("message 9 of client 0", user="me", key=record_key("0-9"))
        memory.notes.long_term(user="me").write(f"{texts['0-6']}\n{texts['0-6']}\n")
    client.told.began = client.told.kept = texts
    client.gone = {"0-4": True}
    found = siege.check()
    assert found["nothing acknowledged is lost"] == [texts["0-1"], texts["0-3"]]
    assert found["nothing is there twice"] == [texts["0-6"]]
    assert found["nothing is there that nobody sent"] == [
        f"{texts['0-4']}, which was forgotten",
        "message 9 of client 0",
    ]
