"""What is learned from messages, against the claims that a person found in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from limpet import Record
from limpet_bench.truth.data import Excerpt, Label, LabelledMessage, Line
from limpet_bench.truth.measures import match
from limpet_bench.truth.score import Figure
from limpet_bench.truth.stage import REPLY, SURE, Stage, Timeline
from limpet_bench.truth.text import mentions, overlaps, split_sentences

CARE = frozenset({"health", "allergy", "medication", "diet", "assistant_rule", "assistant_style"})
_OVER = frozenset({"ended", "past"})  # a claim of these need not be current
_PASSING = "passing"  # right when it is learned, but nobody has to


class Claims:
    """Claims per message: precision, recall, and messages that teach nothing."""

    def __init__(self, messages: Sequence[LabelledMessage]) -> None:
        self._messages = messages
        self._precision = Figure("claims", "precision: learned claims that are right", 0.88)
        self._recall = Figure("claims", "recall: labelled claims that are learned", 0.65)
        self._care = Figure("claims", "recall: health, diet and rules", 0.80)
        self._answers = Figure("claims", "recall: answers to a question")
        self._own = Figure("claims", "recall: each by a record of its own")
        self._silent = Figure("claims", "messages that teach nothing, and nothing learned")
        self._doubtful = Figure("claims", "doubtful claims that are right")
        self.figures = [
            *(self._precision, self._recall, self._care, self._answers, self._own, self._silent, self._doubtful)
        ]

    def plan(self, timeline: Timeline) -> None:
        for each in self._messages:
            lines = [Line(0, "user", each.text), Line(0, "assistant", REPLY)]
            if each.before is not None:
                lines.insert(0, Line(0, "assistant", each.before))
            timeline.talk(each.id, "message", lines)
            timeline.ask(0, partial(self._judge, each))

    def _judge(self, each: LabelledMessage, stage: Stage) -> None:
        current = stage.claims(each.id)
        sure = [record for record in current if record.confidence >= SURE]
        for record in current:
            figure = self._precision if record.confidence >= SURE else self._doubtful
            right = any(states(record, label) for label in each.claims)
            figure.add(right, f"{each.id}: {each.text} wrong: {describe(record)}")
        if each.nothing is not None:
            learned = [describe(record) for record in sure]
            self._silent.add(not learned, f"{each.id} ({each.nothing}): {each.text} learned: {learned}")
        self._count_found(each, sure, stage.claims(each.id, history=True))

    def _count_found(self, each: LabelledMessage, sure: Sequence[Record], ever: Sequence[Record]) -> None:
        wanted = [label for label in each.claims if label.status != _PASSING]
        own = match(ever, wanted, lambda record, label: states(record, label) and (record in sure or is_over(label)))
        for at, label in enumerate(wanted):
            records = ever if is_over(label) else sure
            found = any(states(record, label) for record in records)
            missed = f"{each.id}: {each.text} missed: {label.attribute} {label.value!r} ({label.status})"
            self._recall.add(found, missed)
            self._own.add(at in own, missed)
            if label.attribute in CARE:
                self._care.add(found, missed)
            if each.before is not None:
                self._answers.add(found, f"[{each.before}] {missed}")


def is_over(label: Label) -> bool:
    return label.status in _OVER


def states(record: Record, label: Label) -> bool:
    """Whether a record is of a labelled claim: by the sentence it was learned from, or by the claim's value."""
    if record.source.sentence and overlaps(record.source.sentence, label.quote):
        return True
    return bool(label.value) and mentions(f"{record.value or ''} | {record.content}", [label.value])


def describe(record: Record) -> str:
    claim = f"{record.subject}/{record.attribute} = {record.value!r}, " if record.attribute else ""
    return f"{record.type.value} {claim}{record.content!r}"


class Lives:
    """Sentences of natural talk that state something lasting: precision and recall, by setting."""

    def __init__(self, excerpts: Sequence[Excerpt]) -> None:
        self._excerpts = excerpts
        self._figures: dict[str, tuple[Figure, Figure]] = {}
        for setting in sorted({each.setting for each in excerpts}):
            precision = Figure("lives", f"{setting}: sentences rightly learned, precision", 0.80)
            recall = Figure("lives", f"{setting}: sentences that state something, recall", 0.60)
            self._figures[setting] = precision, recall
        self.figures = [figure for pair in self._figures.values() for figure in pair]

    def plan(self, timeline: Timeline) -> None:
        for each in self._excerpts:
            timeline.talk(each.id, "life", each.turns)
            timeline.ask(each.turns[-1].day, partial(self._judge, each))

    def _judge(self, each: Excerpt, stage: Stage) -> None:
        precision, recall = self._figures[each.setting]
        quotes = [
            record.source.sentence
            for record in stage.claims(each.id, history=True)
            if record.source.sentence and record.confidence >= SURE
        ]
        for turn, sentence, labels in list_sentences(each):
            learned = any(quote for quote in quotes if is_part(quote, turn) and overlaps(quote, sentence))
            lasting = any(label.status != _PASSING for label in labels)
            if learned and (lasting or not labels):
                precision.add(lasting, f"{each.id}: wrong: {sentence}")
            if lasting:
                recall.add(learned, f"{each.id}: missed: {sentence}")


def is_part(quote: str, text: str) -> bool:
    return " ".join(quote.split()) in " ".join(text.split()) or overlaps(quote, text)


def list_sentences(each: Excerpt) -> Iterable[tuple[str, str, list[Label]]]:
    """The sentences of people, with the text of their turn and the claims they make."""
    for at, turn in enumerate(each.turns):
        if turn.role != "user":
            continue
        labels = [label for index, label in each.claims if index == at]
        for sentence in split_sentences(turn.text):
            yield turn.text, sentence, [label for label in labels if makes(sentence, label)]


def makes(sentence: str, label: Label) -> bool:
    """Whether a claim is made in this sentence. Its quote may go over several."""
    return any(overlaps(sentence, part) for part in split_sentences(label.quote))
