"""How commands are declared, the options that every command has, and opening the memory they name."""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from limpet.errors import InvalidInput

if TYPE_CHECKING:
    from limpet import Config, Limpet
    from limpet.providers.llm import Llm


CommandFunction = Callable[[argparse.Namespace], int]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_NUMBERS: Mapping[object, str] = {int: "a whole number", float: "a number"}
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
        self.check_options(args or ())
        return super().parse_known_args(args, namespace)

    def check_options(self, args: Iterable[str]) -> None:
        """Refuse the first unknown option before argparse takes its value for a command, and say what was meant."""
        commands = {
            name for action in self._actions if action.nargs == argparse.PARSER for name in action.choices or ()
        }
        for word in takewhile(lambda each: each != "--" and each not in commands, args):
            option = word.partition("=")[0]
            if option.startswith("--") and " " not in option and option not in self._option_string_actions:
                from limpet.model.values import suggest  # late: only a mistake needs it

                self.error(f"{option} is not an option{suggest(option, self._option_string_actions, 0.75)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does, and says which choice was probably meant."""
        if action.choices is not None and value not in action.choices:
            from limpet.model.values import suggest  # late: only a mistake needs it

            known = [str(choice) for choice in action.choices]
            hint = suggest(str(value), known) or f"; choose from {', '.join(known)}"
            raise argparse.ArgumentError(action, f"{value!r} is not a choice{hint}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in _NUMBERS:
                raise
            raise argparse.ArgumentError(action, f"{arg_string!r} is not {_NUMBERS[action.type]}") from None

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
        help=(
            "where the memory is: a folder, a .db file, postgresql://… or the http://… of limpet serve"
            " (else LIMPET_DATA, else your data folder)"
        ),
    )
    group.add_argument("--api-key", metavar="SECRET", default=unset, help="the key for a server (else LIMPET_API_KEY)")
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
        help="the lowest level they log (else: observe.log_level; debug with --verbose)",
    )


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


def parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-03-10") from None


def parse_duration(text: str) -> timedelta:
    """``30d``, ``12h``, ``1d12h``."""
    pieces = _SPAN.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time such as 30d, 12h or 90m")
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in pieces), timedelta())
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a time") from None


MEMORY = ":memory:"
USER_ENV = "LIMPET_USER"
DEFAULT_USER = "me"  # who runs the program: a store on one's own machine has one user


def resolve_location(args: Namespace) -> str:
    """As given, else LIMPET_DATA, else the platform's folder for a user's data."""
    if args.data is not None:
        return check_location(args.data, "--data")
    return os.environ.get("LIMPET_DATA") or user_folder(os.environ, sys.platform)


def resolve_user(args: Namespace) -> str:
    """As given, else LIMPET_USER, else the default: for what needs the name itself."""
    return getattr(args, "user", None) or os.environ.get(USER_ENV) or DEFAULT_USER


def check_location(where: str, what: str) -> str:
    if not where.strip():
        raise InvalidInput(f"{what} is empty; name a folder or a postgresql:// address")
    return where


def user_folder(env: Mapping[str, str], platform: str) -> str:
    home = os.path.expanduser("~")
    if platform == "win32":
        base = env.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        given = env.get("XDG_DATA_HOME", "")
        # The specification wants a relative path ignored.
        base = given if os.path.isabs(given) else os.path.join(home, ".local", "share")
    return os.path.join(base, "limpet")


def load_config(args: Namespace) -> Config:
    from limpet.config import Config

    return Config.load(args.config or os.environ.get("LIMPET_CONFIG") or None)


def open_memory(
    args: Namespace,
    *,
    creates: bool = False,
    needed: bool = False,
    config: Config | None = None,
    llm: Llm | None = None,
) -> Limpet:
    """The store. A command that only reads makes none: where there is none it sees an empty one, and says so."""
    from limpet import Limpet
    from limpet.model.scope import DEFAULT_TENANT

    where = resolve_location(args)
    if is_server(where):
        if config is not None:  # with settings of its own it works on the store itself
            raise InvalidInput(f"this command needs the store itself, not the server {where}; name another with --data")
        return _connect(args, where)
    config = disable_worker(load_config(args)) if config is None else config
    if not creates and not has_store(where):
        if needed:
            raise store_not_found(where)
        print(f"limpet: note: there is no store at {where} yet", file=sys.stderr)
        where = MEMORY
    tenant = DEFAULT_TENANT if args.tenant is None else args.tenant
    return Limpet.open(where, config=config, tenant=tenant, llm=llm)


def is_server(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _connect(args: Namespace, where: str) -> Limpet:
    from limpet import Limpet

    if args.tenant is not None:
        raise InvalidInput("a server's API key says which tenant it is: leave --tenant out")
    user = os.environ.get(USER_ENV) or None
    return Limpet.connect(where, key=args.api_key or os.environ.get("LIMPET_API_KEY") or None, user=user)


def disable_worker(config: Config) -> Config:
    """A command is over too soon for work in the background; a worker or the next program does what it leaves."""
    from dataclasses import replace

    return map_config(config, lambda own: replace(own, jobs=replace(own.jobs, worker=False)))


def map_config(config: Config, change: Callable[[Config], Config]) -> Config:
    """A change of the settings and of every agent's own: they may not part where agents share a store."""
    from dataclasses import replace

    general = change(replace(config, agents={}))
    return replace(general, agents={name: change(own) for name, own in config.agents.items()})


def has_store(where: str) -> bool:
    """Whether there is anything to open. A server is asked when it is opened."""
    if where == MEMORY or "://" in where:
        return True
    from pathlib import Path

    from limpet.api.runtime import database_file
    from limpet.lifecycle import SNAPSHOT

    path = Path(where).expanduser()
    return database_file(path).exists() or (path / SNAPSHOT).exists()


def store_not_found(where: str) -> InvalidInput:
    return InvalidInput(f"there is no store at {where}; name another with --data")
