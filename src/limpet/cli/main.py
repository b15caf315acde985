"""``limpet`` on the command line: which commands there are, and what their errors become."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from limpet import __version__
from limpet.cli import show
from limpet.cli.options import Parser, UsageError, add_globals
from limpet.errors import LimpetError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


# Which module adds which commands: only the one that is needed is imported.
MODULES = {
    "chat.command": ("chat",),
    "memory": ("remember", "recall", "context"),
    "forget": ("forget",),
    "sessions": ("sessions",),
    "records": ("records",),
    "documents": ("documents",),
    "graph": ("graph",),
    "notes": ("notes",),
    "jobs": ("jobs", "worker"),
    "schedules": ("schedule",),
    "serve": ("serve",),
    "mcp": ("mcp",),
    "access": ("grants", "audit"),
    "api_keys": ("keys",),
    "transfer": ("import", "export"),
    "purge": ("purge", "retention"),
    "data": ("backup", "copy", "doctor"),
    "encryption": ("key",),
    "demo": ("demo",),
}
MODULE_OF = {command: module for module, commands in MODULES.items() for command in commands}
PLUGINS = "limpet.commands"  # the entry points of other distributions that add commands
BENCH_MISSING = (
    "limpet bench is a distribution of its own: run `pip install ./bench` in a clone of the repository, "
    "or `make bench` there"
)


def build_parser(command: str | None = None) -> Parser:
    """The parser of one command if it is ours, else of every command and every plugin."""
    parser = Parser(
        prog="limpet",
        description="The memory of an AI agent: remember, recall, forget, and look after the store.",
        epilog="limpet COMMAND --help explains a command; limpet demo shows them at work.",
    )
    parser.add_argument("--version", action="version", version=f"limpet {__version__}")
    add_globals(parser, top=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in [MODULE_OF[command]] if command in MODULE_OF else MODULES:
        import_module(f"limpet.cli.{module}").add(commands)
    if command not in MODULE_OF:
        _add_plugins(commands)
        if command is not None and command not in commands.choices:
            raise UsageError(_explain_unknown(command, commands.choices))
    return parser


def _add_plugins(commands: Any) -> None:
    from importlib.metadata import entry_points  # late: it takes longer than most commands

    for plugin in entry_points(group=PLUGINS):
        plugin.load().add(commands)


def _explain_unknown(command: str, known: Iterable[str]) -> str:
    if command == "bench":
        return BENCH_MISSING
    from limpet.config.setting import suggest  # late: only a mistake needs it

    return f"{command!r} is not a command{suggest(command, known)} (see limpet --help)"


def find_command(arguments: Sequence[str]) -> str | None:
    """The first word that is neither an option nor the value of one."""
    words = iter(arguments)
    for word in words:
        if word in {"--data", "--config", "--tenant"}:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments  # also for what goes wrong before the options are read
    try:
        with suppress(AttributeError):  # a replaced stdout may have no encoding to change
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        status = _run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        return _fail(str(error), "usage", as_json=as_json, status=WRONG_USAGE)
    except LimpetError as error:
        return _fail(str(error), error.code, as_json=as_json)
    except BrokenPipeError:
        _abandon_output()  # whoever read our output has seen enough
        return DONE
    except KeyboardInterrupt:
        return _fail("interrupted", "interrupted", as_json=as_json, status=INTERRUPTED)
    except OSError as error:
        _abandon_output()
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", "os_error", as_json=as_json)
    return status


def _run(arguments: list[str]) -> int:
    parser = build_parser(find_command(arguments))
    try:
        args = parser.parse_args(arguments)
    except SystemExit as done:  # --help and --version have printed what was asked for
        return int(done.code or 0)
    if not hasattr(args, "run"):
        if not args.json:
            parser.print_help(sys.stderr)
        raise UsageError("name a command")
    with _configure_logging(args):
        status: int = args.run(args)
    return status


@contextmanager
def _configure_logging(args: Namespace) -> Iterator[None]:
    """Warnings go to stderr, all the rest too with ``--verbose``."""
    if hasattr(args, "log_format"):
        with _daemon_logging(args):
            yield
        return
    import logging

    class LineFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return show.escape_line(f"limpet: {record.levelname.lower()}: {super().format(record)}")

    logger = logging.getLogger("limpet")
    handler, before = logging.StreamHandler(), (logger.level, logger.propagate)
    handler.setFormatter(LineFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if args.verbose else logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


@contextmanager
def _daemon_logging(args: Namespace) -> Iterator[None]:
    """A command that stays writes lines others can read, and nobody's words."""
    from limpet.cli.place import load_config
    from limpet.security.logs import LOGGER, configure_logging

    wanted = load_config(args).observe
    level = args.log_level or ("debug" if args.verbose else wanted.log_level)
    form = args.log_format or wanted.log_format
    undo = configure_logging(level, form, words=wanted.error_words, loggers=(LOGGER, "uvicorn", "mcp"))
    try:
        yield
    finally:
        undo()


def _fail(text: str, code: str, *, as_json: bool, status: int = FAILED) -> int:
    with suppress(OSError, ValueError):  # stderr may be gone too
        if as_json:
            print(show.to_json({"error": {"code": code, "message": text}}, indent=None), file=sys.stderr)
        else:
            print(f"limpet: {show.escape_line(text)}", file=sys.stderr)
    return status


def _abandon_output() -> None:
    """Send what is still unwritten nowhere, so that the interpreter does not complain when it closes the output."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
