"""Every noun as the programs outside read it. Names here are a promise: add, never rename.

A text beside a type says what the field means, for the description of the API; ``Format`` says how it is written.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypedDict


class Format(NamedTuple):
    """One of JSON Schema's names for what a text looks like."""

    name: str


Time = Annotated[str, Format("date-time")]
Role = Literal["system", "user", "assistant", "tool"]
Layer = Literal["working", "episodic", "semantic", "procedural"]
RecordType = Literal[
    "fact", "preference", "constraint", "decision", "note", "failure", "fix", "command_result", "task_state"
]

# What more than one noun has.
Id = Annotated[str, "given by the store"]
Tenant = Annotated[str, "the tenant it belongs to"]
User = Annotated[str, "whose it is"]
Agent = Annotated[str, "the agent it belongs to"]
OfUser = Annotated[str | None, "the user it belongs to; null: no user's"]
OfAgent = Annotated[str | None, "the agent it belongs to; null: no agent's"]
OfSession = Annotated[str | None, "id of the session it belongs to; null: none's"]
Channel = Annotated[str | None, "where it was asked for and reports to; null: nowhere"]
Made = Annotated[Time, "when it was made"]
Kept = Annotated[Time | None, "when it was made; null: unknown"]
Changed = Annotated[Time, "when it was last changed"]
Extras = Annotated[dict[str, Any], "what whoever made it added"]
Labels = Annotated[dict[str, str], "what whoever made it added, texts by name"]
Counts = Annotated[dict[str, int], "how many of each kind were removed"]
Left = Annotated[list[str], "where the same can still be found, in words; empty: nowhere"]
Reason = Annotated[str, "why, in words"]
Read = Annotated[int, "tokens that models read"]
Written = Annotated[int, "tokens that models wrote"]
Cached = Annotated[int, "tokens of the input that came from a cache"]
Cost = Annotated[float, "in the currency in which it was reported"]


class Session(TypedDict):
    id: Id
    key: Annotated[str, "channel:chat or channel:chat:thread, escaped; outlives the id"]
    tenant: Tenant
    user: User
    agent: Agent
    channel: Annotated[str, "what carries the chat, such as telegram"]
    chat: Annotated[str, "the chat's name in its channel"]
    thread: Annotated[str | None, "the thread within the chat; null: it has none"]
    state: Annotated[Literal["ACTIVE", "PAUSED", "TERMINATED"], "TERMINATED is final"]
    metadata: Extras
    created_at: Made
    last_active_at: Annotated[Time, "when something was last said"]
    expires_at: Annotated[Time | None, "when its time to live is over, and retention removes it; null: never"]
    last_sequence: Annotated[int, "the highest number a message was given; 0: none yet"]
    message_count: Annotated[int, "messages that are there now"]


class ToolCall(TypedDict):
    id: Annotated[str, "what the result refers to; empty: none was given"]
    name: Annotated[str, "of the tool"]
    arguments: Annotated[dict[str, Any], "as the model gave them"]


class Message(TypedDict):
    sequence: Annotated[int, "its number in the session; grows, with gaps; 0: it was not kept"]
    role: Annotated[Role, "who speaks"]
    name: Annotated[str | None, "the speaker's name; null: none was given"]
    content: Annotated[str | list[dict[str, Any]], "text, or parts: text, image, file"]
    tool_calls: Annotated[list[ToolCall], "what the assistant asks tools to do"]
    tool_call_id: Annotated[str | None, "of a tool's result: the call it answers"]
    is_error: Annotated[bool, "whether a tool's result is an error"]
    metadata: Extras
    tokens: Annotated[int, "its length, estimated"]
    created_at: Annotated[Time | None, "when it was said: as given, else when it was kept"]
    idempotency_key: Annotated[str | None, "what it was sent with; null: nothing"]


class Summary(TypedDict):
    text: Annotated[str, "what was said, condensed"]
    epoch: Annotated[int, "higher with each rewriting"]
    upper_sequence: Annotated[int, "the last message it covers"]
    message_count: Annotated[int, "messages it covers"]
    updated_at: Annotated[Time | None, "when it was last written"]


