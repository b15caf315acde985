"""How long a context takes compared with the recall inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet import Limpet, Message
from limpet.model.record import Layer
from limpet_bench import searching
from limpet_bench.workload import texts, time_call

if TYPE_CHECKING:
    from limpet_bench.speed import Bench, Effort, Times

CHAT = "now"


def live(memory: Limpet, effort: Effort) -> None:
    """Add records of every layer, keyed memories, and a long chat whose first part is summarized."""
    # The words of stored messages in another order: questions match records and messages alike.
    lines = [" ".join(reversed(line.split())) for line in texts(20_000, seed=5)]
    layers = list(Layer)
    for at, line in enumerate(lines[: effort.records]):
        memory.remember(line, user=searching.USER, layer=layers[at % len(layers)])
    for at, line in enumerate(lines[effort.records :][: effort.memories]):
        memory.remember(line, user=searching.USER, key=f"memory_{at}")
    session = memory.session("bench", CHAT, user=searching.USER)
    roles, spoken = ("user", "assistant"), lines[-effort.messages :]
    session.extend([Message.new(roles[at % 2], line) for at, line in enumerate(spoken)])
    session.set_summary("\n".join(spoken[:20]), effort.messages // 2)


def context_against_recall(bench: Bench) -> Times:
    """Run contexts and recalls of the same questions in alternating order."""
    from limpet_bench.speed import Times

    times = Times()
    with searching.open_store(bench.fill_life(), searching.SpreadEmbedder()) as memory:
        session = memory.session("bench", CHAT, user=searching.USER)
        session.context("first")
        for at, question in enumerate(searching.questions(bench.effort.questions)):

            def context(question: str = question) -> None:
                times.ours.append(time_call(lambda: session.context(question)))

            def recall(question: str = question) -> None:
                times.plain.append(time_call(lambda: memory.recall(question, user=searching.USER)))

            for act in (context, recall) if at % 2 else (recall, context):
                act()
    return times
