"""Tasks that are cancelled, loops that end, and handles that open and close in between."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from limpet import AsyncLimpet, AsyncSession, Limpet, Message
from limpet.errors import SequenceConflict, StoreCorrupt, StoreUnavailable
from tests.unit.api.test_async_limpet import TASKS, no_thread_stays, run


async def cancel_at_random(calls: list[Callable[[], Coroutine[Any, Any, Any]]], chance: random.Random) -> list[Any]:
    """Start all the calls and cancel each at a random moment, or never. Answers what became of them."""
    tasks = []
    for call in calls:
        tasks.append(asyncio.create_task(call()))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        if chance.random() < 0.6:
            asyncio.get_running_loop().call_later(chance.expovariate(1 / 0.01), tasks[-1].cancel)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def all_handed_over(session: AsyncSession) -> None:
    """Cancelled calls are still carried out: wait until no more of them arrive."""
    before, quiet = -1, 0
    while quiet < 3:
        await asyncio.sleep(0.05)
        now = await session.count()
        before, quiet = now, quiet + 1 if now == before else 0


def faults(memory: Limpet) -> list[Any]:
    return [finding for finding in memory.admin.doctor() if not finding.ok]


# Cancellation


def test_async_append_cancelled_and_repeated_with_key_is_stored_once(store_url: str) -> None:
    async def use() -> None:
        chance = random.Random()
        async with AsyncLimpet.open(store_url) as memory:
            session = await memory.session("a", "b", user="u")

            def append(number: int) -> Callable[[], Coroutine[Any, Any, Message]]:
                return lambda: session.append("user", f"number {number}", idempotency_key=f"key {number}")

            calls = [append(number) for number in range(TASKS)]
            first = await cancel_at_random(calls, chance)
            assert any(isinstance(answer, asyncio.CancelledError) for answer in first)
            await cancel_at_random(calls, chance)
            last = await asyncio.gather(*(call() for call in calls))
            texts = Counter(message.text for message in await session.messages())
            assert texts == Counter(f"number {number}" for number in range(TASKS))
            for before, after in zip(first, last, strict=True):
                assert isinstance(before, asyncio.CancelledError) or before == after
            assert await session.count() == TASKS
            assert [finding for finding in await memory.admin.doctor() if not finding.ok] == []

    run(use())


def test_async_extend_cancelled_is_stored_completely_or_not_at_all(store_url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url) as memory:
            session = await memory.session("a", "b", user="u")

            def extend(number: int) -> Callable[[], Coroutine[Any, Any, list[Message]]]:
                return lambda: session.extend(
                    [Message.new("user", f"{number} first"), Message.new("user", f"{number} last")]
                )

            answers = await cancel_at_random([extend(number) for number in range(TASKS)], random.Random())
            await all_handed_over(session)
            stored = await session.messages()
            texts = Counter(message.text for message in stored)
            assert set(texts.values()) <= {1}
            for number, answer in enumerate(answers):
                there = [f"{number} {which}" in texts for which in ("first", "last")]
                assert there in ([True, True], [False, False])
                assert isinstance(answer, asyncio.CancelledError) or all(there)
            assert [message.sequence for message in stored] == list(range(1, len(stored) + 1))
            assert [finding for finding in await memory.admin.doctor() if not finding.ok] == []

    run(use())


def test_async_error_after_cancellation_is_not_reported(tmp_path: Path) -> None:
    """Nobody waits for the answer any more: asyncio must not report it as never retrieved."""

    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("a", "b")
            await session.append("user", "first", sequence=5)
            with held(memory) as release:
                task = asyncio.create_task(session.append("user", "refused", sequence=3))
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                release.set()
            del task
            with pytest.raises(SequenceConflict):
                await session.append("user", "refused", sequence=3)
            gc.collect()
            assert await session.count() == 1

    run(use())


class held:  # noqa: N801 - reads as a verb
    """The store's writer, kept busy by somebody else until released."""

    def __init__(self, memory: AsyncLimpet) -> None:
        self._store = memory._sync._runtime.store
        self._release, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        def work(_: object) -> None:
            self._begun.set()
            self._release.wait(60)

        self._store.write(work)

    def __enter__(self) -> threading.Event:
        self._thread.start()
        assert self._begun.wait(60)
        return self._release

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._thread.join()


