"""Which columns of a sealed tenant are sealed, and why the others are not.

A new table says here what becomes of its columns of text; a test compares this with the schema. Then its rows go
through ``box.params(TABLE, row, params)`` on their way in and ``box.opened(SHAPE, row, values)`` on their way out.
"""

from __future__ import annotations

from collections.abc import Mapping

from limpet.store.encryption import EncryptedColumns, declare_columns

# A row that a value is bound to is named by these columns as they are stored. Of rows that the database numbers, what
# is known before.
AAD_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sessions": ("id",),
    "messages": ("session_id", "sequence"),
    "summaries": ("session_id",),
    "kv": ("session_id", "key"),
    "records": ("id",),
    "record_versions": ("record_id", "version"),
    "record_tags": ("record_id",),
    "record_metadata": ("record_id",),
    "documents": ("id",),
    "chunks": ("partition_id", "ordinal"),
    "vectors": ("partition_id", "ordinal", "model_id"),
    "jobs": ("id",),
    "entities": ("partition_id", "normal"),
    "relations": ("partition_id", "subject_id"),
    "imports": ("digest",),
    "transfers": ("digest",),
    "schedules": ("id",),
    "schedule_runs": ("id",),
    "idempotency_keys": ("key_hash",),
}

SESSIONS = declare_columns("sessions", text="metadata")
MESSAGES = declare_columns(
    "messages", text="content parts name tool_calls tool_call_id metadata", same="idempotency_key"
)
SUMMARIES = declare_columns("summaries", text="text")
KV = declare_columns("kv", text="value", same="key")
RECORDS = declare_columns(
    "records",
    text="title content tags metadata refs value",
    same="fingerprint subject attribute",
    key="key",
    source="source",
)
RECORD_VERSIONS = declare_columns("record_versions", text="body")
RECORD_TAGS = declare_columns("record_tags", same="tag")
RECORD_METADATA = declare_columns("record_metadata", same="key value")
DOCUMENTS = declare_columns("documents", text="title metadata", same="uri", same_bytes="content_hash")
CHUNKS = declare_columns("chunks", text="text name", same_bytes="hash", terms="terms")
VECTORS = declare_columns("vectors", vector="vector encrypted")
JOBS = declare_columns("jobs", text="error")
ENTITIES = declare_columns("entities", text="name", same="normal first_word")
RELATIONS = declare_columns("relations", text="predicate value sentence")
IMPORTS = declare_columns("imports", text="name", same="digest")
TRANSFERS = declare_columns("transfers", text="name state", same="digest")
SCHEDULES = declare_columns("schedules", text="goal goal_folded metadata")
SCHEDULE_RUNS = declare_columns("schedule_runs", text="summary output error")
# Hashes, too: whoever guesses a short key, and what was asked for under it, must not find it confirmed here.
IDEMPOTENCY_KEYS = declare_columns("idempotency_keys", same="key_hash digest")

ENCRYPTED_COLUMNS: Mapping[str, EncryptedColumns] = {
    "sessions": SESSIONS,
    "messages": MESSAGES,
    "summaries": SUMMARIES,
    "kv": KV,
    "records": RECORDS,
    "record_versions": RECORD_VERSIONS,
    "record_tags": RECORD_TAGS,
    "record_metadata": RECORD_METADATA,
    "documents": DOCUMENTS,
    "chunks": CHUNKS,
    "vectors": VECTORS,
    "jobs": JOBS,
    "entities": ENTITIES,
    "relations": RELATIONS,
    "imports": IMPORTS,
    "transfers": TRANSFERS,
    "schedules": SCHEDULES,
    "schedule_runs": SCHEDULE_RUNS,
    "idempotency_keys": IDEMPOTENCY_KEYS,
}

