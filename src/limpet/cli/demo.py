"""``limpet demo``: a sample conversation in a temporary store: what is learned, changed, recalled and forgotten."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.cli import render_memory, show
from limpet.cli.options import add_command
from limpet.model.schema import to_json

if TYPE_CHECKING:
    from limpet import Limpet

USER = "mara"
BEGINS = datetime(2026, 3, 2, 9, tzinfo=UTC)
# The day, what Mara says, and what her assistant answers.
LIFE = (
    (0, "I'm Mara. I live in Porto and I'm allergic to peanuts.", "Hello Mara!"),
    (1, "Please always answer in short sentences.", "I will."),
    (40, "My brother Tomek is a carpenter. He gets seasick, even on lakes.", "Poor Tomek."),
    (61, "I bought an old rowing boat called Marzipan.", "Does she float?"),
    (61, "What does a rowing boat cost?", "A few hundred."),
    (95, "I moved to Gdansk last week.", "How is it there?"),
)
ASKED_LATER = 200  # days after the beginning
WHERE, LUNCH = "Where do I live?", "What should we eat on the boat with my brother?"
FORGET = "peanuts"

_GO_ON = (
    "Your turn:",
    '  limpet remember "My dog is called Biscuit" --user me --key dog_name',
    '  limpet recall "what is my dog called?" --user me --explain',
    "  limpet sessions            limpet records            limpet doctor",
    "In Python: from limpet import Limpet. The README begins with an example.",
)


class Step(NamedTuple):
    title: str
    lines: list[str]
    value: Any


class LifeClock:
    """The life's own time, so that the demo tells the same story every day."""

    def __init__(self) -> None:
        self.now = BEGINS

    def __call__(self) -> datetime:
        return self.now


def add(commands: Any, summary: str) -> None:
    add_command(commands, "demo", summary, demo)


def demo(args: Namespace) -> int:
    from tempfile import TemporaryDirectory

    from limpet import Config, Limpet

    clock = LifeClock()
    config = Config.load(overrides={"jobs.worker": False})  # its clock jumps: a lease would seem to have run out
    with TemporaryDirectory(prefix="limpet-demo-") as folder, Limpet.open(folder, clock=clock, config=config) as memory:
        _live(memory, clock)
        steps = {
            "learned": _show_learned(memory),
            "changed": _show_change(memory),
            "context": _show_context(memory),
            "forget": _forget(memory),
        }
    lines = [f"{BEGINS + timedelta(days=day):%d %b %Y}  {said}" for day, said, _ in LIFE]
    lines = ["Mara talks to her assistant now and then, without a language model:", *lines, ""]
    for number, step in enumerate(steps.values(), start=1):
        lines += [f"{number}. {step.title}", *(f"   {line}".rstrip() for line in step.lines), ""]
    show.print_result(args, {name: step.value for name, step in steps.items()}, [*lines, *_GO_ON])
    return 0


def _live(memory: Limpet, clock: LifeClock) -> None:
    """Every day a chat of its own; what is said is learned at once."""
    for at, (day, said, answer) in enumerate(LIFE):
        clock.now = BEGINS + timedelta(days=day, minutes=at)
        with memory.session("demo", f"day {day}", user=USER).turn(said) as turn:
            turn.reply(answer)
        memory.jobs.run()
    clock.now = BEGINS + timedelta(days=ASKED_LATER)


def _show_learned(memory: Limpet) -> Step:
    found = memory.records(user=USER, limit=100)
    claims = sorted((each for each in found if each.origin == "extracted"), key=lambda each: str(each.created_at))
    lines = [f"$ limpet records --user {USER}", *(f"{each.type.value:<11} {each.content}" for each in claims)]
    return Step(
        "What was learned: sentences about her, not the chat. A question teaches nothing.", lines, to_json(claims)
    )


def _show_change(memory: Limpet) -> Step:
    hits = memory.recall(WHERE, user=USER, k=2)
    lines = [f'$ limpet recall "{WHERE}" --user {USER} -k 2']
    for hit in hits:
        until = "" if hit.until is None else f" until {hit.until:%d %b %Y}"
        lines += [f"{'holds' if hit.holds else f'past{until}'}: {hit.text}", f"    {hit.why}"]
    return Step("What changed: the new value comes first, and the old one says that it is past.", lines, to_json(hits))


def _show_context(memory: Limpet) -> Step:
    context = memory.context(LUNCH, user=USER, max_tokens=300)
    lines = [f'$ limpet context "{LUNCH}" --user {USER} --max-tokens 300', *context.text.splitlines()]
    title = f"What the next prompt gets, {ASKED_LATER} days later, in {context.tokens} tokens:"
    return Step(title, lines, to_json(context))


def _forget(memory: Limpet) -> Step:
    """First what would go, then it goes: the record, and the words in the message it was learned from."""
    would = memory.forget(query=FORGET, user=USER, everywhere=True, dry_run=True)
    gone = memory.forget(query=FORGET, user=USER, everywhere=True)
    left = [hit for hit in memory.recall("Am I allergic to peanuts?", user=USER) if FORGET in hit.text]
    lines = [
        f"$ limpet forget --query {FORGET} --everywhere --user {USER} --dry-run",
        f"Would forget {render_memory.count_forgotten(would)}.",
        *render_memory.preview_lines(would),
        f"$ limpet forget --query {FORGET} --everywhere --user {USER} --yes",
        *render_memory.forgotten_lines(gone),
        f'$ limpet recall "Am I allergic to peanuts?" --user {USER}',
        *([hit.text for hit in left] or ["No hit mentions peanuts."]),
    ]
    return Step("What forgetting removes, and what is left of it:", lines, {**to_json(gone), "found again": len(left)})
