"""recall and context: what is special about them."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser, UsageError
from limpet.cli.place import open_memory
from limpet.cli.render_memory import explain_hits

if TYPE_CHECKING:
    from limpet import Limpet


class Recall(OperationCommand):
    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--explain", action="store_true", help="say where each came from and why it won")

    def format(self, answer: Any, given: Mapping[str, Any], args: Namespace) -> list[str]:
        return explain_hits(answer) if answer and args.explain else super().format(answer, given, args)


class ShowContext(OperationCommand):
    """Of a session if one is named, else without a conversation."""

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        text = "the session whose next prompt it is for; left out: without a conversation"
        parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help=text)

    def open(self, args: Namespace) -> Limpet:
        return open_memory(args, needed=hasattr(args, "session"))

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        if not hasattr(args, "session"):
            return super().call(memory, args, given)
        if "agent" in given:
            raise UsageError("a session has its agent: leave --agent out")
        session = memory.load_session(args.session, user=given.get("user"))
        return session.context(**{name: value for name, value in given.items() if name != "user"})


SPECIAL: Mapping[str, type[OperationCommand]] = {"recall": Recall, "context": ShowContext}
