"""What is special about commands on memories: recall, context, forget, sessions, documents, graph, notes, schedules."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from limpet.cli import render_memory, show
from limpet.cli.derive import OperationCommand, read_text
from limpet.cli.options import Parser, UsageError, is_server, load_config, open_memory, resolve_location, resolve_user
from limpet.cli.render import SESSION_FIELDS, Given, problem_lines, run_table, text_lines
from limpet.cli.show import ProgressLine, confirm, is_interactive
from limpet.errors import LimpetError, RecordNotFound
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Document, Forgotten, Graph, Limpet, Record, Run, Schedule, Session

_GRAPH_FILES = (".graphml", ".json")


class Recall(OperationCommand):
    names = ("recall",)
    flags = (("explain", "show where each came from and why it was found"),)

    def format(self, answer: Any, given: Given, args: Namespace) -> list[str]:
        explained = answer and args.explain
        return render_memory.explain_hits(answer) if explained else super().format(answer, given, args)


class ShowContext(OperationCommand):
    """Of a session if one is named, else without a conversation."""

    names = ("context",)

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        text = "the session whose next prompt it is for; left out: without a conversation"
        parser.add_argument("--session", metavar="ID", default=argparse.SUPPRESS, help=text)

    def open(self, args: Namespace) -> Limpet:
        return open_memory(args, needed=hasattr(args, "session"))

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        if not hasattr(args, "session"):
            return super().call(memory, args, given)
        if "agent" in given:
            raise UsageError("a session has its agent: leave --agent out")
        session = memory.load_session(args.session, user=given.get("user"))
        return session.context(**{name: value for name, value in given.items() if name != "user"})


class Forget(OperationCommand):
    """What goes is shown first. Then one call removes it, and chooses again what matches by then."""

    names = ("forget",)
    has_yes = True
    shown: tuple[str, ...] | list[str] = ()  # of a dry run: the records that would go

    def run(self, args: Namespace) -> int:
        self.found = False
        super().run(args)
        return 0 if self.found else 1  # as a key that nothing has

    def read(self, args: Namespace) -> dict[str, Any]:
        given = super().read(args)
        if len(given.keys() & {"id", "key", "query"}) != 1:
            raise UsageError("forget takes exactly one of ID, --key K and --query Q")
        return given

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Forgotten:
        if "id" in given:
            _check_owner(memory, given)
        would = memory.forget(**{**given, "dry_run": True})
        self.found = bool(would.ids) or render_memory.changes_anything(would)
        # One memory named by its id or key is what the caller meant; what a query matches has to be seen first.
        asks = self.found and not args.yes and (is_interactive() or "query" in given)
        if given.get("dry_run") or asks:
            self.shown = render_memory.record_table(find_records(memory, would.ids)) if would.ids else []
        if given.get("dry_run"):
            return would
        if asks:
            print("\n".join([*self.shown, *render_memory.preview_lines(would)]), file=sys.stderr)
            confirm(args, f"Forget {render_memory.count_forgotten(would)} for good?")
        return memory.forget(**given)

    def format(self, answer: Forgotten, given: Given, args: Namespace) -> list[str]:
        if given.get("dry_run"):
            would = f"Would forget {show.pluralize(answer.total, 'record')}."
            return [would, *self.shown, *render_memory.preview_lines(answer)]
        return render_memory.forgotten_lines(answer)


def find_records(memory: Limpet, ids: Sequence[str]) -> list[Record]:
    """Those that are still there."""
    found = []
    for record_id in ids:
        with suppress(RecordNotFound):
            found.append(memory.records.get(record_id))
    return found


def _check_owner(memory: Limpet, given: Given) -> None:
    """A slip in the id must not reach somebody else's memory."""
    record = memory.records.get(given["id"], user=given.get("user"))
    found = {"agent": record.agent, "session": record.session_id, "scope": record.level}
    if any(name in given and given[name] != value for name, value in found.items()):
        raise RecordNotFound(f"no record {record.id} of that owner; nothing was forgotten")


# Sessions


class Append(OperationCommand):
    """Learns at once from what a user says: nobody may be running to do it later. --no-learn leaves it."""

    names = ("session.append",)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        stored = super().call(memory, args, given)
        settings = load_config(args)
        is_wanted = given.get("learn", stored.role == "user" and settings.learn.enabled)
        if is_wanted and not is_server(resolve_location(args)):  # a server learns by itself
            try:
                self.get_session(memory, args).learn()
            except LimpetError as error:
                why = show.one_line(str(error))
                print(f"limpet: note: nothing was learned yet ({why}); limpet worker tries again", file=sys.stderr)
        return stored


