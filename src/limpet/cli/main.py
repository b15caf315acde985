"""``limpet`` on the command line: which commands there are, and what their errors become."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import takewhile
from typing import Any

from limpet import __version__
from limpet.cli import show
from limpet.cli.options import Parser, UsageError, add_globals
from limpet.errors import LimpetError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


# Commands of one or more operations, and what they are for.
DERIVED: dict[str, str] = {
    "remember": "store a memory; the same key again replaces its text",
    "recall": "find what was said and remembered, by words and by meaning",
    "forget": "remove memories with their history and index entries",
    "context": "show what the next prompt needs, with a session or without",
    "append": "store a message of a conversation",
    "learn": "learn now from what was said in a conversation",
    "profile": "show what is known about a user, in a few lines",
    "sessions": "list, show and change conversations",
    "records": "list, show and change long-term memories",
    "notes": "daily notes, MEMORY.md, and records as files",
    "documents": "add, list, read and remove documents",
    "graph": "show who and what is mentioned, and how they are related",
    "schedule": "run goals on a schedule, and show their results",
    "jobs": "list background work, retry it or drop it",
    "usage": "show the calls, tokens and cost of language models",
    "users": "list who has memory here: users, agents, and the tenant itself",
    "grants": "what users may do beyond their own memory",
    "api-keys": "API keys of programs that use a server",
    "audit": "show who did what to whose memory, newest first",
    "import": "import an export of Limpet or of another program",
    "export": "write everything of a user, or of a tenant, into a new folder",
    "backup": "copy the live store to a new SQLite file",
    "restore": "restore a backup into an empty store",
    "admin": "spread a store over several machines",
    "doctor": "check the store; exit status 1 when a fault remains",
    "purge": "remove a session, a user, or a user's older memory, completely",
    "retention": "remove what the settings no longer keep, now",
    "stats": "count what is stored",
}
# Commands that are more than operations, or none: what they are for, and the function that adds them.
HAND_WRITTEN: dict[str, tuple[str, str]] = {
    "chat": ("talk with a language model that remembers; /help lists what it can do", "chat.command.add"),
    "worker": ("do background work, such as missing vectors, until interrupted", "serve.add_worker"),
    "serve": ("serve memory over HTTP and MCP, with a page to look at it", "serve.add"),
    "mcp": ("serve a user's memory over MCP on the standard streams", "serve.add_mcp"),
    "copy": ("copy a whole store into an empty one, on any backend", "store.add_copy"),
    "config": ("show the settings that hold, and where they come from", "config.add"),
    "encryption": (
        "encryption keys of tenants (API keys: limpet api-keys); without a verb: status",
        "store.add_encryption",
    ),
    "demo": ("show a sample conversation: what is learned, changed, recalled and forgotten", "demo.add"),
}
PLUGINS = "limpet.commands"  # the entry points of other distributions that add commands
BENCH_MISSING = (
    "limpet bench is a distribution of its own: run `pip install ./bench` in a clone of the repository, "
    "or `make bench` there"
)


def build_parser(command: str | None = None) -> Parser:
    """The parser of one command; without one, of every command and every plugin."""
    parser, commands = _start_parser()
    if command in HAND_WRITTEN or command in DERIVED:
        _add(commands, command)
        return parser
    if command is None:
        for name in (*DERIVED, *HAND_WRITTEN):
            _add(commands, name, late=False)
    _add_plugins(commands)
    if command is None or command not in commands.choices:
        _add_unlisted(commands, command)
    return parser


def build_index() -> Parser:
    """The names of all commands and what they are for, without their options: quickly made."""
    parser, commands = _start_parser()
    for name, summary in (DERIVED | {name: summary for name, (summary, _) in HAND_WRITTEN.items()}).items():
        commands.add_parser(name, help=summary)
    _add_plugins(commands)
    return parser


def _start_parser() -> tuple[Parser, Any]:
    parser = Parser(
        prog="limpet",
        description="The memory of an AI agent: remember, recall, forget, and look after the store.",
        epilog="limpet COMMAND --help explains a command; limpet demo shows them at work.",
    )
    parser.add_argument("--version", action="version", version=f"limpet {__version__}")
    add_globals(parser, top=True)
    return parser, parser.add_subparsers(title="commands", metavar="COMMAND")


def _add(commands: Any, name: str, *, late: bool = True) -> None:
    if name in HAND_WRITTEN:
        summary, place = HAND_WRITTEN[name]
        module, _, function = place.rpartition(".")
        getattr(import_module(f"limpet.cli.{module}"), function)(commands, summary)
        return
    from limpet.cli import derive  # late: it reads the table of operations

    derive.add(commands, name, DERIVED[name], late=late)


def _add_unlisted(commands: Any, command: str | None) -> None:
    """What the table of operations has beyond the lists above; a word that nobody knows is an error."""
    from limpet.cli import derive

    for name in derive.list_words():
        if name not in DERIVED and name not in HAND_WRITTEN and name not in commands.choices:
            derive.add(commands, name, late=False)
    if command is not None and command not in commands.choices:
        raise UsageError(_explain_unknown(command, {*commands.choices, *DERIVED, *HAND_WRITTEN}))


def _add_plugins(commands: Any) -> None:
    from importlib.metadata import entry_points  # late: it takes longer than most commands

    for plugin in entry_points(group=PLUGINS):
        plugin.load().add(commands)


def _explain_unknown(command: str, known: Iterable[str]) -> str:
    if command == "bench":
        return BENCH_MISSING
    from limpet.model.values import suggest  # late: only a mistake needs it

    return f"{command!r} is not a command{suggest(command, known)} (see limpet --help)"


def find_command(arguments: Sequence[str]) -> str | None:
    """The first word that is neither an option nor the value of one."""
    words = iter(arguments)
    for word in words:
        if word in {"--data", "--config", "--tenant", "--api-key"}:
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
        _abandon_output()  # the reader of our output has seen enough
        return DONE
    except KeyboardInterrupt:
        return _fail("interrupted", "interrupted", as_json=as_json, status=INTERRUPTED)
    except OSError as error:
        _abandon_output()
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", "os_error", as_json=as_json)
    return status


def _run(arguments: list[str]) -> int:
    command = find_command(arguments)
    _start_parser()[0].check_options(takewhile(lambda word: word != command, arguments))
    parser = build_index() if command is None else build_parser(command)
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
    from limpet.cli.options import load_config
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
