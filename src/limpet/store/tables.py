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
    _table("spaces", "id", "tenant level owner next_ordinal merged_ordinal chunk_count word_count removals"),
    _table(
        "sessions",
        "id",
        "tenant user_id agent space_id key channel chat thread state metadata created_at last_active_at expires_at"
        " last_sequence message_count cleared_through summary_epoch oldest_at",
    ),
    _table(
        "messages",
        "session_id sequence",
        "role content parts name tool_calls tool_call_id is_error metadata tokens created_at idempotency_key",
    ),
    _table("summaries", "session_id", "text epoch upper_sequence message_count updated_at"),
    _table("kv", "session_id key", "value position updated_at"),
    _table("usage", "session_id model", "calls input_tokens output_tokens cached_tokens cost_nanos"),
    _table(
        "records",
        "id",
        "tenant level owner user_id agent session_id space_id layer type key title content tags metadata confidence"
        " salience refs fingerprint source origin created_at updated_at last_used_at uses valid_from valid_to"
        " superseded_by expires_at pinned version subject attribute value polarity said archived_at inputs",
    ),
    _table("record_versions", "record_id version", "body updated_at replaced_at"),
    _table("record_tags", "record_id tag", ""),
    _table("record_metadata", "record_id key", "value"),
    _table("record_inputs", "record_id input_id", ""),
    _table("cursors", "session_id name", "sequence"),
    _table("documents", "id", "space_id uri title content_hash metadata created_at updated_at"),
    _table(
        "chunks",
        "id",
        "space_id kind session_id record_id document_id first_sequence last_sequence role name created_at worded_at"
        " hash word_count traits terms text",
    ),
    _table("postings", "space_id term first_ordinal", "data"),
    _table("models", "id", "name dimension"),
    _table("vectors", "model_id chunk_id", "vector sealed"),
    _table("late_vectors", "space_id number", "low high"),
    _table("jobs", "id", "kind key tenant payload asked run_at attempts leased_until error dead created_at owner"),
    _table("entities", "id", "space_id normal first_word name"),
    _table("mentions", "id", "entity_id space_id kind session_id sequence record_id said_at"),
    _table(
        "relations",
        "id",
        "space_id subject_id predicate object_id value kind polarity sentence session_id sequence record_id said_at",
    ),
    _table(
        "schedules",
        "id",
        "tenant user_id agent goal goal_folded cadence timezone state notify channel chat thread session_id next_run_at"
        " due_at last_due_at skipped_from skipped_to last_run_at last_status attempts failures run_count max_runs"
        " ends_at anchor_at settled_at leased_until token metadata created_at updated_at",
    ),
    _table(
        "schedule_runs",
        "id",
        "schedule_id due_at started_at ended_at status attempt missed summary output characters turns cost_nanos error"
        " notice notice_until",
    ),
    _table("imports", "tenant digest", "name sessions messages imported_at"),
    _table("moves", "tenant digest", "user_id name state marked_at"),
    _table("properties", "name", "value"),
    _table("grants", "tenant user_id name", "granted_at granted_by"),
    _table(
        "audit",
        "id",
        "tenant at last_at principal verb access outcome user_id agent session_id record_id missing calls",
    ),
    _table(
        "receipts",
        "id",
        "tenant what digest before_at asked_by asked_at done_at counts verified remaining bytes",
    ),
    _table(
        "api_keys",
        "id",
        "tenant name secret_hash user_id agent grants created_at created_by expires_at revoked_at last_used_at",
    ),
    _table("once", "tenant owner kind key_hash", "digest made_id made_at"),
    _table("seals", "tenant", "state version check_value old_check progress"),
)
