"""A short answer to the assistant's question is a claim about what was asked."""

from __future__ import annotations

import pytest

from limpet.knowledge.read import read_turn
from tests.unit.knowledge.turns import said

ANSWERS = [
    ("How old is your daughter?", "Seven", "user/daughter", "age", "seven"),
    ("Nice! How old is your son now?", "He's 12.", "user/son", "age", "12"),
    ("How old are you?", "Oh, 41", "user", "age", "41"),
    ("Where do you live?", "In Porto", "user", "home", "Porto"),
    ("Where are you based?", "Just outside Leeds", "user", "home", "Leeds"),
    ("Where does your brother live now?", "Bristol.", "user/brother", "home", "Bristol"),
    ("What is your dog called?", "Biscuit!", "user/dog", "name", "Biscuit"),
    ("What's your name?", "Maren", "user", "name", "Maren"),
    ("What's your sister's name?", "Ilse", "user/sister", "name", "Ilse"),
    ("When is your birthday?", "The 3rd of May", "user", "birthday", "3rd of May"),
    ("What do you do for a living?", "I'm a nurse", "user", "role", "nurse"),
    ("And what do you do?", "Carpenter", "user", "role", "carpenter"),
    ("Where do you work?", "At Siemens", "user", "employer", "Siemens"),
    ("Are you vegetarian?", "Yes", "user", "diet", "vegetarian"),
    ("Are you allergic to anything?", "Yes, peanuts", "user", "allergy", "peanuts"),
    ("Do you have any allergies?", "Shellfish.", "user", "allergy", "shellfish"),
    ("Are you allergic to nuts?", "yep", "user", "allergy", "nuts"),
    ("Is your wife vegan?", "Yes, she is", "user/wife", "diet", "vegan"),
    ("Which languages do you speak?", "Polish and German", "user", "language", "Polish and German"),
    ("Where are you from?", "Ghana", "user", "origin", "Ghana"),
]


@pytest.mark.parametrize(("question", "answer", "subject", "attribute", "value"), ANSWERS)
def test_short_answer_is_claim_about_the_question(question, answer, subject, attribute, value):
    found = read_turn([said(answer, at=2)], (), [said(question, "assistant")])
    claims = {(one.subject, one.attribute, (one.value or "").lower()) for one in found}
    assert (subject, attribute, value.lower()) in claims
    assert all(one.sentence in answer for one in found)


def test_short_answer_is_worded_as_a_sentence():
    (one,) = read_turn([said("Seven", at=2)], (), [said("How old is your daughter?", "assistant")])
    assert (one.content, one.sentence, one.sequence) == ("The user's daughter is seven years old.", "Seven", 2)


@pytest.mark.parametrize(
    ("before", "subject"),
    [
        (["My daughter starts school on Monday.", "How exciting! How old is she?"], "user/daughter"),
        (["My son and my wife are away.", "How old is he?"], "user/son"),
        (["We are off.", "Lovely that your niece comes too. How old is she?"], "user/niece"),
    ],
)
def test_pronoun_of_the_question_is_whom_they_spoke_of(before, subject):
    earlier = [
        said(text, role, at=at) for at, (text, role) in enumerate(zip(before, ("user", "assistant"), strict=True))
    ]
    (one,) = read_turn([said("Seven", at=5)], (), earlier)
    assert (one.subject, one.attribute, one.value) == (subject, "age", "seven")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How old is she?", "Seven"),  # nobody was spoken of
        ("How old are you?", "Why do you ask?"),
        ("How old are you?", "None of your business"),
        ("Where do you live?", "I'd rather not say"),
        ("Where do you live?", "In Porto. Don't remember that."),
        ("What's your name?", "not sure I want to tell"),
        ("Are you vegetarian?", "What if I were?"),
        ("How old is your car?", "Maybe ten"),
        ("Are you ready?", "Yes"),
        ("How old is your baby?", "Eight months"),
        ("What is your dog called?", "I don't have one"),
        ("Do you have any allergies?", "None"),
        ("Do you have any allergies?", "No"),
        ("I told you I live in Oslo.", "Seven"),
        ("Which apps do you use?", "Stop asking"),
        ("When do you leave?", "Next question please"),
        ("Which option do you prefer?", "The second"),
        ("What error do you get?", "Segfault"),
        ("What should I call you?", "Whatever"),
        ("What should I call you?", "whatever"),
    ],
)
def test_what_is_not_an_answer_is_not_a_sure_claim(question, answer):
    found = read_turn([said(answer, at=2)], (), [said(question, "assistant")])
    assert [one for one in found if one.confidence >= 0.75 and one.polarity] == []


def test_denied_question_is_a_claim_that_does_not_hold():
    (one,) = read_turn([said("No", at=2)], (), [said("Are you vegetarian?", "assistant")])
    assert (one.attribute, one.polarity, one.sentence) == ("diet", False, "No")


def test_what_follows_the_answer_is_read_too():
    found = read_turn([said("Seven. I live in Porto.", at=2)], (), [said("How old is your son?", "assistant")])
    assert [(one.subject, one.attribute, one.value) for one in found] == [
        ("user/son", "age", "seven"),
        ("user", "home", "Porto"),
    ]


@pytest.mark.parametrize(
    ("question", "answer", "sentence"),
    [
        ("What time do you usually get up?", "quarter to six", "The user usually gets up at quarter to six."),
        ("When does your book club meet?", "Tuesdays.", "The user's book club meets Tuesdays."),
        ("Which tea do you like best with milk?", "Assam", "The user likes Assam best with milk."),
        ("Which gym do you go to?", "The one on Elm Street", "The user goes to the one on Elm Street."),
        ("What do you like to cook?", "stews, mostly", "The user likes to cook stews."),
        ("What editor are you using?", "Emacs, since school", "The user is using Emacs."),
        ("Do you have children?", "Three, all grown up", "The user has three children."),
        ("Any pets?", "two geckos", "The user has two geckos."),
        ("And how should I address you?", "Just Bo is fine.", "Call the user Bo."),
    ],
)
def test_answer_takes_the_verb_of_the_question(question, answer, sentence):
    found = read_turn([said(answer, at=2)], (), [said(question, "assistant")])
    assert sentence in [one.content for one in found]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What do you think?", "Fine by me"),
        ("What time does the train leave?", "at nine"),
        ("What do you mean?", "That"),
    ],
)
def test_question_that_asks_for_no_fact_has_no_answer(question, answer):
    found = read_turn([said(answer, at=2)], (), [said(question, "assistant")])
    assert [one.content for one in found if one.value] == []
