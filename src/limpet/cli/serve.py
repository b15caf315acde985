"""Commands that stay: serve over HTTP, mcp over the standard streams, and worker. By hand: each stops on a signal."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from limpet.cli import show
from limpet.cli.options import (
    DEFAULT_USER,
    USER_ENV,
    add_command,
    add_logging,
    disable_worker,
    load_config,
    open_memory,
    resolve_user,
)
from limpet.errors import ProviderError, StorageError, Unsupported

if TYPE_CHECKING:
    from limpet import Firing, Limpet, Notification, RunResult


def add(commands: Any, summary: str) -> None:
    parser = add_command(commands, "serve", summary, serve)
    parser.add_argument("--host", metavar="ADDRESS", help="where to listen; default: the setting's, 127.0.0.1")
    parser.add_argument("--port", metavar="N", type=int, help="default: the setting's, 8420; 0: any that is free")
    parser.add_argument(
        "--user",
        metavar="U",
        help=f"the user of requests that name none, where there are no keys (else ${USER_ENV}, else {DEFAULT_USER!r})",
    )
    add_logging(parser)
    parser.add_argument("--no-worker", action="store_true", help="leave background work to `limpet worker`")


def serve(args: Namespace) -> int:
    try:
        from limpet.server.run import serve as listen  # late: it takes a second
    except ImportError as missing:
        raise Unsupported(f"{missing.name} is not installed: pip install 'limpet[serve]'") from None
    config = disable_worker(load_config(args)) if args.no_worker else load_config(args)
    with _exit_cleanly(), open_memory(args, creates=True, config=config) as memory:
        rules = memory.config.server
        host, port = args.host or rules.host, rules.port if args.port is None else args.port
        work = (lambda _: None) if args.no_worker else partial(_start_worker, memory, args)
        listen(
            memory,
            host=host,
            port=port,
            user=resolve_user(args),
            ready=lambda url: _announce(args, memory, url),
            work=work,
        )
    return 0


def _start_worker(memory: Limpet, args: Namespace, busy: Callable[[], bool]) -> None:
    """As `limpet worker` does; schedules too, where that is wanted and can be done."""
    from collections import deque

    run, notify = find_schedule_runner(memory, args, deque(maxlen=1)) or (None, None)
    memory.jobs.start_worker(busy=busy, on_schedule=run, notify=notify)


@contextmanager
def _exit_cleanly() -> Iterator[None]:
    """A request to stop is not a failure: the store is closed, and the exit status is 0."""
    before = {number: signal.signal(number, lambda *_: sys.exit(0)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(args: Namespace, memory: Limpet, url: str) -> None:
    if args.json:
        import json  # late: showing help needs none

        print(json.dumps({"url": url, "mcp": f"{url}/mcp", "openapi": f"{url}/openapi.json"}), flush=True)
        return
    lines = [
        f"Limpet serves {memory.admin.stats()['location']}",
        f"  page   {url}/",
        f"  API    {url}/v1/…, described at {url}/openapi.json",
        f"  MCP    {url}/mcp",
    ]
    if not memory.sessions(limit=1) and not memory.records(limit=1):
        lines.append("The store is empty: the page offers a sample conversation to look at.")
    if not memory.access.keys.required():
        lines.append("Programs on this machine need no key until limpet api-keys create makes one.")
    print("\n".join([*lines, "Stop it with Ctrl-C."]), file=sys.stderr, flush=True)


def add_mcp(commands: Any, summary: str) -> None:
    parser = add_command(commands, "mcp", summary, serve_mcp)
    parser.add_argument("--user", metavar="U", help=f"whose memory; default: ${USER_ENV}, then {DEFAULT_USER!r}")
    parser.add_argument("--agent", metavar="A", help="the agent that schedules run as; default: the setting's")
    add_logging(parser)
    parser.add_argument(
        "--allow-purge", action="store_true", help="offer memory_purge, which asks the user; default: mcp.purge"
    )


def serve_mcp(args: Namespace) -> int:
    try:
        import anyio

        from limpet.mcp.stdio import serve_stdio  # late: it takes a second
    except ImportError as missing:
        raise Unsupported(f"{missing.name} is not installed: pip install 'limpet[mcp]'") from None
    from limpet.tools import ToolContext

    config = load_config(args)
    with open_memory(args, creates=True, config=config) as memory:
        serving = partial(serve_stdio, allow_purge=args.allow_purge or config.mcp.purge)
        anyio.run(serving, ToolContext(memory, resolve_user(args), agent=args.agent))
    return 0


_LOOK_AGAIN_S = 1.0
CHANNEL = "schedule"  # each schedule has a conversation of its own there
NO_LLM = (
    "schedules wait: there is no language model to hand them to; name one in the setting llm.model, or run them from"
    " a program with memory.schedules.run"
)
_TASK_PROMPT = "This is a scheduled task. Nobody can answer questions now: do it, and report the result."
_NOTIFY_PROMPT = "If, and only if, the user needs to hear of it now, begin your answer with {}."


def add_worker(commands: Any, summary: str) -> None:
    parser = add_command(commands, "worker", summary, run_worker)
    parser.add_argument(
        "--schedules", action="store_true", help="run schedules with the model, too (else: schedules.worker)"
    )
    add_logging(parser)
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--once", action="store_true", help="end after one job, or if none is due")
    ending.add_argument("--until-idle", action="store_true", help="end when nothing is due")


def run_worker(args: Namespace) -> int:
    """Jobs are shared with every other worker. The first signal lets it finish the job at hand, the second does not."""
    begun = fired = 0
    notifications: list[dict[str, Any]] = []
    patient = not (args.once or args.until_idle)
    with open_memory(args, needed=True) as memory, stop_on_signal() as stop:
        runner = find_schedule_runner(memory, args, notifications)
        while not stop.is_set():
            found = _run_one(lambda: memory.jobs.run(until_idle=False), patient=patient)
            # A model may take its time: jobs have their turn between two schedules.
            ran = 0
            if runner and not (args.once and found):
                ran = _run_one(partial(memory.schedules.run, *runner, until_idle=False), patient=patient)
            begun, fired = begun + found, fired + ran
            if args.once or (args.until_idle and not found and not ran):
                break
            if not found and not ran:
                stop.wait(_LOOK_AGAIN_S)
    said = {"jobs": begun, "schedules": fired, "notifications": notifications}
    ending = f" {show.pluralize(fired, 'schedule')} run." if fired else ""
    show.print_result(args, said, [f"{show.pluralize(begun, 'job')} run.{ending}"])
    return 0


def find_schedule_runner(
    memory: Limpet, args: Namespace, notifications: MutableSequence[dict[str, Any]]
) -> tuple[Callable[[Firing], RunResult], Callable[[Notification], None]] | None:
    """What runs a schedule and what tells of it, where that is wanted and can be done."""
    from limpet.api.runtime import select_llm

    if not (getattr(args, "schedules", False) or memory.config.schedules.worker):
        return None
    if select_llm(None, memory.config) is None:
        print(f"limpet: note: {NO_LLM}", file=sys.stderr)
        return None
    return run_turn, _make_notifier(notifications, aloud=not args.json)


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


class StopEvent:
    """An event that a signal handler may set.

    ``threading.Event`` is none: its lock is held for a moment whenever somebody waits, and a handler that runs in that
    moment, in the thread that waits, waits for that lock for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()  # may be put into from a handler, says its documentation

    def set(self, *_signal: object) -> None:
        self._is_set = True
        self._bell.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """For one thread, which looks whether it is set before it waits again."""
        with suppress(Empty):
            self._bell.get(timeout=seconds)
        return self._is_set


