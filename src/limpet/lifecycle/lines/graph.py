"""The graph, by the messages and records it was read from: a model's reading cannot be had again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge.repository import Records
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    IDS,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_pages,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.graph import GraphDraft, GraphSource
from limpet.model.lines import LineCodec
from limpet.model.scope import Level, Partition, Scope
from limpet.search.graph_repository import GraphTables
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_MENTIONS = 2_000
_LINE = LineCodec(GraphDraft)


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in iter_session_scopes(tx, scope):
        info = Sessions(tx).get(one)
        if info is None:
            continue
        after = 0
        while page := Transfers(tx).find_graph_by_session(info.scope, after, _MENTIONS):
            yield from map(to_line, page)
            after = page[-1].source.sequence or 0
    for ids in iter_pages(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
        for state in Transfers(tx).records(scope, ids):
            told = Transfers(tx).get_graph_of_record(state.record.home.space, state.record.id)
            if told is not None:
                yield to_line(told)


def to_line(told: GraphDraft) -> dict[str, Any]:
    return _LINE.write(told)


def _read(value: dict[str, Any], into: ImportTarget) -> GraphDraft:
    told = _LINE.read(value, {}, into.map_id)
    if not told.entities:
        raise InvalidInput("entities is missing")
    named = {found.id for found in told.entities}
    for stated in told.relations:
        if stated.subject not in named or (stated.object is not None and stated.object not in named):
            raise InvalidInput("a relation is between entities of its own line")
    if told.source.record_id is not None:
        return replace(told, source=GraphSource(told.source.at, record_id=told.source.record_id))
    require_fields(value, "session_id", "sequence")
    return told


def _put(tx: Tx, items: Sequence[GraphDraft], into: ImportTarget) -> list[LineOutcome]:
    return [_put_one(tx, told, into) for told in items]


def _put_one(tx: Tx, told: GraphDraft, into: ImportTarget) -> LineOutcome:
    space = _find_partition(tx, told.source, into)
    if space is None:
        return LineOutcome(False, "what it was read from is not here")
    if Transfers(tx).has_graph_source(space, told.source):
        return LineOutcome(False, ALREADY_PRESENT)
    GraphTables(tx).add(space, [told])
    return LineOutcome(True)


def _find_partition(tx: Tx, source: GraphSource, into: ImportTarget) -> Partition | None:
    if source.record_id is not None:
        record = Records(tx).get(into.scope, source.record_id)
        return None if record is None else record.home.space
    info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=source.session_id))
    if info is None or not Transfers(tx).has_message(info.scope, source.sequence or 0):
        return None
    return Partition(into.tenant, Level.USER, info.user)


GRAPH = LineKind("graph", "what one message or record says for the graph", _LINE, _iter_lines, _read, _put)
