"""What people read of each noun: a table of many, some lines of one, a sentence about what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.render_memory import (
    NOTHING_FOUND,
    context_lines,
    format_graph,
    format_hits,
    format_record,
    history_lines,
    message_lines,
    record_table,
)
from limpet.model.schema import to_json
from limpet.model.values import format_count

if TYPE_CHECKING:
    from limpet import AuditEntry, Document, KeyInfo, Receipt, Run, Schedule
    from limpet.model.privacy import RetentionResult
    from limpet.model.session import CompactionResult, LearnResult
    from limpet.sessions.transcript import TranscriptEntry

Given = Mapping[str, Any]  # what was typed, by the names of the method's arguments
_BYTES = {
    "gone": "Their bytes are gone from the database's files.",
    "waiting": "Their bytes are overwritten in the background: `limpet jobs run --until-idle` does it now.",
    "vacuum": "Their bytes stay in the database's files until a vacuum: add --vacuum.",
}
Renderer = Callable[[Any], list[str]]


def format_list(found: Sequence[Any]) -> list[str]:
    table: show.Columns | Renderer = _TABLES.get(type(found[0]).__name__, _plain_table)
    return show.format_nouns(table, found) if isinstance(table, tuple) else table(found)


def _plain_table(found: Sequence[Any]) -> list[str]:
    """For a noun without a table of its own: a column for each field of its JSON."""
    rows = [to_json(each) for each in found]
    if not isinstance(rows[0], Mapping):
        return [show.one_line(str(row)) for row in rows]
    titles = [f"?{name.upper().replace('_', ' ')}" for name in rows[0]]
    return show.format_table(titles, [[_format_value(value) for value in row.values()] for row in rows])


def _plain_fields(found: Any) -> list[str]:
    value = to_json(found)
    if not isinstance(value, Mapping):
        return [show.one_line(str(value))]
    return show.format_fields((name.replace("_", " "), _format_value(each)) for name, each in value.items())


def _format_value(value: object) -> str:
    if value is None:
        return "-"
    return show.to_json(value, indent=None) if isinstance(value, (list, dict)) else format_number(value)


def format_noun(found: Any) -> list[str]:
    if found is None:
        return ["There is none."]
    if isinstance(found, (bool, int, str)):
        return show.escape(str(found)).rstrip("\n").split("\n")
    if isinstance(found, Mapping):
        return show.format_fields((name, format_number(value)) for name, value in found.items())
    fields: show.Columns | Renderer = _NOUNS.get(type(found).__name__, _plain_fields)
    return show.format_noun(fields, found) if isinstance(fields, tuple) else fields(found)


def format_number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(format_count(number, kind) for kind, number in counts.items()) or "nothing"


# Sessions


def format_compaction(done: CompactionResult) -> str:
    if not done.done:
        return f"Nothing was compacted: {done.reason}."
    by = "the model" if done.by == "llm" else "a digest"
    messages = show.pluralize(done.messages, "message")
    return f"Compacted {messages} by {by}: {done.tokens_before:,} tokens are {done.tokens_after:,} now."


def _format_learned(done: LearnResult) -> str:
    counts = {"added": done.added, "confirmed": done.merged, "replaced": done.superseded, "ended": done.ended}
    parts = [f"{len(ids):,} {what}" for what, ids in counts.items() if ids]
    return f"Learned: {', '.join(parts)}." if parts else "Learned nothing new."


def _transcript_lines(found: Sequence[TranscriptEntry]) -> list[str]:
    lines: list[str] = []
    for entry in found:
        lines += [f"{show.format_time(entry.created_at)}  {entry.role}", *show.indent_lines(entry.text)]
    return lines


def document_table(found: Sequence[Document]) -> list[str]:
    below = [show.indent_lines(document.uri) for document in found]  # cut to the screen it could not be copied
    return show.format_nouns((("CHANGED", "updated_at"), (">CHUNKS", "chunks"), ("TITLE", "title")), found, below)


# Notes


def text_lines(text: str) -> list[str]:
    return show.escape(text).rstrip("\n").split("\n") if text.strip() else []


def problem_lines(done: Mapping[str, Any]) -> list[str]:
    """What an export or import of items leaves to a person."""
    lost = f"{show.pluralize(done['conflicts'], 'line')} lost against newer records: see the .conflict files."
    problems = [show.one_line(f"{one['file']}:{one['line']}: {one['reason']}") for one in done["problems"]]
    return [*([lost] if done["conflicts"] else []), *problems]


# Schedules


def _format_state(one: Schedule) -> str:
    return "running" if one.running_until is not None else one.state.value


def format_due(one: Schedule, moment: datetime | None) -> str:
    """In the schedule's own zone, as long as that is known here."""
    from limpet.errors import InvalidInput

    if moment is None:
        return "-"
    try:
        return one.to_local(moment).strftime("%Y-%m-%d %H:%M %Z")
    except InvalidInput:
        return show.format_time(moment)


