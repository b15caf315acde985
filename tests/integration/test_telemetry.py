"""What is told of the work of a store: to callbacks, to OpenTelemetry, to the log. And what never is."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from limpet import ActivityResult, AsyncLimpet, Config, Limpet
from limpet.cli.main import main
from limpet.errors import InvalidInput, LimpetError, PermissionDenied, RecordNotFound, Unsupported
from limpet.model.scope import Level, Partition
from limpet.model.values import system_clock
from limpet.providers.fakes import FakeEmbedder, FakeLlm
from limpet.providers.llm import Completion, TokenUsage
from limpet.security.logs import JsonFormatter, TextFormatter, configure_logging
from limpet.store.jobs import Jobs

QUIET = {"jobs.worker": False, "graph.enabled": False, "embedding.when": "now"}


class Collected:
    """What an SDK got."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter = exporter
        self._reader = reader

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            (dict(point.attributes or {}), point)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]

    @property
    def everything(self) -> str:
        data = self._reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), "" if data is None else data.to_json()])


@pytest.fixture
def collected(monkeypatch) -> Iterator[Collected]:
    """An SDK as a program sets it up; what is global can be set only once in a process."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    yield Collected(exporter, reader)
    meters.shutdown()


def settings(**more: Any) -> Config:
    return Config.load(overrides={**QUIET, **more})


def traced(**more: Any) -> Config:
    return settings(**{"observe.opentelemetry": True, **more})


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and parent.context is not None and child.parent.span_id == parent.context.span_id


def ask_for(memory: Limpet, kind: str) -> None:
    space = Partition("default", Level.USER, "ana")
    memory._runtime.store.write(lambda tx: Jobs(tx).enqueue(space, kind, "", memory._now()))


# Silence


def test_telemetry_is_not_imported_unless_enabled():
    code = """
import sys
from limpet import Limpet
with Limpet.open(":memory:") as memory:
    memory.remember("Biscuit is a dog", user="ana")
    assert memory.recall("dog", user="ana")
