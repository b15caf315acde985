"""OpenTelemetry: a span around each piece of work, and how long it took.

The names are those of the semantic conventions for generative AI, as far as they have one for it:
https://github.com/open-telemetry/semantic-conventions-genai. Tracer and meter are the program's own: where it has set
up none, OpenTelemetry does nothing. Words of errors are never recorded, since they may quote what somebody said.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import context, metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from limpet.security.telemetry import Activity, ActivityKind, ActivityResult, EndCallback

_SERVICE = "limpet"
OPERATIONS: Mapping[str, str] = {
    **dict.fromkeys(("recall", "records.list", "records.search_metadata"), "search_memory"),
    **dict.fromkeys(("session.append", "session.extend"), "create_memory"),
    # They merge with what is there, or take its place.
    **dict.fromkeys(
        ("remember", "session.learn", "documents.add", "notes.import_items", "transfer.import_"), "upsert_memory"
    ),
    **dict.fromkeys(("records.update", "records.promote", "records.revive"), "update_memory"),
    **dict.fromkeys(("forget", "documents.remove", "session.clear", "session.delete"), "delete_memory"),
    **dict.fromkeys(
        ("privacy.purge_session", "privacy.purge_user", "privacy.purge_older", "privacy.retention"), "delete_memory"
    ),
}
_MODELS = (ActivityKind.CHAT, ActivityKind.EMBEDDINGS)
# What the conventions advise for models; memory is quicker, and begins lower.
_MODEL_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_QUICK_S = (0.0001, 0.0003, 0.001, 0.003, *_MODEL_S)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

# Attributes of a span, and the fields of the work they are.
_START_FIELDS = {
    "gen_ai.memory.store.id": "tenant",
    "gen_ai.memory.record.id": "record",
    "gen_ai.conversation.id": "session",
    "gen_ai.agent.name": "agent",
    "user.id": "user",
    "limpet.principal": "principal",
}
_END_FIELDS = {"gen_ai.usage.input_tokens": "input_tokens", "gen_ai.usage.output_tokens": "output_tokens"}

_Attributes = dict[str, str | int]


class Telemetry:
    """Its ``begin`` is what Observers are given."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer(_SERVICE)
        meter = metrics.get_meter(_SERVICE)
        self._operations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_QUICK_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._own = {
            kind: meter.create_histogram(
                f"limpet.{kind}.duration", unit="s", description=told, explicit_bucket_boundaries_advisory=_QUICK_S
            )
            for kind, told in (
                (ActivityKind.OPERATION, "How long a call of a public method took."),
                (ActivityKind.JOB, "How long a run of background work took."),
                (ActivityKind.SCHEDULE, "How long a schedule's turn took."),
            )
        }

    def begin(self, work: Activity) -> EndCallback:
        kind = SpanKind.CLIENT if work.kind in _MODELS else SpanKind.INTERNAL
        span = self._tracer.start_span(
            _span_name(work),
            kind=kind,
            # The store of the conventions is what is kept apart: a tenant.
            attributes=_metric_attributes(work) | _name_attributes(work) | _select_attributes(work, _START_FIELDS),
        )
        token = context.attach(trace.set_span_in_context(span))

        def end(observed: ActivityResult) -> None:
            try:
                self._measure(observed)
                span.set_attributes(_end_attributes(observed))
                if observed.code is not None:
                    span.set_status(Status(StatusCode.ERROR, observed.code))
                span.end()
            finally:
                context.detach(token)

        return end

    def _measure(self, observed: ActivityResult) -> None:
        common = _metric_attributes(observed) | ({} if observed.code is None else {"error.type": observed.code})
        if "gen_ai.operation.name" in common:
            self._operations.record(observed.seconds, common)
        own = self._own.get(observed.kind)
        if own is not None:
            own.record(observed.seconds, _name_attributes(observed) | _result_attributes(observed))
        for type_, tokens in (("input", observed.input_tokens), ("output", observed.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, _metric_attributes(observed) | {"gen_ai.token.type": type_})


def _span_name(work: Activity) -> str:
    if work.kind in _MODELS:
        return f"{work.kind} {work.name}"
    if work.kind is ActivityKind.OPERATION:
        return OPERATIONS.get(work.name, f"{_SERVICE}.{work.name}")
    return f"{_SERVICE}.{work.kind}"


def _metric_attributes(work: Activity) -> _Attributes:
    """What a measurement may be told apart by: few values each, and no names of users or tenants."""
    if work.kind in _MODELS:
        return {
            "gen_ai.operation.name": str(work.kind),
            "gen_ai.provider.name": work.provider or _SERVICE,
            "gen_ai.request.model": work.name,
        }
    operation = OPERATIONS.get(work.name) if work.kind is ActivityKind.OPERATION else None
    return {} if operation is None else {"gen_ai.operation.name": operation, "gen_ai.provider.name": _SERVICE}


def _name_attributes(work: Activity) -> _Attributes:
    match work.kind:
        case ActivityKind.OPERATION:
            return {"limpet.operation": work.name}
        case ActivityKind.JOB:
            return {"limpet.job.kind": work.name}
        case _:
            return {}


def _result_attributes(observed: ActivityResult) -> _Attributes:
    outcome: _Attributes = {"limpet.outcome": str(observed.outcome)}
    return outcome if observed.code is None else {**outcome, "error.type": observed.code}


def _end_attributes(observed: ActivityResult) -> _Attributes:
    counted = "limpet.embeddings.texts" if observed.kind is ActivityKind.EMBEDDINGS else "gen_ai.memory.record.count"
    return _result_attributes(observed) | _select_attributes(observed, {counted: "count", **_END_FIELDS})


def _select_attributes(work: Activity, fields: Mapping[str, str]) -> _Attributes:
    return {name: value for name, field in fields.items() if (value := getattr(work, field)) is not None}
