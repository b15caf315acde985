"""A process that calls everything a store can do, and notes what it was answered and how long it took."""

from __future__ import annotations

import io
import json
import logging
import shutil
import signal
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

from limpet import Config, Limpet, Schedule, Session
from limpet.cli.serve import StopEvent
from limpet.security.telemetry import ActivityKind, ActivityResult
from tests.crash import writes
from tests.crash.writer import Hand, keeper, notebook
from tests.crash.writes import Doer, Notes

# What was said in 2025 stays: only sessions whose time is over go.
CONFIG = Config.load(overrides={"embedding.model": "none", "retention.messages_days": 36_500})
ROTATED = 400  # turns of one conversation
TOPICS = ("dog", "garden", "boat", "piano", "bakery", "violin", "novel", "bicycle")


def talker(doer: Doer) -> str:
    """A user of this process alone, who takes turns. Something is learned from them."""
    return f"talker-{doer.writer}-{doer.thread}"


def measures(folder: Path, writer: int) -> Path:
    return folder / f"measures-{writer}.json"


def run(store: str, folder: str, writer: int, life: int, threads: int, seed: int, pace: float) -> None:
    """Until SIGTERM; then the measurements are written."""
    stop = StopEvent()
    signal.signal(signal.SIGTERM, stop.set)
    logging.getLogger("limpet").setLevel(logging.ERROR)  # that nothing runs the schedules is meant
    watch = Watch()
    with Limpet.open(store, config=CONFIG) as memory:
        memory.admin.observe(watch)
        hands = [
            Mixer(memory, notes, doer, life, Random(f"{seed}/{doer}"), pace, stop, Path(folder))
            for notes in [Notes(notebook(Path(folder), writer, life))]
            for doer in (Doer(writer, number) for number in range(threads))
        ]
        running = [threading.Thread(target=hand.work, args=({},)) for hand in hands]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    watch.write(measures(Path(folder), writer))


