"""A session, its summary, its key-value entries and its bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from limpet.model.naming import SessionKey
from limpet.model.paging import PageCursor
from limpet.model.scope import Scope


class SessionStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    id: str
    tenant: str
    user: str
    agent: str
    key: SessionKey
    state: SessionStatus
    metadata: Mapping[str, Any]
    created_at: datetime
    last_active_at: datetime
    expires_at: datetime | None = None
    last_sequence: int = 0
    message_count: int = 0

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.user, self.agent, self.id)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the session said up to ``upper_sequence``, in ``message_count`` messages."""

    text: str
    epoch: int
    upper_sequence: int
    message_count: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What became of condensing a session: how many ``messages`` the summary covers now that it did not before.

    ``tokens_before`` and ``tokens_after`` count the summary and the messages it does not cover. ``by`` is ``llm`` or
    ``digest``, and None where nothing was done; ``reason`` says why it was, or was not.
    """

    done: bool
    messages: int
    tokens_before: int
    tokens_after: int
    by: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What became of what a session taught: the ids of records, by what happened to them."""

    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()  # said again
    superseded: tuple[str, ...] = ()  # a new one took their place
    ended: tuple[str, ...] = ()  # and nothing took their place

    def __add__(self, other: LearnResult) -> LearnResult:
        return LearnResult(
            self.added + other.added,
            self.merged + other.merged,
            self.superseded + other.superseded,
            self.ended + other.ended,
        )


@dataclass(frozen=True, slots=True)
class KvEntry:
    key: str
    value: Any
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ModelUsage:
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """A session's bill: the sums, and what each model took of them."""

    models: tuple[ModelUsage, ...] = ()

    @property
    def input_tokens(self) -> int:
        return sum(entry.input_tokens for entry in self.models)

    @property
    def output_tokens(self) -> int:
        return sum(entry.output_tokens for entry in self.models)

    @property
    def cached_tokens(self) -> int:
        return sum(entry.cached_tokens for entry in self.models)

    @property
    def cost(self) -> float:
        return round(sum(entry.cost for entry in self.models), 9)


@dataclass(frozen=True, slots=True)
class FileInfo:
    name: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list; a field left None does not filter."""

    agent: str | None = None
    channel: str | None = None
    state: SessionStatus | None = None
    limit: int = 50
    offset: int = 0
    before: PageCursor | None = None
