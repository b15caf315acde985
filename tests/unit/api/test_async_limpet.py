"""AsyncLimpet: the same calls on threads of its own, and no call lost or doubled by a cancelled task.

That both classes have the same names and arguments is tested in ``unit/api/test_async_parity.py``.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import re
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from limpet import AsyncLimpet, AsyncTurn, Config, Limpet, Message
from limpet.api import async_limpet
from limpet.api.async_pool import AsyncHandle
from limpet.config import AsyncSettings
from limpet.model.scope import Scope
from limpet.schedules.runner import RunHandlers, Runner

TASKS = 200


class Refusing(ThreadPoolExecutor):
    """The loop's default executor belongs to the program around us: whoever uses it fails."""

    def submit(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("the loop's default executor was used")


def run(main: Coroutine[Any, Any, None]) -> None:
    """Like asyncio.run, with a default executor that refuses, and an error for everything the loop complains of."""

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(Refusing())
        complaints: list[Any] = []
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        await main
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []

    asyncio.run(watched())


def no_thread_stays() -> None:
    """A thread that was told to end may need a moment."""
    for thread in threading.enumerate():
        if thread.name.startswith("limpet"):
            thread.join(60)
            assert not thread.is_alive()


# Every method


def test_async_methods_return_same_results_as_sync_ones(tmp_path: Path) -> None:
    """The same calls in the same order on two stores: the answers are equal but for the ids."""

    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "told.json").write_text('[{"id": "telegram:1", "messages": []}]')
        return tmp_path / name

    async def one(place: Path) -> dict[str, Any]:
        memory = await AsyncLimpet.open(place, clock=ticking())
        answers = {}
        for name, call in CALLS.items():
            answers[name] = _plain(await call(memory, await memory.session("a", "b", user="u"), place))
        await memory.close()
        return answers

    def other(place: Path) -> dict[str, Any]:
        with Limpet.open(place, clock=ticking()) as memory:
            waited = _Waited(memory)
            session = lambda: memory.session("a", "b", user="u")  # noqa: E731
            return {name: _plain(call(waited, _Waited(session()), place)) for name, call in CALLS.items()}

    async def compare() -> None:
        answers = await one(folder("async"))
        assert answers == await asyncio.to_thread(other, folder("sync"))

    asyncio.run(compare())


def ticking() -> Callable[[], datetime]:
    """A clock that moves on whenever it is looked at: what comes later is later."""
    seconds = itertools.count()
    return lambda: datetime(2026, 3, 10, tzinfo=UTC) + timedelta(seconds=next(seconds))


