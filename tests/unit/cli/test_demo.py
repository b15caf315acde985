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
    for said in ("goose named Admiral", "#1 at ", "left out: 2 older", "13 June", "20 June", "Forgot 1 record"):
        assert said in done.out
    assert "Your turn:" in done.out
    assert list(folder.iterdir()) == []


def test_demo_does_not_touch_user_data(run, data):
    run("demo")
    assert not data.exists()


def test_demo_json_output(run):
    story = run("demo", "--json").json
    assert list(story) == ["sessions", "recall", "context", "history", "forget"]
    assert [session["message_count"] for session in story["sessions"]] == [5, 4, 6]
    assert "Admiral" in story["recall"][0]["text"]
    said = [version["content"] for version in story["history"]["versions"]]
    assert said == ["Regatta is on 13 June", "Regatta is on 20 June"]
    assert story["history"]["as_of"]["content"] == "Regatta is on 13 June"
    assert story["forget"] == {**story["forget"], "forgotten": 1, "found again": 0}
    assert [place.partition(" of ")[0] for place in story["forget"]["left"]] == ["message 1", "message 3"]
    assert story["sessions"][0]["last_active_at"] == "2026-06-06T08:19:00+00:00"


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
