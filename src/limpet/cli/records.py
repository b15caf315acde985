"""records: list, show, history, update, count, promote, revive."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.memory import read_text_argument
from limpet.cli.options import Parser, UsageError, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Record

_LIST = ("user", "agent", "session", "layer", "type", "tag", "meta", "since", "until", "as_of", "archived")


def add(commands: Any) -> None:
    noun = add_command(
        commands, "records", "list, show and change long-term memories; without a verb: list", list_records
    )
    _add_list_options(noun)
    noun.set_defaults(limit=50, offset=0)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before `list`.
    unset = {"argument_default": argparse.SUPPRESS}
    listing = add_command(verbs, "list", "list records, the latest change first", list_records, **unset)
    _add_list_options(listing)
    showing = add_command(verbs, "show", "show one record in full", show_record)
    showing.add_argument("id", metavar="ID", help="the record")
    history = add_command(verbs, "history", "show everything a record has said, the oldest first", show_history)
    history.add_argument("id", metavar="ID", help="the record")
    _add_update(verbs)
    promote = add_command(verbs, "promote", "make lasting knowledge of what was learned in an episode", promote_record)
    promote.add_argument("id", metavar="ID", help="the episodic record")
    promote.add_argument("--scope", choices=("user", "global"), help="let more see it: the user's chats, or everybody")
    revive = add_command(verbs, "revive", "bring back a record that has faded", revive_record)
    revive.add_argument("id", metavar="ID", help="the archived record")
    count = add_command(verbs, "count", "count the records that are true now", count_records)
    _add_owner(count)


def _add_owner(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="only this user's")
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--session", metavar="ID", help="only this session's")


def _add_list_options(parser: Parser) -> None:
    _add_owner(parser)
    options.add_filters(parser)
    parser.add_argument("--history", action="store_true", help="also those that are no longer true")
    parser.add_argument("--archived", action="store_true", help="those that have faded, and no others")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most; default: 50")
    parser.add_argument("--offset", metavar="N", type=int, help="how many to pass over; default: 0")


def _add_update(verbs: Any) -> None:
    update = add_command(verbs, "update", "change a record; what it said before stays in its history", update_record)
    update.add_argument("id", metavar="ID", help="the record")
    update.add_argument("--content", metavar="TEXT", help="the new text; - reads it from the input")
    update.add_argument("--key", metavar="K", help="a new key")
    update.add_argument("--title", metavar="TITLE", help="a new heading")
    update.add_argument("--type", choices=options.TYPES, help="another type")
    update.add_argument("--layer", choices=options.LAYERS, help="another layer")
    update.add_argument("--tag", action="append", metavar="TAG", help="the tags, all of them; may be repeated")
    update.add_argument(
        "--meta", action="append", metavar="K=V", type=options.parse_pair, help="the metadata, all of it"
    )
    update.add_argument("--confidence", metavar="0..1", type=float, help="how sure it is")
    update.add_argument("--salience", metavar="0..1", type=float, help="how much it matters")
    update.add_argument(
        "--ttl", metavar="SPAN", type=options.parse_duration, help="not recalled after this time, such as 30d or 12h"
    )
    update.add_argument("--pin", action=argparse.BooleanOptionalAction, help="mark it as one that never fades")


def list_records(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.records(
            user=args.user,
            agent=args.agent,
            session=args.session,
            history=args.history,
            archived=args.archived,
            limit=args.limit,
            offset=args.offset,
            **options.filter_arguments(args),
        )
    show.print_result(args, to_json(found), _format_records(found, args))
    return 0


def _format_records(found: Sequence[Record], args: Namespace) -> list[str]:
    if not found and (args.offset or any(getattr(args, name) for name in _LIST)):
        return ["No record fits these options. Leave some of them out to see more."]
    if not found:
        return ['No records yet. `limpet remember "…" --user U` keeps one.']
    return [*record_table(found), *show.next_page_hint(len(found), args.limit, args.offset)]


def record_table(found: Sequence[Record]) -> list[str]:
    rows = [
        (
            record.id,
            format_owner(record),
            record.type.value,
            record.key or "-",
            show.format_time(record.updated_at),
            record.content,
        )
        for record in found
    ]
    return show.format_table(("ID", "?OWNER", "?TYPE", "KEY", "?CHANGED", "TEXT"), rows)


def format_owner(record: Record) -> str:
    names = {"user": record.user, "agent": record.agent, "session": record.session_id}
    return f"{record.level} {names.get(record.level) or ''}".strip()


def show_record(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        record = hf.records.get(args.id)
    show.print_result(args, to_json(record), _format_record(record))
    return 0


def _format_record(record: Record) -> list[str]:
    about = [
        ("record", record.id),
        ("owner", format_owner(record)),
        ("key", record.key or ""),
        ("title", record.title or ""),
        ("type", f"{record.type}, {record.layer}"),
        ("tags", ", ".join(record.tags)),
        ("metadata", show.to_json(dict(record.metadata), indent=None) if record.metadata else ""),
        ("confidence", f"{record.confidence:g}"),
        ("salience", f"{record.salience:g}"),
        ("pinned", "yes" if record.pinned else ""),
        ("created", show.format_time(record.created_at)),
        ("changed", f"{show.format_time(record.updated_at)}, version {record.version}"),
        ("true from", show.format_time(record.valid_from)),
        ("true until", show.format_time(record.valid_to) if record.valid_to else ""),
        ("expires", show.format_time(record.expires_at) if record.expires_at else ""),
        ("archived", show.format_time(record.archived_at) if record.archived_at else ""),
    ]
    return [*show.format_fields(about), "", *show.escape(record.content).split("\n")]


def show_history(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        versions = hf.records.history(args.id)
    show.print_result(args, to_json(versions), history_lines(versions))
    return 0


def history_lines(versions: Sequence[Record]) -> list[str]:
    rows = [(str(version.version), show.format_time(version.updated_at), version.content) for version in versions]
    return show.format_table((">VERSION", "SINCE", "TEXT"), rows)


def update_record(args: Namespace) -> int:
    changes = {
        "content": None if args.content is None else read_text_argument(args.content),
        "key": args.key,
        "title": args.title,
        "type": args.type,
        "layer": args.layer,
        "tags": args.tag,
        "metadata": dict(args.meta) if args.meta else None,
        "confidence": args.confidence,
        "salience": args.salience,
        "ttl": args.ttl,
        "pinned": args.pin,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        raise UsageError("say what to change, such as --content TEXT")
    with open_memory(args, needed=True) as hf:
        record = hf.records.update(args.id, **given)
    show.print_result(args, to_json(record), [f"Now version {record.version}: {record.id}"])
    return 0


def promote_record(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        record = hf.records.promote(args.id, scope=args.scope)
    show.print_result(args, to_json(record), [f"Known by its {record.level}, {record.layer}: {record.id}"])
    return 0


def revive_record(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        record = hf.records.revive(args.id)
    show.print_result(args, to_json(record), [f"Recalled again: {record.id}"])
    return 0


def count_records(args: Namespace) -> int:
    with open_memory(args) as hf:
        count = hf.records.count(user=args.user, agent=args.agent, session=args.session)
    show.print_result(args, {"count": count}, [str(count)])
    return 0
