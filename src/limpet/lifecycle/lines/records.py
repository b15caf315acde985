"""Records with what they said before; the engine's own ones, such as a profile, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge import record_json, remember
from limpet.knowledge.repository import Records
from limpet.lifecycle.lines.kind import HERE, IDS, Into, Kind, Outcome, lean, listed, mapped, need, pages
from limpet.lifecycle.lines.times import moment, stamp, stamp_or_none
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.ids import checked_id
from limpet.model.job import GRAPH_RECORD
from limpet.model.record import Record
from limpet.model.scope import Home, Level, Scope
from limpet.model.text import checked_choice, checked_name
from limpet.model.transfer import RecordState, RecordVersion
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_OWN = ("user", "agent", "versions", "waiting")
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
_BEFORE = ("level", "session_id")  # a version is where its record is


def _lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for page in pages(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
        yield from map(line_of, Transfers(tx).records(scope, page))


def line_of(state: RecordState) -> dict[str, Any]:
    record = state.record
    line = _plain(record) | {"user": record.user, "agent": record.agent}
    versions = [
        {name: value for name, value in _plain(version.record).items() if name not in _BEFORE}
        | {"replaced_at": stamp(version.replaced_at)}
        for version in state.versions
    ]
    return lean(line | {"versions": versions, "waiting": list(state.waiting)})


def _plain(record: Record) -> dict[str, Any]:
    line = record_json.as_json(record) | {"fingerprint": record.fingerprint, "metadata": dict(record.metadata)}
    line |= {name: stamp_or_none(getattr(record, name)) for name in record_json.TIMES}
    line["source"] = lean(line["source"])
    return lean(line)


def _read(value: dict[str, Any], into: Into) -> RecordState:
    home = _home(value, into)
    told = {name: found for name, found in value.items() if name not in _OWN}
    record = record_json.as_stored(told, home, into.id)
    versions = [mapped(entry, "one of versions") for entry in listed(value.get("versions", []), "versions")]
    waiting = (GRAPH_RECORD,) if GRAPH_RECORD in listed(value.get("waiting", []), "waiting") else ()
    return RecordState(record, tuple(_version(entry, home, into, record.id) for entry in versions), waiting)


def _version(value: dict[str, Any], home: Home, into: Into, record_id: str) -> RecordVersion:
    need(value, "replaced_at")
    told = {name: found for name, found in value.items() if name != "replaced_at"}
    record = record_json.as_stored(told, home, into.id)
    if record.id != record_id:
        raise InvalidInput("versions: a version has another id than its record")
    return RecordVersion(record, moment(value["replaced_at"], "replaced_at"))


def _home(value: dict[str, Any], into: Into) -> Home:
    level = checked_choice(Level, value.get("level"), "level")
    if level in (Level.AGENT, Level.GLOBAL):
        if into.told_of is not None:
            raise InvalidInput(f"level: the export is of {into.told_of!r}, and this is the tenant's")
        agent = checked_name(value.get("agent"), "agent") if level is Level.AGENT else None
        return Home(Scope(into.tenant, agent=agent), level)
    user = into.owner(value.get("user"))
    agent = None if value.get("agent") is None else checked_name(value["agent"], "agent")
    if level is Level.USER:
        return Home(Scope(into.tenant, user=user, agent=agent), level)
    session = into.id(checked_id(value.get("session_id"), "session_id"))
    return Home(Scope(into.tenant, user=user, agent=agent, session=session), level)


def _put(tx: Tx, states: Sequence[RecordState], into: Into) -> list[Outcome]:
    cut = remember.Cutter(into.config.chunks)
    return [_put_one(tx, state, cut) for state in states]


def _put_one(tx: Tx, state: RecordState, cut: remember.Cutter) -> Outcome:
    record = state.record
    home, tenant = record.home, record.home.scope.tenant
    if Records(tx).get(Scope(tenant), record.id) is not None:
        return Outcome(False, HERE)
    if home.level is Level.SESSION:
        owner = Scope(tenant, user=home.scope.user, session=home.scope.session)
        if Sessions(tx).get(owner) is None:
            return Outcome(False, "its session is not here")
    if record.key is not None and (holder := Records(tx).by_key(home, record.key)) is not None:
        return Outcome(False, f"its key {record.key!r} belongs to record {holder.id} here")
    Transfers(tx).put_record(home, state)
    remember.index(tx, record, cut)
    return Outcome(True)


RECORDS = Kind(
    "records",
    "a long-term memory",
    _FIELDS,
    _lines,
    _read,
    _put,
    noun="records",
    owner=lambda state: (state.record.id, state.record.user or ""),
)
