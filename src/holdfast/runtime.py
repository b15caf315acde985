"""What every verb is given: the store, the settings, and the outside world behind functions."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import Config
from holdfast.domain.ids import uuid7
from holdfast.domain.message import Message
from holdfast.domain.times import Clock
from holdfast.domain.tokens import TokenCounter, estimate
from holdfast.errors import InvalidInput
from holdfast.providers.embedder import Embedder
from holdfast.storage.base import Store

DATABASE = "holdfast.db"
SNAPSHOT = "sessions.json"  # left by another program, imported once


@dataclass(frozen=True, slots=True)
class Runtime:
    store: Store
    config: Config
    clock: Clock
    embedder: Embedder | None
    folder: Path | None
    count: TokenCounter = estimate

    def cost(self, message: Message) -> int:
        """What a message costs in a prompt. The estimate was stored with it; another counter counts anew."""
        return message.tokens if self.count is estimate else self.count(message.searchable)

    def new_id(self) -> str:
        return uuid7(self.clock(), secrets.token_bytes(10))

    def session_folder(self, session_id: str) -> Path | None:
        """Where a session's own files are; nowhere for a store that has no folder."""
        return None if self.folder is None else self.folder / "sessions" / session_id


def open_store(location: str, config: Config, clock: Clock) -> tuple[Store, Path | None]:
    """The store behind a folder, a file, ``:memory:`` or a PostgreSQL address, and its folder if it has one."""
    if location.startswith(("postgresql://", "postgres://")):
        from holdfast.storage.postgres.store import PostgresStore  # late: the driver is an extra

        return PostgresStore(location, config.storage, clock), None
    if "://" in location:
        raise InvalidInput(f"{location!r} is neither a folder nor postgresql://…; those are the stores there are")
    from holdfast.storage.sqlite.store import SqliteStore

    if location == ":memory:":
        return SqliteStore(location, config.storage, clock), None
    try:
        file = database_file(Path(location).expanduser())
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{location[:80]!r} names no place a store could be: {error}") from error
    return SqliteStore(str(file), config.storage, clock), file.parent


def database_file(path: Path) -> Path:
    """A file is itself, and so is a name that ends like one; anything else is a folder with a database in it."""
    return path if path.is_file() or (path.suffix == ".db" and not path.is_dir()) else path / DATABASE
