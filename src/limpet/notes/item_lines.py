"""Records as lines of JSON, to be read, compared and moved with plain tools.

``items/semantic.jsonl``, ``items/procedural.jsonl`` and ``items/episodic/YYYY-MM-DD.jsonl`` in an owner's folder. What
both sides last agreed on is in ``items/.sync.json``, by the digest of each record: a side that differs has changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from limpet.errors import InvalidInput, StorageError
from limpet.model.dataclass import dataclass, replace
from limpet.model.lines import LineCodec
from limpet.model.record import Layer, Record, RecordChanges, editable_fields
from limpet.model.scope import Level, user_partition
from limpet.model.values import check_any_id, from_micros, is_id, uuid7, with_bucket
from limpet.notes import files as note_files
from limpet.store.files import check_no_symlink, format_json_file, make_folder, parse_json_file, write_atomic

log = logging.getLogger("limpet.notes")

EPISODIC = "episodic"
SYNC = ".sync.json"
MAX_FILE_BYTES = 268_435_456
_FIXED_FILES = ("semantic.jsonl", "procedural.jsonl")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.jsonl")


@dataclass(frozen=True, slots=True)
class ItemLine:
    """A line of a file; ``value`` is its object, or ``problem`` says why there is none."""

    file: str
    number: int
    raw: bytes
    value: Mapping[str, Any] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SyncState:
    """The store that the files agree with, and each record's digest when they last did."""

    store: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemFiles:
    root: Path
    folder: Path

    def read(self) -> dict[str, bytes]:
        """Return every file of items, by its name in the folder."""
        found = {
            name: note_files.read_file(self.root, self.folder / name, MAX_FILE_BYTES) for name in self._list_names()
        }
        return {name: data for name, data in found.items() if data}

    def _list_names(self) -> list[str]:
        check_no_symlink(self.root, self.folder / EPISODIC)
        try:
            days = [path.name for path in (self.folder / EPISODIC).iterdir() if _DAY.fullmatch(path.name)]
        except FileNotFoundError:
            days = []
        except OSError as error:
            raise StorageError(f"cannot list {self.folder / EPISODIC}: {error.strerror}") from error
        return [*_FIXED_FILES, *(f"{EPISODIC}/{day}" for day in sorted(days))]

    def write(self, contents: Mapping[str, bytes], before: Mapping[str, bytes]) -> None:
        """Replace what differs from ``before``. Raises EditConflict if a file was saved since it was read."""
        for name in sorted({*contents, *before}):
            data = contents.get(name, b"")
            if data == before.get(name, b""):
                continue
            path = check_no_symlink(self.root, self.folder / name)
            make_folder(path.parent)
            write_atomic(path, data, note_files.make_unchanged_check(path, before.get(name, b"")))
            if not data:
                with suppress(OSError):  # an empty file says the same
                    path.unlink()

    def add_conflicts(self, lines: Sequence[ItemLine]) -> None:
        """Write lines that lost a conflict beside their file, each once."""
        for line in lines:
            path = check_no_symlink(self.root, self.folder / f"{line.file}.conflict")
            there = note_files.read_file(self.root, path, MAX_FILE_BYTES) or b""
            if line.raw not in there.split(b"\n"):
                write_atomic(path, there + line.raw + b"\n")

    def delete_records(self, ids: Collection[str]) -> None:
        """Remove the lines of these records, also from the conflict copies."""
        for name in chain.from_iterable((name, f"{name}.conflict") for name in self._list_names()):
            path = check_no_symlink(self.root, self.folder / name)

            def remove_lines(data: bytes, name: str = name) -> bytes:
                gone = {line.raw for line in parse_lines({name: data}) if line.value and line.value.get("id") in ids}
                left = [raw for raw in data.split(b"\n") if raw.removesuffix(b"\r") not in gone]
                return b"\n".join(left) if gone else data

            note_files.rewrite(path, remove_lines)

    def read_sync(self) -> SyncState:
        path = self.folder / SYNC
        data = note_files.read_file(self.root, path, MAX_FILE_BYTES)
        if not data:
            return SyncState()
        try:
            value = parse_json_file(data)
            return SyncState(str(value["store"]), {str(id): str(digest) for id, digest in value["digests"].items()})
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("%s is damaged (%s): lines that differ from their records will count as conflicts", path, error)
            return SyncState()

    def write_sync(self, sync: SyncState) -> None:
        path = check_no_symlink(self.root, self.folder / SYNC)
        write_atomic(path, format_json_file({"store": sync.store, "digests": dict(sorted(sync.digests.items()))}))


def parse_lines(files: Mapping[str, bytes]) -> list[ItemLine]:
    return [
        _parse_line(name, number, raw.removesuffix(b"\r"))
        for name, data in files.items()
        for number, raw in enumerate(data.split(b"\n"), start=1)
        if raw.strip()
    ]


def _parse_line(name: str, number: int, raw: bytes) -> ItemLine:
    try:
        value = parse_json_file(raw)
    except ValueError as error:
        return ItemLine(name, number, raw, problem=f"it is not JSON: {error}")
    if not isinstance(value, dict):
        return ItemLine(name, number, raw, problem="it is not a JSON object")
    return ItemLine(name, number, raw, value)


def dump_line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


# A record as a line, and back: checked, because people edit it

_TIMES = ("valid_from", "valid_to", "expires_at")


def _format_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


# Whose it is beside its level is not said: that is the place the line is kept in.
_LINE = LineCodec(
    Record, write_time=_format_time, keep_empty=True, leave_out=("tenant", "user", "agent", "fingerprint")
)


def record_to_json(record: Record) -> dict[str, Any]:
    line = _LINE.write(record)
    return line | {"metadata": dict(sorted(line["metadata"].items()))}


def compute_digest(record: Record) -> str:
    """Equal for records that say the same of the same times, however often they were used or changed."""
    return _hash_fields(record, tuple(editable_fields()))


def compute_timeless_digest(record: Record) -> str:
    """Equal for records that say the same, at whatever time."""
    return _hash_fields(record, tuple(name for name in editable_fields() if name not in _TIMES))


def _hash_fields(record: Record, names: tuple[str, ...]) -> str:
    line = record_to_json(record)
    said = {name: line[name] for name in ("level", "session_id", *names)}
    said["tags"] = sorted(said["tags"])
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def record_from_json(
    value: Mapping[str, Any], tenant: str, user: str, new_id: Callable[[], str], now: datetime
) -> Record:
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
