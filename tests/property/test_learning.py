"""What holds for learning whatever is said."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.knowledge.candidate import Candidate, TurnMessage, iter_texts
from limpet.knowledge.read import MAX_CANDIDATES
from limpet.knowledge.read import extract_candidates as extract
from limpet.knowledge.reconcile import End, ExistingRecord, Merge, Supersede, reconcile
from limpet.model.message import Role, ToolCall
from limpet.model.record import Layer, Origin, RecordType
from limpet.model.scope import Level, Owner, Scope
from limpet.search.analysis import split_sentences
from tests.cpu_time import assert_linear
from tests.examples import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DATA = Path(__file__).parents[1] / "data" / "extraction"
LINES = [
    message[role]
    for line in (DATA / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    for message in json.loads(line)["turn"]
    for role in message
    if role in {"user", "assistant", "tool"}
]
PIECES = st.one_of(
    st.text(max_size=40),
    st.sampled_from([line for line in LINES if line]),
    st.sampled_from(
        [
            "I ",
            "I'm ",
            "my sister ",
            "lives in ",
            "Porto",
            " and ",
            ", ",
            ". ",
            "?",
            "\n",
            "- ",
            "```",
            '"',
            "’",
            "never use ",
            " who ",
            "1. ",
            "\x1f",
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)
SAID = st.builds(
    TurnMessage,
    sequence=st.integers(1, 9),
    role=st.sampled_from(Role),
    text=TEXTS,
    created_at=st.just(NOON),
    speaker=st.sampled_from([None, "Caroline", "user", "Mel/x"]),
    tool_calls=st.sampled_from(
        [(), (ToolCall("c", "bash", {"command": "pytest -q"}),), (ToolCall("d", "f", {"x": [1, "a"]}),)]
    ),
    tool_call_id=st.sampled_from([None, "c", "d"]),
    is_error=st.booleans(),
)
TURNS = st.lists(SAID, max_size=4)


def is_part(sentence: str, said: TurnMessage) -> bool:
    """Whether the words stand in its text, or in what a tool was called with."""
    called = (text for call in said.tool_calls for text in iter_texts(call))
    return any(sentence in text for text in (said.text, *called))


@settings(max_examples=examples(300), deadline=None)
@given(TURNS, st.lists(TEXTS, max_size=2))
def test_extraction_never_raises_and_candidates_are_grounded(turn, recalled):
    found = extract(turn, recalled)
    assert len(found) <= MAX_CANDIDATES
    for candidate in found:
        assert candidate.sentence
        assert any(said.sequence == candidate.sequence and is_part(candidate.sentence, said) for said in turn)
        assert 0 < candidate.confidence <= 1
        assert candidate.subject


@settings(max_examples=examples(200), deadline=None)
@given(st.one_of(st.text(max_size=300), TEXTS))
def test_split_sentences_keeps_positions_and_order(text):
    at = 0
    for sentence in split_sentences(text):
        assert text[sentence.start : sentence.start + len(sentence.text)] == sentence.text
        assert sentence.start >= at
        at = sentence.start + len(sentence.text)


HOSTILE = (
    *(
        "I live in ",
        "I live in Porto. ",
        "my sister ",
        "and I ",
        "a",
        "A ",
        ". ",
        '"',
        "```\n",
        "> ",
        "- I love tea\n",
        "if ",
    ),
    *(
        "I like a, b, c, ",
        "the deadline for the x ",
        "never never ",
        "failed because ",
        "fixed it by ",
        "we decided to ",
        "1. ",
    ),
    *(
        "call me Bob ",
        "my favourite thing is ",
        "x/y.",
        "budget for ",
        "Anna said she ",
        "have a dog ",
        "\x1f",
        "é",
        "，",
        "I'm ",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_extraction_time_is_linear_in_text_length(piece):
    def learn(text: str) -> None:
        extract(
            [
                TurnMessage(1, Role.USER, text, NOON),
                TurnMessage(2, Role.ASSISTANT, text, NOON),
                TurnMessage(3, Role.TOOL, text, NOON, is_error=True),
            ]
        )

    assert_linear(learn, piece * (5_000 // len(piece)), piece * (40_000 // len(piece)))


SUBJECTS = st.sampled_from(["user", "user/sister", "caroline", "project"])
ATTRIBUTES = st.sampled_from([None, "home", "employer", "likes", "favourite:colour"])
VALUES = st.sampled_from([None, "Porto", "Porto, Portugal", "Lisbon", "red"])
TIMES = st.one_of(st.none(), st.integers(-5, 5).map(lambda days: NOON + timedelta(days=days)))
KNOWN = st.builds(
    ExistingRecord,
    id=st.uuids().map(str),
    home=st.just(Owner(Scope("default", user="alice"), Level.USER)),
    layer=st.just(Layer.SEMANTIC),
    type=st.sampled_from([RecordType.FACT, RecordType.PREFERENCE]),
    content=st.sampled_from(["I live in Porto.", "I live in Lisbon.", "I love red.", "Never on Fridays."]),
    subject=st.one_of(st.none(), SUBJECTS),
    attribute=ATTRIBUTES,
    value=VALUES,
    polarity=st.booleans(),
    valid_from=TIMES,
    valid_to=TIMES,
    confidence=st.floats(0, 1),
    origin=st.sampled_from(Origin),
    pinned=st.booleans(),
    similarity=st.one_of(st.none(), st.floats(-1, 1)),
)
CANDIDATES = st.builds(
    Candidate,
    type=st.sampled_from([RecordType.FACT, RecordType.PREFERENCE]),
    layer=st.just(Layer.SEMANTIC),
    content=st.sampled_from(["I live in Porto.", "I moved to Lisbon.", "I love red.", "Never on Fridays."]),
    sentence=st.just("x"),
    sequence=st.just(1),
    subject=SUBJECTS,
    said_at=st.integers(-4, 4).map(lambda days: NOON + timedelta(days=days, hours=1)),
    attribute=ATTRIBUTES,
    value=VALUES,
    exclusive=st.booleans(),
    polarity=st.booleans(),
    confidence=st.floats(0.1, 1),
)


@settings(max_examples=examples(500), deadline=None)
@given(CANDIDATES, st.lists(KNOWN, max_size=6))
def test_reconcile_never_ends_other_subjects_or_explicit_records(candidate, known):
    by_id = {record.id: record for record in known}
    decision = reconcile(candidate, known)
    if isinstance(decision, (Supersede, End)):
        assert decision.ids
        for id in decision.ids:
            record = by_id[id]
            assert record.subject == candidate.subject
            assert record.attribute == candidate.attribute is not None
            assert not record.pinned
            assert record.origin is not Origin.EXPLICIT
            assert record.valid_from is None or record.valid_from <= candidate.said_at
            assert record.valid_to is None or record.valid_to > candidate.said_at
    elif isinstance(decision, Merge):
        assert by_id[decision.into].subject in {None, candidate.subject}
        assert decision.agrees == (decision.confidence >= by_id[decision.into].confidence)
