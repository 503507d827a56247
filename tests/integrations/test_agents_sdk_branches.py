"""The SDK's own tests of its session with branches and usage, run with ours in its place.

As `test_agents_sdk`, but only with ROLLOUT_SDK set (`just sdk`). Which words an error says is ours to choose.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path

import pytest

from tests.integrations.test_agents_sdk import ROOT, SETTINGS, call, fetch

FILE = "tests/extensions/memory/test_advanced_sqlite_session.py"
LEAST = 60
INSIDE_SQLITE = {
    "wants the log line of a branch": ("test_create_branch_logging_respects_model_data_policy",),
    "makes or checks tables and their owners": (
        "test_advanced_session_respects_custom_table_names",
        "test_post_clear_switch_synchronizes_generation_before_next_write",
        "test_structure_tables_reject_a_second_base_table_pair",
        "test_structure_tables_reject_changed_sessions_with_shared_messages",
        "test_structure_tables_reject_changed_messages_with_shared_sessions",
        "test_structure_tables_accept_equivalent_identifier_casing",
        "test_structure_tables_accept_quoted_custom_session_table",
        "test_identifier_resolution_leaves_connection_authorized",
        "test_structure_tables_reject_distinct_non_ascii_identifiers",
        "test_no_create_session_rejects_a_database_without_an_owner",
        "test_no_create_session_rejects_owner_metadata_without_base_tables",
        "test_structure_tables_reject_an_ownerless_layout",
        "test_structure_tables_reject_malformed_owner_layouts",
        "test_structure_tables_accept_equivalent_child_column_casing",
    ),
    "looks into connections, locks or rows": (
        "test_add_items_rolls_back_messages_when_structure_metadata_fails",
        "test_add_items_can_retry_after_structure_metadata_failure",
        "test_add_items_failure_preserves_existing_history",
        "test_add_items_rolls_back_partial_structure_metadata_write",
        "test_add_items_rollback_failure_invalidates_connection",
        "test_structure_initialization_failure_invalidates_connection",
        "test_post_commit_cancellation_propagates_after_known_mutation_outcome",
        "test_auxiliary_mutation_cancellation_waits_for_commit",
        "test_tool_usage_reads_legacy_shell_and_patch_names",
        "test_failed_branch_reservation_rolls_back_and_allows_retry",
        "test_branch_reservations_migrate_existing_populated_branches",
        "test_legacy_branch_ids_are_backfilled_before_destructive_operations",
        "test_legacy_destructive_noops_leave_database_unlocked",
        "test_delete_branch_removes_branch_only_messages",
        "test_delete_branch_keeps_messages_still_referenced_by_another_branch",
        "test_orphan_cleanup_uses_set_based_delete_for_many_messages",
        "test_failed_usage_write_rolls_back_cached_connection",
        "test_get_items_limit_skips_corrupt_newest_rows",
        "test_concurrent_add_items_preserves_message_structure_for_file_db",
        "test_clear_session_removes_structure_and_usage_metadata",
        "test_pop_item_removes_its_structure_row",
        "test_pop_item_removes_turn_usage_only_when_turn_emptied",
        "test_pop_item_respects_current_branch_and_keeps_shared_messages",
        "test_pop_item_deletes_shared_copied_message_only_when_unreferenced",
        "test_store_run_usage_waits_for_database_lock_off_event_loop",
        "test_add_captures_coherent_branch_after_clear_publication",
        "test_store_run_usage_skips_when_current_branch_has_no_turn",
        "test_clear_session_resets_current_branch_to_main",
        "test_default_read_does_not_initialize_clear_generation_table",
        "test_switch_validation_cancellation_waits_for_generation_commit",
        "test_pop_item_rolls_back_on_failure_after_earlier_delete",
        "test_clear_session_rolls_back_on_failure_after_earlier_delete",
    ),
    "patches time.time, where ours has a clock of its own": (
        "test_generated_branch_ids_do_not_merge_within_the_same_second",
    ),
    "runs several processes whose sessions are instrumented inside SQLite": (
        "test_branch_allocation_is_serialized_across_processes",
        "test_pop_item_claim_is_unique_across_processes",
        "test_concurrent_structure_table_claims_leave_one_coherent_owner",
    ),
    "wants a branch without items not to be there": ("test_failed_force_delete_keeps_current_branch",),
    "makes a private method fail": ("test_usage_tracking_failure_identity_follows_model_data_policy",),
    "pauses a worker inside SQLite's session": (
        "test_pop_item_uses_branch_snapshot_when_branch_switches_concurrently",
        "test_stale_switch_after_clear_does_not_repoint_to_deleted_branch",
        "test_stale_create_branch_after_clear_does_not_repoint",
        "test_clear_before_branch_transaction_prevents_stale_reservation",
        "test_store_run_usage_cancellation_during_capture_waits_for_commit",
        "test_store_run_usage_keeps_target_while_capture_is_waiting",
        "test_store_run_usage_keeps_turn_when_history_changes_during_capture",
        "test_queued_add_keeps_selected_branch",
        "test_queued_append_cannot_resurrect_deleted_branch",
        "test_queued_turn_mutation_releases_later_usage_capture",
        "test_turn_ordering_survives_reuse_on_another_event_loop",
        "test_stale_store_run_usage_skipped_when_turn_removed_by_pop",
        "test_stale_store_run_usage_not_recorded_against_reused_turn_number",
        "test_store_run_usage_survives_unrelated_branch_deletion",
    ),
}
SHIM = """
import sys, types
from pathlib import Path
import pytest
sys.modules.setdefault("sqlalchemy", types.ModuleType("sqlalchemy"))  # the file asks for it, and uses it nowhere
import agents.extensions.memory
import agents.extensions.memory.advanced_sqlite_session
from rollout.integrations.agents import RolloutSession

class AdvancedSQLiteSession(RolloutSession):
    def __init__(self, *, session_id, db_path=":memory:", create_tables=False, session_settings=None, **more):
        path = None if str(db_path) == ":memory:" else Path(f"{db_path}.home")
        super().__init__(session_id, path, session_settings=session_settings)

    @property
    def _current_branch_id(self):
        return self.current_branch_id

for module in (agents.extensions.memory, agents.extensions.memory.advanced_sqlite_session):
    module.AdvancedSQLiteSession = AdvancedSQLiteSession

raises = pytest.raises
def raises_in_other_words(kind, *rest, match=None, **more):
    return raises(kind, *rest, **more) if kind is ValueError else raises(kind, *rest, match=match, **more)
pytest.raises = raises_in_other_words
"""


@pytest.mark.skipif("ROLLOUT_SDK" not in os.environ, reason="just sdk: they take their time")
def test_the_tests_of_the_sdk_about_branches_pass_with_our_session_in_their_place(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    version = importlib.metadata.version("openai-agents")
    cache = request.config.cache.mkdir(f"sdk-{version}")
    (tmp_path / "tests").symlink_to(fetch(version, cache) / "tests")
    (tmp_path / "our_session.py").write_text(SHIM)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    left_out = " or ".join(name for names in INSIDE_SQLITE.values() for name in names)
    done = call(
        *(sys.executable, "-m", "pytest", "-q", "-p", "our_session", "-p", "no:cacheprovider", "-p", "no:xdist", FILE),
        *("-k", f"not ({left_out})"),
        folder=tmp_path,
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]),
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= LEAST, done.stdout
