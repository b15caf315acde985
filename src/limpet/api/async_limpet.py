"""The same memory for asyncio: the same names, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from limpet.api.async_handles import (
    AsyncAccess,
    AsyncAdmin,
    AsyncDocuments,
    AsyncGraph,
    AsyncJobs,
    AsyncNotes,
    AsyncPrivacy,
    AsyncRecords,
    AsyncSchedules,
    AsyncTransfer,
)
from limpet.api.async_pool import AsyncHandle, Attribute, Child, Pool, consume_exception, run_in_pool
from limpet.api.async_session import find_in_pool, run_for_session
from limpet.api.limpet import Limpet
from limpet.config import AsyncSettings, Config
from limpet.model.access import Grant
from limpet.model.scope import DEFAULT_TENANT
from limpet.model.tokens import TokenCounter
from limpet.model.values import Clock
from limpet.providers.embedder import Embedder
from limpet.providers.llm import Llm
from limpet.schedules.firing import is_in_firing

R = TypeVar("R")


def _of_memory(read: Callable[[Limpet], R]) -> Attribute[Limpet, R]:
    return Attribute(read)


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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


class AsyncLimpet(AsyncHandle[Limpet]):
    """An agent's memory for asyncio. SQLite is blocking code, so each call makes one hop to a thread of its pool."""

    @classmethod
    def open(
        cls,
        location: str | PathLike[str],
        *,
        config: Config | None = None,
        llm: Llm | None = None,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Opening:
        """Open or create a store: ``async with AsyncLimpet.open("data") as memory``, or ``await`` it."""
        settings = config if isinstance(config, Config) else Config.load()
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
        return Opening(opening, settings.aio.threads)

    @classmethod
    def connect(cls, url: str, *, key: str | None = None, user: str | None = None, timeout: float = 30.0) -> Opening:
        """The memory of a server: ``async with AsyncLimpet.connect("http://…") as memory``, or ``await`` it."""
        return Opening(partial(Limpet.connect, url, key=key, user=user, timeout=timeout), AsyncSettings().threads)

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    config = _of_memory(lambda memory: memory.config)
    principal = _of_memory(lambda memory: memory.principal)

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

    def tenant(self, name: str) -> AsyncLimpet:
        """The same store seen as another tenant. Tenants share nothing but the file."""
        return AsyncLimpet(self._sync.tenant(name), self._pool)

    async def agent(self, name: str) -> AsyncLimpet:
        """Memory as this agent has it: with its settings, in its own store if it has one, or stored nowhere at all."""
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

    session = run_for_session(Limpet.session)
    find_session = find_in_pool(Limpet.find_session)
    load_session = run_for_session(Limpet.load_session)
    sessions = run_in_pool(Limpet.sessions)
    recall = run_in_pool(Limpet.recall)
    remember = run_in_pool(Limpet.remember)
    forget = run_in_pool(Limpet.forget)
    context = run_in_pool(Limpet.context)
    profile = run_in_pool(Limpet.profile)
