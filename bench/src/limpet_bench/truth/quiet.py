"""What is ended wrongly: long talk in which little changes, and much comes close to what is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from limpet import Record
from limpet_bench.truth.claims import is_part
from limpet_bench.truth.data import QuietTalk, Said
from limpet_bench.truth.score import Figure
from limpet_bench.truth.stage import Stage, Timeline
from limpet_bench.truth.text import overlaps


class Quiet:
    """False ends: true claims that a later message ended, or marked as perhaps no longer true. Less is better."""

    def __init__(self, talks: Sequence[QuietTalk]) -> None:
        self._talks = talks
        self._ended = Figure("false ends", "true facts ended", 0.02, at_most=True)
        self._marked = Figure("false ends", "true facts marked as doubtful", 0.10, at_most=True)
        self._beside = Figure("false ends", "other true claims ended or marked", at_most=True)
        self._changed = Figure("false ends", "beside them: changed facts ended or marked")
        self.figures = [self._ended, self._marked, self._beside, self._changed]

    def plan(self, timeline: Timeline) -> None:
        for talk in self._talks:
            slot = 0
            for at, said in enumerate(talk.said):
                slot = slot + 1 if at and talk.said[at - 1].day == said.day else 0
                timeline.say(said.day, talk.id, said.text, slot)
            timeline.ask(talk.said[-1].day, partial(self._judge, talk))

    def _judge(self, talk: QuietTalk, stage: Stage) -> None:
        records = stage.claims(talk.id, history=True)
        contents = {record.id: record.content for record in records}
        closed: dict[int, list[bool]] = {}
        for record in records:
            at, said = _find_message(record, talk.said)
            if said is None:
                continue
            ended, marked = has_ended(record), "doubted_by" in record.metadata
            by = contents.get(record.superseded_by or record.metadata.get("doubted_by", ""), "nothing")
            fault = f"{talk.id}: {record.content} by: {by}"
            is_fact = said.fact is not None and overlaps(_quote(record), said.fact)
            if at in talk.ended:
                closed.setdefault(at, []).append(ended or marked)
            elif is_fact:
                self._ended.add(ended, fault)
                self._marked.add(marked and not ended, fault)
            else:
                self._beside.add(ended or marked, fault)
        for at, states in closed.items():
            self._changed.add(any(states), f"{talk.id}: still holds: {talk.said[at - 1].text}")


def has_ended(record: Record) -> bool:
    """Whether another statement ended it. What its own date ended has only passed."""
    return record.superseded_by is not None or record.valid_to is not None


def _find_message(record: Record, said: Sequence[Said]) -> tuple[int, Said | None]:
    quote = _quote(record)
    return next(((at, each) for at, each in enumerate(said, 1) if is_part(quote, each.text)), (0, None))


def _quote(record: Record) -> str:
    return record.source.sentence or record.content
