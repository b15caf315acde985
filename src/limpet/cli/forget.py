"""forget: what would go is shown before it goes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import at_terminal, confirm
from limpet.cli.options import UsageError, command
from limpet.cli.place import opened
from limpet.errors import RecordNotFound
from limpet.model import views

if TYPE_CHECKING:
    from limpet import Forgotten, Limpet, Record


def add(commands: Any) -> None:
    parser = command(commands, "forget", "remove memories with their history and index entries", forget)
    parser.add_argument("id", metavar="ID", nargs="?", help="the id of one memory")
    parser.add_argument("--key", metavar="K", help="the one its owner keeps under this key")
    parser.add_argument("--query", metavar="Q", help="all of its owner's that hold every one of these words")
    options.add_owner(parser)
    options.add_yes(parser)


def forget(args: Namespace) -> int:
    if [args.id, args.key, args.query].count(None) != 2:
        raise UsageError("forget takes exactly one of ID, --key K and --query Q")
    with opened(args, needed=True) as hf:
        found = _chosen(hf, args)
        if found and not args.yes:
            _ask(args, found)
        gone = _remove(hf, found)
    show.answer(args, views.forgotten(gone), [forgotten_line(gone.total), *left_lines(gone)])
    return 0


def _chosen(hf: Limpet, args: Namespace) -> list[Record]:
    if args.id is not None:
        return [_by_id(hf, args)]
    would_go = hf.forget(key=args.key, query=args.query, dry_run=True, **options.owner(args))
    return [hf.record(record_id) for record_id in would_go.ids]


def _by_id(hf: Limpet, args: Namespace) -> Record:
    """The record, if it is the named owner's: a slip in the id must not reach somebody else's memory."""
    record = hf.record(args.id, user=args.user)
    named = [(args.agent, record.agent), (args.session, record.session_id)]
    named += [("global", record.level)] if args.everyone else []
    if any(wanted is not None and wanted != found for wanted, found in named):
        raise RecordNotFound(f"no record {record.id} of that owner; nothing was forgotten")
    return record


def _remove(hf: Limpet, found: Sequence[Record]) -> Forgotten:
    """What was shown is what goes, also when somebody adds another match, or removes one, meanwhile."""
    from limpet import Forgotten  # late: whoever only asks for help needs no record

    totals: dict[str, int] = {}
    ids: dict[str, None] = {}
    left: dict[str, None] = {}
    for record in found:
        with suppress(RecordNotFound):
            gone = hf.forget(record.id)
            for kind, number in gone.counts.items():
                totals[kind] = totals.get(kind, 0) + number
            ids |= dict.fromkeys(gone.ids)
            left |= dict.fromkeys(gone.left)
    return Forgotten(totals, tuple(ids), tuple(place for place in left if place.removeprefix("record ") not in ids))


def left_lines(gone: Forgotten) -> list[str]:
    """Where it is still said, for somebody who may want it gone there too."""
    return [f"Still said in {place}." for place in gone.left]


def forgotten_line(number: int) -> str:
    if not number:
        return "No record holds all these words; nothing was forgotten."
    return f"Forgot {show.quantity(number, 'record')}, every version and index entry included."


def _ask(args: Namespace, found: Sequence[Record]) -> None:
    # One memory named by its id or key is what the caller meant; what a query matches has to be seen first.
    if not at_terminal() and args.query is None:
        return
    rows = [(record.id, record.key or "-", show.when(record.updated_at), record.content) for record in found]
    print("\n".join(show.table(("ID", "KEY", "?CHANGED", "TEXT"), rows)), file=sys.stderr)
    confirm(args, f"Forget {show.quantity(len(found), 'record')} for good?")