class Watch:
    """How long each operation took, and the codes of its errors."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._errors: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))

    def __call__(self, done: ActivityResult) -> None:
        if done.kind is ActivityKind.OPERATION:
            self._seconds[done.name].append(done.seconds)
            if done.code is not None:
                self._errors[done.name][done.code] += 1

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"seconds": self._seconds, "errors": self._errors}))


class Mixer(Hand):
    """What a writer does, and everything else."""

    talk: Session
    schedules: dict[str, Schedule]

    def __init__(
        self,
        memory: Limpet,
        notes: Notes,
        doer: Doer,
        life: int,
        chance: Random,
        pace: float,
        stop: StopEvent,
        folder: Path,
    ) -> None:
        super().__init__(memory, notes, doer, life, chance, pace, stop)
        self._folder = folder
        self.schedules = {}
        self._turns = 0

    def _kinds(self) -> Iterator[tuple[str, tuple[float, Callable[[], None]]]]:
        yield from super()._kinds()
        yield "turn", (20, self._turn)
        yield "read", (24, self._read)
        yield "session", (4, self._change_session)
        yield "expire", (2, self._expire)
        yield "schedule", (3, self._create_schedule)
        yield "edit schedule", (2, self._edit_schedule)
        yield "delete schedule", (1, self._delete_schedule)
        yield "forget said", (1, self._forget_said)
        yield "retention", (0.3, lambda: self._do_plain("retention", self.memory.privacy.retention))
        yield "jobs", (0.3, lambda: self._do_plain("jobs", lambda: self.memory.jobs.run(until_idle=False)))
        yield "items", (0.3, self._sync_items)
        yield "move", (0.2, self._move)
        yield "backup", (0.05, self._back_up)
        yield "doctor", (0.05, lambda: self._do_plain("doctor", self._examine))

    def _take_seats(self) -> None:
        super()._take_seats()
        self.talk = self.memory.session("talk", "main", user=talker(self.doer))

    def _do_plain(self, kind: str, call: Callable[[], object]) -> None:
        self._do(kind, "", lambda _: call() and None)

    def _append(self, kind: str, session: Session) -> None:
        """As ``Hand`` does, by the call that most programs make."""

        def call(deed: str) -> list[int]:
            new = writes.message(f"{deed}i0", once=kind == "append once")
            stored = session.append(
                new.role,
                new.content,
                name=new.name,
                tool_calls=new.tool_calls,
                metadata=new.metadata,
                created_at=new.created_at,
                idempotency_key=new.idempotency_key,
            )
            self._remember_seeing(f"{deed}i0", session)
            return [stored.sequence]

        self._do(kind, session.id, call)

    def _turn(self) -> None:
        if self._turns >= ROTATED:
            self._turns = 0
            self._do_plain("new talk", lambda: setattr(self, "talk", self.talk.new()))

        def call(deed: str) -> str:
            topic = self.chance.choice(TOPICS)
            with self.talk.turn(f"{deed} I love my {topic}, it is called {deed}.") as turn:
                turn.reply(f"reply to {deed}: what a {topic}!")
            return self.talk.id

        self._do("turn", "", call)
        self._turns += 1

    def _read(self) -> None:
        memory, user, session = self.memory, self.chance.choice((self.user, talker(self.doer))), self.talk
        question = f"What is my {self.chance.choice(TOPICS)} called?"
        reads: tuple[Callable[[], object], ...] = (
            lambda: memory.recall(question, user=user),
            lambda: memory.context(question, user=user),
            lambda: session.context(question),
            lambda: session.recent(20),
            session.restore,
            session.summary,
            lambda: session.transcript(last=20),
            session.usage,
            lambda: memory.sessions(user=user, limit=20),
            lambda: memory.records(user=user, limit=20),
            lambda: memory.records.count(user=user),
            lambda: memory.profile(user=user),
            lambda: memory.graph(user=user),
            lambda: memory.documents.list(user=keeper(self.doer)),
            lambda: memory.notes.day(user=user),
            lambda: memory.notes.long_term(user=keeper(self.doer)).read(),
            lambda: memory.schedules.search(user=user),
            lambda: memory.jobs.list(limit=20),
            memory.admin.stats,
            lambda: memory.access.audit(limit=20),
            lambda: memory.forget(query="dog", user=user, dry_run=True),
        )
        self._do_plain("read", self.chance.choice(reads))

    def _change_session(self) -> None:
        session = self.talk
        changes: tuple[Callable[[], object], ...] = (
            lambda: session.set_working_memory("what is done now"),
            lambda: session.update_metadata({"seen": self.number}),
            lambda: session.add_usage("model", input_tokens=5, output_tokens=1, cost=0.001),
            lambda: session.compact(keep=20),
            lambda: (session.pause(), session.resume()),
            session.learn,
        )
        self._do_plain("session", self.chance.choice(changes))

    def _expire(self) -> None:
        def call(deed: str) -> None:
            session = self.memory.session("brief", deed, user=talker(self.doer))
            session.append("user", f"{deed} for a moment")
            session.expire_in(0.5)

        self._do("expire", "", call)

    def _create_schedule(self) -> None:
        def call(deed: str) -> str:
            made = self.memory.schedules.create(talker(self.doer), goal=deed, cadence="cron: 0 9 * * 1-5", name=deed)
            self.schedules[deed] = made
            return made.id

        if len(self.schedules) < 20:
            self._do("schedule", "", call)

    def _edit_schedule(self) -> None:
        if self.schedules:
            made, schedule = self.chance.choice(list(self.schedules.items()))
            self._do("edit schedule", made, lambda deed: self.memory.schedules.edit(schedule.id, name=deed) and None)

    def _delete_schedule(self) -> None:
        if self.schedules:
            made, schedule = self.chance.choice(list(self.schedules.items()))
            del self.schedules[made]
            self._do("delete schedule", made, lambda _: self.memory.schedules.delete(schedule.id))

    def _forget_said(self) -> None:
        """By one of its words, wherever it is."""
        topic, user = self.chance.choice(TOPICS), f"{talker(self.doer)}-2"

        def call(deed: str) -> None:
            with self.memory.session("talk", "other", user=user).turn(f"I love my {topic} {deed}.") as turn:
                turn.reply(f"What a {topic}!")
            self.memory.forget(query=topic, user=user, everywhere=True)

        self._do("forget said", "", call)

    def _sync_items(self) -> None:
        def sync() -> None:
            self.memory.notes.export_items(user=keeper(self.doer))
            self.memory.notes.import_items(user=keeper(self.doer))

        self._do_plain("items", sync)

    def _move(self) -> None:
        """What a user has becomes another's, who is then purged."""
        copy, user = f"copy-{self.doer.writer}-{self.doer.thread}", keeper(self.doer)
        place = self._folder / f"export-{self.doer.writer}-{self.doer.thread}"

        def call(_: str) -> None:
            shutil.rmtree(place, ignore_errors=True)
            done = self.memory.transfer.export(place, user)
            self.memory.transfer.import_(place, user=copy)
            had, has = (len(self.memory.documents.list(user=each)) for each in (user, copy))
            self.memory.privacy.purge_user(copy)
            shutil.rmtree(place)
            self.memory.transfer.archive(io.BytesIO(), user)
            if had != has or not done.bytes:
                raise AssertionError(f"{had} documents were exported, and {has} imported")

        self._do("move", "", call)

    def _back_up(self) -> None:
        path = self._folder / f"backup-{self.doer.writer}-{self.doer.thread}.db"

        def call(_: str) -> None:
            path.unlink(missing_ok=True)
            self.memory.admin.backup(path)
            with closing(sqlite3.connect(path)) as copy:
                [(said,)] = copy.execute("PRAGMA quick_check")
            path.unlink()
            if said != "ok":
                raise AssertionError(f"the backup is damaged: {said}")

        self._do("backup", "", call)

    def _examine(self) -> None:
        found = [each for each in self.memory.admin.doctor() if not each.ok]
        if found:
            raise AssertionError(f"doctor found {found[:3]}")
