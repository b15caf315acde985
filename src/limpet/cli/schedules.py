"""schedule: create, list, show, edit, pause, resume, delete, runs, output, due."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import confirm, is_interactive
from limpet.cli.memory import read_text_argument
from limpet.cli.options import Parser, UsageError, add_command
from limpet.cli.place import open_memory
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Run, Schedule

_CADENCE = '"cron: 0 9 * * 1-5", "once: 2026-12-01T09:00" or "every: 15m"'


def add(commands: Any) -> None:
    noun = add_command(
        commands, "schedule", "goals that come back, and what came of them; without a verb: list", list_schedules
    )
    _add_list_options(noun)
    noun.set_defaults(limit=50, offset=0)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before the verb.
    unset = {"argument_default": argparse.SUPPRESS}
    creating = add_command(verbs, "create", "let a goal come back", create, **unset)
    creating.add_argument("goal", metavar="GOAL", help="what is to be done; - reads it from the input")
    creating.add_argument("--cadence", metavar="C", required=True, help=f"when: {_CADENCE}")
    _add_user(creating)
    _add_settings(creating)
    creating.add_argument("--session", metavar="ID", default=None, help="the session it was asked for in")
    _add_list_options(add_command(verbs, "list", "list schedules, the newest first", list_schedules, **unset))
    due_ = add_command(verbs, "due", "list those that wait for a runner now, the longest first", list_due, **unset)
    _add_user(due_)
    due_.add_argument("--limit", metavar="N", type=int, help="how many at most; default: 50")
    _add_id_command(verbs, "show", "show a schedule", show_schedule)
    editing = _add_id_command(verbs, "edit", "change a schedule; what is left out stays", edit)
    editing.add_argument("--goal", metavar="TEXT", default=None, help="what is to be done")
    editing.add_argument("--cadence", metavar="C", default=None, help=f"when: {_CADENCE}")
    _add_settings(editing)
    _add_id_command(verbs, "pause", "let a schedule rest", pause)
    _add_id_command(verbs, "resume", "go on with one that was paused, disabled or failed", resume)
    options.add_yes(_add_id_command(verbs, "delete", "remove a schedule with its runs", delete))
    _add_page(_add_id_command(verbs, "runs", "list what came of a schedule, the latest first", list_runs), "20")
    reading = add_command(verbs, "output", "print all that a run said", show_output, **unset)
    reading.add_argument("id", metavar="RUN", help="the run's id, as runs lists it")
    _add_user(reading)


def _add_id_command(verbs: Any, name: str, summary: str, run: options.CommandFunction) -> Parser:
    parser = add_command(verbs, name, summary, run, argument_default=argparse.SUPPRESS)
    parser.add_argument("id", metavar="ID", help="the schedule's id, as the list shows it")
    _add_user(parser)
    return parser


def _add_user(parser: Parser) -> None:
    parser.add_argument("--user", metavar="U", help="the user whose it is")


def _add_settings(parser: Parser) -> None:
    texts = {
        "--timezone": ("Z", "the zone of its times, such as Europe/Lisbon (default: schedules.timezone)"),
        "--agent": ("A", "the agent that does it (default: session.default_agent)"),
        "--channel": ("C", "the channel it reports to"),
        "--chat": ("C", "the chat it reports to"),
        "--thread": ("T", "the thread it reports to"),
        "--ends-at": ("TIME", "the last time it may fire, such as 2026-12-01T09:00; never takes it away"),
    }
    for name, (metavar, text) in texts.items():
        parser.add_argument(name, metavar=metavar, default=None, help=text)
    parser.add_argument("--notify", choices=options.NOTIFY, default=None, help="whether runs are told; default: always")
    parser.add_argument("--max-runs", metavar="N", type=int, default=None, help="how often it may fire; 0: any number")


def _add_list_options(parser: Parser) -> None:
    _add_user(parser)
    parser.add_argument("--agent", metavar="A", help="only those of this agent")
    parser.add_argument("--state", choices=options.SCHEDULE_STATES, help="only those in this state")
    parser.add_argument("--text", metavar="T", help="only those with this in their goal")
    _add_page(parser, "50")


def _add_page(parser: Parser, default: str) -> None:
    parser.add_argument("--limit", metavar="N", type=int, help=f"how many at most; default: {default}")
    parser.add_argument("--offset", metavar="N", type=int, help="how many to pass over; default: 0")


def _read_settings(args: Namespace) -> dict[str, Any]:
    names = ("timezone", "agent", "channel", "chat", "thread", "ends_at", "notify", "max_runs")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def create(args: Namespace) -> int:
    user = getattr(args, "user", None)
    if user is None:
        raise UsageError("say whose schedule: --user U")
    with open_memory(args, creates=True) as hf:
        made = hf.schedules.create(
            user, read_text_argument(args.goal), args.cadence, session=args.session, **_read_settings(args)
        )
    show.print_result(
        args, to_json(made), [f"Schedule {made.id} runs first at {_format_time(made, made.next_run_at)}."]
    )
    return 0


def list_schedules(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.schedules.search(
            user=args.user, agent=args.agent, state=args.state, text=args.text, limit=args.limit, offset=args.offset
        )
    filtered = any((args.user, args.agent, args.state, args.text))
    none = "No such schedules." if filtered else "No schedules yet: limpet schedule create makes one."
    if args.offset:
        none = "No schedules so far down. Leave --offset out to see the first."
    lines = [*_format_schedules(found), *show.next_page_hint(len(found), args.limit, args.offset)]
    show.print_result(args, to_json(found), lines or [none])
    return 0


def list_due(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.schedules.due(user=getattr(args, "user", None), limit=getattr(args, "limit", 50))
    lines = _format_schedules(found) or ["Nothing is due."]
    show.print_result(args, to_json(found), lines)
    return 0


def _format_schedules(found: Sequence[Schedule]) -> list[str]:
    if not found:
        return []
    titles = ("ID", "STATE", "?USER", "NEXT", "CADENCE", ">FAILED", "GOAL")
    rows = [
        (
            one.id,
            _format_state(one),
            one.user,
            _format_time(one, one.next_run_at),
            one.cadence,
            str(one.failures),
            one.goal,
        )
        for one in found
    ]
    return show.format_table(titles, rows)


def _format_state(one: Schedule) -> str:
    return "running" if one.running_until is not None else one.state.value


def _format_time(one: Schedule, moment: datetime | None) -> str:
    """In the schedule's own zone, as long as that is known here."""
    from limpet.errors import InvalidInput

    if moment is None:
        return "-"
    try:
        return one.to_local(moment).strftime("%Y-%m-%d %H:%M %Z")
    except InvalidInput:
        return show.format_time(moment)


