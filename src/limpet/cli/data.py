"""What is special about commands on the store: backup, doctor, import, export, purge, jobs, api-keys."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.derive import OperationCommand
from limpet.cli.options import UsageError, resolve_user
from limpet.cli.render import Given, format_counts, receipt_lines
from limpet.cli.show import confirm
from limpet.errors import LimpetError
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Limpet, NewKey, Receipt
    from limpet.model.job import Finding
    from limpet.model.transfer import ExportResult, ImportResult

_ADMIN = ("read:store", "write:store")
_SHOWN = 20
_NOUNS = ("session", "message", "record", "document", "note", "schedule", "file")


class FaultsRemain(LimpetError):
    code = "faults_remain"


class Backup(OperationCommand):
    """It says which files are not in it."""

    names = ("admin.backup",)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> list[str]:
        beside = find_file_folders(str(memory.admin.stats()["location"]))
        super().call(memory, args, given)
        return beside

    def to_json(self, answer: list[str], given: Given) -> Any:
        return {"file": given["path"], "bytes": os.path.getsize(given["path"]), "not_in_it": answer}

    def format(self, answer: list[str], given: Given, args: Namespace) -> list[str]:
        file = given["path"]
        lines = [show.one_line(f"Backed up to {file} ({show.format_size(os.path.getsize(file))}).")]
        if file.endswith(".db"):
            lines.append(show.one_line(f"Look inside: limpet --data {file} sessions"))
        return [*lines, *not_copied_lines(answer)]


def find_file_folders(location: str) -> list[str]:
    """The folders with files of sessions: people would take them to be part of the database."""
    from limpet.api.runtime import DATABASE

    if os.path.basename(location) != DATABASE:
        return []
    folders = (os.path.join(os.path.dirname(location), name) for name in ("sessions", "memory/sessions"))
    return [folder for folder in folders if os.path.isdir(folder)]


def not_copied_lines(folders: list[str]) -> list[str]:
    return [show.one_line(f"Files of sessions are not in it: copy {' and '.join(folders)} too.")] if folders else []


class Doctor(OperationCommand):
    """The exit status is 1 while a fault remains."""

    names = ("admin.doctor",)

    def run(self, args: Namespace) -> int:
        given = self.read(args)
        with self.open(args) as memory:
            findings: Sequence[Finding] = self.call(memory, args, given)
        faults = [finding for finding in findings if not finding.ok and not finding.repaired]
        lines = [f"{each.status.ljust(8)}  {show.one_line(f'{each.check}: {each.detail}')}" for each in findings]
        show.print_result(args, {"ok": not faults, "findings": to_json(findings)}, lines)
        if faults:
            hint = "restore a backup" if given.get("repair") else "try limpet doctor --repair, else restore a backup"
            raise FaultsRemain(f"{show.pluralize(len(faults), 'fault')} found; {hint}")
        return 0


class Purge(OperationCommand):
    """Counted and confirmed before it goes for good. The exit status is 1 where something is left."""

    names = ("privacy.purge_session", "privacy.purge_user", "privacy.purge_older")
    has_yes = True

    def run(self, args: Namespace) -> int:
        given = self.read(args)
        dry_run = given.pop("dry_run", False)
        with self.open(args) as memory:
            if dry_run or not args.yes:
                counted: Receipt = self.call(memory, args, {**given, "dry_run": True})
                if dry_run:
                    lines = [f"Would remove: {format_counts(counted.counts)}."]
                    show.print_result(args, to_json(counted), lines)
                    return 0
                print(f"{show.escape_line(_describe(given))}: {format_counts(counted.counts)}.", file=sys.stderr)
                confirm(args, "Purge it for good?")
            receipt: Receipt = self.call(memory, args, given)
        show.print_result(args, to_json(receipt), receipt_lines(receipt))
        return 0 if receipt.verified else 1


def _describe(given: Given) -> str:
    if "id" in given:
        return f"Session {given['id']}"
    user = given["user"]
    if "days" not in given:
        return f"Everything of {user}"
    if given.get("everything"):
        return f"Everything of {user} that is older than {given['days']:g} days"
    return f"What {user} said more than {given['days']:g} days ago; memories that were saved or pinned stay"


class RetryJobs(OperationCommand):
    names = ("jobs.retry",)
    flags = (("all", "all there are"),)

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if not given.get("ids"):
            given.pop("ids", None)
        if len(given) + args.all != 1:
            raise UsageError("say which jobs: their numbers, --kind KIND or --all")
        return given


class CreateKey(OperationCommand):
    """Its secret is printed this once."""

    names = ("access.keys.create",)
    flags = (("admin", "it may do everything: --grant read:store and write:store"),)

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        return {**given, "grants": [*given.get("grants", ()), *(_ADMIN if args.admin else ())]}

    def format(self, answer: NewKey, given: Given, args: Namespace) -> list[str]:
        said = f"That is the secret of the key {answer.info.name}. It is shown only now: keep it safe."
        return [answer.secret, show.one_line(said)]


class Import(OperationCommand):
    """It is looked at before a store is made for it."""

    names = ("transfer.import_",)

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if given.get("format", "auto") == "auto":
            from pathlib import Path

            from limpet.lifecycle.export_folder import is_export
            from limpet.lifecycle.formats.detect import detect
            from limpet.lifecycle.formats.source import ImportSource

            place = Path(given["path"]).expanduser()
            if not is_export(place):
                detect(ImportSource.of(place))
        return given

    def format(self, answer: ImportResult, given: Given, args: Namespace) -> list[str]:
        path = given["path"]
        if answer.already:
            return [show.one_line(f"{path} was imported before; nothing was imported again.")]
        verb = "Would import" if answer.dry_run else "Imported"
        taken = _count_nouns({f"{noun}s": getattr(answer, f"{noun}s") for noun in _NOUNS})
        lines = [show.one_line(f"{verb} {taken} from {path} ({answer.format}).")]
        if answer.continued:
            before = show.pluralize(answer.continued, "line")
            lines.append(f"It continued an interrupted import after {before}.")
        if answer.learning:
            taught = show.pluralize(answer.learning, "session")
            lines.append(f"Learning from {taught} runs later: limpet serve does it, or limpet learn --session ID now.")
        if answer.skipped:
            skipped = [f"  {show.one_line(f'{one.place}: {one.reason}')}" for one in answer.skipped]
            more = [f"  and {len(skipped) - _SHOWN:,} more; --json names them"] if len(skipped) > _SHOWN else []
            lines += ["Skipped:", *skipped[:_SHOWN], *more]
        return lines


def _count_nouns(counts: Given) -> str:
    return ", ".join(show.pluralize(counts[f"{noun}s"], noun) for noun in _NOUNS if counts[f"{noun}s"]) or "nothing"


class Export(OperationCommand):
    """Of one user, unless it is said to be of the whole tenant."""

    names = ("transfer.export",)
    flags = (("all", "the whole tenant's memory"),)

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if args.all and "user" in given:
            raise UsageError("say whose memory to export, and only one: --user U, or --all for the whole tenant")
        return given if args.all else {**given, "user": resolve_user(args)}

    def format(self, answer: ExportResult, given: Given, args: Namespace) -> list[str]:
        return [
            show.one_line(f"Exported {_count_nouns(answer.counts)} to {answer.path}."),
            show.one_line(f"To import it elsewhere: limpet import {answer.path}"),
        ]
