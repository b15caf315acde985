"""What only adds to a claim is learned with it, and says nothing alone."""

from __future__ import annotations

import pytest

from limpet.knowledge.prominence import DOUBTFUL
from limpet.knowledge.read import read_turn
from tests.unit.knowledge.turns import said


def read(text: str) -> list[str]:
    found = read_turn([said(text)])
    return [each.content for each in found if each.confidence >= DOUBTFUL and not each.tentative]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "We moved next to the station, the noise is a nightmare.",
            "The user moved next to the station, the noise is a nightmare.",
        ),
        (
            "My brother is a plumber, so nothing in this house ever leaks.",
            "The user's brother is a plumber, so nothing in this house ever leaks.",
        ),
        ("I sold the boat in spring. It paid for the roof.", "The user sold the boat in spring. It paid for the roof."),
        (
            "Our hamster is diabetic, two jabs a day, he hates them.",
            "The user's hamster is diabetic, two jabs a day, the user's hamster hates them.",
        ),
    ],
)
def test_comment_is_learned_with_the_claim_before_it(text, sentence):
    assert read(text) == [sentence]


def test_quote_of_claim_ends_with_its_comment():
    text = "I sold the boat in spring. It paid for the roof."
    assert [each.sentence for each in read_turn([said(text)])] == [text]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "My sister keeps bees in Graz and my brother runs a bakery in Linz.",
            {"The user's sister keeps bees in Graz.", "The user's brother runs a bakery in Linz."},
        ),
        (
            "I work nights at the port and I play the cello on Sundays.",
            {"The user works nights at the port.", "The user plays the cello on Sundays."},
        ),
    ],
)
def test_another_fact_is_a_claim_of_its_own(text, sentences):
    assert set(read(text)) >= sentences


def test_sentence_about_something_unnamed_is_doubtful_alone():
    assert read("It covered the rent.") == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my rent is 900 since May, is that legal in Leipzig", "The user's rent is 900 since May."),
        ("I gave up dairy in January, so what can I do instead of paneer", "The user gave up dairy in January."),
        ("can you plan it without jumping, my left knee has no meniscus", "The user's left knee has no meniscus."),
    ],
)
def test_question_without_question_mark_is_cut_off(text, sentence):
    assert read(text) == [sentence]


def test_statement_is_kept_before_a_sentence_that_begins_with_not():
    assert "The user doesn't fly." in read("I don't fly. Not scared of much else, but never again after Lukla.")


def test_statement_is_taken_back_by_not_alone():
    assert read("I adore Mondays in the office. Not!") == []


def test_time_in_three_years_is_not_a_date():
    (content,) = read("my landlord raised the rent for the second time in three years")
    assert "(" not in content
