"""remember, recall, context."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.options import add_command
from limpet.cli.place import open_memory
from limpet.errors import InvalidInput
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Context, Hit, Message
    from limpet.model.context import Omission

NOTHING_FOUND = "Nothing stored here shares enough with that. Try other words."

FEW = 3  # things left out for one reason that are named


def add(commands: Any) -> None:
    _add_remember(commands)
    _add_recall(commands)
    context = add_command(commands, "context", "show what belongs into a session's next prompt", show_context)
    context.add_argument("query", metavar="QUERY", help="the question the prompt is for")
    context.add_argument("--session", metavar="ID", required=True, help="the session")
    context.add_argument("--max-tokens", metavar="N", type=int, help="the budget (default: context.max_tokens)")


def _add_remember(commands: Any) -> None:
    remember_ = add_command(commands, "remember", "keep a memory; the same key again replaces its text", remember)
    remember_.add_argument("text", metavar="TEXT", help="what to remember; - reads it from the input")
    options.add_owner(remember_)
    remember_.add_argument("--key", metavar="K", help="a name to replace and find it by, such as dog_name")
    remember_.add_argument("--title", metavar="TITLE", help="a short heading")
    remember_.add_argument("--type", choices=options.TYPES, default="fact", help="what kind of memory; default: fact")
    remember_.add_argument("--layer", choices=options.LAYERS, default="semantic", help="default: semantic")
    remember_.add_argument("--tag", action="append", metavar="TAG", help="a label; may be repeated")
    remember_.add_argument("--meta", action="append", metavar="K=V", type=options.parse_pair, help="may be repeated")
    remember_.add_argument(
        "--ttl", metavar="SPAN", type=options.parse_duration, help="not recalled after this time, such as 30d or 12h"
    )
    remember_.add_argument("--pin", action="store_true", help="mark it as one that never fades")


def _add_recall(commands: Any) -> None:
    recall_ = add_command(commands, "recall", "find what was said and remembered, by words and by meaning", recall)
    recall_.add_argument("query", metavar="QUERY", help="a question, or some words")
    options.add_owner(recall_)
    recall_.add_argument("-k", metavar="N", type=int, help="how many at most (default: search.k)")
    recall_.add_argument("--explain", action="store_true", help="say where each came from and why it won")
    recall_.add_argument("--recipe", choices=options.RECIPES, help="how to rank (default: search.recipe)")
    recall_.add_argument("--neighbours", metavar="N", type=int, default=0, help="show N messages around each as well")
    recall_.add_argument("--kind", action="append", choices=options.KINDS, help="only this; may be repeated")
    options.add_filters(recall_)


def remember(args: Namespace) -> int:
    owner, text = options.owner_arguments(args), read_text_argument(args.text)
    with open_memory(args, creates=True) as hf:
        record = hf.remember(
            text,
            key=args.key,
            title=args.title,
            type=args.type,
            layer=args.layer,
            tags=args.tag or (),
            metadata=dict(args.meta) if args.meta else None,
            pinned=args.pin,
            ttl=args.ttl,
            **owner,
        )
    said = "Remembered" if record.version == 1 else f"Remembered, now version {record.version}"
    show.print_result(args, to_json(record), [f"{said}: {record.id}"])
    return 0


def read_text_argument(text: str) -> str:
    """The text itself; for ``-`` the whole input without its last line end."""
    if text != "-":
        return text
    source = getattr(sys.stdin, "buffer", None)
    if source is None:
        return sys.stdin.read().rstrip("\r\n")
    try:
        return str(source.read().decode("utf-8")).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the input is not UTF-8 text (byte {error.start})") from None


def recall(args: Namespace) -> int:
    owner = options.owner_arguments(args)
    with open_memory(args) as hf:
        hits = hf.recall(
            args.query,
            k=args.k,
            kinds=args.kind,
            recipe=args.recipe,
            neighbours=args.neighbours,
            **owner,
            **options.filter_arguments(args),
        )
    lines = explain_hits(hits) if args.explain else _format_hits(hits)
    found = to_json(hits)
    show.print_result(args, found, lines if hits else [NOTHING_FOUND])
    return 0


def _format_hits(hits: Sequence[Hit]) -> list[str]:
    rows = [
        (str(rank), speaker(hit), show.format_time(hit.source.created_at), hit.text) for rank, hit in enumerate(hits, 1)
    ]
    return show.format_table((">#", "WHO", "?WHEN", "TEXT"), rows, [_neighbour_lines(hit) for hit in hits])


def _neighbour_lines(hit: Hit) -> list[str]:
    """The messages around a hit, each in a line."""
    lines = (f"{message.sequence} {message.name or message.role}: {message.text}" for message in hit.neighbours)
    return [f"      {show.truncate(show.one_line(line), show.screen_width() - 6)}" for line in lines]


def explain_hits(hits: Sequence[Hit]) -> list[str]:
    names = list(dict.fromkeys(name for hit in hits for name in hit.signals))
    titles = (">RANK", ">SCORE", *(f"BY {name.upper()}" for name in names), "WHO", "WHEN")
    rows = [
        (
            str(rank),
            f"{hit.score:.3f}",
            *(_signal(hit, name) for name in names),
            speaker(hit),
            show.format_time(hit.source.created_at),
        )
        for rank, hit in enumerate(hits, start=1)
    ]
    below = [[*show.indent_lines(hit.text, 6), f"      {_source(hit)}", *_neighbour_lines(hit)] for hit in hits]
    return show.format_table(titles, rows, below)


def _signal(hit: Hit, name: str) -> str:
    signal = hit.signals.get(name)
    return "-" if signal is None else f"#{signal.rank} at {signal.score:.3f}"


def _source(hit: Hit) -> str:
    source = hit.source
    if source.kind.value == "message":
        first, last = source.first_sequence, source.last_sequence
        return f"(message {first if first == last else f'{first} to {last}'} of session {source.session_id})"
    if source.kind.value == "document":
        return f"(characters {source.offset} to {source.end_offset} of {show.one_line(source.uri or '')})"
    return f"({source.kind} {source.id})"


def speaker(hit: Hit) -> str:
    """Who said it, or which memory or document it is."""
    if hit.source.kind.value == "message":
        return hit.source.name or hit.source.role or "-"
    if hit.source.kind.value == "document":
        return str(hit.metadata.get("title") or (hit.source.uri or "").rpartition("/")[2] or hit.source.uri)
    known = [str(hit.metadata[name]) for name in ("type", "key") if name in hit.metadata]
    return " ".join(known) or hit.source.kind.value


def show_context(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        context = hf.load_session(args.session).context(args.query, max_tokens=args.max_tokens)
    show.print_result(args, to_json(context), context_lines(context))
    return 0


def context_lines(context: Context) -> list[str]:
    lines = [f"{show.pluralize(len(context.messages), 'message')}, about {context.tokens:,} tokens"]
    if context.sections:
        lines.append(f"sections: {', '.join(context.sections)}")
    lines += dropped_lines(context.dropped)
    if context.text:
        lines += ["", *show.escape(context.text).split("\n")]
    if context.hits:
        lines += ["", "hits:", *_format_hits(context.hits)]
    return [*lines, "", *message_lines(context.messages)]


def dropped_lines(dropped: Sequence[Omission]) -> list[str]:
    """A few of each reason; --json has all of them."""
    reasons: dict[str, list[str]] = {}
    for entry in dropped:
        reasons.setdefault(entry.reason, []).append(entry.what)
    lines = []
    for reason, things in reasons.items():
        few = things if len(things) <= FEW + 1 else [*things[:FEW], f"{len(things) - FEW:,} more"]
        lines += [show.one_line(f"left out: {thing} ({reason})") for thing in few]
    return lines


def message_lines(messages: Sequence[Message]) -> list[str]:
    lines: list[str] = []
    for message in messages:
        who = f"{message.role} ({message.name})" if message.name else message.role.value
        error = "  failed" if message.is_error else ""
        lines.append(f"#{message.sequence}  {show.format_time(message.created_at)}  {show.one_line(who)}{error}")
        lines += show.indent_lines(message.text) if message.text else []
        for call in message.tool_calls:
            lines += show.indent_lines(f"calls {call.name} {show.to_json(dict(call.arguments), indent=None)}")
    return lines
