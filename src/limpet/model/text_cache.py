"""Caches of what people said, and of what was computed from it. Forgetting and purging empty them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

F = TypeVar("F", bound=Callable[..., Any])

_caches: WeakSet[Any] = WeakSet()


def cache_texts(size: int) -> Callable[[F], F]:
    """As ``lru_cache``, for a function of texts: use no other cache for those."""

    def decorate(function: F) -> F:
        made: Any = lru_cache(size)(function)
        _caches.add(made)
        return made  # type: ignore[no-any-return]  # called as the function is

    return decorate


def clear_text_caches() -> None:
    for made in list(_caches):
        made.cache_clear()
