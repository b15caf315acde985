"""What a speaker asks not to have remembered is not learned, and nothing is forgotten by such words either."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from limpet import Limpet
from limpet.knowledge.candidate import TurnMessage
from limpet.knowledge.english.assertions import is_forget_request, is_opt_out
from limpet.knowledge.graph.extract import extract_from_message
from limpet.knowledge.learn import build_turn_event
from limpet.knowledge.llm_extract import parse_answer
from limpet.knowledge.opt_out import asks_not_to_keep
from limpet.knowledge.read import extract_candidates as extract
from limpet.model.message import Message, Role
from limpet.model.record import Origin
from limpet.model.scope import Level, Owner, Scope

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def learned(text: str) -> list[tuple[str, str | None, str | None]]:
    return [(one.subject, one.attribute, one.value) for one in extract([TurnMessage(1, Role.USER, text, NOON)])]


@pytest.mark.parametrize(
    "text",
    [
        "Please don't remember this: I live in Porto.",
        "I live in Porto. Please do not save this.",
        "dont remember that pls, i live in porto",
        "Off the record, I work at Nokia.",
        "I work at Nokia, but keep it between us.",
        "Do not store anything I say today. I am vegan.",
        "I'm allergic to nuts. Never write down any of this!",
    ],
)
def test_opt_out_message_is_not_learned(text):
    assert is_opt_out(text)
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("Never store passwords in the repo. I live in Porto.", "Porto"),
        ("I don't remember that. I live in Porto.", "Porto"),
        ("Do not save it yet. I live in Porto.", "Porto"),
        ("Don't forget that I live in Porto.", "Porto"),
        ("Forget that I live in Bergen, I live in Turku.", "Turku"),
        ("I live in Vaasa. Scratch that, I live in Espoo.", "Espoo"),
    ],
)
def test_opt_out_lookalikes_are_learned(text, home):
    assert [value for _, attribute, value in learned(text) if attribute == "home"] == [home]


@pytest.mark.parametrize(
    "text",
    [
        "Forget that I live in Porto.",
        "Please forget what I told you about my sister, who lives in Porto.",
        "Can you delete my birthday? My birthday is May 3. Forget that.",
        "I live in Porto. Please forget I said that.",
    ],
)
def test_forget_request_is_not_learned(text):
    assert learned(text) == []


def test_forget_request_adds_nothing_to_graph():
    message = Message(Role.USER, "Forget that my sister Anna lives in Porto.", sequence=1, created_at=NOON)
    assert is_forget_request(message.text)
    assert extract_from_message(message, "s", NOON, 20).relations == ()
    hushed = Message(Role.USER, "Don't remember this: Anna lives in Porto.", sequence=1, created_at=NOON)
    assert extract_from_message(hushed, "s", NOON, 20).entities == ()


def test_opt_out_message_is_not_learned_by_llm():
    turn = [TurnMessage(1, Role.USER, "Don't remember this: I live in Porto.", NOON)]
    assert parse_answer('[{"statement": "lives in Porto", "sentence": "I live in Porto."}]', turn) == []
    asked = [TurnMessage(1, Role.USER, "Forget that I live in Porto.", NOON)]
    assert parse_answer('[{"statement": "lives in Porto", "sentence": "I live in Porto."}]', asked) == []


def test_opt_out_turn_creates_no_turn_event():
    home = Owner(Scope("t", user="alice"), Level.USER)

    def event(text: str) -> object:
        turn = [
            Message(Role.USER, text, sequence=1, created_at=NOON),
            Message(Role.ASSISTANT, "ok", sequence=2, created_at=NOON),
        ]
        return build_turn_event("id", home, "s", turn, None, str, NOON)

    assert event("I live in Porto.") is not None
    assert event("Don't remember this: I live in Porto.") is None


def test_forget_can_still_extract_opt_out_messages():
    for text in ("Forget that I live in Porto.", "Don't remember this: I live in Porto."):
        (found,) = extract([TurnMessage(1, Role.USER, text, NOON)], unheard_too=True)
        assert (found.attribute, found.value, found.sentence) == ("home", "Porto", "I live in Porto.")


@pytest.mark.parametrize("piece", ["\n", "- ", "please ", "don't ", "do not remember ", "keep this just ", "oh, "])
def test_is_opt_out_runs_in_linear_time(piece):
    import time

    start = time.process_time()
    is_opt_out(piece * (100_000 // len(piece)))
    assert time.process_time() - start < 10


WORDINGS = [
    "Don't remember this, but I live in Oslo.",
    "Please don't store this anywhere: my PIN is 4411.",
    "This stays between us: I'm leaving my job.",
    "Off the record, I hate my boss.",
    "I'd rather you didn't remember this.",
    "I'd prefer if you didn't keep that.",
    "Can you not save this? I have diabetes.",
    "Could you please not remember what I just told you?",
    "Forget I said anything about my divorce.",
    "You don't need to remember this, but my aunt is called Ruth.",
    "No need to remember that, I'm 41.",
    "No need to keep this: I owe 3000 euros.",
    "Do not log this message. I'm gay.",
    "Don't add this to your memory. I earn 80k.",
    "Don't put this in your notes, I'm seeing a therapist.",
    "Please keep this out of your memory: I take lithium.",
    "Leave this out of your memory.",
    "This isn't for your memory: I was fired.",
    "Not for the record, but I'm moving to Rome.",
    "This is confidential, don't write it down: we are expecting.",
    "Don't write this down: I failed the exam.",
    "Don't note this down please.",
    "Please make no record of this.",
    "Don't make a note of this, I'm bankrupt.",
    "Let's keep this off the books: I work at Acme.",
    "Nothing I say now should be stored. I live in Kiel.",
    "I don't want you to remember this. I smoke.",
    "I don't want this saved. I am vegan.",
    "I do not want any of this remembered.",
    "Please don't hold on to this information, my sister is ill.",
    "Don't hang on to this: I'm allergic to bees.",
    "Don't retain this. My password hint is a cat.",
    "Don't commit this to memory: I'm 29.",
    "Just for now, don't save it to memory: I live in Bern.",
    "Ignore this for your memory: I work nights.",
    "You can forget this right away: I'm left-handed.",
    "Forget this afterwards, but my son is called Tim.",
    "Don't learn from this message. I love jazz.",
    "Don't learn anything from this: I hate jazz.",
    "In confidence, I'm adopted.",
    "Strictly confidential: I'm pregnant.",
    "Keep this to yourself: I applied elsewhere.",
    "Delete this after reading: I have a tattoo.",
    "Please erase this message from your memory once we are done.",
    "Don't use this later, but I was in prison.",
    "don't remember any of what follows: I live in Graz",
    "Please don't keep a record of this. I'm in debt.",
    "I'd be grateful if you didn't store this.",
    "This message should not be remembered. I live in Basel.",
    "What I'm telling you now must not be saved: I drink.",
    "Don't let this end up in your memory: I was adopted.",
    "For your eyes only: I'm resigning.",
    "You shouldn't remember this, but I'm 50.",
    "Please forget this conversation once it is over. I live in Ulm.",
    "Can we keep this private? I have HIV.",
    "No notes on this one please, my marriage is over.",
    "Don't file this away: I have a twin.",
    "I want this forgotten as soon as we're done: I stutter.",
    "Kindly refrain from saving this. I'm diabetic.",
    "Don't keep this on file: my salary is 50k.",
    "Never store this: I have epilepsy.",
    "just between you and me i'm colour blind",
    "Please don't memorise this: I'm Ana.",
    "You are not allowed to store this: I am deaf.",
    "Do not save this information about me: I am a Muslim.",
    "Don't remember what I'm about to say: I'm broke.",
    "Please do not keep this on record. I live in Lyon.",
    "You must not remember that: I have asthma.",
    "I'd appreciate it if this wasn't stored. I'm 33.",
    "Don't bother remembering this, I like tea.",
    "This should not be saved. My wife left.",
    "I'd like this to stay off the record. I smoke.",
    "Please never log this: I gamble.",
    "You can't save this, okay? I'm on antidepressants.",
    "Don't keep anything from this chat. I'm a judge.",
    "Let's not record this: I'm 17.",
    "Forget this message please: I live in Split.",
    "This is just between the two of us: I'm ill.",
]
ORDINARY = [
    "I do not keep this up for long.",
    "Don't save this week for me, I'm busy.",
    "It does not store this.",
    "I did not save this on purpose.",
    "The app should not keep this open.",
    "We should not record this call without consent at work.",
    "He told me not to keep this job.",
    "This is to be kept in the fridge.",
    "That should be kept in mind.",
    "My mother never kept this recipe.",
    "I never said that this should be forgotten quickly by everyone.",
    "Why did you not save that?",
    "Don't save the file in that folder.",
    "I never remember birthdays.",
    "Please remember that I live in Oslo.",
    "Don't forget this: I'm allergic to nuts.",
    "I keep a diary and don't store it in the cloud.",
    "We don't store passwords in plain text.",
    "You don't need to remember the milk, I bought some.",
    "I don't remember this place.",
    "She doesn't remember that day.",
    "I can't remember this song.",
    "Never save money on shoes, my mother says.",
    "The function must not store this value in the cache.",
    "Keep this in mind: I work nights.",
    "I don't keep this kind of food at home.",
    "Do not log this request twice, the logger is slow.",
    "I don't want to forget this.",
    "My boss said not to note this in the ticket.",
    "Our policy is confidential documents stay in the safe.",
    "I keep it to myself when I'm sad.",
    "I record this podcast every Friday.",
    "Delete this row from the table.",
    "Please erase this line from the poem.",
    "I don't want this sofa.",
    "I work off the books sometimes? No, I pay taxes.",
    "I don't learn from my mistakes.",
    "Between us we have three cars.",
    "My notes are stored in Obsidian.",
    "Please note this: my address changed to Hill Street 4.",
    "I write everything down.",
    "Do not use this library later than version 2.",
    "I never write this kind of code.",
    "She told me in confidence class that posture matters.",
    "There is no need to save, the editor does it.",
    "You can forget this approach, it is too slow.",
    "No record of this bug exists in the tracker.",
    "Don't remember it being so cold here.",
    "I don't hold on to old clothes.",
]


@pytest.mark.parametrize("text", WORDINGS)
def test_opt_out_is_heard_in_many_wordings(text):
    assert is_opt_out(text)
    assert learned(text) == []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_an_opt_out(text):
    assert not is_opt_out(text)


@pytest.mark.parametrize(
    "text",
    [
        "I gamble. That goes nowhere near your notes, right?",
        "please act as if I never told you: I'm moving to Ghent in May",
        "erase it from your memory when you've answered: I owe the bank 9,000 euros",
        "no lo guardes: vivo en Lima",
        "not something to hold on to, but I live in Turku with my ex",
        "you don't get to remember that I live in Oslo",
    ],
)
def test_model_hears_opt_out_that_rules_do_not(text):
    assert not is_opt_out(text)
    assert asks_not_to_keep(text)
    assert asks_not_to_keep(f"{text}\n{'Then the notes of our meeting. ' * 200}")
    assert asks_not_to_keep(f"{'Then the notes of our meeting. ' * 200}\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        "Don't forget that I'm allergic to walnuts.",
        "I keep forgetting my PIN, and I live in Leeds",
        "Forget what I said about Oslo, I live in Bergen.",
        "I told no one but my sister Ana, who lives in Porto",
        "Please remember this: my son is called Emil",
        "My doctor keeps no record of my allergy to latex",
        "Nobody must know at work that I'm a twin, funny story",
        "You can drop the metric rule, I like inches again",
        "Don't cache this endpoint.",
        "Don't commit directly to main.",
        "Don't store timestamps in local time, always UTC.",
        "Always use tabs. Don't keep commented-out code.",
        "Don't log personal data in the billing service.",
        "",
        "🙂",
    ],
)
def test_model_does_not_take_ordinary_text_for_opt_out(text):
    assert not asks_not_to_keep(text)


def test_turn_that_asks_not_to_be_kept_teaches_nothing(tmp_path):
    with Limpet.open(tmp_path) as memory:
        session = memory.session("chat", user="ann")
        for text in ("I gamble. That goes nowhere near your notes, right?", "I live in Turku."):
            with session.turn(text) as turn:
                turn.reply("All right.")
        session.learn()
        assert [each.value for each in memory.records(user="ann") if each.origin is Origin.EXTRACTED] == ["Turku"]
        assert not any("gamble" in each.content for each in memory.records(user="ann"))
        assert "gamble" not in memory.notes.day(user="ann")
