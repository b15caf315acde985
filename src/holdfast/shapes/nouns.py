"""Every noun as the programs outside read it. Names here are a promise: add, never rename."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

Time = Annotated[str, "date-time"]
Role = Literal["system", "user", "assistant", "tool"]
Layer = Literal["working", "episodic", "semantic", "procedural"]
RecordType = Literal[
    "fact", "preference", "constraint", "decision", "note", "failure", "fix", "command_result", "task_state"
]


class Session(TypedDict):
    id: str
    key: str
    tenant: str
    user: str
    agent: str
    channel: str
    chat: str
    thread: str | None
    state: Literal["ACTIVE", "PAUSED", "TERMINATED"]
    metadata: dict[str, Any]
    created_at: Time
    last_active_at: Time
    expires_at: Time | None
    last_sequence: int
    message_count: int


class ToolCall(TypedDict):
    id: str
    name: str
    arguments: dict[str, Any]


class Message(TypedDict):
    sequence: int
    role: Role
    name: str | None
    content: str | list[dict[str, Any]]
    tool_calls: list[ToolCall]
    tool_call_id: str | None
    is_error: bool
    metadata: dict[str, Any]
    tokens: int
    created_at: Time | None
    idempotency_key: str | None


class Summary(TypedDict):
    text: str
    epoch: int
    upper_sequence: int
    message_count: int
    updated_at: Time | None


class Compacted(TypedDict):
    done: bool
    messages: int
    tokens_before: int
    tokens_after: int
    by: str | None
    reason: str


class ModelUsage(TypedDict):
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float


class RecordSource(TypedDict):
    session_id: str | None
    sequences: list[int]
    speaker: str | None
    sentence: str | None


class Record(TypedDict):
    id: str
    tenant: str
    level: str
    user: str | None
    agent: str | None
    session_id: str | None
    layer: Layer
    type: RecordType
    key: str | None
    title: str | None
    content: str
    tags: list[str]
    metadata: dict[str, str]
    confidence: float | None
    salience: float | None
    references: list[str]
    origin: str
    source: RecordSource
    created_at: Time | None
    updated_at: Time | None
    last_used_at: Time | None
    uses: int
    valid_from: Time | None
    valid_to: Time | None
    superseded_by: str | None
    expires_at: Time | None
    pinned: bool
    version: int
    subject: str | None
    attribute: str | None
    value: str | None
    polarity: bool
    said: int
    archived_at: Time | None
    inputs: list[str]


class Signal(TypedDict):
    rank: int
    score: float


class Source(TypedDict):
    kind: Literal["message", "record", "document"]
    id: str
    session_id: str | None
    first_sequence: int | None
    last_sequence: int | None
    role: str | None
    name: str | None
    created_at: Time | None
    uri: str | None
    offset: int | None
    end_offset: int | None


class Hit(TypedDict):
    rank: int
    score: float
    text: str
    signals: dict[str, Signal]
    source: Source
    metadata: dict[str, Any]
    neighbours: list[Message]


class Document(TypedDict):
    id: str
    uri: str
    title: str | None
    metadata: dict[str, str]
    content_hash: str
    created_at: Time
    updated_at: Time
    chunks: int
    status: str | None


class Dropped(TypedDict):
    what: str
    reason: str


class Context(TypedDict):
    text: str
    messages: list[Message]
    tokens: int
    sections: dict[str, str]
    hits: list[Hit]
    dropped: list[Dropped]


class Job(TypedDict):
    id: int
    kind: str
    tenant: str
    level: str
    owner: str
    detail: str
    state: str
    attempts: int
    run_at: Time | None
    leased_until: Time | None
    error: str | None
    created_at: Time | None


class Forgotten(TypedDict):
    forgotten: int
    ids: list[str]
    counts: dict[str, int]
    left: list[str]


class Finding(TypedDict):
    check: str
    status: str
    detail: str


class Granted(TypedDict):
    user: str
    grant: str
    at: Time
    by: str


class ApiKey(TypedDict):
    id: str
    tenant: str
    name: str
    user: str | None
    agent: str | None
    grants: list[str]
    created_at: Time
    created_by: str
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class AuditEntry(TypedDict):
    id: str
    at: Time
    last_at: Time
    principal: str
    tenant: str
    verb: str
    access: str
    outcome: str
    user: str | None
    agent: str | None
    session: str | None
    record: str | None
    missing: str | None
    calls: int


class Schedule(TypedDict):
    id: str
    tenant: str
    user: str
    agent: str
    goal: str
    cadence: str
    timezone: str
    state: Literal["active", "paused", "completed", "failed", "disabled"]
    notify: Literal["always", "conditional", "never"]
    channel: str | None
    chat: str | None
    thread: str | None
    session_id: str | None
    next_run_at: Time | None
    due_at: Time | None
    last_due_at: Time | None
    last_run_at: Time | None
    last_status: Literal["ok", "failed"] | None
    attempts: int
    failures: int
    run_count: int
    max_runs: int | None
    ends_at: Time | None
    running_until: Time | None
    metadata: dict[str, Any]
    created_at: Time
    updated_at: Time


class Run(TypedDict):
    id: str
    schedule_id: str
    due_at: Time
    started_at: Time
    ended_at: Time
    status: Literal["ok", "failed"]
    attempt: int
    missed: int
    summary: str
    output_characters: int
    turns: int
    cost: float
    error: str | None
    to_notify: bool
    notified: bool


class Receipt(TypedDict):
    id: str | None
    what: Literal["session", "user", "older"]
    digest: str
    before: Time | None
    asked_by: str | None
    asked_at: Time
    done_at: Time | None
    counts: dict[str, int]
    verified: bool
    left: list[str]
    bytes: str


class Retained(TypedDict):
    tenant: str
    agent: str | None
    days: dict[str, int]
    counts: dict[str, int]
