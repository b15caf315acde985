"""The scorers of ``limpet bench truth``: each must tell a good answer from a bad one."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest

from limpet import Hit, Limpet, Record
from limpet.errors import InvalidInput
from limpet.model.chunk import Source, SourceKind
from limpet.model.record import Layer, Origin, RecordSource, RecordType
from limpet.model.scope import Level, Owner, Scope
from limpet_bench.truth import command, data, text
from limpet_bench.truth.claims import list_sentences, states
from limpet_bench.truth.command import MEASURES, build, measure
from limpet_bench.truth.data import Coordination, Excerpt, Label, Line, PassingState, QuietTalk, Said, Story
from limpet_bench.truth.measures import (
    match,
    pick,
    presents_old,
    ranks_new_first,
    shows_old,
    shows_state,
    states_fact,
    states_old,
)
from limpet_bench.truth.quiet import Quiet, has_fact, split_line
from limpet_bench.truth.score import Figure, format_table
from limpet_bench.truth.stage import Stage, Timeline, open_stage, spread
from limpet_bench.truth.text import (
    ContextLine,
    context_lines,
    find_repeated,
    find_unsaid,
    is_dated,
    is_marked_past,
    mentions,
    overlaps,
)
from limpet_bench.workload import Clock

MOVE = Story(
    "s1",
    ((0, "I was born abroad, and I live in Porto"), (9, "rain again"), (20, "Left Porto, we rent in Lisbon now")),
    "Where do I live?",
    30,
    new=("Lisbon",),
    old=("Porto",),
)
GYM = Story(
    "s2",
    ((0, "I pay for Ironshed gym"), (9, "that Ironshed gym has my money no more")),
    "Which gym?",
    30,
    new=(),
    old=("Ironshed gym",),
)


def hit(text: str) -> Hit:
    return Hit(text, 1.0, {}, Source(SourceKind.MESSAGE, "m1", datetime(2026, 1, 5, tzinfo=UTC)))


def record(content: str, sentence: str | None = None, value: str | None = None, confidence: float = 0.8) -> Record:
    return Record(
        id=content,
        home=Owner(Scope("default", user="u"), Level.USER),
        layer=Layer.SEMANTIC,
        type=RecordType.FACT,
        content=content,
        source=RecordSource(sentence=sentence),
        origin=Origin.EXTRACTED,
        value=value,
        confidence=confidence,
    )


def line(content: str, heading: str = "") -> ContextLine:
    return ContextLine(content, heading)


# Words


@pytest.mark.parametrize(
    ("said", "phrase", "found"),
    [
        ("We moved to Hexham.", "hexham", True),
        ("The user doesn't fly.", "do not fly", True),
        ("The user's mother lives with them", "mother lives with us", True),
        ("A zero-waste shop", "ze", False),
        ("The bed is in the attic, and my aunt has a house in Peckham", "one bed in Peckham", False),
        ("", "Hexham", False),
    ],
)
def test_mentions_finds_value_as_said_or_in_third_person(said, phrase, found):
    assert mentions(said, [phrase]) is found


def test_overlap_needs_half_of_the_shorter_quote():
    assert overlaps("I carry an EpiPen because of it", "I carry an EpiPen")
    assert not overlaps("I like tea in the evening", "I carry an EpiPen")
    assert not overlaps("", "I carry an EpiPen")


# Contexts


def test_context_lines_know_their_headings():
    lines = context_lines("# Memory\nQuoted.\n\n## Facts\n- one\n  goes on\n\n## 2026-01-05\n- two\nPast:\n- three\n")
    assert lines == [
        line("Quoted.", "Memory"),
        line("one goes on", "Memory / Facts"),
        line("two", "Memory / 2026-01-05"),
        line("three", "Memory / 2026-01-05 / Past:"),
    ]


def test_since_and_a_date_do_not_make_a_line_history():
    assert is_dated(line("2026-01-05: on the train"))
    assert is_dated(line("on the train", "5 January 2026"))
    assert not is_dated(line("The user is on the train (since 5 Jan 2026)"))
    assert not is_dated(line("The user may be on the train"))


def test_repeated_lines_are_found_under_any_label():
    said = "Gerald can't do Wednesdays, he's a paramedic on a roster"
    lines = context_lines(f"- 2026-01-14: Asked: {said} | Answered: Okay.\n- [08:00] User: {said}\n- Okay.\n- Okay.")
    assert [earlier for _, earlier in find_repeated(lines)] == [lines[0].text]
    assert find_repeated(context_lines("- The user lives in Lisbon.\n- The user works in Lisbon.")) == []


# Changes


def test_new_value_must_come_before_the_old():
    assert ranks_new_first([hit("rain again"), hit("home: Lisbon"), hit("home: Porto")], MOVE)
    assert ranks_new_first([hit("Left Porto, we rent in Lisbon now")], MOVE)
    assert not ranks_new_first([hit("home: Porto"), hit("home: Lisbon")], MOVE)
    assert not ranks_new_first([hit("rain again")], MOVE)


def test_old_value_in_context_must_be_marked():
    assert shows_old(line("The user lives in Porto."), MOVE)
    assert shows_old(line("2026-01-05: I was born abroad, and I live in Porto"), MOVE)  # its own "was" marks nothing
    assert not shows_old(line("The user lived in Porto until May 2026."), MOVE)
    assert not shows_old(line("The user lives in Porto.", "No longer true"), MOVE)
    assert not shows_old(line("The user lives in Lisbon, before that in Porto."), MOVE)


def test_ended_thing_must_not_be_presented_as_current():
    assert presents_old(hit("I pay for Ironshed gym"), GYM)
    assert not presents_old(hit("that Ironshed gym has my money no more"), GYM)
    assert not presents_old(hit("paid for Ironshed gym until May"), GYM)


def test_old_claim_is_one_learned_from_the_old_statement():
    assert states_old(record("The user lives in Porto.", "I live in Porto"), MOVE)
    assert not states_old(record("The user left Porto.", "Left Porto, we rent in Lisbon now"), MOVE)
    assert not states_old(record("The user was born abroad.", "I was born abroad"), MOVE)


def test_passing_state_counts_only_where_it_is_shown_as_current():
    state = PassingState("p1", "stuck on the M6, been an hour", "Where am I?", ("M6",))
    assert shows_state(line("The user is stuck on the M6."), state)
    assert not shows_state(line("2026-01-05: stuck on the M6, been an hour"), state)
    assert not shows_state(line("The user was stuck on the M6."), state)
    assert not shows_state(line("The user is at home."), state)


# Several facts in a sentence


def test_one_record_does_not_serve_two_facts():
    both = Coordination("c1", "", (("vegetarian",), ("allergic to peanuts",)), "", 0)
    whole = record("I'm vegetarian and allergic to peanuts", value="vegetarian")
    peanuts = record("The user is allergic to peanuts.")

    def own(*records: Record) -> set[int]:
        return match(records, both.facts, lambda each, fact: states_fact(each, fact, both))

    assert own(whole) == {0}
    assert own(whole, peanuts) == {0, 1}
    assert own(replace(whole, value=None)) == set()


def test_other_talk_leaves_out_what_names_the_fact():
    assert pick(["a kiwi tart", "rain", "trains"], ["Kiwi"], 1, 3) == ["trains", "rain", "trains"]
    assert spread(3, 1, 29) == [1, 15, 29]


# Summaries


def test_summary_lines_must_have_been_said():
    said = ["We open on 14 November. Bring a torch.", "Paper cue sheets, then."]
    summary = (
        "## Earlier\n2026-01-05\n- user: We open on 14 November.\n- 2026-01-06 assistant: “Paper cue sheets, then.”\n"
        "- (19 messages) torch November sheets …\n31 more messages can be searched."
    )
    assert find_unsaid(summary, said) == (["- (19 messages) torch November sheets …"], 3)
    assert find_unsaid("31 can be searched.\n31 can be searched.", said) == (["31 can be searched."], 1)


# Claims


def test_claim_is_learned_by_its_sentence_or_its_value():
    label = Label("I carry an EpiPen", "medication", "EpiPen", "holds")
    assert states(record("The user has medicine.", "I carry an EpiPen because of it"), label)
    assert states(record("The user has an EpiPen."), label)
    assert not states(record("The user has a cat.", "my cat is old"), label)


def test_sentences_of_people_carry_their_claims():
    turns = (Line(0, "user", "I bake. Is it late?"), Line(0, "assistant", "I bake too."))
    label = Label("I bake", "hobby", "bake", "holds")
    found = list(list_sentences(Excerpt("a", "assistant", turns, ((0, label),))))
    assert [(sentence, labels) for _, sentence, labels in found] == [("I bake.", [label]), ("Is it late?", [])]


# Files, figures and a run


@pytest.mark.parametrize("name", ["stories", "lasting", "passing", "coordinated", "messages", "dialogues"])
def test_every_line_of_the_data_is_valid(name):
    rows = data.load(name)
    assert len({row.id for row in rows}) == len(rows) >= 8


def test_every_value_was_said():
    for story in data.load("stories"):
        told = " ".join(said for _, said in story.messages)
        assert text.mentions_all(told, (*story.new, *story.old)), story.id
    for message in data.load("messages"):
        assert all(label.quote in message.text for label in message.claims), message.id


def test_bad_line_is_named(tmp_path):
    path = tmp_path / "lives.jsonl"
    path.write_text('\n{"id": "a"}\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"line 2 of .*lives\.jsonl is not valid"):
        data.load_excerpts(path)


def test_excerpts_are_read_with_speakers_and_days(tmp_path):
    turns = [
        {"n": 1, "day": "2026-03-04", "speaker": "Ana", "text": "I bake."},
        {"n": 2, "day": "2026-03-06", "speaker": "Bo", "text": "Nice."},
    ]
    claim = {"turn": 1, "quote": "I bake", "attribute": "hobby", "value": None, "status": "holds"}
    path = tmp_path / "lives.jsonl"
    path.write_text(json.dumps({"id": "c", "setting": "friends", "turns": turns, "claims": [claim]}), encoding="utf-8")
    (excerpt,) = data.load_excerpts(path)
    assert excerpt.turns == (Line(0, "user", "I bake.", "Ana"), Line(2, "user", "Nice.", "Bo"))
    assert excerpt.claims == ((0, Label("I bake", "hobby", "", "holds")),)


def test_figures_know_whether_their_goal_is_met():
    good, few = Figure("a", "good", 0.5), Figure("a", "bad", 0.5, at_most=True)
    for figure in (good, few):
        figure.add(True, "yes")
        figure.add(True, "yes")
        figure.add(False, "no")
    assert (good.is_met, good.faults) == (True, ["no"])
    assert (few.is_met, few.faults) == (False, ["yes", "yes"])
    assert Figure("a", "none", 0.5).is_met is None
    assert [row.split()[-1] for row in format_table([good])][1] == "met"


def test_one_of_each_is_lived_and_scored():
    figures = measure([build(name, 1) for name in MEASURES], None, "none")
    totals = {f"{figure.measure}: {figure.name}": figure.total for figure in figures}
    assert totals["changed: recall: new value before the old"] == 1
    assert [totals[f"lasting: in the context after {day} days"] for day in (30, 100, 400)] == [1, 1, 1]
    assert totals["passing: shown as current after two weeks"] == 1
    assert totals["coordinated: each fact a claim of its own"] == 2
    assert totals["claims: recall: labelled claims that are learned"] == 2
    assert totals["summary: lines that somebody said"] > 0
    assert totals["contexts: contexts with such a line"] == 1 + 3 + 1 + 1


def test_claim_over_two_sentences_is_made_in_both():
    turns = (Line(0, "user", "So today I got the results and I have coeliac. So no gluten forever. Bye."),)
    label = Label("I have coeliac. So no gluten forever", "health", "coeliac", "holds")
    found = list(list_sentences(Excerpt("a", "assistant", turns, ((0, label),))))
    assert [bool(labels) for _, _, labels in found] == [True, True, False]


def test_talk_of_two_people_is_learned_from(tmp_path):
    lines = [Line(0, "user", "My sister Marta lives in Porto.", "Ana"), Line(0, "user", "Nice.", "Bo")]
    timeline = Timeline()
    timeline.talk("c", "life", lines)
    learned: list[Record] = []
    timeline.ask(0, lambda stage: learned.extend(stage.claims("c")))
    with open_stage(str(tmp_path), "none") as stage:
        timeline.play(stage, lambda _: None)
    assert any("Porto" in each.content for each in learned)


def test_days_without_events_are_lived_too():
    begun: list[tuple[int, int]] = []
    said: list[str] = []

    class Lived(Stage):
        def begin(self, day: int, slot: int) -> None:
            begun.append((day, slot))

        def say(self, user: str, day: int, text: str) -> None:
            said.append(text)

    timeline = Timeline()
    timeline.ask(2, lambda _: said.append("asked"))
    timeline.say(2, "u", "second", slot=1)
    timeline.say(2, "u", "first")
    timeline.play(Lived(Mock(), Clock()), lambda _: None)
    assert [day for day, _ in begun] == [0, 1, 2, 2, 2, 2]
    assert begun == sorted(begun)
    assert said == ["first", "second", "asked"]


def test_store_that_is_not_empty_is_refused(tmp_path):
    with Limpet.open(tmp_path) as memory:
        memory.remember("I bake", user="ana")
    with pytest.raises(InvalidInput, match="name an empty store"), open_stage(str(tmp_path), "none"):
        pass


def test_named_store_is_emptied_again(tmp_path):
    measure([build("passing", 1)], str(tmp_path), "none")
    with Limpet.open(tmp_path) as memory:
        assert memory.sessions(user="p01") == []


def test_bench_truth_prints_table_faults_and_json(monkeypatch, capsys):
    figure = Figure("passing", "shown", 0.02, at_most=True)
    figure.add(True, "p01: shown")
    monkeypatch.setattr(command, "measure", lambda *_, **__: [figure])
    args = argparse.Namespace(
        lives=None, only=["passing"], limit=1, ids="", data=None, embedder="none", faults=True, json=False
    )
    assert command.main(args) == 0
    head, row, *faults = capsys.readouterr().out.splitlines()
    assert head.split() == ["measure", "of", "share", "goal"]
    assert row.split() == ["passing:", "shown", "1", "1", "1.000", "≤", "0.02", "not", "met"]
    assert faults == ["", "passing: shown", "p01: shown"]
    args.json = True
    assert command.main(args) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["embedder"] == "none"
    assert told["figures"][0]["met"] is False
    assert told["figures"][0]["faults"] == ["p01: shown"]


def test_statements_of_a_line_have_marks_of_their_own():
    line = ContextLine("The user has a Polo. (perhaps no longer true) Said since, 3 May 2026: “the Yaris is here”", "")
    old, new = split_line(line)
    assert (has_fact(old.text, "I have a Polo"), is_marked_past(old)) == (True, True)
    assert (has_fact(new.text, "the Yaris is here"), is_marked_past(new)) == (True, False)


def test_true_fact_is_counted_where_the_context_of_its_question_marks_it(monkeypatch):
    said = (
        Said(0, "I keep bees", "I keep bees", (), "What do I keep?"),
        Said(3, "I drive a van", "I drive a van", (), "Which tyres do I need?"),
    )
    talk = Quiet([QuietTalk("q1", said)])
    stage = Stage(memory=Mock(), clock=Clock())
    shown = [ContextLine("The user keeps bees. (perhaps no longer true)", "")]
    monkeypatch.setattr(Stage, "context", lambda *_: shown)
    talk._judge_contexts(talk._talks[0], stage)
    doubted = next(figure for figure in talk.figures if "context of their question" in figure.name)
    anywhere = next(figure for figure in talk.figures if "context of any question" in figure.name)
    assert (doubted.count, doubted.total) == (1, 1)
    assert (anywhere.count, anywhere.total) == (2, 2)
    shown[:] = [ContextLine("The user keeps bees.", "")]
    talk._judge_contexts(talk._talks[0], stage)
    assert (doubted.count, doubted.total) == (1, 2)
    assert (anywhere.count, anywhere.total) == (2, 4)