class Compacted(TypedDict):
    done: Annotated[bool, "whether anything was condensed"]
    messages: Annotated[int, "messages the summary covers now that it did not before"]
    tokens_before: Annotated[int, "of the summary and the messages outside it, before"]
    tokens_after: Annotated[int, "the same, afterwards"]
    by: Annotated[str | None, "llm or digest; null: nothing was done"]
    reason: Annotated[str, "why it was done, or was not, in words"]


class ModelUsage(TypedDict):
    model: Annotated[str, "as it was reported"]
    calls: Annotated[int, "how often it was called"]
    input_tokens: Read
    output_tokens: Written
    cached_tokens: Cached
    cost: Cost


class RecordSource(TypedDict):
    session_id: Annotated[str | None, "the session it was learned from; null: from none"]
    sequences: Annotated[list[int], "the messages it was learned from"]
    speaker: Annotated[str | None, "who said it; null: unknown"]
    sentence: Annotated[str | None, "the very sentence; null: it was stated for itself"]


class Record(TypedDict):
    id: Id
    tenant: Tenant
    level: Annotated[str, "how far it reaches: session, user, agent or global"]
    user: OfUser
    agent: OfAgent
    session_id: OfSession
    layer: Annotated[Layer, "what kind of memory it is"]
    type: Annotated[RecordType, "what it states"]
    key: Annotated[str | None, "unique to its owner, saying it again replaces the content; null: it has none"]
    title: Annotated[str | None, "a heading; null: it has none"]
    content: Annotated[str, "what is remembered"]
    tags: Annotated[list[str], "words to filter by"]
    metadata: Labels
    confidence: Annotated[float | None, "how sure it is, 0 to 1"]
    salience: Annotated[float | None, "how much it matters, 0 to 1"]
    references: Annotated[list[str], "files, tests and the like that it names"]
    origin: Annotated[str, "explicit, extracted, promoted, turn or condensed"]
    source: Annotated[RecordSource, "where it was learned"]
    created_at: Kept
    updated_at: Annotated[Time | None, "when it was last changed; lists go by it"]
    last_used_at: Annotated[Time | None, "when it was last recalled for a turn; null: never"]
    uses: Annotated[int, "how often it was recalled for a turn"]
    valid_from: Annotated[Time | None, "since when it is true; null: always was"]
    valid_to: Annotated[Time | None, "since when it is not true any more; null: it is"]
    superseded_by: Annotated[str | None, "id of the record that took its place; null: none did"]
    expires_at: Annotated[Time | None, "when it ends by itself; null: never"]
    pinned: Annotated[bool, "stands in every context, and never fades"]
    version: Annotated[int, "1, and one more with each change of what it says"]
    subject: Annotated[str | None, "whom or what it is about, such as user or user/sister; null: unknown"]
    attribute: Annotated[str | None, "what of the subject, such as home; null: unknown"]
    value: Annotated[str | None, "what the attribute is; null: unknown"]
    polarity: Annotated[bool, "false: it denies, as in does not eat meat"]
    said: Annotated[int, "how often it was said"]
    archived_at: Annotated[Time | None, "since when it is faded, and not recalled any more; null: it is not"]
    inputs: Annotated[list[str], "ids of the records it was made from"]


class Signal(TypedDict):
    rank: Annotated[int, "its place by this signal alone; 1 is the best"]
    score: Annotated[float, "this signal's own measure; compare it with no other's"]


class Source(TypedDict):
    kind: Annotated[Literal["message", "record", "document"], "what the hit was cut from"]
    id: Annotated[str, "of the session, the record or the document"]
    session_id: Annotated[str | None, "of a message: its session; null: no message"]
    first_sequence: Annotated[int | None, "of messages: the first it stands in; null: no message"]
    last_sequence: Annotated[int | None, "of messages: the last it stands in; null: no message"]
    role: Annotated[str | None, "of a message: who spoke; null: no message"]
    name: Annotated[str | None, "of a message: the speaker's name; null: none was given"]
    created_at: Annotated[Time | None, "when it was said or made"]
    uri: Annotated[str | None, "of a document; null: no document"]
    offset: Annotated[int | None, "of a document: the character the hit begins at; null: no document"]
    end_offset: Annotated[int | None, "of a document: the character behind it; null: no document"]


