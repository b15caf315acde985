"""What somebody said as a sentence about them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.knowledge.english.coordination import split_statements
from limpet.knowledge.english.dates import find_last_date, resolve_dates
from limpet.knowledge.english.wording import names_nothing, points_away, retell, to_third_person

MONDAY = datetime(2026, 11, 16, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("I live in Porto", "The user lives in Porto."),
        ("I'm vegetarian", "The user is vegetarian."),
        ("I don't really like coffee", "The user doesn't really like coffee."),
        ("I've been working at Stripe since March", "The user has been working at Stripe since March."),
        ("my sister lives in Oslo now", "The user's sister lives in Oslo now."),
        ("I usually eat at 6 and cook for my kids", "The user usually eats at 6 and cooks for their kids."),
        ("btw I can't stand turnip", "The user can't stand turnip."),
        ("we use poetry", "The user uses poetry."),
        ("we're looking to buy", "The user is looking to buy."),
        ("we both like hiking", "The user likes hiking."),
        ("Tom and I moved because we needed room", "Tom and the user moved because they needed room."),
        ("my mum's got diabetes", "The user's mum has got diabetes."),
        ("my wife's vegan", "The user's wife is vegan."),
        ("Dr Hallam's known the dog since May", "Dr Hallam has known the dog since May."),
        ("I use neovim btw", "The user uses neovim."),
        ("we got a dog!!", "The user got a dog."),
        ("my ID is 12 in case you need it", "The user's ID is 12 in case the assistant needs it."),
        ("our baby is 5 months", "The user's baby is 5 months."),
        ("Packie walks over every Sunday", "Packie walks over every Sunday."),
        ("two pills at night", "The user said: “two pills at night”"),
        ("I sing bass in a choir", "The user sings bass in a choir."),
        ("Dad's in a care home", "The user's dad is in a care home."),
        ("kids are six and nine", "The user's kids are six and nine."),
        ("sun's out", "The user said: “sun's out”"),
        ("Tom and I are separated", "Tom and the user are separated."),
        ("my sister and I share a flat", "The user and their sister share a flat."),
        ("I sold mine", "The user sold theirs."),
        ("I read them on my phone", "The user reads them on their phone."),
        ("I read it yesterday", "The user read it yesterday."),
        ("my wife is pregnant :)", "The user's wife is pregnant."),
        ("For Benedetta: no pork", "For Benedetta: no pork."),
        ("I drive an i20 now", "The user drives an i20 now."),
        ("we live off the I-95", "The user lives off the I-95."),
    ],
)
def test_to_third_person_changes_person_and_verb(said: str, sentence: str) -> None:
    assert to_third_person(said) == sentence


def test_to_third_person_keeps_instruction_imperative() -> None:
    assert to_third_person("Never call me before nine", instruction=True) == "Never call the user before nine."


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("drive a Berlingo", "The user drives a Berlingo."),
        ("Studying pharmacy at Leuven", "The user is studying pharmacy at Leuven."),
        ("left-handed", "The user is left-handed."),
        ("got a cat called Mulligan", "The user has got a cat called Mulligan."),
        ("Keep it short", "Keep it short."),
        ("ask me on Friday", "Ask the user on Friday."),
    ],
)
def test_to_third_person_adds_speaker_whom_clause_leaves_out(said: str, sentence: str) -> None:
    assert to_third_person(said, elided=True) == sentence


def test_to_third_person_names_speaker() -> None:
    assert to_third_person("I moved to Rome", "Ana") == "Ana moved to Rome."


@pytest.mark.parametrize(
    ("sentence", "dated"),
    [
        ("The user moved last week.", "The user moved last week (about 9 Nov 2026)."),
        ("The exam is tomorrow.", "The exam is tomorrow (17 Nov 2026)."),
        ("They fly in two weeks.", "They fly in two weeks (about 30 Nov 2026)."),
        ("The user is off next Friday.", "The user is off next Friday (20 Nov 2026)."),
        ("It began three years ago.", "It began three years ago (about 2023)."),
        ("Due last month.", "Due last month (Oct 2026)."),
        ("We fly the last week of September.", "We fly the last week of September."),
        ("The user lives in Porto.", "The user lives in Porto."),
    ],
)
def test_resolve_dates_adds_date_to_relative_one(sentence: str, dated: str) -> None:
    assert resolve_dates(sentence, MONDAY) == dated


def test_find_last_date_is_end_of_named_day() -> None:
    assert find_last_date("The exam is tomorrow", MONDAY) == datetime(2026, 11, 18, tzinfo=UTC)
    assert find_last_date("Due on 3 December", MONDAY) == datetime(2026, 12, 4, tzinfo=UTC)
    assert find_last_date("I like tea", MONDAY) is None


@pytest.mark.parametrize(
    ("said", "statements"),
    [
        ("I'm vegetarian and allergic to peanuts.", ["I'm vegetarian", "I'm allergic to peanuts."]),
        ("I'm 34 and allergic to shellfish", ["I'm 34", "I'm allergic to shellfish"]),
        ("We sold the Corolla and bought a Leaf", ["We sold the Corolla", "We bought a Leaf"]),
        (
            "I live in Porto and work at Adyen, but my sister lives in Oslo and has a dog.",
            ["I live in Porto", "I work at Adyen", "my sister lives in Oslo", "my sister has a dog."],
        ),
        ("I like fish and chips", ["I like fish and chips"]),
        (
            "we've two boys, a mortgage with Kestelbank and a leaking conservatory",
            ["we've two boys", "we've a mortgage with Kestelbank", "we've a leaking conservatory"],
        ),
        (
            "Our shop's in the arcade, we close Mondays, and Fidelma does the books",
            ["Our shop's in the arcade", "we close Mondays", "Fidelma does the books"],
        ),
        ("I feed my sister's dog and my brother's cat", ["I feed my sister's dog", "I feed my brother's cat"]),
        ("Studying law and waiting tables", ["Studying law", "waiting tables"]),
        ("Use British spelling, call me Prof, and no lists", ["Use British spelling", "call me Prof", "no lists"]),
        ("Sober since lockdown, single since Easter", ["Sober since lockdown", "single since Easter"]),
        ("kids are six, both in braces already", ["kids are six", "kids are both in braces already"]),
        ("I want to quit my job and start a farm", ["I want to quit my job and start a farm"]),
        ("I can't eat nuts and drink milk", ["I can't eat nuts and drink milk"]),
        ("I take no grapefruit, it messes with my pills", ["I take no grapefruit, it messes with my pills"]),
        ("I left the guild, fees went mad", ["I left the guild, fees went mad"]),
        ("I run Arch, so the steps for Windows are no use", ["I run Arch, so the steps for Windows are no use"]),
        ("As a lawyer, I read contracts", ["As a lawyer, I read contracts"]),
        ("I have a meeting with Anna and a colleague", ["I have a meeting with Anna and a colleague"]),
        ("Imagine if I quit and became a farmer", ["Imagine if I quit and became a farmer"]),
        ("If it rains and I stay home, I cook.", ["If it rains and I stay home, I cook."]),
    ],
)
def test_split_statements_gives_each_its_subject(said: str, statements: list[str]) -> None:
    assert [each.text for each in split_statements(said)] == statements


@given(st.text(max_size=300))
def test_split_statements_spans_are_words_of_the_text(text: str) -> None:
    end = 0
    for each in split_statements(text):
        assert end <= each.start < each.end <= len(text)
        assert each.text.endswith(text[each.start : each.end])
        end = each.end


@given(st.text(max_size=300))
def test_wording_never_fails(text: str) -> None:
    assert resolve_dates(to_third_person(text), MONDAY)
    find_last_date(text, MONDAY)


def test_retell_begins_each_sentence_with_a_capital() -> None:
    told = retell("Jonas took the job. we're moving. gave up the flat, sold mine")
    assert told == "Jonas took the job. The user is moving. The user gave up the flat, sold theirs."


def test_retell_quotes_all_where_one_sentence_has_no_person() -> None:
    assert retell("accepted. I start on May 4") == "The user accepted. The user starts on May 4."
    assert retell("two pills. I start on May 4") == "The user said: “two pills. I start on May 4”"


def test_resolve_dates_leaves_quotation_as_it_was_said() -> None:
    quoted = "The user said: “paid today”"
    assert resolve_dates(quoted, MONDAY) == quoted


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("ok whatever i've decided", True),
        ("don't plan to", True),
        ("the hills were steep", True),
        ("I stopped smoking", False),
        ("left-handed", False),
        ("the office was moved to Leeds", False),
        ("the oven was my grandmother's", False),
    ],
)
def test_names_nothing_finds_words_without_content(text: str, nothing: bool) -> None:
    assert names_nothing(text) is nothing


def test_statement_about_something_unnamed_points_away() -> None:
    assert points_away("That took 49 minutes, longer than I thought")
    assert not points_away("That dog of mine is called Rex")
