"""What a field says to the store, beside its type."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Literal

Encryption = Literal["text", "same", "same_bytes", "key", "source"]


class ColumnHint(Enum):
    NO_COLUMN = auto()  # the store counts it, or keeps it elsewhere
    SET_ONCE = auto()  # a change of the noun leaves it as it is
    NULL_IF_EMPTY = auto()


NO_COLUMN, SET_ONCE, NULL_IF_EMPTY = ColumnHint.NO_COLUMN, ColumnHint.SET_ONCE, ColumnHint.NULL_IF_EMPTY


class Column:
    """The column of a field, where it has another name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Encrypted:
    """How a column is encrypted, where it is not only read: ``same`` can be compared, for example."""

    def __init__(self, kind: Encryption) -> None:
        self.kind = kind


class Plain:
    """A text that stays readable in an encrypted tenant, and what it is."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Stored:
    """Columns that a type alone does not tell: their names, and how a value becomes theirs and comes back."""

    def __init__(
        self,
        names: tuple[str, ...],
        split: Callable[[Any], tuple[Any, ...]],
        join: Callable[..., Any],
        encrypted: Encryption | None = None,
    ) -> None:
        self.names, self.split, self.join, self.encrypted = names, split, join, encrypted


WHOSE = Plain("whose")
