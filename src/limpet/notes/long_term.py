"""MEMORY.md: written by programs and people, in any order."""

from __future__ import annotations

import threading
from hashlib import sha256
from pathlib import Path

from limpet.errors import InvalidInput, WrongState
from limpet.model.dataclass import dataclass
from limpet.model.values import check_text
from limpet.notes import edited

MEMORY_FILE = "MEMORY.md"
ANY_VERSION = "*"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What the file holds now, and where the text went that could not be brought together with it."""

    text: str
    conflict: Path | None = None


class LongTerm:
    """A user's MEMORY.md. A handle knows what it last read: a write is an edit of that. Safe between threads."""

    def __init__(self, root: Path, folder: Path, max_bytes: int) -> None:
        self._root = root
        self._file = folder / MEMORY_FILE
        self._most = max_bytes
        self._seen = b""
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<LongTerm {self._file}>"

    @property
    def path(self) -> Path:
        return self._file

    def read(self) -> str:
        """The text as it is now, "" where there is none."""
        with self._turn:
            self._seen = edited.read_file(self._root, self._file, self._most)
            return edited.decode_text(self._file, self._seen)

    def write(self, text: str, *, version: str | None = None) -> WriteResult:
        """Replace what was last read through this handle.

        Where the file has become another since, both sides are kept: what one side only added is joined to the other;
        else the file stays as it is and the text goes to ``MEMORY.md.conflict``. For a caller that has no handle from
        one call to the next, ``version`` is what they read: ``version_of`` it, or ``"*"`` for whatever is there. If the
        file is another by now, that is WrongState and nothing was written.
        """
        new = check_text(text, MEMORY_FILE, max_bytes=self._most).encode()
        if version is not None:
            check_text(version, "version")
        with self._turn, edited.lock_notes_file(self._root, self._file):
            if version is not None:
                self._seen = self._read_version(version)
            return self._replace(new)

    def append(self, text: str) -> WriteResult:
        """Add a paragraph or a line at the end, whatever the file holds."""
        added = check_text(text, MEMORY_FILE, max_bytes=self._most).encode()

        def change(there: bytes) -> bytes:
            after = _end_line(there) + _end_line(added)
            if len(after) > self._most:
                raise InvalidInput(f"{MEMORY_FILE} would be {len(after):,} bytes long; the limit is {self._most:,}")
            return after

        with self._turn, edited.lock_notes_file(self._root, self._file):
            return WriteResult(edited.decode_text(self._file, edited.rewrite(self._file, change)))

    def _read_version(self, version: str) -> bytes:
        there = edited.read_file(self._root, self._file, self._most)
        if version not in (ANY_VERSION, compute_version(edited.decode_text(self._file, there))):
            raise WrongState(
                f"{MEMORY_FILE} has changed since that version was read; read it again, nothing was written"
            )
        return there

    def _replace(self, new: bytes) -> WriteResult:
        conflict: Path | None = None

        def change(there: bytes) -> bytes:
            nonlocal conflict
            after, lost = there, None
            joined = merge_edits(self._seen, there, new)
            if joined is None or len(joined) > self._most:
                lost = new
            else:
                after = joined
                if not edited.is_text(there) and there not in joined:
                    lost = there  # what was read of it was not all of it
            # The copy comes first: at no moment is either text nowhere.
            conflict = None if lost is None else edited.save_conflict_copy(self._file, lost)
            return after

        after = edited.rewrite(self._file, change)
        if conflict is None:
            # What others added meanwhile was not read here: the next write must keep it too.
            self._seen = new
        else:
            edited.log.warning("%s was changed by somebody else; the other text is in %s", self._file, conflict)
        return WriteResult(edited.decode_text(self._file, after), conflict)


def compute_version(text: str) -> str:
    """Short, and another one for another text."""
    return sha256(text.encode()).hexdigest()[:12]


def merge_edits(base: bytes, there: bytes, new: bytes) -> bytes | None:
    """The text that holds both edits of the base, or None where they are more than additions at the end."""
    if there in (base, new):
        return new
    if not base:
        return None
    if (added := _find_appended(base, new)) is not None:
        return _end_line(there) + added
    if (added := _find_appended(base, there)) is not None:
        return _end_line(new) + added
    return None


def _find_appended(base: bytes, text: bytes) -> bytes | None:
    """The whole lines a text has more than its base; None where it differs otherwise."""
    rest = text.removeprefix(base)
    if not text.startswith(base) or not (base.endswith(b"\n") or rest.startswith((b"\n", b"\r\n"))):
        return None
    return rest.lstrip(b"\r\n")


def _end_line(data: bytes) -> bytes:
    """The text with its last line ended, so that the next begins a line of its own."""
    return data if not data or data.endswith(b"\n") else data + b"\n"
