"""The files of a purge. Each step may be done again: a purge that was interrupted does."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from limpet.errors import InvalidInput, KeyMissing, LimpetError
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.item_sync import ItemSync
from limpet.lifecycle.purge_repository import PurgeRequest
from limpet.model.dataclass import dataclass
from limpet.model.message import Message, Role
from limpet.model.privacy import PurgeTarget
from limpet.model.scope import DEFAULT_TENANT, Scope
from limpet.model.values import Clock, check_id
from limpet.notes.user_notes import MEMORY_FILE, UserNotes, day_path, decode_text, format_line, lock_notes_file, rewrite
from limpet.sessions.repository import Messages, Sessions
from limpet.store.files import check_no_symlink, owner_folder
from limpet.store.store import Store
from limpet.store.tx import Tx

log = logging.getLogger("limpet.purge")

_IMPORTED = f"{SNAPSHOT}.migrated"

LineTest = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class PurgeFiles:
    store: Store
    notes: UserNotes
    item_sync: Callable[[Scope], ItemSync]
    mask: Callable[[str], str]
    clock: Clock
    order: PurgeRequest

    @property
    def root(self) -> Path | None:
        return self.notes.folder

    @property
    def folder(self) -> Path:
        assert self.root is not None
        return owner_folder(self.root, self.order.space)

    def delete_before_rows(self) -> int:
        """What only the messages tell how to find: the lines of a session in the daily notes."""
        if self.root is None or self.order.session is None or not self.folder.is_dir():
            return 0
        scope = self.order.session_scope(self.order.session)
        messages = self.store.read(lambda tx: Messages(tx).range(scope, None, None, None))
        return self._drop_lines(messages)

    def delete_after_rows(self, sessions: Collection[str], records: Collection[str], *, resumed: bool) -> int:
        """How many files went."""
        if self.root is None:
            return 0
        gone = self._drop_sessions(sessions, resumed=resumed) + self._drop_imported()
        if self.order.what is PurgeTarget.USER:
            return gone + remove_path(self.root, self.folder)
        self._drop_items(records, resumed=resumed)
        if self.order.before is not None and self.folder.is_dir():
            gone += self._drop_older(self.order.before)
        return gone

    def find_remaining(self, sessions: Collection[str]) -> list[str]:
        """What should be gone and is there."""
        if self.root is None:
            return []
        wanted = [self.root / "sessions" / session for session in sessions]
        wanted += [self.folder] if self.order.what is PurgeTarget.USER else []
        if self.order.before is not None and self.folder.is_dir():
            wanted += list(self._find_older(self.order.before))
        return [f"file {_mask_owner(self.root, path)}" for path in wanted if path.exists() or path.is_symlink()]

    def count(self, sessions: Collection[str]) -> int:
        """How many files would go."""
        if self.root is None:
            return 0
        folders = [self.root / "sessions" / session for session in sessions]
        folders += [self.folder] if self.order.what is PurgeTarget.USER else []
        found = [path for folder in folders if folder.is_dir() for path in folder.rglob("*") if path.is_file()]
        if self.order.before is not None and self.folder.is_dir():
            found += list(self._find_older(self.order.before))
        return len(found)

    # A session's

    def _drop_sessions(self, sessions: Collection[str], *, resumed: bool) -> int:
        assert self.root is not None
        found = [self.root / "sessions" / session for session in sessions]
        if resumed:  # whose they were is unknown by now; sessions without a row are orphans
            found += self._find_orphans(self.root / "sessions")
        return sum(remove_path(self.root, path) for path in found)

    def _find_orphans(self, folder: Path) -> list[Path]:
        if not folder.is_dir():
            return []
        names = [path.name for path in folder.iterdir() if _is_id(path.name)]
        tenants = self.store.list_tenants()
        known = self.store.read(
            lambda tx: {name for name in names for each in tenants if _has_session(tx, Scope(each, session=name))}
        )
        return [folder / name for name in names if name not in known]

    def _drop_lines(self, messages: Iterable[Message]) -> int:
        """Lines of the daily notes of which both sides were said in the session."""
        mask, sides, days = self.mask, set[str](), set[date]()
        for message in messages:
            if message.role in (Role.USER, Role.ASSISTANT) and message.created_at is not None:
                day = self.notes.local_day(message.created_at, self.order.space.owner)
                days |= {day, day + timedelta(days=1)}  # a turn's line stands where its reply came
                for text in {message.text, mask(message.text)}:
                    pair = (text, "") if message.role is Role.USER else ("", text)
                    sides.add(format_line(message.created_at, *pair)[8:])
        return sum(self._filter_day(day, lambda line: _is_from_session(line, sides)) for day in sorted(days))

    def _filter_day(self, day: date, goes: LineTest) -> int:
        path = day_path(self.folder, day)
        assert self.root is not None
        if not path.exists():
            return 0
        removed = 0

        def change(there: bytes) -> bytes:
            nonlocal removed
            lines = decode_text(path, there).splitlines(keepends=True)
            kept = [line for line in lines if not goes(line.rstrip("\r\n"))]
            removed = len(lines) - len(kept)
            return "".join(kept).encode() if removed else there

        with lock_notes_file(self.root, path):
            left = rewrite(path, change)
        if removed and not left.strip():
            for each in _file_and_lock(path):
                remove_path(self.root, each)
        return removed

    # Older

    def _drop_older(self, before: datetime) -> int:
        assert self.root is not None
        gone = sum(remove_path(self.root, path) for path in list(self._find_older(before)))
        moment = self.notes.open(self.order.space).to_local(before)
        return gone + bool(self._filter_day(moment.date(), partial(_is_before, f"[{moment:%H:%M}]")))

    def _find_older(self, before: datetime) -> Iterator[Path]:
        """Notes of days that were over; with what is explicit, MEMORY.md with its copies if unchanged since."""
        yield from find_old_notes(self.folder, self.notes.local_day(before, self.order.space.owner))
        if not self.order.takes_explicit:
            return
        yield from (path for path in sorted(self.folder.glob(f"{MEMORY_FILE}*")) if _is_unchanged(path, before))
        copies = sorted((self.folder / "items").glob("**/*.conflict"))
        yield from (path for path in copies if _is_unchanged(path, before))

    def _drop_items(self, records: Collection[str], *, resumed: bool) -> None:
        space = self.order.space
        self.notes.delete_item_lines(space.tenant, space.owner, records)
        if resumed and (self.folder / "items").is_dir():  # which records went is forgotten: only those there are stay
            self.item_sync(self.order.user_scope).export()

    def _drop_imported(self) -> int:
        """A snapshot that was taken in is a copy of what is in the store; it goes if the user is in it."""
        assert self.root is not None
        path = self.root / _IMPORTED
        if self.order.space.tenant != DEFAULT_TENANT or not path.is_file():
            return 0
        from limpet.lifecycle.formats.snapshot import parse_snapshot  # late: few stores ever import

        try:
            snapshot = parse_snapshot(path.read_bytes(), now=self.clock())
        except InvalidInput:
            log.warning("%s cannot be read; look whether it tells of who was purged", path)
            return 0
        return remove_path(self.root, path) if any(s.user == self.order.space.owner for s in snapshot.sessions) else 0


def _has_session(tx: Tx, session: Scope) -> bool:
    try:
        return Sessions(tx).get(session) is not None
    except KeyMissing:  # there is a row, which needs a key to be read
        return True


def _is_from_session(line: str, sides: Collection[str]) -> bool:
    parts = line[8:].split(" | ")
    return line.startswith("[") and all(part in sides for part in parts)


def _is_before(moment: str, line: str) -> bool:
    return line.startswith("[") and line[:7] < moment


def find_old_notes(folder: Path, first: date) -> list[Path]:
    """The notes of days before this one, with their copies and locks."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if (day := _parse_day(path.name)) is not None and day < first]


