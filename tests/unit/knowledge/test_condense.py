"""Days of turns, and a profile: by rules and as a model tells them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from limpet import Record
from limpet.errors import ProviderError
from limpet.knowledge import llm_digest, profile
from limpet.knowledge.consolidate import build_day_record, digest_day, group_by_day
from limpet.knowledge.llm_digest import is_grounded
from limpet.model.record import Layer, Origin, RecordSource
from limpet.model.scope import Level, Owner, Scope
from limpet.model.tokens import estimate_tokens
from limpet.providers.fakes import FakeLlm
from tests.extracted_records import NOW, record

DAY = timedelta(days=1)
CHAT = Owner(Scope("default", user="alice", session="01890000-0000-7000-8000-00000000000a"), Level.SESSION)


def a_turn(text: str, hours: float = 0, **fields: Any) -> Record:
    fields = {"type": "task_state", "layer": "episodic", "origin": "turn", **fields}
    return record(text, at=NOW + timedelta(hours=hours), **fields)


def test_group_by_day_groups_old_turns_by_owner_and_local_day() -> None:
    turns = [a_turn("noon"), a_turn("late", 11), a_turn("next", 13), a_turn("chat", 1, home=CHAT)]
    found = group_by_day(turns, NOW + 9 * DAY, 7, UTC)
    assert [(day.home.level, str(day.day), [turn.content for turn in day.turns]) for day in found] == [
        (Level.SESSION, "2026-03-10", ["chat"]),
        (Level.USER, "2026-03-10", ["noon", "late"]),
        (Level.USER, "2026-03-11", ["next"]),
    ]
    east = group_by_day(turns[:2], NOW + 9 * DAY, 7, timezone(timedelta(hours=3)))
    assert [str(day.day) for day in east] == ["2026-03-10", "2026-03-11"]
    assert group_by_day(turns, NOW + 7 * DAY, 7, UTC) == []


def test_group_by_day_ignores_archived_pinned_and_extracted_records() -> None:
    others = [a_turn("x", archived_at=NOW), a_turn("x", pinned=True), a_turn("x", origin="extracted")]
    assert group_by_day(others, NOW + 90 * DAY, 7, UTC) == []


def test_day_record_covers_and_references_every_turn() -> None:
    source = RecordSource("01890000-0000-7000-8000-00000000000a", (1, 2))
    turns = [a_turn(f"asked: topic{at} | answered: thing{at}", at, tags=(f"t{at}",), source=source) for at in range(9)]
    [day] = group_by_day(turns, NOW + 30 * DAY, 7, UTC)
    text = digest_day(day, 300, estimate_tokens)
    assert all(f"topic{at}" in text and f"thing{at}" in text for at in range(9))
    assert estimate_tokens(digest_day(day, 60, estimate_tokens)) <= 60
    made = build_day_record(day, text, "new", NOW + 30 * DAY)
    assert (made.layer, made.origin, made.home) == (Layer.EPISODIC, Origin.CONDENSED, day.home)
    assert made.inputs == tuple(turn.id for turn in day.turns)
    assert (made.created_at, made.updated_at) == (NOW + timedelta(hours=8), NOW + 30 * DAY)
    assert made.source == source
    assert made.tags == tuple(f"t{at}" for at in range(9))


# Profiles


def test_profile_groups_records_and_names_sources() -> None:
    known = [
        record("Alice must not eat nuts", type="constraint"),
        record("Alice lives in Lisbon", subject="user", attribute="home"),
        record("Alice is called Ali", subject="user", attribute="nickname"),
        record("Alice hates rain", type="preference", polarity=False),
        record("Her sister is Ana", subject="user/sister", attribute="name of sister"),
    ]
    lines = profile.build_lines(profile.select_inputs(known, NOW), 300, estimate_tokens)
    assert [line.text.partition(":")[0] for line in lines] == ["Who", "Where", "People", "Must", "Dislikes"]
    assert {source for line in lines for source in line.sources} == {each.id for each in known}
    few = profile.build_lines(profile.select_inputs(known, NOW), 12, estimate_tokens)
    assert [line.text for line in few] == ["Must: Alice must not eat nuts"]


@pytest.mark.parametrize(
    "fields",
    [
        {"home": CHAT},
        {"layer": "episodic"},
        {"type": "failure"},
        {"archived_at": NOW},
        {"superseded_by": "x"},
        {"valid_to": NOW},
        {"origin": "condensed"},
        {"key": "internal_profile"},
    ],
)
def test_profile_excludes_unsuitable_records(fields: dict[str, Any]) -> None:
    assert not profile.is_profile_input(record(**fields), NOW)


def test_profile_is_accurate_only_while_its_sources_are_current() -> None:
    one, two = record("Alice lives in Lisbon"), record("Alice likes oat milk", type="preference")
    inputs = profile.select_inputs([one, two], NOW)
    kept = profile.to_record(one.home, profile.build_lines(inputs, 300, estimate_tokens), inputs, "new", NOW)
    assert profile.is_accurate(kept, [one, two], NOW)
    assert profile.is_up_to_date(kept, [two, one])
    assert not profile.is_up_to_date(kept, [one, two, record("Alice runs")])
    assert not profile.is_accurate(kept, [one], NOW)
    assert not profile.is_accurate(kept, [one, replace(two, version=2)], NOW)
    assert not profile.is_accurate(kept, [one, replace(two, superseded_by="x")], NOW)
    assert profile.to_profile(kept).sources == tuple(line.sources[0] for line in profile.to_profile(kept).lines)


# A model's words


def test_is_grounded_requires_names_numbers_and_negation_to_match() -> None:
    texts = ["Alice moved to Lisbon in 2024", "She does not eat meat"]
    assert is_grounded("The user moved to Lisbon in 2024.", texts[:1])
    assert not is_grounded("The user moved to Lisbon in 2025.", texts[:1])
    assert not is_grounded("The user never moved to Lisbon.", texts[:1])
    assert not is_grounded("The user is a famous astronaut from Mars.", texts)
    assert is_grounded("The user does not eat meat.", texts)
    assert not is_grounded("", texts)
    assert not is_grounded("The user moved to Lisbon", [])


def test_digest_texts_keeps_only_grounded_sentences_with_sources() -> None:
    texts = ["asked: where is my flight | answered: it lands in Porto at 18:40", "asked: thanks | answered: welcome"]
    answer = {
        "sentences": [
            {"text": "The flight lands in Porto at 18:40.", "from": [1]},
            {"text": "The flight lands in Porto at 19:40.", "from": [1]},
            {"text": "The flight lands in Porto.", "from": []},
            {"text": "The flight lands in Porto.", "from": [7]},
        ]
    }
    llm = FakeLlm(answer)
    assert llm_digest.digest_texts(llm, "day", texts, 300, 5.0) == [
        llm_digest.DigestSentence("The flight lands in Porto at 18:40.", (0,))
    ]
    [request] = llm.calls
    assert "180 words" in request.messages[0].text
    with pytest.raises(ProviderError):
        llm_digest.digest_texts(FakeLlm("no JSON at all"), "profile", texts, 300, 5.0)
