"""Files beside a store: private from the moment they exist, whole at every moment, written by one at a time."""

from __future__ import annotations

import contextlib
import encodings.utf_8_sig  # noqa: F401 - a codec is imported at its first use, where an interrupt may come
import errno
import hashlib
import json
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from limpet.errors import InvalidInput, StorageError, StoreBusy, StoreFull, StoreReadOnly
from limpet.model.late import load_modules
from limpet.model.scope import DEFAULT_TENANT, Level, Partition
from limpet.model.text_cache import cache_texts
from limpet.model.values import check_time, refuse_constant

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_TIMEOUT = 10.0

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_HELD = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES}
_NO_FOLDER_SYNC = {errno.EINVAL, errno.EOPNOTSUPP}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.01
_WINDOWS_TRIES = 100


def read_bytes(path: Path) -> bytes | None:
    """The whole file, or None where there is none. Needs no lock: a replaced file is either the old or the new one."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error


def write_atomic(path: Path, data: bytes, last_look: Callable[[], None] | None = None, *, lasting: bool = True) -> None:
    """Replace the file so that a reader, or a crash at any moment, finds the old bytes or the new ones.

    A path with more than one writer is written inside ``locked(path)``. An editor takes no locks: ``last_look`` is
    called when the new bytes are on the disk and only the name has to change hands, and may raise to leave the old.
    Unless it is ``lasting``, a power cut may bring back the old bytes.
    """
    target = _resolve_link(path)
    with translate_errors(target, "write"):
        temporary = _write_temporary(target, data)
        try:
            if last_look is not None:
                last_look()
            _replace(temporary, target)
        except BaseException:  # why: whatever it was, the half-way file goes; it goes on as it came
            temporary.unlink(missing_ok=True)
            raise
        if lasting:
            sync_folder(target.parent)


@contextlib.contextmanager
def create_database(path: str, action: str) -> Iterator[Path]:
    """A place for a new SQLite file, which appears at the path whole or not at all."""
    file = Path(path)
    if os.path.exists(file):  # not Path.exists, which raises for a name that is too long
        raise InvalidInput(f"{file} exists already; name a new file for the {action}")
    leftovers = [file.with_name(f"{file.name}.unfinished{end}") for end in ("", "-wal", "-shm", "-queue")]
    try:
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        yield leftovers[0]
        os.replace(leftovers[0], file)
    except OSError as error:
        raise StorageError(f"the {action} to {file} failed: {error.strerror}; nothing was left there") from error
    finally:
        for leftover in leftovers:
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create the folder and its parents for their owner alone, and make their names survive a power cut."""
    with translate_errors(folder, "create"):
        for place in make_private_folders(folder):
            sync_folder(place.parent)


