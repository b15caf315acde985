from __future__ import annotations

import sys
import tempfile
import time
from types import SimpleNamespace

import pytest


def test_demo_prints_its_story_and_removes_its_folder(run, tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    begun = time.process_time()
    done = run("demo")
    assert done.status == 0
    assert done.err == ""
    assert time.process_time() - begun < 20
    for said in ("lives in Gdansk", "past until 05 Jun 2026: The user lives in Porto.", "## About the user"):
        assert said in done.out
    assert "What does a rowing boat cost?" not in done.out.partition("1. What was learned")[2]
    assert "Your turn:" in done.out
    assert list(folder.iterdir()) == []


def test_demo_does_not_touch_user_data(run, data):
    run("demo")
    assert not data.exists()


def test_demo_json_output(run):
    story = run("demo", "--json").json
    assert list(story) == ["learned", "changed", "context", "forget"]
    assert "The user is allergic to peanuts." in [record["content"] for record in story["learned"]]
    new, old = story["changed"]
    assert ("Gdansk" in new["text"], new["holds"]) == (True, True)
    assert ("Porto" in old["text"], old["holds"]) == (True, False)
    rules = story["context"]["sections"]["Instructions and constraints"]
    assert "peanuts" in rules
    assert "short sentences" in rules
    assert story["forget"]["found again"] == 0
    assert story["forget"]["forgotten"] > 0


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_demo_runs_at_any_terminal_width(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert run("demo").status == 0


# Bench


def test_bench_passes_options_to_benchmark_module(run, monkeypatch):
    seen = {}

    def add_arguments(parser):
        parser.add_argument("--quick", action="store_true")
        parser.add_argument("--json", metavar="FILE", help="theirs, not ours")

    def measure(args):
        seen.update(vars(args))
        return 7

    monkeypatch.setitem(sys.modules, "limpet_bench.speed", SimpleNamespace(add_arguments=add_arguments, main=measure))
    assert run("bench", "speed", "--quick", "--json", "out.json", "--data", "here").status == 7
    assert seen["quick"] is True
    assert seen["json"] == "out.json"
    assert seen["data"] == "here"


def test_bench_help_is_available(run):
    assert "usage: limpet bench speed" in run("bench", "speed", "--help").out
