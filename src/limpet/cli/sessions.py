"""sessions: list, show, delete."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import confirm
from limpet.cli.memory import message_lines
from limpet.cli.options import Parser, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Message, Session, SessionInfo


def add(commands: Any) -> None:
    noun = add_command(commands, "sessions", "list, show and delete conversations; without a verb: list", list_sessions)
    _add_list_options(noun)
    noun.set_defaults(limit=50, offset=0)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before `list`.
    unset = {"argument_default": argparse.SUPPRESS}
    listing = add_command(verbs, "list", "list sessions, the latest active first", list_sessions, **unset)
    _add_list_options(listing)
    showing = add_command(verbs, "show", "show a session and its newest messages", show_session)
    showing.add_argument("id", metavar="ID", help="the session")
    showing.add_argument("--last", metavar="N", type=int, help="how many messages (default: 20, all with --markdown)")
    showing.add_argument("--markdown", action="store_true", help="print the transcript as Markdown that parses back")
    deleting = add_command(verbs, "delete", "delete a session with everything under it", delete_session)
    deleting.add_argument("id", metavar="ID", help="the session")
    options.add_yes(deleting)


def _add_list_options(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="only this user's")
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--channel", metavar="C", help="only on this channel")
    parser.add_argument("--state", choices=options.STATES, type=str.upper, help="only in this state")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most; default: 50")
    parser.add_argument("--offset", metavar="N", type=int, help="how many to pass over; default: 0")


def list_sessions(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.sessions(
            user=args.user,
            agent=args.agent,
            channel=args.channel,
            state=args.state,
            limit=args.limit,
            offset=args.offset,
        )
    show.print_result(args, to_json(found), _format_sessions(found, args))
    return 0


def _format_sessions(found: Sequence[SessionInfo], args: Namespace) -> list[str]:
    if not found and any((args.user, args.agent, args.channel, args.state, args.offset)):
        return ["No session fits these options. Leave some of them out to see more."]
    if not found:
        return ["No sessions yet. An agent makes one with hf.session(…); `limpet import sessions.json` brings some."]
    rows = [
        (
            info.id,
            str(info.key),
            info.user,
            info.agent,
            info.state.value,
            f"{info.message_count:,}",
            show.format_time(info.last_active_at),
        )
        for info in found
    ]
    lines = show.format_table(("ID", "?KEY", "?USER", "?AGENT", "?STATE", "?>MESSAGES", "LAST ACTIVE"), rows)
    return [*lines, *show.next_page_hint(len(found), args.limit, args.offset)]


def show_session(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        session = hf.load_session(args.id)
        if args.markdown and not args.json:
            _print_markdown(session, args.last)
            return 0
        messages = session.recent(20 if args.last is None else args.last)
        summary, usage = session.summary(), session.usage()
    value = {
        **to_json(session.info),
        "summary": to_json(summary),
        "usage": to_json(usage.models),
        "messages": to_json(messages),
    }
    text = summary.text if summary is not None else ""
    show.print_result(args, value, _format_session(session.info, text, messages))
    return 0


def _print_markdown(session: Session, last: int | None) -> None:
    """A file's worth: unchanged into a file or a pipe, harmless on a terminal."""
    from limpet.sessions.transcript import TranscriptEntry, render

    if last is None:
        text = session.export_transcript()
    else:
        entries = [(message.role, message.created_at, message.text) for message in session.recent(last)]
        text = render(TranscriptEntry(role, made, said) for role, made, said in entries if made is not None)
    sys.stdout.write(show.escape(text) if sys.stdout.isatty() else text)


def _format_session(info: SessionInfo, summary: str, messages: Sequence[Message]) -> list[str]:
    about = [
        ("session", info.id),
        ("key", str(info.key)),
        ("user", info.user),
        ("agent", info.agent),
        ("state", info.state.value),
        ("created", show.format_time(info.created_at)),
        ("last active", show.format_time(info.last_active_at)),
        ("expires", show.format_time(info.expires_at) if info.expires_at else ""),
        ("metadata", show.to_json(dict(info.metadata), indent=None) if info.metadata else ""),
        ("messages", f"{info.message_count:,}"),
        ("summary", summary),
    ]
    lines = show.format_fields(about)
    if not info.message_count:
        return [*lines, "", "No messages yet."]
    older = info.message_count - len(messages)
    hidden = [f"… {show.pluralize(older, 'older message')}; --last {info.message_count} shows all"] if older > 0 else []
    return [*lines, "", *hidden, *message_lines(messages)]


def delete_session(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        session = hf.load_session(args.id)
        messages = show.pluralize(session.info.message_count, "message")
        confirm(args, f"Delete session {session.id} ({show.one_line(session.key)}, {messages}) for good?")
        counts = dict(session.delete())
    parts = ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number)
    show.print_result(args, {"deleted": args.id, "counts": counts}, [f"Deleted session {session.id}: {parts}."])
    return 0
