"""The names of Codex's rollouts: types of records and events, keys, files. Whoever needs one takes it from here."""

from __future__ import annotations

SESSIONS_FOLDER, ARCHIVE_FOLDER = "sessions", "archived_sessions"
FILE_PREFIX = "rollout-"
THREAD_NAMES_FILE = "session_index.jsonl"

PAYLOAD = "payload"
"""The key of a line under which its record stands."""
SESSION_META = "session_meta"
RECORD_TYPES = frozenset(
    {
        SESSION_META,
        "turn_context",
        "response_item",
        "compacted",
        "event_msg",
        "world_state",
        "token_usage_record",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "dynamic_tools_updated",
        "realtime_item",
        "security_risk_score",
    }
)
TURN_STARTED = frozenset({"task_started", "turn_started"})
TURN_COMPLETED = frozenset({"task_complete", "turn_complete"})
TURN_ABORTED = "turn_aborted"
EVENT_TYPES = frozenset(
    {
        *TURN_STARTED,
        *TURN_COMPLETED,
        TURN_ABORTED,
        "user_message",
        "agent_reasoning",
        "thread_rolled_back",
        "items_removed",
        "context_compacted",
        "token_count",
        "item_completed",
        "entered_review_mode",
        "exited_review_mode",
    }
)
"""The events that mean something to somebody. `agent_message` and `error` are not named: other things are called so."""
KEYS = frozenset(
    {
        *("payload", "record_type", "turn_id", "replacement_history", "num_turns", "num_items"),
        *("forked_from_id", "history_base", "history_mode", "end_byte_offset", "end_ordinal_exclusive"),
        *("base_instructions", "originator", "cli_version", "model_provider", "resume_metadata"),
        *("parent_thread_id", "agent_path", "agent_nickname", "subagent_history_start_ordinal", "thread_source"),
        *("approval_policy", "sandbox_policy", "collaboration_mode", "truncation_policy", "realtime_active"),
        *("user_instructions", "developer_instructions", "final_output_json_schema"),
        *("last_agent_message", "model_context_window", "text_elements", "local_images", "memory_citation"),
        *("total_token_usage", "last_token_usage", "thread_token_usage", "latest_token_usage_record", "rate_limits"),
        *("trigger_turn", "other_recipients", "started_at_ms", "completed_at_ms", "thread_name"),
    }
)
"""The keys of lines and payloads that no other format has."""