class Hit(TypedDict):
    rank: Annotated[int, "its place; 1 is the best"]
    score: Annotated[float, "what it is ranked by; compare it within one answer only"]
    text: Annotated[str, "the passage"]
    signals: Annotated[dict[str, Signal], "why it stands there: words, vectors and so on, by name"]
    source: Annotated[Source, "where it came from"]
    metadata: Annotated[dict[str, Any], "of the message, record or document"]
    neighbours: Annotated[list[Message], "messages around it, where they were asked for"]


class Document(TypedDict):
    id: Id
    uri: Annotated[str, "the name it was given"]
    title: Annotated[str | None, "as given, or its own heading; null: it has none"]
    metadata: Labels
    content_hash: Annotated[str, "of its text: the same for the same text"]
    created_at: Made
    updated_at: Changed
    chunks: Annotated[int, "passages it was cut into"]
    status: Annotated[str | None, "what this call did: added, changed or unchanged; null: it was only read"]


class Dropped(TypedDict):
    what: Annotated[str, "what was left out"]
    reason: Reason


class Context(TypedDict):
    text: Annotated[str, "Markdown that belongs before the messages; data, not instructions"]
    messages: Annotated[list[Message], "the newest messages, as many as fit"]
    tokens: Annotated[int, "of the text and the messages, estimated"]
    sections: Annotated[dict[str, str], "what stands in the text, by heading"]
    hits: Annotated[list[Hit], "recalled passages that the text quotes, the best first"]
    dropped: Annotated[list[Dropped], "what was left out"]


class Job(TypedDict):
    id: Annotated[int, "given by the store"]
    kind: Annotated[str, "what is to be done, such as embed"]
    tenant: Tenant
    level: Annotated[str, "how far the memory it works on reaches"]
    owner: Annotated[str, "whose memory it works on"]
    detail: Annotated[str, "what of it, such as a session's id"]
    state: Annotated[str, "waiting, running or dead"]
    attempts: Annotated[int, "runs that were begun since it last went well"]
    run_at: Annotated[Time | None, "when it is due; null: now"]
    leased_until: Annotated[Time | None, "how long whoever is at it is waited for; null: nobody is"]
    error: Annotated[str | None, "of its last run; null: there was none"]
    created_at: Kept


class Forgotten(TypedDict):
    forgotten: Annotated[int, "how many records or documents went"]
    ids: Annotated[list[str], "of those that went"]
    counts: Counts
    left: Left


class Finding(TypedDict):
    check: Annotated[str, "what was looked at"]
    status: Annotated[str, "ok, repaired or FAULT"]
    detail: Annotated[str, "what was found, in words"]


class Granted(TypedDict):
    user: Annotated[str, "who may"]
    grant: Annotated[str, "what, such as read:global"]
    at: Annotated[Time, "since when"]
    by: Annotated[str, "who granted it"]


class ApiKey(TypedDict):
    id: Id
    tenant: Tenant
    name: Annotated[str, "unique among the tenant's live keys"]
    user: Annotated[str | None, "whom it acts for; null: no user"]
    agent: Annotated[str | None, "the agent it acts for; null: no agent"]
    grants: Annotated[list[str], "what it may besides, such as read:global"]
    created_at: Made
    created_by: Annotated[str, "who made it, as the audit names them"]
    expires_at: Annotated[Time | None, "when it ends by itself; null: never"]
    revoked_at: Annotated[Time | None, "since when it opens nothing; null: it was not revoked"]
    last_used_at: Annotated[Time | None, "to the minute; null: never"]


