"""import and export: what is special about memory that comes and goes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser, UsageError
from limpet.cli.place import resolve_user

if TYPE_CHECKING:
    from limpet.model.transfer import ExportResult, ImportResult

_SHOWN = 20
_NOUNS = ("session", "message", "record", "document", "schedule", "file")


class Import(OperationCommand):
    """It is looked at before a store is made for it."""

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if given.get("format", "auto") == "auto":
            _check_format(given["path"])
        return given

    def to_json(self, answer: ImportResult, given: Mapping[str, Any]) -> Any:
        return {
            "format": answer.format,
            **{f"{noun}s": getattr(answer, f"{noun}s") for noun in _NOUNS},
            "already": answer.already,
            "continued": answer.continued,
            "dry_run": answer.dry_run,
            "left_out": answer.left_out,
            "learning": answer.learning,
            "skipped": [{"place": one.place, "reason": one.reason} for one in answer.skipped],
        }

    def format(self, answer: ImportResult, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return _format_import(given["path"], answer)


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
    if done.learning:
        taught = show.pluralize(done.learning, "session")
        lines.append(f"Learning from {taught} runs later: limpet serve does it, or limpet learn --session ID now.")
    if done.skipped:
        lines += ["Skipped:", *(f"  {show.one_line(f'{one.place}: {one.reason}')}" for one in done.skipped[:_SHOWN])]
        more = len(done.skipped) - _SHOWN
        lines += [f"  and {more:,} more; --json names them"] if more > 0 else []
    return lines


class Export(OperationCommand):
    """Of one user, unless it is said to be of the whole tenant."""

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--all", action="store_true", help="the whole tenant's memory")

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if args.all and "user" in given:
            raise UsageError("say whose memory to export, and only one: --user U, or --all for the whole tenant")
        return given if args.all else {**given, "user": resolve_user(args)}

    needs_store = True

    def to_json(self, answer: ExportResult, given: Mapping[str, Any]) -> Any:
        return {"folder": answer.path, "bytes": answer.bytes, "counts": dict(answer.counts)}

    def format(self, answer: ExportResult, given: Mapping[str, Any], args: Namespace) -> list[str]:
        counts = [(answer.counts[f"{noun}s"], noun) for noun in _NOUNS]
        written = ", ".join(show.pluralize(number, noun) for number, noun in counts if number) or "nothing"
        return [
            show.one_line(f"Exported {written} to {answer.path}."),
            show.one_line(f"Take it in elsewhere: limpet import {answer.path}"),
        ]


SPECIAL: Mapping[str, type[OperationCommand]] = {"transfer.import_": Import, "transfer.export": Export}
