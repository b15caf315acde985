"""A process that writes to a store from several threads until it is killed, and notes every call before and after."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from limpet import Config, Limpet, Session
from limpet.cli.serve import StopEvent
from limpet.documents import add as document_slices
from limpet.errors import LimpetError, NotFound, RecordNotFound, StoreUnavailable
from limpet.search import chunk_repository
from tests.crash import writes
from tests.crash.writes import Doer, Notes

USERS = ("u0", "u1")
KEYS = ("color", "size", "place")
PAPERS = ("letter", "report")
SLICE = 8  # chunks that one transaction writes or removes: so few that a small document takes several
PAUSE = 0.02


def notebook(folder: Path, writer: int, life: int) -> Path:
    return folder / f"writer-{writer}-{life}.jsonl"


def user_of(doer: Doer) -> str:
    return USERS[(doer.writer + doer.thread) % len(USERS)]


def record_key(doer: Doer) -> str:
    return f"note_{doer.writer}_{doer.thread}"


def keeper(doer: Doer) -> str:
    """A user of this thread alone, who has documents, notes, and sessions that are deleted."""
    return f"keeper-{doer.writer}-{doer.thread}"


def leaver(doer: Doer) -> str:
    """A user of this thread alone, who is purged now and then."""
    return f"leaver-{doer.writer}-{doer.thread}"


def run(store: str, folder: str, writer: int, life: int, threads: int, seed: int, pace: float) -> None:
    """Write until SIGTERM, then close the store in order. SIGKILL is what this process is for."""
    stop = StopEvent()
    signal.signal(signal.SIGTERM, stop.set)
    document_slices._MAX_SLICE = chunk_repository._MAX_DROPPED = SLICE
    notes = Notes(notebook(Path(folder), writer, life))
    unfinished = _unfinished(Path(folder), writer, life)
    memory = _open(store)
    hands = [
        Hand(memory, notes, Doer(writer, number), life, Random(f"{seed}/{writer}/{number}/{life}"), pace, stop)
        for number in range(threads)
    ]
    running = [threading.Thread(target=hand.work, args=(unfinished,)) for hand in hands]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    memory.close()


def _open(store: str) -> Limpet:
    """PostgreSQL may be starting again just now."""
    while True:
        try:
            return Limpet.open(store, config=Config.load(overrides={"embedding.model": "none"}))
        except StoreUnavailable:
            time.sleep(PAUSE)


def _unfinished(folder: Path, writer: int, life: int) -> dict[Doer, writes.Deed]:
    """Each thread's append with an idempotency key that the last life was killed in: a client would repeat it."""
    found = writes.read_notes(notebook(folder, writer, life - 1))
    return {writes.doer_of(deed.name): deed for deed in found.values() if deed.kind == "append once" and not deed.done}


