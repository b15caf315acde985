"""worker: do background work until interrupted. By hand: it is a loop around two operations, and stops on a signal."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from limpet.cli import options, show
from limpet.cli.options import add_command, open_memory
from limpet.cli.stop import stop_on_signal
from limpet.errors import StorageError

if TYPE_CHECKING:
    from limpet import Limpet

_LOOK_AGAIN_S = 1.0


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "worker", summary, run_worker)
    parser.add_argument(
        "--schedules", action="store_true", help="hand what schedules bring to the model, too (else: schedules.worker)"
    )
    options.add_logging(parser)
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--once", action="store_true", help="end after one job, or when none is due")
    ending.add_argument("--until-idle", action="store_true", help="end when nothing is left that is due")


def run_worker(args: Namespace) -> int:
    """Jobs are shared with every other worker. The first signal lets it finish the job at hand, the second does not."""
    begun = fired = 0
    notifications: list[dict[str, Any]] = []
    patient = not (args.once or args.until_idle)
    with open_memory(args, needed=True) as memory, stop_on_signal() as stop:
        due = _schedule_runner(memory, args, notifications)
        while not stop.is_set():
            found = _run_one(lambda: memory.jobs.run(until_idle=False), patient=patient)
            # A model may take its time: jobs have their turn between two schedules.
            ran = 0 if args.once and found else _run_one(due, patient=patient)
            begun, fired = begun + found, fired + ran
            if args.once or (args.until_idle and not found and not ran):
                break
            if not found and not ran:
                stop.wait(_LOOK_AGAIN_S)
    said = {"jobs": begun, "schedules": fired, "notifications": notifications}
    ending = f" {show.pluralize(fired, 'schedule')} run." if fired else ""
    show.print_result(args, said, [f"{show.pluralize(begun, 'job')} run.{ending}"])
    return 0


def _schedule_runner(memory: Limpet, args: Namespace, notifications: list[dict[str, Any]]) -> Callable[[], int]:
    """What runs one schedule that is due, where that is wanted and can be done."""
    if not (args.schedules or memory.config.schedules.worker):
        return lambda: 0
    from limpet.cli import scheduled

    if not scheduled.has_llm(memory):
        print(f"limpet: note: {scheduled.NO_LLM}", file=sys.stderr)
        return lambda: 0
    notify = scheduled.make_notifier(notifications, aloud=not args.json)
    return lambda: memory.schedules.run(scheduled.run_turn, notify, until_idle=False)


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
