"""A property that is computed once, and that a fork cannot leave locked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from limpet.model.late import load_modules

T = TypeVar("T")

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


def late_property(module: str) -> Callable[[Callable[[Any], T]], cached_property[T]]:
    """A lazy property that imports a module when it is computed."""

    def decorate(compute: Callable[[Any], T]) -> cached_property[T]:
        @wraps(compute)
        def load(instance: Any) -> T:
            load_modules(module)
            return compute(instance)

        return lazy_property(load)

    return decorate
