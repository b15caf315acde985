"""A record as a JSON object, everything in it, and back: checked, because people edit it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.knowledge.remember import validate_changes
from limpet.model.ids import check_id
from limpet.model.naming import MAX_RECORD_KEY, check_record_key, is_internal
from limpet.model.record import Layer, Origin, Record, RecordSource, RecordType, check_fraction, fingerprint
from limpet.model.scope import Level, Owner, Scope
from limpet.model.text import check_choice, check_name, check_optional_name, check_text, short_repr
from limpet.model.times import check_time
from limpet.model.values import check_flag, check_label, check_number, check_strings

# In the order they are written: what a person looks for comes first. What a person may change is in the digest.
EDITABLE = (
    *("layer", "type", "key", "title", "content", "tags", "metadata", "confidence", "salience", "references"),
    *("pinned", "valid_from", "valid_to", "expires_at"),
)
TIMES = ("valid_from", "valid_to", "expires_at", "created_at", "updated_at", "last_used_at", "archived_at")
_PLACE = ("id", "level", "session_id")
_PAST = ("origin", "source", "created_at", "updated_at", "last_used_at", "uses", "superseded_by", "version")
_LEARNED = ("subject", "attribute", "value", "polarity", "said", "archived_at", "inputs")
_MAX_INPUTS = 10_000
_FIELDS = (*_PLACE, *EDITABLE, *_PAST, *_LEARNED)


def to_json(record: Record) -> dict[str, Any]:
    """Whose it is beside its level is not said: that is the place it is kept in."""
    source = record.source
    plain: dict[str, Any] = {name: getattr(record, name) for name in _FIELDS}
    plain |= {name: _format_time(plain[name]) for name in TIMES}
    plain |= {name: str(plain[name]) for name in ("layer", "type", "origin")}
    plain |= {name: list(plain[name]) for name in ("tags", "references", "inputs")}
    plain["metadata"] = dict(sorted(record.metadata.items()))
    plain["source"] = {
        "session_id": source.session_id,
        "sequences": list(source.sequences),
        "speaker": source.speaker,
        "sentence": source.sentence,
    }
    return plain


def compute_digest(record: Record) -> str:
    """Equal for records that say the same of the same times, however often they were used or changed."""
    return _hash_fields(record, EDITABLE)


def compute_timeless_digest(record: Record) -> str:
    """Equal for records that say the same, at whatever time."""
    return _hash_fields(record, tuple(name for name in EDITABLE if name not in TIMES))


def _hash_fields(record: Record, names: tuple[str, ...]) -> str:
    plain = to_json(record)
    said = {name: plain[name] for name in ("level", "session_id", *names)}
    said["tags"] = sorted(said["tags"])
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def from_json(value: Mapping[str, Any], tenant: str, user: str, new_id: Callable[[], str], now: datetime) -> Record:
    """The user's record an object describes; what is left out is as for a new memory. InvalidInput if it is none."""
    if unknown := value.keys() - set(_FIELDS):
        raise InvalidInput(f"a record has no {', '.join(sorted(unknown))}")
    given = {name: found for name, found in value.items() if found is not None}
    times = {name: _parse_time(given[name], name) for name in TIMES if name in given}
    said = validate_changes({**_pick(given, EDITABLE), **_pick(times, EDITABLE)}, now)
    if said.content is None:
        raise InvalidInput("content is missing")
    if said.layer is Layer.WORKING:
        raise InvalidInput("layer: working records are not kept in files")
    created = times.get("created_at", now)
    draft = Record(
        id=check_id(given["id"], "id") if "id" in given else new_id(),
        home=_parse_owner(given, tenant, user),
        layer=Layer.SEMANTIC,
        type=RecordType.FACT,
        content="",
        created_at=created,
        updated_at=max(created, times.get("updated_at", created)),
        valid_from=created,
        last_used_at=times.get("last_used_at"),
        uses=check_number(given.get("uses", 0), "uses"),
        origin=check_choice(Origin, given.get("origin", "explicit"), "origin"),
        source=_parse_source(given.get("source", {})),
        superseded_by=check_id(given["superseded_by"], "superseded_by") if "superseded_by" in given else None,
        version=max(1, check_number(given.get("version", 1), "version")),
        subject=check_optional_name(given.get("subject"), "subject"),
        attribute=check_optional_name(given.get("attribute"), "attribute"),
        value=None if "value" not in given else check_text(given["value"], "value", max_bytes=4096),
        polarity=check_flag(given.get("polarity", True), "polarity"),
        said=max(1, check_number(given.get("said", 1), "said")),
        archived_at=times.get("archived_at"),
        inputs=_parse_inputs(given.get("inputs", [])),
    )
    return said.apply_to(draft)


