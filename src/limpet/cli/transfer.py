"""import and export: memory that comes and goes."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from limpet.cli import place, show
from limpet.cli.ask import ProgressLine
from limpet.cli.options import UsageError, add_command

if TYPE_CHECKING:
    from limpet.model.transfer import ExportResult, ImportResult

# As in files.foreign.detect, which is not loaded for the sake of a help text; a test compares them.
FORMATS = (
    *("auto", "limpet-export", "chatgpt", "claude", "mem0", "mcp-memory"),
    *("openai", "anthropic", "markdown", "sessions.json"),
)
_SHOWN = 20
_NOUNS = ("session", "message", "record", "document", "schedule", "file")


def add(commands: Any) -> None:
    importing = add_command(commands, "import", "take in an export, or what another program wrote", import_)
    importing.add_argument("file", metavar="FILE", help="a file, a folder, or the .zip it came in")
    importing.add_argument("--format", choices=FORMATS, default="auto", help="what FILE is; default: auto")
    importing.add_argument("--user", metavar="U", help="whose memory it becomes")
    importing.add_argument("--dry-run", action="store_true", help="read and check everything, and store nothing")
    exporting = add_command(commands, "export", "write everything of a user, or of a tenant, into a new folder", export)
    exporting.add_argument("folder", metavar="DIR", help="the new folder")
    exporting.add_argument("--user", metavar="U", help="the user whose memory it is")
    exporting.add_argument("--all", action="store_true", help="the whole tenant's memory")


def import_(args: Namespace) -> int:
    if args.format == "auto":
        _check_format(args.file)
    progress = ProgressLine()
    with place.open_memory(args, creates=True) as hf:
        try:
            done = hf.transfer.import_(
                args.file, args.user, format=args.format, progress=progress, dry_run=args.dry_run
            )
        finally:
            progress.end()
    value = {
        "format": done.format,
        **{f"{noun}s": getattr(done, f"{noun}s") for noun in _NOUNS},
        "already": done.already,
        "continued": done.continued,
        "dry_run": done.dry_run,
        "left_out": done.left_out,
        "skipped": [{"place": one.place, "reason": one.reason} for one in done.skipped],
    }
    show.print_result(args, value, _format_import(args.file, done))
    return 0


def _check_format(path: str) -> None:
    """Before a store is made for what nothing here can read."""
    from pathlib import Path

    from limpet.lifecycle.export_folder import is_export
    from limpet.lifecycle.formats.detect import detect
    from limpet.lifecycle.formats.source import ImportSource

    place = Path(path).expanduser()
    if not is_export(place):
        detect(ImportSource.of(place))


def _format_import(path: str, done: ImportResult) -> list[str]:
    if done.already:
        return [show.one_line(f"{path} was imported before; nothing was taken in again.")]
    counts = [(getattr(done, f"{noun}s"), noun) for noun in _NOUNS]
    taken = ", ".join(show.pluralize(number, noun) for number, noun in counts if number) or "nothing"
    verb = "Would import" if done.dry_run else "Imported"
    lines = [show.one_line(f"{verb} {taken} from {path} ({done.format}).")]
    if done.continued:
        lines.append(f"It went on behind {show.pluralize(done.continued, 'line')} that an interrupted call took in.")
    if done.skipped:
        lines += ["Skipped:", *(f"  {show.one_line(f'{one.place}: {one.reason}')}" for one in done.skipped[:_SHOWN])]
        more = len(done.skipped) - _SHOWN
        lines += [f"  and {more:,} more; --json names them"] if more > 0 else []
    return lines


def export(args: Namespace) -> int:
    if (args.user is None) is not args.all:
        raise UsageError("say whose memory to export, and only one: --user U, or --all for the whole tenant")
    progress = ProgressLine()
    with place.open_memory(args, needed=True) as hf:
        try:
            done = hf.transfer.export(args.folder, args.user, progress=progress)
        finally:
            progress.end()
    show.print_result(
        args, {"folder": done.path, "bytes": done.bytes, "counts": dict(done.counts)}, _format_export(done)
    )
    return 0


def _format_export(done: ExportResult) -> list[str]:
    counts = [(done.counts[f"{noun}s"], noun) for noun in _NOUNS]
    written = ", ".join(show.pluralize(number, noun) for number, noun in counts if number) or "nothing"
    return [
        show.one_line(f"Exported {written} to {done.path}."),
        show.one_line(f"Take it in elsewhere: limpet import {done.path}"),
    ]
