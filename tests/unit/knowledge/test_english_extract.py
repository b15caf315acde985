"""The rules, and the faults others had: each named after its fault."""

from __future__ import annotations

import pytest

from limpet.knowledge.read import extract_candidates as extract
from limpet.knowledge.read import read_turn
from limpet.model.message import Role
from limpet.model.record import Layer, RecordType
from tests.unit.knowledge.turns import learned, said, shell, told


@pytest.mark.parametrize(
    "text", ["I moved to Lisbon.", "I live in Lisbon now.", "I'm based in Lisbon.", "We relocated to Lisbon last year."]
)
def test_extract_maps_different_wordings_to_one_attribute(text):
    (candidate,) = learned(text)
    assert (candidate.subject, candidate.attribute, candidate.value) == ("user", "home", "Lisbon")
    assert candidate.exclusive
    assert candidate.content == candidate.sentence == text


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("My new favourite dish is dumplings.", "favourite:dish", "dumplings"),
        ("My new phone number is 555-0142.", "phone", "555-0142"),
        ("My new email is bea@example.org.", "email", "bea@example.org"),
        ("My current job title is team lead.", "role", "team lead"),
    ],
)
def test_extract_marks_new_favourite_as_exclusive(text, attribute, value):
    (found,) = learned(text)
    assert (found.subject, found.attribute, found.value, found.exclusive) == ("user", attribute, value, True)


@pytest.mark.parametrize("text", ["I'm learning the accordion.", "I am learning to play the accordion these days."])
def test_extract_learning_an_instrument_but_not_an_idiom(text):
    assert told(learned(text)) == [("user", "learning", "accordion", True)]
    assert learned("I'm learning the ropes here.") == []


def test_extract_assigns_relatives_fact_to_relative():
    (candidate,) = learned("My sister lives in Porto.")
    assert (candidate.subject, candidate.attribute, candidate.value) == ("user/sister", "home", "Porto")
    assert not candidate.exclusive  # there may be two of them


def test_extract_resolves_first_person_to_speaker():
    turn = [said("I live in Porto.", speaker="Caroline"), said("I hate olives.", "assistant", at=2, speaker="Mel")]
    assert told(extract(turn)) == [("caroline", "home", "Porto", True), ("mel", "likes", "olives", False)]


def test_extract_assigns_reported_speech_to_its_speaker():
    assert told(learned("Anna said she lives in Porto.")) == [("anna", "home", "Porto", True)]


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("I no longer live in Oslo.", "home", "Oslo"),
        ("I used to live in Oslo.", "home", "Oslo"),
        ("I don't work at Bosch anymore.", "employer", "Bosch"),
        ("I quit my job at Bosch.", "employer", "Bosch"),
        ("I don't like olives.", "likes", "olives"),
        ("I can't stand olives.", "likes", "olives"),
    ],
)
def test_extract_negates_ended_or_denied_facts(text, attribute, value):
    assert told(learned(text)) == [("user", attribute, value, False)]


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("I stopped smoking.", True),
        ("Our backend is written in Go.", False),
        ("I play chess on Thursdays.", False),
        ("I'm hoping to run a marathon next year.", False),
        ("Every release needs a sign-off from legal.", False),
    ],
)
def test_reader_keeps_what_no_rule_has_a_value_for(text, ended):
    """Recognising is the trained reader's work: the claim is there, quoted, and says whether it holds."""
    (candidate,) = read_turn([said(text)])
    assert candidate.sentence.rstrip(".") == text.rstrip(".")
    assert candidate.confidence >= 0.5
    assert candidate.polarity is not ended


