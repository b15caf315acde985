"""Sessions and turns for asyncio: the same names, awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from limpet.api.async_pool import AsyncHandle, Attribute, Child, HasSync, call_directly, get_method, run_in_pool
from limpet.api.key_values import KeyValues
from limpet.api.session import Session
from limpet.api.turn import Turn

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class AsyncKeyValues(AsyncHandle[KeyValues]):
    get = run_in_pool(KeyValues.get)
    set = run_in_pool(KeyValues.set)
    delete = run_in_pool(KeyValues.delete)
    items = run_in_pool(KeyValues.items)


def _of_turn(read: Callable[[Turn], R]) -> Attribute[Turn, R]:
    return Attribute(read)


def _of_session(read: Callable[[Session], R]) -> Attribute[Session, R]:
    return Attribute(read)


class AsyncTurn(AsyncHandle[Turn]):
    """``async with session.turn("…") as t: … await t.reply("…")``"""

    message = _of_turn(lambda turn: turn.message)
    context = _of_turn(lambda turn: turn.context)
    compacted = _of_turn(lambda turn: turn.compacted)
    failed = _of_turn(lambda turn: turn.failed)

    async def __aenter__(self) -> Self:
        await self._pool.run(self._sync.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync.__exit__(kind, error, trace)

    add = call_directly(Turn.add)
    reply = run_in_pool(Turn.reply)


def run_for_session(
    method: Callable[Concatenate[S, P], Session],
) -> Callable[Concatenate[HasSync[S], P], Coroutine[Any, Any, AsyncSession]]:
    """The method, run on the pool; its session is returned as an AsyncSession."""

    @wraps(method)
    async def wrapper(self: HasSync[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncSession:
        return AsyncSession(await self._pool.run(partial(method, self._sync, *args, **kwargs)), self._pool)

    return wrapper


def find_in_pool(
    method: Callable[Concatenate[S, P], Session | None],
) -> Callable[Concatenate[HasSync[S], P], Coroutine[Any, Any, AsyncSession | None]]:
    """The method, run on the pool; its session, if there is one, is returned as an AsyncSession."""

    @wraps(method)
    async def wrapper(self: HasSync[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncSession | None:
        found = await self._pool.run(partial(method, self._sync, *args, **kwargs))
        return None if found is None else AsyncSession(found, self._pool)

    return wrapper


def wrap_turn(method: Callable[Concatenate[S, P], Turn]) -> Callable[Concatenate[HasSync[S], P], AsyncTurn]:
    """The method as it is; its turn is returned as an AsyncTurn."""

    @wraps(method)
    def wrapper(self: HasSync[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTurn:
        return AsyncTurn(get_method(self, method)(*args, **kwargs), self._pool)

    return wrapper


class AsyncSession(AsyncHandle[Session]):
    """A session. What the handle knows without the store (``id``, ``key``, ``state`` …) needs no await."""

    kv = Child(AsyncKeyValues)
    info = _of_session(lambda session: session.info)
    id = _of_session(lambda session: session.id)
    key = _of_session(lambda session: session.key)
    user = _of_session(lambda session: session.user)
    agent = _of_session(lambda session: session.agent)
    channel = _of_session(lambda session: session.channel)
    chat = _of_session(lambda session: session.chat)
    thread = _of_session(lambda session: session.thread)
    state = _of_session(lambda session: session.state)
    metadata = _of_session(lambda session: session.metadata)
    created_at = _of_session(lambda session: session.created_at)
    last_active_at = _of_session(lambda session: session.last_active_at)
    expires_at = _of_session(lambda session: session.expires_at)

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
