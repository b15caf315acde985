"""grants: list, add, remove; audit: who did what."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.options import Parser, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import AuditEntry, GrantInfo

_GRANT = "such as read:global, write:user:bob, read:session:ID, read:agent:NAME"


def add(commands: Any) -> None:
    noun = add_command(commands, "grants", "what users may beyond their own memory; without a verb: list", list_grants)
    _add_list_options(noun)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before the verb.
    unset = {"argument_default": argparse.SUPPRESS}
    _add_list_options(add_command(verbs, "list", "list grants", list_grants, **unset))
    for name, summary, run in (
        ("add", "let a user do more than is their own", add_grant),
        ("remove", "take a grant away", remove_grant),
    ):
        changing = add_command(verbs, name, summary, run)
        changing.add_argument("user", metavar="USER", help="the user")
        changing.add_argument("grant", metavar="GRANT", help=_GRANT)

    log = add_command(commands, "audit", "who did what to whose memory, the newest first", show_audit)
    log.add_argument("--user", metavar="U", help="only what was done to this user's memory")
    log.add_argument("--principal", metavar="NAME", help="only what this one did")
    log.add_argument("--verb", metavar="VERB", help="only this verb, such as forget or session.append")
    log.add_argument("--outcome", choices=("done", "refused", "failed"), help="only calls that ended like this")
    log.add_argument("--since", metavar="TIME", type=options.parse_time, help="at this time or later")
    log.add_argument("--until", metavar="TIME", type=options.parse_time, help="before this time")
    log.add_argument("--limit", metavar="N", type=int, default=50, help="how many at most; default: 50")
    log.add_argument("--offset", metavar="N", type=int, default=0, help="how many to pass over; default: 0")


def _add_list_options(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="only this user's")


def list_grants(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.access.grants(user=args.user)
    show.print_result(args, to_json(found), _format_grants(found))
    return 0


def _format_grants(found: Sequence[GrantInfo]) -> list[str]:
    if not found:
        return ["No grants: everybody has their own memory, and nothing else."]
    rows = [(each.user, str(each.grant), show.format_time(each.at), each.by) for each in found]
    return show.format_table(("USER", "GRANT", "?SINCE", "?BY"), rows)


def add_grant(args: Namespace) -> int:
    with open_memory(args, creates=True) as hf:
        new = hf.access.grant(args.user, args.grant)
    said = "may now" if new else "had already"
    show.print_result(args, {"granted": new}, [f"{args.user} {said}: {args.grant}"])
    return 0


def remove_grant(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        gone = hf.access.revoke(args.user, args.grant)
    said = "has no longer" if gone else "did not have"
    show.print_result(args, {"revoked": gone}, [f"{args.user} {said}: {args.grant}"])
    return 0


def show_audit(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.access.audit(
            user=args.user,
            verb=args.verb,
            since=args.since,
            until=args.until,
            outcome=args.outcome,
            limit=args.limit,
            offset=args.offset,
            principal=args.principal,
        )
    show.print_result(args, to_json(found), _format_audit(found, args))
    return 0


def _format_audit(found: Sequence[AuditEntry], args: Namespace) -> list[str]:
    if not found and args.offset:
        return ["No entries so far down. Leave --offset out to see the first."]
    if not found and any((args.user, args.principal, args.verb, args.outcome, args.since, args.until)):
        return ["No such entries."]
    if not found:
        return ["No entries: nobody has done anything yet, or audit.enabled is off."]
    rows = [
        (
            show.format_time(each.at),
            each.principal,
            each.verb,
            str(each.calls),
            each.outcome.value,
            _format_target(each),
        )
        for each in found
    ]
    titles = ("WHEN", "WHO", "DID", ">CALLS", "OUTCOME", "WHOSE")
    return [*show.format_table(titles, rows), *show.next_page_hint(len(found), args.limit, args.offset)]


def _format_target(entry: AuditEntry) -> str:
    named = {
        "user": entry.user,
        "agent": entry.agent,
        "session": entry.session,
        "record": entry.record,
        "needs": entry.missing,
    }
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None) or "-"
