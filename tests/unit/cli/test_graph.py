from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from limpet.cli.main import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIMPET_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == status
    out, err = capsys.readouterr()
    return err if status else out


def test_graph_shows_relations_with_sources(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "remember", "My sister Anna Kowalska lives in Porto.", "--user", "alice")
    out = run(capsys, "graph", "--user", "alice")
    assert "Anna Kowalska  person" in out
    assert "lives in → Porto" in out
    assert "[record " in out
    assert "ALSO" in out.splitlines()[0]


def test_graph_explains_empty_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Nobody and nothing is named yet" in run(capsys, "graph", "--user", "alice")
    run(capsys, "remember", "Anna called.", "--user", "alice")
    assert "Nothing is known of Bob" in run(capsys, "graph", "--user", "alice", "--entity", "Bob")


def test_graph_json_lists_entities_relations_and_mentions(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "remember", "Anna lives in Porto.", "--user", "alice")
    found: dict[str, Any] = json.loads(run(capsys, "graph", "--user", "alice", "--json"))
    assert {entity["id"] for entity in found["entities"]} == {"anna", "porto"}
    assert found["relations"][0]["predicate"] == "lives in"
    assert found["mentions"][0]["record_id"]


def test_graph_export_writes_graphml_and_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "remember", 'Anna <&> "Tom" live in Porto\x0b.', "--user", "alice")
    for name in ("g.graphml", "g.json"):
        out = run(capsys, "graph", "--user", "alice", "--export", str(place / name))
        assert out.startswith("Wrote ")
    ET.parse(place / "g.graphml")
    assert json.loads((place / "g.json").read_text())["entities"]


def test_graph_rejects_wrong_usage(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--user U, --agent A or --global" in run(capsys, "graph", "--user", "u", "--global", status=2)
    assert ".graphml or .json" in run(capsys, "graph", "--user", "u", "--export", "g.dot", status=2)
    assert "depth" in run(capsys, "graph", "--user", "u", "--depth", "99", status=1)
