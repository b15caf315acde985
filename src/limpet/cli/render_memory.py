"""Memories for people: hits, contexts, messages, records and the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from limpet.cli import show

if TYPE_CHECKING:
    from limpet import Context, Entity, Forgotten, Graph, Hit, Message, Record, Relation
    from limpet.model.context import Omission
    from limpet.model.graph import GraphSource

NOTHING_FOUND = "Nothing stored here shares enough with that. Try other words."
FEW = 3  # things left out for one reason that are named
_SOURCES = 3  # shown of each relation
_CHANGED = {  # of a Forgotten's counts: what changes beside the records that go
    "messages": ("message",),
    "summaries": ("summary", "summaries"),
    "note lines": ("line of notes", "lines of notes"),
}


# Hits and contexts


def format_hits(hits: Sequence[Hit]) -> list[str]:
    rows = [
        (str(rank), speaker(hit), show.format_time(hit.source.created_at), hit.text) for rank, hit in enumerate(hits, 1)
    ]
    return show.format_table((">#", "WHO", "?WHEN", "TEXT"), rows, [_neighbour_lines(hit) for hit in hits])


def _neighbour_lines(hit: Hit) -> list[str]:
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


def context_lines(context: Context) -> list[str]:
    lines = [f"{show.pluralize(len(context.messages), 'message')}, about {context.tokens:,} tokens"]
    if context.sections:
        lines.append(f"sections: {', '.join(context.sections)}")
    lines += dropped_lines(context.dropped)
    if context.text:
        lines += ["", *show.escape(context.text).split("\n")]
    if context.hits:
        lines += ["", "hits:", *format_hits(context.hits)]
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


# Records


def record_table(found: Sequence[Record]) -> list[str]:
    columns: show.Columns = (
        ("ID", "id"),
        ("?OWNER", format_owner),
        ("?TYPE", "type"),
        ("KEY", "key"),
        ("?CHANGED", "updated_at"),
        ("TEXT", "content"),
    )
    return show.format_nouns(columns, found)


def format_owner(record: Record) -> str:
    names = {"user": record.user, "agent": record.agent, "session": record.session_id}
    return f"{record.level} {names.get(record.level) or ''}".strip()


def format_record(record: Record) -> list[str]:
    fields: show.Columns = (
        ("record", "id"),
        ("owner", format_owner),
        ("key", "key"),
        ("title", "title"),
        ("type", lambda one: f"{one.type}, {one.layer}"),
        ("tags", lambda one: ", ".join(one.tags)),
        *((name, name) for name in ("metadata", "confidence", "salience")),
        ("pinned", lambda one: "yes" if one.pinned else ""),
        ("created", "created_at"),
        ("changed", lambda one: f"{show.format_time(one.updated_at)}, version {one.version}"),
        ("true from", "valid_from"),
        ("true until", "valid_to"),
        ("expires", "expires_at"),
        ("archived", "archived_at"),
    )
    return [*show.format_noun(fields, record), "", *show.escape(record.content).split("\n")]


def history_lines(versions: Sequence[Record]) -> list[str]:
    return show.format_nouns(((">VERSION", "version"), ("SINCE", "updated_at"), ("TEXT", "content")), versions)


def preview_lines(would: Forgotten) -> list[str]:
    """What goes beside the records, and where it stays: of a dry run."""
    said = [f'Removes from a message: "{show.one_line(sentence)}"' for sentence in would.sentences]
    return [*said, *_changed_lines(would)]


def forgotten_lines(gone: Forgotten) -> list[str]:
    said = f"Forgot {show.pluralize(gone.total, 'record')}, every version and index entry included."
    if not gone.total:
        said = "No record holds all these words" + ("." if changes_anything(gone) else "; nothing was forgotten.")
    return [said, *_changed_lines(gone)]


def changes_anything(gone: Forgotten) -> bool:
    """Whether something changes beside the records that go."""
    return any(gone.counts.get(kind) for kind in _CHANGED)


def count_forgotten(would: Forgotten) -> str:
    return show.pluralize(would.total, "record") if would.total else _count_changed(would)


def _changed_lines(gone: Forgotten) -> list[str]:
    """What changed beside the records, and where it is still said: somebody may want it gone there too."""
    changed = [f"Also changed: {_count_changed(gone)}."] if changes_anything(gone) else []
    return [*changed, *(f"Still said in {place}." for place in gone.left)]


def _count_changed(gone: Forgotten) -> str:
    return ", ".join(
        show.pluralize(gone.counts[kind], *names) for kind, names in _CHANGED.items() if gone.counts.get(kind)
    )


# The graph


def format_graph(graph: Graph, entity: str | None = None) -> list[str]:
    if not graph.entities:
        if entity is not None:
            return [f"Nothing is known of {show.one_line(entity)}."]
        return ["Nobody and nothing is named yet. Names in messages and memories appear here."]
    names = {each.id: each.name for each in graph.entities}
    by_subject: dict[str, list[Relation]] = defaultdict(list)
    for relation in graph.relations:
        by_subject[relation.subject].append(relation)
    rows = [[each.name, each.kind.value, f"{each.mentions:,}", _format_aliases(each, names)] for each in graph.entities]
    under = [
        [
            show.truncate(f"    {_format_relation(relation, names)}", show.screen_width())
            for relation in by_subject[each.id]
        ]
        for each in graph.entities
    ]
    return show.format_table(("NAME", "KIND", ">MENTIONS", "ALSO"), rows, under) + truncation_note(graph)


def _format_aliases(entity: Entity, names: dict[str, str]) -> str:
    if entity.could_be:
        return "could be " + " or ".join(names.get(other, other) for other in entity.could_be)
    return ", ".join(entity.aliases)


def _format_relation(relation: Relation, names: dict[str, str]) -> str:
    other = relation.value if relation.object is None else names.get(relation.object, relation.object)
    denied = "" if relation.holds else "not: "
    until = "" if relation.valid_to is None else f", until {show.format_time(relation.valid_to)}"
    sources = ", ".join(map(_format_source, relation.sources[:_SOURCES]))
    more = f" and {len(relation.sources) - _SOURCES} more" if len(relation.sources) > _SOURCES else ""
    return show.one_line(f"{denied}{relation.predicate} → {other}{until}  [{sources}{more}]")


def _format_source(source: GraphSource) -> str:
    if source.record_id is not None:
        return f"record {source.record_id}"
    return f"{source.session_id}#{source.sequence}"


def truncation_note(graph: Graph) -> list[str]:
    return ["There is more: graph.entities and graph.mentions say how much is shown."] if graph.cut else []