class ShowSession(OperationCommand):
    """A session with its summary and its newest messages."""

    names = ("load_session",)

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        text = "how many of its newest messages; default: 20"
        parser.add_argument("--last", metavar="N", type=int, default=argparse.SUPPRESS, help=text)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        session: Session = super().call(memory, args, given)
        return session.info, session.recent(getattr(args, "last", 20)), session.summary(), session.usage()

    def to_json(self, answer: Any, given: Given) -> Any:
        info, messages, summary, usage = answer
        more = {"summary": to_json(summary), "usage": to_json(usage.models), "messages": to_json(messages)}
        return to_json(info) | more

    def format(self, answer: Any, given: Given, args: Namespace) -> list[str]:
        info, messages, summary, _ = answer
        fields = (*SESSION_FIELDS, ("summary", lambda _: summary and summary.text))
        lines = [*show.format_noun(fields, info), ""]
        if not info.message_count:
            return [*lines, "No messages yet."]
        older = info.message_count - len(messages)
        if older > 0:
            lines.append(f"… {show.pluralize(older, 'older message')}; --last {info.message_count} shows all")
        return [*lines, *render_memory.message_lines(messages)]


class ExportSession(OperationCommand):
    """A file's worth: unchanged into a file or a pipe, harmless on a terminal."""

    names = ("session.export_transcript",)

    def run(self, args: Namespace) -> int:
        if args.json:
            return super().run(args)
        with self.open(args) as memory:
            text: str = self.call(memory, args, self.read(args))
        sys.stdout.write(show.escape(text) if sys.stdout.isatty() else text)
        return 0


class RemoveFromSession(OperationCommand):
    """It is asked for wherever it is typed: --yes goes without."""

    names = ("session.delete", "session.clear")
    has_yes = True

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        session = self.get_session(memory, args)
        messages = show.pluralize(session.info.message_count, "message")
        if self.operation.name == "session.clear":
            confirm(args, f"Remove {messages} of {session.id} for good?")
            return session.clear()
        confirm(args, f"Delete session {session.id} ({show.one_line(str(session.key))}, {messages}) for good?")
        return {"deleted": session.id, "counts": dict(session.delete())}


# Documents


class FileProgress(ProgressLine):
    """Knows afterwards how many files there were."""

    files = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.files = total
        super().__call__(stage, done, total)


class AddDocuments(OperationCommand):
    """A file, or a folder of them; some may be passed over."""

    names = ("documents.add",)
    progress: FileProgress

    def make_progress(self) -> FileProgress:
        import logging

        # What the reader finds wrong in a PDF is our one line to say.
        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        return FileProgress()

    def call(self, memory: Limpet, args: Namespace, given: Given) -> list[Document]:
        added = super().call(memory, args, given)
        return added if isinstance(added, list) else [added]

    def to_json(self, answer: list[Document], given: Given) -> Any:
        return {"documents": to_json(answer), "skipped": self.progress.files - len(answer)}

    def format(self, answer: Sequence[Document], given: Given, args: Namespace) -> list[str]:
        skipped = self.progress.files - len(answer)
        if len(answer) == 1 and not skipped:
            [document] = answer
            chunks = show.pluralize(document.chunks, "chunk")
            return [show.one_line(f"{str(document.status).capitalize()}: {document.uri} ({chunks})")]
        counts = Counter(str(document.status) for document in answer)
        parts = [f"{counts[status]:,} {status}" for status in ("added", "changed", "unchanged")]
        more = f"; {show.pluralize(skipped, 'file')} passed over (--verbose says why)" if skipped else ""
        return [f"{show.pluralize(len(answer), 'document')}: {', '.join(parts)}{more}."]


class RemoveDocument(OperationCommand):
    names = ("documents.remove",)
    has_yes = True

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        # One document named by its uri is what the caller meant; a person may have slipped.
        if is_interactive():
            confirm(args, f"Remove {show.one_line(given['uri'])} from memory for good?")
        return super().call(memory, args, given)


# The graph