def run_table(found: Sequence[Run], schedule: Schedule) -> list[str]:
    columns: show.Columns = (
        ("RUN", "id"),
        ("STATUS", "status"),
        ("DUE", lambda one: format_due(schedule, one.due_at)),
        ("?STARTED", lambda one: format_due(schedule, one.started_at)),
        ("?>MISSED", "missed"),
        ("?>COST", lambda one: f"{one.cost:.4f}"),
        ("?NOTIFIED", lambda one: "yes" if one.notified else "waiting" if one.to_notify else "no"),
        ("SUMMARY", lambda one: one.error or one.summary),
    )
    return show.format_nouns(columns, found)


def _describe_change(one: Schedule) -> str:
    runs_next = "" if one.next_run_at is None else f", runs next at {format_due(one, one.next_run_at)}"
    return f"Schedule {one.id}: {one.state.value}{runs_next}."


# The store and who may use it


def _format_subject(key: KeyInfo) -> str:
    named = [f"user {key.user}"] if key.user is not None else []
    named += [f"agent {key.agent}"] if key.agent is not None else []
    return ", ".join([*named, *map(str, key.grants)])


def _format_target(entry: AuditEntry) -> str:
    named = {name: getattr(entry, name) for name in ("user", "agent", "session", "record")} | {"needs": entry.missing}
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


def receipt_lines(receipt: Receipt) -> list[str]:
    lines = [f"Purged: {format_counts(receipt.counts)}. Receipt {receipt.id}."]
    if receipt.verified:
        lines.append("Checked: nothing is left.")
    still = "Still said in" if receipt.verified else "Left:"
    lines += [f"{still} {place}." for place in receipt.left]
    return [*lines, _BYTES[receipt.bytes.value]]


def _retention_lines(found: Sequence[RetentionResult], *, dry_run: bool) -> list[str]:
    verb = "would remove" if dry_run else "removed"
    lines = []
    for each in (one for one in found if one.counts):
        part = "Records and documents" if each.agent is None else f"Sessions of {show.one_line(each.agent)}"
        lines.append(f"{part}: {verb} {format_counts(each.counts)}.")
    return lines or ["Nothing is older than the settings keep it."]


