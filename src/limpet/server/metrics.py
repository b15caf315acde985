"""Counters and times for Prometheus: of requests, of verbs, and of the store. They name routes and verbs, not users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from limpet import ActivityResult, Limpet

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MEDIA = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "limpet_http_requests", "Requests", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "limpet_http_request_seconds",
            "Seconds a request took",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._open = Gauge("limpet_http_requests_open", "Requests that are being answered", registry=self._registry)
        self._calls = Counter(
            "limpet_calls",
            "Calls of memory, jobs, schedules, and requests to models",
            ("kind", "name", "outcome", "code"),
            registry=self._registry,
        )
        self._call_seconds = Histogram(
            "limpet_call_seconds", "Seconds they took", ("kind", "name"), buckets=_SECONDS, registry=self._registry
        )
        self._store = Gauge("limpet_store", "What the store holds", ("what",), registry=self._registry)

    def begin_request(self) -> None:
        self._open.inc()

    def end_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._open.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def observe_call(self, work: ActivityResult) -> None:
        """Calls, jobs, schedules, and requests to models, on whatever thread they ended."""
        self._calls.labels(work.kind, work.name, work.outcome, work.code or "").inc()
        self._call_seconds.labels(work.kind, work.name).observe(work.seconds)

    def render(self, memory: Limpet) -> bytes:
        """With what the store holds now."""
        for what, count in memory.admin.stats().items():
            if isinstance(count, int | float) and not isinstance(count, bool):
                self._store.labels(what).set(count)
        return generate_latest(self._registry)
