"""A year of several users in a few minutes: what is learned, what fades, and what an agent receives.

The clock is ours, the lives are scripted (bench/lives.py), so what is true on which day is known. Whatever was learned
and is none of it is junk.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from limpet import Config, Context, Limpet, Record
from limpet.api.runtime import DATABASE
from limpet.errors import InvalidInput
from limpet.model.record import Origin
from limpet.model.tokens import estimate_tokens
from limpet.model.values import MAX_PAGE
from limpet_bench.chart import Line, chart
from limpet_bench.lives import Exchange, Fact, Life, Stated, life, within
from limpet_bench.truth.data import Story
from limpet_bench.truth.measures import HITS, ranks_new_first, shows_old
from limpet_bench.truth.text import context_lines, find_repeated, mentions
from limpet_bench.workload import Clock

BUDGET = 2000
EVERY = 30  # days between two snapshots
SEED = 7
_SHOWN = 0.5  # below this confidence a record is doubtful, and not presented as current
_LEARNED = {Origin.EXTRACTED, Origin.PROMOTED}
_USERS = ("alice", "boris", "chidi", "dunja", "emile", "farah", "goran", "hanna")
CONFIG = Config.load(
    env={},  # results must not depend on the environment
    overrides={
        "jobs.worker": False,
        "embedding.model": "none",
        "notes.write_daily": False,  # a context shows records and messages only
        "retention.enabled": False,  # messages are needed all year
        "storage.synchronous": "normal",  # no power loss here: a commit need not wait for the disk
    },
)


@dataclass(frozen=True, slots=True)
class Look:
    """The store of all users at the end of a day. A share of nothing is None."""

    day: int
    messages: int
    current: int
    superseded: int
    archived: int
    deleted: int
    bytes: int
    tokens_most: int  # of any context so far
    explicit: int
    explicit_alive: int
    facts: int  # true now
    known: float  # share stated by a current record
    relevant: float  # those whose answer is in the context of their question
    lasting: float | None  # the same for what was said a month ago and longer
    new_first: float | None  # changed facts: recall has the new value before the old
    marked: float | None  # changed facts: the context has the new value, and the old one not, or marked as past
    lines: int  # of all these contexts
    outdated: float | None  # facts that have ended, but that a current record still states
    outdated_of_several: float | None  # the same for facts about one of several, such as a sister
    junk: float | None  # current learned records that state no fact
    twice: int  # current learned records beyond the first for the same fact
    junk_texts: list[str] = field(repr=False)
    unanswered: list[str] = field(repr=False)
    stale: list[str] = field(repr=False)
    repeats: list[str] = field(repr=False)  # lines that say what an earlier one says


class Year:
    """Lives played into a store. ``looks`` has the snapshots."""

    def __init__(self, folder: Path, days: int, users: int, seed: int = SEED) -> None:
        if not 1 <= users <= len(_USERS):
            raise InvalidInput(f"--users must be from 1 to {len(_USERS)}, not {users}")
        if days < 1:
            raise InvalidInput(f"--days must be at least 1, not {days}")
        self._folder = folder
        self._days = days
        self._clock = Clock()
        self._lives = [life(user, days, seed) for user in _USERS[:users]]
        self._stated: dict[str, tuple[str, Stated]] = {}  # by record id: its owner and statement
        self._seen: set[str] = set()
        self._most = 0

    def looks(self) -> Iterator[Look]:
        with Limpet.open(self._folder, config=CONFIG, clock=self._clock) as memory:
            for day in range(self._days):
                for one in self._lives:
                    self._live(memory, one, day)
                self._clock.set(day, 23)
                memory.jobs.run()
                if (day + 1) % EVERY == 0 or day + 1 == self._days:
                    yield self._look(memory, day)

    def _live(self, memory: Limpet, one: Life, day: int) -> None:
        self._clock.set(day, 8)
        for stated in one.stated:
            if stated.day == day:
                record = memory.remember(stated.text, user=one.user, type=stated.type, pinned=stated.pinned)
                self._stated[record.id] = one.user, stated
        for at, exchange in enumerate(one.days[day]):
            self._clock.set(day, 9 + at)
            self._turn(memory, one.user, exchange)

    def _turn(self, memory: Limpet, user: str, exchange: Exchange) -> None:
        session = memory.session("bench", f"{user} {exchange.chat}", user=user)
        with session.turn(exchange.text, max_tokens=BUDGET) as turn:
            self._most = max(self._most, count_tokens(turn.context))
            if exchange.step is not None:
                call = {"id": "c1", "name": "bash", "arguments": {"command": exchange.step.command}}
                turn.add("assistant", "", tool_calls=[call])
                turn.add("tool", exchange.step.output, tool_call_id="c1", is_error=exchange.step.is_error)
            turn.reply(exchange.reply)

    # Measurements

    def _look(self, memory: Limpet, day: int) -> Look:
        states: Counter[str] = Counter()
        current: dict[str, list[Record]] = {}
        here: set[str] = set()
        for one in self._lives:
            true = memory.records(user=one.user, limit=MAX_PAGE)
            past = memory.records(user=one.user, limit=MAX_PAGE, history=True)
            faded = memory.records(user=one.user, limit=MAX_PAGE, archived=True)
            over = {record.id for record in past} - {record.id for record in (*true, *faded)}
            states += Counter(current=len(true), superseded=len(over), archived=len(faded))
            here |= {record.id for record in (*past, *faded)}
            current[one.user] = true
        self._seen |= here
        judged = _Judged(day)
        for one in self._lives:
            judged.judge(one, current[one.user])
            self._ask(memory, one, day, judged)
        everything = [record for records in current.values() for record in records]
        alive = {record.id: record for record in everything}
        return Look(
            day=day + 1,
            messages=sum(info.message_count for one in self._lives for info in memory.sessions(user=one.user)),
            current=states["current"],
            superseded=states["superseded"],
            archived=states["archived"],
            deleted=len(self._seen - here),
            bytes=size(self._folder / DATABASE),
            tokens_most=self._most,
            explicit=len(self._stated),
            explicit_alive=sum(id in alive and alive[id].content == one.text for id, (_, one) in self._stated.items()),
            **judged.shares(),
        )

    def _ask(self, memory: Limpet, one: Life, day: int, judged: _Judged) -> None:
        """Ask in an empty chat, so that only memory can answer. Reads do not count as use."""
        session = memory.session("bench", f"{one.user} asks", user=one.user)
        asked: list[Fact | Stated] = [fact for fact in one.facts if fact.question and fact.holds(day)]
        asked += [stated for owner, stated in self._stated.values() if owner == one.user]
        for each in asked:
            context = session.context(each.question, max_tokens=BUDGET)
            self._most = max(self._most, count_tokens(context))
            judged.count_answer(one.user, each, context.text)
            if isinstance(each, Fact) and (story := find_change(one, each, day)) is not None:
                hits = memory.recall(each.question, user=one.user, k=HITS)
                judged.count_change(story, ranks_new_first(hits, story), context.text)


def find_change(one: Life, fact: Fact, day: int) -> Story | None:
    """The fact as a story of change, if it took the place of others."""
    before = [
        each
        for each in one.facts
        if (each.question, each.attribute) == (fact.question, fact.attribute) and each.has_ended(day)
    ]
    old = tuple({each.answer: None for each in before if each.answer != fact.answer})
    if not old:
        return None
    said = tuple((each.since, each.sentence) for each in (*before, fact))
    return Story(one.user, said, fact.question, day, (fact.answer,), old)


def size(database: Path) -> int:
    """Include the write-ahead log's pages, but not its fixed overhead."""
    connection = sqlite3.connect(database)
    try:
        pages, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    finally:
        connection.close()
    return int(pages) * int(page)