class ShowGraph(OperationCommand):
    """It can be written to a file."""

    names = ("graph.get",)
    hidden = ("fresh",)  # a person wants to see what was just said

    def add_arguments(self, parser: Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--export", metavar="FILE", help="write it to FILE.graphml or FILE.json instead")

    def run(self, args: Namespace) -> int:
        if args.export is None:
            return super().run(args)
        if not args.export.lower().endswith(_GRAPH_FILES):
            raise UsageError(f"--export takes a file that ends in {' or '.join(_GRAPH_FILES)}, not {args.export!r}")
        with self.open(args) as memory:
            graph: Graph = self.call(memory, args, self.read(args))
        _write_graph(graph, args.export)
        sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
        entities = "1 entity" if sizes["entities"] == 1 else f"{sizes['entities']:,} entities"
        lines = [f"Wrote {entities} and {show.pluralize(sizes['relations'], 'relation')} to {args.export}."]
        value = {"file": args.export, **sizes, "cut": graph.cut}
        show.print_result(args, value, [*lines, *render_memory.truncation_note(graph)])
        return 0

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        return super().call(memory, args, {**given, "fresh": True})

    def to_json(self, answer: Graph, given: Given) -> Any:
        return answer.to_json()

    def format(self, answer: Graph, given: Given, args: Namespace) -> list[str]:
        return render_memory.format_graph(answer, given.get("entity"))


def _write_graph(graph: Graph, file: str) -> None:
    import json
    from pathlib import Path

    from limpet.store.files import open_private

    as_json = file.lower().endswith(".json")
    text = json.dumps(graph.to_json(), indent=2, ensure_ascii=False) + "\n" if as_json else graph.to_graphml()
    with open_private(Path(file), "w", encoding="utf-8", errors="replace") as out:
        out.write(text)


# Notes


class ShowNotes(OperationCommand):
    names = ("notes.day",)

    def read(self, args: Namespace) -> dict[str, Any]:
        from datetime import datetime

        from limpet.model.values import load_timezone

        user, settings = resolve_user(args), load_config(args).notes
        today = datetime.now(load_timezone(settings.find_zone(user))).date()
        return {"day": today, **super().read(args), "user": user}


class EditLongTerm(OperationCommand):
    """One command for reading, writing and appending."""

    names = ("notes.long_term.read",)
    about = "show MEMORY.md, replace it, or add to it"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("--user", metavar="NAME", default=argparse.SUPPRESS, help="whose; left out: your own")
        change = parser.add_mutually_exclusive_group()
        change.add_argument("--edit", metavar="TEXT", help="the new text; - reads it from the input")
        change.add_argument("--append", metavar="TEXT", help="a text to add; - reads it from the input")

    def open(self, args: Namespace) -> Limpet:
        changes = args.edit is not None or args.append is not None
        return open_memory(args, creates=changes, needed=not changes)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> dict[str, Any]:
        user, conflict = resolve_user(args), None
        file = memory.notes.long_term(user=user)
        text = file.read()
        if args.edit is not None:
            written = file.write(_read_file_text(args.edit))
            text, conflict = written.text, written.conflict
        elif args.append is not None:
            text = file.append(_read_file_text(args.append)).text
        paths = {"file": file.path, "conflict": conflict}
        return {"user": user, "text": text, **{name: path and str(path) for name, path in paths.items()}}

    def format(self, answer: Given, given: Given, args: Namespace) -> list[str]:
        return text_lines(answer["text"]) or ["MEMORY.md is empty."]


def _read_file_text(text: str) -> str:
    """A file of lines: the last one is ended too, which a shell's quotes and the input's reader leave out."""
    found = read_text(text)
    return f"{found}\n" if found and not found.endswith("\n") else found


class ExportItems(OperationCommand):
    names = ("notes.export_items",)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> dict[str, Any]:
        done = to_json(super().call(memory, args, given))
        path = memory.notes.long_term(user=given.get("user")).path
        return {"folder": None if path is None else str(path.parent / "items"), **done}

    def format(self, answer: Given, given: Given, args: Namespace) -> list[str]:
        said = [f"{show.pluralize(answer['records'], 'record')} in {answer['folder']}"]
        if not answer["has_folder"]:
            said = ["This store has no folder, so nothing was written; limpet export writes records to files"]
        if answer["waiting"]:
            said.append(f"{show.pluralize(answer['waiting'], 'changed line')} wait for notes import")
        return [show.one_line(f"{'; '.join(said)}."), *problem_lines(answer)]


class ImportItems(OperationCommand):
    names = ("notes.import_items",)
    has_yes = True

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        if given.get("delete_missing") and is_interactive():
            confirm(args, f"Forget the records of {show.one_line(resolve_user(args))} whose lines were removed?")
        return to_json(super().call(memory, args, given))


# Schedules


class CreateSchedule(OperationCommand):
    names = ("schedules.create",)

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        made: Schedule = super().call(memory, args, given)
        if made.note is not None and is_server(resolve_location(args)):  # else the log has said so
            print(f"limpet: note: {made.note}", file=sys.stderr)
        return made


class DeleteSchedule(OperationCommand):
    names = ("schedules.delete",)
    has_yes = True

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        found = memory.schedules.get(**given)
        if is_interactive():
            confirm(args, f"Delete the schedule {show.one_line(found.goal)[:60]!r} with its runs?")
        super().call(memory, args, given)
        return found.id


class ListRuns(OperationCommand):
    """Their times are shown in the schedule's zone."""

    names = ("schedules.runs",)
    schedule: Schedule

    def call(self, memory: Limpet, args: Namespace, given: Given) -> Any:
        self.schedule = memory.schedules.get(given["id"], user=given.get("user"))
        return super().call(memory, args, given)

    def format_rows(self, found: list[Run]) -> list[str]:
        return run_table(found, self.schedule)


class ShowOutput(OperationCommand):
    """All of it: pages are for programs."""

    names = ("schedules.run_output",)
    hidden = ("offset", "limit")

    def call(self, memory: Limpet, args: Namespace, given: Given) -> str:
        texts: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = super().call(memory, args, {**given, "offset": offset})
            texts.append(page.text)
            offset = page.next_offset
        return "".join(texts)

    def format(self, answer: str, given: Given, args: Namespace) -> list[str]:
        return show.escape(answer).split("\n") if answer else ["It said nothing."]
