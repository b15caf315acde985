"""``limpet demo``: a small conversation in a temporary store, and what memory makes of it."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.api import sample
from limpet.cli import render_memory, show
from limpet.cli.options import add_command
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Limpet, Session

BUDGET = 100

_GO_ON = (
    "Your turn:",
    '  limpet remember "My dog is called Biscuit" --user me --key dog_name',
    '  limpet recall "what is my dog called?" --user me --explain',
    "  limpet sessions            limpet records            limpet doctor",
    "In Python: from limpet import Limpet. The README begins with an example.",
)


class Step(NamedTuple):
    title: str
    typed: str
    lines: list[str]
    value: Any


class SampleClock:
    """The conversation's own time, so that the demo tells the same story every day."""

    def __init__(self) -> None:
        self.now = sample.CHATS[0].at

    def __call__(self) -> datetime:
        return self.now

    def set(self, moment: datetime) -> None:
        self.now = moment


def add(commands: Any, summary: str) -> None:
    add_command(commands, "demo", summary, demo)


def demo(args: Namespace) -> int:
    from tempfile import TemporaryDirectory

    from limpet import Config, Limpet

    clock = SampleClock()
    config = Config.load(overrides={"jobs.worker": False})  # its clock jumps: a lease would seem to have run out
    with (
        TemporaryDirectory(prefix="limpet-demo-") as folder,
        Limpet.open(folder, clock=clock, config=config) as memory,
    ):
        session = sample.load(memory, at=clock.set)
        steps = {
            "sessions": _sessions(memory),
            "recall": _recall(memory),
            "context": _context(session),
            "history": _change(memory, clock),
            "forget": _forget(memory),
        }
    lines = ["Three chats between Mara and her assistant Pip, stored in a temporary folder.", ""]
    for number, step in enumerate(steps.values(), start=1):
        lines += [f"{number}. {step.title}", f"   $ {step.typed}", *(f"   {line}".rstrip() for line in step.lines), ""]
    show.print_result(args, {name: step.value for name, step in steps.items()}, [*lines, *_GO_ON])
    return 0


def _sessions(memory: Limpet) -> Step:
    found = memory.sessions(user=sample.USER)
    rows = [
        (info.id, str(info.key), info.state.value, str(info.message_count), show.format_time(info.last_active_at))
        for info in found
    ]
    lines = show.format_table(("ID", "KEY", "?STATE", "?>MESSAGES", "LAST ACTIVE"), rows)
    value = to_json(found)
    title = "Every message is stored, in order, with its time."
    return Step(title, f"limpet sessions --user {sample.USER}", lines, value)


def _recall(memory: Limpet) -> Step:
    hits = memory.recall(sample.QUESTION, user=sample.USER, k=3)
    return Step(
        "Recall finds the lines that matter, and explains itself.",
        f'limpet recall "{sample.QUESTION}" --user {sample.USER} -k 3 --explain',
        render_memory.explain_hits(hits),
        to_json(hits),
    )


def _context(session: Session) -> Step:
    question = sample.CHATS[-1].lines[-1][1]
    context = session.context(question, max_tokens=BUDGET)
    return Step(
        "The context of the next prompt stays inside a token budget, and says what it left out.",
        f'limpet context "{question}" --session {session.id} --max-tokens {BUDGET}',
        render_memory.context_lines(context),
        to_json(context),
    )


def _change(memory: Limpet, clock: SampleClock) -> Step:
    """Remembered in May, corrected in June; the clock then stands where the conversation ended."""
    today, clock.now = clock.now, sample.CHATS[1].at
    memory.remember(sample.BEFORE, user=sample.USER, key=sample.KEY)
    clock.now = today
    record = memory.remember(sample.AFTER, user=sample.USER, key=sample.KEY)
    versions = memory.records.history(record.id)
    then = sample.CHATS[1].at + timedelta(days=4)
    [was] = memory.records(user=sample.USER, as_of=then)
    asked = f"$ limpet records --user {sample.USER} --as-of {then:%Y-%m-%d}"
    value = {"versions": to_json(versions), "as_of": to_json(was)}
    title = "A fact that changed keeps its history."
    lines = [*render_memory.history_lines(versions), asked, *render_memory.record_table([was])]
    return Step(title, f"limpet records history {record.id}", lines, value)


def _forget(memory: Limpet) -> Step:
    """The memory goes; what was said in the chats belongs to the sessions and stays."""
    gone = memory.forget(key=sample.KEY, user=sample.USER)
    left = memory.recall("regatta", user=sample.USER, kinds=["record"])
    again = f"$ limpet recall regatta --user {sample.USER} --kind record"
    lines = [*render_memory.forgotten_lines(gone), again, *([] if left else [render_memory.NOTHING_FOUND])]
    value = {**to_json(gone), "found again": len(left)}
    typed = f"limpet forget --key {sample.KEY} --user {sample.USER} --yes"
    return Step("Forget means forget.", typed, lines, value)
