"""What ordinary messages teach, as the sentences that memory then says."""

from __future__ import annotations

import pytest

from limpet.knowledge.prominence import DOUBTFUL
from limpet.knowledge.read import read_turn
from tests.unit.knowledge.turns import said


def read(text: str, before: str = "") -> list[str]:
    """The sentences that are sure enough to be shown."""
    earlier = [said(before, "assistant", at=0)] if before else []
    found = read_turn([said(text)], before=earlier)
    return [each.content for each in found if each.confidence >= DOUBTFUL and not each.tentative]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "My stepson Runar lives in Hobart and drives the trams",
            {
                "The user's stepson is called Runar.",
                "The user's stepson Runar lives in Hobart.",
                "The user's stepson Runar drives the trams.",
            },
        ),
        (
            "I use a hearing aid and take a tablet for my heart each evening, could either one make me dizzy?",
            {"The user uses a hearing aid.", "The user takes a tablet for their heart each evening."},
        ),
        (
            "im lactose intolerant and dont like olives, pizza ideas?",
            {"The user is lactose intolerant.", "The user doesn't like olives."},
        ),
        (
            "my aunt is coeliac, my uncle won't eat fish and we have twins, lunch ideas for sunday?",
            {"The user's aunt is coeliac.", "The user's uncle won't eat fish.", "The user has twins."},
        ),
        (
            "Can you plan my week, I'm training for a regatta and my left wrist is taped?",
            {"The user is training for a regatta.", "The user's left wrist is taped."},
        ),
        (
            "Hi! I'm Alice, 34, and I live in Porto with my husband Tom and our two kids, Mia and Leo.",
            {
                "The user is called Alice.",
                "The user is 34 years old.",
                "The user lives in Porto.",
                "The user's husband is called Tom.",
                "The user has two kids, Mia and Leo.",
            },
        ),
        (
            "My name is Ella Novak, I'm 67 and retired.",
            {"The user is called Ella Novak.", "The user is 67 years old.", "The user is retired."},
        ),
        (
            "I'm Finn O'Brien, freelance photographer based in Cork.",
            {"The user is called Finn O'Brien.", "The user is a freelance photographer based in Cork."},
        ),
        (
            "I'm Dev, a second-year physics student at Manchester.",
            {"The user is called Dev.", "The user is a second-year physics student at Manchester."},
        ),
        (
            "I'm allergic to peanuts and vegetarian, so keep that in mind when I ask for recipes.",
            {"The user is allergic to peanuts.", "The user is vegetarian."},
        ),
        (
            "I'm coeliac so I always bring my own food to weddings.",
            {"The user is coeliac so the user always brings their own food to weddings."},
        ),
        (
            "I'm dyslexic, so please check my spelling but don't make a fuss about it.",
            {"The user is dyslexic.", "Please check the user's spelling.", "Don't make a fuss about it."},
        ),
        (
            "I'm rubbish at mornings so don't schedule study blocks before 10",
            {"The user is rubbish at mornings.", "Don't schedule study blocks before 10."},
        ),
    ],
)
def test_each_fact_of_message_is_a_sentence_of_its_own(text: str, sentences: set[str]) -> None:
    assert set(read(text)) == sentences


def test_words_after_a_name_describe_who_is_called_so() -> None:
    assert "Biscuit is a beagle." in read("We adopted a dog. Her name is Biscuit, a beagle.")


def test_people_who_share_a_verb_stay_together() -> None:
    learned = read("My partner Aoife and I have been together for nine years, we're not married.")
    assert "The user and their partner Aoife have been together for nine years." in learned


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "My accountant is Mme Perrin, she needs the figures by the 10th.",
            "Mme Perrin needs the figures by the 10th.",
        ),
        ("I hired Amadou as head baker. He starts on April 1st.", "Amadou starts on April 1st."),
        ("My tutor is Dr Okafor, her office is in Schuster.", "Dr Okafor's office is in Schuster."),
        ("My friend Joana has a baby and I'm her godmother.", "The user is Joana's godmother."),
        ("Inès is coming home for Easter. She plays the cello on Sundays.", "Inès plays the cello on Sundays."),
    ],
)
def test_pronoun_is_written_as_the_person_named_before(text: str, sentence: str) -> None:
    assert sentence in read(text)


