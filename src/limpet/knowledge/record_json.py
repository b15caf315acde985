"""A record as a line of JSON that people edit, and back: checked, because they do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from limpet.errors import InvalidInput
from limpet.model.dataclass import replace
from limpet.model.lines import LineCodec
from limpet.model.record import Layer, Record, RecordChanges, editable_fields
from limpet.model.scope import Level, user_partition
from limpet.model.values import check_any_id, from_micros, is_id, uuid7, with_bucket

TIMES = ("valid_from", "valid_to", "expires_at")


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


# Whose it is beside its level is not said: that is the place the line is kept in.
_LINE = LineCodec(
    Record, write_time=_format_time, keep_empty=True, leave_out=("tenant", "user", "agent", "fingerprint")
)


def to_json(record: Record) -> dict[str, Any]:
    line = _LINE.write(record)
    return line | {"metadata": dict(sorted(line["metadata"].items()))}


def compute_digest(record: Record) -> str:
    """Equal for records that say the same of the same times, however often they were used or changed."""
    return _hash_fields(record, tuple(editable_fields()))


def compute_timeless_digest(record: Record) -> str:
    """Equal for records that say the same, at whatever time."""
    return _hash_fields(record, tuple(name for name in editable_fields() if name not in TIMES))


def _hash_fields(record: Record, names: tuple[str, ...]) -> str:
    line = to_json(record)
    said = {name: line[name] for name in ("level", "session_id", *names)}
    said["tags"] = sorted(said["tags"])
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def from_json(value: Mapping[str, Any], tenant: str, user: str, new_id: Callable[[], str], now: datetime) -> Record:
    """The user's record an object describes; what is left out is as for a new memory. InvalidInput if it is none."""
    if unknown := value.keys() - _LINE.fields.keys():
        raise InvalidInput(f"a record has no {', '.join(sorted(unknown))}")
    given = {name: found for name, found in value.items() if found is not None}
    told = {"layer": "semantic", "type": "fact", "level": "session" if "session_id" in given else "user", **given}
    bucket = user_partition(tenant, user).bucket
    if "id" not in told:
        told["id"] = with_bucket(new_id(), bucket)
    elif (external := external_id(value)) is not None:
        noise = hashlib.blake2b(f"{tenant}\n{user}\n{external}".encode(), digest_size=10).digest()
        told["id"] = with_bucket(uuid7(from_micros(0), noise), bucket)
    record = _LINE.read(told, {"tenant": tenant, "user": user})
    if record.layer is Layer.WORKING:
        raise InvalidInput("layer: working records are not kept in files")
    if (record.home.level, record.session_id is None) not in ((Level.USER, True), (Level.SESSION, False)):
        raise InvalidInput("level is user, or session with a session_id")
    created = record.created_at or now
    record = replace(
        record,
        created_at=created,
        updated_at=max(created, record.updated_at or created),
        valid_from=record.valid_from or created,
        version=max(1, record.version),
        said=max(1, record.said),
    )
    # What people write is held to the limits of what a caller may set.
    changes = {name: getattr(record, name) for name in editable_fields() if name in given}
    return RecordChanges.validate(changes, now).apply_to(record)


def external_id(value: Mapping[str, Any]) -> str | None:
    """The id that another program gave; None where it is one of ours, or there is none."""
    told = value.get("id")
    return told if isinstance(told, str) and not is_id(told) and check_any_id(told, "id") else None


def apply_edit(old: Record, wanted: Record) -> Record:
    """The old record, saying what is wanted: also that a field is empty now."""
    said: dict[str, Any] = {name: getattr(wanted, name) for name in editable_fields()}
    return replace(old, **said, fingerprint=wanted.fingerprint)
