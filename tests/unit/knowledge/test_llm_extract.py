"""What a model answers is read in every common form, and believed only with its sentence."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from limpet.errors import ProviderError
from limpet.knowledge.llm_extract import build_request, extract_facts, parse_answer
from limpet.model.record import RecordType
from limpet.providers.fakes import FakeLlm
from limpet.providers.llm import UnusableAnswer
from tests.unit.knowledge.turns import NOON, said

SAID = NOON + timedelta(minutes=1)
TURN = [
    said("I live in Porto.  I’ve got a dog named Rex."),
    said("You love tea. We decided to use Go.", "assistant", at=2),
]


def fact(**more):
    return {
        "type": "fact",
        "statement": "The user lives in Porto.",
        "sentence": "I live in Porto.",
        "subject": "user",
        "attribute": "home",
        "value": "Porto",
        "status": "holds",
    } | more


def test_llm_extract_returns_grounded_candidate():
    llm = FakeLlm({"facts": [fact()]})
    answered = extract_facts(llm, TURN)
    (candidate,) = answered.candidates
    assert answered.calls == 1
    assert answered.used.output_tokens > 0
    assert (candidate.sentence, candidate.content) == ("I live in Porto.", "The user lives in Porto.")
    assert (candidate.subject, candidate.attribute, candidate.value, candidate.exclusive) == (
        "user",
        "home",
        "Porto",
        True,
    )


def test_llm_extract_sends_turn_as_json_without_system_prompt():
    messages = build_request([*TURN, said("secret prompt", "system", at=3)]).messages
    assert "sentence" in messages[0].text
    assert [line["role"] for line in json.loads(messages[1].text)["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize(
    "sentence", ["i LIVE in   porto", '"I live in Porto."', "I've got a dog named Rex", "I’ve got a dog named Rex."]
)
def test_llm_extract_grounding_ignores_case_spacing_and_quotes(sentence):
    assert len(parse_answer(json.dumps({"facts": [fact(sentence=sentence)]}), TURN)) == 1


def test_llm_extract_rejects_fact_without_sentence_in_turn():
    answer = {"facts": [fact(sentence="I live in Lisbon."), fact(sentence=""), "The user is tall."]}
    assert parse_answer(json.dumps(answer), TURN) == []


def test_llm_extract_rejects_fact_contradicted_by_its_sentence():
    """A model that is wrong must not retire what is true."""
    turn = [said("I live in Porto. My sister lives in Rome.", "user")]
    wrong = [
        fact(statement="The user lives in Berlin.", value="Berlin"),
        fact(statement="The user does not live in Porto.", status="ended"),
        fact(statement="The user lives in Rome.", value="Rome", sentence="My sister lives in Rome."),
    ]
    assert parse_answer(json.dumps({"facts": wrong}), turn) == []
    hers = fact(
        statement="The sister lives in Rome.", subject="user/sister", value="Rome", sentence=wrong[2]["sentence"]
    )
    assert len(parse_answer(json.dumps({"facts": [fact(value="Porto, Portugal"), hers]}), turn)) == 2


def test_llm_extract_ignores_assistant_sentences_about_user():
    answer = {"facts": [fact(sentence="You love tea."), fact(type="decision", sentence="We decided to use Go.")]}
    assert [one.type for one in parse_answer(json.dumps(answer), TURN)] == [RecordType.DECISION]


@pytest.mark.parametrize(
    "bullet",
    ["- ", "* ", "• ", "1. ", "1) ", "(1) ", "[1] ", "[ ] ", "- [x] ", "– ", "— ", "a) ", "+ ", "‣ ", "  - ", ""],
)
def test_llm_extract_parses_common_bullet_styles(bullet):
    answer = f"{bullet}I live in Porto.\n{bullet}I've got a dog named Rex.\n"
    assert [one.sentence for one in parse_answer(answer, TURN)] == ["I live in Porto.", "I’ve got a dog named Rex."]


def test_llm_extract_ignores_headings():
    assert len(parse_answer("Facts:\n\n- I live in Porto.\n- None\n", TURN)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "None",
            "none.",
            "NONE",
            "N/A",
            "n/a.",
            "no facts",
            "No new facts.",
            "Nothing",
            "nothing to remember",
            "[]",
            "{}",
            "[ ]",
            "{\n}",
        ),
        *(
            "(none)",
            "*None*",
            "- none",
            "keine",
            "Keine.",
            "null",
            "There are no facts.",
            "No facts found.",
            "```\n[]\n```",
        ),
        *('{"facts": []}', "No relevant information found.", "Nothing worth remembering."),
    ],
)
def test_llm_extract_accepts_any_spelling_of_none(answer):
    assert parse_answer(answer, TURN) == []


@pytest.mark.parametrize(
    "answer", ["", "  ", '{"facts": [{"sentence": "I live', '{"facts": "I live in Porto."}', "[{]"]
)
def test_llm_extract_malformed_json_is_provider_error(answer):
    with pytest.raises(ProviderError):
        parse_answer(answer, TURN)


def test_llm_extract_finds_json_in_surrounding_text():
    assert len(parse_answer(f"Sure! Here it is:\n{json.dumps({'facts': [fact()]})}\nAnything else?", TURN)) == 1
    assert len(parse_answer(json.dumps([fact()]), TURN)) == 1


def test_llm_extract_refusal_is_provider_error():
    with pytest.raises(ProviderError):
        extract_facts(FakeLlm("I would rather not."), TURN)


def test_llm_extract_drops_invalid_subject_and_attribute():
    (one,) = parse_answer(json.dumps([fact(subject="<script>", attribute="DROP TABLE;", value="x")]), TURN)
    assert (one.subject, one.attribute, one.value, one.exclusive) == ("user", None, None, False)


def test_llm_extract_does_not_relearn_recalled_memories():
    assert extract_facts(FakeLlm({"facts": [fact()]}), TURN, ["I live in Porto."]).candidates == []


@pytest.mark.parametrize("answer", ["NONE", "none.", "[]", "```json\n[]\n```", "Nothing to remember."])
def test_llm_extract_asks_once_when_there_is_nothing(answer):
    llm = FakeLlm(answer)
    found = extract_facts(llm, TURN)
    assert (found.candidates, found.calls, len(llm.calls)) == ([], 1, 1)
    assert found.used.input_tokens > 0
    assert found.used.output_tokens > 0


@pytest.mark.parametrize(
    "answer",
    [
        "Sure!\n```json\n" + json.dumps({"facts": [fact()]}) + "\n```\nThat is all.",
        "```\n" + json.dumps([fact()]) + "\n```",
        "- The user lives in Porto.",
        "1. User lives in Porto",
        "The user lives in Porto",
        "I live in Porto.",
        json.dumps(["The user lives in Porto."]),
    ],
)
def test_llm_extract_reads_one_claim_from_every_form_of_answer(answer):
    found = extract_facts(FakeLlm(answer), TURN)
    claims = [(one.subject, one.attribute, one.value, one.content, one.sentence) for one in found.candidates]
    assert claims == [("user", "home", "Porto", "The user lives in Porto.", "I live in Porto.")]


def test_llm_extract_gives_the_other_person_to_a_line_that_says_the_user():
    turn = [said("My sister lives in Rome.")]
    (one,) = parse_answer("- The user's sister lives in Rome", turn)
    assert (one.subject, one.value) == ("user/sister", "Rome")
    assert [each.subject for each in parse_answer("- The user lives in Rome", turn)] == ["user/sister"]


def test_llm_extract_bills_answer_that_cannot_be_used():
    with pytest.raises(UnusableAnswer) as raised:
        extract_facts(FakeLlm('{"facts": [{"sentence": "I live'), TURN)
    assert raised.value.calls == 1
    assert raised.value.usage.output_tokens > 0


@pytest.mark.parametrize(
    ("attribute", "label"), [("city", "home"), ("allergies", "allergy"), ("Home", "home"), ("chess rating", None)]
)
def test_llm_extract_uses_canonical_attributes(attribute, label):
    turn = [said("I can't eat in Porto.")]
    wanted = fact(attribute=attribute, sentence="I can't eat in Porto.")
    (one,) = parse_answer(json.dumps([wanted]), turn)
    assert one.attribute == (label or attribute)


@pytest.mark.parametrize(
    ("status", "sentence", "until", "polarity"),
    [
        ("passing", "I have a headache.", SAID + timedelta(hours=36), True),
        ("planned", "I fly to Rome tomorrow.", datetime(2026, 3, 3, tzinfo=UTC), True),
        ("holds", "I fly to Rome tomorrow.", None, True),
        ("ended", "I no longer row.", None, False),
    ],
)
def test_llm_extract_says_how_long_a_claim_holds(status, sentence, until, polarity):
    wanted = fact(status=status, sentence=sentence, statement=sentence, attribute="", value="")
    (one,) = parse_answer(json.dumps([wanted]), [said(sentence)])
    assert (one.until, one.polarity) == (until, polarity)


def test_llm_extract_words_statement_in_third_person_with_dates():
    wanted = fact(sentence="I fly to Rome tomorrow.", statement="I fly to Rome tomorrow.", attribute="trip")
    (one,) = parse_answer(json.dumps([wanted]), [said("I fly to Rome tomorrow.")])
    assert one.content == "The user flies to Rome tomorrow (2 Mar 2026)."


def test_llm_extract_shows_the_question_before_the_turn():
    question = json.loads(build_request([said("Seven")], "How old is she?").messages[1].text)
    assert question["before"] == "How old is she?"
