"""backup, doctor: what is special about them; copy: by hand, since it opens two stores at once."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import place, show
from limpet.cli.ask import ProgressLine
from limpet.cli.derive import OperationCommand
from limpet.cli.options import add_command
from limpet.errors import InvalidInput, LimpetError
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Limpet
    from limpet.model.job import Finding


class FaultsRemain(LimpetError):
    code = "faults_remain"


class Backup(OperationCommand):
    """It says which files are not in it."""

    needs_store = True

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> list[str]:
        beside = _find_file_folders(str(memory.admin.stats()["location"]))
        super().call(memory, args, given)
        return beside

    def to_json(self, answer: list[str], given: Mapping[str, Any]) -> Any:
        return {"file": given["path"], "bytes": os.path.getsize(given["path"]), "not_in_it": answer}

    def format(self, answer: list[str], given: Mapping[str, Any], args: Namespace) -> list[str]:
        file = given["path"]
        lines = [show.one_line(f"Backed up to {file} ({show.format_size(os.path.getsize(file))}).")]
        if file.endswith(".db"):
            lines.append(show.one_line(f"Look inside: limpet --data {file} sessions"))
        return [*lines, *_not_copied_lines(answer)]


def _find_file_folders(location: str) -> list[str]:
    """The folders with MEMORY.md, notes and sessions' files: people would take them to be part of the database."""
    from limpet.api.runtime import DATABASE

    if os.path.basename(location) != DATABASE:
        return []
    folders = (os.path.join(os.path.dirname(location), name) for name in ("memory", "sessions"))
    return [folder for folder in folders if os.path.isdir(folder)]


def _not_copied_lines(folders: list[str]) -> list[str]:
    return [show.one_line(f"Notes and other files are not in it: copy {' and '.join(folders)} too.")] if folders else []


class Restore(OperationCommand):
    def format(self, answer: Mapping[str, int], given: Mapping[str, Any], args: Namespace) -> list[str]:
        return [show.one_line(f"Restored {show.pluralize(sum(answer.values()), 'row')} from {given['path']}.")]


class Doctor(OperationCommand):
    """The exit status is 1 while a fault remains."""

    needs_store = True

    def run(self, args: Namespace) -> int:
        given = self.read(args)
        with self.open(args) as memory:
            findings: Sequence[Finding] = self.call(memory, args, given)
        faults = [finding for finding in findings if not finding.ok and not finding.repaired]
        show.print_result(args, {"ok": not faults, "findings": to_json(findings)}, _format_findings(findings))
        if faults:
            hint = "restore a backup" if given.get("repair") else "try limpet doctor --repair, else restore a backup"
            raise FaultsRemain(f"{show.pluralize(len(faults), 'fault')} found; {hint}")
        return 0


def _format_findings(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.status.ljust(8)}  {show.one_line(finding.check)}: {show.one_line(finding.detail)}"
        for finding in findings
    ]


class ShowStats(OperationCommand):
    needs_store = True


SPECIAL: Mapping[str, type[OperationCommand]] = {
    "admin.backup": Backup,
    "admin.restore": Restore,
    "admin.doctor": Doctor,
    "admin.stats": ShowStats,
}


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "copy", summary, copy)
    parser.add_argument("source", metavar="SRC", help="a folder, a .db file or postgresql://…")
    parser.add_argument("target", metavar="DST", help="a folder, a .db file or postgresql://…, new or empty")


def copy(args: Namespace) -> int:
    from limpet.api.runtime import open_store
    from limpet.model.values import system_clock
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