@contextmanager
def stop_on_signal() -> Iterator[StopEvent]:
    """Set by Ctrl-C and by SIGTERM, instead of what they else do. A second one does what it always did."""
    stop = StopEvent()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def handle_signal(*_: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        for number in signals:
            signal.signal(number, handle_signal)
        yield stop
    finally:
        restore()


# Schedules


def run_turn(firing: Firing) -> RunResult:
    """One turn of the schedule's own conversation: the model of the chat is asked, with the user's memory."""
    from limpet.api.runtime import limit_llm, select_llm
    from limpet.cli.chat.model import Limits, ask_with_tools, build_messages, open_toolbox, to_usage
    from limpet.model.schedule import NOTIFY_MARK, NotifyPolicy, RunResult
    from limpet.providers.llm import LlmRequest, TelemetryLlm

    memory, schedule = firing.memory, firing.schedule
    llm = select_llm(None, memory.config)
    if llm is None:
        raise ProviderError(NO_LLM)
    view = memory._view  # noqa: SLF001 - observers hear of this request, and it counts
    llm = TelemetryLlm(llm, view.agents.observers)
    llm = limit_llm(llm, memory.config, view.runtime.store, view.runtime.clock) or llm
    session = memory.session(CHANNEL, schedule.id, user=schedule.user, agent=schedule.agent)
    notify = _NOTIFY_PROMPT.format(NOTIFY_MARK) if schedule.notify is NotifyPolicy.CONDITIONAL else ""
    limits = Limits.of(memory.config, None, None)
    asked = f"{f'{_TASK_PROMPT} {notify}'.rstrip()}\n\n{schedule.goal}"
    with session.turn(asked, max_tokens=limits.max_tokens, model_window=limits.model_window) as held:
        request = LlmRequest(build_messages(held.context), max_tokens=limits.reply, timeout=memory.config.llm.timeout_s)
        box = open_toolbox(memory, session, limits.window)
        whole = ask_with_tools(llm.complete, request, box, held)
        if not whole.text.strip():
            raise ProviderError(f"{llm.name} returned an empty answer")
        held.reply(whole.text, usage=to_usage(llm, whole))
    return RunResult(whole.text, turns=1, cost=whole.usage.cost or 0.0)


def _make_notifier(notifications: MutableSequence[dict[str, Any]], *, aloud: bool) -> Callable[[Notification], None]:
    """Notifications go to the output: there is no other channel here."""

    def notify(given: Notification) -> None:
        notifications.append(
            {
                "schedule": given.schedule.id,
                "run": given.run.id,
                "user": given.schedule.user,
                "channel": given.channel,
                "chat": given.chat,
                "thread": given.thread,
                "text": given.text,
            }
        )
        if aloud:
            to = " ".join(filter(None, (given.schedule.user, given.channel, given.chat, given.thread)))
            print(f"{show.one_line(to)}: {show.escape(given.text)}", flush=True)

    return notify
