"""Records with what they said before; the engine's own ones, such as a profile, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge import remember
from limpet.knowledge.repository import Records
from limpet.lifecycle.lines.kind import (
    ALREADY_PRESENT,
    IDS,
    ImportTarget,
    LineKind,
    LineOutcome,
    iter_pages,
)
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.job import GRAPH_RECORD
from limpet.model.lines import LineCodec
from limpet.model.record import Record, fingerprint
from limpet.model.scope import Level, Owner, Scope
from limpet.model.transfer import RecordState
from limpet.model.values import check_name
from limpet.sessions.repository import Sessions
from limpet.store.tx import Tx

_LINE = LineCodec(RecordState)
_NEEDED = ("created_at", "updated_at", "valid_from")
_OWNER = ("level", "user", "agent", "session_id")  # a version is where its record is


def _iter_lines(tx: Tx, scope: Scope) -> Iterator[dict[str, Any]]:
    for page in iter_pages(lambda after: Transfers(tx).record_ids(scope, after, IDS)):
        yield from map(to_line, Transfers(tx).records(scope, page))


def to_line(state: RecordState) -> dict[str, Any]:
    line = _LINE.write(state)
    for version in line.get("versions", ()):
        for name in _OWNER:
            version.pop(name, None)
    return line


def _read(value: dict[str, Any], into: ImportTarget) -> RecordState:
    owner = {name: value[name] for name in _OWNER if name in value}
    versions = value.get("versions")
    if isinstance(versions, list):
        value = value | {"versions": [each | owner if isinstance(each, dict) else each for each in versions]}
    into.register_id(value.get("id"), _map_owner(_LINE.read(value, {"tenant": into.tenant}).record.home, into).space)
    state = _LINE.read(value, {"tenant": into.tenant}, into.map_id)
    home = _map_owner(state.record.home, into)
    if any(version.record.id != state.record.id for version in state.versions):
        raise InvalidInput("versions: a version has another id than its record")
    return RecordState(
        _complete(state.record, home),
        tuple(replace(version, record=_complete(version.record, home)) for version in state.versions),
        (GRAPH_RECORD,) if GRAPH_RECORD in state.waiting else (),
        into.external_id(state.record.id, state.external_id),
    )


def _complete(record: Record, home: Owner) -> Record:
    if missing := [name for name in _NEEDED if getattr(record, name) is None]:
        raise InvalidInput(f"{', '.join(missing)} is missing")
    return replace(record, home=home, fingerprint=record.fingerprint or fingerprint(record.type, record.content))


def _map_owner(home: Owner, into: ImportTarget) -> Owner:
    """Whose it is there."""
    level, scope = home.level, home.scope
    if level in (Level.AGENT, Level.GLOBAL):
        if into.told_of is not None:
            raise InvalidInput(f"level: the export is of {into.told_of!r}, and this is the tenant's")
        agent = check_name(scope.agent, "agent") if level is Level.AGENT else None
        return Owner(Scope(into.tenant, agent=agent), level)
    if level is Level.SESSION and scope.session is None:
        raise InvalidInput("session_id is missing")
    session = scope.session if level is Level.SESSION else None
    return Owner(Scope(into.tenant, into.map_user(scope.user), scope.agent, session), level)


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
    external = state.external_id
    if external is not None and Records(tx).get(home.scope, external) is not None:
        state = replace(state, external_id=None)  # another one of theirs is found by it
    Transfers(tx).put_record(home, state)
    remember.index(tx, record, cut)
    return LineOutcome(True)


RECORDS = LineKind(
    "records",
    "a long-term memory",
    _LINE,
    _iter_lines,
    _read,
    _put,
    noun="records",
    owner=lambda state: (state.record.id, state.record.user or ""),
)
