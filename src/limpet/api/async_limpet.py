"""The same memory for asyncio: the same names, awaited.

SQLite and the verbs above it are plain blocking code, so each call makes one hop to a thread of this object's own
pool. A call that was handed to the pool is carried out even when the task that awaits it is cancelled: nothing is
left half done.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from functools import partial, wraps
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from limpet.api import Limpet
from limpet.api.api_keys import ApiKeyOperations
from limpet.api.schedules import ScheduleOperations
from limpet.api.session import KeyValues, Session
from limpet.api.turn import Turn
from limpet.config import Config
from limpet.errors import StoreUnavailable
from limpet.model.access import Grant
from limpet.model.schedule import Notification, RunResult
from limpet.model.scope import DEFAULT_TENANT
from limpet.model.times import Clock
from limpet.model.tokens import TokenCounter
from limpet.notes.long_term import LongTerm
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm
from limpet.schedules.firing import ConsumerGone, Firing, is_in_firing

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

_CLOSED = "the event loop of its function is closed"
_GLANCE_S = 0.5  # how often it is looked at whether that is so


class Pool:
    """A bounded pool, so that waiting calls queue here and never in the loop's default executor."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="limpet")

    async def run(self, call: Callable[[], R]) -> R:
        try:
            # What surrounds the caller goes along: a scheduled turn stays one on another thread.
            future = asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, call)
        except RuntimeError as error:
            raise StoreUnavailable("this store is closed; open it again") from error
        future.add_done_callback(_consume_exception)
        return await asyncio.shield(future)

    def submit(self, call: Callable[[], R]) -> Future[R]:
        return self._executor.submit(call)

    def shutdown(self, *, wait: bool = True) -> None:
        self._executor.shutdown(wait=wait)


