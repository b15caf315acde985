"""How work grows with the text, at every place where text comes in: ``python -m tests.growth [ENTRY…]``.

Every shape of text is tried at 10 kB, the slowest of them at 100 kB, and the slowest of those at 1 MB. For each entry
point the slowest text is printed, with how much longer it took than a tenth of it. Work that grows with the square of
the text takes a hundred times as long for ten times the text. A refusal by a limit is an answer, and is printed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

from limpet import Config, Limpet
from limpet.context.quote import quote, quote_document, quote_inline
from limpet.errors import LimpetError
from limpet.search.analysis import Question
from limpet.security.mask import mask_secrets
from tests.growing_texts import NAMES, make_text

SIZES = (10_000, 100_000, 1_000_000)
TRIED = (None, 8, 3)  # of the shapes that were slowest at the size before
MAX_GROWTH = 30.0  # for ten times the text: 10 is proportional, 100 is quadratic
TOO_SHORT_TO_TELL_S = 0.05  # what a tenth of the text took, to say anything about growth
MAX_S = 60.0  # of processor time, for one megabyte
_MOMENT = datetime(2026, 3, 10, tzinfo=UTC)

Entry = Callable[[Limpet, str, str], object]


class Measured(NamedTuple):
    shape: str
    size: int
    seconds: float
    refusal: str = ""


def append(memory: Limpet, user: str, text: str) -> None:
    memory.session(user=user).append("user", text)


def recall(memory: Limpet, user: str, text: str) -> None:
    memory.recall(text, user=user)


def remember(memory: Limpet, user: str, text: str) -> None:
    memory.remember(text, user=user)


def forget(memory: Limpet, user: str, text: str) -> None:
    memory.remember("a walrus", user=user)
    memory.forget(query=text, user=user)


def forget_record(memory: Limpet, user: str, text: str) -> None:
    memory.forget(id=memory.remember(text, user=user).id, user=user)


def learn(memory: Limpet, user: str, text: str) -> None:
    session = memory.session(user=user)
    session.append("user", text)
    session.append("assistant", "I see.")
    session.learn()


def summarize(memory: Limpet, user: str, text: str) -> None:
    session = memory.session(user=user)
    session.append("user", text)
    session.append("assistant", "I see.")
    session.compact(keep=1)


def build_context(memory: Limpet, user: str, text: str) -> None:
    memory.session(user=user).context(text, max_tokens=2000)


def add_document(memory: Limpet, user: str, text: str) -> None:
    memory.documents.add("page.md", text, user=user)


def add_html(memory: Limpet, user: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        path.write_text(text, encoding="utf-8")
        memory.documents.add(str(path), user=user)


def write_note(memory: Limpet, user: str, text: str) -> None:
    memory.notes.long_term(user=user).write(text)


def take_turn(memory: Limpet, user: str, text: str) -> None:
    with memory.session(user=user).turn(text, max_tokens=2000) as turn:
        turn.reply(text)


def import_line(memory: Limpet, user: str, text: str) -> None:
    """One line of another program's export, whose text is as long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memories.json")
        line = {"id": user, "memory": text, "user_id": user, "created_at": "2026-01-01T00:00:00Z"}
        path.write_text(json.dumps({"results": [line]}), encoding="utf-8")
        memory.transfer.import_(str(path), user=user)


ENTRIES: dict[str, Entry] = {
    "append": append,
    "remember": remember,
    "recall": recall,
    "context": build_context,
    "turn": take_turn,
    "learn": learn,
    "forget query": forget,
    "forget record": forget_record,
    "note": write_note,
    "document": add_document,
    "html document": add_html,
    "summary": summarize,
    "import line": import_line,
    "times": lambda _memory, _user, text: Question.parse(text, _MOMENT),
    "secrets": lambda _memory, _user, text: mask_secrets(text),
    "quoting": lambda _memory, _user, text: (quote(text), quote_document(text), quote_inline(text)),
}


def main(wanted: list[str]) -> int:
    print(f"{'entry point':<15}{'slowest text':<18}{'10 kB':>9}{'100 kB':>9}{'1 MB':>9}{'growth':>8}  remarks")
    wrong = 0
    for name in wanted or ENTRIES:
        with opened() as memory:
            wrong += report(name, list(measure_entry(memory, ENTRIES[name])))
    return int(wrong > 0)


@contextmanager
def opened() -> Iterator[Limpet]:
    settings = {"embedding.model": "none", "jobs.worker": False}
    with Limpet.open(":memory:", config=Config.load(overrides=settings)) as memory:
        yield memory


def measure_entry(memory: Limpet, entry: Entry) -> Iterator[Measured]:
    users = (f"user{number}" for number in count())
    entry(memory, next(users), "I like tea.")
    shapes = list(NAMES)
    for size, most in zip(SIZES, TRIED, strict=True):
        found = [measure(memory, entry, next(users), shape, size) for shape in shapes[:most]]
        yield from found
        shapes = [each.shape for each in sorted(found, key=lambda each: -each.seconds)]


def measure(memory: Limpet, entry: Entry, user: str, shape: str, size: int) -> Measured:
    text, refusal = make_text(shape, size), ""
    start = time.process_time()
    try:
        entry(memory, user, text)
    except LimpetError as error:
        refusal = str(error)
    return Measured(shape, size, time.process_time() - start, refusal)


def report(name: str, found: list[Measured]) -> bool:
    """Print the slowest text of an entry point. Return whether its work grows too fast or takes too long."""
    slowest = max(found, key=lambda each: (each.size, each.seconds))
    taken = {each.size: each for each in found if each.shape == slowest.shape}
    growths = [
        taken[long].seconds / taken[short].seconds
        for short, long in pairwise(SIZES)
        if long in taken and taken[short].seconds > TOO_SHORT_TO_TELL_S
    ]
    wrong = any(growth > MAX_GROWTH for growth in growths) or slowest.seconds > MAX_S
    seconds = "".join(f"{taken[size].seconds:>8.2f}s" for size in SIZES)
    growth = f"{max(growths):>7.1f}x" if growths else f"{'-':>8}"
    remarks = ["GROWS TOO FAST"] if wrong else []
    remarks += sorted({each.refusal[:70] for each in taken.values() if each.refusal})
    print(f"{name:<15}{slowest.shape:<18}{seconds}{growth}  {'; '.join(remarks)}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
