"""What is measured of changes, lasting facts, passing states, sentences of several facts, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from limpet import Hit, Record
from limpet_bench.truth.data import Coordination, Dialogue, LastingFact, PassingState, Story
from limpet_bench.truth.score import Figure
from limpet_bench.truth.stage import Stage, Timeline, spread
from limpet_bench.truth.text import (
    ContextLine,
    content_words,
    find_unsaid,
    is_dated,
    is_marked_past,
    mentions,
    mentions_all,
    overlaps,
    words,
)

HITS = 10
DAYS = (30, 100, 400)
_OTHER_TALK = (14, 13, 13)  # messages before each of these days
_TWO_WEEKS = 14
_CHANGE_DAY, _ASK_DAY = 21, 35

T = TypeVar("T")


# Stories


class Changed:
    """New before old in recall, old absent or marked in the context, old claims ended."""

    def __init__(self, stories: Sequence[Story]) -> None:
        self._stories = stories
        self._ranked = Figure("changed", "recall: new value before the old", 0.95)
        self._ended = Figure("changed", "recall: ended thing not current", 0.95)
        self._shown = Figure("changed", "context: new, and old absent or marked", 0.95)
        self._new = Figure("changed", "context: the new value is there")
        self._marked = Figure("changed", "context: ended thing absent or marked", 0.95)
        self._closed = Figure("changed", "old claim ended or marked, where it was learned", 0.85)
        self.figures = [self._ranked, self._ended, self._shown, self._new, self._marked, self._closed]

    def plan(self, timeline: Timeline) -> None:
        for story in self._stories:
            slot = 0
            for at, (day, text) in enumerate(story.messages):
                slot = slot + 1 if at and story.messages[at - 1][0] == day else 0
                timeline.say(day, story.id, text, slot)
            timeline.ask(story.day, partial(self._judge, story))

    def _judge(self, story: Story, stage: Stage) -> None:
        hits = stage.memory.recall(story.question, user=story.id, k=HITS)
        asked = f"{story.id}: {story.question} [new: {story.new} old: {story.old}]"
        recalled = f"{asked} recalled: {[_short(hit.text) for hit in hits]}"
        lines = stage.context(story.id, story.question)
        old = [line.text for line in lines if shows_old(line, story)]
        if story.ended:
            self._ended.add(not any(presents_old(hit, story) for hit in hits), recalled)
            self._marked.add(not old, f"{asked} old: {old}")
        else:
            new = any(mentions(line.text, story.new) for line in lines)
            self._ranked.add(ranks_new_first(hits, story), recalled)
            self._shown.add(new and not old, f"{asked} new is {'there' if new else 'missing'}; old: {old}")
            self._new.add(new, f"{asked} context: {[line.text for line in lines]}")
        learned = [each for each in stage.claims(story.id, history=True) if states_old(each, story)]
        if learned:
            still = [each for each in learned if stage.holds(each)]
            self._closed.add(not still, f"{asked} still holds: {[each.content for each in still]}")


def ranks_new_first(hits: Sequence[Hit], story: Story) -> bool:
    """Whether the first hit that mentions either value mentions the new one."""
    first = next((hit for hit in hits if mentions(hit.text, (*story.new, *story.old))), None)
    return first is not None and mentions(first.text, story.new)


def presents_old(hit: Hit, story: Story) -> bool:
    """Whether a hit shows an ended thing as current: it holds without doubt, and does not say that it is over."""
    line = ContextLine(hit.text, "")
    return hit.holds and "doubted_by" not in hit.metadata and shows_old(line, story)


def shows_old(line: ContextLine, story: Story) -> bool:
    """Whether a line has the old value without the new one and without saying that it is past.

    A quote of a later message that names the old value tells of the change itself.
    """
    if not mentions(line.text, story.old) or mentions(line.text, story.new):
        return False
    return not is_marked_past(line, story.statement) and not any(overlaps(line.text, text) for text in story.later)


def states_old(record: Record, story: Story) -> bool:
    """Whether a claim was learned from the message that stated the old value, and states it."""
    if not mentions(f"{record.content} {record.value or ''}", story.old):
        return False
    quote = record.source.sentence or record.content
    others = (text for _, text in story.messages if text != story.statement)
    return overlaps(quote, story.statement) and not any(overlaps(quote, text) for text in others)


# Lasting facts


class Lasting:
    """Whether a fact is in the context of the question that needs it, after weeks and months of other talk."""

    def __init__(self, facts: Sequence[LastingFact], other_talk: Sequence[str]) -> None:
        self._facts = facts
        self._talk = other_talk
        goals = {400: 0.95}
        self._after = {day: Figure("lasting", f"in the context after {day} days", goals.get(day)) for day in DAYS}
        self.figures = list(self._after.values())

    def plan(self, timeline: Timeline) -> None:
        for at, fact in enumerate(self._facts):
            timeline.say(0, fact.id, fact.message)
            talk = pick(self._talk, fact.needs, at * sum(_OTHER_TALK), sum(_OTHER_TALK))
            for (last, day), count in zip(pairwise((0, *DAYS)), _OTHER_TALK, strict=True):
                for each in spread(count, last + 1, day - 1):
                    timeline.say(each, fact.id, talk.pop(0))
                timeline.ask(day, partial(self._judge, fact, day))

    def _judge(self, fact: LastingFact, day: int, stage: Stage) -> None:
        lines = [line.text for line in stage.context(fact.id, fact.question)]
        missing = [each for each in fact.needs if not any(mentions(line, [each]) for line in lines)]
        asked = f"{fact.id} after {day} days: {fact.question} [{fact.message}]"
        self._after[day].add(not missing, f"{asked} missing: {missing}; context: {lines}")


def pick(talk: Sequence[str], without: Sequence[str], start: int, count: int) -> list[str]:
    """So many messages from a place in the talk on, none of which mentions the phrases."""
    usable = [text for text in talk if not mentions(text, without)]
    return [usable[(start + at) % len(usable)] for at in range(count)] if usable else []


# Passing states


class Passing:
    """Whether a state of a day is shown as current two weeks later. Less is better."""

    def __init__(self, states: Sequence[PassingState], other_talk: Sequence[str]) -> None:
        self._states = states
        self._talk = other_talk
        self._shown = Figure("passing", "shown as current after two weeks", 0.02, at_most=True)
        self.figures = [self._shown]

    def plan(self, timeline: Timeline) -> None:
        days = (2, 5, 9, 12)
        for at, state in enumerate(self._states):
            timeline.say(0, state.id, state.message)
            talk = pick(self._talk, state.state, at * len(days), len(days))
            for day, text in zip(days, talk, strict=False):
                timeline.say(day, state.id, text)
            timeline.ask(_TWO_WEEKS, partial(self._judge, state))

    def _judge(self, state: PassingState, stage: Stage) -> None:
        shown = [line.text for line in stage.context(state.id, state.question) if shows_state(line, state)]
        self._shown.add(bool(shown), f"{state.id}: {state.question} shown: {shown}")


def shows_state(line: ContextLine, state: PassingState) -> bool:
    """Whether a line has the state's words, without a date of its own and without saying that it is past."""
    return mentions(line.text, state.state) and not is_dated(line) and not is_marked_past(line, state.message)