def test_async_call_completes_after_timeout(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("a", "b")
            with held(memory), pytest.raises(TimeoutError):
                await asyncio.wait_for(session.append("user", "slow", idempotency_key="slow"), 0.05)
            again = await session.append("user", "slow", idempotency_key="slow")
            assert again.sequence == 1
            assert await session.count() == 1

    run(use())


def test_async_calls_do_not_block_event_loop(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("a", "b")
            with held(memory) as release:
                append = asyncio.create_task(session.append("user", "waits for the writer"))
                for _ in range(100):  # were the loop held up, it would come no further before the writer gives up
                    await asyncio.sleep(0.001)
                assert not append.done()
                release.set()
                await append

    run(use())


# Opening and closing


def test_async_close_completes_pending_calls(store_url: str) -> None:
    async def use() -> None:
        memory = await AsyncLimpet.open(store_url)
        session = await memory.session("a", "b", user="u")
        tasks = [asyncio.create_task(session.append("user", f"number {number}")) for number in range(TASKS)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await memory.close()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, Message) for answer in answers[1::2])
        with pytest.raises(StoreUnavailable):
            await session.append("user", "too late")
        await memory.close()

    run(use())
    if store_url != ":memory:":
        with Limpet.open(store_url) as again:
            texts = [message.text for message in again.session("a", "b", user="u").messages()]
            assert sorted(texts) == sorted(f"number {number}" for number in range(TASKS))
            assert faults(again) == []


def test_async_close_cancelled_still_closes(tmp_path: Path) -> None:
    async def use() -> None:
        memory = await AsyncLimpet.open(tmp_path)
        session = await memory.session("a", "b")
        with held(memory):
            append = asyncio.create_task(session.append("user", "under way"))
            await asyncio.sleep(0.02)
            closing = asyncio.create_task(memory.close())
            await asyncio.sleep(0.02)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        assert (await append).sequence == 1
        await memory.close()
        with pytest.raises(StoreUnavailable):
            await session.count()

    run(use())
    no_thread_stays()


def test_async_open_cancelled_does_not_block_and_closes_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()
    closed = threading.Event()
    close = Limpet.close

    def slow_clock() -> datetime:
        """The first call comes from the migration: the opening stands still there, for two minutes at most."""
        entered.set()
        release.wait(120)
        return datetime(2026, 3, 10, tzinfo=UTC)

    def watched_close(self: Limpet) -> None:
        close(self)
        closed.set()

    monkeypatch.setattr(Limpet, "close", watched_close)

    async def use() -> None:
        opening = asyncio.ensure_future(AsyncLimpet.open(tmp_path, clock=slow_clock))
        while not entered.is_set():  # noqa: ASYNC110 - it is set on another thread
            await asyncio.sleep(0.005)
        begun = time.monotonic()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert time.monotonic() - begun < 60, "the loop stood still until the store was open"
        release.set()

    run(use())
    assert closed.wait(60), "the store that was opened for nobody is still open"
    no_thread_stays()


def test_async_limpet_works_in_two_consecutive_event_loops(tmp_path: Path) -> None:
    """A script that calls asyncio.run twice, each time with a store of its own."""

    async def use(number: int) -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("a", "b")
            await session.append("user", f"number {number}")
            assert await session.count() == number

    run(use(1))
    run(use(2))


def test_async_working_memory_is_read_when_awaited(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("a", "b")
            waiting: Awaitable[str] = session.working_memory
            await session.set_working_memory("new")
            assert await waiting == "new"

    run(use())


def test_async_open_failure_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("this is no database at all, but long enough to be read as one" * 100)

    async def use() -> None:
        await AsyncLimpet.open(path)

    with pytest.raises(StoreCorrupt):
        run(use())
    no_thread_stays()
