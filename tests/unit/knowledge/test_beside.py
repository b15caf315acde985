"""What stands in a clause or a phrase beside a request is learned, and the request is not."""

from __future__ import annotations

import pytest

from limpet.knowledge.prominence import DOUBTFUL
from limpet.knowledge.read import read_turn
from limpet.model.record import RecordType
from tests.unit.knowledge.turns import said


def read(text: str) -> list[str]:
    found = read_turn([said(text)])
    return [each.content for each in found if each.confidence >= DOUBTFUL and not each.tentative]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Tell me two soups, and since we keep kosher I'd like them without cream", "The user keeps kosher."),
        (
            "sorry I'm slow, phone was off as we keep the Sabbath, anyway how do I poach an egg",
            "The user keeps the Sabbath.",
        ),
        (
            "Which bread rises best, given that our hut sits at 2100 m in Tyrol?",
            "The user's hut sits at 2100 m in Tyrol.",
        ),
        ("Find me a lip balm, seeing that beeswax closes my throat", "Beeswax closes the user's throat."),
        ("Which soup is quick, because I'm on dialysis?", "The user is on dialysis."),
        ("I need a good curry, being vegan for six years", "The user is vegan."),
        ("How do you spell gearbox in Dutch, it's for the tram I drive", "The user drives the tram."),
        (
            "Which toys suit my twins? All three of my girls, the youngest of whom has asthma, love sand.",
            "The youngest of the user's girls has asthma.",
        ),
        ("What gets fur off a sofa, my two old greyhounds moult", "The user has two old greyhounds."),
        ("Which tea goes with my levothyroxine?", "The user takes levothyroxine."),
        ("Where can I sit with my walking frame at the opera?", "The user has a walking frame."),
        (
            "How do I clean glass, Otto slid down it. (my blind cat, 3 yrs old)",
            "Otto is the user's blind cat, 3 yrs old.",
        ),
        ("Which pension is right now that I'm self-employed?", "The user is self-employed."),
        ("what do i do with my bus pass now i work from home?", "The user works from home."),
        ("How do I tell my landlord I'm moving to Leeds in May?", "The user is moving to Leeds in May."),
        ("How can I break it to my uncle that I've become a Quaker?", "The user has become a Quaker."),
        ("Draft a text to the rowing club saying I've moved to Hull", "The user lives in Hull."),
        ("How do I let the school know my son is diabetic?", "The user's son is diabetic."),
        ("Is it unusual that I sleep four hours a night?", "The user sleeps four hours a night."),
        ("Why do I always wake at 3 am?", "The user always wakes at 3 am."),
        (
            "Any tips for keeping up forty minutes on the trombone every evening?",
            "The user is keeping up forty minutes on the trombone every evening.",
        ),
        ("What can I snack on before my shift at the post office?", "The user's shift is at the post office."),
        ("Which curtains suit our new house in Ghent?", "The user's new house is in Ghent."),
        ("How do I stop my new kitten climbing the curtains?", "The user has a new kitten."),
        ("Can I park at the college where I teach?", "The user teaches at the college."),
        ("How do I deal with being the only woman in my workshop?", "The user is the only woman in their workshop."),
        ("as a single dad how do I plait hair", "The user is a single dad."),
        ("What can I bake for my niece's class? She is allergic to eggs.", "The user's niece is allergic to eggs."),
    ],
)
def test_fact_beside_request_is_learned(text, sentence):
    assert sentence in read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Rewrite this letter please, American spelling as always with me: 'the colour is grey'", "American spelling"),
        ("List the plays of Ibsen, but as ever with me never give away an ending", "never give away an ending"),
        ("How long do eggs keep? As always, no emojis.", "no emojis"),
    ],
)
def test_standing_rule_beside_request_is_an_instruction(text, words):
    (rule,) = [each for each in read_turn([said(text)]) if words in each.content]
    assert rule.type is RecordType.INSTRUCTION
    assert rule.confidence >= DOUBTFUL


def test_quote_of_clause_is_the_clause():
    text = "Tell me two soups, and since we keep kosher I'd like them without cream"
    assert [each.sentence for each in read_turn([said(text)])] == ["we keep kosher"]


@pytest.mark.parametrize(
    "text",
    [
        "Since water boils lower on a mountain, do lentils get done up there?",
        "as I'm stuck in a queue at the bank tell me a riddle",
        "What can I bake for the new man, who, being coeliac, never gets any of my cakes?",
        "If I kept kosher, which I don't, what would be left?",
        "Write a scene for a boxer who, having lost an eye, runs a flower shop.",
        "Translate into Dutch: as we keep kosher, we eat at home",
        "How do I get him to laugh, as a joke I mean?",
        "You're Captain Flint and I'm your cook, since I have one leg. Begin",
        "Tell me two soups, since we keep kosher. Scratch that, I made it up.",
        "Please forget this straight after, but does my warfarin mix with gin?",
        "What would my aunt say if I told her I'm a Quaker?",
        "What happens if I tell them that I'm a Quaker?",
        "Write a scene where I tell my mother that I'm a spy.",
        "My cousin keeps telling people I'm a lawyer",
        "Is it true that I need a visa for Laos?",
        "What should I check before I buy a house?",
        "What can I eat after I have my wisdom teeth out?",
        "Why do we need sleep?",
        "Tell me about being a pilot",
        "Can I redo my office in the morning?",
    ],
)
def test_reason_that_says_nothing_lasting_teaches_nothing(text):
    assert read(text) == []
