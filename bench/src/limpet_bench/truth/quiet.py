"""What is ended wrongly: long talk in which little changes, and much comes close to what is known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from limpet import Record
from limpet_bench.truth.claims import is_part
from limpet_bench.truth.data import QuietTalk, Said
from limpet_bench.truth.score import Figure
from limpet_bench.truth.stage import Stage, Timeline
from limpet_bench.truth.text import ContextLine, content_words, is_marked_past, overlaps

_BESIDE = re.compile(r" (?:Said (?:since|before), [^:]*|Also said): ")


class Quiet:
    """False ends: true claims that a later message ended, or marked as perhaps no longer true. Less is better."""

    def __init__(self, talks: Sequence[QuietTalk]) -> None:
        self._talks = talks
        self._ended = Figure("false ends", "true facts ended", 0.02, at_most=True)
        self._marked = Figure("false ends", "true facts marked as doubtful", 0.10, at_most=True)
        self._beside = Figure("false ends", "other true claims ended or marked", at_most=True)
        self._changed = Figure("false ends", "beside them: changed facts ended or marked")
        self._doubted = Figure("false ends", "true facts marked in the context of their question", at_most=True)
        self._any = Figure("false ends", "true facts marked in the context of any question", at_most=True)
        self._warned = Figure("false ends", "changed facts that context does not show as current")
        self.figures = [self._ended, self._marked, self._beside, self._changed, self._doubted, self._any, self._warned]

    def plan(self, timeline: Timeline) -> None:
        for talk in self._talks:
            slot = 0
            for at, said in enumerate(talk.said):
                slot = slot + 1 if at and talk.said[at - 1].day == said.day else 0
                timeline.say(said.day, talk.id, said.text, slot)
            timeline.ask(talk.said[-1].day, partial(self._judge, talk))
            timeline.ask(talk.said[-1].day, partial(self._judge_contexts, talk))

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

    def _judge_contexts(self, talk: QuietTalk, stage: Stage) -> None:
        """Ask for each fact, and look at the lines that state this one and those that state others."""
        facts = {at: said for at, said in enumerate(talk.said, 1) if said.fact is not None}
        for asked_at, asked in facts.items():
            if asked.question is None:
                continue
            shown = [part for line in stage.context(talk.id, asked.question) for part in split_line(line)]
            for at, said in facts.items():
                lines = [part for part in shown if has_fact(part.text, said.fact or "")]
                marked = [part.text for part in lines if is_marked_past(part, said.text)]
                about = f"{talk.id}: {asked.question} [{said.fact}]"
                if at in talk.ended:
                    if at == asked_at:
                        current = [line.text for line in lines]
                        self._warned.add(len(marked) == len(lines), f"{about} shown: {current}")
                elif lines:
                    self._any.add(len(marked) == len(lines), f"{about} marked: {marked}")
                    if at == asked_at:
                        self._doubted.add(len(marked) == len(lines), f"{about} marked: {marked}")


def split_line(line: ContextLine) -> list[ContextLine]:
    """The statements of a line, each with its own marks: what was said since stands behind what it may change."""
    return [line._replace(text=part) for part in _BESIDE.split(line.text)]


def has_fact(line: str, fact: str) -> bool:
    """Whether a line of a context has most of the content words of a fact."""
    wanted = content_words(fact)
    return 2 * len(wanted & content_words(line)) > len(wanted)


def has_ended(record: Record) -> bool:
    """Whether another statement ended it. What its own date ended has only passed."""
    return record.superseded_by is not None or record.valid_to is not None


def _find_message(record: Record, said: Sequence[Said]) -> tuple[int, Said | None]:
    quote = _quote(record)
    return next(((at, each) for at, each in enumerate(said, 1) if is_part(quote, each.text)), (0, None))


def _quote(record: Record) -> str:
    return record.source.sentence or record.content
