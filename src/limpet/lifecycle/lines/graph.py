"""The graph, by the messages and records it was read from: a model's reading cannot be had again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge.repository import Records
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    IDS,
    ImportTarget,
    LineKind,
    LineOutcome,
    check_list,
    check_object,
    drop_empty,
    iter_pages,
    iter_session_scopes,
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, parse_time
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.graph import EntityDraft, EntityKind, GraphDraft, GraphSource, RelationDraft, RelationKind
from limpet.model.ids import check_id
from limpet.model.scope import Level, Partition, Scope
from limpet.model.text import check_choice, check_text
from limpet.model.values import check_flag, check_number
from limpet.search.graph_repository import GraphTables
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_MENTIONS = 2_000
_MOST = 10_000
_FIELDS = {
    "session_id": "the session of the message it was read from",
    "sequence": "the message's number",
    "record_id": "or the record it was read from",
    "at": "when that was said",
    "entities": "the names in it: a list with `id` (its normal form), `name` and `kind` each",
    "relations": "what it states: a list with `subject`, `predicate`, `object` or `value`, `kind`, `holds`, `sentence`",
}


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
    source = told.source
    relations = [
        drop_empty(
            {
                "subject": stated.subject,
                "predicate": stated.predicate,
                "object": stated.object,
                "value": stated.value,
                "kind": stated.kind.value,
                "holds": stated.holds,
                "sentence": stated.sentence,
            }
        )
        for stated in told.relations
    ]
    return drop_empty(
        {
            "session_id": source.session_id,
            "sequence": source.sequence,
            "record_id": source.record_id,
            "at": format_time(source.at),
            "entities": [{"id": found.id, "name": found.name, "kind": found.kind.value} for found in told.entities],
            "relations": relations,
        }
    )


def _read(value: dict[str, Any], into: ImportTarget) -> GraphDraft:
    require_fields(value, "at", "entities")
    entities = tuple(
        _parse_entity(check_object(entry, "an entity")) for entry in check_list(value["entities"], "entities")
    )
    named = {found.id for found in entities}
    relations = tuple(
        _parse_relation(check_object(entry, "a relation"), named)
        for entry in check_list(value.get("relations", []), "relations")
    )
    if not entities or len(entities) > _MOST or len(relations) > _MOST:
        raise InvalidInput(f"a source has 1 to {_MOST:,} entities, and at most as many relations")
    return GraphDraft(_parse_source(value, into), entities, relations)


def _parse_source(value: dict[str, Any], into: ImportTarget) -> GraphSource:
    at = parse_time(value["at"], "at")
    if value.get("record_id") is not None:
        return GraphSource(at, record_id=into.map_id(check_id(value["record_id"], "record_id")))
    require_fields(value, "session_id", "sequence")
    session_id = into.map_id(check_id(value["session_id"], "session_id"))
    return GraphSource(at, session_id, check_number(value["sequence"], "sequence"))


def _check_text(value: object, what: str) -> str:
    text = check_text(value, what)
    if not text:
        raise InvalidInput(f"{what} is empty")
    return text


def _parse_entity(value: dict[str, Any]) -> EntityDraft:
    return EntityDraft(
        _check_text(value.get("id"), "an entity's id"),
        _check_text(value.get("name"), "an entity's name"),
        check_choice(EntityKind, value.get("kind"), "an entity's kind"),
    )


def _parse_relation(value: dict[str, Any], named: set[str]) -> RelationDraft:
    object_, said = value.get("object"), value.get("value")
    if value.get("subject") not in named or (object_ is not None and object_ not in named):
        raise InvalidInput("a relation is between entities of its own line")
    return RelationDraft(
        subject=value["subject"],
        predicate=_check_text(value.get("predicate"), "a relation's predicate"),
        object=object_,
        value=None if said is None else check_text(said, "a relation's value"),
        kind=check_choice(RelationKind, value.get("kind"), "a relation's kind"),
        holds=check_flag(value.get("holds", True), "holds"),
        sentence=check_text(value.get("sentence", ""), "a relation's sentence"),
    )


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


GRAPH = LineKind("graph", "what one message or record says for the graph", _FIELDS, _iter_lines, _read, _put)
