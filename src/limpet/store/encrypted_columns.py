"""Which columns of an encrypted tenant are encrypted, and why the others are not.

The nouns say it of their own columns, other tables here; a test compares this with the schema. Rows go through
``cipher.encrypt_params(TABLE, row, params)`` on their way in and ``cipher.decrypt_row(LAYOUT, row, values)`` on their
way out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from limpet.model.columns import RowCodec, encrypted_names
from limpet.store.encryption import EncryptedColumn, EncryptedColumns, declare_columns
from limpet.store.rows import (
    AUDIT_ROWS,
    DOCUMENT_ROWS,
    KEY_ROWS,
    MESSAGE_ROWS,
    RECEIPT_ROWS,
    RECORD_ROWS,
    RUN_ROWS,
    SCHEDULE_ROWS,
    SESSION_ROWS,
)

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


class _NounColumns(Mapping[str, EncryptedColumn]):
    """Those of a noun, and columns of text that the store adds. They are read from the noun when they are needed."""

    def __init__(self, table: str, rows: RowCodec[Any], text: str = "") -> None:
        self._table, self._rows, self._text = table, rows, text

    @cached_property
    def _columns(self) -> EncryptedColumns:
        of_noun = declare_columns(self._table, **encrypted_names(self._rows))
        return {**of_noun, **declare_columns(self._table, text=self._text)}

    def __getitem__(self, name: str) -> EncryptedColumn:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _plain(rows: RowCodec[Any], **more: str) -> dict[str, str]:
    """The readable texts of a noun with what they are, and those that the store adds."""
    return {column.name: column.plain for column in rows.columns if column.plain} | more


SESSIONS = _NounColumns("sessions", SESSION_ROWS)
MESSAGES = _NounColumns("messages", MESSAGE_ROWS)
SUMMARIES = declare_columns("summaries", text="text")
KV = declare_columns("kv", text="value", same="key")
RECORDS = _NounColumns("records", RECORD_ROWS)
RECORD_VERSIONS = declare_columns("record_versions", text="body")
RECORD_TAGS = declare_columns("record_tags", same="tag")
RECORD_METADATA = declare_columns("record_metadata", same="key value")
DOCUMENTS = _NounColumns("documents", DOCUMENT_ROWS)
CHUNKS = declare_columns("chunks", text="text name", same_bytes="hash", terms="terms")
VECTORS = declare_columns("vectors", vector="vector encrypted")
JOBS = declare_columns("jobs", text="error")
ENTITIES = declare_columns("entities", text="name", same="normal first_word")
RELATIONS = declare_columns("relations", text="predicate value sentence")
IMPORTS = declare_columns("imports", text="name", same="digest")
TRANSFERS = declare_columns("transfers", text="name state", same="digest")
SCHEDULES = _NounColumns("schedules", SCHEDULE_ROWS, text="text_folded")
SCHEDULE_RUNS = _NounColumns("schedule_runs", RUN_ROWS, text="output")
# Hashes, too: who guesses a short key, and what was asked for under it, must not find it confirmed here.
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


def list_plaintext_columns() -> Mapping[str, Mapping[str, str]]:
    """Text and bytes that stay readable, table by table, and what they are."""
    return {
        "partitions": {"tenant": "whose", "level": "whose", "owner": "a user's or agent's id"},
        "sessions": _plain(SESSION_ROWS, external_id="an id", key="channel, chat and thread: sessions are found by it"),
        "messages": _plain(MESSAGE_ROWS, session_id="an id"),
        "summaries": {"session_id": "an id"},
        "kv": {"session_id": "an id"},
        "usage": {"session_id": "an id", "model": "a model's name"},
        "records": _plain(RECORD_ROWS, external_id="an id", owner="whose"),
        "record_versions": {"record_id": "an id"},
        "record_tags": {"record_id": "an id"},
        "record_metadata": {"record_id": "an id"},
        "record_inputs": {"record_id": "an id", "input_id": "an id"},
        "cursors": {"session_id": "an id", "name": "a word of ours"},
        "documents": _plain(DOCUMENT_ROWS),
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
        "schedules": _plain(SCHEDULE_ROWS),
        "schedule_runs": _plain(RUN_ROWS),
        "grants": {"tenant": "whose", "user_id": "whose", "name": "a right, and whose", "granted_by": "whose"},
        "audit": _plain(AUDIT_ROWS),
        "api_keys": _plain(KEY_ROWS) | {"secret_hash": "tells whether a secret is this key's; it cannot be guessed"},
        "idempotency_keys": {
            "tenant": "whose",
            "level": "whose",
            "owner": "whose",
            "kind": "a word of ours",
            "resource_id": "an id",
        },
        "receipts": _plain(RECEIPT_ROWS),
        "properties": {"name": "a word of ours", "value": "about the store itself"},
        "tenant_encryption": {
            "tenant": "whose",
            "state": "a word of ours",
            "check_value": "tells keys apart, and nothing else about them",
            "old_check": "the same, of the key before",
            "progress": "table names and ids",
        },
    }