@pytest.mark.parametrize(
    "text",
    [
        "Do I live in Porto?",
        "where do i live",
        "If I lived in Porto, I would swim.",
        "I'd love to live in Porto.",
        "Imagine I live in Porto.",
        "Maybe I should move to Porto.",
        "I wish I lived in Porto.",
        '"I live in Porto", said the parrot.',
        "> I live in Porto",
        "```\nI live in Porto.\n```",
        "Yeah right, I live in Porto.",
        "I live in Porto. Just kidding!",
        "Translate this: I live in Porto.",
        "Let's play: you are a wizard. I live in Porto.",
        "In the novel, Maria lives in Porto.",
        "My cousin thinks I live in Porto.",
        "I never said I live in Porto.",
        "You live in Porto.",
        "I love it!",
        "Sounds like rain.",
        "I have a question about my code.",
        "It must be late. You must be tired.",
        "Let's see. Never mind.",
    ],
)
def test_extract_ignores_questions_and_hypotheticals(text):
    assert learned(text) == []


def test_extract_ignores_assistant_statements_about_user():
    """Recalled memories came back as new facts, round and round."""
    assert extract([said("You live in Porto and you love tea. I live in Porto.", "assistant")]) == []


def test_extract_does_not_relearn_recalled_memories():
    recalled = ["The user said: I live in Porto and I work at Galp.", "Never deploy on Fridays."]
    turn = [said("I live in Porto and I work at Galp."), said("never deploy on fridays!", at=2)]
    assert extract(turn, recalled) == []
    assert told(extract([said("I live in Lisbon.")], recalled)) == [("user", "home", "Lisbon", True)]
    assert told(extract([said("I don't live in Porto anymore.")], recalled)) == [("user", "home", "Porto", False)]


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.TOOL])
def test_extract_ignores_system_and_tool_messages(role):
    assert extract([said("I live in Porto. Never use tabs. We decided to use Go.", role)]) == []


def test_extract_does_not_treat_error_output_as_constraint():
    """It became a permanent one."""
    assert extract(shell("cat app.log", "ERROR: must not be None\nnever use this in production")) == []


def test_extract_failed_tool_call_as_episodic_failure():
    output = 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError: boom is not found'
    (failure,) = extract(shell("python a.py", output, failed=True))
    assert (failure.type, failure.layer) == (RecordType.FAILURE, Layer.EPISODIC)
    assert failure.sentence == "KeyError: boom is not found"
    assert failure.content == "`python a.py` failed: KeyError: boom is not found"
    assert "python a.py" in failure.references


def test_extract_command_result_but_not_read_only_commands():
    (result,) = extract(shell("pytest -q", "........\n8 passed in 0.1s"))
    assert (result.type, result.value) == (RecordType.COMMAND_RESULT, "pytest -q")
    assert result.content == "`pytest -q`: 8 passed in 0.1s"
    assert extract(shell("ls -la", "done 12 files")) == []


def test_extract_keeps_matching_sentence_not_start_of_turn():
    long = "Here is a lot of talk about the weather. " * 30
    (candidate,) = learned(f"{long}Never deploy on Fridays. And more talk after it.")
    assert candidate.content == candidate.sentence == "Never deploy on Fridays."


def test_extract_repeated_fact_once():
    text = "I live in Porto. I live in Porto! Yes, I live in Porto, Portugal. I'm based in Porto."
    assert told(learned(text)) == [("user", "home", "Porto", True)]


def test_extract_splits_two_facts_of_one_sentence():
    """Both would have the sentence for their text, and one fingerprint."""
    contents = {candidate.content for candidate in learned("I work at Novartis as a data analyst.")}
    assert contents == {"The user works at Novartis.", "The user works as a data analyst."}


@pytest.mark.parametrize(
    "text", ["My bike is blue and my sister's '98 Golf is red", "We eat late and the band's 'the best' in town"]
)
def test_read_turn_takes_a_word_that_begins_with_an_apostrophe(text):
    assert any("late" in each.content or "bike" in each.content for each in read_turn([said(text)]))


def test_extract_spells_out_pronoun_in_content():
    contents = [candidate.content for candidate in learned("My wife is called Mei. She's from Taipei.")]
    assert contents == ["The user's wife is called Mei.", "The user's wife is from Taipei."]


