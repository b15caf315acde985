"""keys: make an API key for a server, list them, take one away. Keys that seal a tenant's text are ``limpet key``."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.options import Parser, command
from limpet.cli.place import opened
from limpet.model import views

if TYPE_CHECKING:
    from limpet import KeyInfo

_ADMIN = ("read:store", "write:store")


def add(commands: Any) -> None:
    noun = command(commands, "keys", "API keys that programs show to a server; without a verb: list", list_)
    _add_list_options(noun)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    making = command(verbs, "create", "make an API key, and print its secret this once", create)
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
    _add_list_options(command(verbs, "list", "list API keys", list_, argument_default=argparse.SUPPRESS))
    taking = command(verbs, "revoke", "take an API key away, in every process at once", revoke)
    taking.add_argument("key", metavar="NAME_OR_ID", help="which one")


def _add_list_options(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="only this user's")
    parser.add_argument("--all", action="store_true", help="also those that were revoked or have expired")


def create(args: Namespace) -> int:
    with opened(args, creates=True) as hf:
        made = hf.keys.create(
            args.name,
            user=args.user,
            agent=args.agent,
            grants=[*args.grant, *(_ADMIN if args.admin else ())],
            expires_in=None if args.days is None else _days(args.days),
        )
    lines = [
        made.secret,
        show.one_line(f"That is the secret of the key {made.info.name}. It is shown only now: keep it safe."),
    ]
    show.answer(args, {"secret": made.secret, **views.api_key(made.info)}, lines)
    return 0


def _days(number: float) -> timedelta:
    from limpet.errors import InvalidInput

    if not 0 < number <= 365_000:
        raise InvalidInput("--days must be a number above 0 and at most 365,000")
    return timedelta(days=number)


def list_(args: Namespace) -> int:
    with opened(args) as hf:
        found = hf.keys.list(user=args.user, include_revoked=args.all)
    show.answer(args, [views.api_key(each) for each in found], _listed(found))
    return 0


def _listed(found: Sequence[KeyInfo]) -> list[str]:
    if not found:
        return ["No API keys: limpet keys create NAME makes one."]
    rows = [
        (each.name, _whose(each), _ends(each), show.when(each.last_used_at), each.created_by, each.id) for each in found
    ]
    return show.table(("NAME", "ACTS FOR", "UNTIL", "?LAST USED", "?BY", "ID"), rows)


def _whose(key: KeyInfo) -> str:
    named = [f"user {key.user}"] if key.user is not None else []
    named += [f"agent {key.agent}"] if key.agent is not None else []
    return ", ".join([*named, *map(str, key.grants)])


def _ends(key: KeyInfo) -> str:
    if key.revoked_at is not None:
        return f"revoked {show.when(key.revoked_at)}"
    return "-" if key.expires_at is None else show.when(key.expires_at)


def revoke(args: Namespace) -> int:
    with opened(args, needed=True) as hf:
        gone = hf.keys.revoke(args.key)
    said = "is revoked" if gone else "is no key, or was revoked before"
    others = f", and {gone - 1} made by it" if gone > 1 else ""
    show.answer(args, {"revoked": bool(gone), "keys": gone}, [show.one_line(f"{args.key} {said}{others}")])
    return 0
