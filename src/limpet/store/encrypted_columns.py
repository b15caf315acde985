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

ENCRYPTED_COLUMNS: dict[str, EncryptedColumns] = {}
# A row that a value is bound to is named by these columns as they are stored. Of rows that the database numbers, what
# is known before.
AAD_COLUMNS: dict[str, tuple[str, ...]] = {}


class _NounColumns(Mapping[str, EncryptedColumn]):
    """Those of a noun, and columns that the store adds. They are read from the noun when they are needed."""

    def __init__(self, table: str, rows: RowCodec[Any], added: EncryptedColumns) -> None:
        self._table, self._rows, self._added = table, rows, added

    @cached_property
    def _columns(self) -> EncryptedColumns:
        return {**declare_columns(self._table, **encrypted_names(self._rows)), **self._added}

    def __getitem__(self, name: str) -> EncryptedColumn:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _declare(table: str, bound_to: str, rows: RowCodec[Any] | None = None, **kinds: str) -> EncryptedColumns:
    added = declare_columns(table, **kinds)
    AAD_COLUMNS[table] = tuple(bound_to.split())
    ENCRYPTED_COLUMNS[table] = added if rows is None else _NounColumns(table, rows, added)
    return ENCRYPTED_COLUMNS[table]


SESSIONS = _declare("sessions", "id", SESSION_ROWS)
MESSAGES = _declare("messages", "session_id sequence", MESSAGE_ROWS)
SUMMARIES = _declare("summaries", "session_id", text="text")
KV = _declare("kv", "session_id key", text="value", same="key")
RECORDS = _declare("records", "id", RECORD_ROWS)
RECORD_VERSIONS = _declare("record_versions", "record_id version", text="body")
RECORD_TAGS = _declare("record_tags", "record_id", same="tag")
RECORD_METADATA = _declare("record_metadata", "record_id", same="key value")
DOCUMENTS = _declare("documents", "id", DOCUMENT_ROWS)
CHUNKS = _declare("chunks", "partition_id ordinal", text="text name", same_bytes="hash", terms="terms")
VECTORS = _declare("vectors", "partition_id ordinal model_id", vector="vector encrypted")
JOBS = _declare("jobs", "id", text="error")
ENTITIES = _declare("entities", "partition_id normal", text="name", same="normal first_word")
RELATIONS = _declare("relations", "partition_id subject_id", text="predicate value sentence")
IMPORTS = _declare("imports", "digest", text="name", same="digest")
TRANSFERS = _declare("transfers", "digest", text="name state", same="digest")
SCHEDULES = _declare("schedules", "id", SCHEDULE_ROWS, text="text_folded")
SCHEDULE_RUNS = _declare("schedule_runs", "id", RUN_ROWS, text="output")
# Hashes, too: who guesses a short key, and what was asked for under it, must not find it confirmed here.
IDEMPOTENCY_KEYS = _declare("idempotency_keys", "key_hash", same="key_hash digest")


def _plain(rows: RowCodec[Any], **more: str) -> dict[str, str]:
    """The readable texts of a noun with what they are, and those that the store adds."""
    return {column.name: column.plain for column in rows.columns if column.plain} | more


def list_plaintext_columns() -> Mapping[str, Mapping[str, str]]:
    """Text and bytes that stay readable, table by table, and what they are."""
    return {
        "partitions": {"tenant": "whose", "level": "whose", "owner": "a user's or agent's id"},
        "sessions": _plain(SESSION_ROWS, external_id="an id", key="channel, chat and thread: sessions are found by it"),
        "messages": _plain(MESSAGE_ROWS, session_id="an id"),
        "summaries": {"session_id": "an id"},
        "kv": {"session_id": "an id"},
        "usage": {"session_id": "an id", "model": "a model's name"},
        "records": _plain(RECORD_ROWS, external_id="an id", source_session="an id", owner="whose"),
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
