"""Sessions kept as plain files: the index ``sessions.json`` and one folder for each session under ``sessions/``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from limpet.errors import ConstraintFailed, InvalidInput, SessionNotFound, StoreCorrupt, Unsupported
from limpet.model.dataclass import dataclass
from limpet.model.scope import DEFAULT_AGENT
from limpet.model.session import FileInfo, KvEntry
from limpet.model.values import Clock, IdFactory, check_id, check_name, check_time
from limpet.sessions.files.listing import list_folder
from limpet.sessions.files.store_types import KV_CAP, TRANSCRIPT_CAP, SessionStore, get_factory, open_store
from limpet.sessions.transcript import TranscriptEntry
from limpet.store import strict_json
from limpet.store.atomic_files import lock_file, make_folder, read_bytes, write_atomic
from limpet.store.timestamps import format_timestamp, parse_timestamp

BASIC = ("basic_session",)
T = TypeVar("T")
OpenType = Callable[[str, Path], SessionStore]


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
        types, created = list(self.store_types), format_timestamp(self.created_at)
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

    def kv_get(self, key: str) -> Any:
        return self._delegate("kv_get", lambda store: store.kv_get(key))

    def kv_set(self, key: str, value: Any) -> None:
        self._delegate("kv_set", lambda store: store.kv_set(key, value))

    def kv_delete(self, key: str) -> bool:
        return self._delegate("kv_delete", lambda store: store.kv_delete(key))

    def kv_items(self) -> list[KvEntry]:
        return self._delegate("kv_items", lambda store: store.kv_items())

    def transcript_append(self, role: str, text: str, created_at: datetime | None = None) -> TranscriptEntry:
        return self._delegate("transcript_append", lambda store: store.transcript_append(role, text, created_at))

    def transcript_read_last(self, n: int) -> list[TranscriptEntry]:
        return self._delegate("transcript_read_last", lambda store: store.transcript_read_last(n))

    @property
    def working_memory(self) -> str:
        return self._delegate("working_memory", lambda store: store.working_memory)

    def set_working_memory(self, text: str) -> None:
        self._delegate("set_working_memory", lambda store: store.set_working_memory(text))

    def list_files(self) -> list[FileInfo]:
        return list_folder(self.folder)

    @cached_property
    def _stores(self) -> tuple[SessionStore, ...]:
        return tuple(self._open_type(name, self.folder) for name in self.store_types)

    def _delegate(self, operation: str, call: Callable[[SessionStore], T]) -> T:
        for store in self._stores:
            try:
                return call(store)
            except Unsupported:
                continue
        raise Unsupported(f"no store of session {self.id} ({', '.join(self.store_types)}) supports {operation}")


class FileSessions:
    """Every call reads the index as it is now, so that several processes can share the folder."""

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
            make_folder(self._session_folder(entry.id))
            document["sessions"].append(entry.to_json())
            write_atomic(self._index, strict_json.dumps(document))
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
            document = strict_json.loads(data)
            return document, _checked_entries(document)
        except ValueError as error:
            raise StoreCorrupt(
                f"{self._index} is damaged: {error}. Nothing was overwritten; repair the file or move it away"
            ) from error

    def _session_folder(self, id: str) -> Path:
        return self._folder / "sessions" / id

    def _session(self, entry: IndexEntry) -> FileSession:
        return FileSession(entry, self._session_folder(entry.id), self._open_type)

    def _open_type(self, name: str, folder: Path) -> SessionStore:
        return open_store(name, folder, kv_cap=self._kv_cap, transcript_cap=self._transcript_cap, clock=self._clock)


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
            raise ValueError(f"the session {entry.id} is there twice")
        entries[entry.id] = entry
    return tuple(entries.values())


def _checked_types(store_types: Sequence[str]) -> tuple[str, ...]:
    """Unknown types are refused before anything is created."""
    if isinstance(store_types, str) or not store_types:
        raise InvalidInput(f"store_types is a list with at least one name, not {store_types!r}")
    for name in store_types:
        get_factory(name)
    return tuple(dict.fromkeys(store_types))