def _close_result(opening: Future[Limpet]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _consume_exception(future: asyncio.Future[Any]) -> None:
    """Whoever awaited may have been cancelled; the outcome must not be reported as forgotten then."""
    if not future.cancelled():
        future.exception()


def _wait_for_result(work: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
    """What came of it in the loop of another thread. A loop that is closed meanwhile answers nobody."""
    try:
        asked = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise ConsumerGone(_CLOSED) from None
    while not wait([asked], _GLANCE_S).done:
        if loop.is_closed():
            raise ConsumerGone(_CLOSED)
    return asked.result()


class _AsyncWrapper(Protocol[S_co]):
    """An asynchronous object in front of a blocking one."""

    @property
    def _sync(self) -> S_co: ...
    @property
    def _pool(self) -> Pool: ...


def run_in_pool(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_AsyncWrapper[S], P], Coroutine[Any, Any, R]]:
    """The method, run on the pool."""

    @wraps(method)
    async def wrapper(self: _AsyncWrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._pool.run(partial(method, self._sync, *args, **kwargs))

    return wrapper


def run_for_session(
    method: Callable[Concatenate[S, P], Session],
) -> Callable[Concatenate[_AsyncWrapper[S], P], Coroutine[Any, Any, AsyncSession]]:
    """The method, run on the pool, its session given an asynchronous face too."""

    @wraps(method)
    async def wrapper(self: _AsyncWrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncSession:
        return AsyncSession(await self._pool.run(partial(method, self._sync, *args, **kwargs)), self._pool)

    return wrapper


def call_directly(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[_AsyncWrapper[S], P], R]:
    """The method as it is: it neither waits nor asks the store."""

    @wraps(method)
    def wrapper(self: _AsyncWrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._sync, *args, **kwargs)

    return wrapper


def wrap_turn(method: Callable[Concatenate[S, P], Turn]) -> Callable[Concatenate[_AsyncWrapper[S], P], AsyncTurn]:
    """The method as it is, its turn given an asynchronous face."""

    @wraps(method)
    def wrapper(self: _AsyncWrapper[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTurn:
        return AsyncTurn(method(self._sync, *args, **kwargs), self._pool)

    return wrapper


class AsyncKeyValues:
    def __init__(self, sync: KeyValues, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    get = run_in_pool(KeyValues.get)
    set = run_in_pool(KeyValues.set)
    delete = run_in_pool(KeyValues.delete)
    items = run_in_pool(KeyValues.items)


class AsyncLongTerm:
    def __init__(self, sync: LongTerm, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"

    path = property(lambda self: self._sync.path)
    read = run_in_pool(LongTerm.read)
    write = run_in_pool(LongTerm.write)
    append = run_in_pool(LongTerm.append)


class AsyncSchedules:
    def __init__(self, sync: ScheduleOperations, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    create = run_in_pool(ScheduleOperations.create)
    get = run_in_pool(ScheduleOperations.get)
    edit = run_in_pool(ScheduleOperations.edit)
    delete = run_in_pool(ScheduleOperations.delete)
    pause = run_in_pool(ScheduleOperations.pause)
    resume = run_in_pool(ScheduleOperations.resume)
    search = run_in_pool(ScheduleOperations.search)
    count = run_in_pool(ScheduleOperations.count)
    due = run_in_pool(ScheduleOperations.due)
    runs = run_in_pool(ScheduleOperations.runs)
    run_output = run_in_pool(ScheduleOperations.run_output)


class AsyncApiKeys:
    def __init__(self, sync: ApiKeyOperations, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    create = run_in_pool(ApiKeyOperations.create)
    list = run_in_pool(ApiKeyOperations.list)
    revoke = run_in_pool(ApiKeyOperations.revoke)
    any = run_in_pool(ApiKeyOperations.any)

    async def acting(self, secret: str) -> AsyncLimpet:
        """The same store acting as what the key is bound to. Raises Unauthenticated."""
        return AsyncLimpet(await self._pool.run(partial(self._sync.acting, secret)), self._pool)


# A callback may be a coroutine function: it runs in the loop of whoever gave it, with an AsyncLimpet in its firing.
Callback = Callable[[Firing], Awaitable[RunResult | str | None] | RunResult | str | None]
Notifier = Callable[[Notification], Awaitable[object] | object]


class AsyncTurn:
    """``async with session.turn("…") as t: … await t.reply("…")``"""

    def __init__(self, sync: Turn, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"

    message = property(lambda self: self._sync.message)
    context = property(lambda self: self._sync.context)
    compacted = property(lambda self: self._sync.compacted)
    failed = property(lambda self: self._sync.failed)

    async def __aenter__(self) -> Self:
        await self._pool.run(self._sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync.__exit__(kind, error, trace)

    add = call_directly(Turn.add)
    reply = run_in_pool(Turn.reply)


class AsyncSession:
    def __init__(self, sync: Session, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool
        self.kv = AsyncKeyValues(sync.kv, pool)

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"

    # What the handle knows without asking the store needs no await.
    info = property(lambda self: self._sync.info)
    id = property(lambda self: self._sync.id)
    key = property(lambda self: self._sync.key)
    user = property(lambda self: self._sync.user)
    agent = property(lambda self: self._sync.agent)
    channel = property(lambda self: self._sync.channel)
    chat = property(lambda self: self._sync.chat)
    thread = property(lambda self: self._sync.thread)
    state = property(lambda self: self._sync.state)
    metadata = property(lambda self: self._sync.metadata)
    created_at = property(lambda self: self._sync.created_at)
    last_active_at = property(lambda self: self._sync.last_active_at)
    expires_at = property(lambda self: self._sync.expires_at)

    @property
    def working_memory(self) -> Coroutine[Any, Any, str]:
        """``await session.working_memory``"""
        return self._pool.run(lambda: self._sync.working_memory)

    turn = wrap_turn(Session.turn)
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
    new = run_for_session(Session.new)
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


class AsyncLimpet:
    def __init__(self, sync: Limpet, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    @classmethod
    async def open(
        cls,
        location: str | PathLike[str],
        *,
        config: Config | None = None,
        llm: Llm | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncLimpet:
        """Open or create the store at a folder, at ``:memory:``, or at a ``postgresql://`` address."""
        settings = config if isinstance(config, Config) else Config.load(env=os.environ)
        pool = Pool(settings.aio.threads)
        opening = partial(
            Limpet.open,
            location,
            config=config,
            llm=llm,
            embedder=embedder,
            clock=clock,
            counter=counter,
            tenant=tenant,
        )
        opened = pool.submit(opening)
        try:
            return cls(await asyncio.shield(asyncio.wrap_future(opened)), pool)
        except BaseException:  # why: whatever stopped the opening, neither its threads nor its store may stay
            opened.add_done_callback(_close_result)
            pool.shutdown(wait=False)
            raise

    async def close(self) -> None:
        """Finish every call that was handed over, then close the store. Closing twice is fine.

        Inside a scheduled turn nobody can wait for that: the store is closed when the turn is over.
        """
        closer = ThreadPoolExecutor(1, thread_name_prefix="limpet-close")
        closing = asyncio.get_running_loop().run_in_executor(closer, self._finish)
        closer.shutdown(wait=False)
        closing.add_done_callback(_consume_exception)
        if not is_in_firing():
            await asyncio.shield(closing)

    def _finish(self) -> None:
        # Whoever acts for somebody shares the pool as they share the store.
        if self._sync._is_operator and self._sync._closes:  # noqa: SLF001
            self._pool.shutdown()
            self._sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"

    config = property(lambda self: self._sync.config)
    principal = property(lambda self: self._sync.principal)

    def tenant(self, name: str) -> AsyncLimpet:
        """The same store seen as another tenant, with nothing in common but the file."""
        return AsyncLimpet(self._sync.tenant(name), self._pool)

    async def agent(self, name: str) -> AsyncLimpet:
        """Memory as this agent has it: with its settings, in its own store if it has one, or kept nowhere at all."""
        return AsyncLimpet(await self._pool.run(partial(self._sync.agent, name)), self._pool)

    def acting(
        self,
        user: str | None = None,
        *,
        agent: str | None = None,
        session: str | None = None,
        grants: Iterable[str | Grant] = (),
        name: str | None = None,
    ) -> AsyncLimpet:
        """The same store for somebody with fewer rights: a user, one session of a user, or only what is granted."""
        theirs = self._sync.acting(user, agent=agent, session=session, grants=grants, name=name)
        return AsyncLimpet(theirs, self._pool)

    def long_term(self, user: str) -> AsyncLongTerm:
        """The user's MEMORY.md: ``await hf.long_term(user="alice").read()``."""
        return AsyncLongTerm(self._sync.long_term(user), self._pool)

    @property
    def schedules(self) -> AsyncSchedules:
        """Goals that come back: ``await hf.schedules.create(user=…, goal=…, cadence="every: 1h")``."""
        return AsyncSchedules(self._sync.schedules, self._pool)

    @property
    def keys(self) -> AsyncApiKeys:
        """API keys: ``await hf.keys.create("ci", user=…)``, and ``await hf.keys.acting(secret)`` for a request."""
        return AsyncApiKeys(self._sync.keys, self._pool)

    async def run_schedules(
        self, callback: Callback, notify: Notifier | None = None, *, until_idle: bool = True
    ) -> int:
        """Run what is due now, of every tenant. Both functions may be coroutine functions."""
        called, told = self._to_blocking(callback), self._to_blocking(notify)
        running = partial(self._sync.run_schedules, called, told, until_idle=until_idle)
        # A thread of its own: the pool's are for what the callbacks ask of us.
        own = Pool(1)
        try:
            return await own.run(running)
        finally:
            own.shutdown(wait=False)

    async def start_worker(
        self,
        *,
        on_schedule: Callback | None = None,
        notify: Notifier | None = None,
        busy: Callable[[], bool] | None = None,
    ) -> None:
        """Do background work in a thread from now on, until the store is closed; also what schedules bring."""
        called, told = self._to_blocking(on_schedule), self._to_blocking(notify)
        await self._pool.run(partial(self._sync.start_worker, on_schedule=called, notify=told, busy=busy))

    def _to_blocking(self, function: Any) -> Any:
        """A coroutine function as one that a thread can call; anything else as it is."""
        if not asyncio.iscoroutinefunction(function):
            return function
        loop = asyncio.get_running_loop()

        def call(given: Any) -> Any:
            if isinstance(given, Firing):
                given = replace(given, hf=AsyncLimpet(given.hf, self._pool))
            context = copy_context()

            async def run_task() -> Any:
                # The task has the context of the thread that called: it is a scheduled turn as that is.
                return await loop.create_task(function(given), context=context)

            return _wait_for_result(run_task(), loop)

        return call

    session = run_for_session(Limpet.session)
    load_session = run_for_session(Limpet.load_session)
    sessions = run_in_pool(Limpet.sessions)
    usage = run_in_pool(Limpet.usage)
    recall = run_in_pool(Limpet.recall)
    remember = run_in_pool(Limpet.remember)
    record = run_in_pool(Limpet.record)
    records = run_in_pool(Limpet.records)
    count_records = run_in_pool(Limpet.count_records)
    search_metadata = run_in_pool(Limpet.search_metadata)
    update = run_in_pool(Limpet.update)
    history = run_in_pool(Limpet.history)
    forget = run_in_pool(Limpet.forget)
    promote = run_in_pool(Limpet.promote)
    revive = run_in_pool(Limpet.revive)
    profile = run_in_pool(Limpet.profile)
    run_jobs = run_in_pool(Limpet.run_jobs)
    jobs = run_in_pool(Limpet.jobs)
    retry_jobs = run_in_pool(Limpet.retry_jobs)
    drop_jobs = run_in_pool(Limpet.drop_jobs)
    add_document = run_in_pool(Limpet.add_document)
    documents = run_in_pool(Limpet.documents)
    graph = run_in_pool(Limpet.graph)
    remove_document = run_in_pool(Limpet.remove_document)
    daily_notes = run_in_pool(Limpet.daily_notes)
    note_turn = run_in_pool(Limpet.note_turn)
    export_items = run_in_pool(Limpet.export_items)
    import_items = run_in_pool(Limpet.import_items)
    file_sessions = run_in_pool(Limpet.file_sessions)
    doctor = run_in_pool(Limpet.doctor)
    backup = run_in_pool(Limpet.backup)
    stats = run_in_pool(Limpet.stats)
    observe = run_in_pool(Limpet.observe)
    grant = run_in_pool(Limpet.grant)
    revoke = run_in_pool(Limpet.revoke)
    grants = run_in_pool(Limpet.grants)
    audit = run_in_pool(Limpet.audit)
    export = run_in_pool(Limpet.export)
    archive = run_in_pool(Limpet.archive)
    import_ = run_in_pool(Limpet.import_)
    purge_session = run_in_pool(Limpet.purge_session)
    purge_user = run_in_pool(Limpet.purge_user)
    purge_older = run_in_pool(Limpet.purge_older)
    receipts = run_in_pool(Limpet.receipts)
    apply_retention = run_in_pool(Limpet.apply_retention)