def from_export_json(value: Mapping[str, Any], home: Owner, renamed: Callable[[str], str]) -> Record:
    """The very record that ``as_json`` told of, the engine's own ones too, at home where it is said to be.

    ``renamed`` gives the id that an id has there. InvalidInput if it is none.
    """
    if unknown := value.keys() - {*_FIELDS, "fingerprint"}:
        raise InvalidInput(f"a record has no {', '.join(sorted(unknown))}")
    given = {name: found for name, found in value.items() if found is not None}
    if missing := {"id", "content", "layer", "type", "created_at", "updated_at", "valid_from"} - given.keys():
        raise InvalidInput(f"{', '.join(sorted(missing))} is missing")
    times = {name: _parse_time(given[name], name) for name in TIMES if name in given}
    source = _parse_source(given.get("source", {}))
    superseded_by, kind = given.get("superseded_by"), check_choice(RecordType, given["type"], "type")
    content = check_text(given["content"], "content")
    return Record(
        id=renamed(check_id(given["id"], "id")),
        home=home,
        layer=check_choice(Layer, given["layer"], "layer"),
        type=kind,
        content=content,
        key=_parse_key(given.get("key")),
        title=_parse_text(given, "title"),
        tags=_parse_labels(given.get("tags", []), "tags"),
        metadata=check_strings(given.get("metadata", {})),
        confidence=check_fraction(given.get("confidence", 1.0), "confidence"),
        salience=check_fraction(given.get("salience", 0.5), "salience"),
        references=_parse_labels(given.get("references", []), "references"),
        fingerprint=check_text(given.get("fingerprint") or fingerprint(kind, content), "fingerprint", max_bytes=64),
        source=replace(source, session_id=source.session_id and renamed(source.session_id)),
        origin=check_choice(Origin, given.get("origin", "explicit"), "origin"),
        created_at=times["created_at"],
        updated_at=times["updated_at"],
        last_used_at=times.get("last_used_at"),
        uses=check_number(given.get("uses", 0), "uses"),
        valid_from=times["valid_from"],
        valid_to=times.get("valid_to"),
        superseded_by=None if superseded_by is None else renamed(check_id(superseded_by, "superseded_by")),
        expires_at=times.get("expires_at"),
        pinned=check_flag(given.get("pinned", False), "pinned"),
        version=check_number(given.get("version", 1), "version"),
        # What was learned keeps no rule of length that people are held to.
        subject=_parse_text(given, "subject"),
        attribute=_parse_text(given, "attribute"),
        value=_parse_text(given, "value"),
        polarity=check_flag(given.get("polarity", True), "polarity"),
        said=check_number(given.get("said", 1), "said"),
        archived_at=times.get("archived_at"),
        inputs=tuple(renamed(each) for each in _parse_inputs(given.get("inputs", []))),
    )


def _parse_text(given: Mapping[str, Any], name: str) -> str | None:
    return check_text(given[name], name) if name in given else None


def _parse_key(value: object) -> str | None:
    """Also one that is the engine's own, which nobody can give a record from outside."""
    if value is None or (isinstance(value, str) and is_internal(value)):
        return None if value is None else check_name(value, "key", max_bytes=MAX_RECORD_KEY)
    return check_record_key(value)


def _parse_labels(value: object, what: str) -> tuple[str, ...]:
    """More of them than anybody may give at once: records that were merged have those of both."""
    if not isinstance(value, list) or len(value) > _MAX_INPUTS:
        raise InvalidInput(f"{what} is a list of at most {_MAX_INPUTS:,} texts, not {short_repr(value)}")
    return tuple(dict.fromkeys(check_label(each, f"one of {what}") for each in value))


def apply_edit(old: Record, wanted: Record) -> Record:
    """The old record, saying what is wanted: also that a field is empty now."""
    said: dict[str, Any] = {name: getattr(wanted, name) for name in EDITABLE}
    return replace(old, **said, fingerprint=wanted.fingerprint)


def _pick(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _parse_owner(given: Mapping[str, Any], tenant: str, user: str) -> Owner:
    session = given.get("session_id")
    level = check_choice(Level, given.get("level", "user" if session is None else "session"), "level")
    if level is Level.USER and session is None:
        return Owner(Scope(tenant, user=user), level)
    if level is Level.SESSION and session is not None:
        return Owner(Scope(tenant, user=user, session=check_id(session, "session_id")), level)
    raise InvalidInput("level is user, or session with a session_id")


def _parse_source(value: object) -> RecordSource:
    if not isinstance(value, dict) or value.keys() - {"session_id", "sequences", "speaker", "sentence"}:
        raise InvalidInput("source is an object with session_id, sequences, speaker and sentence")
    sequences, session, sentence = value.get("sequences") or [], value.get("session_id"), value.get("sentence")
    if not isinstance(sequences, list):
        raise InvalidInput(f"source.sequences must be a list, not {short_repr(sequences)}")
    return RecordSource(
        None if session is None else check_id(session, "source.session_id"),
        tuple(check_number(number, "one of source.sequences") for number in sequences),
        check_optional_name(value.get("speaker"), "source.speaker"),
        None if sentence is None else check_text(sentence, "source.sentence"),
    )


def _parse_inputs(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_INPUTS:
        raise InvalidInput(f"inputs is a list of at most {_MAX_INPUTS:,} record ids, not {short_repr(value)}")
    return tuple(dict.fromkeys(check_id(each, "one of inputs") for each in value))


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _parse_time(value: object, what: str) -> datetime:
    try:
        return check_time(datetime.fromisoformat(str(value)), what)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{what}: {short_repr(value)} is no ISO 8601 time with a zone") from None
