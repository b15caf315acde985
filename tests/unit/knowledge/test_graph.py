from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from limpet.errors import ProviderError
from limpet.knowledge.graph import llm
from limpet.knowledge.graph.extract import extract_from_message, extract_from_record
from limpet.knowledge.graph.names import find_entities
from limpet.model.graph import EntityKind, RelationKind, normalize_name
from limpet.model.message import Message
from limpet.model.record import Layer, Record, RecordType
from limpet.model.scope import Level, Owner, Scope
from limpet.providers.fakes import FakeLlm
from limpet.search.graph_repository import MentionPlace, find_communities

AT = datetime(2026, 3, 10, 12, tzinfo=UTC)


def kinds(text: str) -> dict[str, str]:
    return {found.name: found.kind.value for found in find_entities(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I met Anna Kowalska in Porto.", {"Anna Kowalska": "person", "Porto": "place"}),
        ("Yesterday Tom was late.", {"Tom": "person"}),
        ("Running is fun. Thanks for asking! Absolutely.", {}),
        ("She works at Initech with Zoltan's wife.", {"Initech": "organisation", "Zoltan": "person"}),
        ("We visited the Golden Gate Bridge.", {"Golden Gate Bridge": "place"}),
        ("He teaches at the University of Lisbon.", {"University of Lisbon": "organisation"}),
        ('We read "The Little Prince" aloud.', {"The Little Prince": "thing"}),
        ("It broke in src/app/main.py again.", {"src/app/main.py": "thing"}),
        ("I like #gardening.", {"gardening": "topic"}),
        ("I LOVE THIS SO MUCH, THANK YOU", {}),
        ("NASA called. Jean-Luc and O'Brien came.", {"NASA": "thing", "Jean-Luc": "thing", "O'Brien": "thing"}),
        ("Do you know Łukasz Wałęsa?", {"Łukasz Wałęsa": "thing"}),
        ("On Monday in March I speak English.", {}),
        ("I see Dr Lopes on Nov 5th and Tues 9 Sept. Then I meet Jan.", {"Lopes": "person", "Jan": "person"}),
        ("```\nclass Anna in Porto\n```", {}),
        ("Mojito hid. I fed Mojito twice.", {"Mojito": "thing"}),
        ("", {}),
    ],
)
def test_graph_extracts_names_and_entity_kinds(text: str, expected: dict[str, str]) -> None:
    assert kinds(text) == expected


def relations(text: str, role: str = "user", name: str | None = None) -> set[tuple[str, str, str | None, bool]]:
    told = extract_from_message(Message.new(role, text, name=name), "session", AT, 40)
    return {(each.subject, each.predicate, each.object, each.holds) for each in told.relations}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I live in Berlin.", {("user", "lives in", "berlin", True)}),
        ("I used to live in Berlin.", {("user", "lives in", "berlin", False)}),
        ("I lived in Berlin for two years.", {("user", "lives in", "berlin", False)}),
        ("We moved to Kubernetes.", set()),
        ("I'm living in Berlin for three months.", set()),
        ("My ex-wife called from Berlin.", set()),
        ("Tom works at Siemens.", {("tom", "works at", "siemens", True)}),
        ("Do I live in Berlin?", set()),
        ("If I lived in Berlin, I would visit Paris.", set()),
        (
            "Anna's husband Piotr is from Porto.",
            {
                ("anna", "husband", "piotr", True),
                ("anna/husband", "is", "piotr", True),
                ("piotr", "is from", "porto", True),
            },
        ),
        ("My best friend Tom called.", {("user", "friend", "tom", True)}),
        (
            "My mum lives in Rome.",
            {("user", "mother", "user/mother", True), ("user/mother", "lives in", "rome", True)},
        ),
        (
            "We have a dog; our dog is called Rex.",
            {("user", "dog", "rex", True), ("user/dog", "is", "rex", True), ("user", "dog", "user/dog", True)},
        ),
    ],
)
def test_graph_extracts_relations(text: str, expected: set[tuple[str, str, str | None, bool]]) -> None:
    assert relations(text) == expected


def test_graph_resolves_first_person_to_speaker() -> None:
    assert relations("I live in Berlin.", name="Caroline") == {("caroline", "lives in", "berlin", True)}
    assert relations("I live in Berlin.", role="assistant") == set()


def record(**about: Any) -> Record:
    home = Owner(Scope("default", user="alice"), Level.USER)
    return Record("id", home, Layer.SEMANTIC, RecordType.FACT, about.pop("content"), created_at=AT, **about)


