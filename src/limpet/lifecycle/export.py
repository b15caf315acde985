"""A user's or a tenant's whole memory as files: one consistent view of the store, a folder that appears whole.

An interrupted export starts again: its view of the store is gone with its transaction, and an export of two moments
would not be consistent.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from limpet.lifecycle.export_folder import (
    DATA,
    FILE_FIELDS,
    MANIFEST,
    DataFile,
    ExportFile,
    LineWriter,
    Manifest,
    copy_file,
    create_folder,
    iter_session_files,
)
from limpet.lifecycle.line_kind import iter_session_scopes
from limpet.lifecycle.lines import KINDS
from limpet.lifecycle.transfer_repository import Transfers
from limpet.model.dataclass import replace
from limpet.model.message import Role, part_from_json, part_text
from limpet.model.scope import Scope
from limpet.model.transfer import ExportResult
from limpet.security.telemetry import Progress
from limpet.sessions.files import session_folder
from limpet.sessions.transcript import TranscriptEntry, render_entry
from limpet.store.files import make_private_folders, open_private, parse_timestamp, translate_errors
from limpet.store.store import Store
from limpet.store.tx import Tx

FILES = "files"
AGENTS = "agents"  # below an export: those of agents with their own stores
NAMES = (*(kind.name for kind in KINDS), FILES)
_PROGRESS_EVERY = 500
_PIECE = 1 << 20
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # two archives of the same memory are the same bytes
_ABOUT = """\
# A Limpet export

- `data/` has everything, a line of JSON each. `limpet import` takes this folder in again.
- `files/` has the files of sessions as they were.
- `readable/` is for people: an index, a transcript of each session, notes, records and schedules. It is not read back.
- `manifest.json` says what belongs here, with a SHA-256 of each file in `data/`. An import refuses what differs.
"""
_PAST = {"valid_to": "ended", "superseded_by": "superseded", "archived_at": "faded"}


class ExportSource(NamedTuple):
    """A store, and its folder if it has one. ``agent``: the folder of the agent whose own store it is."""

    store: Store
    root: Path | None
    agent: str = ""


def export(sources: Sequence[ExportSource], scope: Scope, path: Path, progress: Progress) -> ExportResult:
    """Of the scope's user, or of its whole tenant. Own stores of agents are exports of their own, below the first."""
    counts, size = Counter[str](), 0
    with create_folder(path) as folder, translate_errors(path, "write"):
        for source in sources:
            place = folder / AGENTS / source.agent if source.agent else folder
            make_private_folders(place)
            files = source.store.read(lambda tx: _write(tx, source.root, scope, place, progress))  # noqa: B023
            if source.agent and not any(file.lines for file in files.values()):
                shutil.rmtree(place)
                continue
            with open_private(place / MANIFEST, "wb") as file:
                file.write(Manifest(scope.user, files).as_bytes())
            counts.update({name: file.lines for name, file in files.items()})
            size += sum(file.bytes for file in files.values())
    return ExportResult(str(path), dict(counts), size)


def write_archive(sources: Sequence[ExportSource], scope: Scope, file: BinaryIO, progress: Progress) -> ExportResult:
    """The same as a zip, for callers without a folder on this machine."""
    with TemporaryDirectory(prefix="limpet-") as place:
        folder = Path(place, "export")
        done = export(sources, scope, folder, progress)
        with translate_errors(folder, "pack"), ZipFile(file, "w") as packed:
            for each in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = ZipInfo(each.relative_to(folder).as_posix(), _ZIP_EPOCH)
                entry.compress_type = ZIP_DEFLATED
                with each.open("rb") as source, packed.open(entry, "w", force_zip64=True) as into:
                    shutil.copyfileobj(source, into, _PIECE)
    return replace(done, path="")


def _write(tx: Tx, root: Path | None, scope: Scope, folder: Path, progress: Progress) -> dict[str, DataFile]:
    make_private_folders(folder / DATA)
    totals, files = Transfers(tx).totals(scope), {}
    with closing(ReadableWriter(folder)) as readable:
        for kind in KINDS:
            with LineWriter(folder / DATA / f"{kind.name}.jsonl") as writer:
                for line in map(kind.write, kind.find(tx, scope)):
                    writer.write(line)
                    readable.add(kind.name, line)
                    if writer.lines % _PROGRESS_EVERY == 0:
                        progress(kind.name, writer.lines, max(writer.lines, totals.get(kind.name, 0)))
                progress(kind.name, writer.lines, writer.lines)
            files[kind.name] = writer.to_data_file()
    with LineWriter(folder / DATA / f"{FILES}.jsonl") as writer:
        for file in _copy_files(tx, root, scope, folder):
            writer.write({name: getattr(file, name) for name in FILE_FIELDS})
    files[FILES] = writer.to_data_file()
    return files


