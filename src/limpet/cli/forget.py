"""forget: what would go is shown before it goes."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import confirm, is_interactive
from limpet.cli.options import UsageError, add_command
from limpet.cli.place import open_memory
from limpet.errors import RecordNotFound
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Forgotten, Limpet, Record


def add(commands: Any) -> None:
    parser = add_command(commands, "forget", "remove memories with their history and index entries", forget)
    parser.add_argument("id", metavar="ID", nargs="?", help="the id of one memory")
    parser.add_argument("--key", metavar="K", help="the one its owner keeps under this key")
    parser.add_argument("--query", metavar="Q", help="all of its owner's that hold every one of these words")
    options.add_owner(parser)
    options.add_yes(parser)


def forget(args: Namespace) -> int:
    if [args.id, args.key, args.query].count(None) != 2:
        raise UsageError("forget takes exactly one of ID, --key K and --query Q")
    with open_memory(args, needed=True) as hf:
        found = _select_records(hf, args)
        if found and not args.yes:
            _confirm(args, found)
        gone = _remove(hf, found)
    show.print_result(args, to_json(gone), [format_forgotten(gone.total), *remaining_lines(gone)])
    return 0


def _select_records(hf: Limpet, args: Namespace) -> list[Record]:
    if args.id is not None:
        return [_find_by_id(hf, args)]
    would_go = hf.forget(key=args.key, query=args.query, dry_run=True, **options.owner_arguments(args))
    return [hf.records.get(record_id) for record_id in would_go.ids]


def _find_by_id(hf: Limpet, args: Namespace) -> Record:
    """The record, if it is the named owner's: a slip in the id must not reach somebody else's memory."""
    record = hf.records.get(args.id, user=args.user)
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


def remaining_lines(gone: Forgotten) -> list[str]:
    """Where it is still said, for somebody who may want it gone there too."""
    return [f"Still said in {place}." for place in gone.left]


def format_forgotten(number: int) -> str:
    if not number:
        return "No record holds all these words; nothing was forgotten."
    return f"Forgot {show.pluralize(number, 'record')}, every version and index entry included."


def _confirm(args: Namespace, found: Sequence[Record]) -> None:
    # One memory named by its id or key is what the caller meant; what a query matches has to be seen first.
    if not is_interactive() and args.query is None:
        return
    rows = [(record.id, record.key or "-", show.format_time(record.updated_at), record.content) for record in found]
    print("\n".join(show.format_table(("ID", "KEY", "?CHANGED", "TEXT"), rows)), file=sys.stderr)
    confirm(args, f"Forget {show.pluralize(len(found), 'record')} for good?")