def test_words_without_a_verb_go_with_the_sentence_before() -> None:
    assert read("I work as a nurse at Santo António hospital. Night shifts mostly.") == [
        "The user works as a nurse at Santo António hospital. Night shifts mostly."
    ]


def test_relative_in_passing_leaves_the_statement_to_itself() -> None:
    assert read("My mother-in-law Rosa is coming to stay with us in April.") == [
        "The user's mother-in-law is called Rosa.",
        "The user's mother-in-law Rosa is coming to stay with them in April.",
    ]


def test_reply_that_only_nods_does_not_change_what_is_read() -> None:
    alone, nodded = ([*read_turn([said("Please keep your answers short.")], before=before)] for before in ([], [NOD]))
    assert [each.confidence for each in alone] == [each.confidence for each in nodded]


NOD = said("Got it.", "assistant", at=0)


def test_end_of_a_job_is_not_an_employer() -> None:
    quit_, start = read_turn([said("I quit the hospital; I start at a private clinic on Monday.")])
    assert (quit_.content, quit_.attribute, quit_.polarity) == ("The user quit the hospital.", None, False)
    assert start.attribute == "employer"
    assert start.until is None  # a job does not end on its first day
    assert not start.whole  # the end is a claim of its own


def test_what_belongs_to_the_speaker_is_about_the_speaker() -> None:
    (team,) = read_turn([said("My housemates are Callum, Rory and Jide.")])
    assert team.subject == "user"


def test_request_for_a_name_is_learned_from_a_question() -> None:
    assert read("can you call me Ali instead of Alice?") == ["The user wants to be called Ali."]


def test_price_is_no_age() -> None:
    assert [each.attribute for each in read_turn([said("Rent is 11,500 baht a month.")])] == ["finance"]


def test_value_ends_before_its_purpose() -> None:
    (job,) = read_turn([said("I work weekends at Tesco to pay rent.")])
    assert (job.value, job.content) == ("Tesco", "The user works weekends at Tesco to pay rent.")


@pytest.mark.parametrize(
    "text",
    [
        "my cat is basically my landlord, my nurse and my boss",
        "*lowers visor* I am Dame Ottoline of the Fens and I eat only turnips",
        "Some guy at the station said he eats nothing but potatoes",
        "one more time, but with the totals in the last column",
        "ok u r my landlord Mr Grabowski and im asking for heating, dont go easy on me",
    ],
)
def test_joke_role_play_hearsay_and_task_of_now_teach_nothing(text: str) -> None:
    assert read(text) == []


def test_task_behind_a_statement_is_not_part_of_it() -> None:
    assert read("I'm vegetarian, suggest a recipe and a wine") == ["The user is vegetarian."]


def test_clauses_of_a_list_are_kept_together() -> None:
    assert read("I'm on the parents' council, I bake for the fair and I run the lost property box.") == [
        "The user is on the parents' council.",
        "The user bakes for the fair.",
        "The user runs the lost property box.",
    ]


def test_each_thing_of_a_list_names_whom_it_is_about() -> None:
    text = "Marisol and I celebrate two years next week, she loves ceramics and the sea."
    assert {"Marisol loves ceramics.", "Marisol loves the sea."} <= set(read(text))


