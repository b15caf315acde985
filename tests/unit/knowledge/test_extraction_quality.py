"""The rules on labelled turns: how much of what they find is right. See tests/data/extraction/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from limpet.cli.main import main
from limpet.errors import InvalidInput
from limpet_bench.extraction import load, measure

DATA = Path(__file__).parents[2] / "data" / "extraction"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision", "recall", "said", "traps"),
    [
        ("dev", 0.97, 0.80, 0.97, 1),
        ("heldout", 0.96, 0.80, 0.95, 0),
        ("casual", 0.97, 0.75, 0.96, 11),
        ("mixed", 0.97, 0.75, 0.94, 1),
        ("unseen", 0.97, 0.64, 0.93, 2),
        ("fresh", 0.97, 0.69, 0.94, 1),
    ],
)
def test_extraction_precision_and_recall_on_labelled_turns(name, precision, recall, said, traps, capsys):
    """The rules are precise and find the values; with the trained reader nearly everything is said by some claim."""
    report = measure(load(DATA / f"{name}.jsonl"))
    score = report.whole
    with capsys.disabled():
        print(f"\nextract, {name}: {score.turns} turns, precision {score.precision:.3f}, recall {score.recall:.3f}")
    assert score.precision >= precision, "\n".join(report.faults)
    assert score.recall >= recall, "\n".join(report.faults)
    assert report.read.recall >= said
    assert report.read.wrong <= traps
    hard = report.kinds["hard"]
    if name == "fresh":  # there all of them are traps: nothing can be right
        assert hard.wrong <= 1
    else:
        assert hard.precision >= 0.85


def test_labelled_turns_are_sufficient_and_unique():
    turns = [
        labelled
        for name in ("dev", "heldout", "casual", "mixed", "unseen", "fresh")
        for labelled in load(DATA / f"{name}.jsonl")
    ]
    assert len(turns) >= 180
    assert len({labelled.id for labelled in turns}) == len(turns)
    assert len({tuple(said.text for said in labelled.turn) for labelled in turns}) == len(turns)
    assert sum(not labelled.expect for labelled in turns) >= 50


@pytest.mark.slow
def test_bench_extract_prints_report(capsys):
    assert main(["bench", "extract", "--data", str(DATA / "dev.jsonl")]) == 0
    assert "precision" in capsys.readouterr().out
    assert main(["bench", "extract", "--data", str(DATA / "dev.jsonl"), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out).values()
    assert report["turns"] == 132
    assert main(["bench", "extract"]) == 2


def test_load_labels_names_invalid_line(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": "a", "kind": "life", "turn": [], "expect": []}\n{"id": 1}\n')
    with pytest.raises(InvalidInput, match="line 2"):
        load(tmp_path / "x.jsonl")


def test_measure_counts_wrong_and_missed_facts(tmp_path):
    row = {"id": "a", "kind": "life", "turn": [{"user": "I live in Porto."}], "expect": ["fact|user|home|Oslo"]}
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    score = measure(load(tmp_path / "x.jsonl")).whole
    assert (score.right, score.wrong, score.missed) == (0, 1, 1)
