from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from limpet import Config, Entity, Graph, Limpet, Message
from limpet.errors import InvalidInput
from limpet.model.graph import EntityKind, Node, RelationKind
from limpet.model.job import GRAPH, GRAPH_RECORD
from limpet.model.scope import Level, Partition
from limpet.providers.fake_llm import FakeLlm
from limpet.search.graph_repository import GraphTables
from limpet.store.copy import copy_store
from limpet.testing import FakeClock
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults, sql
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend

TABLES = ("entities", "mentions", "relations")


def say(hf: Limpet, *texts: str, chat: str = "1", user: str = "alice", **more: Any) -> Any:
    session = hf.session("chan", chat, user=user)
    for text in texts:
        session.append("user", text, **more)
    return session


def names(graph: Graph) -> set[str]:
    return {entity.id for entity in graph.entities}


def named(graph: Graph, id: str) -> Entity:
    found = graph.entity(id)
    assert found is not None, names(graph)
    return found


def told(graph: Graph) -> set[tuple[str, str, str | None]]:
    return {
        (relation.subject, relation.predicate, relation.object or relation.value)
        for relation in graph.relations
        if relation.holds
    }


def rows(hf: Limpet) -> int:
    return sum(sql(hf, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES)


# What is found


def test_names_relations_and_where_they_were_said(timed: Limpet, clock: FakeClock) -> None:
    session = say(timed, "My sister Anna Kowalska moved to Porto.", "I live in Berlin.")
    graph = timed.graph(user="alice", fresh=True)
    assert names(graph) == {"user", "anna kowalska", "porto", "berlin"}
    assert told(graph) == {
        ("user", "sister", "anna kowalska"),
        ("anna kowalska", "lives in", "porto"),
        ("user", "lives in", "berlin"),
    }
    anna = named(graph, "anna kowalska")
    assert (anna.name, anna.kind, anna.aliases) == ("Anna Kowalska", EntityKind.PERSON, ("the user's sister",))
    [moved] = [relation for relation in graph.relations if relation.object == "porto"]
    assert moved.sentence == "My sister Anna Kowalska moved to Porto."
    assert [(source.session_id, source.sequence, source.at) for source in moved.sources] == [(session.id, 1, clock.now)]
    assert moved.valid_from == clock.now
    assert moved.valid_to is None
    assert {mention.source.sequence for mention in graph.mentions if mention.entity == "anna kowalska"} == {1}
    assert faults(timed) == []


def test_the_graph_around_an_entity_reaches_as_far_as_asked(hf: Limpet) -> None:
    say(hf, "My sister Anna lives in Porto.", "I live in Berlin.", "Tom visited Rome.")
    around = [names(hf.graph(user="alice", entity="anna", depth=depth, fresh=True)) for depth in (0, 1, 2)]
    assert around == [{"anna"}, {"anna", "porto", "user"}, {"anna", "porto", "user", "berlin"}]
    assert names(hf.graph(user="alice", entity="the user's sister", depth=0)) == {"anna"}
    assert hf.graph(user="alice", entity="Nobody") == Graph()


def test_a_record_is_read_too_and_its_relation_ends_with_it(timed: Limpet, clock: FakeClock) -> None:
    record = timed.remember("Anna lives in Porto.", user="alice")
    assert told(timed.graph(user="alice", fresh=True)) == {("anna", "lives in", "porto")}
    begun = clock.now
    clock.advance(days=1)
    timed.records.update(record.id, valid_to=clock.now)
    [relation] = timed.graph(user="alice", fresh=True).relations
    assert (relation.valid_from, relation.valid_to) == (begun, clock.now)
    assert relation.is_valid_at(begun)
    assert not relation.is_valid_at(clock.now)
    timed.records.update(record.id, content="Tom lives in Rome.")
    graph = timed.graph(user="alice", fresh=True)
    assert names(graph) == {"tom", "rome"}
    assert faults(timed) == []


def test_a_later_home_ends_the_earlier_and_nothing_else(timed: Limpet, clock: FakeClock) -> None:
    say(timed, "I live in Berlin.")
    clock.advance(days=3)
    moved = clock.now
    say(timed, "I moved to Lisbon.", "I visited Rome.", "Tom lives in Paris.")
    graph = timed.graph(user="alice", fresh=True)
    ends = {(relation.subject, relation.object): relation.valid_to for relation in graph.relations}
    assert ends == {
        ("user", "berlin"): moved,
        ("user", "lisbon"): None,
        ("user", "rome"): None,
        ("tom", "paris"): None,
    }


def test_what_is_denied_does_not_hold(hf: Limpet) -> None:
    say(hf, "I no longer live in Berlin.")
    [relation] = hf.graph(user="alice", fresh=True).relations
    assert (relation.predicate, relation.object, relation.holds) == ("lives in", "berlin", False)


def test_tools_and_system_prompts_are_nobodys_word(hf: Limpet) -> None:
    session = hf.session("chan", "1", user="alice")
    session.append("system", "You are the assistant of Ivan Petrov in Moscow.")
    session.append("tool", "Error in Paris: Anna Kowalska not found", tool_call_id="1")
    assert hf.graph(user="alice", fresh=True) == Graph()


def test_an_assistant_names_but_states_nothing(hf: Limpet) -> None:
    """What it says it may only repeat from memory: an old home must not end the new one."""
    session = say(hf, "I moved to Lisbon.")
    session.append("assistant", "You live in Berlin with your sister Anna. Tom lives in Berlin.")
    graph = hf.graph(user="alice", fresh=True)
    assert told(graph) == {("user", "lives in", "lisbon")}
    assert {"berlin", "anna", "tom"} <= names(graph)


def test_secrets_go_no_further(hf: Limpet) -> None:
    secret = "sk-proj-" + "Ab1" * 16
    say(hf, f"I met Anna, my key is {secret} in Berlin. I live in Berlin, {secret}.")
    hf.remember(f"Tom lives in Rome with {secret}.", user="alice")
    graph = hf.graph(user="alice", fresh=True)
    assert {"anna", "tom"} <= names(graph)
    assert secret not in str(every_row(hf)["relations"]) + str(every_row(hf)["entities"])


# Who is who


def test_two_people_with_one_first_name_stay_two(hf: Limpet) -> None:
    """A fault of systems that join by likeness: one person's facts become another's."""
    say(hf, "Anna Kowalska lives in Porto.", "Anna Schmidt lives in Berlin.", "I had lunch with Anna.")
    graph = hf.graph(user="alice", fresh=True)
    assert {"anna kowalska", "anna schmidt", "anna"} <= names(graph)
    assert named(graph, "anna").could_be == ("anna kowalska", "anna schmidt")
    assert named(graph, "anna kowalska").mentions == 1
    assert told(graph) == {("anna kowalska", "lives in", "porto"), ("anna schmidt", "lives in", "berlin")}


def test_a_first_name_alone_means_the_only_one_there_is(hf: Limpet) -> None:
    say(hf, "Anna called.", "I met Anna Kowalska.", chat="1")
    assert named(hf.graph(user="alice", fresh=True), "anna kowalska").aliases == ("Anna",)
    other = say(hf, "Anna Schmidt called.", chat="2")
    assert named(hf.graph(user="alice", fresh=True), "anna").could_be == ("anna kowalska", "anna schmidt")
    other.delete()  # as if there had never been a second one
    assert named(hf.graph(user="alice", fresh=True), "anna kowalska").aliases == ("Anna",)


def test_different_relations_speak_against_one_person(hf: Limpet) -> None:
    say(hf, "My sister Anna called.", "I met my colleague Anna Schmidt.")
    graph = hf.graph(user="alice", fresh=True)
    assert named(graph, "anna schmidt").aliases == ()
    assert named(graph, "anna").aliases == ("the user's sister",)


def test_what_is_said_of_two_with_one_first_name_is_told_of_each(hf: Limpet) -> None:
    session = hf.session("chan", "1", user="alice")
    for said in (
        "My sister Anna lives in Porto.",
        "My colleague Anna works at Novartis.",
        "My friend Bo lives in York.",
        "My friend Kit lives in Bath.",
        "Anna moved to Berlin.",
    ):
        with session.turn(said) as turn:
            turn.reply("I see.")
    hf.jobs.run()
    graph = hf.graph(user="alice", fresh=True)
    assert set(named(graph, "anna").could_be) == {"user/sister", "user/colleague"}
    facts = {relation for relation in told(graph) if relation[1] in {"lives in", "works at"}}
    assert facts == {
        ("user/sister", "lives in", "porto"),
        ("user/colleague", "works at", "novartis"),
        ("bo", "lives in", "york"),
        ("kit", "lives in", "bath"),
        ("anna", "lives in", "berlin"),
    }
    assert {("user", "sister", "user/sister"), ("user", "colleague", "user/colleague")} <= told(graph)


def test_my_sister_is_whom_i_called_so(hf: Limpet) -> None:
    say(hf, "My sister is visiting.", "My sister Anna brought cake.", "My sister lives in Porto.")
    graph = hf.graph(user="alice", fresh=True)
    assert named(graph, "anna").aliases == ("the user's sister",)
    assert ("anna", "lives in", "porto") in told(graph)
    say(hf, "My sister Eva lives in Rome.")
    graph = hf.graph(user="alice", fresh=True)  # there are two: who visited is not known any more
    assert named(graph, "anna").aliases == named(graph, "eva").aliases == ()
    assert ("user/sister", "lives in", "porto") in told(graph)


def test_the_same_name_of_two_users_is_two(hf: Limpet) -> None:
    say(hf, "Anna Kowalska lives in Porto.", user="alice")
    say(hf, "Anna lives in Rome.", user="bob")
    assert names(hf.graph(user="bob", fresh=True)) == {"anna", "rome"}
    assert names(hf.graph(user="alice", fresh=True)) == {"anna kowalska", "porto"}
    assert hf.tenant("other").graph(user="alice", fresh=True) == Graph()


# What goes, goes everywhere


def test_a_deleted_session_leaves_no_name(hf: Limpet) -> None:
    session = say(hf, "My sister Anna Kowalska lives in Porto.", chat="1")
    say(hf, "Porto is lovely in spring.", "I like Porto.", chat="2")
    hf.graph(user="alice", fresh=True)
    session.delete()
    assert names(hf.graph(user="alice", fresh=True)) == {"porto"}
    assert faults(hf) == []
    hf.session("chan", "2", user="alice").delete()
    assert rows(hf) == 0


def test_a_cleared_session_leaves_no_name_and_goes_on(hf: Limpet) -> None:
    session = say(hf, "My sister Anna Kowalska lives in Porto.")
    hf.graph(user="alice", fresh=True)
    session.clear()
    assert rows(hf) == 0
    session.append("user", "Tom lives in Rome.")
    assert names(hf.graph(user="alice", fresh=True)) == {"tom", "rome"}
    assert faults(hf) == []


def test_what_was_cleared_before_it_was_read_is_never_read(hf: Limpet) -> None:
    session = say(hf, "My sister Anna Kowalska lives in Porto.")
    session.clear()
    assert hf.graph(user="alice", fresh=True) == Graph()
    session.append("user", "Tom lives in Rome.")
    assert names(hf.graph(user="alice", fresh=True)) == {"tom", "rome"}


def test_a_forgotten_record_leaves_no_name(hf: Limpet) -> None:
    kept = hf.remember("Anna Kowalska lives in Porto.", user="alice")
    record = hf.remember("Tom Baker lives in Porto.", user="alice")
    hf.graph(user="alice", fresh=True)
    counts = hf.forget(record.id).counts
    assert counts["mentions"] == 2
    assert names(hf.graph(user="alice")) == {"anna kowalska", "porto"}
    hf.forget(kept.id)
    assert rows(hf) == 0


def test_a_record_forgotten_before_it_was_read_is_never_read(hf: Limpet) -> None:
    record = hf.remember("Anna Kowalska lives in Porto.", user="alice")
    hf.forget(record.id)
    assert hf.graph(user="alice", fresh=True) == Graph()
    assert hf.jobs.list() == []


def test_doctor_finds_and_removes_what_has_no_source(hf: Limpet) -> None:
    session = say(hf, "My sister Anna Kowalska lives in Porto.")
    hf.graph(user="alice", fresh=True)
    sql(hf, "UPDATE mentions SET sequence = 99 WHERE session_id = :id", id=session.id)
    sql(hf, "UPDATE relations SET sequence = 99 WHERE session_id = :id", id=session.id)
    assert [fault.partition(":")[0] for fault in faults(hf)] == ["graph"]
    assert any(finding.repaired for finding in hf.admin.doctor(repair=True) if finding.check == "graph")
    assert faults(hf) == []
    assert rows(hf) == 0


# The jobs


def read(hf: Limpet, user: str = "alice") -> Graph:
    return hf.graph(user=user, fresh=True)


def test_a_turn_asks_for_its_reading(store_url: str) -> None:
    quiet = Config.load(overrides={"embedding.model": "none", "jobs.worker": False, "learn.extractor": "none"})
    with Limpet.open(store_url, config=quiet) as hf:
        session = hf.session("chan", "1", user="alice")
        with session.turn("Anna Kowalska lives in Porto.") as turn:
            turn.reply("Noted.")
        assert [(job.kind, job.detail) for job in hf.jobs.list(kind=GRAPH)] == [(GRAPH, session.id)]
        assert rows(hf) == 0
        hf.jobs.run()
        assert hf.jobs.list(kind=GRAPH) == []
        assert names(hf.graph(user="alice")) == {"anna kowalska", "porto"}


def test_messages_are_read_once(hf: Limpet) -> None:
    session = say(hf, "Anna Kowalska lives in Porto.", "Anna called.")
    read(hf)
    before = every_row(hf)
    assert hf.jobs.list() == []
    session.append("user", "Hello again.")
    read(hf)
    after = every_row(hf)
    assert {name: after[name] for name in TABLES} == {name: before[name] for name in TABLES}
    assert [(name, sequence) for *_, name, sequence in after["cursors"]] == [(GRAPH, 3)]


def test_a_session_longer_than_a_batch_is_read_to_its_end(store_url: str) -> None:
    config = Config.load(overrides={"graph.batch": 3, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as hf:
        session = hf.session("chan", "1", user="alice")
        session.extend([Message.new("user", f"I visited Rome with Tom{n} today") for n in range(10)])
        assert names(read(hf)) == {"user", "rome", *(f"tom{n}" for n in range(10))}


def test_a_message_that_comes_while_others_are_read_is_read_too(hf: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    from limpet.knowledge import english as reading

    session, real = say(hf, "Anna called."), reading.extract_from_message

    def slow(message: Message, *rest: Any) -> Any:
        if message.sequence == 1:
            session.append("user", "Tom called.")
        return real(message, *rest)

    monkeypatch.setattr(reading, "extract_from_message", slow)
    assert names(read(hf)) == {"anna", "tom"}
    assert hf.jobs.list() == []


@pytest.mark.parametrize("change", ["clear", "delete", "forget"])
def test_what_goes_while_it_is_read_is_not_kept(hf: Limpet, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    from limpet.knowledge import english as reading

    session, real = say(hf, "My brother Zygfryd lives in Porto.", "Hello."), reading.extract_from_message
    changed: list[str] = []
    session.learn()
    [record] = [record for record in hf.records(user="alice") if "Zygfryd" in record.content][:1]

    def slow(message: Message, *rest: Any) -> Any:
        if not changed:
            changed.append(change)
            hf.forget(record.id) if change == "forget" else getattr(session, change)()
        return real(message, *rest)

    monkeypatch.setattr(reading, "extract_from_message", slow)
    graph = read(hf)
    assert changed
    assert [mention for mention in graph.mentions if mention.source.session_id and "zygfryd" in mention.entity] == []
    assert [each for each in graph.relations if "Zygfryd" in each.sentence and each.sources[0].session_id] == []
    assert faults(hf) == []


def test_what_was_said_before_there_was_a_graph_is_read_when_it_is_asked_for(hf: Limpet) -> None:
    say(hf, "Anna called.")
    assert names(hf.graph(user="alice", fresh=True)) == {"anna"}


def test_a_graph_that_is_switched_off_is_not_read(store_url: str) -> None:
    config = Config.load(overrides={"graph.enabled": False, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as hf:
        say(hf, "Anna called.")
        hf.remember("Tom called.", user="alice")
        hf.jobs.run()
        assert hf.graph(user="alice", fresh=True) == Graph()
        assert hf.jobs.list() == []


def test_two_threads_read_the_same_as_one(hf: Limpet) -> None:
    texts = [f"I met Anna K{n} in Porto with Tom" for n in range(40)]
    for chat in ("1", "2"):
        hf.session("chan", chat, user="alice").extend([Message.new("user", text) for text in texts])
    at_once(lambda _: hf.graph(user="alice", fresh=True), count=4)
    graph = hf.graph(user="alice", fresh=True)
    assert named(graph, "porto").mentions == 80
    assert faults(hf) == []


_READ = """
with Limpet.open(given) as hf:
    begin()
    graph = hf.graph(user="alice", fresh=True)
    hf.jobs.run()
    answer(sorted(hf.graph(user="alice").to_json()["relations"], key=str))
"""


def test_two_processes_read_the_same_as_one(durable_url: str) -> None:
    texts = [f"My sister Anna K{n} moved to Porto{n}. I live in Berlin." for n in range(60)]
    with Limpet.open(durable_url) as hf:
        for user in ("alice", "bob"):
            for chat in ("1", "2", "3"):
                hf.session("chan", chat, user=user).extend([Message.new("user", text) for text in texts])
        hf.remember("Tom lives in Rome.", user="alice")
    run_together(_READ, durable_url, count=2)
    with Limpet.open(durable_url) as hf:
        mine, theirs = hf.graph(user="alice", fresh=True), hf.graph(user="bob", fresh=True)
        assert named(mine, "berlin").mentions == named(theirs, "berlin").mentions == 180
        assert told(theirs) < told(mine)
        assert faults(hf) == []


# A language model


def test_a_model_reads_where_it_is_wanted(store_url: str) -> None:
    answer = {
        "entities": [
            {"name": "Zygfryd", "kind": "person", "number": 1},
            {"name": "made-up-name", "kind": "person", "number": 1},
            {"name": "okonomiyaki", "kind": "thing", "number": 1},
        ],
        "relations": [
            {
                "subject": "me",
                "predicate": "neighbour",
                "object": "Zygfryd",
                "sentence": "zygfryd next door cooks okonomiyaki",
                "number": 1,
                "holds": True,
            },
            {
                "subject": "Zygfryd",
                "predicate": "cooks",
                "object": "okonomiyaki",
                "sentence": "a sentence nobody said",
                "number": 1,
                "holds": True,
            },
        ],
    }
    config = Config.load(overrides={"graph.llm": True, "embedding.model": "none"})
    llm = FakeLlm([answer])
    with Limpet.open(store_url, config=config, llm=llm) as hf:
        say(hf, "zygfryd next door cooks okonomiyaki")
        graph = hf.graph(user="alice", fresh=True)
        assert names(graph) == {"user", "zygfryd", "okonomiyaki"}
        [relation] = graph.relations
        assert (relation.subject, relation.predicate, relation.object) == ("user", "neighbour", "zygfryd")
        assert relation.kind is RelationKind.ROLE
        [used] = hf.admin.usage(user="alice").models
        assert (used.model, used.calls) == (llm.model, 1)
        assert used.output_tokens > 0


def test_rules_read_where_a_model_fails(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    config = Config.load(overrides={"graph.llm": True, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, llm=FakeLlm(["nonsense", "more nonsense"])) as hf:
        say(hf, "Anna lives in Porto.")
        with caplog.at_level(logging.WARNING, "limpet"):
            assert told(hf.graph(user="alice", fresh=True)) == {("anna", "lives in", "porto")}
        assert "rules stand in" in caplog.text
        assert hf.jobs.list() == []


# Recall


def test_recall_walks_from_a_name_to_the_passages_of_whom_it_means(hf: Limpet) -> None:
    say(hf, "My sister Anna is a doctor.", *(f"Nothing of note happened on day {n}." for n in range(30)))
    say(hf, "My sister broke her arm while skiing.")
    read(hf)
    hits = hf.recall("How is Anna?", user="alice", recipe="graph", k=3)
    assert "My sister broke her arm while skiing." in {hit.text for hit in hits}
    [skiing] = [hit for hit in hits if "skiing" in hit.text]
    assert skiing.signals["entity"].score > 0
    plain = hf.recall("How is Anna?", user="alice", recipe="default", k=3)
    assert "My sister broke her arm while skiing." not in {hit.text for hit in plain}


def test_recall_prefers_what_comes_up_together(hf: Limpet) -> None:
    say(hf, "We saw Bach and Vivaldi with Clara.", "Vivaldi again, with Clara.", "Clara plays the cello.")
    say(hf, "I met Tom in Rome.", "Tom likes Rome.")
    read(hf)
    hits = hf.recall("What do you know about Bach?", user="alice", recipe="graph_global", k=5)
    assert hits[0].signals["community"].score == 1.0


def test_recall_without_a_graph_is_as_ever(hf: Limpet) -> None:
    say(hf, "Anna lives in Porto.", "Tom lives in Rome.")
    for recipe in ("graph", "graph_global"):
        found = hf.recall("Where does Anna live?", user="alice", recipe=recipe)
        assert found[0].text == "Anna lives in Porto."
        assert "entity" not in found[0].signals


# The store


def test_the_graph_is_copied_and_goes_on(hf: Limpet, clock: FakeClock) -> None:
    say(hf, "My sister Anna Kowalska lives in Porto.")
    hf.remember("Tom lives in Rome.", user="alice")
    read(hf)
    with Limpet.open(":memory:", clock=clock) as other:
        copy_store(hf._runtime.store, other._runtime.store)
        assert other.graph(user="alice") == hf.graph(user="alice")
        say(other, "Eva lives in Prague.", chat="9")
        assert {"eva", "prague"} <= names(other.graph(user="alice", fresh=True))


def test_names_are_found_by_their_first_word(hf: Limpet) -> None:
    say(hf, "I met Anna Kowalska, Anna, Annabel and my sister.")
    read(hf)
    space = Partition("default", Level.USER, "alice")
    found: list[Node] = hf._read(lambda tx: GraphTables(tx).nodes(space, ["anna", "user/sister"]))
    assert {node.id for node in found} == {"anna kowalska", "anna", "user/sister"}


def test_what_is_shown_is_limited_and_says_so(store_url: str) -> None:
    config = Config.load(overrides={"graph.entities": 2, "graph.mentions": 3, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as hf:
        say(hf, "I visited Rome and Paris and Lisbon.", "I like Paris.", "I like Lisbon.")
        graph = hf.graph(user="alice", fresh=True)
        assert (len(graph.entities), len(graph.mentions), graph.cut) == (2, 3, True)


@pytest.mark.parametrize("depth", [-1, 11, 1.5, True, "1", None])
def test_a_depth_that_is_none_is_refused(hf: Limpet, depth: Any) -> None:
    with pytest.raises(InvalidInput, match="depth"):
        hf.graph(user="alice", depth=depth)


def test_the_graph_of_nobody_in_particular_is_the_default_users(hf: Limpet) -> None:
    hf.remember("Anna lives in Lisbon.", user="me")
    hf.remember("Bert lives in Porto.", user="bert")
    assert hf.graph(fresh=True) == hf.graph(user="me")


def test_a_record_asks_for_its_reading(hf: Limpet) -> None:
    record = hf.remember("Anna called.", user="alice")
    assert [(job.kind, job.detail) for job in hf.jobs.list()] == [(GRAPH_RECORD, record.id)]
    hf.jobs.run()
    hf.records.update(record.id, confidence=0.5)
    assert hf.jobs.list() == []


def test_times_are_those_of_the_messages(hf: Limpet) -> None:
    at = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    session = hf.session("chan", "1", user="alice")
    session.extend([Message.new("user", "I moved to Lisbon.", created_at=at)])
    [relation] = hf.graph(user="alice", fresh=True).relations
    assert relation.valid_from == at
    assert relation.sources[0].at == at
