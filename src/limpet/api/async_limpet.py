"""The same memory for asyncio: the same names, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self

from limpet.api.access import AccessOperations, KeyOperations
from limpet.api.admin import AdminOperations
from limpet.api.async_pool import (
    AsyncHandle,
    Attribute,
    Child,
    Pool,
    call_as,
    consume_exception,
    run_as,
    run_in_pool,
    wait_for_result,
)
from limpet.api.documents import DocumentOperations
from limpet.api.jobs import JobOperations
from limpet.api.limpet import Limpet
from limpet.api.notes import LongTermNotes, NoteOperations
from limpet.api.privacy import PrivacyOperations
from limpet.api.records import GraphOperations, RecordOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues, Session, SessionFields
from limpet.api.transfer import TransferOperations
from limpet.api.turn import Turn
from limpet.config import Config
from limpet.model.access import Principal
from limpet.model.context import Context, Omission
from limpet.model.dataclass import replace
from limpet.model.message import Message
from limpet.model.schedule import Notification, RunResult
from limpet.model.session import CompactionResult, SessionInfo
from limpet.schedules.runner import Firing, is_in_firing

P = ParamSpec("P")

# A callback may be a coroutine function: it runs in the caller's loop, with an AsyncLimpet in its firing.
AsyncCallback = Callable[[Firing], Awaitable[RunResult | str | None] | RunResult | str | None]
AsyncNotifier = Callable[[Notification], Awaitable[object] | object]


def _wrap_memory(memory: Limpet, pool: Pool) -> AsyncLimpet:
    return AsyncLimpet(memory, pool)


class AsyncRecords(AsyncHandle[RecordOperations]):
    __call__ = run_in_pool(RecordOperations.__call__)
    get = run_in_pool(RecordOperations.get)
    update = run_in_pool(RecordOperations.update)
    promote = run_in_pool(RecordOperations.promote)
    revive = run_in_pool(RecordOperations.revive)
    history = run_in_pool(RecordOperations.history)
    count = run_in_pool(RecordOperations.count)
    search_metadata = run_in_pool(RecordOperations.search_metadata)


class AsyncDocuments(AsyncHandle[DocumentOperations]):
    add = run_in_pool(DocumentOperations.add)
    list = run_in_pool(DocumentOperations.list)
    text = run_in_pool(DocumentOperations.text)
    remove = run_in_pool(DocumentOperations.remove)


class AsyncGraph(AsyncHandle[GraphOperations]):
    __call__ = run_in_pool(GraphOperations.__call__)


class AsyncLongTerm(AsyncHandle[LongTermNotes]):
    path = Attribute[LongTermNotes, Path | None](lambda notes: notes.path)
    read = run_in_pool(LongTermNotes.read)
    write = run_in_pool(LongTermNotes.write)
    append = run_in_pool(LongTermNotes.append)


class AsyncNotes(AsyncHandle[NoteOperations]):
    long_term = call_as(AsyncLongTerm, NoteOperations.long_term)
    day = run_in_pool(NoteOperations.day)
    add_turn = run_in_pool(NoteOperations.add_turn)
    export_items = run_in_pool(NoteOperations.export_items)
    import_items = run_in_pool(NoteOperations.import_items)


class AsyncSchedules(AsyncHandle[ScheduleOperations]):
    create = run_in_pool(ScheduleOperations.create)
    get = run_in_pool(ScheduleOperations.get)
    edit = run_in_pool(ScheduleOperations.edit)
    delete = run_in_pool(ScheduleOperations.delete)
    pause = run_in_pool(ScheduleOperations.pause)
    resume = run_in_pool(ScheduleOperations.resume)
    search = run_in_pool(ScheduleOperations.search)
    count = run_in_pool(ScheduleOperations.count)
    due = run_in_pool(ScheduleOperations.due)
    claim = run_in_pool(ScheduleOperations.claim)
    finish = run_in_pool(ScheduleOperations.finish)
    runs = run_in_pool(ScheduleOperations.runs)
    run_output = run_in_pool(ScheduleOperations.run_output)

    async def run(
        self, callback: AsyncCallback, notify: AsyncNotifier | None = None, *, until_idle: bool = True
    ) -> int:
        """Run what is due now, of every tenant. Both functions may be coroutine functions."""
        called, told = to_blocking(callback, self._pool), to_blocking(notify, self._pool)
        running = partial(self._sync.run, called, told, until_idle=until_idle)
        # A thread of its own: those of the pool are for the calls that the callbacks make.
        own = Pool(1)
        try:
            return await own.run(running)
        finally:
            own.shutdown(wait=False)


class AsyncJobs(AsyncHandle[JobOperations]):
    run = run_in_pool(JobOperations.run)
    list = run_in_pool(JobOperations.list)
    retry = run_in_pool(JobOperations.retry)
    drop = run_in_pool(JobOperations.drop)

    async def start_worker(
        self,
        *,
        on_schedule: AsyncCallback | None = None,
        notify: AsyncNotifier | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        """Do background work in a thread until the store is closed; with ``on_schedule`` also what schedules bring."""
        called, told = to_blocking(on_schedule, self._pool), to_blocking(notify, self._pool)
        await self._pool.run(partial(self._sync.start_worker, on_schedule=called, notify=told, busy=busy))


class AsyncKeys(AsyncHandle[KeyOperations]):
    __call__ = run_in_pool(KeyOperations.__call__)
    create = run_in_pool(KeyOperations.create)
    revoke = run_in_pool(KeyOperations.revoke)
    required = run_in_pool(KeyOperations.required)
    allow_anonymous = run_in_pool(KeyOperations.allow_anonymous)
    acting = run_as(_wrap_memory, KeyOperations.acting)


class AsyncAccess(AsyncHandle[AccessOperations]):
    grant = run_in_pool(AccessOperations.grant)
    revoke = run_in_pool(AccessOperations.revoke)
    grants = run_in_pool(AccessOperations.grants)
    audit = run_in_pool(AccessOperations.audit)

    keys = Child(AsyncKeys)


class AsyncPrivacy(AsyncHandle[PrivacyOperations]):
    purge_session = run_in_pool(PrivacyOperations.purge_session)
    purge_user = run_in_pool(PrivacyOperations.purge_user)
    purge_older = run_in_pool(PrivacyOperations.purge_older)
    receipts = run_in_pool(PrivacyOperations.receipts)
    retention = run_in_pool(PrivacyOperations.retention)


class AsyncTransfer(AsyncHandle[TransferOperations]):
    export = run_in_pool(TransferOperations.export)
    archive = run_in_pool(TransferOperations.archive)
    import_ = run_in_pool(TransferOperations.import_)
    import_file = run_in_pool(TransferOperations.import_file)


class AsyncAdmin(AsyncHandle[AdminOperations]):
    doctor = run_in_pool(AdminOperations.doctor)
    backup = run_in_pool(AdminOperations.backup)
    restore = run_in_pool(AdminOperations.restore)
    distribute = run_in_pool(AdminOperations.distribute)
    stats = run_in_pool(AdminOperations.stats)
    owners = run_in_pool(AdminOperations.owners)
    usage = run_in_pool(AdminOperations.usage)
    observe = run_in_pool(AdminOperations.observe)
    file_sessions = run_in_pool(AdminOperations.file_sessions)


class AsyncKeyValues(AsyncHandle[KeyValues]):
    get = run_in_pool(KeyValues.get)
    set = run_in_pool(KeyValues.set)
    delete = run_in_pool(KeyValues.delete)
    items = run_in_pool(KeyValues.items)


class AsyncTurn(AsyncHandle[Turn]):
    """``async with session.turn("…") as t: … await t.reply("…")``"""

    message = Attribute[Turn, Message](lambda turn: turn.message)
    context = Attribute[Turn, Context](lambda turn: turn.context)
    compacted = Attribute[Turn, CompactionResult | None](lambda turn: turn.compacted)
    failed = Attribute[Turn, tuple[Omission, ...]](lambda turn: turn.failed)

    async def __aenter__(self) -> Self:
        await self._pool.run(self._sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync.__exit__(kind, error, trace)

    add = call_as(lambda _nothing, _pool: None, Turn.add)
    reply = run_in_pool(Turn.reply)


class AsyncSession(AsyncHandle[Session], SessionFields):
    """A session. What the handle knows without the store (``id``, ``key``, ``state`` …) needs no await."""

    kv = Child(AsyncKeyValues)

    @property
    def info(self) -> SessionInfo:
        return self._sync.info

    @property
    def working_memory(self) -> Coroutine[Any, Any, str]:
        """``await session.working_memory``"""
        return self._pool.run(lambda: self._sync.working_memory)

    turn = call_as(AsyncTurn, Session.turn)
    refresh = run_in_pool(Session.refresh)
    append = run_in_pool(Session.append)
    extend = run_in_pool(Session.extend)
    recent = run_in_pool(Session.recent)
    messages = run_in_pool(Session.messages)
    count = run_in_pool(Session.count)
    restore = run_in_pool(Session.restore)
    context = run_in_pool(Session.context)
    summary = run_in_pool(Session.summary)
    set_summary = run_in_pool(Session.set_summary)
    swap_summary = run_in_pool(Session.swap_summary)
    compact = run_in_pool(Session.compact)
    compact_if_due = run_in_pool(Session.compact_if_due)
    learn = run_in_pool(Session.learn)
    new = run_as(lambda made, pool: AsyncSession(made, pool), Session.new)  # noqa: PLW0108 - this class is not made yet
    clear = run_in_pool(Session.clear)
    pause = run_in_pool(Session.pause)
    resume = run_in_pool(Session.resume)
    terminate = run_in_pool(Session.terminate)
    delete = run_in_pool(Session.delete)
    update_metadata = run_in_pool(Session.update_metadata)
    expire_in = run_in_pool(Session.expire_in)
    set_working_memory = run_in_pool(Session.set_working_memory)
    transcript = run_in_pool(Session.transcript)
    export_transcript = run_in_pool(Session.export_transcript)
    list_files = run_in_pool(Session.list_files)
    usage = run_in_pool(Session.usage)
    add_usage = run_in_pool(Session.add_usage)


class Opening:
    """A store that is being opened: ``await`` it, or use it with ``async with``."""

    def __init__(self, open_store: Callable[[], Limpet], threads: int) -> None:
        self._open_store = open_store
        self._threads = threads
        self._opened: AsyncLimpet | None = None

    def __await__(self) -> Generator[Any, None, AsyncLimpet]:
        return self._run().__await__()

    async def __aenter__(self) -> AsyncLimpet:
        self._opened = await self._run()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        assert self._opened is not None
        await self._opened.close()

    async def _run(self) -> AsyncLimpet:
        pool = Pool(self._threads)
        opened = pool.submit(self._open_store)
        try:
            return AsyncLimpet(await asyncio.shield(asyncio.wrap_future(opened)), pool)
        except BaseException:  # why: whatever stopped the opening, neither its threads nor its store may stay
            opened.add_done_callback(_close_result)
            pool.shutdown(wait=False)
            raise


def _close_result(opening: Future[Limpet]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _open_later(method: Callable[P, Limpet], load_config: Callable[[], Config]) -> Callable[P, Opening]:
    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Opening:
        given = kwargs.get("config")
        config = given if isinstance(given, Config) else load_config()
        return Opening(partial(method, *args, **kwargs), config.aio.threads)

    return wrapper


class AsyncLimpet(AsyncHandle[Limpet]):
    """An agent's memory for asyncio: ``async with AsyncLimpet.open("data") as memory``, or ``await`` it.

    SQLite is blocking code, so each call makes one hop to a thread of its pool.
    """

    open = staticmethod(_open_later(Limpet.open, Config.load))
    connect = staticmethod(_open_later(Limpet.connect, Config))

    async def close(self) -> None:
        """Finish every call that was given to the pool, then close the store. Idempotent.

        Inside a scheduled turn this cannot wait: the store is closed when the turn is over.
        """
        closer = ThreadPoolExecutor(1, thread_name_prefix="limpet-close")
        closing = asyncio.get_running_loop().run_in_executor(closer, self._finish)
        closer.shutdown(wait=False)
        closing.add_done_callback(consume_exception)
        if not is_in_firing():
            await asyncio.shield(closing)

    def _finish(self) -> None:
        # A handle that acts for somebody shares the pool as it shares the store.
        if self._sync._closes_store:  # noqa: SLF001 - one of ours
            self._pool.shutdown()
            self._sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    config = Attribute[Limpet, Config](lambda memory: memory.config)
    principal = Attribute[Limpet, Principal](lambda memory: memory.principal)

    records = Child(AsyncRecords)
    documents = Child(AsyncDocuments)
    graph = Child(AsyncGraph)
    notes = Child(AsyncNotes)
    schedules = Child(AsyncSchedules)
    jobs = Child(AsyncJobs)
    access = Child(AsyncAccess)
    privacy = Child(AsyncPrivacy)
    transfer = Child(AsyncTransfer)
    admin = Child(AsyncAdmin)

    tenant = call_as(_wrap_memory, Limpet.tenant)
    agent = run_as(_wrap_memory, Limpet.agent)
    acting = call_as(_wrap_memory, Limpet.acting)
    session = run_as(AsyncSession, Limpet.session)
    find_session = run_as(lambda found, pool: found and AsyncSession(found, pool), Limpet.find_session)
    load_session = run_as(AsyncSession, Limpet.load_session)
    sessions = run_in_pool(Limpet.sessions)
    recall = run_in_pool(Limpet.recall)
    remember = run_in_pool(Limpet.remember)
    forget = run_in_pool(Limpet.forget)
    context = run_in_pool(Limpet.context)
    profile = run_in_pool(Limpet.profile)


def to_blocking(function: Any, pool: Pool) -> Any:
    """A coroutine function as one that a thread can call; anything else as it is."""
    if not asyncio.iscoroutinefunction(function):
        return function
    loop = asyncio.get_running_loop()

    def call(given: Any) -> Any:
        if isinstance(given, Firing):
            given = replace(given, memory=AsyncLimpet(given.memory, pool))
        context = copy_context()

        async def run_task() -> Any:
            # The task has the context of the thread that called: it is part of the same scheduled turn.
            return await loop.create_task(function(given), context=context)

        return wait_for_result(run_task(), loop)

    return call
