"""The reference store type: ``kv.json`` and ``transcript.md``, to be read with an editor.

Nothing is kept in memory between calls: every operation reads the file as it is now, and a change is read, made and
replaced under the file's lock, so that no writer undoes another's work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from limpet.errors import InvalidInput, StoreCorrupt
from limpet.model.session import FileInfo, KvEntry
from limpet.model.values import Clock, check_json, check_name, check_text, check_time
from limpet.sessions.files.listing import list_folder
from limpet.sessions.files.store_types import KV_CAP, TRANSCRIPT_CAP, SessionStore
from limpet.sessions.transcript import TranscriptEntry, checked_role, parse, render_entry, split
from limpet.store import strict_json
from limpet.store.atomic_files import lock_file, make_folder, read_bytes, write_atomic
from limpet.store.timestamps import format_timestamp, parse_timestamp


class BasicSession(SessionStore):
    type_name: ClassVar[str] = "basic_session"

    def __init__(
        self, folder: Path, *, kv_cap: int = KV_CAP, transcript_cap: int = TRANSCRIPT_CAP, clock: Clock
    ) -> None:
        self._folder = folder
        self._kv = folder / "kv.json"
        self._transcript = folder / "transcript.md"
        self._kv_cap = _checked_count(kv_cap, "kv_cap", least=1)
        self._transcript_cap = _checked_count(transcript_cap, "transcript_cap", least=1)
        self._clock = clock

    def kv_get(self, key: str) -> Any:
        check_name(key, "key")
        return next((entry["value"] for entry in self._entries() if entry["key"] == key), None)

    def kv_items(self) -> list[KvEntry]:
        return [KvEntry(entry["key"], entry["value"], parse_timestamp(entry["ts"])) for entry in self._entries()]

    def kv_set(self, key: str, value: Any) -> None:
        check_name(key, "key")
        copy = json.loads(check_json(value, f"the value of {key!r}"))
        entry = {"key": key, "value": copy, "ts": format_timestamp(self._clock())}
        with self._lock_file(self._kv):
            document = self._document()
            others = [other for other in document["entries"] if other["key"] != key]
            self._save(document, [*others, entry])

    def kv_delete(self, key: str) -> bool:
        check_name(key, "key")
        with self._lock_file(self._kv):
            document = self._document()
            others = [other for other in document["entries"] if other["key"] != key]
            found = len(others) < len(document["entries"])
            if found:
                self._save(document, others)
        return found

    def transcript_append(self, role: str, text: str, created_at: datetime | None = None) -> TranscriptEntry:
        moment = check_time(self._clock() if created_at is None else created_at, "created_at")
        entry = TranscriptEntry(checked_role(role), moment, check_text(text, "text"))
        with self._lock_file(self._transcript):
            # Entries stay as they are written, so that what a person edited by hand is not reworded.
            preamble, blocks = split(_end_with_blank_line(self._transcript_text()))
            kept = [*blocks, render_entry(entry)][-self._transcript_cap :]
            write_atomic(self._transcript, (preamble + "".join(kept)).encode())
        return entry

    def transcript_read_last(self, n: int) -> list[TranscriptEntry]:
        wanted = min(_checked_count(n, "n", least=0), self._transcript_cap)
        return parse(self._transcript_text())[-wanted:] if wanted else []

    def list_files(self) -> list[FileInfo]:
        return list_folder(self._folder)

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._document()["entries"]
        return entries

    def _document(self) -> dict[str, Any]:
        data = read_bytes(self._kv)
        if data is None:
            return {"cap": self._kv_cap, "entries": []}
        try:
            document = _checked_document(strict_json.loads(data))
        except ValueError as error:
            raise _corrupt_error(self._kv, error) from error
        # The file may have been written under a larger cap.
        return {**document, "entries": document["entries"][-self._kv_cap :]}

    def _save(self, document: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        document = {**document, "cap": self._kv_cap, "entries": entries[-self._kv_cap :]}
        write_atomic(self._kv, strict_json.dumps(document))

    def _transcript_text(self) -> str:
        try:
            return (read_bytes(self._transcript) or b"").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _corrupt_error(self._transcript, error) from error

    @contextmanager
    def _lock_file(self, path: Path) -> Iterator[None]:
        make_folder(self._folder)
        with lock_file(path):
            yield


def _checked_document(document: Any) -> dict[str, Any]:
    """InvalidInput unless this is a kv.json. Fields people added stay where they are."""
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise InvalidInput("it is not an object with a list of entries")
    keys: set[str] = set()
    for position, entry in enumerate(document["entries"]):
        if not isinstance(entry, dict) or "value" not in entry:
            raise InvalidInput(f"entry {position} is not an object with a value")
        key, ts = entry.get("key"), entry.get("ts")
        if not isinstance(key, str) or not isinstance(ts, str):
            raise InvalidInput(f"entry {position} has no text for its key or its ts")
        if key in keys:
            raise InvalidInput(f"the key {key!r} is there twice")
        keys.add(key)
        parse_timestamp(ts)
    return document


def _end_with_blank_line(text: str) -> str:
    """An editor may have cut the last blank line; the next header must begin a line of its own."""
    if not text:
        return text
    return text if text.endswith(("\n\n", "\n\r\n")) else text + ("\n" if text.endswith("\n") else "\n\n")


def _corrupt_error(path: Path, error: ValueError) -> StoreCorrupt:
    return StoreCorrupt(f"{path} is damaged: {error}. Nothing was overwritten; repair the file or move it away")


def _checked_count(value: object, what: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{what} must be a whole number of at least {least}, not {value!r}")
    return value