def count_tokens(context: Context) -> int:
    """Count tokens again: the context's own count is what is measured."""
    return max(
        context.tokens,
        estimate_tokens(context.text) + sum(estimate_tokens(message.text) for message in context.messages),
    )


@dataclass(slots=True)
class _Judged:
    """Compare what is stored with what is true."""

    day: int
    facts: int = 0
    known: int = 0
    over: list[int] = field(default_factory=lambda: [0, 0])  # facts that have ended; the same for one of several
    shown: list[int] = field(default_factory=lambda: [0, 0])
    learned: int = 0
    twice: int = 0
    junk: list[str] = field(default_factory=list)
    questions: int = 0
    unanswered: list[str] = field(default_factory=list)
    old_questions: int = 0  # about what was said a month ago and longer
    old_unanswered: int = 0
    stories: int = 0
    new_first: int = 0
    marked: int = 0
    lines: int = 0
    stale: list[str] = field(default_factory=list)
    repeats: list[str] = field(default_factory=list)

    def judge(self, one: Life, current: Sequence[Record]) -> None:
        learned = [record for record in current if record.origin in _LEARNED and record.confidence >= _SHOWN]
        told: Counter[int] = Counter()
        for record in learned:
            at = next((at for at, fact in enumerate(one.facts) if fact.told_by(record)), None)
            if at is None:
                self.junk.append(f"{one.user}: {record.type.value} {record.content!r}")
            else:
                told[at] += 1
        self.learned += len(learned)
        self.twice += sum(count - 1 for count in told.values())
        for at, fact in enumerate(one.facts):
            if fact.holds(self.day):
                self.facts += 1
                self.known += told[at] > 0
            elif fact.has_ended(self.day):
                self.over[fact.several] += 1
                self.shown[fact.several] += told[at] > 0

    def count_answer(self, user: str, fact: Fact | Stated, text: str) -> None:
        found, lines = within(fact.answer, text), context_lines(text)
        old = self.day - (fact.since if isinstance(fact, Fact) else fact.day) >= EVERY
        self.questions += 1
        self.old_questions += old
        self.old_unanswered += old and not found
        self.lines += len(lines)
        self.repeats += [f"{user}: {fact.question} {one!r} repeats {other!r}" for one, other in find_repeated(lines)]
        if not found:
            self.unanswered.append(f"{user}: {fact.question} {fact.answer}")

    def count_change(self, story: Story, new_first: bool, text: str) -> None:
        lines = context_lines(text)
        old = [line.text for line in lines if shows_old(line, story)]
        new = any(mentions(line.text, story.new) for line in lines)
        self.stories += 1
        self.new_first += new_first
        self.marked += new and not old
        if not new or old or not new_first:
            seen = f"new is {'there' if new else 'missing'}, {'' if new_first else 'not '}first; old: {old}"
            self.stale.append(f"{story.id}: {story.question} {story.new}: {seen}")

    def shares(self) -> dict[str, Any]:
        return {
            "facts": self.facts,
            "known": _share(self.known, self.facts) or 0.0,
            "relevant": _share(self.questions - len(self.unanswered), self.questions) or 0.0,
            "lasting": _share(self.old_questions - self.old_unanswered, self.old_questions),
            "new_first": _share(self.new_first, self.stories),
            "marked": _share(self.marked, self.stories),
            "lines": self.lines,
            "stale": self.stale,
            "repeats": self.repeats,
            "outdated": _share(self.shown[0], self.over[0]),
            "outdated_of_several": _share(self.shown[1], self.over[1]),
            "junk": _share(len(self.junk), self.learned),
            "twice": self.twice,
            "junk_texts": self.junk,
            "unanswered": self.unanswered,
        }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# Report