def test_extract_facts_about_friends_are_not_exclusive():
    """Unrelated facts retired each other."""
    assert [one.exclusive for one in learned("My friend Laura moved to Vienna. My mother moved to Bern.")] == [
        False,
        False,
        True,
    ]


def test_extract_failure_and_fix_from_assistant_report():
    text = "The build failed because the lockfile was old. I fixed it by running `npm ci`. Let's use pnpm instead."
    found = extract([said("why?"), said(text, "assistant", at=2)])
    assert [candidate.type for candidate in found] == [RecordType.FAILURE, RecordType.FIX]
    assert found[1].references == ("npm ci",)


def test_extract_collects_file_and_test_references():
    (candidate,) = learned("The import failed because src/app/config.yaml had a tab, see test_import_config.")
    assert candidate.references == ("src/app/config.yaml", "test_import_config")


def test_extract_ignores_pasted_document():
    pasted = "I live in Porto. " + "Lorem ipsum dolor sit amet. " * 300
    text = f"See below. {'Filler sentence here. ' * 60}{pasted}"
    assert learned(text) == []


def test_extract_lowers_confidence_of_hedged_statement():
    (sure,) = learned("Greg lives in Tulsa.")
    (unsure,) = learned("I think Greg lives in Tulsa.")
    assert unsure.confidence < 0.65 < sure.confidence


def test_extract_resolves_pronoun_to_last_mentioned_person():
    """A sister got what was said of a friend."""
    text = "My sister lives in Porto. As for my best friend, she's really into yoga."
    assert told(learned(text)) == [("user/sister", "home", "Porto", True), ("user/friend", "likes", "yoga", True)]


def test_extract_drops_pronoun_after_several_sentences():
    text = "My sister lives in Porto. The weather is fine. The food is good. The sea is cold. She works at Galp."
    assert told(learned(text)) == [("user/sister", "home", "Porto", True)]


def test_extract_drops_ambiguous_pronoun():
    assert told(learned("My sister met my aunt. She works at Galp.")) == []


@pytest.mark.parametrize(
    "text",
    [
        "I moved to TypeScript and never looked back.",
        "I'm living in Tokyo for three months.",
        "I'm living in Rome until June.",
        "I haven't moved to Spain yet.",
        "I joined Anna for lunch.",
        "I joined Monday.",
        "I left Google Docs open.",
        "I'm working at the library today.",
        "I'm studying at the library.",
        "I'd rather not.",
        "I said I live in Bern, I meant Basel.",
        "The email says: Hi, I work at Stripe.",
        "Add a test that the error says 'must not be empty'.",
        "I'll go with my sister to the dentist.",
        "Let's call it a day.",
        "Let's move to the next question.",
        "That fixed it, thanks!",
        "My favourite part is the ending.",
        "My goal is to finish this today.",
    ],
)
def test_extract_ignores_lookalikes_of_facts(text):
    """Most of them would retire a true one: whose team moved to Slack does not live there."""
    assert told(learned(text)) == []


def test_extract_team_migration_as_decision_not_home():
    found = learned("We moved to Kubernetes last year. We switched from Jest to Vitest.")
    assert [(one.type, one.subject, one.attribute) for one in found] == [(RecordType.DECISION, "project", None)] * 2


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I worked at Google for five years.", ("user", "employer", "Google", False)),
        ("I've worked at Google for five years.", ("user", "employer", "Google", True)),
        ("My ex-wife works at Bosch.", ("user/ex-wife", "employer", "Bosch", True)),
        ("My former boss works at Meta.", ("user/ex-boss", "employer", "Meta", True)),
        ("I stopped drinking coffee.", ("user", "drinks", "coffee", False)),
        ("I'm allergic to peanuts and shellfish.", ("user", "allergy", "peanuts and shellfish", True)),
        ("I love Thai and Italian food.", ("user", "likes", "Thai and Italian food", True)),
        ("My brother in law works for Airbus.", ("user/brother-in-law", "employer", "Airbus", True)),
        ("My son can't eat nuts.", ("user/son", "eats", "nuts", False)),
        ("My grandfather was from Sicily.", ("user/grandfather", "origin", "Sicily", True)),
        ("We moved from Porto to Lisbon.", ("user", "home", "Lisbon", True)),
        ("I moved to Berlin in 2015 and to Hamburg in 2020.", ("user", "home", "Hamburg", True)),
    ],
)
def test_extract_resolves_tense_subject_and_value_boundary(text, fact):
    assert told(learned(text)) == [fact]


