"""chat: its options, and what it needs before the first line is read."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from limpet.cli.options import UsageError, add_command, load_config, map_config, open_memory, resolve_location

if TYPE_CHECKING:
    from limpet import Config, Limpet
    from limpet.cli.chat.terminal import Screen
    from limpet.providers.llm import Llm

CHANNEL, CHAT = "tui", "local"
PATIENCE = 0.5  # seconds of closing before a word is said
_QUIET_LOGGERS = ("limpet.turn", "limpet.context", "limpet.notes", "limpet.jobs", "limpet.knowledge")


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "chat", summary, run)
    parser.add_argument("--user", metavar="U", help="whose memory it is; default: $LIMPET_USER, then tui:CHAT")
    parser.add_argument("--agent", metavar="A", help="the agent you talk with (default: session.default_agent)")
    parser.add_argument(
        "--llm",
        metavar="SPEC",
        help="openai:MODEL@URL, anthropic:MODEL, anthropic:MODEL@URL or none (default: llm.model)",
    )
    parser.add_argument("--chat", metavar="NAME", default=CHAT, help=f"which conversation; default: {CHAT}")
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=_parse_positive_int,
        help="tokens of a context at most (default: context.max_tokens)",
    )
    parser.add_argument(
        "--window", metavar="N", type=_parse_positive_int, help="tokens the model reads (default: compact.window)"
    )


def _parse_positive_int(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def run(args: Namespace) -> int:
    from limpet.cli.chat.loop import ChatLoop
    from limpet.cli.chat.terminal import InputReader, JsonScreen, Screen, Stopper

    config = _load_config(args)
    agent = config.session.default_agent if args.agent is None else args.agent
    llm = _select_llm(args, config.for_agent(agent))
    screen = JsonScreen(sys.stdout) if args.json else Screen.of(sys.stdout)
    with (
        _quiet_loggers(args),
        _close_with_notice(open_memory(args, creates=True, config=config, llm=llm), screen) as memory,
    ):
        session = memory.session(CHANNEL, args.chat, user=args.user, agent=agent)
        with Stopper() as stopper:
            chat = ChatLoop(
                memory,
                session,
                _limit(memory, llm, agent),
                (args.max_tokens, args.window),
                screen,
                InputReader(sys.stdin, screen),
                stopper,
            )
            chat.run(resolve_location(args))
    return 0


@contextmanager
def _close_with_notice(memory: Limpet, screen: Screen) -> Iterator[Limpet]:
    """Closing waits for the job at hand, which may be asking the model: the person is asked to wait, and may leave."""
    from threading import Timer

    try:
        yield memory
    finally:
        word = Timer(PATIENCE, screen.note, ["Finishing what is being learned; Ctrl-C leaves it for the next time."])
        word.daemon = True
        word.start()
        try:
            memory.close()
        finally:
            word.cancel()


@contextmanager
def _quiet_loggers(args: Namespace) -> Iterator[None]:
    """What a turn had to go without is said in the chat, and jobs are tried again: neither belongs into a prompt."""
    import logging

    loggers = [] if args.verbose else [logging.getLogger(name) for name in _QUIET_LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _load_config(args: Namespace) -> Config:
    from dataclasses import replace

    config = load_config(args)
    if args.llm is None:
        return config
    return map_config(config, lambda own: replace(own, llm=replace(own.llm, model=args.llm)))


def _limit(memory: Limpet, llm: Llm | None, agent: str) -> Llm | None:
    """What the chat asks counts as what memory asks does."""
    from limpet.api.runtime import limit_llm

    runtime = memory.agent(agent)._view.runtime  # noqa: SLF001 - of ours
    return limit_llm(llm, runtime.config, runtime.store, runtime.clock)


def _select_llm(args: Namespace, config: Config) -> Llm | None:
    from limpet.api.runtime import select_llm
    from limpet.errors import ConfigError

    try:
        return select_llm(None, config)
    except ConfigError as error:
        if args.llm is None:
            raise
        raise UsageError(f"--llm: {error} (see limpet chat --help)") from None
