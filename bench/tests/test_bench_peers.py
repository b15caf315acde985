"""Limpet beside others: on a few messages, so that the figures mean nothing."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from limpet.cli.main import build_parser
from limpet.errors import InvalidInput
from limpet_bench.datasets import Conversation, Question, Turn, load
from limpet_bench.peers import asked, command, fts5, running, stages
from limpet_bench.peers.figures import Line, as_json, judge, settle, table
from limpet_bench.peers.peer import About
from limpet_bench.peers.registry import OUR_MODULE, OURS, PEERS

AT = datetime(2026, 5, 1, tzinfo=UTC)
FALLS = """
def open_peer(folder, embedder):
    raise RuntimeError("no room\\nin here")
"""
UNKNOWN = "ended with status 1: ModuleNotFoundError: No module named 'nothing_of_that_name'"
EFFORT = running.Effort(messages=4, writes=3, seconds=5.0, patience=60.0)


def turn(number: int, text: str, session: str = "a") -> Turn:
    return Turn(f"t{number}", session, "user", None, AT, text)


TALK = Conversation(
    "ann",
    (turn(1, "I moved to Lisbon."), turn(2, "My dog is called Biscuit."), turn(3, "It rains.", "b")),
    (
        Question("q1", "What's my dog called?", "fact", None, True, frozenset({"t2"}), frozenset({"a"})),
        Question("q2", "Where did I move? Does it rain?", "fact", None, True, frozenset({"t1", "t3"}), frozenset()),
    ),
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    asked.save(tmp_path / "work", [TALK])
    return tmp_path / "work"


def given(work: Path, stage: str, module: str = fts5.__name__, **more: object) -> stages.Given:
    store = work.parent / "store"
    store.mkdir(exist_ok=True)
    vectors, out = str(work.parent / "vectors"), str(work.parent / "out")
    return stages.Given(stage, module, str(store), str(work), "none", vectors, out, **{"seconds": 5.0, **more})  # type: ignore[arg-type]


def test_bench_peers_are_named_uniquely_and_imported_lazily() -> None:
    assert PEERS[0].name == OURS
    assert len({about.name for about in PEERS}) == len(PEERS)
    assert all(callable(import_module(about.module).open_peer) for about in PEERS)
    assert not {"chromadb", "lancedb", "mem0", "qdrant_client"} & sys.modules.keys()


def test_bench_peers_report_missing_package_with_install_command(tmp_path: Path) -> None:
    absent = About("absent", "nobody", "no.module", "import nobody", ("nobody-has-this",))
    bench = command.Bench(tmp_path, [TALK], "none", None, EFFORT)
    line = bench.measure(absent)
    assert line.found == {}
    assert "absent: not installed: pip install nobody-has-this" in list(table([Line(PEERS[0]), line]))
    assert as_json(line, line)["missing"] == "not installed: pip install nobody-has-this"
    assert "--model" in (About("far", "vectors", "no.module", "pass").find_missing(has_vectors=False) or "")


def test_bench_peers_fts5_searches_and_isolates_users(tmp_path: Path) -> None:
    peer = fts5.open_peer(tmp_path, None)
    peer.add("ann", TALK.turns)
    peer.add("bob", [turn(9, "My dog is called Rex.")])
    assert peer.search("ann", 'What\'s "my" dog called - AND how?', 5, None)[0] == "t2"
    assert peer.search("bob", "dogs", 5, None) == ["t9"]
    assert peer.search("ann", "?", 5, None) == []
    peer.close()
    again = fts5.open_peer(tmp_path, None)
    assert again.ids("ann") == {"t1", "t2", "t3"}
    again.close()


def test_bench_peers_workload_round_trips(work: Path) -> None:
    assert load(work) == [TALK]


def test_bench_peers_scores_match_bench_recall() -> None:
    line = Line(PEERS[0], found={"ask": {"found": {"q1": ["t1", "t2"], "q2": ["t1"]}}})
    judge(line, [TALK])
    assert line.scores.mean("R@5") == pytest.approx((1 + 1 / 2) / 2)
    assert 0.6 < line.scores.mean("NDCG@10") < 0.7
    assert "found" not in line.found["ask"]


def test_bench_peers_spread_questions_over_conversations() -> None:
    lives = asked.script_lives(200)
    few = asked.limit_questions(lives, 7)
    assert [len(each.questions) for each in few] == [3, 2, 2]
    assert all(question.turns <= {said.id for said in each.turns} for each in few for question in each.questions)
    with pytest.raises(InvalidInput, match="--data"):
        asked.public(Path(__file__).parent, None)


def test_bench_peers_stages_measure_both_sides(work: Path) -> None:
    kept = stages.keep(given(work, "keep", messages=3))
    assert kept["messages"] == 3
    assert kept["bytes"] > 0
    assert kept["per_second"] > 0
    assert kept["beside_per_second"] > 0
    assert kept["time_ratio"] > 0
    found = stages.ask(given(work, "ask", OUR_MODULE))
    assert "beside_p50_ms" not in found
    assert found["found"]["q1"][0] == "t2"


def test_bench_peers_ratio_uses_interleaved_measurement() -> None:
    ours = Line(PEERS[0], found={"keep": {"per_second": 100.0, "p50_ms": 1.0, "p95_ms": 2.0}})
    kept = {"per_second": 30.0, "beside_per_second": 60.0, "beside_p50_ms": 3.0, "time_ratio": 4.0}
    other = Line(PEERS[1], found={"keep": kept, "ask": {"p50_ms": 3.0, "time_ratio": 1.5}})
    settle(ours, [other])
    assert other.ratio("kept_per_second", ours) == 0.25
    assert other.ratio("ask_p50_ms", ours) == 1.5
    assert ours.figure("kept_per_second") == 80.0
    assert ours.found["keep"]["p50_ms"] == 2.0


def test_bench_peers_kill_finds_acknowledged_writes(work: Path) -> None:
    run = running.Running(work.parent, work, "none", work.parent / "vectors", EFFORT)
    killed = run.kill(PEERS[1])
    assert killed["there"] == killed["acknowledged"] >= EFFORT.writes


def test_bench_peers_report_crash_or_timeout_per_peer(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work.parent / "falls.py").write_text(FALLS)
    monkeypatch.setenv("PYTHONPATH", f"{work.parent}:{Path(asked.__file__).parents[3]}")
    run = running.Running(work.parent, work, "none", work.parent / "vectors", EFFORT)
    about = About("falls", "nothing", "falls", "import nothing_of_that_name", vectors=False)
    line = Line(about, found={"keep": run.keep(about), "imports": run.imports(about)})
    assert line.errors == {"keep": "RuntimeError: no room in here", "imports": UNKNOWN}
    assert "falls: keep: RuntimeError: no room in here" in list(table([Line(PEERS[0]), line]))
    sleeping = running._Child([sys.executable, "-c", "import time; time.sleep(60)"], {}, None)
    assert sleeping.wait(0.1) == "took longer than 0.1 s"
    assert not sleeping.is_running


class Answering:
    """Instead of processes: everybody the same, but who raises."""

    def __init__(self, *_: object) -> None: ...

    def __getattr__(self, stage: str):
        told: dict[str, dict[str, object]] = {
            "imports": {"ms": 1.0, "beside_ms": 2.0},
            "keep": {"messages": 2, "bytes": 10, "per_second": 5.0, "p50_ms": 1.0, "p95_ms": 1.0},
            "ask": {"found": {}, "error": "too late"},
            "kill": {"acknowledged": 3, "there": 2},
            "two": {"acknowledged": 4, "there": 4, "raised": 1, "shut_out": 1, "said": "locked"},
        }
        return lambda about: dict(told[stage])


def parsed(*more: str) -> argparse.Namespace:
    return build_parser().parse_args(["bench", "peers", "--model", "none", "--messages", "30", *more])


def test_bench_peers_json_report_fails_on_loss(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "Running", Answering)
    monkeypatch.setattr(command, "judge", lambda *_: None)
    args = parsed("--only", "fts5", "--only", "chromadb", "--json")
    assert args.run(args) == 1
    whole = json.loads(capsys.readouterr().out)["scripted"]
    ours, plain, absent = whole["peers"]
    assert ours["name"] == OURS
    assert ours["kept_per_second_ratio"] == 1.0
    assert plain["import_ms_ratio"] == 0.5
    assert plain["errors"] == {"ask": "too late"}
    assert plain["R@10"] is None
    assert plain["stages"]["two"]["raised"] == 1
    assert "missing" in absent
    assert whole["effort"]["messages"] == 30

    args = parsed("--only", "fts5")
    args.run(args)
    shown = capsys.readouterr().out
    assert "4/4, 1 raised, 1 shut out" in shown
    assert "fts5: two writers: locked" in shown
