from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from limpet import AsyncLimpet, Config, Limpet, Message
from limpet.config import AsyncSettings
from limpet.errors import InvalidInput, SessionNotFound, StoreCorrupt, StoreUnavailable
from tests.contract.rows import faults


def left_over() -> list[threading.Thread]:
    """Threads of ours that are still there when they had time to end."""
    deadline = time.monotonic() + 60
    while found := [thread for thread in threading.enumerate() if thread.name.startswith("limpet")]:
        if time.monotonic() > deadline:
            return found
        time.sleep(0.01)
    return []


UNKNOWN = "01890000-0000-7000-8000-000000000000"


def test_async_limpet_matches_sync_behavior(store_url: str, tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url) as memory:
            session = await memory.session("t", "1", user="alice")
            await session.append("user", "the walrus sings")
            assert [message.text for message in await session.messages()] == ["the walrus sings"]
            assert await session.count() == 1
            await session.kv.set("k", 1)
            assert await session.kv.items() == {"k": 1}
            await session.set_working_memory("busy")
            assert await session.working_memory == "busy"
            await memory.remember("a walrus fact", user="alice", key="k")
            assert len(await memory.recall("walrus", user="alice")) == 2
            assert (session.user, session.key, session.state) == ("alice", "t:1", "ACTIVE")
            fresh = await session.new()
            assert fresh.id != session.id
            assert session.state == "TERMINATED"
            assert (await memory.load_session(fresh.id)).id == fresh.id
            assert (await memory.tenant("other").sessions()) == []
            with pytest.raises(SessionNotFound):
                await memory.load_session(UNKNOWN)
            with pytest.raises(InvalidInput):
                await session.append("nobody", "x")
            await memory.admin.backup(tmp_path / "backup.db")
            assert all(finding.ok for finding in await memory.admin.doctor())

    asyncio.run(use())


def test_async_append_keeps_sequence_across_many_tasks(store_url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url) as memory:
            session = await memory.session("t", "1", user="alice")
            stored = await asyncio.gather(*(session.append("user", f"number {at}") for at in range(100)))
            assert sorted(message.sequence for message in stored) == list(range(1, 101))
            assert len(await session.messages()) == 100

    asyncio.run(use())


def test_async_append_completes_when_task_is_cancelled(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("t", "1")
            for at in range(20):
                task = asyncio.create_task(session.append("user", f"number {at}"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        with Limpet.open(tmp_path) as again:
            assert again.session("t", "1").count() == 20
            assert faults(again) == []

    asyncio.run(use())


def test_async_close_waits_for_pending_calls_and_is_idempotent(tmp_path: Path) -> None:
    async def use() -> None:
        memory = await AsyncLimpet.open(tmp_path)
        session = await memory.session("t", "1")
        tasks = [asyncio.create_task(session.append("user", f"number {at}")) for at in range(50)]
        await asyncio.sleep(0)
        await memory.close()
        await memory.close()
        assert sorted(message.sequence for message in await asyncio.gather(*tasks)) == list(range(1, 51))
        with pytest.raises(StoreUnavailable):
            await session.append("user", "too late")

    asyncio.run(use())
    assert left_over() == []


def test_async_calls_do_not_block_event_loop(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(tmp_path) as memory:
            session = await memory.session("t", "1")
            begun, held = threading.Event(), threading.Event()
            store = memory._sync._runtime.store

            def hold(_: object) -> None:
                begun.set()
                assert held.wait(60)

            waiting = asyncio.get_running_loop().run_in_executor(None, store.write, hold)
            while not begun.is_set():  # noqa: ASYNC110 - it is set on another thread
                await asyncio.sleep(0.001)
            append = asyncio.create_task(session.append("user", "waits for the writer"))
            for _ in range(100):  # were the loop held up, it would come no further before the writer gives up
                await asyncio.sleep(0.001)
            assert not append.done()
            held.set()
            await asyncio.gather(waiting, append)

    asyncio.run(use())


def test_async_limpet_works_with_one_thread(store_url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url, config=Config(aio=AsyncSettings(threads=1))) as memory:
            session = await memory.session("t", "1")
            await asyncio.gather(*(session.extend([Message.new("user", "x")] * 2) for _ in range(10)))
            assert await session.count() == 20

    asyncio.run(use())


def test_async_open_failure_leaves_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("this is no database at all, but long enough to be read as one" * 100)

    async def use() -> None:
        await AsyncLimpet.open(path)

    with pytest.raises(StoreCorrupt):
        asyncio.run(use())
    assert left_over() == []
