"""Blocking calls run in a pool of threads, so that an event loop can await them.

Each call makes one hop to a thread of this pool. A call that was given to the pool is carried out even when the task
that awaits it is cancelled: nothing is left half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from limpet.errors import StoreUnavailable
from limpet.schedules.runner import ConsumerGone

P = ParamSpec("P")
H = TypeVar("H")
R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

_CLOSED = "the event loop of its function is closed"
_GLANCE_S = 0.5  # how often that is checked


class Pool:
    """A bounded pool, so that waiting calls queue here and never in the loop's default executor."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="limpet")

    async def run(self, call: Callable[[], R]) -> R:
        try:
            # The caller's context variables go along: a scheduled turn stays one on another thread.
            future = asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, call)
        except RuntimeError as error:
            raise StoreUnavailable("this store is closed; open it again") from error
        future.add_done_callback(consume_exception)
        return await asyncio.shield(future)

    def submit(self, call: Callable[[], R]) -> Future[R]:
        return self._executor.submit(call)

    def shutdown(self, *, wait: bool = True) -> None:
        self._executor.shutdown(wait=wait)


def consume_exception(future: asyncio.Future[Any]) -> None:
    """The task that awaited it may be cancelled; asyncio must not report its error as never retrieved then."""
    if not future.cancelled():
        future.exception()


def wait_for_result(work: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
    """Run a coroutine in the loop of another thread. Raises ConsumerGone when that loop is closed meanwhile."""
    try:
        asked = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise ConsumerGone(_CLOSED) from None
    while not wait([asked], _GLANCE_S).done:
        if loop.is_closed():
            raise ConsumerGone(_CLOSED)
    return asked.result()


class AsyncHandle(Generic[S]):
    """An asynchronous handle: the blocking one, and the pool that runs its methods."""

    def __init__(self, sync: S, pool: Pool) -> None:
        self._sync = sync
        self._pool = pool

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"


class HasSync(Protocol[S_co]):
    """What the wrappers below need of an asynchronous handle."""

    @property
    def _sync(self) -> S_co: ...
    @property
    def _pool(self) -> Pool: ...


class Attribute(Generic[S, R]):
    """An attribute of the blocking handle that needs no await: the handle knows it without the store."""

    def __init__(self, read: Callable[[S], R]) -> None:
        self._read = read

    @overload
    def __get__(self, handle: None, owner: type) -> Self: ...
    @overload
    def __get__(self, handle: HasSync[S], owner: type) -> R: ...
    def __get__(self, handle: HasSync[S] | None, owner: type) -> R | Self:
        return self if handle is None else self._read(handle._sync)  # noqa: SLF001 - a handle of ours


class Child(Generic[H]):
    """A handle of the asynchronous memory, made of the blocking one of the same name."""

    def __init__(self, kind: Callable[[Any, Pool], H]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, handle: None, owner: type) -> Self: ...
    @overload
    def __get__(self, handle: HasSync[Any], owner: type) -> H: ...
    def __get__(self, handle: HasSync[Any] | None, owner: type) -> H | Self:
        if handle is None:
            return self
        return self._kind(getattr(handle._sync, self._name), handle._pool)  # noqa: SLF001 - a handle of ours


def get_method(handle: HasSync[S], method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
    """The method as the blocking handle has it: one on a server may have its own."""
    found: Callable[P, R] = getattr(handle._sync, method.__name__)  # noqa: SLF001 - a handle of ours
    return found


def run_in_pool(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[HasSync[S], P], Coroutine[Any, Any, R]]:
    return run_as(lambda found, _pool: found, method)


def run_as(
    kind: Callable[[R, Pool], H], method: Callable[Concatenate[S, P], R]
) -> Callable[Concatenate[HasSync[S], P], Coroutine[Any, Any, H]]:
    """The method, run on the pool; what it returns is made asynchronous, too."""

    @wraps(method)
    async def wrapper(self: HasSync[S], /, *args: P.args, **kwargs: P.kwargs) -> H:
        pool = self._pool
        return kind(await pool.run(partial(get_method(self, method), *args, **kwargs)), pool)

    return wrapper


def call_as(
    kind: Callable[[R, Pool], H], method: Callable[Concatenate[S, P], R]
) -> Callable[Concatenate[HasSync[S], P], H]:
    """The method as it is: it neither waits nor reads the store. What it returns is made asynchronous."""

    @wraps(method)
    def wrapper(self: HasSync[S], /, *args: P.args, **kwargs: P.kwargs) -> H:
        return kind(get_method(self, method)(*args, **kwargs), self._pool)

    return wrapper
