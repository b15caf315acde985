"""Imports and properties that wait until they are needed, and that no interrupt or fork can break."""

from __future__ import annotations

import sys
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from limpet.errors import explain_descriptors

T = TypeVar("T")

_loaded: set[str] = set()  # whole: a module that another thread is importing is in sys.modules already
_BEGIN_TIMEOUT_S = 0.2


def load_modules(*names: str) -> None:
    """Import modules whole, in a thread that no interrupt reaches. Call this before an import in a function.

    An interrupt in the middle of an import may leave a lock of Python's import system held, and then every thread that
    imports the module waits for ever; some packages, numpy among them, cannot be imported again. Raises nothing: a
    module that is missing is found missing by the import that follows.
    """
    if _loaded.issuperset(names):
        return
    if _is_importing():  # another thread might wait for what this one has begun to import
        _import(names)
        return
    begun, done = allocate_lock(), allocate_lock()
    done.acquire()
    while True:
        if sys.is_finalizing():  # no other thread runs any more
            _import(names)
            return
        # An interrupt for this thread may hit the one that it has just created, which then never begins.
        if not begun.locked():
            _start(names, begun, done)
        if done.acquire(timeout=_BEGIN_TIMEOUT_S):  # in C: an interrupt leaves nothing behind, and the import goes on
            return


def _start(names: Iterable[str], begun: LockType, done: LockType) -> None:
    try:
        start_new_thread(_run, (names, begun, done))
    except RuntimeError:  # the program is ending, or has no thread left
        _run(names, begun, done)


def _run(names: Iterable[str], begun: LockType, done: LockType) -> None:
    begun.acquire(blocking=False)
    _import(names)
    with suppress(RuntimeError):  # another thread began, too, and released it
        done.release()


def _import(names: Iterable[str]) -> None:
    for name in names:
        with suppress(Exception):  # why: the import that follows raises it, in the thread that needs to know
            import_module(name)
        _loaded.add(name)


def _is_importing() -> bool:
    frame = sys._getframe().f_back  # noqa: SLF001 - nothing else says who called
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


if TYPE_CHECKING:
    lazy_property = cached_property
else:

    class lazy_property(cached_property):  # noqa: N801 - a decorator
        """Computed at first use, without the lock of Python 3.11, for which a forked child would wait.

        Two threads may compute it at the same time; both get the value that was ready first.
        """

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            if instance is None:
                return self
            known = vars(instance)
            if self.attrname not in known:
                known.setdefault(self.attrname, self.func(instance))
            return known[self.attrname]


def late_property(place: str) -> Callable[[Callable[[Any, type[T]], T]], cached_property[T]]:
    """A lazy property that is made of a class, ``module:Class``, which is imported when it is computed."""
    module, _, name = place.partition(":")

    def decorate(make: Callable[[Any, type[T]], T]) -> cached_property[T]:
        @wraps(make)
        def load(instance: Any) -> T:
            load_modules(module)
            try:
                found = import_module(module)
            except (OSError, ImportError) as error:
                if (explained := explain_descriptors(error)) is None:
                    raise
                raise explained from error
            return make(instance, getattr(found, name))

        return lazy_property(load)

    return decorate
