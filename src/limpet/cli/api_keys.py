"""keys: make an API key for a server, list them, take one away. Keys that seal a tenant's text are ``limpet key``."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.options import Parser, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import KeyInfo

_ADMIN = ("read:store", "write:store")


def add(commands: Any) -> None:
    noun = add_command(commands, "keys", "API keys that programs show to a server; without a verb: list", list_keys)
    _add_list_options(noun)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    making = add_command(verbs, "create", "make an API key, and print its secret this once", create)
    making.add_argument("name", metavar="NAME", help="what it is called in lists and, as key:NAME, in the audit")
    making.add_argument("--user", metavar="U", help="the user it acts for")
    making.add_argument("--agent", metavar="A", help="the agent it acts for, or through which its user does")
    making.add_argument(
        "--grant",
        metavar="G",
        action="append",
        default=[],
        help="what it may besides, such as read:global or write:user:bob; may be repeated",
    )
    making.add_argument("--admin", action="store_true", help="it may do everything: --grant read:store and write:store")
    making.add_argument("--days", metavar="N", type=float, help="it expires after so many days; left out: never")
    # What is left out here must not undo what stood before the verb.
    _add_list_options(add_command(verbs, "list", "list API keys", list_keys, argument_default=argparse.SUPPRESS))
    taking = add_command(verbs, "revoke", "take an API key away, in every process at once", revoke)
    taking.add_argument("key", metavar="NAME_OR_ID", help="which one")


def _add_list_options(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="only this user's")
    parser.add_argument("--all", action="store_true", help="also those that were revoked or have expired")


def create(args: Namespace) -> int:
    with open_memory(args, creates=True) as hf:
        made = hf.access.keys.create(
            args.name,
            user=args.user,
            agent=args.agent,
            grants=[*args.grant, *(_ADMIN if args.admin else ())],
            expires_in=None if args.days is None else _parse_days(args.days),
        )
    lines = [
        made.secret,
        show.one_line(f"That is the secret of the key {made.info.name}. It is shown only now: keep it safe."),
    ]
    show.print_result(args, {"secret": made.secret, **to_json(made.info)}, lines)
    return 0


def _parse_days(number: float) -> timedelta:
    from limpet.errors import InvalidInput

    if not 0 < number <= 365_000:
        raise InvalidInput("--days must be a number above 0 and at most 365,000")
    return timedelta(days=number)


def list_keys(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.access.keys(user=args.user, include_revoked=args.all)
    show.print_result(args, to_json(found), _format_keys(found))
    return 0


def _format_keys(found: Sequence[KeyInfo]) -> list[str]:
    if not found:
        return ["No API keys: limpet keys create NAME makes one."]
    rows = [
        (
            each.name,
            _format_subject(each),
            _format_expiry(each),
            show.format_time(each.last_used_at),
            each.created_by,
            each.id,
        )
        for each in found
    ]
    return show.format_table(("NAME", "ACTS FOR", "UNTIL", "?LAST USED", "?BY", "ID"), rows)


def _format_subject(key: KeyInfo) -> str:
    named = [f"user {key.user}"] if key.user is not None else []
    named += [f"agent {key.agent}"] if key.agent is not None else []
    return ", ".join([*named, *map(str, key.grants)])


def _format_expiry(key: KeyInfo) -> str:
    if key.revoked_at is not None:
        return f"revoked {show.format_time(key.revoked_at)}"
    return "-" if key.expires_at is None else show.format_time(key.expires_at)


def revoke(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        gone = hf.access.keys.revoke(args.key)
    said = "is revoked" if gone else "is no key, or was revoked before"
    others = f", and {gone - 1} made by it" if gone > 1 else ""
    show.print_result(args, {"revoked": bool(gone), "keys": gone}, [show.one_line(f"{args.key} {said}{others}")])
    return 0