# Several facts in a sentence


class Coordinated:
    """Whether each fact of a sentence is a claim of its own, and outlives a change of another."""

    def __init__(self, sentences: Sequence[Coordination], other_talk: Sequence[str]) -> None:
        self._sentences = sentences
        self._talk = other_talk
        self._own = Figure("coordinated", "each fact a claim of its own", 0.95)
        self._kept = Figure("coordinated", "unchanged fact holds and is in its context", 0.95)
        self._held = Figure("coordinated", "unchanged claim holds, where it was learned", 0.95)
        self.figures = [self._own, self._kept, self._held]
        self._learned: dict[str, set[int]] = {}

    def plan(self, timeline: Timeline) -> None:
        for at, each in enumerate(self._sentences):
            timeline.say(0, each.id, each.message)
            timeline.ask(0, partial(self._judge_claims, each))
            talk = pick(self._talk, [phrase for fact in each.facts for phrase in fact], at * 3, 3)
            for day, text in zip((4, 9, 15), talk, strict=False):
                timeline.say(day, each.id, text)
            timeline.say(_CHANGE_DAY, each.id, each.change)
            timeline.ask(_ASK_DAY, partial(self._judge_change, each))

    def _judge_claims(self, each: Coordination, stage: Stage) -> None:
        records = [record for record in stage.claims(each.id) if stage.holds(record)]
        own = match(records, each.facts, lambda record, fact: states_fact(record, fact, each))
        self._learned[each.id] = own
        contents = [record.content for record in records]
        for at, fact in enumerate(each.facts):
            self._own.add(at in own, f"{each.id}: {each.message} no claim of its own: {fact}; records: {contents}")

    def _judge_change(self, each: Coordination, stage: Stage) -> None:
        records = [record for record in stage.claims(each.id, history=True) if stage.holds(record)]
        for at, fact in enumerate(each.facts):
            if at == each.changed:
                continue
            held = any(states_fact(record, fact, each) for record in records)
            lines = [line.text for line in stage.context(each.id, fact[0]) if not is_marked_past(line, each.message)]
            shown = any(mentions(line, fact) for line in lines)
            asked = f"{each.id}: {fact} after {each.change!r}: {'holds' if held else 'does not hold'}"
            self._kept.add(held and shown, f"{asked}; context: {lines}")
            if at in self._learned[each.id]:
                self._held.add(held, f"{asked}; records: {[record.content for record in records]}")