# Text and bytes that stay readable, table by table, and what they are.
PLAINTEXT_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "partitions": {"tenant": "whose", "level": "whose", "owner": "a user's or agent's id"},
    "sessions": {
        "id": "an id",
        "external_id": "an id",
        "tenant": "whose",
        "user_id": "whose",
        "agent": "whose",
        "key": "channel, chat and thread, by which sessions are found",
        "channel": "by which sessions are found",
        "chat": "the chat's id",
        "thread": "the thread's id",
        "state": "a word of ours",
    },
    "messages": {"session_id": "an id", "role": "a word of ours"},
    "summaries": {"session_id": "an id"},
    "kv": {"session_id": "an id"},
    "usage": {"session_id": "an id", "model": "a model's name"},
    "records": {
        "id": "an id",
        "external_id": "an id",
        "tenant": "whose",
        "level": "whose",
        "owner": "whose",
        "user_id": "whose",
        "agent": "whose",
        "session_id": "an id",
        "layer": "a word of ours",
        "type": "a word of ours",
        "origin": "a word of ours",
        "superseded_by": "an id",
        "inputs": "ids",
    },
    "record_versions": {"record_id": "an id"},
    "record_tags": {"record_id": "an id"},
    "record_metadata": {"record_id": "an id"},
    "record_inputs": {"record_id": "an id", "input_id": "an id"},
    "cursors": {"session_id": "an id", "name": "a word of ours"},
    "documents": {"id": "an id"},
    "chunks": {
        "kind": "a word of ours",
        "session_id": "an id",
        "record_id": "an id",
        "document_id": "an id",
        "role": "a word of ours",
    },
    "postings": {"data": "which chunks hold a term, how often, and how long they are"},
    "models": {"name": "a model's name"},
    "jobs": {
        "tenant": "whose",
        "level": "whose",
        "owner": "whose",
        "kind": "a word of ours",
        "detail": "which session, record or model",
    },
    "mentions": {"kind": "a word of ours", "session_id": "an id", "record_id": "an id"},
    "relations": {"kind": "a word of ours", "session_id": "an id", "record_id": "an id"},
    "imports": {"tenant": "whose"},
    "transfers": {"tenant": "whose", "user_id": "whose"},
    "schedules": {
        "id": "an id",
        "tenant": "whose",
        "user_id": "whose",
        "agent": "whose",
        "cadence": "when it is due",
        "timezone": "when it is due",
        "state": "a word of ours",
        "notify": "a word of ours",
        "channel": "where it was asked for",
        "chat": "the chat's id",
        "thread": "the thread's id",
        "session_id": "an id",
        "last_status": "a word of ours",
    },
    "schedule_runs": {"id": "an id", "schedule_id": "an id", "status": "a word of ours"},
    "grants": {"tenant": "whose", "user_id": "whose", "name": "a right, and whose", "granted_by": "whose"},
    "audit": {
        "id": "an id",
        "tenant": "whose",
        "principal": "who",
        "verb": "a word of ours",
        "access": "a word of ours",
        "outcome": "a word of ours",
        "user_id": "whose",
        "agent": "whose",
        "session_id": "an id",
        "record_id": "an id",
        "missing": "a right, and whose",
    },
    "api_keys": {
        "id": "an id",
        "tenant": "whose",
        "name": "what people call it",
        "secret_hash": "tells whether a secret is this key's; it cannot be guessed",
        "user_id": "whose",
        "agent": "whose",
        "grants": "rights, and whose",
        "created_by": "who",
    },
    "idempotency_keys": {
        "tenant": "whose",
        "level": "whose",
        "owner": "whose",
        "kind": "a word of ours",
        "resource_id": "an id",
    },
    "receipts": {
        "id": "an id",
        "tenant": "whose",
        "what": "a word of ours",
        "digest": "tells a name from another to whoever knows it",
        "asked_by": "who",
        "counts": "kinds of rows, and how many",
        "remaining": "names of places where something was left",
        "bytes": "a word of ours",
    },
    "properties": {"name": "a word of ours", "value": "about the store itself"},
    "tenant_encryption": {
        "tenant": "whose",
        "state": "a word of ours",
        "check_value": "tells keys apart, and nothing else about them",
        "old_check": "the same, of the key before",
        "progress": "table names and ids",
    },
}
