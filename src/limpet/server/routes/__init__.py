"""The operations of the API, one file a noun. Each is one verb on the caller's memory."""

from __future__ import annotations

from limpet.server.operation import Operation
from limpet.server.routes import admin, documents, graph, notes, records, schedules, sessions, streams, tools

OPERATIONS: tuple[Operation, ...] = (
    *sessions.operations,
    *records.operations,
    *documents.operations,
    *graph.operations,
    *notes.operations,
    *schedules.operations,
    *tools.operations,
    *admin.operations,
    *streams.operations,
)
