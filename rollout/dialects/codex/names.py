"""The names of Codex's rollouts: types of records and events, keys, files. Whoever needs one takes it from here."""

from __future__ import annotations

import msgspec

SESSIONS_FOLDER, ARCHIVE_FOLDER = "sessions", "archived_sessions"
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


class ThreadName(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the file of names. `gives_way` is this library's own: it counts while no other thread has the name."""

    id: str
    thread_name: str
    updated_at: object = None
    gives_way: object = False
