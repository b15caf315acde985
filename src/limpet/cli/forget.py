"""forget: what would go is shown before it goes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.ask import confirm, is_interactive
from limpet.cli.derive import OperationCommand
from limpet.cli.options import UsageError
from limpet.cli.render_memory import format_forgotten, preview_lines, remaining_lines
from limpet.errors import RecordNotFound

if TYPE_CHECKING:
    from limpet import Forgotten, Limpet


class Forget(OperationCommand):
    """What was shown is what goes, also when somebody adds another match, or removes one, meanwhile."""

    asks = True

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if len(given.keys() & {"id", "key", "query"}) != 1:
            raise UsageError("forget takes exactly one of ID, --key K and --query Q")
        return given

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Forgotten:
        if "id" in given:
            _check_owner(memory, given)
        would = memory.forget(**{**given, "dry_run": True})
        if given.get("dry_run"):
            return would
        if would.ids and not args.yes:
            _confirm(args, memory, would, given)
        return _remove(memory, would, everywhere=given.get("everywhere", False))

    def format(self, answer: Forgotten, given: Mapping[str, Any], args: Namespace) -> list[str]:
        if given.get("dry_run"):
            return [f"Would forget {show.pluralize(answer.total, 'record')}.", *answer.ids, *preview_lines(answer)]
        return [format_forgotten(answer.total), *remaining_lines(answer)]


def _check_owner(memory: Limpet, given: Mapping[str, Any]) -> None:
    """A slip in the id must not reach somebody else's memory."""
    record = memory.records.get(given["id"], user=given.get("user"))
    found = {"agent": record.agent, "session": record.session_id, "scope": record.level}
    if any(name in given and given[name] != value for name, value in found.items()):
        raise RecordNotFound(f"no record {record.id} of that owner; nothing was forgotten")


def _remove(memory: Limpet, would: Forgotten, *, everywhere: bool) -> Forgotten:
    """Record by record: one that was added meanwhile was not shown."""
    from limpet import Forgotten  # late: showing help needs no record

    totals: dict[str, int] = {}
    ids: dict[str, None] = {}
    left: dict[str, None] = {}
    for record_id in would.ids:
        with suppress(RecordNotFound):  # it went with another, or somebody else was quicker
            gone = memory.forget(record_id, everywhere=everywhere)
            for kind, number in gone.counts.items():
                totals[kind] = totals.get(kind, 0) + number
            ids |= dict.fromkeys(gone.ids)
            left |= dict.fromkeys(gone.left)
    # What the first of them left, a later one may have removed.
    return Forgotten(totals, tuple(ids), tuple(place for place in left if place in would.left))


def _confirm(args: Namespace, memory: Limpet, would: Forgotten, given: Mapping[str, Any]) -> None:
    # One memory named by its id or key is what the caller meant; what a query matches has to be seen first.
    if not is_interactive() and "query" not in given:
        return
    found = [memory.records.get(record_id) for record_id in would.ids]
    rows = [(record.id, record.key or "-", show.format_time(record.updated_at), record.content) for record in found]
    lines = [*show.format_table(("ID", "KEY", "?CHANGED", "TEXT"), rows), *preview_lines(would)]
    print("\n".join(lines), file=sys.stderr)
    confirm(args, f"Forget {show.pluralize(len(found), 'record')} for good?")


SPECIAL: Mapping[str, type[OperationCommand]] = {"forget": Forget}