class Hand:
    """One thread. What it alone touches (a session, a key, a record) has one certain order of deeds."""

    def __init__(
        self, memory: Limpet, notes: Notes, doer: Doer, life: int, chance: Random, pace: float, stop: StopEvent
    ) -> None:
        self.memory, self.notes, self.doer, self.life = memory, notes, doer, life
        self.chance, self.pace, self.stop = chance, pace, stop
        self.user = user_of(doer)
        self.number = 0
        self.records: dict[str, str] = {}  # the deed that made it -> its id
        self.last_seen: tuple[str, str] | None = None  # an acknowledged message and its user

    def work(self, unfinished: dict[Doer, writes.Deed]) -> None:
        self._reach(self._take_seats)
        if self.doer in unfinished:
            self._repeat(unfinished[self.doer])
        kinds = dict(self._kinds())
        names, weights = list(kinds), [weight for weight, _ in kinds.values()]
        while not self.stop.is_set():
            kind = self.chance.choices(names, weights)[0]
            kinds[kind][1]()
            time.sleep(self.chance.expovariate(1 / self.pace) if self.pace else 0)

    def _kinds(self) -> Iterator[tuple[str, tuple[float, Callable[[], None]]]]:
        """Each kind of deed with how often it is done."""
        yield "append", (24, lambda: self._append("append", self.chance.choice(self.shared)))
        yield "append once", (16, lambda: self._append("append once", self.chance.choice(self.shared)))
        yield "extend", (10, self._extend)
        yield "append to own", (8, lambda: self._append("append", self.own))
        yield "rotate", (2, self._rotate)
        yield "append to scratch", (10, lambda: self._append("scratch", self.scratch))
        yield "clear", (2, self._clear)
        yield "kv set", (8, lambda: self._kv("kv set"))
        yield "kv delete", (3, lambda: self._kv("kv delete"))
        yield "remember", (6, self._remember)
        yield "update", (6, self._update)
        yield "forget", (3, self._forget)
        yield "remember key", (6, self._remember_key)
        yield "forget key", (2, self._forget_key)
        yield "recall", (4, self._recall)
        yield "document add", (4, self._add_document)
        yield "document remove", (1, self._remove_document)
        yield "note append", (3, lambda: self._note("note append"))
        yield "note write", (1, lambda: self._note("note write"))
        yield "append to doomed", (6, lambda: self._append("doomed", self.doomed))
        yield "delete session", (1, self._delete_session)
        yield "append to leaver", (6, self._append_as_leaver)
        yield "purge", (1, self._purge)

    def _take_seats(self) -> None:
        """Two sessions everybody writes to, one of this thread's own that is rotated, and one that is cleared."""
        self.shared = [self.memory.session("shared", user, user=user) for user in USERS]
        seat = f"{self.doer.writer}-{self.doer.thread}"
        self.own = self.memory.session("own", seat, user=self.user)
        self.scratch = self.memory.session("scratch", seat, user=self.user)
        self.doomed = self.memory.session("doomed", seat, user=keeper(self.doer))

    def _reach(self, action: Callable[[], None]) -> None:
        while not self.stop.is_set():
            try:
                return action()
            except StoreUnavailable:
                time.sleep(PAUSE)
        return None

    def _do(self, kind: str, target: str, call: Callable[[str], Any], size: int = 1) -> bool:
        """Note, call, note. A call that fails is left unanswered, and the thread goes on."""
        self.number += 1
        deed = writes.name(self.doer, self.life, self.number)
        self.notes.begin(deed, kind, target, size)
        return self._answer(deed, call)

    def _answer(self, deed: str, call: Callable[[str], Any]) -> bool:
        try:
            result = call(deed)
        except LimpetError as error:
            self.notes.fail(deed, error)
            if isinstance(error, StoreUnavailable):
                time.sleep(PAUSE)
            return False
        except Exception as error:
            self.notes.fail(deed, error)
            raise
        self.notes.done(deed, result)
        return True

    def _append(self, kind: str, session: Session) -> None:
        once = kind == "append once"

        def call(deed: str) -> list[int]:
            stored = session.extend([writes.message(f"{deed}i0", once=once)])
            self._remember_seeing(f"{deed}i0", session)
            return [message.sequence for message in stored]

        self._do(kind, session.id, call)

    def _remember_seeing(self, marker: str, session: Session) -> None:
        if session in self.shared:
            self.last_seen = marker, session.user

    def _repeat(self, deed: writes.Deed) -> None:
        session = next(session for session in self.shared if session.id == deed.target)

        def call(name: str) -> list[int]:
            return [message.sequence for message in session.extend([writes.message(f"{name}i0", once=True)])]

        self.notes.begin(deed.name, deed.kind, deed.target, deed.size)
        while not self.stop.is_set() and not self._answer(deed.name, call):
            pass

    def _extend(self) -> None:
        session, size = self.chance.choice([*self.shared, self.own]), self.chance.randint(2, 5)

        def call(deed: str) -> list[int]:
            stored = session.extend([writes.message(f"{deed}i{at}") for at in range(size)])
            return [message.sequence for message in stored]

        self._do("extend", session.id, call, size)

    def _rotate(self) -> None:
        def call(_: str) -> str:
            self.own = self.own.new()
            return self.own.id

        if not self._do("rotate", self.own.id, call):
            # Whether it happened or not, this is the one that is live.
            seat = f"{self.doer.writer}-{self.doer.thread}"
            self._reach(lambda: setattr(self, "own", self.memory.session("own", seat, user=self.user)))

    def _clear(self) -> None:
        self._do("clear", self.scratch.id, lambda _: self.scratch.clear())

    def _kv(self, kind: str) -> None:
        key = self.chance.choice(KEYS)
        change: Callable[[str], Any] = lambda deed: self.own.kv.set(key, [deed, writes.text(deed)])  # noqa: E731
        if kind == "kv delete":
            change = lambda _: self.own.kv.delete(key)  # noqa: E731
        self._do(kind, f"{self.own.id}/{key}", change)

    def _remember(self) -> None:
        def call(deed: str) -> str:
            labels: dict[str, Any] = {"tags": ["torture"], "metadata": {"deed.made": deed}}
            self.records[deed] = self.memory.remember(writes.text(deed), user=self.user, **labels).id
            return self.records[deed]

        self._do("remember", "", call)

    def _update(self) -> None:
        if self.records:
            made, id = self.chance.choice(list(self.records.items()))
            self._do("update", made, lambda deed: self.memory.records.update(id, content=writes.text(deed)).version)

    def _forget(self) -> None:
        if self.records:
            made, id = self.chance.choice(list(self.records.items()))
            del self.records[made]
            self._do("forget", made, lambda _: list(self.memory.forget(id).ids))

    def _remember_key(self) -> None:
        key = record_key(self.doer)
        self._do("remember key", key, lambda deed: self.memory.remember(writes.text(deed), user=self.user, key=key).id)

    def _forget_key(self) -> None:
        key = record_key(self.doer)

        def call(_: str) -> list[str]:
            try:
                return list(self.memory.forget(key=key, user=self.user).ids)
            except RecordNotFound:
                return []

        self._do("forget key", key, call)

    def _recall(self) -> None:
        """What was acknowledged is found at once."""
        if self.last_seen is None:
            return
        marker, user = self.last_seen

        def call(_: str) -> None:
            if not any(marker in hit.text for hit in self.memory.recall(marker, user=user, k=3)):
                raise AssertionError(f"{marker} was acknowledged and is not found")

        self._do("recall", marker, call)

    def _add_document(self) -> None:
        """A second one under the same name replaces the first."""
        uri = f"paper://{keeper(self.doer)}/{self.chance.choice(PAPERS)}"

        def call(deed: str) -> None:
            self.memory.documents.add(uri, writes.document(deed), user=keeper(self.doer))

        self._do("document add", uri, call)

    def _remove_document(self) -> None:
        uri = f"paper://{keeper(self.doer)}/{self.chance.choice(PAPERS)}"

        def call(_: str) -> None:
            with suppress(NotFound):
                self.memory.documents.remove(uri, user=keeper(self.doer))

        self._do("document remove", uri, call)

    def _note(self, kind: str) -> None:
        """A line more in MEMORY.md, or all of it new."""

        def call(deed: str) -> None:
            page = self.memory.notes.long_term(user=keeper(self.doer))
            if kind == "note append":
                page.append(f"- {deed}")
            else:
                page.write(f"- {deed}\n", version="*")

        self._do(kind, keeper(self.doer), call)

    def _delete_session(self) -> None:
        """Whether it was gone or is, the next one takes its place."""
        seat = f"{self.doer.writer}-{self.doer.thread}"
        self._do("delete session", self.doomed.id, lambda _: self.doomed.delete() and None)
        self._reach(lambda: setattr(self, "doomed", self.memory.session("doomed", seat, user=keeper(self.doer))))

    def _append_as_leaver(self) -> None:
        user = leaver(self.doer)

        def call(deed: str) -> None:
            self.memory.session("leaver", "main", user=user).extend([writes.message(f"{deed}i0")])

        self._do("leave", user, call)

    def _purge(self) -> None:
        self._do("purge", leaver(self.doer), lambda _: self.memory.privacy.purge_user(leaver(self.doer)) and None)
