"""A store that lives through the days of all stories at once, through the public API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from limpet import Config, Limpet, Record, Session
from limpet.errors import InvalidInput
from limpet.model.record import Origin
from limpet.model.values import MAX_PAGE
from limpet_bench.truth.data import Line
from limpet_bench.truth.text import ContextLine, context_lines, find_repeated
from limpet_bench.workload import Clock

REPLY = "Okay."
CLAIMS = frozenset({Origin.EXTRACTED, Origin.PROMOTED})
SURE = 0.5  # the confidence from which a claim is presented as current
_MORNING = 8  # the hour of the first slot
_LAST_SLOT = 11  # of the hours in which people talk
_ASK = 12  # questions come after everything else of the day
_NIGHT = 15

Action = Callable[["Stage"], None]


@dataclass(slots=True)
class Timeline:
    """What happens when. Actions of one slot follow each other; between two slots the store does its jobs."""

    events: list[tuple[int, int, Action]] = field(default_factory=list)

    def say(self, day: int, user: str, text: str, slot: int = 0) -> None:
        """One turn in the chat of the day. A slot is an hour of the day."""
        self.events.append((day, min(slot, _LAST_SLOT), lambda stage: stage.say(user, day, text)))

    def talk(self, user: str, chat: str, lines: Sequence[Line]) -> None:
        """A whole conversation in one chat, each line on its day."""
        for day, spoken in groupby(lines, key=lambda line: line.day):
            self.events.append((day, 0, partial(_talk, user, chat, list(spoken))))

    def ask(self, day: int, action: Action) -> None:
        """Ask in the evening, when everything of the day has been said and learned."""
        self.events.append((day, _ASK, action))

    def play(self, stage: Stage, progress: Callable[[int], None]) -> None:
        """Live through every day, those on which nothing happens included: a worker does its jobs on them too."""
        by_day = defaultdict[int, list[tuple[int, Action]]](list)
        for day, slot, action in self.events:
            by_day[day].append((slot, action))
        for day in range(max(by_day, default=0) + 1):
            progress(day)
            for slot, events in groupby(sorted(by_day[day], key=itemgetter(0)), key=itemgetter(0)):
                stage.begin(day, slot)
                for _, action in events:
                    action(stage)
            stage.begin(day, _NIGHT)


def _talk(user: str, chat: str, lines: Sequence[Line], stage: Stage) -> None:
    stage.talk(user, chat, lines)


@dataclass(slots=True)
class Stage:
    memory: Limpet
    clock: Clock
    contexts: int = 0
    lines: int = 0
    repeated: list[tuple[str, str, str]] = field(default_factory=list)  # the question, the line and the earlier line
    repeating: int = 0  # contexts with a repeated line
    users: dict[str, None] = field(default_factory=dict)

    def begin(self, day: int, slot: int) -> None:
        """Do the jobs that are due, those of the hours before included, and go on to this hour."""
        self.memory.jobs.run()
        self.clock.set(day, _MORNING + slot)
        self.memory.jobs.run()

    def session(self, user: str, chat: str) -> Session:
        self.users[user] = None
        return self.memory.session("bench", f"{user} {chat}", user=user)

    def say(self, user: str, day: int, text: str) -> None:
        """One turn in the chat of the day, with a reply that says nothing."""
        self._tick()
        with self.session(user, f"day {day}").turn(text) as turn:
            turn.reply(REPLY)

    def talk(self, user: str, chat: str, lines: Sequence[Line]) -> None:
        """Lines of both sides as they stand, as turns where a person is answered."""
        session = self.session(user, chat)
        spoken = list(lines)
        while spoken:
            line = spoken.pop(0)
            self._tick()
            if line.role == "user" and spoken and spoken[0].role == "assistant":
                with session.turn(line.text, name=line.speaker) as turn:
                    turn.reply(spoken.pop(0).text)
            else:
                session.append(line.role, line.text, name=line.speaker)

    def _tick(self) -> None:
        self.clock.now += timedelta(seconds=1)

    def context(self, user: str, question: str) -> list[ContextLine]:
        """The lines of the context of a question in no conversation. Repeated ones are counted."""
        self.users[user] = None
        context = self.memory.context(question, user=user)
        lines = context_lines(context.text)
        repeated = find_repeated(lines)
        self.contexts += 1
        self.lines += len(lines)
        self.repeating += bool(repeated)
        self.repeated += [(f"{user}: {question}", one, earlier) for one, earlier in repeated]
        return lines

    def claims(self, user: str, *, history: bool = False) -> list[Record]:
        """What was learned. With history also what ended, was replaced or has faded."""
        found = self.memory.records(user=user, limit=MAX_PAGE, history=history)
        if history:
            found = [*found, *self.memory.records(user=user, limit=MAX_PAGE, archived=True)]
        return [record for record in {each.id: each for each in found}.values() if record.origin in CLAIMS]

    def holds(self, record: Record) -> bool:
        """Whether a claim still holds and is not doubtful. What has only faded still holds."""
        doubted = record.confidence < SURE or "doubted_by" in record.metadata
        return record.is_valid_at(self.clock.now) and record.superseded_by is None and not doubted


@contextmanager
def open_stage(url: str | None, embedder: str) -> Iterator[Stage]:
    """A store in a temporary folder, or an empty database, which is emptied again. ``embedder``: an embedding.model."""
    overrides = {
        "jobs.worker": False,
        "notes.items": False,  # nobody reads the files
        "storage.synchronous": "normal",
        "embedding.model": embedder,
    }
    config = Config.load(env={}, overrides=overrides)  # results must not depend on the environment
    clock = Clock()
    with (
        TemporaryDirectory(prefix="limpet-truth-") as folder,
        Limpet.open(url or Path(folder), config=config, clock=clock) as memory,
    ):
        if owners := memory.admin.owners():
            raise InvalidInput(f"{url} holds memory of {len(owners)} owners; name an empty store")
        stage = Stage(memory, clock)
        yield stage
        if url is not None:
            for user in stage.users:
                memory.privacy.purge_user(user)


def spread(count: int, first: int, last: int) -> Sequence[int]:
    """So many days from the first to the last, evenly."""
    return [first + (last - first) * at // max(1, count - 1) for at in range(count)]