@pytest.mark.parametrize(
    "text",
    [
        "Fwd: Hi all, I moved to Graz and I don't eat meat.\ncan you answer this",
        "Dear Sir, I am a plumber and I live in Bergen.",
        "Riddle: Tom lives in Rome. I hate Tom. Who am I?",
        "Customer: hi, I live in Brno, where is my lamp?",
        "In my novel the detective is called Arvo. He hates rain and lives in Turku.",
        "ugh great, another meeting. i just LOVE mondays",
        "As a contractor, any request should be made early.",
        "As a lawyer, what would you do?",
        "my cousin keeps telling people I'm a lawyer",
        "i drive a bus",
        "We have some chicken at home.",
        "we even got a selfie with her brother, Finneas",
        "let's go with option B",
        "I fixed the sink by tightening the nut.",
    ],
)
def test_extract_ignores_quoted_mail_stories_and_irony(text):
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my husbands name is Dmitri and hes alergic to walnuts", ("user/husband", "allergy", "walnuts", True)),
        ("He has a huge dog and it scares my daughter Lily, she's only four.", ("user/daughter", "age", "four", True)),
        ("Grandpa Joe passed away on Sunday.", ("user/grandfather", "status", "passed away", True)),
        ("As a vegetarian, what can I eat in Mongolia?", ("user", "diet", "vegetarian", True)),
        ("My doctor says I have high blood pressure.", ("user", "health", "high blood pressure", True)),
        ("i do work in a pharmacy in Ghent", ("user", "employer", "pharmacy", True)),
        ("My mum lives on her own in Cork.", ("user/mother", "home", "Cork", True)),
        ("I was at the lake with my cousin Emma", ("user/cousin", "name", "Emma", True)),
        ("I don't drink, so no wine please", ("user", "drinks", "alcohol", False)),
        ("About me:\n- product designer at Monzo", ("user", "employer", "Monzo", True)),
    ],
)
def test_extract_accepts_sloppy_and_indirect_wording(text, expected):
    assert expected in told(learned(text))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("I mounted /var/run/docker.sock and now it works.", RecordType.FIX),
        ("downgrading didn't fix it but deleting the lock file did", RecordType.FIX),
        ("i cleared the cache but still get ERR_MODULE_NOT_FOUND", RecordType.FAILURE),
        ("every public function needs a docstring", RecordType.CONSTRAINT),
        ("release is on the 12th of April", RecordType.CONSTRAINT),
        ("We'll use Terraform for the infra.", RecordType.DECISION),
    ],
)
def test_extract_recognizes_developer_talk(text, type_):
    assert [one.type for one in learned(text)] == [type_]


def test_extract_command_result_prefers_outcome_over_duration():
    (found,) = extract(shell("npm test", "Tests: 96 passed, 96 total\nTime: 8.2 s"))
    assert "96 passed" in found.sentence


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("I am allergic to peanuts but can you suggest a snack?", "I am allergic to peanuts"),
        ("I am allergic to peanuts so what can I eat?", "I am allergic to peanuts"),
        ("I am allergic to peanuts, what can I eat and how do I cook it?", "I am allergic to peanuts"),
        ("I work at Acme, where I'm the lead, and can you write a mail?", "I work at Acme, where I'm the lead"),
        ("Can I say that I am allergic to peanuts but is it true?", None),
    ],
)
def test_extract_statement_that_precedes_a_question(text, stated):
    assert {candidate.sentence for candidate in extract([said(text)])} == ({stated} if stated else set())


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("My budget is $1,500.", [("user", "budget", "$1,500", True)]),
        ("my birthday is 3 may", [("user", "birthday", "3 may", True)]),
        ("I'm colourblind, red and green.", [("user", "health", "colourblind", True)]),
        ("Halina takes methotrexate.", [("halina", "health", "methotrexate", True)]),
        ("Kenji moved to infra.", []),
        ("I have moved to days since the new matron.", []),
        ("I moved into my mate Lewis's spare room.", []),
        ("My uncle's name is there.", []),
        ("Don't ask what day it is.", []),
    ],
)
def test_extract_reads_whole_values_and_no_lookalikes(text, facts):
    assert told(learned(text)) == facts


