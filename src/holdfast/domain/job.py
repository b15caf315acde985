"""Work that is due, kept in the store until it is done."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.scope import Space

EMBED = "embed"  # make the vectors a space lacks; the detail is the model
GRAPH = "graph"  # read a session's new messages for the graph; the detail is the session
GRAPH_RECORD = "graph-record"  # read a record for the graph; the detail is the record


@dataclass(frozen=True, slots=True)
class Job:
    """``asked`` grows each time the same work is asked for: what was asked for meanwhile is done once more."""

    id: int
    kind: str
    space: Space
    detail: str
    asked: int
    attempts: int
