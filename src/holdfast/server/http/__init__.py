"""The operations of the API, one file a noun. Each is one verb on the caller's memory."""

from __future__ import annotations

from holdfast.server.http import documents, graph, keeping, notes, records, schedules, sessions, streams, tools
from holdfast.server.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *sessions.operations,
    *records.operations,
    *documents.operations,
    *graph.operations,
    *notes.operations,
    *schedules.operations,
    *tools.operations,
    *keeping.operations,
    *streams.operations,
)
