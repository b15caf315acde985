"""notes: show, memory, export, import."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.derive import read_text
from limpet.cli.options import Parser, add_command, load_config, open_memory, resolve_user
from limpet.cli.show import confirm, is_interactive

if TYPE_CHECKING:
    from limpet.lifecycle.item_sync import ItemProblem


def add(commands: Any, summary: str) -> None:
    noun = add_command(commands, "notes", summary, show_day)
    _add_show_options(noun)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before the verb.
    unset = {"argument_default": argparse.SUPPRESS}
    showing = add_command(verbs, "show", "show the notes of a day", show_day, **unset)
    _add_show_options(showing)
    memory_ = add_command(verbs, "memory", "show MEMORY.md, replace it, or add to it", edit_long_term, **unset)
    _add_user(memory_)
    change = memory_.add_mutually_exclusive_group()
    change.add_argument("--edit", metavar="TEXT", default=None, help="the new text; - reads it from the input")
    change.add_argument("--append", metavar="TEXT", default=None, help="a text to add; - reads it from the input")
    exporting = add_command(
        verbs, "export", "write records to items/*.jsonl in the user's folder", export_items, **unset
    )
    _add_user(exporting)
    importing = add_command(verbs, "import", "take in what was changed in items/*.jsonl", import_items, **unset)
    _add_user(importing)
    importing.add_argument(
        "--delete-missing", action="store_true", default=False, help="forget records whose line was removed"
    )
    options.add_yes(importing)
    importing.set_defaults(yes=False)


def _add_user(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="the user whose notes they are; left out: LIMPET_USER, or me")


def _add_show_options(parser: Parser) -> None:
    _add_user(parser)
    parser.add_argument("--day", metavar="D", type=options.parse_day, help="a day such as 2026-03-10; default: today")


def show_day(args: Namespace) -> int:
    user = resolve_user(args)
    with open_memory(args, needed=True) as memory:
        day = _today(args, user) if args.day is None else args.day
        text = memory.notes.day(user=user, day=day)
    lines = _text_lines(text) or [f"No notes of {day}."]
    show.print_result(args, {"user": user, "day": day.isoformat(), "text": text}, lines)
    return 0


def _today(args: Namespace, user: str) -> date:
    from limpet.model.values import load_timezone

    settings = load_config(args).notes
    return datetime.now(load_timezone(settings.find_zone(user) or settings.timezone)).date()


def edit_long_term(args: Namespace) -> int:
    user, new, more = resolve_user(args), _read_file_text(args.edit), _read_file_text(args.append)
    changes = new is not None or more is not None
    with open_memory(args, creates=changes, needed=not changes) as memory:
        file = memory.notes.long_term(user=user)
        text, conflict = file.read(), None
        if new is not None:
            written = file.write(new)
            text, conflict = written.text, written.conflict
        elif more is not None:
            text = file.append(more).text
    value = {
        "user": user,
        "file": None if file.path is None else str(file.path),
        "text": text,
        "conflict": None if conflict is None else str(conflict),
    }
    show.print_result(args, value, _text_lines(text) or ["MEMORY.md is empty."])
    return 0


def _read_file_text(text: str | None) -> str | None:
    """A file of lines: the last one is ended too, which a shell's quotes and the input's reader leave out."""
    if text is None:
        return None
    found = read_text(text)
    return f"{found}\n" if found and not found.endswith("\n") else found


def _text_lines(text: str) -> list[str]:
    return show.escape(text).rstrip("\n").split("\n") if text.strip() else []


def export_items(args: Namespace) -> int:
    user = resolve_user(args)
    with open_memory(args, needed=True) as memory:
        done = memory.notes.export_items(user=user)
        path = memory.notes.long_term(user=user).path
    folder = None if path is None else path.parent / "items"
    value = {
        "folder": None if folder is None else str(folder),
        "records": done.records,
        "waiting": done.waiting,
        "conflicts": done.conflicts,
        "problems": _problems(done.problems),
    }
    said = [f"{show.pluralize(done.records, 'record')} in {folder}"]
    if folder is None:
        said = ["This store has no folder, so nothing was written; limpet export writes records to files"]
    if done.waiting:
        said.append(f"{show.pluralize(done.waiting, 'changed line')} wait for notes import")
    show.print_result(
        args, value, [show.one_line(f"{'; '.join(said)}."), *_problem_lines(done.conflicts, done.problems)]
    )
    return 0


def import_items(args: Namespace) -> int:
    user = resolve_user(args)
    if args.delete_missing and is_interactive():
        confirm(args, f"Forget the records of {show.one_line(user)} whose lines were removed?")
    with open_memory(args, needed=True) as memory:
        done = memory.notes.import_items(user=user, delete_missing=args.delete_missing)
    value = {
        "added": done.added,
        "changed": done.changed,
        "removed": done.removed,
        "conflicts": done.conflicts,
        "problems": _problems(done.problems),
    }
    said = f"{done.added:,} added, {done.changed:,} changed, {done.removed:,} removed."
    show.print_result(args, value, [said, *_problem_lines(done.conflicts, done.problems)])
    return 0


def _problems(problems: Iterable[ItemProblem]) -> list[dict[str, Any]]:
    return [{"file": one.file, "line": one.line, "reason": one.reason} for one in problems]


def _problem_lines(conflicts: int, problems: Sequence[ItemProblem]) -> list[str]:
    lines = []
    if conflicts:
        lines.append(f"{show.pluralize(conflicts, 'line')} lost against newer records: see the .conflict files.")
    return lines + [show.one_line(f"{one.file}:{one.line}: {one.reason}") for one in problems]
