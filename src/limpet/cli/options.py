"""How commands are declared, the options that every command has, and what their values may be."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn

CommandFunction = Callable[[argparse.Namespace], int]

# The domain's words, repeated here so that showing help need not import it. A test keeps them equal.
RECIPES = ("default", "words", "vectors", "weighted", "records", "graph", "graph_global")
KINDS = ("message", "record", "document")
LAYERS = ("working", "episodic", "semantic", "procedural")
TYPES = (
    *("fact", "preference", "constraint", "decision", "note", "failure", "fix"),
    *("command_result", "task_state"),
)
STATES = ("ACTIVE", "PAUSED", "TERMINATED")
JOB_STATES = ("waiting", "running", "dead")
SCHEDULE_STATES = ("active", "paused", "completed", "failed", "disabled")
NOTIFY = ("always", "conditional", "never")

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


class UsageError(Exception):
    """The command was typed wrongly: exit status 2."""


class Parser(argparse.ArgumentParser):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self.late: Callable[[Parser], None] | None = None  # adds options whose module is only imported when used

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.late is not None:
            fill, self.late = self.late, None
            fill(self)
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does, and says which choice was probably meant."""
        if action.choices is not None and value not in action.choices:
            from limpet.config.setting import suggest  # late: only a mistake needs it

            known = [str(choice) for choice in action.choices]
            hint = suggest(str(value), known) or f"; choose from {', '.join(known)}"
            raise argparse.ArgumentError(action, f"{value!r} is not a choice{hint}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def add_globals(parser: Parser, *, top: bool = False) -> None:
    """Given before or after the command. After it, one that is left out must not undo what stood before."""
    unset: Any = None if top else argparse.SUPPRESS
    group = parser.add_argument_group("options of every command")
    group.add_argument(
        "--data",
        metavar="DIR|URL",
        default=unset,
        help="where the memory is: a folder, a .db file or postgresql://… (else LIMPET_DATA, else your data folder)",
    )
    group.add_argument("--config", metavar="FILE", default=unset, help="a settings file (else LIMPET_CONFIG)")
    group.add_argument("--tenant", metavar="T", default=unset, help="which tenant of the store; default: default")
    flag: Any = False if top else argparse.SUPPRESS
    group.add_argument("--json", action="store_true", default=flag, help="print one JSON document")
    group.add_argument("-v", "--verbose", action="store_true", default=flag, help="print log lines on stderr")


def add_command(commands: Any, name: str, summary: str, run: CommandFunction | None, **more: Any) -> Parser:
    parser: Parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", **more)
    add_globals(parser)
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_logging(parser: Parser) -> None:
    """For commands that stay."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), help="how log lines on stderr are written (else: observe.log_format)"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="the least they tell (else: observe.log_level; debug with --verbose)",
    )


def add_owner(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="the user whose memory it is")
    parser.add_argument("--agent", metavar="A", help="the agent whose memory it is")
    parser.add_argument("--session", metavar="ID", help="one session's memory")
    parser.add_argument("--global", dest="everyone", action="store_true", help="the memory of the whole tenant")


def owner_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Whose memory, as the engine's verbs take it: exactly one owner, a session's user at most named beside it."""
    given = [args.agent is not None, args.everyone, args.user is not None or args.session is not None]
    if given.count(True) != 1:
        raise UsageError("say whose memory this is, and only one: --user U, --agent A, --session ID or --global")
    return {
        "user": args.user,
        "agent": args.agent,
        "session": args.session,
        "scope": "global" if args.everyone else None,
    }


def add_filters(parser: Parser) -> None:
    parser.add_argument("--layer", action="append", choices=LAYERS, help="only records of this layer; may be repeated")
    parser.add_argument("--type", action="append", choices=TYPES, help="only records of this type; may be repeated")
    parser.add_argument(
        "--tag", action="append", metavar="TAG", help="only records with this tag; repeated: all of them"
    )
    parser.add_argument(
        "--meta", action="append", metavar="K=V", type=parse_pair, help="only records with this metadata"
    )
    parser.add_argument("--since", metavar="TIME", type=parse_time, help="made at this time or later")
    parser.add_argument("--until", metavar="TIME", type=parse_time, help="made before this time")
    parser.add_argument("--as-of", metavar="TIME", type=parse_time, help="as the memory was at this time")


def filter_arguments(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "layers": args.layer,
        "types": args.type,
        "tags": args.tag,
        "metadata": dict(args.meta) if args.meta else None,
        "since": args.since,
        "until": args.until,
        "as_of": args.as_of,
    }


def add_yes(parser: Parser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def parse_time(text: str) -> datetime:
    """A time as a person types it: without a zone it is theirs."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        example = "2026-03-10, 2026-03-10T09:30 or 2026-03-10T09:30+01:00"
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO 8601 time such as {example}") from None


def parse_duration(text: str) -> timedelta:
    """``30d``, ``12h``, ``1d12h``."""
    pieces = _SPAN.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time such as 30d, 12h or 90m")
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in pieces), timedelta())
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a time") from None
