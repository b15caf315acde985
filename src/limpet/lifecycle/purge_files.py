"""The notes and files of a purge. Each step may be done again: a purge that was interrupted does."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import date, timedelta
from pathlib import Path

from limpet.errors import InvalidInput, KeyMissing
from limpet.lifecycle import SNAPSHOT
from limpet.lifecycle.item_sync import ItemSync
from limpet.lifecycle.purge_repository import PurgeRequest
from limpet.model.dataclass import dataclass
from limpet.model.message import Message, Role
from limpet.model.note import MEMORY_FILE, day_name, format_line
from limpet.model.privacy import PurgeTarget
from limpet.model.scope import DEFAULT_TENANT, Scope
from limpet.model.values import Clock, is_id
from limpet.notes.user_notes import UserNotes
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
    item_sync: Callable[[Scope], ItemSync | None]
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
        """A user's folder. It goes once more afterwards: nobody may read its notes into the store in between."""
        if self.root is None or self.order.what is not PurgeTarget.USER:
            return 0
        return remove_path(self.root, self.folder)

    def delete_session_lines(self) -> int:
        """What only the messages tell how to find: the lines of a session in the daily notes."""
        if self.order.session is None:
            return 0
        scope = self.order.session_scope(self.order.session)
        return self._drop_lines(self.store.read(lambda tx: Messages(tx).range(scope, None, None, None)))

    def delete_old_notes(self) -> int:
        """How many notes went, or lost what is older."""
        before, space = self.order.before, self.order.space
        if before is None:
            return 0
        names = self._find_old_notes()
        if names:
            self.notes.delete(space, names)
        moment = self.notes.to_local(before, space.owner)
        return len(names) + bool(
            self._filter_day(moment.date(), lambda line: line.startswith("[") and line[:7] < f"[{moment:%H:%M}]")
        )

    def delete_after_rows(self, sessions: Collection[str], records: Collection[str], *, resumed: bool) -> int:
        """How many files went."""
        if self.root is None:
            return 0
        paths = self._list_folders(sessions)
        if resumed:  # whose they were is unknown by now; sessions without a row are orphans
            paths += self._find_orphans(self.root / "sessions")
        if self.order.what is not PurgeTarget.USER:
            self._drop_items(records, resumed=resumed)
            paths += self._find_old_copies()
        return sum(remove_path(self.root, path) for path in paths) + self._drop_imported()

    def find_remaining(self, sessions: Collection[str]) -> list[str]:
        left = [f"note {name}" for name in self._find_old_notes()]
        if self.root is None:
            return left
        found = [path for path in self._list_folders(sessions) if path.exists() or path.is_symlink()]
        return left + [f"file {_mask_owner(self.root, path)}" for path in [*found, *self._find_old_copies()]]

    def count(self, sessions: Collection[str]) -> Counter[str]:
        """How many notes and files would go. The notes of a whole user are rows."""
        counts = Counter(notes=len(self._find_old_notes()))
        if self.root is not None:
            folders = [path for path in self._list_folders(sessions) if path.is_dir()]
            files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
            counts["files"] = len(files) + len(self._find_old_copies())
        return counts

    def _list_folders(self, sessions: Collection[str]) -> list[Path]:
        """Those that go whole: of the sessions, and of the user."""
        assert self.root is not None
        found = [self.root / "sessions" / session for session in sessions]
        return [*found, self.folder] if self.order.what is PurgeTarget.USER else found

    # A session's

    def _find_orphans(self, folder: Path) -> list[Path]:
        if not folder.is_dir():
            return []
        names = [path.name for path in folder.iterdir() if is_id(path.name)]
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
        space, name, removed = self.order.space, day_name(day), 0

        def change(there: str) -> str:
            nonlocal removed
            lines = there.splitlines(keepends=True)
            kept = [line for line in lines if not goes(line.rstrip("\r\n"))]
            removed = len(lines) - len(kept)
            return "".join(kept)

        if self.notes.get(space, name) is None:
            return 0
        left = self.notes.edit(space, name, change).note.text
        if removed and not left.strip():
            self.notes.delete(space, [name])
        return removed

    # Older

    def _find_old_notes(self) -> list[str]:
        """Notes of days that were over; with what is explicit, MEMORY.md if it was not changed since."""
        space, before = self.order.space, self.order.before
        if before is None:
            return []
        names = self.notes.find_days_before(space, self.notes.local_day(before, space.owner))
        note = self.notes.get(space, MEMORY_FILE) if self.order.takes_explicit else None
        return names if note is None or note.updated_at >= before else [*names, MEMORY_FILE]

    def _find_old_copies(self) -> list[Path]:
        """Copies of texts that lost a conflict before a moment."""
        before = self.order.before
        if before is None or not self.order.takes_explicit:
            return []
        copies = [*self.folder.glob(f"{MEMORY_FILE}.conflict*"), *(self.folder / "items").glob("**/*.conflict")]
        since = before.timestamp()
        return [path for path in sorted(copies) if path.is_file() and path.lstat().st_mtime < since]

    def _drop_items(self, records: Collection[str], *, resumed: bool) -> None:
        space = self.order.space
        self.notes.delete_item_lines(space.tenant, space.owner, records)
        if resumed and (self.folder / "items").is_dir():  # which records went is forgotten: only those there are stay
            items = self.item_sync(self.order.user_scope)
            if items is not None:
                items.export()

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