def test_time_before_the_subject_is_not_an_occupation() -> None:
    assert not any("is a tonight" in each.content for each in read_turn([said("Tonight I cook for Beatriz")]))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("can you remember that the landlord is called Mr Osei", ["The user's landlord is called Mr Osei."]),
        ("Could you keep in mind that I can't lift anything heavy?", ["The user can't lift anything heavy."]),
        ("Remember our anniversary is the 5th of May", ["The user's anniversary is the 5th of May."]),
        ("please note: the wifi password is on the fridge", ["The wifi password is on the fridge."]),
        ("Do you remember that I like tea?", []),
        ("remember I told you about the mole on my arm?", []),
        ("remember the milk", []),
    ],
)
def test_what_somebody_asks_to_remember_is_learned(text: str, sentences: list[str]) -> None:
    assert read(text) == sentences


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("which yoga class goes with my sciatica?", "The user has sciatica."),
        ("how do I tell my landlord Piet the boiler is dead?", "The user's landlord is called Piet."),
        ("which tyres fit my Skoda Fabia?", "The user has a Skoda Fabia."),
        ("how long do I boil eggs for my two boys?", "The user has two boys."),
        ("what do I cook for my son's egg allergy?", "The user's son has an egg allergy."),
        ("as a coeliac, what can I order in Lyon?", "The user is coeliac."),
        ("the consultant says it's gout, what do I eat at my stag do", "The user has gout."),
        ("My asthma is playing up today", "The user has asthma."),
    ],
)
def test_what_a_request_takes_for_granted_is_learned(text: str, sentence: str) -> None:
    assert sentence in read(text)


@pytest.mark.parametrize(
    "text",
    [
        "proofread my asthma paper",
        "how do you say my wife Dana has a Skoda in Polish?",
        "as a vegan, what would you cook?",
        "my eczema went away years ago",
        "write a story in which she says 'my epilepsy'",
    ],
)
def test_work_on_a_condition_or_an_old_one_is_not_taken_for_granted(text: str) -> None:
    assert not [each for each in read(text) if each.startswith("The user has") or "is vegan" in each]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I can't have dairy, what pizza do you suggest?", "The user can't have dairy."),
        ("I'm 7 months pregnant, what exercise is safe", "The user is 7 months pregnant."),
        ("I teach year 5 maths, how many pupils should sit at a table?", "The user teaches year 5 maths."),
        ("we have twin boys of 4, draft a packing list for the beach", "The user has twin boys of 4."),
    ],
)
def test_a_question_or_request_behind_a_statement_is_not_part_of_it(text: str, sentence: str) -> None:
    assert read(text) == [sentence]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Currently on crutches, so nothing with stairs", "The user is currently on crutches, so nothing with stairs."),
        ("Been sober since March", "The user has been sober since March."),
        ("Can't have strawberries, I come up in hives", "The user can't have strawberries."),
        ("Only managed fifteen quid this week because the kettle broke", "The user only managed fifteen quid"),
        ("Never been to Japan but it's top of the list", "The user has never been to Japan"),
        ("My flatmate Jonas plays the tuba. Rehearses in the bathroom.", "Jonas rehearses in the bathroom."),
        (
            "My daughter's at school till July, then she's off to Durham",
            "The user's daughter is off to Durham.",
        ),
        ("We're three: me, Amal and the baby", "The user is one of three: the user, Amal and the baby."),
        ("We're a family of four and we live in Ghent", "The user is part of a family of four."),
        ("I'm at my gran's in Bergen every June", "The user is at their gran's in Bergen every June."),
        ("I no longer eat meat at home", "The user no longer eats meat at home."),
        ("For the letter: I've been my husband's carer for four years now.", "The user has been their husband's carer"),
        ("Nothing, I just like cake", "The user just likes cake."),
        ("I prefer Celsius, and write dates with the day first.", "Write dates with the day first."),
    ],
)
def test_sentence_names_whom_it_is_about(text: str, start: str) -> None:
    learned = [each.content for each in read_turn([said(text)])]
    assert any(each.startswith(start) for each in learned), learned


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "I've got a house in France and a boat",
            ["The user has got a house in France.", "The user has got a boat."],
        ),
        (
            "I take levothyroxine every morning and iron twice a week.",
            ["The user takes levothyroxine every morning.", "The user takes iron twice a week."],
        ),
        ("I've got a job at the bank", ["The user has got a job at the bank."]),
        (
            'can you remember that my son is adopted, so no "those are your eyes" in cards',
            ['The user\'s son is adopted, so no "those are your eyes" in cards.'],
        ),
        ("Could you plan lunch for my dad, he's turning 70 in June.", ["The user's father is turning 70 in June."]),
        (
            "need a wheelchair since an accident cost me my leg",
            ["The user needs a wheelchair since an accident cost the user their leg."],
        ),
        ("what do kids even want for lunch now, he's gone off cheese", []),
    ],
)
def test_claims_say_what_was_said(text: str, sentences: list[str]) -> None:
    assert read(text) == sentences


