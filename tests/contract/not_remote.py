"""Tests of the contract that say nothing about ``Limpet.connect``, and why.

A test that calls what does not work over HTTP (``left_out={"remote": …}`` in the table) is skipped by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

AUDIT = "a server makes calls of its own, such as loading the session, which the audit log counts"
CRASH = "a function of the test fails in the server's thread, where it is an internal error"
CONFLICT = "over HTTP a key that stands for another message is a conflict"
KEY = "over HTTP an idempotency key is ASCII without spaces"
LIMITS = "files are read by the client, which does not know the limits that the server is set to"
PROGRESS = "progress is not reported over HTTP"
EXPORTED = "looks at what a schedule counts its intervals from, which only exports tell"
EQUAL = "compares a record with one read from the store: fields that are not in its JSON differ"

NOT_REMOTE: Mapping[str, str] = {
    "test_equal_calls_of_a_minute_are_one_row": AUDIT,
    "test_counts_are_written_beside_the_next_write": AUDIT,
    "test_where_nobody_writes_a_read_does_it_after_a_while": AUDIT,
    "test_calls_that_fail_are_told_too": AUDIT,
    "test_neither_the_table_nor_the_log_holds_what_was_said": AUDIT,
    "test_the_log_has_a_line_for_each_call": AUDIT,
    "test_each_part_can_be_switched_off": AUDIT,
    "test_an_audit_that_cannot_be_written_breaks_no_read": AUDIT,
    "test_what_cannot_be_kept_is_refused_and_changes_nothing": LIMITS,
    "test_a_text_that_is_too_long_is_refused": LIMITS,
    "test_what_is_no_document_is_passed_over": LIMITS,
    "test_later_makes_vectors_only_when_jobs_run": PROGRESS,
    "test_extend_tells_how_far_the_embedding_is": PROGRESS,
    "test_an_import_goes_on_where_it_was": PROGRESS,
    "test_a_job_that_kills_its_worker_each_time_is_laid_aside_at_last": CRASH,
    "test_what_failed_was_not_made": CRASH,
    "test_a_purge_that_was_begun_is_finished": CRASH,
    "test_a_repeated_append_returns_the_first_result": CONFLICT,
    "test_two_threads_with_one_key_store_one_message": CONFLICT,
    "test_a_purge_takes_them_with_the_user": KEY,
    "test_a_repeated_turn_changes_nothing": KEY,
    "test_standing_records_are_the_newest_of_each_kind": EQUAL,
    "test_a_purged_users_schedules_come_back_with_all_they_said": EXPORTED,
    "test_one_that_is_here_is_neither_doubled_nor_changed": EXPORTED,
    "test_under_another_name_they_are_the_others_own": EXPORTED,
    "test_an_interrupted_import_begins_anew_after_a_purge": EXPORTED,
    "test_an_import_that_is_done_can_be_done_again_after_a_purge": EXPORTED,
    "test_what_is_left_of_a_purged_user_is_not_exported": EXPORTED,
    "test_a_worker_that_dies_leaves_its_job_to_the_next_when_its_lease_ends": CRASH,
    "test_a_sealed_tenant_answers_what_an_open_one_answers": CONFLICT,
    "test_a_copy_stays_sealed_in_both_directions": CONFLICT,
    "test_sealed_lives.py::test_a_user_comes_back_as_they_were": CONFLICT,
    "test_insert_or_replace_rots_the_index_and_a_session_save_deletes_its_summary": CONFLICT,
    "test_an_import_is_sealed_and_goes_on_where_it_was": PROGRESS,
    "test_a_purged_user_is_not_named_any_more": "gives ids that are none, which a client does not read",
    "test_a_goal_that_waits_for_a_runner_that_hangs_for_ever": "runs schedules in a thread of the test",
    "test_the_machines_files_are_not_a_users": "files are read by the client, on its machine",
    "test_a_handle_that_acts_closes_nothing": "a client is closed for itself; the store stays with the server",
    "test_the_awaited_face_has_the_same_gate": "closes a handle that acts for somebody",
    "test_a_budget_without_room_is_refused_before_anything_is_kept": "the server refuses it when the block begins",
    "test_a_full_disk_does_not_stop_the_turn": "a server that cannot store the question answers no context",
    "test_a_store_that_cannot_be_reached_leaves_the_message_alone": "counts the steps that failed in process",
}


def find_reason(item: pytest.Item) -> str | None:
    name = getattr(item, "originalname", item.name)
    return NOT_REMOTE.get(name) or NOT_REMOTE.get(f"{item.path.name}::{name}")
