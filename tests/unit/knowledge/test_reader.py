"""The local reader: how messages are cut into clauses, and what the shipped weights say about plain cases."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.knowledge.reader import (
    ATTRIBUTES,
    DOUBTFUL,
    KINDS,
    SHOWN,
    SHOWN_VITAL,
    STATUSES,
    SURE,
    WEIGHTS,
    Reader,
    Reading,
    default_reader,
)
from limpet.knowledge.reader_network import ReaderNetwork
from limpet.knowledge.segment import split_clauses, split_sentences


def clauses(text: str) -> list[str]:
    return [text[start:end] for start, end in split_clauses(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm vegetarian and allergic to peanuts.", ["I'm vegetarian", "and allergic to peanuts."]),
        ("I'm 34 and allergic to shellfish", ["I'm 34", "and allergic to shellfish"]),
        (
            "i moved to lisbon last week, so please use celsius",
            ["i moved to lisbon last week,", "so please use celsius"],
        ),
        ("Dr. Feeney has me off salt. Thanks!", ["Dr. Feeney has me off salt.", "Thanks!"]),
        ("I like salt and pepper.", ["I like salt and pepper."]),
        ("It costs 3.50 at the U.S. shop", ["It costs 3.50 at the U.S. shop"]),
        ("I run; she swims a lot", ["I run;", "she swims a lot"]),
        ("My wife and I are vegan", ["My wife and I are vegan"]),
        ("If my sister writes, don't answer her.", ["If my sister writes, don't answer her."]),
        ("Ines is coeliac, what can I cook?", ["Ines is coeliac,", "what can I cook?"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_split_clauses_cuts_sentences_and_coordinated_predicates(text, expected):
    assert clauses(text) == expected


@given(st.text(alphabet=st.sampled_from(list("aI my and,.;!?\n'-—…é7")), max_size=120))
def test_split_clauses_leaves_out_nothing_but_space(text):
    spans = split_clauses(text)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    starts = {start for start, _ in spans}
    assert {start for start, _ in split_sentences(text)} <= starts


@pytest.mark.parametrize("text", ["  and  i", "   and   ", "if a, i ", "my wife and I ", ", ", "a and I "])
def test_split_clauses_takes_time_in_proportion_to_text(text):
    started = time.process_time()
    split_clauses(text * 5000)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("I'm allergic to peanuts.", "allergy"),
        ("I live in Porto with my wife.", "home"),
        ("My name is Ingrid.", "name"),
        ("I work as a nurse at the children's hospital.", "role"),
        ("i take metformin twice a day", "medication"),
        ("I moved to Lisbon last week", "home"),
        ("Please always answer me in metric units from now on.", "assistant_rule"),
    ],
)
def test_reader_keeps_plain_statement(text, attribute):
    best = max(default_reader().read(text), key=lambda reading: reading.keep)
    assert best.keep >= 0.7
    assert best.attribute == attribute


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "What would you cook if I were vegetarian?",
        "haha ok fair enough",
        "Can you make it shorter and a bit less formal please",
        "Translate this: 'I live in Rome and I love pasta.'",
        "Thanks, that's perfect!",
    ],
)
def test_reader_refuses_what_states_nothing(text):
    assert max(reading.keep for reading in default_reader().read(text)) < DOUBTFUL


def test_reader_takes_question_before_into_account():
    alone = default_reader().read("Seven")[0]
    answer = default_reader().read("Seven", before="How old is she?")[0]
    assert answer.keep > alone.keep + 0.1


def test_reading_names_labels_that_exist():
    for reading in default_reader().read("I'm vegetarian and allergic to peanuts. My sister moved to Oslo in May."):
        assert reading.kind in KINDS
        assert reading.attribute in ATTRIBUTES
        assert reading.status in STATUSES
        assert reading.about in {"user", "other"}
        assert 0 <= reading.keep <= 1
        assert 0 <= reading.attribute_sure <= 1


def test_reader_tells_passing_state_from_lasting_one():
    assert default_reader().read("I have a headache today")[0].status == "passing"
    assert default_reader().read("I have migraines")[0].status == "holds"


def test_thresholds_are_in_order():
    assert 0 < DOUBTFUL < SHOWN_VITAL < SHOWN < SURE < 1


@pytest.mark.parametrize(
    ("kind", "attribute", "keep", "shown"),
    [
        ("fact", "home", SHOWN, True),
        ("fact", "home", SHOWN_VITAL, False),
        ("fact", "health", SHOWN_VITAL, True),
        ("instruction", "other", SHOWN_VITAL, True),
        ("instruction", "assistant_rule", SHOWN_VITAL - 0.01, False),
    ],
)
def test_reading_on_health_or_rule_is_shown_sooner(kind, attribute, keep, shown):
    assert Reading(0, 1, keep, kind, attribute, 0.9, "holds", "user").shown is shown


def test_reader_says_when_somebody_else_is_subject():
    assert default_reader().read("My sister works as a vet in Oslo.")[0].about == "other"
    assert default_reader().read("I work as a vet in Oslo.")[0].about == "user"


@pytest.mark.parametrize("text", ["", "   ", "…", "🙂", "\x00", "a" * 5000, "日本語のテキスト", "?!"])
def test_reader_reads_any_text(text):
    readings = default_reader().read(text, before=text)
    assert [(reading.start, reading.end) for reading in readings] == split_clauses(text)


def test_reader_reads_whole_of_long_message():
    text = (
        " ".join(f"Sentence {number} of the report says nothing." for number in range(400))
        + " I'm allergic to peanuts."
    )
    readings = default_reader().read(text)
    assert [(reading.start, reading.end) for reading in readings] == split_clauses(text)
    assert readings[-1].attribute == "allergy"
    assert readings[-1].keep >= DOUBTFUL


def test_reader_gives_same_answer_in_every_thread():
    texts = ["I live in Porto.", "Where do I live?", "My dog Rex is old and I walk him at six."] * 20
    alone = [default_reader().read(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(Reader().read, texts)) == alone


def test_shipped_weights_are_small_and_need_no_pickle():
    assert WEIGHTS.stat().st_size <= 6_000_000
    with np.load(WEIGHTS, allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)


def test_weights_of_other_format_are_refused(tmp_path):
    np.savez(tmp_path / "old.npz", format=np.array(0))
    with pytest.raises(ValueError, match="format 0"):
        ReaderNetwork.load(tmp_path / "old.npz")


def test_read_cuts_clause_where_statement_starts():
    text = "i take ramipril in the morning and do tai chi at lunch"
    (whole,) = default_reader().read(text)
    first, second = default_reader().read(text, cuts={0: False, text.index("do tai"): False})
    assert (text[first.start : first.end], second.end) == ("i take ramipril in the morning and", len(text))
    assert first.attribute == "medication"
    assert second.keep < whole.keep
    assert default_reader().read(text, cuts={0: False}) == [whole]


def test_read_takes_thing_without_its_verb_for_what_the_clause_is():
    text = "i use vim, zsh and a keyboard with no labels"
    (whole,) = default_reader().read(text)
    things = default_reader().read(text, cuts={0: True, text.index("zsh"): True, text.index("a key"): True})
    assert len(things) == 3
    assert {each.kind for each in things} == {whole.kind}
    assert min(each.keep for each in things) >= whole.keep
