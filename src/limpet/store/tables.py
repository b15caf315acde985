"""Every table with its columns and key, parents before children."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


def _table(name: str, key: str, rest: str) -> Table:
    keys = tuple(key.split())
    return Table(name, keys, (*keys, *rest.split()))


TABLES = (
    _table(
        "partitions",
        "bucket id",
        "tenant level owner next_ordinal merged_ordinal chunk_count word_count removals next_graph_id",
    ),
    _table(
        "sessions",
        "bucket partition_id id",
        "external_id tenant user_id agent key channel chat thread state metadata created_at last_active_at expires_at"
        " last_sequence message_count cleared_through summary_epoch oldest_at",
    ),
    _table(
        "messages",
        "bucket partition_id session_id sequence",
        "role content parts name tool_calls tool_call_id is_error metadata tokens created_at idempotency_key",
    ),
    _table("summaries", "bucket partition_id session_id", "text epoch upper_sequence message_count updated_at"),
    _table("kv", "bucket partition_id session_id key", "value position updated_at"),
    _table(
        "usage", "bucket partition_id session_id model", "calls input_tokens output_tokens cached_tokens cost_nanos"
    ),
    _table("cursors", "bucket partition_id session_id name", "sequence"),
    _table(
        "records",
        "bucket partition_id id",
        "external_id tenant level owner user_id agent session_id layer type key title content tags metadata confidence"
        " salience refs fingerprint source origin created_at updated_at last_used_at uses valid_from valid_to"
        " superseded_by expires_at pinned version subject attribute value polarity said archived_at inputs",
    ),
    _table("record_versions", "bucket partition_id record_id version", "body updated_at replaced_at"),
    _table("record_tags", "bucket partition_id record_id tag", ""),
    _table("record_metadata", "bucket partition_id record_id key", "value"),
    _table("record_inputs", "bucket partition_id record_id input_id", ""),
    _table("documents", "bucket partition_id id", "uri title content_hash metadata created_at updated_at"),
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
    _table(
        "schedules",
        "bucket partition_id id",
        "tenant user_id agent goal goal_folded cadence timezone state notify channel chat thread session_id next_run_at"
        " due_at last_due_at skipped_from skipped_to last_run_at last_status attempts failures run_count max_runs"
        " ends_at anchor_at settled_at leased_until token metadata created_at updated_at",
    ),
    _table(
        "schedule_runs",
        "bucket partition_id id",
        "schedule_id due_at started_at ended_at status attempt missed summary output characters turns cost_nanos error"
        " notice notice_until",
    ),
    _table("imports", "tenant digest", "name sessions messages imported_at"),
    _table("transfers", "tenant digest", "user_id name state updated_at"),
    _table(
        "audit",
        "tenant id",
        "at last_at principal verb access outcome user_id agent session_id record_id missing calls",
    ),
    _table(
        "receipts",
        "tenant id",
        "what digest before_at asked_by asked_at done_at counts verified remaining bytes",
    ),
    _table("properties", "name", "value"),
    _table("grants", "tenant user_id name", "granted_at granted_by"),
    _table(
        "api_keys",
        "id",
        "tenant name secret_hash user_id agent grants created_at created_by expires_at revoked_at last_used_at",
    ),
    _table("tenant_encryption", "tenant", "state version check_value old_check progress"),
)
