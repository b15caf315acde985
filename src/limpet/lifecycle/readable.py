"""An export for people: a transcript of each session, an index, a page of records and of schedules. Never read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from limpet.model.message import Role, part_from_json, part_text
from limpet.sessions.transcript import TranscriptEntry, render_entry
from limpet.store.private_files import make_private_folders, open_private
from limpet.store.timestamps import parse_timestamp

FOLDER = "readable"
ABOUT = """\
# A Limpet export

- `data/` has everything, a line of JSON each. `limpet import` takes this folder in again.
- `files/` has MEMORY.md, the daily notes and the files of sessions as they were.
- `readable/` is for people: an index, a transcript of each session, records and schedules. It is not read back.
- `manifest.json` says what belongs here, with a SHA-256 of each file in `data/`. An import refuses what differs.
"""
_PAST = {"valid_to": "ended", "superseded_by": "superseded", "archived_at": "faded"}


class ReadableWriter:
    """Written line by line, beside the data. Only one transcript is open at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        make_private_folders(self._folder / "sessions")
        with _open_file(folder / "README.md") as about:
            about.write(ABOUT)
        self._index = _open_file(self._folder / "index.md")
        self._records = _open_file(self._folder / "records.md")
        self._index.write("# Sessions\n\n")
        self._records.write("# Records\n\n")
        self._schedules = _open_file(self._folder / "schedules.md")
        self._schedules.write("# Schedules\n\n")
        self._has_runs = False
        self._session = ""
        self._transcript: IO[str] | None = None

    def add(self, kind: str, line: Mapping[str, Any]) -> None:
        if kind == "sessions":
            self._index.write(_format_session(line))
        elif kind == "messages":
            self._write_message(line)
        elif kind == "records":
            self._records.write(_format_record(line))
        elif kind == "schedules":
            self._schedules.write(_format_schedule(line))
        elif kind == "schedule_runs":
            self._write_run(line)

    def _write_message(self, line: Mapping[str, Any]) -> None:
        if self._transcript is None or line["session_id"] != self._session:
            self._close_transcript()
            self._session = line["session_id"]
            self._transcript = _open_file(self._folder / "sessions" / f"{self._session}.md")
        entry = TranscriptEntry(Role(line["role"]), parse_timestamp(line["created_at"]), _message_text(line))
        self._transcript.write(render_entry(entry))

    def _write_run(self, line: Mapping[str, Any]) -> None:
        if not self._has_runs:
            self._schedules.write("\n# Runs\n\n")
            self._has_runs = True
        told = line.get("error") or line["summary"]
        self._schedules.write(f"- {line['ended_at'][:16]}, {line['status']}: {_escape_inline(told)}\n")

    def _close_transcript(self) -> None:
        if self._transcript is not None:
            self._transcript.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_transcript()
        self._index.close()
        self._records.close()
        self._schedules.close()


def _open_file(path: Path) -> IO[str]:
    return open_private(path, "w", encoding="utf-8", newline="\n")


def _message_text(line: Mapping[str, Any]) -> str:
    content = line["content"]
    words = content if isinstance(content, str) else "\n".join(part_text(part_from_json(part)) for part in content)
    calls = [f"calls {call['name']} {call['arguments']}" for call in line.get("tool_calls", ())]
    return "\n".join(filter(None, [words, *calls]))


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