class AuditEntry(TypedDict):
    id: Id
    at: Annotated[Time, "of the first call"]
    last_at: Annotated[Time, "of the last call"]
    principal: Annotated[str, "who called"]
    tenant: Tenant
    verb: Annotated[str, "what was called"]
    access: Annotated[str, "read, write or read+write"]
    outcome: Annotated[str, "done, refused or failed"]
    user: Annotated[str | None, "whose memory; null: no user's"]
    agent: Annotated[str | None, "whose memory; null: no agent's"]
    session: Annotated[str | None, "id of the session; null: none"]
    record: Annotated[str | None, "id of the record; null: none"]
    missing: Annotated[str | None, "the grant it was refused for; null: it was not"]
    calls: Annotated[int, "how many equal calls"]


class Schedule(TypedDict):
    id: Id
    tenant: Tenant
    user: User
    agent: Agent
    goal: Annotated[str, "what is to be done each time"]
    cadence: Annotated[str, "when: cron, once or every"]
    timezone: Annotated[str, "the zone of its clock times"]
    state: Annotated[
        Literal["active", "paused", "completed", "failed", "disabled"],
        "completed and failed: nothing is left to fire; disabled: failed too often in a row",
    ]
    notify: Annotated[Literal["always", "conditional", "never"], "conditional: what begins with [NOTIFY]"]
    channel: Channel
    chat: Channel
    thread: Channel
    session_id: Annotated[str | None, "the session it was asked for in; null: in none"]
    next_run_at: Annotated[Time | None, "when it runs next: at due_at, or later when it is tried again; null: never"]
    due_at: Annotated[Time | None, "the firing that comes next; null: none"]
    last_due_at: Annotated[Time | None, "the latest firing that is over; null: none is"]
    last_run_at: Annotated[Time | None, "when it last ran; null: never"]
    last_status: Annotated[Literal["ok", "failed"] | None, "how that ended; null: it never ran"]
    attempts: Annotated[int, "runs of the firing that is due that were begun"]
    failures: Annotated[int, "runs in a row that failed"]
    run_count: Annotated[int, "firings that are over"]
    max_runs: Annotated[int | None, "firings after which it ends; null: no limit"]
    ends_at: Annotated[Time | None, "when it ends; null: never"]
    running_until: Annotated[Time | None, "how long whoever runs it now is waited for; null: nobody does"]
    metadata: Extras
    created_at: Made
    updated_at: Changed


class Run(TypedDict):
    id: Id
    schedule_id: Annotated[str, "the schedule it is of"]
    due_at: Annotated[Time, "the firing it is for"]
    started_at: Annotated[Time, "when it began"]
    ended_at: Annotated[Time, "when it ended"]
    status: Annotated[Literal["ok", "failed"], "how it ended"]
    attempt: Annotated[int, "1, and one more each time the firing was tried again"]
    missed: Annotated[int, "later firings it stands for, too: nobody was there to run them"]
    summary: Annotated[str, "the beginning of what it said"]
    output_characters: Annotated[int, "length of all it said"]
    turns: Annotated[int, "turns it took"]
    cost: Cost
    error: Annotated[str | None, "what went wrong; null: nothing"]
    to_notify: Annotated[bool, "whether somebody is to be told of it"]
    notified: Annotated[bool, "whether somebody was"]


class Receipt(TypedDict):
    id: Annotated[str | None, "given by the store; null: nothing was removed, only counted"]
    what: Annotated[Literal["session", "user", "older"], "what was asked for"]
    digest: Annotated[str, "SHA-256 of whom it was about: whoever knows the name can check it"]
    before: Annotated[Time | None, "of older: what was made before it went; null: all went"]
    asked_by: Annotated[str | None, "where it was asked for, such as http; null: unknown"]
    asked_at: Annotated[Time, "when it was asked for"]
    done_at: Annotated[Time | None, "when the last of it was removed; null: it still goes on"]
    counts: Counts
    verified: Annotated[bool, "whether a search afterwards found nothing of it"]
    left: Left
    bytes: Annotated[str, "on the disk: gone, waiting for a job, or for a vacuum of PostgreSQL"]


class Retained(TypedDict):
    tenant: Tenant
    agent: Annotated[str | None, "whose sessions; null: the tenant's records and documents"]
    days: Annotated[dict[str, int], "how long each kind is kept; 0: for ever"]
    counts: Counts
