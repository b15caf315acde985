"""Tests of the contract that say nothing about ``Limpet.connect``, and why.

A test that calls what does not work over HTTP (``left_out={"remote": …}`` in the table) is skipped by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

CHECKED = "the client refuses wrong arguments itself, so that the server has no failed call to log"
CRASH = "a function of the test fails in the server's thread, where it is an internal error"
LIMITS = "files are read by the client, which does not know the limits that the server is set to"
PROGRESS = "progress is not reported over HTTP"
EXPORTED = "looks at what a schedule counts its intervals from, which only exports tell"
EQUAL = "compares a record with one read from the store: fields that are not in its JSON differ"

NOT_REMOTE: Mapping[str, str] = {
    "test_audit_records_failed_calls": CHECKED,
    "test_audit_and_log_never_contain_content": CHECKED,
    "test_audit_log_has_one_line_per_call": "a client reads a session again after it has changed it",
    "test_add_document_rejects_unreadable_file_and_changes_nothing": LIMITS,
    "test_add_document_rejects_text_over_size_limit": LIMITS,
    "test_add_document_skips_unsuitable_files_of_folder": LIMITS,
    "test_embedding_when_later_stores_vectors_only_in_jobs": PROGRESS,
    "test_extend_reports_embedding_progress": PROGRESS,
    "test_import_resumes_after_interruption": PROGRESS,
    "test_job_that_kills_its_worker_is_dead_after_last_attempt": CRASH,
    "test_idempotency_key_is_not_stored_when_request_fails": CRASH,
    "test_interrupted_purge_is_finished_by_next_call_or_worker": CRASH,
    "test_killed_purge_is_finished_by_next_run_at_once": CRASH,
    "test_killed_purge_in_slices_is_finished_by_next_worker": CRASH,
    "test_killed_deletion_of_session_is_finished_by_next_worker": CRASH,
    "test_killed_add_leaves_old_document_whole": CRASH,
    "test_killed_first_add_leaves_no_document": CRASH,
    "test_killed_removal_of_document_is_finished_by_worker": CRASH,
    "test_turn_without_reply_whose_message_is_not_kept_raises": "the server refuses it when the block begins",
    "test_turn_that_was_not_kept_at_first_is_kept_at_its_end": "a server that cannot store answers no context",
    "test_turn_reply_returns_none_when_it_cannot_be_stored_and_settings_say_log": "a client has no settings of turns",
    "test_always_included_records_are_newest_of_each_layer": EQUAL,
    "test_import_restores_schedules_and_runs_of_purged_user": EXPORTED,
    "test_import_keeps_existing_schedule_unchanged": EXPORTED,
    "test_import_schedules_under_another_user_assigns_new_ids": EXPORTED,
    "test_interrupted_import_restarts_after_purge": EXPORTED,
    "test_import_can_be_repeated_after_purge": EXPORTED,
    "test_export_after_purge_omits_user": EXPORTED,
    "test_embedding_job_lease_expires_when_worker_dies": CRASH,
    "test_import_into_encrypted_tenant_encrypts_its_progress": PROGRESS,
    "test_audit_anonymizes_purged_user": "gives ids that are none, which a client does not read",
    "test_schedule_of_hung_runner_is_run_by_another": "runs schedules in a thread of the test",
    "test_add_document_from_file_requires_store_grant": "files are read by the client, on its machine",
    "test_acting_handle_close_does_not_close_store": "a client is closed for itself; the store stays with the server",
    "test_async_limpet_uses_same_authorizer": "closes a handle that acts for somebody",
    "test_turn_with_too_small_budget_stores_nothing": "the server refuses it when the block begins",
    "test_turn_continues_when_store_is_full": "a server that cannot store the question answers no context",
    "test_turn_continues_when_store_is_unreachable": "counts the steps that failed in process",
}


def find_reason(item: pytest.Item) -> str | None:
    name = getattr(item, "originalname", item.name)
    return NOT_REMOTE.get(name) or NOT_REMOTE.get(f"{item.path.name}::{name}")