class _Waited:
    """A blocking object whose answers can be used where an awaited one's are."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return _Waited(found) if name in ("kv", "schedules", "access", "keys") else found


def _plain(answer: Any) -> str:
    """An answer without what differs between two stores: ids, and where they are."""
    text = repr(answer).replace("<Async", "<")
    return re.sub(r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f-]{27}|/\S*/a?sync\b|at 0x\w+", "…", text)


Call = Callable[[Any, Any, Path], Any]
CALLS: dict[str, Call] = {
    "AsyncLimpet.agent": lambda memory, s, place: memory.agent("other"),
    "AsyncLimpet.session": lambda memory, s, place: memory.session("x", "y", "z", user="u", metadata={"a": 1}),
    "AsyncSession.append": lambda memory, s, place: s.append("user", "hello world", idempotency_key="k"),
    "AsyncSession.extend": lambda memory, s, place: s.extend(
        [Message.new("assistant", "hi there"), Message.new("user", "bye")]
    ),
    "AsyncSession.recent": lambda memory, s, place: s.recent(2),
    "AsyncSession.messages": lambda memory, s, place: s.messages(after=1),
    "AsyncSession.count": lambda memory, s, place: s.count(),
    "AsyncSession.restore": lambda memory, s, place: s.restore(max_tokens=100),
    "AsyncSession.context": lambda memory, s, place: s.context("hello"),
    "AsyncSession.swap_summary": lambda memory, s, place: s.swap_summary("they met", 1, 0),
    "AsyncSession.set_summary": lambda memory, s, place: s.set_summary("they met again", 2),
    "AsyncSession.compact_if_due": lambda memory, s, place: s.compact_if_due(model_window=9000),
    "AsyncSession.learn": lambda memory, s, place: s.learn(),
    "AsyncSession.compact": lambda memory, s, place: s.compact(keep=1),
    "AsyncSession.summary": lambda memory, s, place: s.summary(),
    "AsyncSession.set_working_memory": lambda memory, s, place: s.set_working_memory("busy"),
    "AsyncSession.working_memory": lambda memory, s, place: s.working_memory,
    "AsyncKeyValues.set": lambda memory, s, place: s.kv.set("k", [1]),
    "AsyncKeyValues.get": lambda memory, s, place: s.kv.get("k"),
    "AsyncKeyValues.items": lambda memory, s, place: s.kv.items(),
    "AsyncKeyValues.delete": lambda memory, s, place: s.kv.delete("k"),
    "AsyncSession.transcript": lambda memory, s, place: s.transcript(2),
    "AsyncSession.export_transcript": lambda memory, s, place: s.export_transcript(),
    "AsyncSession.list_files": lambda memory, s, place: s.list_files(),
    "AsyncSession.add_usage": lambda memory, s, place: s.add_usage("m", input_tokens=3, cost=0.5),
    "AsyncSession.usage": lambda memory, s, place: s.usage(),
    "AsyncSession.update_metadata": lambda memory, s, place: s.update_metadata({"k": "v"}),
    "AsyncSession.expire_in": lambda memory, s, place: s.expire_in(None),
    "AsyncSession.pause": lambda memory, s, place: s.pause(),
    "AsyncSession.resume": lambda memory, s, place: s.resume(),
    "AsyncSession.refresh": lambda memory, s, place: s.refresh(),
    "AsyncLimpet.find_session": lambda memory, s, place: memory.find_session("a", "b", user="u"),
    "AsyncLimpet.load_session": lambda memory, s, place: memory.load_session(s.id, user="u"),
    "AsyncAdmin.usage": lambda memory, s, place: memory.admin.usage(user="u"),
    "AsyncTransfer.archive": lambda memory, s, place: memory.transfer.archive(BytesIO(), user="u"),
    "AsyncLimpet.sessions": lambda memory, s, place: memory.sessions(user="u"),
    "AsyncLimpet.remember": lambda memory, s, place: memory.remember(
        "hello dog", user="u", key="dog", id=RECORD, metadata={"a.b": "c"}
    ),
    "AsyncRecords.get": lambda memory, s, place: memory.records.get(RECORD),
    "AsyncRecords.__call__": lambda memory, s, place: memory.records(user="u"),
    "AsyncRecords.count": lambda memory, s, place: memory.records.count(user="u"),
    "AsyncRecords.search_metadata": lambda memory, s, place: memory.records.search_metadata("a.b", "c", user="u"),
    "AsyncRecords.update": lambda memory, s, place: memory.records.update(RECORD, content="hello cat"),
    "AsyncRecords.history": lambda memory, s, place: memory.records.history(RECORD),
    "AsyncLimpet.recall": lambda memory, s, place: memory.recall("hello", user="u"),
    "AsyncLimpet.context": lambda memory, s, place: memory.context("hello", user="u"),
    "AsyncLimpet.profile": lambda memory, s, place: memory.profile(user="u"),
    "AsyncRecords.promote": lambda memory, s, place: memory.records.promote(
        memory._sync.remember("an episode", user="u", layer="episodic").id
        if isinstance(memory, AsyncLimpet)
        else memory.remember("an episode", user="u", layer="episodic").id
    ),
    "AsyncRecords.revive": lambda memory, s, place: memory.records.revive(RECORD),
    "AsyncNotes.export_items": lambda memory, s, place: memory.notes.export_items(user="u"),
    "AsyncNotes.import_items": lambda memory, s, place: memory.notes.import_items(user="u"),
    "AsyncLimpet.forget": lambda memory, s, place: memory.forget(key="dog", user="u"),
    "AsyncSchedules.create": lambda memory, s, place: memory.schedules.create(
        "u", goal="water the plants", cadence="every: 1h"
    ),
    "AsyncSchedules.search": lambda memory, s, place: memory.schedules.search(user="u"),
    "AsyncSchedules.count": lambda memory, s, place: memory.schedules.count(user="u"),
    "AsyncSchedules.due": lambda memory, s, place: memory.schedules.due(),
    "AsyncSchedules.claim": lambda memory, s, place: memory.schedules.claim(),
    "AsyncSchedules.finish": lambda memory, s, place: memory.schedules.finish(_made(memory), _claimed(memory)),
    "AsyncSchedules.get": lambda memory, s, place: memory.schedules.get(_made(memory)),
    "AsyncSchedules.edit": lambda memory, s, place: memory.schedules.edit(_made(memory), goal="water the roses"),
    "AsyncSchedules.pause": lambda memory, s, place: memory.schedules.pause(_made(memory)),
    "AsyncSchedules.resume": lambda memory, s, place: memory.schedules.resume(_made(memory)),
    "AsyncSchedules.run": lambda memory, s, place: memory.schedules.run(lambda firing: "done"),
    "AsyncSchedules.runs": lambda memory, s, place: memory.schedules.runs(_made(memory)),
    "AsyncSchedules.run_output": lambda memory, s, place: memory.schedules.run_output(_ran(memory)),
    "AsyncSchedules.delete": lambda memory, s, place: memory.schedules.delete(_made(memory)),
    "AsyncJobs.run": lambda memory, s, place: memory.jobs.run(),
    "AsyncJobs.start_worker": lambda memory, s, place: memory.jobs.start_worker(),
    "AsyncJobs.list": lambda memory, s, place: memory.jobs.list(state="dead"),
    "AsyncJobs.retry": lambda memory, s, place: memory.jobs.retry(kind="embed"),
    "AsyncJobs.drop": lambda memory, s, place: memory.jobs.drop([1]),
    "AsyncDocuments.add": lambda memory, s, place: memory.documents.add("note:1", "hello document", user="u"),
    "AsyncDocuments.text": lambda memory, s, place: memory.documents.text("note:1", user="u"),
    "AsyncDocuments.list": lambda memory, s, place: memory.documents.list(user="u"),
    "AsyncGraph.__call__": lambda memory, s, place: memory.graph(user="u", fresh=True),
    "AsyncDocuments.remove": lambda memory, s, place: memory.documents.remove("note:1", user="u"),
    "AsyncTransfer.import_": lambda memory, s, place: memory.transfer.import_(place / "told.json"),
    "AsyncTransfer.import_file": lambda memory, s, place: memory.transfer.import_file(
        BytesIO((place / "told.json").read_bytes())
    ),
    "AsyncLongTerm.write": lambda memory, s, place: memory.notes.long_term(user="u").write("# Me"),
    "AsyncLongTerm.append": lambda memory, s, place: memory.notes.long_term(user="u").append("a dog"),
    "AsyncLongTerm.read": lambda memory, s, place: memory.notes.long_term(user="u").read(),
    "AsyncNotes.add_turn": lambda memory, s, place: memory.notes.add_turn("u", "hello", "hi"),
    "AsyncNotes.day": lambda memory, s, place: memory.notes.day(user="u"),
    "AsyncAdmin.file_sessions": lambda memory, s, place: memory.admin.file_sessions(),
    "AsyncAdmin.doctor": lambda memory, s, place: memory.admin.doctor(),
    "AsyncAdmin.owners": lambda memory, s, place: memory.admin.owners(),
    "AsyncAdmin.stats": lambda memory, s, place: memory.admin.stats(),
    "AsyncAdmin.observe": lambda memory, s, place: memory.admin.observe(lambda told: None),
    "AsyncAccess.grant": lambda memory, s, place: memory.access.grant("u", "read:global"),
    "AsyncAccess.grants": lambda memory, s, place: memory.access.grants(),
    "AsyncAccess.revoke": lambda memory, s, place: memory.access.revoke("u", "read:global"),
    "AsyncAccess.audit": lambda memory, s, place: memory.access.audit(operation="access.grant"),
    "AsyncKeys.allow_anonymous": lambda memory, s, place: memory.access.keys.allow_anonymous(),
    "AsyncKeys.create": lambda memory, s, place: memory.access.keys.create("ci", user="u", expires_in=60),
    "AsyncKeys.__call__": lambda memory, s, place: memory.access.keys(user="u"),
    "AsyncKeys.required": lambda memory, s, place: memory.access.keys.required(),
    "AsyncKeys.acting": lambda memory, s, place: memory.access.keys.acting(_secret(memory)),
    "AsyncKeys.revoke": lambda memory, s, place: memory.access.keys.revoke("ci"),
    "AsyncAdmin.backup": lambda memory, s, place: memory.admin.backup(place / "backup.db"),
    "AsyncAdmin.restore": lambda memory, s, place: memory.admin.restore(place / "backup.db", overwrite=True),
    "AsyncPrivacy.purge_session": lambda memory, s, place: memory.privacy.purge_session(s.id, dry_run=True),
    "AsyncPrivacy.purge_user": lambda memory, s, place: memory.privacy.purge_user("u", dry_run=True),
    "AsyncPrivacy.purge_older": lambda memory, s, place: memory.privacy.purge_older("u", 30, dry_run=True),
    "AsyncPrivacy.receipts": lambda memory, s, place: memory.privacy.receipts(),
    "AsyncPrivacy.retention": lambda memory, s, place: memory.privacy.retention(dry_run=True),
    "AsyncTransfer.export": lambda memory, s, place: memory.transfer.export(place / "export", user="u"),
    "AsyncSession.new": lambda memory, s, place: s.new(),
    "AsyncSession.clear": lambda memory, s, place: s.clear(),
    "AsyncSession.terminate": lambda memory, s, place: s.terminate(),
    "AsyncSession.delete": lambda memory, s, place: s.delete(),
}


def _blocking(memory: Any) -> Limpet:
    found: Limpet = memory._sync if isinstance(memory, AsyncLimpet) else memory._real
    return found


def _made(memory: Any) -> str:
    """The schedule that was made above."""
    return _blocking(memory).schedules.search(user="u")[0].id


def _ran(memory: Any) -> str:
    """A run of it."""
    _runner(memory, hours=4).run(RunHandlers(lambda firing: "done", None, lambda schedule: None), until_idle=True)
    return _blocking(memory).schedules.runs(_made(memory))[0].id


def _claimed(memory: Any) -> int:
    """The token of a claim of it."""
    [lease] = _runner(memory, hours=2).claim(Scope("default", user="u"), 1, None)
    return lease.token


def _runner(memory: Any, hours: int) -> Runner:
    """One for which it is later."""
    face = _blocking(memory)
    later = face._now() + timedelta(hours=hours)
    return Runner(face._runtime.store, lambda: later, face.config.schedules, face._runtime.new_id)


def _secret(memory: Any) -> str:
    return _blocking(memory).access.keys.create("another", user="u").secret


RECORD = "01890000-0000-7000-8000-000000000001"


def test_every_async_method_is_compared_with_sync_one() -> None:
    classes = [kind for kind in vars(async_limpet).values() if isinstance(kind, type)]
    kinds = {kind for kind in classes if issubclass(kind, AsyncHandle)} - {AsyncHandle, AsyncTurn}
    awaited = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, found in inspect.getmembers_static(kind)
        if not name.startswith("_") or name == "__call__"
        if inspect.iscoroutinefunction(getattr(kind, name)) or name == "working_memory"
    }
    assert awaited - {"AsyncLimpet.close", "AsyncAdmin.distribute"} == CALLS.keys()  # the second needs Citus


# Threads


def test_async_calls_run_on_own_bounded_thread_pool(tmp_path: Path) -> None:
    seen: set[str] = set()
    at_once, most = 0, 0
    lock = threading.Lock()

    def clock() -> datetime:
        """Called by every write, on the thread that does it."""
        nonlocal at_once, most
        with lock:
            seen.add(threading.current_thread().name)
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1
        return datetime(2026, 3, 10, tzinfo=UTC)

    async def use() -> None:
        config = Config(aio=AsyncSettings(threads=3))
        async with AsyncLimpet.open(tmp_path, config=config, clock=clock) as memory:
            session = await memory.session("a", "b")
            await asyncio.gather(*(session.append("user", f"number {number}") for number in range(60)))
            await asyncio.gather(*(memory.tenant("other").remember(f"fact {number}", user="u") for number in range(20)))

    run(use())
    assert all(name.startswith("limpet") for name in seen)
    assert len(seen) <= 3
    assert most <= 3
    no_thread_stays()


def test_async_calls_from_two_hundred_tasks_are_consistent(store_url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url) as memory:
            sessions = await asyncio.gather(
                *(memory.session("a", str(number % 5), user="u") for number in range(TASKS))
            )
            assert len({session.id for session in sessions}) == 5

            async def work(number: int) -> None:
                session = sessions[number]
                stored = await session.append("user", f"word{number}x")
                await session.kv.set(str(number), number)
                assert (await session.messages(after=stored.sequence - 1, limit=1)) == [stored]
                assert [hit.text for hit in await memory.recall(f"word{number}x", user="u")] == [f"word{number}x"]

            await asyncio.gather(*map(work, range(TASKS)))
            for session in sessions[:5]:
                sequences = [message.sequence for message in await session.messages()]
                assert sequences == list(range(1, TASKS // 5 + 1))
            assert [finding for finding in await memory.admin.doctor() if not finding.ok] == []

    run(use())


def test_async_limpet_works_with_one_thread(store_url: str) -> None:
    async def use() -> None:
        async with AsyncLimpet.open(store_url, config=Config(aio=AsyncSettings(threads=1))) as memory:
            session = await memory.session("t", "1")
            await asyncio.gather(*(session.extend([Message.new("user", "x")] * 2) for _ in range(10)))
            assert await session.count() == 20

    run(use())
