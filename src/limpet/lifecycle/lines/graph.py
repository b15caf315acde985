"""The graph, by the messages and records it was read from: a model's reading cannot be had again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge.graph.repository import GraphTables
from limpet.knowledge.repository import Records
from limpet.lifecycle.lines.kind import (
    HERE,
    IDS,
    Into,
    Kind,
    Outcome,
    lean,
    listed,
    mapped,
    need,
    pages,
    session_scopes,
)
from limpet.lifecycle.lines.times import moment, stamp
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.graph import EntityKind, Found, GraphSource, RelationKind, Stated, Told
from limpet.model.ids import checked_id
from limpet.model.scope import Level, Scope, Space
from limpet.model.text import checked_choice, checked_text
from limpet.model.values import checked_flag, checked_number
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


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for one in session_scopes(tx, scope):
        info = Sessions(tx).get(one)
        if info is None:
            continue
        after = 0
        while page := Transfers(tx).told_by_session(info.scope, after, _MENTIONS):
            yield from map(line_of, page)
            after = page[-1].source.sequence or 0
    for ids in pages(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
        for state in Transfers(tx).records(scope, ids):
            told = Transfers(tx).told_by_record(state.record.home.space, state.record.id)
            if told is not None:
                yield line_of(told)


def line_of(told: Told) -> dict[str, Any]:
    source = told.source
    relations = [
        lean(
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
    return lean(
        {
            "session_id": source.session_id,
            "sequence": source.sequence,
            "record_id": source.record_id,
            "at": stamp(source.at),
            "entities": [{"id": found.id, "name": found.name, "kind": found.kind.value} for found in told.entities],
            "relations": relations,
        }
    )


def _read(value: dict[str, Any], into: Into) -> Told:
    need(value, "at", "entities")
    entities = tuple(_entity(mapped(entry, "an entity")) for entry in listed(value["entities"], "entities"))
    named = {found.id for found in entities}
    relations = tuple(
        _relation(mapped(entry, "a relation"), named) for entry in listed(value.get("relations", []), "relations")
    )
    if not entities or len(entities) > _MOST or len(relations) > _MOST:
        raise InvalidInput(f"a source has 1 to {_MOST:,} entities, and at most as many relations")
    return Told(_source(value, into), entities, relations)


def _source(value: dict[str, Any], into: Into) -> GraphSource:
    at = moment(value["at"], "at")
    if value.get("record_id") is not None:
        return GraphSource(at, record_id=into.id(checked_id(value["record_id"], "record_id")))
    need(value, "session_id", "sequence")
    session_id = into.id(checked_id(value["session_id"], "session_id"))
    return GraphSource(at, session_id, checked_number(value["sequence"], "sequence"))


def _text(value: object, what: str) -> str:
    text = checked_text(value, what)
    if not text:
        raise InvalidInput(f"{what} is empty")
    return text


def _entity(value: dict[str, Any]) -> Found:
    return Found(
        _text(value.get("id"), "an entity's id"),
        _text(value.get("name"), "an entity's name"),
        checked_choice(EntityKind, value.get("kind"), "an entity's kind"),
    )


def _relation(value: dict[str, Any], named: set[str]) -> Stated:
    object_, said = value.get("object"), value.get("value")
    if value.get("subject") not in named or (object_ is not None and object_ not in named):
        raise InvalidInput("a relation is between entities of its own line")
    return Stated(
        subject=value["subject"],
        predicate=_text(value.get("predicate"), "a relation's predicate"),
        object=object_,
        value=None if said is None else checked_text(said, "a relation's value"),
        kind=checked_choice(RelationKind, value.get("kind"), "a relation's kind"),
        holds=checked_flag(value.get("holds", True), "holds"),
        sentence=checked_text(value.get("sentence", ""), "a relation's sentence"),
    )


def _put(tx: Tx, items: Sequence[Told], into: Into) -> list[Outcome]:
    return [_put_one(tx, told, into) for told in items]


def _put_one(tx: Tx, told: Told, into: Into) -> Outcome:
    space = _space(tx, told.source, into)
    if space is None:
        return Outcome(False, "what it was read from is not here")
    if Transfers(tx).has_told(space, told.source):
        return Outcome(False, HERE)
    GraphTables(tx).add(space, [told])
    return Outcome(True)


def _space(tx: Tx, source: GraphSource, into: Into) -> Space | None:
    if source.record_id is not None:
        record = Records(tx).get(into.scope, source.record_id)
        return None if record is None else record.home.space
    info = Sessions(tx).get(Scope(into.tenant, user=into.user, session=source.session_id))
    if info is None or not Transfers(tx).has_message(info.scope, source.sequence or 0):
        return None
    return Space(into.tenant, Level.USER, info.user)


GRAPH = Kind("graph", "what one message or record says for the graph", _FIELDS, _lines, _read, _put)
