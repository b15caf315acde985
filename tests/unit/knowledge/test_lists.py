"""Which coordinated words are facts of their own, and which stay together."""

from __future__ import annotations

import pytest

from limpet.knowledge.english.coordination import split_statements
from tests.unit.knowledge.turns import learned


def split(text: str) -> list[str]:
    return [each.text for each in split_statements(text)]


@pytest.mark.parametrize(
    ("said", "statements"),
    [
        # Things that share a verb.
        ("I've got gout, a canoe and an old aunt", ["I've got gout", "I've got a canoe", "I've got an old aunt"]),
        ("I use Emacs, fish and a split keyboard", ["I use Emacs", "I use fish", "I use a split keyboard"]),
        ("She has diabetes and a pacemaker", ["She has diabetes", "She has a pacemaker"]),
        ("I play tennis on Mondays and squash on Fridays", ["I play tennis on Mondays", "I play squash on Fridays"]),
        ("We've a cottage in Mayo and a flat in Dublin", ["We've a cottage in Mayo", "We've a flat in Dublin"]),
        ("I'm fond of bees, tea and the sea", ["I'm fond of bees", "I'm fond of tea", "I'm fond of the sea"]),
        ("We pay for Netflix and the Times", ["We pay for Netflix", "We pay for the Times"]),
        ("I sing in a choir and a quartet", ["I sing in a choir", "I sing in a quartet"]),
        ("I don't drink coffee or tea", ["I don't drink coffee", "I don't drink tea"]),
        ("I have a loan with Santander and a stiff hip", ["I have a loan with Santander", "I have a stiff hip"]),
        ("I have a loan at 3.5 and a son in Bergen", ["I have a loan at 3.5", "I have a son in Bergen"]),
        ("I have a mare called Juno and gout", ["I have a mare called Juno", "I have gout"]),
        ("got two rabbits, a lodger and exactly no time", ["got two rabbits", "got a lodger", "got exactly no time"]),
        # Verbs that are nouns too, words that run together, and lists of verbs.
        ("I have a van and bank with Monzo", ["I have a van", "I bank with Monzo"]),
        ("im a baker, vegan and play darts", ["im a baker", "im vegan", "i play darts"]),
        ("We own a mill, grind rye and fetch it by mule", ["We own a mill", "We grind rye", "We fetch it by mule"]),
        ("My aunt in Lyon is 90 and I'm in Metz", ["My aunt in Lyon is 90", "I'm in Metz"]),
        ("I teach in Bari, and I rarely fly", ["I teach in Bari", "I rarely fly"]),
        ("scared of dogs, allergic to cats", ["scared of dogs", "allergic to cats"]),
        ("My aunt lives in Cork, my uncle in Perth", ["My aunt lives in Cork", "my uncle lives in Perth"]),
        ("im a welder and scared of dogs", ["im a welder", "im scared of dogs"]),
        ("I mend nets, cant swim and dread boats", ["I mend nets", "I cant swim and dread boats"]),
        ("Our firm has nine staff, is based in Ulm and sells pumps",
         ["Our firm has nine staff", "Our firm is based in Ulm", "Our firm sells pumps"]),
        ("The hall is free on Mondays, rehearsals begin at six and the key hangs outside",
         ["The hall is free on Mondays", "rehearsals begin at six", "the key hangs outside"]),
        ("I have a son, Leo, and a daughter, Mia", ["I have a son, Leo", "I have a daughter, Mia"]),
        ("We've a Labrador, Pilot, and an old tortoise", ["We've a Labrador, Pilot", "We've an old tortoise"]),
        ("I speak Twi with mum, Ga with dad and English at work",
         ["I speak Twi with mum", "I speak Ga with dad", "I speak English at work"]),
        ("I like fish and chips, curry and a roast", ["I like fish and chips", "I like curry", "I like a roast"]),
        ("Use metric units, the 24-hour clock and British spelling",
         ["Use metric units", "Use the 24-hour clock", "Use British spelling"]),
        ("my stack is Flask, Redis and way too much Perl",
         ["my stack includes Flask", "my stack includes Redis", "my stack includes way too much Perl"]),
        # What somebody is.
        ("I'm chair of the club and captain of the team", ["I'm chair of the club", "I'm captain of the team"]),
        ("I'm 41, divorced, and renting a flat", ["I'm 41", "I'm divorced", "I'm renting a flat"]),
        ("I'm on the board and in the choir", ["I'm on the board", "I'm in the choir"]),
        ("I'm saving for a house and learning to drive", ["I'm saving for a house", "I'm learning to drive"]),
        # Verbs of one subject.
        ("I'm deaf, wear hearing aids and drink tea", ["I'm deaf", "I wear hearing aids", "I drink tea"]),
        ("I rent a room, share a car and study law", ["I rent a room", "I share a car", "I study law"]),
        ("We live in Aarhus, have two kids and no car", ["We live in Aarhus", "We have two kids", "We have no car"]),
        ("I want to learn Dutch, run a race and pay off the car",
         ["I want to learn Dutch", "I want to run a race", "I want to pay off the car"]),
        ("We bank at Nordea and have a loan with SEB", ["We bank at Nordea", "We have a loan with SEB"]),
        # Clauses, with the verb left out in the second, or with two subjects in the first.
        ("My mum lives in Cork and my dad in Perth", ["My mum lives in Cork", "my dad lives in Perth"]),
        ("Kerstin and I are vegans, and we host a club", ["Kerstin and I are vegans", "we host a club"]),
        ("I'm at home, call my mum", ["I'm at home", "call my mum"]),
        ("Mornings I swim and evenings I paint", ["Mornings I swim", "evenings I paint"]),
        ("Never call me early and please don't text", ["Never call me early", "please don't text"]),
        ("I don't drink, don't smoke", ["I don't drink", "I don't smoke"]),
        ("I cycle to work and take the bus home", ["I cycle to work", "I take the bus home"]),
    ],
)  # fmt: skip
def test_split_statements_takes_coordinated_facts_apart(said: str, statements: list[str]) -> None:
    assert split(said) == statements


