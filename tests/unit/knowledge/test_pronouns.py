"""What "it" and "them" mean, where the statement before says so."""

from __future__ import annotations

import pytest

from limpet.knowledge.english.elision import name_things


@pytest.mark.parametrize(
    ("before", "sentence", "named"),
    [
        (
            ["the flour supplier is Molens Vandevelde"],
            "The user pays them on the 5th of each month.",
            "The user pays the flour supplier on the 5th of each month.",
        ),
        (["our oven is a 2009 MIWE, three decks"], "It keeps dropping heat.", "The user's oven keeps dropping heat."),
        (["Sundays don't work", "we lose money"], "The user stops with them.", "The user stops with Sundays."),
        (["my parents live in Nagoya"], "The user calls them on Sundays.", "The user calls their parents on Sundays."),
        (["I bought a Leaf in May"], "The user charges it at home.", "The user charges the Leaf at home."),
        (["I have a cat"], "The user feeds it twice.", "The user feeds the cat twice."),
    ],
)
def test_pronoun_becomes_what_was_said_before(before: list[str], sentence: str, named: str) -> None:
    assert name_things(sentence, before) == named


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        (["our office is in Bergen"], "It rains a lot."),
        (["our office is in Bergen"], "It is an hour by bus."),
        (["my sister lives in Oslo"], "The user loves it."),
        (["my flatmate Ondrej eats only pork"], "The kitchen smells of it."),
        (["the doctor called"], "The user forgot it."),
        (["the lift is new"], "The user took a photo of it."),  # of the lift, or not
        (["Tom got a drum kit"], "The user hates it."),
        ([], "The user pays them."),
    ],
)
def test_pronoun_stays_where_it_is_not_sure(before: list[str], sentence: str) -> None:
    assert name_things(sentence, before) == sentence