# Columns of many, fields of one; a function where lines are more than that. A leading ? or > is explained in show.
_MODEL_USAGE: show.Columns = (
    ("MODEL", "model"),
    (">CALLS", "calls"),
    (">INPUT", "input_tokens"),
    (">OUTPUT", "output_tokens"),
    ("?>CACHED", "cached_tokens"),
    (">COST", lambda one: f"{one.cost:.4f}"),
)
SESSION_FIELDS: show.Columns = (
    ("session", "id"),
    *((name, name) for name in ("key", "user", "agent", "state")),
    ("created", "created_at"),
    ("last active", "last_active_at"),
    ("expires", "expires_at"),
    ("metadata", "metadata"),
    ("messages", "message_count"),
)
_TABLES: Mapping[str, show.Columns | Renderer] = {
    "AuditEntry": (
        ("WHEN", "at"),
        ("WHO", "principal"),
        ("DID", "operation"),
        (">CALLS", "calls"),
        ("OUTCOME", "outcome"),
        ("WHOSE", _format_target),
    ),
    "Document": document_table,
    "FileInfo": (("CHANGED", "modified_at"), (">SIZE", lambda one: show.format_size(one.size)), ("NAME", "name")),
    "GrantInfo": (("USER", "user"), ("GRANT", "grant"), ("?SINCE", "at"), ("?BY", "by")),
    "Hit": format_hits,
    "JobInfo": (
        ("ID", lambda one: str(one.id)),
        ("KIND", "kind"),
        ("STATE", "state"),
        (">RUNS", "attempts"),
        ("?NEXT", lambda one: "-" if one.state.value == "dead" else one.run_at or "now"),
        ("?OF", lambda one: f"{one.level} {one.owner}".rstrip()),
        ("LAST ERROR", "error"),
    ),
    "KeyInfo": (
        ("NAME", "name"),
        ("ACTS FOR", _format_subject),
        ("UNTIL", lambda one: f"revoked {show.format_time(one.revoked_at)}" if one.revoked_at else one.expires_at),
        ("?LAST USED", "last_used_at"),
        ("?BY", "created_by"),
        ("ID", "id"),
    ),
    "Message": message_lines,
    "Partition": (("LEVEL", "level"), ("NAME", "owner")),
    "Receipt": (
        ("ASKED", "asked_at"),
        ("WHAT", "what"),
        ("DIGEST", lambda one: one.digest[:12]),
        ("STATE", lambda one: ("verified" if one.verified else "something is left") if one.done_at else "not done yet"),
        ("?BYTES", "bytes"),
        ("REMOVED", lambda one: format_counts(one.counts)),
    ),
    "Record": record_table,
    "Schedule": (
        ("ID", "id"),
        ("STATE", _format_state),
        ("?USER", "user"),
        ("NEXT", lambda one: format_due(one, one.next_run_at)),
        ("CADENCE", "cadence"),
        (">FAILED", "failures"),
        ("?NAME", "name"),
        ("GOAL", "goal"),
    ),
    "SessionInfo": (
        ("ID", "id"),
        ("?KEY", "key"),
        ("?USER", "user"),
        ("?AGENT", "agent"),
        ("?STATE", "state"),
        ("?>MESSAGES", "message_count"),
        ("LAST ACTIVE", "last_active_at"),
    ),
    "TranscriptEntry": _transcript_lines,
}
_NOUNS: Mapping[str, show.Columns | Renderer] = {
    "CompactionResult": lambda done: [show.one_line(format_compaction(done))],
    "Context": context_lines,
    "Graph": format_graph,
    "LearnResult": lambda done: [_format_learned(done)],
    "Profile": lambda one: show.escape(one.text or "Nothing is known about this user yet.").split("\n"),
    "Record": format_record,
    "Schedule": (
        *((name, name) for name in ("id", "user", "agent", "name", "goal", "cadence")),
        ("zone", "timezone"),
        ("state", _format_state),
        ("next", lambda one: format_due(one, one.next_run_at)),
        ("again for", lambda one: format_due(one, one.due_at) if one.due_at != one.next_run_at else ""),
        ("last run", lambda one: f"{format_due(one, one.last_run_at)} {one.last_status or ''}".strip()),
        ("runs", lambda one: f"{one.run_count}{'' if one.max_runs is None else f' of {one.max_runs}'}"),
        ("failures", lambda one: one.failures or ""),
        ("ends", lambda one: "" if one.ends_at is None else format_due(one, one.ends_at)),
        ("notify", "notify"),
        ("reports to", lambda one: " ".join(filter(None, (one.channel, one.chat, one.thread)))),
        ("created", lambda one: format_due(one, one.created_at)),
    ),
    "SessionInfo": SESSION_FIELDS,
    "Summary": lambda one: [
        *show.escape(one.text).split("\n"),
        "",
        f"Covers {show.pluralize(one.message_count, 'message')}, up to #{one.upper_sequence}.",
    ],
    "Usage": lambda one: (
        show.format_nouns(_MODEL_USAGE, one.models) if one.models else ["No model has reported anything yet."]
    ),
}


# What was done, in a sentence, by operation.
SENTENCES: Mapping[str, Callable[[Any, Given], str]] = {
    "access.grant": lambda new, given: f"{given['user']} {'may now' if new else 'had already'}: {given['grant']}",
    "access.revoke": lambda gone, given: (
        f"{given['user']} {'no longer has' if gone else 'did not have'}: {given['grant']}"
    ),
    "access.keys.allow_anonymous": lambda *_: (
        "Programs on the server's machine need no key until the next one is created."
    ),
    "access.keys.revoke": lambda count, given: (
        f"{given['id_or_name']} {'is revoked' if count else 'is not a key, or was revoked before'}"
        + (f", and {count - 1} made by it" if count > 1 else "")
    ),
    "admin.restore": lambda rows, given: f"Restored {show.pluralize(sum(rows.values()), 'row')} from {given['path']}.",
    "documents.remove": lambda gone, given: (
        f"Removed {given['uri']} with {show.pluralize(gone.counts['chunks'], 'chunk')}."
    ),
    "jobs.drop": lambda count, _: f"{show.pluralize(count, 'job')} dropped.",
    "jobs.retry": lambda count, _: f"{show.pluralize(count, 'job')} queued to run again.",
    "jobs.run": lambda count, _: f"{show.pluralize(count, 'job')} run.",
    "records.promote": lambda record, _: f"Known by its {record.level}, {record.layer}: {record.id}",
    "records.revive": lambda record, _: f"Recalled again: {record.id}",
    "records.update": lambda record, _: f"Now version {record.version}: {record.id}",
    "remember": lambda record, _: (
        f"Remembered{'' if record.version == 1 else f', now version {record.version}'}: {record.id}"
    ),
    "schedules.create": lambda made, _: f"Schedule {made.id} runs first at {format_due(made, made.next_run_at)}.",
    "schedules.delete": lambda gone, _: f"Schedule {gone} deleted.",
    "schedules.edit": lambda one, _: _describe_change(one),
    "schedules.pause": lambda one, _: _describe_change(one),
    "schedules.resume": lambda one, _: _describe_change(one),
    "session": lambda session, _: f"Session {session.id} ({session.key}) of {session.user}",
    "session.append": lambda message, _: f"Message {message.sequence} stored.",
    "session.clear": lambda *_: "The messages and the summary are removed.",
    "session.delete": lambda gone, _: (
        f"Deleted session {gone['deleted']}: {format_counts({k: n for k, n in gone['counts'].items() if n})}."
    ),
    "session.new": lambda session, _: f"New session {session.id} under {session.key}",
    "session.pause": lambda *_: "The session is paused.",
    "session.resume": lambda *_: "The session is active again.",
    "session.terminate": lambda *_: "The session has ended; it stays searchable.",
}


