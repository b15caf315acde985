"""``limpet`` on the command line: which commands there are, and what their errors become."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points

from limpet import __version__
from limpet.cli import (
    access,
    api_keys,
    data,
    demo,
    documents,
    encryption,
    forget,
    graph,
    jobs,
    mcp,
    memory,
    notes,
    purge,
    records,
    schedules,
    serve,
    sessions,
    show,
    transfer,
)
from limpet.cli.chat import command as chat
from limpet.cli.options import Parser, UsageError, add_globals
from limpet.errors import LimpetError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def build_parser() -> Parser:
    parser = Parser(
        prog="limpet",
        description="The memory of an AI agent: remember, recall, forget, and look after the store.",
        epilog="limpet COMMAND --help explains a command; limpet demo shows them at work.",
    )
    parser.add_argument("--version", action="version", version=f"limpet {__version__}")
    add_globals(parser, top=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for group in (
        *(chat, memory, forget, sessions, records, documents, graph, notes, jobs, schedules),
        *(serve, mcp, access, api_keys, transfer, purge, data, encryption, demo),
    ):
        group.add(commands)
    for plugin in entry_points(group="limpet.commands"):
        plugin.load().add(commands)
    return parser


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
    parser = build_parser()
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
