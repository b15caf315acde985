"""A session, its summary, its key-value entries and its bill."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from limpet.model.columns import WHOSE, Column
from limpet.model.containers import JsonValue
from limpet.model.dataclass import dataclass
from limpet.model.schema import EXPORT_FLAT, IN_JSON, NO_EXPORT, Called
from limpet.model.scope import Partition, Scope, SessionKey, user_partition
from limpet.model.types import Cost, Id, Metadata, Moment, Name, Text
from limpet.model.values import PageCursor

MAX_VALUE_BYTES = 1024 * 1024


class SessionStatus(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    id: Annotated[Id, "given by the store"]
    tenant: Annotated[Name, NO_EXPORT, WHOSE, "the tenant it belongs to"]
    user: Annotated[Name, Column("user_id"), WHOSE, "whose conversation it is"]
    agent: Annotated[Name, WHOSE, "the agent it is with"]
    key: Annotated[SessionKey, EXPORT_FLAT, "channel:chat or channel:chat:thread, escaped; outlives the id"]
    state: Annotated[SessionStatus, "TERMINATED is final"]
    metadata: Annotated[Metadata, "any JSON of the program's own"]
    created_at: Annotated[Moment, "when it was made"]
    last_active_at: Annotated[Moment, "when it was last active"]
    expires_at: Annotated[Moment | None, "when it expires, and retention removes it; null: never"] = None
    last_sequence: Annotated[int, "the highest number of a message so far; 0: none yet"] = 0
    message_count: Annotated[int, NO_EXPORT, "messages it has now"] = 0

    @property
    def channel(self) -> Annotated[str, IN_JSON, "what carries the chat, such as telegram"]:
        return self.key.channel

    @property
    def chat(self) -> Annotated[str, IN_JSON, "the chat's name in its channel"]:
        return self.key.chat

    @property
    def thread(self) -> Annotated[str | None, IN_JSON, "the thread within the chat; null: it has none"]:
        return self.key.thread

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.user, self.agent, self.id)

    @property
    def partition(self) -> Partition:
        """Where its messages are searched."""
        return user_partition(self.tenant, self.user)

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over, swept or not."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Summary:
    """What the session said: words of a model or the caller first, then lines quoted from the messages after those."""

    text: Annotated[Text, "the summary"]
    epoch: Annotated[int, "increases with each new summary"]
    upper_sequence: Annotated[int, "the last message it covers"]
    message_count: Annotated[int, "messages it covers"]
    updated_at: Annotated[Moment, "when it was last written"]
    written_sequence: Annotated[int, "the last message that a model's or caller's words cover; 0: none"] = 0
    written_characters: Annotated[int, "characters of the text that a model or the caller wrote"] = 0


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction."""

    done: Annotated[bool, "whether anything was compacted"]
    messages: Annotated[int, "messages newly covered by the summary"]
    tokens_before: Annotated[int, "tokens of the summary and the messages after it, before"]
    tokens_after: Annotated[int, "the same, afterwards"]
    by: Annotated[str | None, "llm or digest; null: nothing was done"]
    reason: Annotated[str, "why it was done, or was not"]


@dataclass(frozen=True, slots=True)
class LearnResult:
    """What became of what a session taught: the ids of records, by what happened to them."""

    added: Annotated[tuple[str, ...], "ids of new records"] = ()
    merged: Annotated[tuple[str, ...], "ids of records that were stated again"] = ()
    superseded: Annotated[tuple[str, ...], "ids of records that a new one replaced"] = ()
    ended: Annotated[tuple[str, ...], "ids of records that ended without a replacement"] = ()

    def __add__(self, other: LearnResult) -> LearnResult:
        return LearnResult(
            self.added + other.added,
            self.merged + other.merged,
            self.superseded + other.superseded,
            self.ended + other.ended,
        )


@dataclass(frozen=True, slots=True)
class KvEntry:
    key: Annotated[Name, Called("a key"), "its name, such as `working_memory`"]
    value: Annotated[Any, JsonValue(MAX_VALUE_BYTES), "any JSON"]
    updated_at: Annotated[Moment, "when it was last set"]


@dataclass(frozen=True, slots=True)
class ModelUsage:
    model: Annotated[Name, "its name, as reported"]
    calls: Annotated[int, "how often it was called"] = 0
    input_tokens: Annotated[int, "tokens that models read"] = 0
    output_tokens: Annotated[int, "tokens that models wrote"] = 0
    cached_tokens: Annotated[int, "tokens of the input that came from a cache"] = 0
    cost: Annotated[Cost, "in the reported currency"] = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """A session's bill: the sums, and what each model took of them."""

    models: Annotated[tuple[ModelUsage, ...], "the usage of each model"] = ()

    @property
    def input_tokens(self) -> Annotated[int, IN_JSON, "tokens that models read"]:
        return sum(entry.input_tokens for entry in self.models)

    @property
    def output_tokens(self) -> Annotated[int, IN_JSON, "tokens that models wrote"]:
        return sum(entry.output_tokens for entry in self.models)

    @property
    def cached_tokens(self) -> Annotated[int, IN_JSON, "tokens of the input that came from a cache"]:
        return sum(entry.cached_tokens for entry in self.models)

    @property
    def cost(self) -> Annotated[float, IN_JSON, "in the reported currency"]:
        return round(sum(entry.cost for entry in self.models), 9)


@dataclass(frozen=True, slots=True)
class FileInfo:
    name: Annotated[str, "name of the file"]
    size: Annotated[int, "in bytes"]
    modified_at: Annotated[Moment, "when it was last written"]


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list; a field left None does not filter."""

    agent: str | None = None
    channel: str | None = None
    state: SessionStatus | None = None
    limit: int = 50
    offset: int = 0
    before: PageCursor | None = None
