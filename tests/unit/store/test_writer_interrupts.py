"""An interrupt between any two steps of passing the lead on leaves no writer waiting, nor does a second one."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from limpet import Limpet
from limpet.store import writer as writer_module
from limpet.store.writer import Writer, WriteRequest
from tests.interrupts import Alarm, interrupt_at
from tests.unit.store.test_writer import Memory, adding

PATIENCE = 60.0
ENTRY = 0  # the interrupt comes before the first step
LEAST_STEPS = 15  # to go through: one that does not come first has fewer, whichever it is
WRITER = str(writer_module.__file__)


class InterruptedAgain(Writer):
    """While it handles an interrupt, a second one comes: at a place of ``_cancel``, and before ``_recover``."""

    def __init__(self, memory: Memory, place: int, *, in_recover: bool = False) -> None:
        super().__init__(memory, 256)
        self.place, self.in_recover = place, in_recover
        self.interrupts = 0

    def _cancel(self, ticket: WriteRequest[Any]) -> None:
        found = (
            interrupt_at(self.place, lambda: super(InterruptedAgain, self)._cancel(ticket), WRITER)
            if self.place
            else Alarm()
        )
        if isinstance(found, Alarm):
            self.interrupts += 1
            raise found

    def _recover(self) -> None:
        if self.in_recover and isinstance(sys.exc_info()[1], Alarm):
            raise Alarm
        super()._recover()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    made = ThreadPoolExecutor(4)
    yield made
    made.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(autouse=True)
def no_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_LEADER_TIMEOUT_S", 0.02, raising=False)


def interrupt_leader(writer: Writer, number: int, pool: ThreadPoolExecutor) -> tuple[Any, list[Future[Any]]]:
    """What a leader is answered that is interrupted at the n-th place, and those who queued behind it."""
    with writer._turn:
        leader = pool.submit(interrupt_at, number, lambda: writer.write(adding("leader")), WRITER)
        while not leader.done() and not writer._queue:  # nobody else is to come first
            wait([leader], 0.005)
        others = [pool.submit(writer.write, adding(at)) for at in range(2)]
        wait(others, 0.005)
    return leader.result(PATIENCE), others


def find_problem(memory: Memory, answer: Any, others: list[Future[Any]]) -> str:
    _, waiting = wait(others, 2)
    if waiting:
        return f"{len(waiting)} callers wait for ever"
    if [future.result() for future in others] != [0, 1]:
        return f"others were answered {[future.result() for future in others]}"
    counts = [memory.stored.count(value) for value in (0, 1, "leader")]
    if counts[:2] != [1, 1] or counts[2] > 1 or (answer == "leader" and counts[2] != 1):
        return f"stored {memory.stored}"
    return ""


@pytest.mark.parametrize("in_recover", [False, True])
def test_leader_interrupted_anywhere_and_then_again_blocks_nobody(in_recover: bool) -> None:
    wrong: list[str] = []
    interrupts = 0
    for number in itertools.count(1):
        memory, pool = Memory(), ThreadPoolExecutor(3)
        writer = InterruptedAgain(memory, ENTRY, in_recover=in_recover)
        answer, others = interrupt_leader(writer, number, pool)
        if answer is None and number > LEAST_STEPS:
            break
        interrupts += isinstance(answer, Alarm)
        problem = find_problem(memory, answer, others)
        wrong += [f"{answer}: {problem}"] if problem else []
        pool.shutdown(wait=not problem, cancel_futures=True)
        assert len(wrong) < 3, wrong
    assert interrupts
    assert wrong == []


def test_second_interrupt_anywhere_in_cancel_blocks_nobody() -> None:
    wrong: list[str] = []
    interrupts = 0
    for place in itertools.count(1):
        memory, pool = Memory(), ThreadPoolExecutor(3)
        writer = InterruptedAgain(memory, place)
        memory.before_begin = raise_once(traced=True)
        answer, others = interrupt_leader(writer, sys.maxsize, pool)
        if not writer.interrupts and place > LEAST_STEPS:
            break
        interrupts += writer.interrupts
        problem = find_problem(memory, answer, others)
        wrong += [f"{answer}: {problem}"] if problem else []
        pool.shutdown(wait=not problem, cancel_futures=True)
        assert len(wrong) < 3, wrong
    assert interrupts
    assert wrong == []


def raise_once(*, traced: bool = False) -> Any:
    """With ``traced``, only in the caller that ``interrupt_at`` runs: another one may take the lead."""
    interrupts = iter([Alarm("begin")])

    def interrupt() -> None:
        if traced and sys.gettrace() is None:
            return
        for alarm in interrupts:
            raise alarm

    return interrupt


def test_thread_interrupted_twice_writes_again(pool: ThreadPoolExecutor) -> None:
    """Also one alone, which nobody can take the lead from."""
    for number in itertools.count(1):
        memory = Memory()
        writer = InterruptedAgain(memory, ENTRY, in_recover=True)

        def write_twice(writer: Writer = writer, number: int = number) -> tuple[Any, Any]:
            return interrupt_at(number, lambda: writer.write(adding("first")), WRITER), writer.write(adding("again"))

        first, again = pool.submit(write_twice).result(PATIENCE)
        assert again == "again", first
        assert memory.stored.count("again") == 1
        if first is None:
            break
        if first == "first":
            assert memory.stored == ["first", "again"]
    assert number > 15


def test_work_of_interrupted_caller_is_not_run_later(pool: ThreadPoolExecutor) -> None:
    """Though the interrupts came so close that it is queued still."""
    memory = Memory()
    writer = InterruptedAgain(memory, ENTRY)
    memory.before_begin = raise_once()
    with pytest.raises(Alarm):
        writer.write(adding("interrupted"))
    assert len(writer._queue) == 1
    assert pool.submit(writer.write, adding("after")).result(PATIENCE) == "after"
    assert memory.stored == ["after"]
    assert not writer._queue


def test_caller_beyond_the_group_it_leads_waits_for_its_own_work(pool: ThreadPoolExecutor) -> None:
    memory = Memory()
    writer = Writer(memory, 1)
    with writer._turn:
        futures = []
        for at in range(4):
            futures.append(pool.submit(writer.write, adding(at)))
            while len(writer._queue) <= at:
                threading.Event().wait(0.001)
        threading.Event().wait(0.1)  # each of them leads by now
    assert [future.result(PATIENCE) for future in futures] == [0, 1, 2, 3]
    assert sorted(memory.stored) == [0, 1, 2, 3]


def test_next_writer_is_woken_though_an_interrupt_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with Limpet.open(":memory:") as memory:
        writer: Any = memory._runtime.store._writer
        leader, follower = WriteRequest(lambda _: None), WriteRequest(lambda _: None)
        writer._enqueue(leader)
        writer._enqueue(follower)
        leader.done = True
        wake, calls = WriteRequest.wake, []

        def interrupted(self: WriteRequest[Any]) -> None:
            calls.append(self)
            if self is follower and calls.count(self) == 1:
                raise KeyboardInterrupt
            wake(self)

        monkeypatch.setattr(WriteRequest, "wake", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer._pass_leadership(leader)
        writer._cancel(leader)
        assert follower.leads
        woken = threading.Thread(target=follower.gate.acquire, kwargs={"timeout": 60})
        woken.start()
        woken.join(50)
        assert not woken.is_alive()
        writer._lead_group(follower)
        writer._pass_leadership(follower)
        assert memory.session(user="alice").append("user", "goes on").sequence == 1