def test_name_does_not_end_with_what_is_said_beside_it() -> None:
    found = read_turn([said("my boss, Ingrid, is on leave until Christmas and I'm running the lab")])
    assert [each.until is None for each in found if each.attribute == "name"] == [True]


@pytest.mark.parametrize("text", ["New blazer, new bus", "how to cook polenta", "On the side there is a bakery"])
def test_words_without_a_state_are_not_told_of_the_speaker(text: str) -> None:
    assert not any(each.content.startswith("The user is") for each in read_turn([said(text)]))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("I read your answers between patients so keep it short, three lines max.", ["fact", "instruction"]),
        ("No sign of Biscuit yet, we've put posters up all over the estate.", ["fact", "fact"]),
        ("The lamb is off the menu from next week, we're doing mushrooms.", ["fact"]),
        ("Sundays are off limits", ["constraint"]),
    ],
)
def test_only_what_has_to_be_heeded_is_an_instruction(text: str, kinds: list[str]) -> None:
    found = [each for each in read_turn([said(text)]) if each.confidence >= DOUBTFUL]
    assert [each.type.value for each in found] == kinds


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Please write in British spelling and call me Mags.",
            ["Please write in British spelling.", "Call the user Mags."],
        ),
        ("Just call me Anna", ["Just call the user Anna."]),
        ("Respond in Italian, please.", ["Respond in Italian, please."]),
        ("Explain things to me as to a farmer", ["Explain things to the user as to a farmer."]),
        ("Send me a summary every Friday", ["Send the user a summary every Friday."]),
        ("Don't mention my weight", ["Don't mention the user's weight."]),
        ("Give me the full answer from here on", ["Give the user the full answer from here on."]),
        ("Switch over to grams and Celsius from here on", ["Switch over to grams and Celsius from here on."]),
        (
            "use cups with me always, im a home baker in Ohio",
            ["Use cups with the user always.", "The user is a home baker in Ohio."],
        ),
    ],
)
def test_how_to_write_is_an_instruction(text: str, sentences: list[str]) -> None:
    assert read(text) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Write a letter in German",
        "Reply in French to this mail: Bonjour",
        "write this in English please",
        "explain photosynthesis in simple words",
        "use metric for this recipe",
        "Call the dentist from tomorrow",
        "give me short answers to these",
    ],
)
def test_how_to_write_this_once_is_no_instruction(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Latex gives me welts the size of coins. Which gloves are safe?",
            "Latex gives the user welts the size of coins.",
        ),
        ("My son swells up if he eats kiwi", "The user's son swells up if he eats kiwi."),
        ("I come out in hives from strawberries", "The user comes out in hives from strawberries."),
    ],
)
def test_what_a_body_cannot_stand_is_an_allergy(text: str, sentence: str) -> None:
    assert [each.content for each in read_turn([said(text)]) if each.attribute == "allergy"] == [sentence]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("No emojis from now on, please rewrite this mail to my boss: hello", "No emojis from now on."),
        (
            "American spelling as always with me, please shorten this: 'the sea'",
            "American spelling as always with the user.",
        ),
    ],
)
def test_task_on_a_text_is_no_part_of_the_rule_before_it(text: str, rule: str) -> None:
    assert read(text) == [rule]
