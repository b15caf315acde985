"""When the graph is read from messages and records, and by whom."""

import logging
from typing import Any

import pytest

from limpet import Config, Graph, Limpet, Message
from limpet.model.graph import RelationKind
from limpet.model.job import GRAPH, GRAPH_RECORD
from limpet.providers.fakes import FakeLlm
from tests.contract.processes import run_together
from tests.contract.rows import every_row, faults
from tests.contract.test_graph import TABLES, graph_jobs, named, names, read, rows, say, told
from tests.contract.threads import at_once

pytestmark = pytest.mark.every_backend


def test_turn_enqueues_graph_job(store_url: str) -> None:
    quiet = Config.load(overrides={"embedding.model": "none", "jobs.worker": False, "learn.extractor": "none"})
    with Limpet.open(store_url, config=quiet) as memory:
        session = memory.session("chan", "1", user="alice")
        with session.turn("Anna Kowalska lives in Porto.") as turn:
            turn.reply("Noted.")
        assert [(job.kind, job.detail) for job in memory.jobs.list(kind=GRAPH)] == [(GRAPH, session.id)]
        assert rows(memory) == 0
        memory.jobs.run()
        assert memory.jobs.list(kind=GRAPH) == []
        assert names(memory.graph(user="alice")) == {"anna kowalska", "porto"}


def test_graph_job_reads_each_message_once(memory: Limpet) -> None:
    session = say(memory, "Anna Kowalska lives in Porto.", "Anna called.")
    read(memory)
    before = every_row(memory)
    assert graph_jobs(memory) == []
    session.append("user", "Hello again.")
    read(memory)
    after = every_row(memory)
    assert {name: after[name] for name in TABLES} == {name: before[name] for name in TABLES}
    assert [(name, sequence) for *_, name, sequence in after["cursors"]] == [(GRAPH, 3)]


def test_graph_job_reads_session_longer_than_batch(store_url: str) -> None:
    config = Config.load(overrides={"graph.batch": 3, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as memory:
        session = memory.session("chan", "1", user="alice")
        session.extend([Message.new("user", f"I visited Rome with Tom{n} today") for n in range(10)])
        assert names(read(memory)) == {"user", "rome", *(f"tom{n}" for n in range(10))}


def test_graph_job_reads_message_appended_while_it_runs(memory: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    from limpet.knowledge.graph import extract as reading

    session, real = say(memory, "Anna called."), reading.extract_from_message

    def slow(message: Message, *rest: Any) -> Any:
        if message.sequence == 1:
            session.append("user", "Tom called.")
        return real(message, *rest)

    monkeypatch.setattr(reading, "extract_from_message", slow)
    assert names(read(memory)) == {"anna", "tom"}
    assert graph_jobs(memory) == []


@pytest.mark.parametrize("change", ["clear", "delete", "forget"])
def test_graph_job_discards_source_deleted_while_it_runs(
    memory: Limpet, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    from limpet.knowledge.graph import extract as reading

    session, real = say(memory, "My brother Zygfryd lives in Porto.", "Hello."), reading.extract_from_message
    changed: list[str] = []
    session.learn()
    [record] = [record for record in memory.records(user="alice") if "Zygfryd" in record.content][:1]

    def slow(message: Message, *rest: Any) -> Any:
        if not changed:
            changed.append(change)
            memory.forget(record.id) if change == "forget" else getattr(session, change)()
        return real(message, *rest)

    monkeypatch.setattr(reading, "extract_from_message", slow)
    graph = read(memory)
    assert changed
    assert [mention for mention in graph.mentions if mention.source.session_id and "zygfryd" in mention.entity] == []
    assert [each for each in graph.relations if "Zygfryd" in each.sentence and each.sources[0].session_id] == []
    assert faults(memory) == []


def test_graph_fresh_reads_messages_without_job(memory: Limpet) -> None:
    say(memory, "Anna called.")
    assert names(memory.graph(user="alice", fresh=True)) == {"anna"}


def test_graph_disabled_reads_nothing(store_url: str) -> None:
    config = Config.load(overrides={"graph.enabled": False, "embedding.model": "none"})
    with Limpet.open(store_url, config=config) as memory:
        say(memory, "Anna called.")
        memory.remember("Tom called.", user="alice")
        memory.jobs.run()
        assert memory.graph(user="alice", fresh=True) == Graph()
        assert graph_jobs(memory) == []


def test_graph_fresh_from_many_threads_reads_each_message_once(memory: Limpet) -> None:
    texts = [f"I met Anna K{n} in Porto with Tom" for n in range(40)]
    for chat in ("1", "2"):
        memory.session("chan", chat, user="alice").extend([Message.new("user", text) for text in texts])
    at_once(lambda _: memory.graph(user="alice", fresh=True), count=4)
    graph = memory.graph(user="alice", fresh=True)
    assert named(graph, "porto").mentions == 80
    assert faults(memory) == []


_READ = """
with Limpet.open(given) as memory:
    begin()
    graph = memory.graph(user="alice", fresh=True)
    memory.jobs.run()
    answer(sorted(memory.graph(user="alice").to_json()["relations"], key=str))
"""


def test_graph_fresh_from_two_processes_reads_each_message_once(durable_url: str) -> None:
    texts = [f"My sister Anna K{n} moved to Porto{n}. I live in Berlin." for n in range(60)]
    with Limpet.open(durable_url) as memory:
        for user in ("alice", "bob"):
            for chat in ("1", "2", "3"):
                memory.session("chan", chat, user=user).extend([Message.new("user", text) for text in texts])
        memory.remember("Tom lives in Rome.", user="alice")
    run_together(_READ, durable_url, count=2)
    with Limpet.open(durable_url) as memory:
        mine, theirs = memory.graph(user="alice", fresh=True), memory.graph(user="bob", fresh=True)
        assert named(mine, "berlin").mentions == named(theirs, "berlin").mentions == 180
        assert told(theirs) < told(mine)
        assert faults(memory) == []


# A language model


def test_graph_uses_llm_when_configured(store_url: str) -> None:
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
    with Limpet.open(store_url, config=config, llm=llm) as memory:
        say(memory, "zygfryd next door cooks okonomiyaki")
        graph = memory.graph(user="alice", fresh=True)
        assert names(graph) == {"user", "zygfryd", "okonomiyaki"}
        [relation] = graph.relations
        assert (relation.subject, relation.predicate, relation.object) == ("user", "neighbour", "zygfryd")
        assert relation.kind is RelationKind.ROLE
        [used] = memory.admin.usage(user="alice").models
        assert (used.model, used.calls) == (llm.model, 1)
        assert used.output_tokens > 0


def test_graph_falls_back_to_rules_when_llm_fails(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    config = Config.load(overrides={"graph.llm": True, "embedding.model": "none"})
    with Limpet.open(store_url, config=config, llm=FakeLlm(["nonsense", "more nonsense"])) as memory:
        say(memory, "Anna lives in Porto.")
        with caplog.at_level(logging.WARNING, "limpet"):
            assert told(memory.graph(user="alice", fresh=True)) == {("anna", "lives in", "porto")}
        assert "rules stand in" in caplog.text
        assert graph_jobs(memory) == []


def test_record_enqueues_graph_job(memory: Limpet) -> None:
    record = memory.remember("Anna called.", user="alice")
    assert [(job.kind, job.detail) for job in memory.jobs.list()] == [(GRAPH_RECORD, record.id)]
    memory.jobs.run()
    memory.records.update(record.id, confidence=0.5)
    assert graph_jobs(memory) == []
