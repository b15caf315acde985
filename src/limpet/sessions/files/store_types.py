"""Store types for sessions kept as files: a store does what it can and says by name what it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

from limpet.errors import InvalidInput, Unsupported
from limpet.model.session import FileInfo, KvEntry
from limpet.model.values import Clock, check_name, check_text
from limpet.sessions.transcript import TranscriptEntry

KV_CAP = 200
TRANSCRIPT_CAP = 500
WORKING_MEMORY = "working_memory"


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


def _basic_session(folder: Path, *, kv_cap: int, transcript_cap: int, clock: Clock) -> SessionStore:
    from limpet.sessions.files.basic import BasicSession  # late: it builds on this module

    return BasicSession(folder, kv_cap=kv_cap, transcript_cap=transcript_cap, clock=clock)


_factories: dict[str, StoreFactory] = {"basic_session": _basic_session}


def register_store_type(name: str, factory: StoreFactory) -> None:
    """Registering the same again changes nothing; another factory under a taken name is refused."""
    if _factories.setdefault(check_name(name, "store type"), factory) is not factory:
        raise InvalidInput(f"the store type {name!r} is already registered")


def store_types() -> tuple[str, ...]:
    return tuple(sorted(_factories))


def open_store(
    name: str, folder: Path, *, kv_cap: int = KV_CAP, transcript_cap: int = TRANSCRIPT_CAP, clock: Clock
) -> SessionStore:
    return get_factory(name)(folder, kv_cap=kv_cap, transcript_cap=transcript_cap, clock=clock)


def get_factory(name: str) -> StoreFactory:
    try:
        return _factories[name]
    except KeyError:
        raise Unsupported(f"there is no store type {name!r}; known: {', '.join(store_types())}") from None
