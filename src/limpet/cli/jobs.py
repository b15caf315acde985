"""jobs: list, retry, drop, run; worker: do background work until interrupted."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.ask import ProgressLine
from limpet.cli.options import Parser, UsageError, add_command
from limpet.cli.place import open_memory
from limpet.cli.stop import stop_on_signal
from limpet.errors import StorageError
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import JobInfo, Limpet

_LOOK_AGAIN_S = 1.0


def add(commands: Any) -> None:
    noun = add_command(
        commands, "jobs", "look at background work, try it again or drop it; without a verb: list", list_jobs
    )
    _add_list_options(noun)
    noun.set_defaults(limit=50, offset=0)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB")
    # What is left out here must not undo what stood before the verb.
    unset = {"argument_default": argparse.SUPPRESS}
    _add_list_options(add_command(verbs, "list", "list jobs, the next to run first", list_jobs, **unset))
    retrying = add_command(verbs, "retry", "let jobs that were laid aside be tried anew", retry)
    retrying.add_argument("ids", metavar="ID", type=int, nargs="*", help="the jobs' numbers, as the list shows them")
    retrying.add_argument("--kind", metavar="KIND", help="all of this kind")
    retrying.add_argument("--all", action="store_true", help="all there are")
    dropping = add_command(verbs, "drop", "remove jobs that were laid aside", drop)
    dropping.add_argument("ids", metavar="ID", type=int, nargs="+", help="the jobs' numbers, as the list shows them")
    running = add_command(verbs, "run", "do the job that is due, in the foreground", run)
    running.add_argument("--until-idle", action="store_true", help="all that are due, one after the other")

    worker_ = add_command(
        commands, "worker", "do background work, such as missing vectors, until interrupted", run_worker
    )
    worker_.add_argument(
        "--schedules", action="store_true", help="hand what schedules bring to the model, too (else: schedules.worker)"
    )
    options.add_logging(worker_)
    ending = worker_.add_mutually_exclusive_group()
    ending.add_argument("--once", action="store_true", help="end after one job, or when none is due")
    ending.add_argument("--until-idle", action="store_true", help="end when nothing is left that is due")


def _add_list_options(parser: Parser) -> None:
    parser.add_argument("--state", choices=options.JOB_STATES, help="only those that wait, run or were laid aside")
    parser.add_argument("--kind", metavar="KIND", help="only those of this kind, such as embed")
    parser.add_argument("--limit", metavar="N", type=int, help="how many at most; default: 50")
    parser.add_argument("--offset", metavar="N", type=int, help="how many to pass over; default: 0")


def list_jobs(args: Namespace) -> int:
    with open_memory(args) as hf:
        found = hf.jobs.list(state=args.state, kind=args.kind, limit=args.limit, offset=args.offset)
    show.print_result(args, to_json(found), _format_jobs(found, args))
    return 0


def _format_jobs(found: Sequence[JobInfo], args: Namespace) -> list[str]:
    if not found and args.offset:
        return ["No jobs so far down. Leave --offset out to see the first."]
    if not found and (args.state or args.kind):
        return ["No such jobs."]
    if not found:
        return ["No jobs: all background work is done."]
    titles = (">ID", "KIND", "STATE", ">RUNS", "?NEXT", "?OF", "LAST ERROR")
    rows = [
        (
            str(job.id),
            job.kind,
            job.state.value,
            str(job.attempts),
            _format_next_run(job),
            f"{job.level.value} {job.owner}".rstrip(),
            job.error or "-",
        )
        for job in found
    ]
    return [*show.format_table(titles, rows), *show.next_page_hint(len(found), args.limit, args.offset)]


def _format_next_run(job: JobInfo) -> str:
    if job.state.value == "dead":
        return "-"
    return "now" if job.run_at is None else show.format_time(job.run_at)


def retry(args: Namespace) -> int:
    if [bool(args.ids), args.kind is not None, args.all].count(True) != 1:
        raise UsageError("say which jobs: their numbers, --kind KIND or --all")
    with open_memory(args, needed=True) as hf:
        count = hf.jobs.retry(args.ids or None, args.kind)
    show.print_result(args, {"retried": count}, [f"{show.pluralize(count, 'job')} waiting to be tried anew."])
    return 0


def drop(args: Namespace) -> int:
    with open_memory(args, needed=True) as hf:
        count = hf.jobs.drop(args.ids)
    show.print_result(args, {"dropped": count}, [f"{show.pluralize(count, 'job')} dropped."])
    return 0


def run(args: Namespace) -> int:
    progress = ProgressLine()
    with open_memory(args, needed=True) as hf:
        try:
            begun = hf.jobs.run(until_idle=args.until_idle, progress=progress)
        finally:
            progress.end()
    return _report(args, begun)


def run_worker(args: Namespace) -> int:
    """Jobs are shared with every other worker. The first signal lets it finish the job at hand, the second does not."""
    begun = fired = 0
    told: list[dict[str, Any]] = []
    patient = not (args.once or args.until_idle)
    with open_memory(args, needed=True) as hf, stop_on_signal() as stop:
        due = _schedule_runner(hf, args, told)
        while not stop.is_set():
            found = _run_one(lambda: hf.jobs.run(until_idle=False), patient=patient)
            # A model may take its time: jobs have their turn between two schedules.
            ran = 0 if args.once and found else _run_one(due, patient=patient)
            begun, fired = begun + found, fired + ran
            if args.once or (args.until_idle and not found and not ran):
                break
            if not found and not ran:
                stop.wait(_LOOK_AGAIN_S)
    said = {"jobs": begun, "schedules": fired, "notifications": told}
    ending = f" {show.pluralize(fired, 'schedule')} run." if fired else ""
    show.print_result(args, said, [f"{show.pluralize(begun, 'job')} run.{ending}"])
    return 0


def _schedule_runner(hf: Limpet, args: Namespace, told: list[dict[str, Any]]) -> Callable[[], int]:
    """What runs one schedule that is due, where that is wanted and can be done."""
    if not (args.schedules or hf.config.schedules.worker):
        return lambda: 0
    from limpet.cli import scheduled

    if not scheduled.has_llm(hf):
        print(f"limpet: note: {scheduled.NO_LLM}", file=sys.stderr)
        return lambda: 0
    tell = scheduled.make_notifier(told, aloud=not args.json)
    return lambda: hf.schedules.run(scheduled.run_turn, tell, until_idle=False)


def _run_one(run: Callable[[], int], *, patient: bool) -> int:
    """A worker that stays outlives a server that is started again."""
    try:
        return run()
    except StorageError as error:
        if not patient:
            raise
        import logging  # late: showing help needs none

        logging.getLogger("limpet.jobs").warning("the store cannot be reached: %s", error)
        return 0


def _report(args: Namespace, begun: int) -> int:
    show.print_result(args, {"jobs": begun}, [f"{show.pluralize(begun, 'job')} run."])
    return 0