def _copy_files(tx: Tx, root: Path | None, scope: Scope, folder: Path) -> Iterator[ExportFile]:
    if root is None:
        return
    for session in (str(one.session) for one in iter_session_scopes(tx, scope)):
        for file, source in iter_session_files(session_folder(root, session), session):
            size, digest = copy_file(source, folder / file.path)
            yield replace(file, bytes=size, sha256=digest)


# For people: a transcript of each session, an index, a page of records and of schedules. Never read back.


class ReadableWriter:
    """Written line by line, beside the data. Only one file is open at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "readable"
        self._place = ("", "")
        self._file: IO[str] | None = None
        shutil.rmtree(self._folder, ignore_errors=True)
        make_private_folders(self._folder / "sessions")
        pages = {"README.md": _ABOUT} | {f"readable/{page}": title for page, title in _PAGES.items()}
        for name, text in pages.items():
            with open_private(folder / name, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)

    def add(self, kind: str, line: Mapping[str, Any]) -> None:
        if kind not in _READABLE:
            return
        name, heading, render = _READABLE[kind]
        place = kind, name.format(line.get("session_id"))
        if self._file is None or place != self._place:
            self.close()
            self._place = place
            self._file = open_private(self._folder / place[1], "a", encoding="utf-8", newline="\n")
            self._file.write(heading)
        self._file.write(render(line))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _format_message(line: Mapping[str, Any]) -> str:
    content = line["content"]
    words = content if isinstance(content, str) else "\n".join(part_text(part_from_json(part)) for part in content)
    calls = [f"calls {call['name']} {call['arguments']}" for call in line.get("tool_calls", ())]
    text = "\n".join(filter(None, [words, *calls]))
    return render_entry(TranscriptEntry(Role(line["role"]), parse_timestamp(line["created_at"]), text))


def _format_note(line: Mapping[str, Any]) -> str:
    """As a quotation: no heading of it may look like one of the page."""
    quoted = "".join(f"> {text}\n" for text in line["text"].splitlines())
    return f"## {line['name']} of {_escape_inline(line.get('owner') or 'everybody')}\n\n{quoted}\n"


def _format_run(line: Mapping[str, Any]) -> str:
    told = line.get("error") or line["summary"]
    return f"- {line['ended_at'][:16]}, {line['status']}: {_escape_inline(told)}\n"


def _format_session(line: Mapping[str, Any]) -> str:
    thread = f":{line['thread']}" if "thread" in line else ""
    key = _escape_inline(f"{line['channel']}:{line['chat']}{thread}")
    target = f"sessions/{line['id']}.md"
    title = f"[{key}]({target})" if line["last_sequence"] else key
    return (
        f"- {title} of {_escape_inline(line['user'])} with {_escape_inline(line['agent'])}, {line['created_at'][:10]}\n"
    )


def _format_record(line: Mapping[str, Any]) -> str:
    owner = _escape_inline(line.get("user") or line.get("agent") or "everybody")
    marks = [line["type"], *(f"`{line['key']}`" for _ in range("key" in line))]
    past = [word for name, word in _PAST.items() if name in line]
    return f"- {_escape_inline(line['content'])} ({', '.join([*marks, owner, line['created_at'][:10], *past])})\n"


def _format_schedule(line: Mapping[str, Any]) -> str:
    about = [
        _escape_inline(line["cadence"]),
        line["timezone"],
        line["state"],
        _escape_inline(line["user"]),
        line["created_at"][:10],
    ]
    return f"- {_escape_inline(line['goal'])} ({', '.join(about)})\n"


def _escape_inline(text: str) -> str:
    """On one line, and with nothing in it that Markdown would take for a link or a heading."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("[", "\\[").replace("<", "\\<")


_PAGES = {
    "index.md": "# Sessions\n\n",
    "notes.md": "# Notes\n\n",
    "records.md": "# Records\n\n",
    "schedules.md": "# Schedules\n\n",
}
# By kind: the file its lines go to, what stands before the first of them, and how one is written.
_READABLE: Mapping[str, tuple[str, str, Callable[[Mapping[str, Any]], str]]] = {
    "sessions": ("index.md", "", _format_session),
    "messages": ("sessions/{}.md", "", _format_message),
    "records": ("records.md", "", _format_record),
    "notes": ("notes.md", "", _format_note),
    "schedules": ("schedules.md", "", _format_schedule),
    "schedule_runs": ("schedules.md", "\n# Runs\n\n", _format_run),
}
