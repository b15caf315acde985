"""purge: remove for good, with a receipt; retention: what the settings no longer keep."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import confirm
from limpet.cli.options import Parser, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Receipt, RetentionResult

_BYTES = {
    "gone": "Their bytes are gone from the database's files.",
    "waiting": "Their bytes are overwritten in the background: `limpet jobs run --until-idle` does it now.",
    "vacuum": "Their bytes stay in the database's files until a vacuum: add --vacuum.",
}


def add(commands: Any) -> None:
    noun = add_command(commands, "purge", "remove a session, a user, or what of a user is older, for good", None)
    verbs = noun.add_subparsers(title="what", metavar="WHAT", required=True)
    session = add_command(verbs, "session", "remove a session with everything that came of it", purge_session)
    session.add_argument("id", metavar="ID", help="the session's id")
    user = add_command(verbs, "user", "remove everything of a user", purge_user)
    user.add_argument("user", metavar="U", help="the user")
    older = add_command(verbs, "older", "remove everything of a user that is older than some days", purge_older)
    older.add_argument("user", metavar="U", help="the user")
    older.add_argument("--days", metavar="N", type=float, required=True, help="what is older than this goes")
    for parser in (session, user, older):
        _add_options(parser)
    listing = add_command(verbs, "receipts", "list what was purged, the latest first; without names", receipts)
    listing.add_argument("--limit", metavar="N", type=int, default=50, help="how many at most; default: 50")
    listing.add_argument("--offset", metavar="N", type=int, default=0, help="how many to pass over; default: 0")

    keeping = add_command(commands, "retention", "remove now what the settings no longer keep", apply_retention)
    keeping.add_argument("--dry-run", action="store_true", help="count only")


def _add_options(parser: Parser) -> None:
    options.add_yes(parser)
    parser.add_argument("--dry-run", action="store_true", help="count what would go, and remove nothing")
    parser.add_argument("--vacuum", action="store_true", help="make the database's files anew, however large")
    parser.add_argument("--by", metavar="NAME", help="who asked for it, for the receipt")


def purge_session(args: Namespace) -> int:
    return _purge(args, lambda hf, **more: hf.privacy.purge_session(args.id, **more), f"session {args.id}")


def purge_user(args: Namespace) -> int:
    return _purge(args, lambda hf, **more: hf.privacy.purge_user(args.user, **more), f"everything of {args.user}")


def purge_older(args: Namespace) -> int:
    what = f"everything of {args.user} that is older than {args.days:g} days"
    return _purge(args, lambda hf, **more: hf.privacy.purge_older(args.user, args.days, **more), what)


def _purge(args: Namespace, purge: Callable[..., Receipt], what: str) -> int:
    with open_memory(args, needed=True) as hf:
        if args.dry_run or not args.yes:
            counted = purge(hf, dry_run=True)
            if args.dry_run:
                show.print_result(args, to_json(counted), [f"Would go: {_format_counts(counted.counts)}."])
                return 0
            print(f"{show.escape_line(what).capitalize()}: {_format_counts(counted.counts)}.", file=sys.stderr)
            confirm(args, "Purge it for good?")
        receipt = purge(hf, asked_by=args.by, vacuum=args.vacuum)
    show.print_result(args, to_json(receipt), receipt_lines(receipt))
    return 0 if receipt.verified else 1


def receipt_lines(receipt: Receipt) -> list[str]:
    """What a purge did, for a person."""
    lines = [f"Purged: {_format_counts(receipt.counts)}. Receipt {receipt.id}."]
    if receipt.verified:
        lines.append("Looked again: nothing of it is left.")
    still = "Still said in" if receipt.verified else "Left:"
    lines += [f"{still} {place}." for place in receipt.left]
    return [*lines, _BYTES[receipt.bytes.value]]


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items()) or "nothing"


def receipts(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.privacy.receipts(limit=args.limit, offset=args.offset)
    rows = [
        (
            show.format_time(receipt.asked_at),
            receipt.what.value,
            receipt.digest[:12],
            "not done yet" if receipt.done_at is None else "verified" if receipt.verified else "something is left",
            receipt.bytes.value,
            _format_counts(receipt.counts),
        )
        for receipt in found
    ]
    titles = ("ASKED", "WHAT", "DIGEST", "STATE", "?BYTES", "REMOVED")
    lines = show.format_table(titles, rows) if rows else ["Nothing was purged."]
    show.print_result(args, to_json(found), [*lines, *_more(args, len(found))])
    return 0


def _more(args: Namespace, shown: int) -> list[str]:
    return show.next_page_hint(shown, args.limit, args.offset) if shown else []


def apply_retention(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        done = hf.privacy.retention(dry_run=args.dry_run)
    verb = "would go" if args.dry_run else "gone are"
    lines = [f"{_format_subject(each)}: {verb} {_format_counts(each.counts)}." for each in done if each.counts]
    lines = lines or ["Nothing is older than the settings keep it."]
    show.print_result(args, to_json(done), lines)
    return 0


def _format_subject(each: RetentionResult) -> str:
    return "Records and documents" if each.agent is None else f"Sessions of {show.one_line(each.agent)}"