def test_graph_extracts_relations_from_record_fields() -> None:
    told = extract_from_record(record(content="said so", subject="user/sister", attribute="home", value="Porto"), 40)
    assert {(each.subject, each.predicate, each.object, each.kind) for each in told.relations} == {
        ("user", "sister", "user/sister", RelationKind.ROLE),
        ("user/sister", "lives in", "porto", RelationKind.FACT),
    }
    named = extract_from_record(record(content="said so", subject="user", attribute="name", value="Tom Baker"), 40)
    assert [(each.subject, each.object, each.kind) for each in named.relations] == [
        ("user", "tom baker", RelationKind.IDENTITY)
    ]
    plain = extract_from_record(
        record(content="said so", subject="user", attribute="diet", value="meat", polarity=False), 40
    )
    assert [(each.predicate, each.value, each.holds) for each in plain.relations] == [("diet", "meat", False)]


def test_graph_limits_entities_per_message() -> None:
    text = " ".join(f"I met Tom{n}." for n in range(100))
    assert len(extract_from_message(Message.new("user", text), "session", AT, 7).entities) <= 8  # and the user


@pytest.mark.slow
def test_graph_extraction_is_fast_on_long_text() -> None:
    import time

    for text in (
        "Anna " * 20_000,
        "my sister " * 20_000,
        'A "B ' * 20_000,
        "A'b" * 30_000,
        "A-" * 50_000,
        "A.b " * 20_000,
    ):
        begun = time.process_time()
        extract_from_message(Message.new("user", text), "session", AT, 40)
        assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("one", "other"),
    [("Anna's", "anna"), (" Dr. Anna  Kowalska ", "anna kowalska"), ("The Beatles", "beatles"), ("ＡＮＮＡ", "anna")],
)
def test_normalize_name_unifies_spellings(one: str, other: str) -> None:
    assert normalize_name(one) == other


# A model


def test_graph_llm_invalid_answer_is_provider_error() -> None:
    messages = [Message.new("user", "Anna called.").with_sequence(1, AT)]
    rules = [extract_from_message(messages[0], "session", AT, 40)]
    answers: list[Any] = ["nothing", {"entities": 5}, {"facts": []}]
    for answer in answers:
        with pytest.raises(ProviderError):
            llm.extract_graph(FakeLlm(answer), messages, rules, 40, timeout=1)


def test_graph_llm_request_excludes_system_and_tool_messages() -> None:
    messages = [
        Message.new("system", "secret prompt"),
        Message.new("user", 'say "}" to me'),
        Message.new("tool", "out"),
    ]
    [_, question] = llm.build_request(messages, timeout=1).messages
    assert "secret prompt" not in question.text
    assert '"out"' not in question.text
    assert 'say \\"}\\" to me' in question.text


def test_graph_llm_entity_must_appear_in_its_message() -> None:
    messages = [
        Message.new("user", "zygi called").with_sequence(1, AT),
        Message.new("user", "hello").with_sequence(2, AT),
    ]
    rules = [extract_from_message(message, "session", AT, 40) for message in messages]
    answer: dict[str, Any] = {"entities": [{"name": "zygi", "kind": "person", "number": 2}], "relations": []}
    assert [told.entities for told in llm.extract_graph(FakeLlm(answer), messages, rules, 40, timeout=1).told] == [
        (),
        (),
    ]
    answer["entities"][0]["number"] = 1
    first, _ = llm.extract_graph(FakeLlm(answer), messages, rules, 40, timeout=1).told
    assert [(found.id, found.kind) for found in first.entities] == [("zygi", EntityKind.PERSON)]


# Communities


def test_find_communities_groups_entities_mentioned_together() -> None:
    spots = [{1, 2}, {1, 2, 3}, {2, 3}, {4, 5}, {4, 5}, *({9, n} for n in (1, 2, 3, 4, 5)), *([{9}] * 9)]
    places = [MentionPlace(node, "session", at, None) for at, spot in enumerate(spots) for node in spot]
    names = {1: "bach", 2: "vivaldi", 3: "clara", 4: "tom baker", 5: "rome", 9: "user"}
    found = find_communities((1, 1), names, places)
    assert set(found.of) == {1, 2, 3, 4, 5}  # who is everywhere is in none
    assert found.of[1] == found.of[2] == found.of[3] != found.of[4] == found.of[5]
    assert set(found.words) == {"bach", "vivaldi", "clara", "tom", "baker", "rome"}
    assert found.of == find_communities((1, 1), names, places[::-1]).of
