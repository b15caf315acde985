"""Ctrl-C in any thread of a group: everybody else's writes are stored, and once."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any

import pytest

from limpet.store import writer as writer_module
from limpet.store.writer import Writer
from tests.interrupts import Alarm, interrupt_at
from tests.unit.store.test_writer import PATIENCE, Crowd, Memory, adding, crowd, failing, memory, outcome, writer

__all__ = ["crowd", "memory", "writer"]  # fixtures


# Interrupts


def test_interrupt_of_group_leader_keeps_other_writes(memory: Memory, crowd: Crowd) -> None:
    runs = [0, 0, 0]

    def counted(number: int, error: BaseException | None = None) -> Callable[[Any], Any]:
        def work(tx: Any) -> Any:
            runs[number] += 1
            tx.append(number)
            if error is not None:
                raise error
            return number

        return work

    futures = crowd.queued([counted(0), counted(1, KeyboardInterrupt()), counted(2)])
    interrupted, second, third = (outcome(future) for future in futures)
    # The leader ran the work that was interrupted: it is told, and its own work did not happen behind its back.
    assert isinstance(interrupted, KeyboardInterrupt)
    assert isinstance(second, KeyboardInterrupt)
    assert third == 2
    assert memory.stored == [2]
    assert runs[2] == 1


def test_interrupt_inside_group_reruns_and_stores_other_writes_once(memory: Memory, crowd: Crowd) -> None:
    interrupts = iter([KeyboardInterrupt()])

    def once(tx: Any) -> str:
        tx.append("second")
        for interrupt in interrupts:
            raise interrupt
        return "second"

    futures = crowd.queued([adding("first"), once, adding("third")])
    assert isinstance(outcome(futures[0]), KeyboardInterrupt)
    assert [outcome(future) for future in futures[1:]] == ["second", "third"]
    assert memory.stored == ["second", "third"]


@pytest.mark.parametrize("happened", [True, False])
def test_interrupt_during_commit_stores_nothing_twice(memory: Memory, crowd: Crowd, happened: bool) -> None:
    interrupts = iter([KeyboardInterrupt()])

    def interrupt() -> None:
        if memory.tx or memory.stored:
            for error in interrupts:
                raise error

    with crowd.held():
        futures = []
        for number in range(3):
            futures.append(crowd.call(adding(number)))
            crowd.wait_for(number + 1)
        if happened:
            memory.after_commit = interrupt
        else:
            memory.before_commit = interrupt
    assert isinstance(outcome(futures[0]), KeyboardInterrupt)
    assert [outcome(future) for future in futures[1:]] == [1, 2]
    assert memory.stored == ([0, 1, 2] if happened else [1, 2])


def test_writer_works_after_interrupts(memory: Memory, writer: Writer) -> None:
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            writer.write(failing("x", KeyboardInterrupt()))
        assert not memory.is_open
    assert writer.write(adding(1)) == 1
    assert memory.stored == [1]


def test_interrupt_during_rollback_leaves_writer_usable(memory: Memory, writer: Writer) -> None:
    """Somebody pressed Ctrl-C twice."""
    rollback, interrupts = memory.rollback, iter([KeyboardInterrupt()])

    def interrupted() -> None:
        for error in interrupts:
            raise error
        rollback()

    memory.rollback = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        writer.write(failing("x", KeyboardInterrupt()))
    assert writer.write(adding(1)) == 1
    assert memory.stored == [1]


def test_interrupted_waiting_caller_writes_nothing(memory: Memory, crowd: Crowd, writer: Writer) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")

    def ring(number: int, frame: FrameType | None) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with crowd.held():
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Alarm):
                writer.write(adding("interrupted"))
            after = crowd.call(adding("after"))
            crowd.wait_for(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert outcome(after) == "after"
    assert memory.stored == ["after"]


def test_leader_interrupted_anywhere_blocks_nobody_and_repeats_nothing() -> None:
    """Ctrl-C reaches the main thread anywhere, also between taking the others' work and running it."""
    wrong: list[str] = []
    for number in itertools.count(1):
        memory = Memory()
        crowd = Crowd(Writer(memory, 256))
        leader, others = _interrupted_leader(crowd, number)
        if leader is None:
            break
        if problem := _left_by(memory, crowd, others, leader):
            wrong.append(f"{leader}: {problem}")
        crowd.pool.shutdown(wait=not problem)
    assert number > 25
    assert wrong == []


def _interrupted_leader(crowd: Crowd, number: int) -> tuple[Any, list[Future[Any]]]:
    """What became of a leader interrupted at the n-th place, and the callers who waited behind it."""
    released = threading.Event()
    holder = crowd.pool.submit(crowd.writer.run_exclusive, lambda: released.wait(PATIENCE))
    leader = crowd.pool.submit(
        interrupt_at, number, lambda: crowd.writer.write(adding("leader")), str(writer_module.__file__)
    )
    crowd.wait_for_leader_or(leader)
    others = [crowd.call(adding(at)) for at in range(2)]
    crowd.wait_for_calls(2 if leader.done() else 3)
    released.set()
    holder.result(PATIENCE)
    return leader.result(PATIENCE), others


def _left_by(memory: Memory, crowd: Crowd, others: list[Future[Any]], answer: Any) -> str:
    _, waiting = wait(others, 0.5)
    if waiting:
        return f"{len(waiting)} callers wait for ever"
    if [outcome(future) for future in others] != [0, 1]:
        return f"others were answered {[outcome(future) for future in others]}"
    closing = crowd.pool.submit(crowd.writer.close)
    if not wait([closing], 0.5).done:
        return "close() waits for ever"
    counts = [memory.stored.count(value) for value in (0, 1, "leader")]
    if counts[:2] != [1, 1] or counts[2] > 1 or (answer == "leader" and counts[2] != 1):
        return f"stored {memory.stored}"
    return ""
