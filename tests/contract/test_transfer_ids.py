"""Ids that memory had before it was imported: they are found after the next export and import, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from limpet import Limpet
from limpet.errors import InvalidInput
from tests.contract.rows import faults

pytestmark = pytest.mark.every_backend


def _move(memory: Limpet, tmp_path: Path) -> tuple[str, str]:
    """Alice's session and record become Carol's. Returns the ids they had."""
    session = memory.session("t", "1", user="alice")
    session.append("user", "tea at four")
    record = memory.remember("Alice drinks tea", user="alice")
    memory.transfer.export(tmp_path / "alice", "alice")
    memory.transfer.import_(tmp_path / "alice", user="carol")
    memory.privacy.purge_user("alice")
    memory.transfer.export(tmp_path / "carol", "carol")
    return session.id, record.id


def test_export_carries_the_external_ids(memory: Limpet, tmp_path: Path) -> None:
    session_id, record_id = _move(memory, tmp_path)
    with Limpet.open(":memory:") as other:
        other.transfer.import_(tmp_path / "carol")
        assert other.load_session(session_id).id == other.sessions(user="carol")[0].id != session_id
        assert other.records.get(record_id).user == "carol"
        assert other.records.get(record_id).id != record_id
        other.transfer.export(tmp_path / "again", "carol")
        assert faults(other) == []
    for name in ("sessions", "records"):
        lines = [(tmp_path / place / "data" / f"{name}.jsonl").read_bytes() for place in ("carol", "again")]
        assert lines[0] == lines[1]


def test_export_has_no_external_id_where_there_was_none(memory: Limpet, tmp_path: Path) -> None:
    memory.session("t", "1", user="alice").append("user", "tea at four")
    memory.remember("Alice drinks tea", user="alice", id="018f0000-0000-7000-8000-000000000001")
    memory.transfer.export(tmp_path / "alice", "alice")
    for name in ("sessions", "records"):
        [line] = (tmp_path / "alice" / "data" / f"{name}.jsonl").read_text().splitlines()
        assert "external_id" not in json.loads(line)


def test_import_leaves_out_an_external_id_that_is_taken(memory: Limpet, tmp_path: Path) -> None:
    session_id, record_id = _move(memory, tmp_path)
    with Limpet.open(":memory:") as other:
        mine = other.remember("Carol drinks coffee", user="carol", id=record_id)
        done = other.transfer.import_(tmp_path / "carol")
        assert (done.sessions, done.records) == (1, 1)
        assert other.records.get(record_id) == mine
        assert other.load_session(session_id).count() == 1
        assert faults(other) == []


def test_import_rejects_an_external_id_that_is_none(memory: Limpet, tmp_path: Path) -> None:
    import hashlib

    _move(memory, tmp_path)
    path, manifest = tmp_path / "carol" / "data" / "records.jsonl", tmp_path / "carol" / "manifest.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(json.loads(before)["external_id"].encode(), b"anything at all"))
    told = json.loads(manifest.read_bytes())
    for file in told["files"]:
        if file["path"] == "data/records.jsonl":
            file |= {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(told))
    with Limpet.open(":memory:") as other, pytest.raises(InvalidInput, match="external_id is not a UUID"):
        other.transfer.import_(tmp_path / "carol")


def test_import_under_another_user_rewrites_ids_in_metadata(memory: Limpet, tmp_path: Path) -> None:
    first, second = (memory.remember(text, user="alice") for text in ("Alice lives in Porto", "Alice may move"))
    later = memory.remember(
        "Alice lives in Lisbon",
        user="alice",
        metadata={
            "follows": f"{first.id} {second.id}",
            "conflicts": second.id,
            "sources": f'[["{first.id}"]]',
            "note": first.id,
        },
    )
    memory.records.update(first.id, user="alice", metadata={"doubted_by": later.id, "follows": "nobody"})
    memory.transfer.export(tmp_path / "alice", "alice")
    memory.transfer.import_(tmp_path / "alice", user="carol")
    found = {record.content: record for record in memory.records(user="carol")}
    porto, may_move, lisbon = (found[each.content] for each in (first, second, later))
    assert lisbon.metadata == {
        "follows": f"{porto.id} {may_move.id}",
        "conflicts": may_move.id,
        "sources": f'[["{porto.id}"]]',
        "note": first.id,
    }
    assert porto.metadata == {"doubted_by": lisbon.id, "follows": "nobody"}
    assert porto.id != first.id