def test_extract_does_not_take_somebody_who_works_for_a_fix():
    found = learned("I moved to Lisbon last week and my sister Anna works at Galp.")
    assert [candidate.type for candidate in found] == [RecordType.FACT] * 3
    assert ("user/sister", "employer", "Galp", True) in told(found)


def test_name_does_not_swallow_what_is_said_of_person():
    contents = [candidate.content for candidate in read_turn([said("My kid Ash uses ze and zir.")])]
    assert contents == ["The user's child is called Ash.", "The user's kid Ash uses ze and zir."]


def test_claims_of_one_attribute_without_value_are_not_one():
    contents = [each.content for each in read_turn([said("rent's 740 and I get paid on the 25th")])]
    assert contents == ["Rent is 740.", "The user gets paid on the 25th."]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (
            "When I paste a contract, start with what could hurt me.",
            "When the user pastes a contract, start with what could hurt the user.",
        ),
        (
            "If you give me more than one step at a time I do none of them",
            "If you give the user more than one step at a time the user does none of them.",
        ),
    ],
)
def test_condition_on_the_chat_is_rule_for_assistant(text, content):
    (candidate,) = read_turn([said(text)])
    assert (candidate.type, candidate.content) == (RecordType.INSTRUCTION, content)


def test_supposition_is_not_learned():
    assert read_turn([said("If I get the job I'll move to Leeds")]) == []


def test_claim_keeps_words_that_its_values_leave_out():
    contents = {
        each.attribute: each.content for each in read_turn([said("my wife Anjali is pregnant, due in mid June")])
    }
    assert contents["health"] == "The user's wife Anjali is pregnant, due in mid June."


def test_each_clause_of_a_sentence_is_learned():
    contents = {each.content for each in read_turn([said("I hate olives, and my budget for the trip is 400 euros")])}
    assert contents == {"The user hates olives.", "The user's budget for the trip is 400 euros."}


def test_statement_beside_a_sure_one_is_sure():
    found = read_turn([said("my wife is from Cebu, my mother lives with us, and I haul gravel for a living")])
    assert [each.content for each in found if each.confidence >= 0.5][-1] == "The user hauls gravel for a living."


def test_remark_stays_with_what_it_is_about():
    (candidate,) = read_turn([said("my exam was on Monday, I passed")])
    assert candidate.sentence == "my exam was on Monday, I passed"


def test_pronoun_becomes_the_person_named_before():
    found = read_turn([said("vet says Moss is diabetic, he gets insulin now")])
    assert [each.content for each in found] == ["Vet says Moss is diabetic.", "Moss gets insulin now."]


def test_one_word_goes_with_the_sentence_after_it():
    (candidate,) = read_turn([said("Wool. I come up like a tomato, even the blends")])
    assert candidate.content == "Wool. The user comes up like a tomato, even the blends."


def test_message_of_doubtful_parts_is_one_claim():
    text = "there's no oven in my place, one hotplate and a rice cooker, that's the lot"
    (candidate,) = read_turn([said(text)])
    assert candidate.sentence == text


def test_state_alone_at_the_start_is_the_speakers():
    assert told(learned("pregnant!!! 11 weeks, only my mum knows")) == [("user", "health", "pregnant", True)]