print([name for name in sys.modules if name.startswith(("opentelemetry", "limpet.security.otel"))])
"""
    env = {"LIMPET_EMBEDDING_MODEL": "none", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_telemetry_without_opentelemetry_names_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "limpet.security.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(Unsupported, match=r"limpet\[otel\]"):
        Limpet.open(":memory:", config=traced())


# Spans and metrics


def test_telemetry_spans_follow_semantic_conventions(collected):
    with Limpet.open(":memory:", config=traced(), embedder=FakeEmbedder()) as memory:
        session = memory.session("web", "1", user="ana")
        session.append("user", "hello")
        record = memory.remember("Biscuit is a dog", user="ana")
        memory.recall("dog", user="ana")
        memory.records.update(record.id, user="ana", title="dogs")
        memory.forget(record.id, user="ana")
    verbs = [span for span in collected.spans if "limpet.operation" in attributes(span)]
    assert [(span.name, attributes(span)["limpet.operation"]) for span in verbs] == [
        ("limpet.session", "session"),
        ("create_memory", "session.append"),
        ("upsert_memory", "remember"),
        ("search_memory", "recall"),
        ("update_memory", "records.update"),
        ("delete_memory", "forget"),
    ]
    assert attributes(collected.named("search_memory")) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "limpet",
        "gen_ai.memory.store.id": "default",
        "gen_ai.memory.record.count": 2,
        "limpet.operation": "recall",
        "limpet.outcome": "done",
    }
    told = {point["gen_ai.operation.name"] for point, _ in collected.points("gen_ai.client.operation.duration")}
    calls = {"create_memory", "upsert_memory", "search_memory", "update_memory", "delete_memory"}
    assert told == calls | {"embeddings"}
    every = collected.points("limpet.operation.duration")
    assert {point["limpet.operation"]: data.count for point, data in every}["session.append"] == 1


def test_telemetry_spans_are_nested_in_their_operation(collected):
    summary = Completion("They spoke of a dog.", usage=TokenUsage(120, 7))
    embedder, llm = FakeEmbedder(name="acme:tiny"), FakeLlm(summary, model="big")
    with Limpet.open(":memory:", config=traced(), embedder=embedder, llm=llm) as memory:
        session = memory.session("web", "1", user="ana")
        for number in range(4):
            session.append("user", f"message {number}")
        with trace.get_tracer("a program").start_as_current_span("its request"):
            memory.recall("dog", user="ana")
        session.compact(keep=0)
    request, search = collected.named("its request"), collected.named("search_memory")
    question = next(span for span in collected.spans if span.name == "embeddings tiny" and is_child(span, search))
    assert is_child(search, request)
    assert attributes(question)["gen_ai.provider.name"] == "acme"
    assert attributes(question)["limpet.embeddings.texts"] == 1
    chat = collected.named("chat big")
    assert is_child(chat, collected.named("limpet.session.compact"))
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "big",
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 7,
        "limpet.outcome": "done",
    }
    tokens = collected.points("gen_ai.client.token.usage")
    assert {point["gen_ai.token.type"]: data.sum for point, data in tokens} == {"input": 120, "output": 7}


def test_telemetry_span_of_awaited_call_is_child_of_its_caller(collected):
    async def use() -> None:
        async with await AsyncLimpet.open(":memory:", config=traced(), embedder=FakeEmbedder()) as memory:
            await memory.remember("Biscuit is a dog", user="ana")
            with trace.get_tracer("a program").start_as_current_span("its request"):
                await asyncio.gather(memory.recall("dog", user="ana"), memory.records(user="ana"))

    asyncio.run(use())
    found = [span for span in collected.spans if span.name == "search_memory"]
    assert len(found) == 2
    assert all(is_child(span, collected.named("its request")) for span in found)


def test_telemetry_reports_error_code_without_text(collected):
    with Limpet.open(":memory:", config=traced()) as memory:
        with pytest.raises(RecordNotFound):
            memory.records.get("00000000-0000-7000-8000-000000000000")
        with pytest.raises(PermissionDenied):
            memory.acting("ana").admin.stats()
    for name, outcome, code in (
        ("limpet.records.get", "failed", "record_not_found"),
        ("limpet.admin.stats", "refused", "permission_denied"),
    ):
        span = collected.named(name)
        assert (attributes(span)["limpet.outcome"], attributes(span)["error.type"]) == (outcome, code)
        assert (span.status.is_ok, span.status.description, span.events) == (False, code, ())


def test_telemetry_covers_jobs_and_schedules(collected):
    def fails(claim: object) -> None:
        raise ValueError("the words of somebody")

    clock = [system_clock()]
    with Limpet.open(":memory:", config=traced(), clock=lambda: clock[0]) as memory:
        memory._runtime.worker.register("stubborn", fails)
        ask_for(memory, "stubborn")
        memory.jobs.run()
        memory.schedules.create("ana", goal="water the plants", cadence="every: 1h")
        clock[0] = clock[0].replace(year=clock[0].year + 1)
        assert memory.schedules.run(lambda firing: firing.memory.remember("watered", user="ana").id) == 1
    job = collected.named("limpet.job")
    assert is_child(job, collected.named("limpet.jobs.run"))
    assert attributes(job)["limpet.job.kind"] == "stubborn"
    assert attributes(job)["error.type"] == "ValueError"
    assert is_child(collected.named("upsert_memory"), collected.named("limpet.schedule"))
    ((kind, _),) = collected.points("limpet.job.duration")
    assert kind == {"limpet.job.kind": "stubborn", "limpet.outcome": "failed", "error.type": "ValueError"}


# Callbacks


def test_observer_sees_every_handle_until_removed():
    told: list[ActivityResult] = []
    with Limpet.open(":memory:", config=settings()) as memory:
        ana, other = memory.acting("ana"), memory.tenant("acme")
        stop = memory.admin.observe(told.append)
        ana.remember("Biscuit is a dog")
        other.records(user="bob")
        with pytest.raises(PermissionDenied):
            ana.admin.observe(told.append)
        stop()
        ana.remember("Biscuit is brown")
    assert [(each.name, each.tenant, each.outcome, each.code, each.count) for each in told] == [
        ("remember", "default", "done", None, 1),
        ("records.list", "acme", "done", None, 0),
        ("admin.observe", "default", "refused", "permission_denied", None),
    ]
    assert all(0 < each.seconds < 60 for each in told)


@pytest.mark.parametrize("names", [False, True])
def test_observer_gets_names_only_if_enabled(names):
    told: list[ActivityResult] = []
    with Limpet.open(":memory:", config=settings(**{"observe.names": names})) as memory:
        memory.admin.observe(told.append)
        session = memory.acting("ana", name="key 7").session("web", "1")
        session.append("user", "hello")
        memory.privacy.purge_user("ana")
    _, appended, purged = told
    expected = ("key 7", "ana", session.id) if names else (None, None, None)
    assert (appended.principal, appended.user, appended.session) == expected
    assert (purged.name, purged.principal, purged.user) == ("privacy.purge_user", None, None)


def test_observer_failure_is_logged_once_and_ignored(caplog):
    told: list[ActivityResult] = []

    def broken(observed: ActivityResult) -> None:
        raise RuntimeError("the words of somebody")

    with Limpet.open(":memory:", config=settings()) as memory, caplog.at_level("WARNING", "limpet.security"):
        memory.admin.observe(broken)
        memory.admin.observe(told.append)
        for _ in range(3):
            assert memory.remember("Biscuit is a dog", user="ana").content
    assert [each.name for each in told] == ["remember"] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "an observer failed, and every call goes on without it: RuntimeError"
    ]


def test_observer_is_not_notified_of_its_own_calls():
    told: list[str] = []
    with Limpet.open(":memory:", config=settings()) as memory:

        def remembers(observed: ActivityResult) -> None:
            told.append(observed.name)
            memory.remember(f"{observed.name} was called", user="log")

        memory.admin.observe(remembers)
        memory.records(user="ana")
        assert told == ["records.list"]
        assert memory.records.count(user="log") == 1


def test_observer_must_be_plain_function():
    async def coroutine(observed: ActivityResult) -> None: ...

    with Limpet.open(":memory:", config=settings()) as memory:
        for wrong in (coroutine, "print", None):
            with pytest.raises(InvalidInput, match="function"):
                memory.admin.observe(wrong)  # type: ignore[arg-type]


# What is never told

SECRETS = [f"hunter{number}secret" for number in range(40)]


def test_telemetry_and_logs_contain_no_user_text(collected):
    secrets = iter(SECRETS)
    lines, text = io.StringIO(), io.StringIO()
    told: list[ActivityResult] = []
    undo = [configure_logging("debug", "json", lines), configure_logging("debug", "text", text)]
    embedder = FakeEmbedder()
    llm = FakeLlm(f"They spoke of {next(secrets)}")
    try:
        with Limpet.open(":memory:", config=traced(), embedder=embedder, llm=llm) as memory:
            memory.admin.observe(told.append)
            _use(memory, secrets)
            embedder.failures = llm.failures = -1
            embedder.error = ValueError(f"cannot embed {next(secrets)}")
            llm.error = ValueError(f"cannot answer {next(secrets)}")
            memory._runtime.worker.register("stubborn", _failing(next(secrets)))
            ask_for(memory, "stubborn")
            _use(memory, secrets)
            _misuse(memory, secrets)
    finally:
        for each in reversed(undo):
            each()
    everything = "\n".join([lines.getvalue(), text.getvalue(), collected.everything, *map(repr, told)])
    assert [secret for secret in SECRETS if secret in everything] == []
    assert {json.loads(line)["level"] for line in lines.getvalue().splitlines()} >= {"info", "warning"}
    assert next(secrets), "more secrets are needed"


def _failing(words: str) -> Callable[[object], None]:
    def fails(claim: object) -> None:
        raise RuntimeError(words)

    return fails


def _use(memory: Limpet, secrets: Iterator[str]) -> None:
    session = memory.session("web", "1", user="ana")
    session.append("user", f"My password is {next(secrets)}")
    session.kv.set(next(secrets), next(secrets))
    with session.turn(f"What about {next(secrets)}?") as turn:
        turn.reply(f"It is {next(secrets)}")
    record = memory.remember(
        f"Biscuit is {next(secrets)}", user="ana", metadata={"k": next(secrets)}, tags=[next(secrets)]
    )
    memory.documents.add("note:1", f"A document of {next(secrets)}", user="ana")
    memory.recall(f"Who is {next(secrets)}", user="ana")
    session.compact(keep=0)
    memory.jobs.run()
    memory.forget(record.id, user="ana")
    memory.forget(query=next(secrets), user="ana")
    memory.privacy.purge_user("ana")


def _misuse(memory: Limpet, secrets: Iterator[str]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: memory.records.get(next(secrets)),
        lambda: memory.recall("x", user="ana", k=next(secrets)),  # type: ignore[arg-type]
        lambda: memory.remember("x", user="ana", type=next(secrets)),
        lambda: memory.session("web", "2", user="ana").append(next(secrets), "x"),
        lambda: memory.acting("bob").recall(next(secrets), user="ana"),
    ]
    for call in calls:
        with suppress(LimpetError):
            call()
            pytest.fail("this should have been refused")


# Log lines


def record_of(message: str, *args: object, error: BaseException | None = None, **extra: Any) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("limpet.jobs", logging.WARNING, "x.py", 1, message, args, info)
    record.__dict__.update(extra)
    return record


def test_log_formatters_write_one_line_with_fields():
    record = record_of("it failed: %s", ValueError("words"), fields={"kind": "a\nb\u2028c", "why": KeyError("words")})
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "logger": "limpet.jobs",
        "event": "it failed: ValueError",
        "kind": "a\nb\u2028c",
        "why": "KeyError",
    }
    assert json.loads(JsonFormatter(words=True).format(record))["event"] == "it failed: words"
    assert JsonFormatter().format(record_of("%d done", 3, event="job", fields={"event": "no"})).count('"job"') == 1
    assert (
        TextFormatter()
        .format(record_of("two\nlines: %s", InvalidInput("words")))
        .endswith(r"two\nlines: invalid_input")
    )


def test_log_formatters_hide_exception_text_unless_enabled():
    with pytest.raises(RuntimeError) as caught:
        _failing("what somebody said")(None)
    record = record_of("it failed", error=caught.value)
    told = json.loads(JsonFormatter().format(record))
    assert told["error"] == "RuntimeError"
    assert "test_telemetry.py" in told["where"][-1]
    assert "what somebody said" not in JsonFormatter().format(record) + TextFormatter().format(record)
    assert "what somebody said" in JsonFormatter(words=True).format(record)
    assert "what somebody said" in TextFormatter(words=True).format(record)


def test_worker_log_options_and_settings(tmp_path, capsys, monkeypatch):
    before = list(logging.getLogger("limpet").handlers)
    with Limpet.open(tmp_path, config=settings()) as memory:
        ask_for(memory, "extract")
    worker = ["--data", str(tmp_path), "worker", "--until-idle", "--log-format", "json"]
    assert main([*worker, "--log-level", "info"]) == 0
    jobs = [told for line in capsys.readouterr().err.splitlines() if (told := json.loads(line))["event"] == "job"]
    assert [(told["kind"], told["outcome"]) for told in jobs] == [("extract", "done")]
    monkeypatch.setenv("LIMPET_OBSERVE_LOG_LEVEL", "error")
    with Limpet.open(tmp_path, config=settings()) as memory:
        ask_for(memory, "extract")
    assert main(worker) == 0
    assert capsys.readouterr().err == ""
    assert logging.getLogger("limpet").handlers == before