@contextlib.contextmanager
def lock_file(path: Path, *, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold ``<path>.lock`` alone, among the threads of this process and among processes.

    The lock belongs to an open file, so the kernel drops it when its holder dies; the lock file itself stays, because
    removing it would let two holders lock two different files of one name. Not re-entrant.
    """
    target = _resolve_link(path)
    lock = target.with_name(f"{target.name}.lock")
    with translate_errors(lock, "lock"):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for_lock(descriptor, lock, timeout)
        try:
            _remove_leftovers(target)
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


def is_bookkeeping(name: str) -> bool:
    """Whether a file name is that of a lock or of an unfinished write."""
    return name.endswith(".lock") or (name.startswith(".") and name.endswith(".tmp"))


def _resolve_link(path: Path) -> Path:
    """Where a link leads: replacing the link itself would part it from the file its owner edits."""
    return Path(os.path.realpath(path)) if os.path.islink(path) else path


def _write_temporary(target: Path, data: bytes) -> Path:
    load_modules("tempfile")
    import tempfile  # late: few programs write files

    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _keep_mode(temporary, target)
    except BaseException:  # why: whatever it was, the half-way file goes; it goes on as it came
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _keep_mode(temporary: Path, target: Path) -> None:
    """A file its owner has shared stays shared; a new one is private."""
    with contextlib.suppress(FileNotFoundError):
        temporary.chmod(stat.S_IMODE(target.stat().st_mode))


def _replace(temporary: Path, target: Path) -> None:
    # Windows refuses to replace a file while somebody has it open for reading.
    tries = _WINDOWS_TRIES if sys.platform == "win32" else 1
    for left in reversed(range(tries)):
        try:
            temporary.replace(target)
            return
        except PermissionError:
            if not left:
                raise
            time.sleep(_LONGEST_PAUSE)


def sync_folder(folder: Path) -> None:
    """Without this the new name may be gone after a power cut. Windows has no such call."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, lock: Path, timeout: float) -> None:
    waited, pause = 0.0, _FIRST_PAUSE
    while not _try_lock(descriptor, lock):
        if waited >= timeout:
            raise StoreBusy(f"{lock} has been held by another process or thread for {timeout:g} s; try again later")
        time.sleep(pause)
        waited += pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def _try_lock(descriptor: int, lock: Path) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise _storage_error(error, lock, "lock") from error
    return True


def _release(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _remove_leftovers(target: Path) -> None:
    """Remove what a killed writer left behind: it holds text that may since have been forgotten."""
    start = f".{target.name}."
    with translate_errors(target.parent, "clean up"):
        for name in os.listdir(target.parent):  # there may be a file for each day of years
            if name.startswith(start) and name.endswith(".tmp"):
                target.with_name(name).unlink(missing_ok=True)


@contextlib.contextmanager
def translate_errors(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(error, path, action) from error


def _storage_error(error: OSError, path: Path, action: str) -> StorageError:
    start = f"cannot {action} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFull(f"{start}; free some space on that disk and try again")
    if error.errno in _REFUSED:
        return StoreReadOnly(f"{start}; make the folder writable for this user, or use another folder")
    return StorageError(f"{start}; check that the folder exists and that its disk works")


# Where an owner's files are: ``memory/users/<name>/`` below the store's folder, and nowhere else.
#
# Any name becomes a folder name that no other name has, on file systems too that do not tell upper from lower case:
# small letters, digits and ``- _ @ .`` stay, everything else is written as ``%`` and its UTF-8 bytes. What is then too
# long is cut and ends in ``~`` and a hash of the whole. Other tenants than the default have a folder each under
# ``memory/tenants/``; ``memory/sessions`` and ``memory/sessions.json`` belong to sessions kept as files.

_FOLDERS = {Level.USER: "users", Level.AGENT: "agents"}
_LONGEST, _KEPT = 120, 80
_UNSAFE = re.compile(r"[^a-z0-9_@.-]|^\.|\.$")
_WINDOWS_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)")


def folder_name(name: str) -> str:
    safe = _UNSAFE.sub(_escape, name)
    if _WINDOWS_DEVICE.match(safe):
        safe = f"%{ord(safe[0]):02x}{safe[1:]}"
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[:_KEPT]}~{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


@cache_texts(1 << 10)
def owner_folder(root: Path, partition: Partition) -> Path:
    tenant = () if partition.tenant == DEFAULT_TENANT else ("tenants", folder_name(partition.tenant))
    if partition.level is Level.GLOBAL:
        return root.joinpath("memory", *tenant, "everyone")
    return root.joinpath("memory", *tenant, _FOLDERS[partition.level], folder_name(partition.owner))


def check_no_symlink(root: Path, path: Path) -> Path:
    """The path, unless a link below the store's folder leads elsewhere: to other people's files, or out of it."""
    if is_behind_link(root, path):
        raise StorageError(f"{path} is behind a link; files below {root} must not be behind links")
    return path


def is_behind_link(root: Path, path: Path) -> bool:
    return _has_symlink(str(root), str(path))


def _has_symlink(root: str, path: str) -> bool:
    if sys.platform == "win32":  # junctions are links too, and only the resolved path tells
        wanted = os.path.join(os.path.realpath(root), os.path.relpath(path, root))
        return os.path.normcase(os.path.realpath(path)) != os.path.normcase(wanted)
    # Every prompt asks this of each file: a few looks at names, where resolving the whole path costs ten times that.
    while len(path) > len(root):
        if os.path.islink(path):
            return True
        path = os.path.dirname(path)
    return False


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02x}" for byte in found.group().encode())


# Readable by their owner alone

FOLDER_MODE, FILE_MODE = 0o700, 0o600

_creating = threading.Lock()


def make_private_folders(folder: Path) -> list[Path]:
    """Create the folder and its missing parents, outermost first. Returns those that were missing."""
    if folder.is_dir():
        return []
    missing = [place for place in (folder, *folder.parents) if not place.exists()][::-1]
    for place in missing:
        place.mkdir(FOLDER_MODE, exist_ok=True)
    if not missing and not folder.is_dir():  # another process may have made it meanwhile
        folder.mkdir()  # raises: something else has the name
    return missing


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Like ``open``. A file that exists keeps its mode."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, FILE_MODE), **options)


def create_private_file(path: str) -> None:
    """Create an empty file for SQLite, which gives its log the mode of the database. One that exists stays as it is.

    The lock ensures that no thread has opened the database before the descriptor is closed here: closing one drops all
    locks that this process holds on the file. What cannot be created is left to SQLite, which says why.
    """
    with _creating, contextlib.suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))


def make_tree_private(folder: Path) -> None:
    """For files that another library has written below a private folder."""
    for place, folders, files in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(place, name), FOLDER_MODE)
        for name in files:
            os.chmod(os.path.join(place, name), FILE_MODE)


def find_readable_by_others(paths: Sequence[str]) -> Iterator[str]:
    """The paths that every account of this machine can read, because their folder lets them in too."""
    if os.name == "nt":
        return
    for path in paths:
        with contextlib.suppress(OSError):
            folder = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
            if folder & stat.S_IXOTH and os.stat(path).st_mode & stat.S_IROTH:
                yield path


# Parts of them


def read_at(descriptor: int, place: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, place)
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, size)


def write_at(descriptor: int, place: int, data: bytes) -> None:
    if hasattr(os, "pwrite"):
        os.pwrite(descriptor, data, place)
        return
    os.lseek(descriptor, place, os.SEEK_SET)
    os.write(descriptor, data)


# What stands in them


def parse_json_file(data: bytes) -> Any:
    """The value of a JSON file that people may have edited, or ValueError: what is misread is lost with the next write.

    Repeated names, NaN and lone surrogates are refused; none survives a round trip.
    """
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=refuse_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None
    return value


def format_json_file(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} appears twice in one object")
    return found


def parse_timestamp(text: str) -> datetime:
    """The instant, in UTC, also if the text names no zone. Raises ValueError if it is not a time."""
    moment = datetime.fromisoformat(text)
    return check_time(moment if moment.tzinfo else moment.replace(tzinfo=UTC), "time")
