"""Sessions kept as plain files: the index ``sessions.json``, and one folder for each session under ``sessions/``.

A session has stores of one or more types; a store does what it can and says by name what it cannot. Nothing is kept in
memory between calls: every operation reads the file as it is now, and a change is read, made and replaced under the
file's lock, so that no writer undoes another's work, and several processes can share the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from limpet.errors import ConstraintFailed, InvalidInput, SessionNotFound, StorageError, StoreCorrupt, Unsupported
from limpet.model.dataclass import dataclass
from limpet.model.late import lazy_property
from limpet.model.scope import DEFAULT_AGENT
from limpet.model.session import FileInfo, KvEntry
from limpet.model.values import (
    Clock,
    IdFactory,
    check_id,
    check_json,
    check_name,
    check_text,
    check_time,
    format_utc,
    from_micros,
)
from limpet.sessions.transcript import TranscriptEntry, checked_role, parse, render_entry, split
from limpet.store.files import (
    format_json_file,
    is_bookkeeping,
    lock_file,
    make_folder,
    parse_json_file,
    parse_timestamp,
    read_bytes,
    write_atomic,
)

KV_CAP = 200
TRANSCRIPT_CAP = 500
WORKING_MEMORY = "working_memory"
BASIC = ("basic_session",)
T = TypeVar("T")
OpenType = Callable[[str, Path], "SessionStore"]


def session_folder(root: Path, session_id: str) -> Path:
    """Where a session's own files are, below the store's folder."""
    return root / "sessions" / session_id


def list_folder(folder: Path) -> list[FileInfo]:
    """The plain files directly inside, by name. Links are left out: they may lead to another user's files."""
    try:
        with os.scandir(folder) as entries:
            found = [_describe(entry) for entry in entries if not is_bookkeeping(entry.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot list {folder}: {error.strerror}; check the path and its permissions") from error
    return sorted((info for info in found if info), key=lambda info: info.name)


def _describe(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return FileInfo(entry.name, facts.st_size, from_micros(facts.st_mtime_ns // 1000))


class SessionStore:
    """Override what the type can do; everything else raises Unsupported with the type and the operation."""

    type_name: ClassVar[str] = ""

    def kv_get(self, key: str) -> Any:
        """The value, or None."""
        self._raise_unsupported("kv_get")

    def kv_set(self, key: str, value: Any) -> None:
        self._raise_unsupported("kv_set")

    def kv_delete(self, key: str) -> bool:
        """Whether there was such a key."""
        self._raise_unsupported("kv_delete")

    def kv_items(self) -> list[KvEntry]:
        """Least recently set first."""
        self._raise_unsupported("kv_items")

    def transcript_append(self, role: str, text: str, created_at: datetime | None = None) -> TranscriptEntry:
        self._raise_unsupported("transcript_append")

    def transcript_read_last(self, n: int) -> list[TranscriptEntry]:
        """The newest n entries, oldest of them first."""
        self._raise_unsupported("transcript_read_last")

    def list_files(self) -> list[FileInfo]:
        self._raise_unsupported("list_files")

    @property
    def working_memory(self) -> str:
        """The text under its key, "" when there is none. A store with key-value entries has this for free."""
        value = self._translate_unsupported("working_memory", lambda: self.kv_get(WORKING_MEMORY))
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def set_working_memory(self, text: str) -> None:
        check_text(text, "working memory")
        self._translate_unsupported("set_working_memory", lambda: self.kv_set(WORKING_MEMORY, text))

    def _translate_unsupported(self, operation: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Unsupported:
            self._raise_unsupported(operation)

    def _raise_unsupported(self, operation: str) -> NoReturn:
        raise Unsupported(f"the store type {self.type_name or type(self).__name__!r} does not support {operation}")


class StoreFactory(Protocol):
    def __call__(self, folder: Path, *, kv_cap: int, transcript_cap: int, clock: Clock) -> SessionStore: ...


class BasicSession(SessionStore):
    """The reference store type: ``kv.json`` and ``transcript.md``, to be read with an editor."""

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
        entry = {"key": key, "value": copy, "ts": format_utc(self._clock())}
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
            document = _checked_document(parse_json_file(data))
        except ValueError as error:
            raise _corrupt_error(self._kv, error) from error
        # The file may have been written under a larger cap.
        return {**document, "entries": document["entries"][-self._kv_cap :]}

    def _save(self, document: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        document = {**document, "cap": self._kv_cap, "entries": entries[-self._kv_cap :]}
        write_atomic(self._kv, format_json_file(document))

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
            raise InvalidInput(f"the key {key!r} appears twice")
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


_factories: dict[str, StoreFactory] = {"basic_session": BasicSession}


def register_store_type(name: str, factory: StoreFactory) -> None:
    """Registering the same again changes nothing; another factory under a taken name is refused."""
    if _factories.setdefault(check_name(name, "store type"), factory) is not factory:
        raise InvalidInput(f"the store type {name!r} is already registered")


def store_types() -> tuple[str, ...]:
    return tuple(sorted(_factories))


def get_factory(name: str) -> StoreFactory:
    try:
        return _factories[name]
    except KeyError:
        raise Unsupported(f"there is no store type {name!r}; known: {', '.join(store_types())}") from None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    id: str
    agent: str
    store_types: tuple[str, ...]
    created_at: datetime

    @classmethod
    def from_json(cls, value: Any) -> IndexEntry:
        """ValueError unless it is an entry. Ids are checked here too: the file may have been edited."""
        if not isinstance(value, dict) or not isinstance(value.get("store_types"), list):
            raise InvalidInput("it is not an object with a list of store_types")
        types = tuple(check_name(name, "a store type") for name in value["store_types"])
        agent = check_name(value.get("agent_id"), "agent_id")
        return cls(check_id(value.get("id"), "id"), agent, types, parse_timestamp(str(value.get("created_at"))))

    def to_json(self) -> dict[str, Any]:
        types, created = list(self.store_types), format_utc(self.created_at)
        return {"id": self.id, "agent_id": self.agent, "store_types": types, "created_at": created}


class FileSession(SessionStore):
    """Each operation goes to the first of the session's stores that supports it. Safe to share between threads."""

    type_name: ClassVar[str] = "session"

    def __init__(self, entry: IndexEntry, folder: Path, open_type: OpenType) -> None:
        self.id = entry.id
        self.agent = entry.agent
        self.created_at = entry.created_at
        self.store_types = entry.store_types
        self.folder = folder
        self._open_type = open_type

    @property
    def working_memory(self) -> str:
        return self.call_first("working_memory", lambda store: store.working_memory)

    def list_files(self) -> list[FileInfo]:
        return list_folder(self.folder)

    @lazy_property
    def _stores(self) -> tuple[SessionStore, ...]:
        return tuple(self._open_type(name, self.folder) for name in self.store_types)

    def call_first(self, operation: str, call: Callable[[SessionStore], T]) -> T:
        for store in self._stores:
            try:
                return call(store)
            except Unsupported:
                continue
        raise Unsupported(f"no store of session {self.id} ({', '.join(self.store_types)}) supports {operation}")


def _delegate(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def delegate(self: FileSession, *args: Any, **named: Any) -> Any:
        return self.call_first(method.__name__, lambda store: getattr(store, method.__name__)(*args, **named))

    return delegate


for _method in (
    SessionStore.kv_get,
    SessionStore.kv_set,
    SessionStore.kv_delete,
    SessionStore.kv_items,
    SessionStore.transcript_append,
    SessionStore.transcript_read_last,
    SessionStore.set_working_memory,
):
    setattr(FileSession, _method.__name__, _delegate(_method))


class FileSessions:
    """The sessions of a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock,
        new_id: IdFactory,
        kv_cap: int = KV_CAP,
        transcript_cap: int = TRANSCRIPT_CAP,
        store_types: Sequence[str] = BASIC,
        agent: str = DEFAULT_AGENT,
    ) -> None:
        self._folder = folder
        self._index = folder / "sessions.json"
        self._clock = clock
        self._new_id = new_id
        self._kv_cap = kv_cap
        self._transcript_cap = transcript_cap
        self._store_types = store_types
        self._agent = agent

    def create_session(self, store_types: Sequence[str] | None = None, agent: str | None = None) -> FileSession:
        """Without store types or an agent, those that the settings name."""
        entry = IndexEntry(
            check_id(self._new_id(), "session id"),
            check_name(self._agent if agent is None else agent, "agent"),
            _checked_types(self._store_types if store_types is None else store_types),
            check_time(self._clock(), "created_at"),
        )
        make_folder(self._folder)
        with lock_file(self._index):
            document, entries = self._read()
            if any(entry.id == other.id for other in entries):
                raise ConstraintFailed(f"there is already a session {entry.id} in {self._index}")
            # The folder comes first: an entry in the index always has one.
            make_folder(session_folder(self._folder, entry.id))
            document["sessions"].append(entry.to_json())
            write_atomic(self._index, format_json_file(document))
        return self._session(entry)

    def load_session(self, id: str) -> FileSession:
        """An id that is not a UUID is InvalidKey: it must not name a folder elsewhere."""
        wanted = check_id(id, "session id")
        for entry in self._read()[1]:
            if entry.id == wanted:
                return self._session(entry)
        raise SessionNotFound(f"there is no session {wanted} in {self._index}")

    def list(self) -> tuple[FileSession, ...]:
        """In the order of creation."""
        return tuple(map(self._session, self._read()[1]))

    def _read(self) -> tuple[dict[str, Any], tuple[IndexEntry, ...]]:
        """The document with whatever people added to it, and its entries."""
        data = read_bytes(self._index)
        if data is None:
            return {"sessions": []}, ()
        try:
            document = parse_json_file(data)
            return document, _checked_entries(document)
        except ValueError as error:
            raise _corrupt_error(self._index, error) from error

    def _session(self, entry: IndexEntry) -> FileSession:
        return FileSession(entry, session_folder(self._folder, entry.id), self._open_type)

    def _open_type(self, name: str, folder: Path) -> SessionStore:
        return get_factory(name)(folder, kv_cap=self._kv_cap, transcript_cap=self._transcript_cap, clock=self._clock)


def _checked_entries(document: Any) -> tuple[IndexEntry, ...]:
    if not isinstance(document, dict) or not isinstance(document.get("sessions"), list):
        raise InvalidInput("it is not an object with a list of sessions")
    entries: dict[str, IndexEntry] = {}
    for position, value in enumerate(document["sessions"]):
        try:
            entry = IndexEntry.from_json(value)
        except ValueError as error:
            raise ValueError(f"session {position}: {error}") from None
        if entry.id in entries:
            raise ValueError(f"the session {entry.id} appears twice")
        entries[entry.id] = entry
    return tuple(entries.values())


def _checked_types(store_types: Sequence[str]) -> tuple[str, ...]:
    """Unknown types are refused before anything is created."""
    if isinstance(store_types, str) or not store_types:
        raise InvalidInput(f"store_types is a list with at least one name, not {store_types!r}")
    for name in store_types:
        get_factory(name)
    return tuple(dict.fromkeys(store_types))
