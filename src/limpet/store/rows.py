"""Values to columns and back: the only place that knows how a noun is spelled in the database."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any

from limpet.model.document import Document
from limpet.model.message import Message, Role, ToolCall, part_from_json, part_to_json
from limpet.model.naming import SessionKey
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType
from limpet.model.scope import Level, Owner, Scope
from limpet.model.session import SessionInfo, SessionStatus
from limpet.model.times import from_micros, to_micros
from limpet.store.db import Row


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def micros(value: datetime | None) -> int | None:
    return None if value is None else to_micros(value)


def moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def session_from(row: Row) -> SessionInfo:
    return SessionInfo(
        id=row[0],
        tenant=row[1],
        user=row[2],
        agent=row[3],
        key=SessionKey(row[4], row[5], row[6]),
        state=SessionStatus(row[7]),
        metadata=json.loads(row[8]),
        created_at=from_micros(row[9]),
        last_active_at=from_micros(row[10]),
        expires_at=moment(row[11]),
        last_sequence=row[12],
        message_count=row[13],
    )


def message_params(session_id: str, message: Message) -> dict[str, Any]:
    whole_text = isinstance(message.content, str)
    return {
        "session": session_id,
        "sequence": message.sequence,
        "role": message.role.value,
        "content": message.content if whole_text else "",
        "parts": None if whole_text else to_json([part_to_json(part) for part in message.content]),  # type: ignore[arg-type]
        "name": message.name,
        "tool_calls": _calls_json(message.tool_calls),
        "tool_call_id": message.tool_call_id,
        "is_error": int(message.is_error),
        "metadata": to_json(message.metadata) if message.metadata else None,
        "tokens": message.tokens,
        "created_at": micros(message.created_at),
        "idempotency_key": message.idempotency_key,
    }


def message_from(row: Row) -> Message:
    sequence, role, content, parts, name, calls, call_id, is_error, metadata, tokens, created_at, key = row
    return Message(
        role=Role(role),
        content=content if parts is None else tuple(part_from_json(part) for part in json.loads(parts)),
        name=name,
        tool_calls=() if calls is None else tuple(ToolCall(**call) for call in json.loads(calls)),
        tool_call_id=call_id,
        is_error=bool(is_error),
        metadata={} if metadata is None else json.loads(metadata),
        created_at=from_micros(created_at),
        sequence=sequence,
        idempotency_key=key,
        tokens=tokens,
    )


def _calls_json(calls: tuple[ToolCall, ...]) -> str | None:
    if not calls:
        return None
    return to_json([{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in calls])


def record_params(record: Record) -> dict[str, Any]:
    source = record.source
    return {
        "id": record.id,
        "tenant": record.home.scope.tenant,
        "level": record.home.level.value,
        "owner": record.home.owner,
        "user": record.user,
        "agent": record.agent,
        "session": record.session_id,
        "layer": record.layer.value,
        "type": record.type.value,
        "key": record.key,
        "title": record.title,
        "content": record.content,
        "tags": to_json(record.tags),
        "metadata": to_json(dict(record.metadata)),
        "confidence": record.confidence,
        "salience": record.salience,
        "refs": to_json(record.references),
        "fingerprint": record.fingerprint,
        "source": to_json([source.session_id, source.sequences, source.speaker, source.sentence]),
        "origin": record.origin.value,
        "created_at": micros(record.created_at),
        "updated_at": micros(record.updated_at),
        "last_used_at": micros(record.last_used_at),
        "uses": record.uses,
        "valid_from": micros(record.valid_from),
        "valid_to": micros(record.valid_to),
        "superseded_by": record.superseded_by,
        "expires_at": micros(record.expires_at),
        "pinned": int(record.pinned),
        "version": record.version,
        "subject": record.subject,
        "attribute": record.attribute,
        "value": record.value,
        "polarity": int(record.polarity),
        "said": record.said,
        "archived_at": micros(record.archived_at),
        "inputs": to_json(record.inputs) if record.inputs else None,
    }


# The order of records.select; a version's body is the same row as JSON.
RECORD_COLUMNS = (
    "id tenant level user agent session layer type key title content tags metadata confidence salience refs "
    "fingerprint source origin created_at updated_at last_used_at uses valid_from valid_to superseded_by expires_at "
    "pinned version subject attribute value polarity said archived_at inputs"
).split()
# What a version's body did not say before a record knew what it is about.
_LATER = {
    "subject": None,
    "attribute": None,
    "value": None,
    "polarity": 1,
    "said": 1,
    "archived_at": None,
    "inputs": None,
}


# By what is stored: quicker than asking the enumerations, which adds up over the records of a context.
_LEVELS, _LAYERS = {level.value: level for level in Level}, {layer.value: layer for layer in Layer}
_TYPES, _ORIGINS = {type_.value: type_ for type_ in RecordType}, {origin.value: origin for origin in Origin}


def record_body(record: Record) -> str:
    params = record_params(record)
    return to_json([params[column] for column in RECORD_COLUMNS])


def record_from_body(body: str) -> Record:
    values = json.loads(body)
    missing = len(RECORD_COLUMNS) - len(values)
    return record_from((*values, *list(_LATER.values())[len(_LATER) - missing :]))


def record_from(row: Row) -> Record:
    """Every context reads a hundred and more: most have no tags, references or metadata, and say no source."""
    (id_, tenant, level, user, agent, session, layer, type_, key, title, content, tags, metadata, confidence, salience,
     refs, fingerprint, source, origin, created_at, updated_at, last_used_at, uses, valid_from, valid_to, superseded_by,
     expires_at, pinned, version, subject, attribute, value, polarity, said, archived_at, inputs) = row  # fmt: skip
    created = from_micros(created_at)
    return Record(
        id=id_,
        home=_home(tenant, user, agent, session, level),
        layer=_LAYERS[layer],
        type=_TYPES[type_],
        content=content,
        key=key,
        title=title,
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        metadata={} if metadata == "{}" else json.loads(metadata),
        confidence=confidence,
        salience=salience,
        references=() if refs == "[]" else tuple(json.loads(refs)),
        fingerprint=fingerprint,
        source=_source_from(source),
        origin=_ORIGINS[origin],
        created_at=created,
        updated_at=created if updated_at == created_at else from_micros(updated_at),
        last_used_at=moment(last_used_at),
        uses=uses,
        valid_from=created if valid_from == created_at else from_micros(valid_from),
        valid_to=moment(valid_to),
        superseded_by=superseded_by,
        expires_at=moment(expires_at),
        pinned=bool(pinned),
        version=version,
        subject=subject,
        attribute=attribute,
        value=value,
        polarity=bool(polarity),
        said=said,
        archived_at=moment(archived_at),
        inputs=() if inputs is None else tuple(json.loads(inputs)),
    )


@lru_cache(maxsize=64)
def _home(tenant: str, user: str | None, agent: str | None, session: str | None, level: str) -> Owner:
    return Owner(Scope(tenant, user, agent, session), _LEVELS[level])


_NO_SOURCE = "[null,[],null,null]"


def _source_from(source: str) -> RecordSource:
    """Nothing is remembered here: a sentence that is forgotten is nowhere."""
    if source == _NO_SOURCE:
        return RecordSource()
    session_id, sequences, speaker, sentence = json.loads(source)
    return RecordSource(session_id, tuple(sequences), speaker, sentence)


def document_params(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "uri": document.uri,
        "title": document.title,
        "content_hash": bytes.fromhex(document.content_hash),
        "metadata": to_json(dict(document.metadata)),
        "created_at": micros(document.created_at),
        "updated_at": micros(document.updated_at),
    }


def document_from(row: Row) -> Document:
    id_, uri, title, metadata, content_hash, created_at, updated_at, chunks = row
    return Document(
        id=id_,
        uri=uri,
        title=title,
        metadata=json.loads(metadata),
        content_hash=bytes(content_hash).hex(),
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        chunks=chunks,
    )
