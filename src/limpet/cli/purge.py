"""purge: counted and confirmed before it goes for good; retention: what the settings no longer keep."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.ask import confirm
from limpet.cli.derive import OperationCommand
from limpet.cli.render import format_counts, retention_lines
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Receipt

_BYTES = {
    "gone": "Their bytes are gone from the database's files.",
    "waiting": "Their bytes are overwritten in the background: `limpet jobs run --until-idle` does it now.",
    "vacuum": "Their bytes stay in the database's files until a vacuum: add --vacuum.",
}


class Purge(OperationCommand):
    """The exit status is 1 where something is left."""

    asks = True

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
                print(f"{_describe(given)}: {format_counts(counted.counts)}.", file=sys.stderr)
                confirm(args, "Purge it for good?")
            receipt: Receipt = self.call(memory, args, given)
        show.print_result(args, to_json(receipt), receipt_lines(receipt))
        return 0 if receipt.verified else 1


def _describe(given: Mapping[str, Any]) -> str:
    if "id" in given:
        return show.escape_line(f"Session {given['id']}")
    user = given["user"]
    if "days" not in given:
        return show.escape_line(f"Everything of {user}")
    if given.get("everything"):
        return show.escape_line(f"Everything of {user} that is older than {given['days']:g} days")
    return show.escape_line(
        f"What {user} said more than {given['days']:g} days ago; memories that were saved or pinned stay"
    )


def receipt_lines(receipt: Receipt) -> list[str]:
    """What a purge did, for a person."""
    lines = [f"Purged: {format_counts(receipt.counts)}. Receipt {receipt.id}."]
    if receipt.verified:
        lines.append("Looked again: nothing of it is left.")
    still = "Still said in" if receipt.verified else "Left:"
    lines += [f"{still} {place}." for place in receipt.left]
    return [*lines, _BYTES[receipt.bytes.value]]


class ApplyRetention(OperationCommand):
    def format(self, answer: Any, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return retention_lines(answer, dry_run=given.get("dry_run", False))


SPECIAL: Mapping[str, type[OperationCommand]] = {
    **dict.fromkeys(("privacy.purge_session", "privacy.purge_user", "privacy.purge_older"), Purge),
    "privacy.retention": ApplyRetention,
}
