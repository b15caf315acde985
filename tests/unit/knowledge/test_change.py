"""What a message takes back, in whatever words."""

from __future__ import annotations

import pytest

from limpet.knowledge.change import CONTRADICTS, DOUBTS, find_changes, tells_of_change

KNOWN = [
    "The user rents a room above the bakery in Lugo.",
    "The user works at Brightwater Logistics.",
    "The user plays the clarinet.",
    "The user's dog is called Pickles.",
    "The user is allergic to peanuts.",
    "The user drives a Skoda Fabia.",
]


def most_likely(message: str) -> tuple[str, float]:
    changes = find_changes(message, KNOWN)
    best = max(range(len(KNOWN)), key=lambda at: changes[at].probability)
    return KNOWN[best], changes[best].probability


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("I've left Brightwater Logistics, I'm at Corven Dental now.", "The user works at Brightwater Logistics."),
        ("Sold the Skoda, I drive a Kia now. What tyres does it need?", "The user drives a Skoda Fabia."),
        ("I gave up the clarinet, my hands hurt too much.", "The user plays the clarinet."),
    ],
)
def test_find_changes_finds_what_is_over(message: str, claim: str) -> None:
    best, probability = most_likely(message)
    assert best == claim
    assert probability >= CONTRADICTS


@pytest.mark.parametrize(
    "message",
    [
        "What's the weather in Lisbon tomorrow?",
        "Can you shorten this paragraph for me please",
        "I have a meeting at three.",
        "My neighbour plays the tuba in the brass band.",
    ],
)
def test_find_changes_leaves_what_nobody_took_back(message: str) -> None:
    assert most_likely(message)[1] < DOUBTS


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("my last day at Brightwater is Friday, new job starts on the 2nd", KNOWN[1]),
        ("gave the keys of the room back, I live in Vigo with my cousin now", KNOWN[0]),
    ],
)
def test_find_changes_doubts_what_may_be_over(message: str, claim: str) -> None:
    best, probability = most_likely(message)
    assert best == claim
    assert DOUBTS <= probability < CONTRADICTS


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("mum loved Bergen. She wants to come back in May", "The user works as a nurse at St. Olaf's in Bergen."),
        ("Luis called, he's got the flu", "The user's brother is called Luis."),
        ("Rex barked at the postman until he gave him a sausage", "The user's dog is called Rex."),
        ("boss drove all week, the Skoda is at the garage", "The user drives a Skoda Fabia."),
    ],
)
def test_find_changes_leaves_what_is_only_mentioned(message: str, claim: str) -> None:
    (change,) = find_changes(message, [claim])
    assert change.probability < DOUBTS


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("Rex had to be put down on Monday", "The user's dog is called Rex."),
        ("turns out it wasn't gluten after all", "The user can't eat gluten."),
    ],
)
def test_find_changes_finds_plain_ends(message: str, claim: str) -> None:
    (change,) = find_changes(message, [claim])
    assert change.probability >= DOUBTS


def test_find_changes_names_the_clause_that_does() -> None:
    message = "Can you help with the form? I've left Brightwater Logistics, I'm at Corven Dental now."
    change = find_changes(message, KNOWN)[1]
    assert "Brightwater" in message[change.start : change.end]


@pytest.mark.parametrize("message", ["", " ", "?", "…", "\x00", "a" * 100_000, "word " * 20_000, "\U0001f984" * 50])
def test_find_changes_takes_any_text(message: str) -> None:
    assert len(find_changes(message, KNOWN)) == len(KNOWN)
    assert find_changes(message, []) == []
    assert tells_of_change(message) in (True, False)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("Reply in Polish.", "English again please"),
        ("Answer the user with a numbered list.", "Write full paragraphs from now on"),
        ("Always use Celsius.", "switch to fahrenheit"),
        ("Send the user a report every Monday.", "No more Monday reports please"),
    ],
)
def test_find_changes_ends_an_instruction_that_another_replaces(instruction: str, message: str) -> None:
    assert find_changes(message, [instruction, *KNOWN])[0].probability >= CONTRADICTS


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("No exclamation marks please.", "ok exclamation marks are fine again"),
        ("Always confirm before sending a mail.", "you don't need to confirm mails any more"),
        ("Always be formal with the user.", "you can be casual with me from now on"),
    ],
)
def test_find_changes_doubts_an_instruction_that_is_lifted(instruction: str, message: str) -> None:
    assert find_changes(message, [instruction, *KNOWN])[0].probability >= DOUBTS


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("Reply in Polish.", "write this one mail in English please"),
        ("Reply in Polish.", "How do you say butter in English?"),
        ("Answer the user with bullet points.", "My slides have too many tables"),
        ("Always use Celsius.", "It was 90 Fahrenheit in Austin"),
        ("No exclamation marks please.", "you can drop the exclamation marks in the poster too"),
        ("Send the user a report every Monday.", "don't forget the report on Monday"),
        ("Never suggest recipes with pork.", "feel free to suggest a wine too"),
    ],
)
def test_find_changes_leaves_instructions_that_still_hold(instruction: str, message: str) -> None:
    assert find_changes(message, [instruction, *KNOWN])[0].probability < DOUBTS


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("Priyanka has left the company", "The user's manager is Priyanka."),
        ("Ivana dumped me", "The user's girlfriend is Ivana."),
        ("Otto moved out on Sunday", "The user's son Otto lives with them."),
        ("Bill died on Friday", "The user's father Bill is in a home."),
    ],
)
def test_find_changes_takes_who_has_left_for_gone(message: str, claim: str) -> None:
    (change,) = find_changes(message, [claim])
    assert change.probability >= CONTRADICTS


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("Otto moved out on Sunday", "The user's son Otto is 19 years old."),
        ("Noor left the band", "The user's sister is called Noor."),
        ("Kwame's mate just got divorced and is on our sofa", "The user's partner Kwame cooks."),
    ],
)
def test_find_changes_leaves_family_that_only_moves(message: str, claim: str) -> None:
    (change,) = find_changes(message, [claim])
    assert change.probability < CONTRADICTS


@pytest.mark.parametrize("message", ["the physio says no running, so the race is off", "they've called the race off"])
def test_find_changes_takes_an_event_that_is_off_for_over(message: str) -> None:
    found = find_changes(message, ["The race is 14 June in Sopot.", *KNOWN])
    assert found[0].probability >= CONTRADICTS


@pytest.mark.parametrize(
    "message", ["the match is off for today", "if the match is off I'll sleep in", "I'm off to a match"]
)
def test_find_changes_leaves_an_event_that_is_not_off_for_good(message: str) -> None:
    (change,) = find_changes(message, ["The user has a match every Sunday."])
    assert change.probability < CONTRADICTS


def test_find_changes_asks_once_whether_a_clause_lifts_instructions_however_much_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def note(sentence: str) -> bool:
        asked.append(sentence)
        return False

    monkeypatch.setattr(
        "limpet.knowledge.change._limit", lambda *_: 1.0
    )  # it asks, too, of the few claims that are near
    monkeypatch.setattr("limpet.knowledge.english.changes_instructions", note)
    find_changes(
        "My aunt paints boats and the tide is late.", [f"The user has been to island {at}." for at in range(50)]
    )
    assert 0 < len(asked) < 5
