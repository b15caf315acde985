"""Records with what they said before; the engine's own ones, such as a profile, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge import record_json, remember
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
    require_fields,
)
from limpet.lifecycle.lines.times import format_time, format_time_or_none, parse_time
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import check_id
from limpet.model.job import GRAPH_RECORD
from limpet.model.record import Record
from limpet.model.scope import Level, Owner, Scope
from limpet.model.text import check_choice, check_name
from limpet.model.transfer import RecordState, RecordVersion
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_TRANSFER_FIELDS = ("user", "agent", "versions", "waiting")
_FIELDS = {
    "id": "the record's id, a UUID",
    "level": "whose it is: a `session`'s, a `user`'s, an `agent`'s, or `global`, the whole tenant's",
    "user": "the user, for the first two levels",
    "agent": "the agent, for the third",
    "session_id": "the session, for the first",
    "layer": "`working`, `episodic`, `semantic` or `procedural`",
    "type": "`fact`, `preference`, `constraint`, `decision`, `note`, `failure`, `fix`, `command_result`, `task_state`",
    "key": "the name it was saved under",
    "title": "a heading",
    "content": "what it says",
    "tags": "a list of words",
    "metadata": "text by text",
    "confidence": "how sure it is, from 0 to 1",
    "salience": "how much it matters, from 0 to 1",
    "references": "a list of what it points to",
    "pinned": "whether it is always shown and never fades",
    "valid_from": "since when it is true",
    "valid_to": "until when it was",
    "expires_at": "when its time to live is over",
    "origin": "`explicit`, `extracted`, `promoted`, `turn` or `condensed`",
    "source": "where it was learned: `session_id`, `sequences`, `speaker`, `sentence`",
    "created_at": "when it was made",
    "updated_at": "when it was last changed",
    "last_used_at": "when it was last used",
    "uses": "how often",
    "superseded_by": "the id of the record that took its place",
    "version": "how often it was changed, from 1",
    "subject": "whom or what it is about",
    "attribute": "what of it",
    "value": "and what that is",
    "polarity": "false where it denies",
    "said": "how often it was said",
    "archived_at": "since when it is faded",
    "inputs": "the ids of the records it was made from",
    "fingerprint": "equal for records that say the same",
    "versions": "what it said before: a list of the same fields but `level` to `session_id`, and `replaced_at` each",
    "waiting": "work that is asked for and not done: `graph-record`",
}
_OMITTED_IN_VERSIONS = ("level", "session_id")  # a version is where its record is


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for page in iter_pages(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
        yield from map(to_line, Transfers(tx).records(scope, page))


def to_line(state: RecordState) -> dict[str, Any]:
    record = state.record
    line = _record_fields(record) | {"user": record.user, "agent": record.agent}
    versions = [
        {name: value for name, value in _record_fields(version.record).items() if name not in _OMITTED_IN_VERSIONS}
        | {"replaced_at": format_time(version.replaced_at)}
        for version in state.versions
    ]
    return drop_empty(line | {"versions": versions, "waiting": list(state.waiting)})


def _record_fields(record: Record) -> dict[str, Any]:
    line = record_json.to_json(record) | {"fingerprint": record.fingerprint, "metadata": dict(record.metadata)}
    line |= {name: format_time_or_none(getattr(record, name)) for name in record_json.TIMES}
    line["source"] = drop_empty(line["source"])
    return drop_empty(line)


def _read(value: dict[str, Any], into: ImportTarget) -> RecordState:
    home = _parse_owner(value, into)
    told = {name: found for name, found in value.items() if name not in _TRANSFER_FIELDS}
    record = record_json.from_export_json(told, home, into.map_id)
    versions = [check_object(entry, "one of versions") for entry in check_list(value.get("versions", []), "versions")]
    waiting = (GRAPH_RECORD,) if GRAPH_RECORD in check_list(value.get("waiting", []), "waiting") else ()
    return RecordState(record, tuple(_parse_version(entry, home, into, record.id) for entry in versions), waiting)


def _parse_version(value: dict[str, Any], home: Owner, into: ImportTarget, record_id: str) -> RecordVersion:
    require_fields(value, "replaced_at")
    told = {name: found for name, found in value.items() if name != "replaced_at"}
    record = record_json.from_export_json(told, home, into.map_id)
    if record.id != record_id:
        raise InvalidInput("versions: a version has another id than its record")
    return RecordVersion(record, parse_time(value["replaced_at"], "replaced_at"))


def _parse_owner(value: dict[str, Any], into: ImportTarget) -> Owner:
    level = check_choice(Level, value.get("level"), "level")
    if level in (Level.AGENT, Level.GLOBAL):
        if into.told_of is not None:
            raise InvalidInput(f"level: the export is of {into.told_of!r}, and this is the tenant's")
        agent = check_name(value.get("agent"), "agent") if level is Level.AGENT else None
        return Owner(Scope(into.tenant, agent=agent), level)
    user = into.map_user(value.get("user"))
    agent = None if value.get("agent") is None else check_name(value["agent"], "agent")
    if level is Level.USER:
        return Owner(Scope(into.tenant, user=user, agent=agent), level)
    session = into.map_id(check_id(value.get("session_id"), "session_id"))
    return Owner(Scope(into.tenant, user=user, agent=agent, session=session), level)


def _put(tx: Tx, states: Sequence[RecordState], into: ImportTarget) -> list[LineOutcome]:
    cut = remember.RecordChunker(into.config.chunks)
    return [_put_one(tx, state, cut) for state in states]


def _put_one(tx: Tx, state: RecordState, cut: remember.RecordChunker) -> LineOutcome:
    record = state.record
    home, tenant = record.home, record.home.scope.tenant
    if Records(tx).get(Scope(tenant), record.id) is not None:
        return LineOutcome(False, ALREADY_PRESENT)
    if home.level is Level.SESSION:
        owner = Scope(tenant, user=home.scope.user, session=home.scope.session)
        if Sessions(tx).get(owner) is None:
            return LineOutcome(False, "its session is not here")
    if record.key is not None and (holder := Records(tx).find_by_key(home, record.key)) is not None:
        return LineOutcome(False, f"its key {record.key!r} belongs to record {holder.id} here")
    Transfers(tx).put_record(home, state)
    remember.index(tx, record, cut)
    return LineOutcome(True)


RECORDS = LineKind(
    "records",
    "a long-term memory",
    _FIELDS,
    _iter_lines,
    _read,
    _put,
    noun="records",
    owner=lambda state: (state.record.id, state.record.user or ""),
)
