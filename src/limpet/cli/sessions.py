"""sessions: what is special about showing, exporting and deleting one."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.ask import confirm
from limpet.cli.derive import OperationCommand
from limpet.cli.options import Parser
from limpet.cli.render import SESSION_FIELDS
from limpet.cli.render_memory import message_lines
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Limpet, Message, Session, Summary, Usage


class ShowSession(OperationCommand):
    """A session with its summary and its newest messages."""

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        text = "how many of its newest messages; default: 20"
        parser.add_argument("--last", metavar="N", type=int, default=argparse.SUPPRESS, help=text)

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        session: Session = super().call(memory, args, given)
        return session, session.recent(getattr(args, "last", 20)), session.summary(), session.usage()

    def to_json(self, answer: tuple[Session, list[Message], Summary | None, Usage], given: Mapping[str, Any]) -> Any:
        session, messages, summary, usage = answer
        more = {"summary": to_json(summary), "usage": to_json(usage.models), "messages": to_json(messages)}
        return to_json(session.info) | more

    def format(self, answer: Any, given: Mapping[str, Any], args: Namespace) -> list[str]:
        session, messages, summary, _ = answer
        info = session.info
        fields = (*SESSION_FIELDS, ("summary", lambda _: summary and summary.text))
        lines = [*show.format_noun(fields, info), ""]
        if not info.message_count:
            return [*lines, "No messages yet."]
        older = info.message_count - len(messages)
        if older > 0:
            lines.append(f"… {show.pluralize(older, 'older message')}; --last {info.message_count} shows all")
        return [*lines, *message_lines(messages)]


class ExportSession(OperationCommand):
    """A file's worth: unchanged into a file or a pipe, harmless on a terminal."""

    def run(self, args: Namespace) -> int:
        if args.json:
            return super().run(args)
        with self.open(args) as memory:
            text: str = self.call(memory, args, self.read(args))
        sys.stdout.write(show.escape(text) if sys.stdout.isatty() else text)
        return 0


class DeleteSession(OperationCommand):
    asks = True

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        session = self.get_session(memory, args)
        messages = show.pluralize(session.info.message_count, "message")
        confirm(args, f"Delete session {session.id} ({show.one_line(str(session.key))}, {messages}) for good?")
        return session.id, dict(session.delete())

    def to_json(self, answer: tuple[str, dict[str, int]], given: Mapping[str, Any]) -> Any:
        return {"deleted": answer[0], "counts": answer[1]}

    def format(self, answer: tuple[str, dict[str, int]], given: Mapping[str, Any], args: Namespace) -> list[str]:
        parts = ", ".join(f"{number:,} {kind}" for kind, number in answer[1].items() if number)
        return [f"Deleted session {answer[0]}: {parts}."]


class ClearSession(OperationCommand):
    asks = True

    def call(self, memory: Limpet, args: Namespace, given: Mapping[str, Any]) -> Any:
        session = self.get_session(memory, args)
        confirm(args, f"Remove {show.pluralize(session.info.message_count, 'message')} of {session.id} for good?")
        return session.clear()


SPECIAL: Mapping[str, type[OperationCommand]] = {
    "load_session": ShowSession,
    "session.clear": ClearSession,
    "session.delete": DeleteSession,
    "session.export_transcript": ExportSession,
}
