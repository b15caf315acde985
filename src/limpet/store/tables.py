"""Every table with its columns and key, parents before children."""

from __future__ import annotations

from typing import NamedTuple

from limpet.store.rows import ROWS


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


def _table(name: str, key: str, rest: str = "") -> Table:
    """A noun tells its own columns; ``rest`` are those that the store adds."""
    noun = ROWS[name].names if name in ROWS else ()
    keys = tuple(key.split())
    return Table(name, keys, tuple(dict.fromkeys((*keys, *rest.split(), *noun))))


TABLES = (
    _table(
        "partitions",
        "bucket id",
        "tenant level owner next_ordinal merged_ordinal chunk_count word_count removals next_graph_id",
    ),
    _table("sessions", "bucket partition_id id", "external_id key cleared_through summary_epoch oldest_at"),
    _table("messages", "bucket partition_id session_id sequence"),
    _table(
        "summaries",
        "bucket partition_id session_id",
        "text epoch upper_sequence message_count updated_at written_sequence written_characters",
    ),
    _table("kv", "bucket partition_id session_id key", "value position updated_at"),
    _table(
        "usage", "bucket partition_id session_id model", "calls input_tokens output_tokens cached_tokens cost_nanos"
    ),
    _table("cursors", "bucket partition_id session_id name", "sequence"),
    _table("records", "bucket partition_id id", "external_id owner source_session source_sequence"),
    _table("record_versions", "bucket partition_id record_id version", "body updated_at replaced_at"),
    _table("record_tags", "bucket partition_id record_id tag", ""),
    _table("record_metadata", "bucket partition_id record_id key", "value"),
    _table("record_inputs", "bucket partition_id record_id input_id", ""),
    _table("documents", "bucket partition_id id"),
    _table(
        "chunks",
        "bucket partition_id ordinal",
        "kind session_id record_id document_id first_sequence last_sequence role name created_at worded_at hash"
        " word_count flags terms text",
    ),
    _table("postings", "bucket partition_id term first_ordinal", "data"),
    _table("models", "id", "name dimension"),
    _table("vectors", "bucket partition_id ordinal model_id", "vector encrypted"),
    _table("late_vectors", "bucket partition_id number", "low high"),
    _table("entities", "bucket partition_id id", "normal first_word name"),
    _table("mentions", "bucket partition_id id", "entity_id kind session_id sequence record_id said_at"),
    _table(
        "relations",
        "bucket partition_id id",
        "subject_id predicate object_id value kind polarity sentence session_id sequence record_id said_at",
    ),
    _table(
        "jobs",
        "bucket tenant level owner kind detail",
        "id requests run_at attempts leased_until error dead created_at",
    ),
    _table("idempotency_keys", "bucket tenant level owner kind key_hash", "digest resource_id created_at"),
    _table("schedules", "bucket partition_id id", "text_folded leased_until token claimed_at claimed_due_at"),
    _table("schedule_runs", "bucket partition_id id", "output characters notice notice_until"),
    _table("imports", "tenant digest", "name sessions messages imported_at"),
    _table("transfers", "tenant digest", "user_id name state updated_at"),
    _table("audit", "tenant id"),
    _table("receipts", "tenant id"),
    _table("properties", "name", "value"),
    _table("grants", "tenant user_id name", "granted_at granted_by"),
    _table("api_keys", "id", "secret_hash"),
    _table("tenant_encryption", "tenant", "state version check_value old_check progress"),
)
