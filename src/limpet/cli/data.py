"""backup, copy, doctor: the store as a whole."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import place, show
from limpet.cli.ask import ProgressLine
from limpet.cli.options import add_command
from limpet.errors import InvalidInput, LimpetError
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet.model.finding import Finding


class FaultsRemain(LimpetError):
    code = "faults_remain"


def add(commands: Any) -> None:
    backup_ = add_command(commands, "backup", "copy the live store to a new SQLite file", backup)
    backup_.add_argument("file", metavar="FILE", help="the new file; a name in .db can be opened with --data")
    copy_ = add_command(commands, "copy", "copy a whole store into an empty one, on any backend", copy)
    copy_.add_argument("source", metavar="SRC", help="a folder, a .db file or postgresql://…")
    copy_.add_argument("target", metavar="DST", help="a folder, a .db file or postgresql://…, new or empty")
    doctor_ = add_command(commands, "doctor", "check the store; exit status 1 when a fault remains", doctor)
    doctor_.add_argument("--repair", action="store_true", help="set right what can be derived again")


def backup(args: Namespace) -> int:
    progress = ProgressLine()
    with place.open_memory(args, needed=True) as hf:
        beside = _find_file_folders(str(hf.admin.stats()["location"]))
        try:
            hf.admin.backup(args.file, progress)
        finally:
            progress.end()
    bytes_ = os.path.getsize(args.file)
    lines = [show.one_line(f"Backed up to {args.file} ({show.format_size(bytes_)}).")]
    if args.file.endswith(".db"):
        lines.append(show.one_line(f"Look inside: limpet --data {args.file} sessions"))
    show.print_result(
        args, {"file": args.file, "bytes": bytes_, "not_in_it": beside}, [*lines, *_not_copied_lines(beside)]
    )
    return 0


def _find_file_folders(location: str) -> list[str]:
    """The folders with MEMORY.md, notes and sessions' files: people would take them to be part of the database."""
    from limpet.api.runtime import DATABASE

    if os.path.basename(location) != DATABASE:
        return []
    folders = (os.path.join(os.path.dirname(location), name) for name in ("memory", "sessions"))
    return [folder for folder in folders if os.path.isdir(folder)]


def _not_copied_lines(folders: list[str]) -> list[str]:
    return [show.one_line(f"Notes and other files are not in it: copy {' and '.join(folders)} too.")] if folders else []


def copy(args: Namespace) -> int:
    from limpet.api.runtime import open_store
    from limpet.model.times import system_clock
    from limpet.store.copy import copy_store

    source, target = place.check_location(args.source, "SRC"), place.check_location(args.target, "DST")
    if place.MEMORY in (source, target):
        raise InvalidInput("a store in memory is gone when the command ends; name a folder or a postgresql:// address")
    if not place.has_store(source):
        raise InvalidInput(f"there is no store at {source}")
    config, progress = place.load_config(args), ProgressLine()
    reading, _ = open_store(source, config, system_clock)
    try:
        writing, _ = open_store(target, config, system_clock)
        try:
            rows = copy_store(reading, writing, progress)
            places = [store.location for store in (reading, writing)]
        finally:
            progress.end()
            writing.close()
    finally:
        reading.close()
    said = f"Copied {show.pluralize(sum(rows.values()), 'row')} from {places[0]} to {places[1]}."
    beside = _find_file_folders(places[0])
    value = {"source": places[0], "target": places[1], "rows": rows, "not_in_it": beside}
    show.print_result(args, value, [show.one_line(said), *_not_copied_lines(beside)])
    return 0


def doctor(args: Namespace) -> int:
    with place.open_memory(args, needed=True) as hf:
        findings = hf.admin.doctor(repair=args.repair)
    faults = [finding for finding in findings if not finding.ok and not finding.repaired]
    value = {"ok": not faults, "findings": to_json(findings)}
    show.print_result(args, value, _format_findings(findings))
    if faults:
        hint = "restore a backup" if args.repair else "try limpet doctor --repair, else restore a backup"
        raise FaultsRemain(f"{show.pluralize(len(faults), 'fault')} found; {hint}")
    return 0


def _format_findings(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.status.ljust(8)}  {show.one_line(finding.check)}: {show.one_line(finding.detail)}"
        for finding in findings
    ]