def states_fact(record: Record, fact: Sequence[str], each: Coordination) -> bool:
    """Whether a claim states this fact: by its value, or because its sentence has this fact alone."""
    if not mentions(record.content, fact):
        return False
    others = [phrase for other in each.facts if other != fact for phrase in other]
    wanted = frozenset().union(*map(content_words, fact))
    return not mentions(record.content, others) or bool(content_words(record.value or "") & wanted)


def match(records: Sequence[Record], facts: Sequence[T], fits: Callable[[Record, T], bool]) -> set[int]:
    """The facts that have a record of their own, as many as can be: no record serves two."""
    taken: dict[int, int] = {}  # the fact of a record

    def give(fact: int, seen: set[int]) -> bool:
        for at, record in enumerate(records):
            if at not in seen and fits(record, facts[fact]):
                seen.add(at)
                if at not in taken or give(taken[at], seen):
                    taken[at] = fact
                    return True
        return False

    for fact in range(len(facts)):
        give(fact, set())
    return set(taken.values())


# Summaries


class Summaries:
    """Whether each line of a summary made without a model was said by somebody, and what it covers."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._dialogues = dialogues
        self._said = Figure("summary", "lines that somebody said", 1.0)
        self._key = Figure("summary", "key phrases covered")
        self._words = Figure("summary", "words of it, of the words summed up", at_most=True)
        self.figures = [self._said, self._key, self._words]

    def plan(self, timeline: Timeline) -> None:
        for dialogue in self._dialogues:
            timeline.talk(dialogue.id, "dialogue", dialogue.turns)
            timeline.ask(dialogue.turns[-1].day, partial(self._judge, dialogue))

    def _judge(self, dialogue: Dialogue, stage: Stage) -> None:
        session = stage.session(dialogue.id, "dialogue")
        session.compact()
        summary = session.summary()
        text = summary.text if summary else ""
        covered = [turn.text for turn in dialogue.turns[: summary.upper_sequence if summary else 0]]
        unsaid, count = find_unsaid(text, [turn.text for turn in dialogue.turns])
        self._said.total += count
        self._said.count += count - len(unsaid)
        self._said.faults += [f"{dialogue.id}: nobody said: {line}" for line in unsaid]
        for phrase in dialogue.key:
            if any(mentions_all(each, [phrase]) for each in covered):
                self._key.add(mentions(text, [phrase]), f"{dialogue.id}: not covered: {phrase}")
        self._words.count += len(words(text))
        self._words.total += sum(len(words(each)) for each in covered)


# Contexts of all of them


def count_repeated(stage: Stage) -> list[Figure]:
    """Lines printed again in a context, over all contexts of a run."""
    lines = Figure("contexts", "lines that repeat another line", 0.0, at_most=True)
    lines.count, lines.total = len(stage.repeated), stage.lines
    lines.faults = [f"{asked}: {one!r} repeats {earlier!r}" for asked, one, earlier in stage.repeated]
    whole = Figure("contexts", "contexts with such a line", 0.0, at_most=True)
    whole.count, whole.total = stage.repeating, stage.contexts
    return [lines, whole]


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