def show_schedule(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        found = hf.schedules.get(args.id, user=getattr(args, "user", None))
    show.print_result(args, to_json(found), _format_schedule(found))
    return 0


def _format_schedule(one: Schedule) -> list[str]:
    origin = " ".join(filter(None, (one.channel, one.chat, one.thread)))
    return show.format_fields(
        (
            ("id", one.id),
            ("user", one.user),
            ("agent", one.agent),
            ("goal", one.goal),
            ("cadence", one.cadence),
            ("zone", one.timezone),
            ("state", _format_state(one)),
            ("next", _format_time(one, one.next_run_at)),
            ("again for", _format_time(one, one.due_at) if one.due_at != one.next_run_at else ""),
            ("last run", f"{_format_time(one, one.last_run_at)} {one.last_status or ''}".strip()),
            ("runs", f"{one.run_count}{'' if one.max_runs is None else f' of {one.max_runs}'}"),
            ("failures", str(one.failures) if one.failures else ""),
            ("ends", "" if one.ends_at is None else _format_time(one, one.ends_at)),
            ("notify", one.notify.value),
            ("reports to", origin),
            ("created", _format_time(one, one.created_at)),
        )
    )


def edit(args: Namespace) -> int:
    changes = _read_settings(args)
    changes |= {name: getattr(args, name) for name in ("goal", "cadence") if getattr(args, name) is not None}
    if not changes:
        raise UsageError("say what to change: --goal, --cadence, --timezone, … (see limpet schedule edit --help)")
    return _apply_change(args, lambda schedules, user: schedules.edit(args.id, user=user, **changes))


def pause(args: Namespace) -> int:
    return _apply_change(args, lambda schedules, user: schedules.pause(args.id, user=user))


def resume(args: Namespace) -> int:
    return _apply_change(args, lambda schedules, user: schedules.resume(args.id, user=user))


def _apply_change(args: Namespace, change: Callable[[Any, str | None], Schedule]) -> int:
    with open_memory(args, needed=True) as hf:
        found = change(hf.schedules, getattr(args, "user", None))
    runs_next = "" if found.next_run_at is None else f", runs next at {_format_time(found, found.next_run_at)}"
    show.print_result(args, to_json(found), [f"Schedule {found.id}: {found.state.value}{runs_next}."])
    return 0


def delete(args: Namespace) -> int:
    user = getattr(args, "user", None)
    with open_memory(args, needed=True) as hf:
        found = hf.schedules.get(args.id, user=user)
        if is_interactive():
            confirm(args, f"Delete the schedule {show.one_line(found.goal)[:60]!r} with its runs?")
        hf.schedules.delete(args.id, user=user)
    show.print_result(args, {"deleted": found.id}, [f"Schedule {found.id} deleted."])
    return 0


def list_runs(args: Namespace) -> int:
    limit, offset, user = getattr(args, "limit", 20), getattr(args, "offset", 0), getattr(args, "user", None)
    with open_memory(args, needed=True) as hf:
        schedule = hf.schedules.get(args.id, user=user)
        found = hf.schedules.runs(args.id, user=user, limit=limit, offset=offset)
    lines = _format_runs(schedule, found) or ["No runs so far down." if offset else "It has not run yet."]
    show.print_result(args, to_json(found), [*lines, *show.next_page_hint(len(found), limit, offset)])
    return 0


def _format_runs(schedule: Schedule, found: Sequence[Run]) -> list[str]:
    if not found:
        return []
    titles = ("RUN", "STATUS", "DUE", "?STARTED", "?>MISSED", "?>COST", "?TOLD", "SUMMARY")
    rows = [
        (
            one.id,
            one.status.value,
            _format_time(schedule, one.due_at),
            _format_time(schedule, one.started_at),
            str(one.missed),
            f"{one.cost:.4f}",
            "yes" if one.notified else "waiting" if one.to_notify else "no",
            one.error or one.summary or "-",
        )
        for one in found
    ]
    return show.format_table(titles, rows)


def show_output(args: Namespace) -> int:
    user = getattr(args, "user", None)
    texts: list[str] = []
    with open_memory(args, needed=True) as hf:
        offset: int | None = 0
        while offset is not None:
            page = hf.schedules.run_output(args.id, user=user, offset=offset)
            texts.append(page.text)
            offset = page.next_offset
    text = "".join(texts)
    lines = show.escape(text).split("\n") if text else ["It said nothing."]
    show.print_result(args, {"run": args.id, "output": text}, lines)
    return 0