# The same where it takes more lines.
LINES: Mapping[str, Callable[[Any, Given], list[str]]] = {
    "notes.day": lambda text, given: text_lines(text) or [f"No notes of {given['day']}."],
    "notes.import_items": lambda done, _: [
        f"{done['added']:,} added, {done['changed']:,} changed, {done['removed']:,} removed."
        if done["has_folder"]
        else "This store has no folder, so there was nothing to read.",
        *problem_lines(done),
    ],
    "privacy.retention": lambda found, given: _retention_lines(found, dry_run=given.get("dry_run", False)),
    "records.history": lambda versions, _: history_lines(versions),
}
# What is printed as JSON, where it is not the answer itself.
VALUES: Mapping[str, Callable[[Any, Given], Any]] = {
    "access.keys.create": lambda key, _: {"secret": key.secret, **to_json(key.info)},
    "access.keys.revoke": lambda count, _: {"revoked": bool(count), "keys": count},
    "documents.remove": lambda gone, _: {"removed": list(gone.ids), "counts": dict(gone.counts)},
    "jobs.run": lambda count, _: {"jobs": count},
    "notes.day": lambda text, given: {"user": given["user"], "day": given["day"].isoformat(), "text": text},
    "schedules.run_output": lambda text, given: {"run": given["run_id"], "output": text},
    "transfer.export": lambda done, _: {"folder": done.path, "bytes": done.bytes, "counts": dict(done.counts)},
}


# An empty list says what to do next: where nothing was filtered, where something was.
_EMPTY: Mapping[str, tuple[str, str]] = {
    "access.audit": ("No entries: nobody has done anything yet, or audit.enabled is off.", "No such entries."),
    "access.grants": ("No grants: everybody has their own memory, and nothing else.", "No such grants."),
    "access.keys.list": ("No API keys: limpet api-keys create NAME makes one.", "No such API keys."),
    "admin.owners": ("Nobody has memory here yet.", ""),
    "documents.list": ("No documents yet. `limpet documents add PATH` adds a file or a folder.", ""),
    "jobs.list": ("No jobs: all background work is done.", "No such jobs."),
    "privacy.receipts": ("Nothing was purged.", ""),
    "recall": (NOTHING_FOUND, ""),
    "records.list": (
        'No records yet. `limpet remember "…"` stores one.',
        "No record fits these options. Leave some of them out to see more.",
    ),
    "records.search_metadata": ("", "No record has that in its metadata."),
    "schedules.due": ("Nothing is due.", ""),
    "schedules.runs": ("It has not run yet.", ""),
    "schedules.search": ("No schedules yet: limpet schedule create makes one.", "No such schedules."),
    "session.list_files": ("The session has no files.", ""),
    "session.messages": ("No messages yet.", "No messages between these numbers."),
    "session.transcript": ("No messages yet.", ""),
    "sessions": (
        "No sessions yet. `limpet append TEXT` begins one; `limpet import FILE` brings some.",
        "No session fits these options. Leave some of them out to see more.",
    ),
}


def explain_empty(operation: str, given: Given) -> str:
    plain, filtered = _EMPTY.get(operation, ("There are none.", ""))
    if given.get("offset"):
        return "No entries so far down. Leave --offset out to see the first."
    if given.get("limit") == 0:
        return "None shown: --limit is 0."
    chosen = given.keys() - {"limit", "offset", "id", "session_id"}
    return filtered if chosen and filtered else plain or filtered