_COLUMNS = (
    *("day", "messages", "current", "superseded", "archived", "deleted", "MB", "tokens", "explicit", "facts", "known"),
    *("relevant", "lasting", "new first", "marked", "repeated", "outdated", "several", "junk", "twice"),
)


def row(look: Look) -> tuple[str, ...]:
    counts = (look.day, look.messages, look.current, look.superseded, look.archived, look.deleted)
    return (
        *map(str, counts),
        f"{look.bytes / 1e6:.1f}",
        str(look.tokens_most),
        f"{look.explicit_alive}/{look.explicit}",
        str(look.facts),
        *map(_percent, (look.known, look.relevant, look.lasting, look.new_first, look.marked)),
        f"{len(look.repeats)}/{look.lines}",
        *map(_percent, (look.outdated, look.outdated_of_several, look.junk)),
        str(look.twice),
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f}%"


def table(looks: Sequence[Look]) -> Iterator[str]:
    rows = [_COLUMNS, *map(row, looks)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def plot(looks: Sequence[Look]) -> str:
    days = [look.day for look in looks]
    records = (
        Line("current", [look.current for look in looks], "#1b7837"),
        Line("archived", [look.archived for look in looks], "#b35806"),
        Line("superseded", [look.superseded for look in looks], "#762a83"),
        Line("deleted", [look.deleted for look in looks], "#888888"),
    )
    size = Line("store, MB", [look.bytes / 1e6 for look in looks], "#2166ac", right=True)
    return chart("Records and the size of the store over time", "day", days, (*records, size), ("records", "MB"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=365, help="how many days are lived (default 365)")
    parser.add_argument("--users", type=int, default=3, help="how many people live them (default 3)")
    parser.add_argument("--plot", metavar="FILE.svg", type=Path, help="write a chart of it")
    parser.add_argument("--faults", action="store_true", help="print what was junk, not answered, or outdated")
    parser.add_argument("--folder", type=Path, help="where the store goes (default: a temporary folder)")


def main(args: argparse.Namespace) -> int:
    looks = []
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="limpet-year-") as folder:
        for look in Year(Path(folder), args.days, args.users).looks():
            looks.append(look)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\x1b[Kday {look.day}")
                sys.stderr.flush()
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if args.plot is not None:
        args.plot.write_text(plot(looks), encoding="utf-8")
    if args.json:
        told = {"users": args.users, "days": args.days, "budget": BUDGET, "looks": [asdict(look) for look in looks]}
        print(json.dumps(told, indent=2))
        return 0
    print("\n".join(table(looks)))
    if args.faults:
        print("\n".join(f"junk: {text}" for text in looks[-1].junk_texts))
        print("\n".join(f"not answered: {text}" for text in looks[-1].unanswered))
        print("\n".join(f"changed: {text}" for text in looks[-1].stale))
        print("\n".join(f"repeated: {text}" for text in looks[-1].repeats))
    return 0
