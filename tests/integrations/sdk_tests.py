"""The SDK's own tests of its sessions: which there are, which are about SQLite, and how ours is put in its place.

They come with the SDK's source distribution, which pip fetches into pytest's cache: they are not part of this project.
A test is left out if it makes no session of SQLite's, and else only for one of the reasons below.
"""

from __future__ import annotations

SUITES = {
    "tests/memory/test_session.py": 34,
    "tests/memory/test_session_limit.py": 15,
    "tests/memory/test_openai_responses_compaction_session.py": 2,
    "tests/memory/test_compaction_suffix.py": 38,
    "tests/extensions/memory/test_advanced_sqlite_session.py": 50,
}
"""Files of tests, and so many of each are about any session, in every version that has the file."""
LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "tests/memory/test_session.py": {
        "closes or counts the connections of threads": (
            "test_sqlite_session_close_closes_worker_thread_connections",
            "test_sqlite_session_reaps_connections_from_exited_worker_threads",
            "test_sqlite_session_closes_retired_connections_before_the_next_allocation",
            "test_sqlite_session_keeps_connections_of_live_worker_threads",
            "test_sqlite_session_close_retries_quarantined_connection",
            "test_sqlite_session_rollback_failure_evicts_connection",
        ),
        "puts rows that are no JSON into the table": (
            "test_sqlite_session_pop_item_skips_corrupt_most_recent",
            "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
            "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
            "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
        ),
        "drops a table, or looks for SQLite's own lock": (
            "test_sqlite_session_failed_clear_session_rolls_back",
            "test_sqlite_session_failed_pop_item_releases_write_lock",
            "test_sqlite_session_failed_add_items_releases_write_lock",
            "test_sqlite_session_file_lock_is_shared_across_instances",
        ),
        "pauses in the commit of a connection; test_agents_session.py does so in ours": (
            "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome",
        ),
    },
    "tests/memory/test_openai_responses_compaction_session.py": {
        "pauses in the commit of a connection; test_agents_session.py does so in ours": (
            "test_settled_pop_failure_invalidates_response_chain",
            "test_settled_clear_failure_invalidates_response_chain",
        ),
    },
    "tests/memory/test_compaction_suffix.py": {
        "makes SQLite refuse a row by a trigger; test_agents_crashes.py breaks ours off at every write": (
            "test_suffix_transaction_rolls_back_failed_insert",
            "test_failed_encrypted_suffix_transaction_preserves_original_tokens",
        ),
        "pauses inside of SQLite's insert; test_agents_session.py does so in ours": (
            "test_cancelled_suffix_transaction_settles_before_newer_append",
        ),
    },
    "tests/extensions/memory/test_advanced_sqlite_session.py": {
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
    },
}
PLUGIN = """
import inspect, json, os, sys, types
from pathlib import Path
import pytest
sys.modules.setdefault("sqlalchemy", types.ModuleType("sqlalchemy"))  # one file asks for it, and uses it nowhere
import agents, agents.extensions.memory, agents.memory, agents.memory.sqlite_session
import agents.extensions.memory.advanced_sqlite_session, agents.extensions.memory.async_sqlite_session
from rollout.adapters.agents import RolloutSession

def home(db_path):
    return None if str(db_path) == ":memory:" else Path(f"{db_path}.home")

class SQLiteSession(RolloutSession):
    def __init__(self, session_id, db_path=":memory:", session_settings=None):
        super().__init__(session_id, home(db_path), session_settings=session_settings)

class AsyncSQLiteSession(SQLiteSession):
    async def close(self):
        super().close()

class AdvancedSQLiteSession(RolloutSession):
    def __init__(self, *, session_id, db_path=":memory:", create_tables=False, session_settings=None, **more):
        super().__init__(session_id, home(db_path), session_settings=session_settings)

    @property
    def _current_branch_id(self):
        return self.current_branch_id

for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = SQLiteSession
for package, name, session in (
    (agents.extensions.memory, "async_sqlite_session", AsyncSQLiteSession),
    (agents.extensions.memory, "advanced_sqlite_session", AdvancedSQLiteSession),
):
    for module in (package, getattr(package, name)):
        setattr(module, session.__name__, session)

raises = pytest.raises
def raises_in_other_words(kind, *rest, match=None, **more):  # which words an error of branches has is ours to choose
    of_branches = sys._getframe(1).f_globals["__name__"].endswith("test_advanced_sqlite_session")
    match = None if of_branches and kind is ValueError else match
    return raises(kind, *rest, **more) if match is None else raises(kind, *rest, match=match, **more)
pytest.raises = raises_in_other_words

def has_session(item):  # else it would test the SDK alone
    fixtures = (one[-1].func for one in item._fixtureinfo.name2fixturedefs.values())
    return any("SQLiteSession" in inspect.getsource(function) for function in (item.function, *fixtures))

def pytest_collection_modifyitems(config, items):
    left_out = json.loads(os.environ["LEFT_OUT"])
    kept = [item for item in items if item.originalname not in left_out and has_session(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
"""
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
faulthandler_timeout = 60
faulthandler_exit_on_timeout = true
markers =
    allow_call_model_methods
    review_optional
    serial
"""