def _parse_day(name: str) -> date | None:
    """Of a day's notes, its copies and its lock."""
    try:
        return date.fromisoformat(name.lstrip(".")[:10]) if ".md" in name else None
    except ValueError:
        return None


def _is_unchanged(path: Path, since: datetime) -> bool:
    return path.is_file() and path.lstat().st_mtime < since.timestamp()


def _is_id(name: str) -> bool:
    try:
        check_id(name, "session id")
    except LimpetError:
        return False
    return True


def _file_and_lock(path: Path) -> list[Path]:
    """The file with its lock."""
    return [path, path.with_name(f"{path.name}.lock")]


def remove_path(root: Path, path: Path) -> int:
    """How many files went. A link is removed, and what it leads to left alone."""
    check_no_symlink(root, path.parent)
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
            return 1
        if not path.is_dir():
            return 0
        count = sum(1 for each in path.rglob("*") if each.is_file())
        shutil.rmtree(path)
    except OSError as error:
        log.warning("a file could not be removed: %s", error.strerror)
        return 0
    return count


def _mask_owner(root: Path, path: Path) -> str:
    """Where a file is, without whose it is."""
    parts = path.relative_to(root).parts
    return "/".join("…" if before == "users" else part for before, part in zip(("", *parts), parts, strict=False))