@pytest.mark.parametrize(
    "said",
    [
        "I only eat fish, eggs and rice",
        "I can only take paracetamol, ibuprofen and codeine",
        "I love mac and cheese",
        "I shop at Marks and Spencer",
        "I love Florence and the Machine",
        "I work in research and development",
        "My wife and I live in Leeds",
        "I live between a church and a pub",
        "I mix flour, water and salt",
        "I share a flat with two nurses and a chef",
        "I have a dog with a limp and a bad eye",
        "I need help with my CV and a cover letter",
        "I have two cats, Miso and Ponzu",
        "My kids are 4, 7 and 9",
        "My sons are Tom, Dick and Harry",
        "My parents are a nurse and a teacher",
        "The flag is red, white and blue",
        "It takes an hour and a half",
        "We farm two hundred and ten hectares",
        "I bought a bike and a helmet yesterday",
        "I've been to Peru, Chile and Bolivia",
        "I have to call the bank, the vet and my mum",
        "I think my sister has a cat and a dog",
        "I prefer tea to coffee and juice",
        "I'm tired and hungry",
        "I don't smoke or drink",
        "She lives with me and my wife",
        "We have twin girls, Taiye and Kehinde",
        "I'm on metformin, morning and night",
        "I'm a turbine technician, two weeks on and two off",
        "I'm doing evening classes in bookkeeping, Mondays and Wednesdays",
        "My gran's in Roscommon with the two donkeys, Bosco and Elaine",
        "He says my top's gone and my bottom's come in",
        "I have a bread knife, the long one and the short one",
        "If I get a cat and a dog, I need a garden",
        "Give me a title, a summary and three tags",
        "I have a van and bank holidays",
        "I'm a postman with a bad hip and a garden",
        "I have a call with Anna and a colleague",
        "I have a call with Anna and a dentist",
        "I play chess with Anna and two friends",
        "Every afternoon I play cards with Anna and the sisters",
        "I have finals in two weeks and debits and credits still turn around in my head",
    ],
)
def test_split_statements_keeps_whole_what_belongs_together(said: str) -> None:
    assert split(said) == [said]


def test_each_thing_of_a_list_is_a_value_of_its_own() -> None:
    facts = [(each.attribute, each.value, each.polarity) for each in learned("I don't eat pork or shellfish.")]
    assert facts == [("eats", "pork", False), ("eats", "shellfish", False)]
