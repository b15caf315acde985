"""What measures speed, on a store so small that its figures mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from limpet_bench import prompting, searching, speed

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
    with searching.opened(bench.lived(), searching.SpreadEmbedder()) as memory:
        assert memory.records.count(user=searching.USER) == 40
        session = memory.session("bench", prompting.CHAT, user=searching.USER)
        for question in searching.questions(TINY.questions):
            assert memory.recall(question, user=searching.USER)  # a question that finds nothing is answered too soon
            context = session.context(question)
            assert context.hits
            assert context.messages
            assert {"Earlier in this conversation", "About the user", "Relevant"} <= context.sections.keys()


def test_bench_speed_leaves_shared_store_unchanged(bench: speed.Bench) -> None:
    bench.lived()
    with searching.opened(bench.talked(TINY.chunks), searching.SpreadEmbedder()) as memory:
        assert memory.records.count(user=searching.USER) == 0
