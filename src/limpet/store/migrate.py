"""Numbered migrations, each applied in one transaction together with its record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from limpet.errors import MigrationError
from limpet.model.dataclass import dataclass

EXPORT_HINT = "export it with the program that made it, and import the export into a new store"
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class MigrationTarget(Protocol):
    """A database that can be brought forward."""

    def list_applied(self) -> Mapping[int, tuple[str, str]]:
        """version -> (name, checksum) of what was applied; empty for a new database."""

    def apply(self, migration: Migration) -> None:
        """In one transaction: check nobody else has applied it meanwhile, run it, record it."""


def load_migrations(package: str) -> list[Migration]:
    named = (
        (_FILE.fullmatch(entry.name), entry)
        for entry in Path(import_module(package).__path__[0], "migrations").iterdir()
    )
    found = [Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")) for match, entry in named if match]
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found


def apply_migrations(target: MigrationTarget, migrations: Sequence[Migration]) -> int:
    """Apply what is missing, in order. Returns how many were applied."""
    applied = target.list_applied()
    check_consistent_history(applied, migrations)
    missing = [migration for migration in migrations if migration.version not in applied]
    for migration in missing:
        target.apply(migration)
    if missing:  # another process may have applied some of them meanwhile
        check_consistent_history(target.list_applied(), migrations)
    return len(missing)


def check_consistent_history(applied: Mapping[int, tuple[str, str]], migrations: Iterable[Migration]) -> None:
    known = {migration.version: migration for migration in migrations}
    newest = max(applied, default=0)
    if newest > max(known, default=0):
        raise MigrationError(
            f"this database has schema {newest}, but this program knows only up to {max(known, default=0)}; "
            "upgrade limpet (nothing was changed)"
        )
    for version, (name, checksum) in sorted(applied.items()):
        migration = known[version]
        if migration.checksum != checksum:
            raise MigrationError(
                f"this database has another layout: its migration {version} ({name}) is not this program's;"
                f" {EXPORT_HINT} (nothing was changed)"
            )


def split_statements(sql: str) -> list[str]:
    """A migration's statements. Ours hold no semicolon but at a statement's end."""
    lines = (line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    return [piece.strip() for piece in "\n".join(lines).split(";") if piece.strip()]
