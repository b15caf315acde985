"""What measures speed, on a store so small that its figures mean nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from limpet.cli.main import main
from limpet.providers.encoder import EncoderEmbedder
from limpet_bench import prompting, recall, searching, speed
from limpet_bench.datasets import Conversation, Question, Turn

TINY = replace(speed.SHORT, chunks=600, few_chunks=100, questions=6, records=30, memories=10, messages=60)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> speed.Bench:
    return speed.Bench(tmp_path_factory.mktemp("bench"), TINY, lambda _: None)


def test_bench_speed_compares_context_with_recall(bench: speed.Bench) -> None:
    (comparison,) = (one for one in speed.COMPARISONS if one.name.startswith("context"))
    result = speed.measure(comparison, bench, repeats=1)
    assert result.name == "context, 600 chunks and 30 records of one user"
    assert result.goal == 1.5
    assert result.ratio == round(result.ours_p95_us / result.plain_p95_us, 2)
    assert result.reached == (result.ours_p95_us <= 1.5 * result.plain_p95_us)


def test_bench_speed_context_is_not_empty(bench: speed.Bench) -> None:
    with searching.open_store(bench.fill_life(), searching.SpreadEmbedder()) as memory:
        assert memory.records.count(user=searching.USER) == 40
        session = memory.session("bench", prompting.CHAT, user=searching.USER)
        for question in searching.questions(TINY.questions):
            assert memory.recall(question, user=searching.USER)  # a question that finds nothing is answered too soon
            context = session.context(question)
            assert context.hits
            assert context.messages
            assert {"Earlier in this conversation", "About the user", "Relevant"} <= context.sections.keys()


def test_bench_speed_leaves_shared_store_unchanged(bench: speed.Bench) -> None:
    bench.fill_life()
    with searching.open_store(bench.fill_chat(TINY.chunks), searching.SpreadEmbedder()) as memory:
        assert memory.records.count(user=searching.USER) == 0


def test_bench_speed_tells_encoder_from_the_rest(bench: speed.Bench) -> None:
    for measure in (searching.ingest, searching.ingest_against("none"), searching.recall_with_encoder):
        times = measure(bench)
        assert len(times.ours) == len(times.plain) > 0
        assert min(*times.ours, *times.plain) > 0


def test_bench_speed_measures_memory_that_a_recall_takes(bench: speed.Bench) -> None:
    times = searching.memory(bench)
    assert 0 < times.ours[0] < times.plain[0]


def test_bench_recall_refuses_a_folder_without_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "recall", "--data", str(tmp_path)]) == 1
    assert "has no folder called locomo" in capsys.readouterr().err


def test_bench_recall_tells_time_of_embedder() -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    texts = ("A red kite", "Rain today")
    turns = tuple(Turn(f"t{number}", "s", "user", None, at, text) for number, text in enumerate(texts))
    question = Question("q", "Which kite?", "single", at, True, frozenset({"t0"}), frozenset({"s"}))
    asked = [Conversation("c", turns, (question,))]
    report = recall.run(asked, EncoderEmbedder(), None, lambda _: None, lambda _: None)
    assert 0 < report.ingest_embedding < report.ingest_seconds
    assert 0 < report.recall_embedding < sum(report.recall_seconds)
    facts = recall.as_json(report)
    assert 0 < facts["embedder_share_of_ingest"] < 1
    assert facts["embedder_ms_a_recall"] > 0
    words = recall.run(asked, None, None, lambda _: None, lambda _: None)
    assert recall.as_json(words)["embedder_share_of_ingest"] == 0
