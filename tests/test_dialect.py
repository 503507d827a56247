"""A dialect's names stand in its own folder: nobody else spells a type, a key, a tag or a file name of Codex's logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rollout.dialects.codex import contextual, names
from tests.test_layers import MODULES, nodes, within

EVENT_TYPES = frozenset(
    {
        *names.TURN_STARTED,
        *names.TURN_COMPLETED,
        names.TURN_ABORTED,
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
NAMES = names.RECORD_TYPES | EVENT_TYPES | KEYS
UNREAD = {
    *(
        "agent_nickname",
        "agent_path",
        "agent_reasoning",
    ),
    *("final_output_json_schema", "resume_metadata", "subagent_history_start_ordinal", "thread_source"),
}
"""Of these, what the dialect passes over."""
TAGS = (
    *(opening for opening, _ in contextual.USER_FRAGMENTS),
    *contextual.DEVELOPER_OPENINGS,
    *contextual.USER_OPENINGS,
    "<proposed_plan>",
    names.ARCHIVE_FOLDER,
    names.THREAD_NAMES_FILE,
)
OWN = frozenset({"turn_id", "world_state", "base_instructions", "originator", "cli_version", "model_provider"})
"""Of these, what results of our own call so, too: those who only show results may name it."""
SHOWING = ("rollout_cli", "rollout.agent_tools")
STILL = {
    "rollout.session.turn_context",  # what it names are its own keys, and it asks the system for the directory
}
"""The modules that do all the same, and why. Nobody comes in."""


def constants(module: str) -> Iterator[str]:
    """The strings and bytes in a module's code; a text that stands alone is a docstring."""
    docstrings = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    for node in nodes(module):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode(errors="replace")


def spelled(module: str) -> set[str]:
    """The names that a module spells: alone, or in quotes within a piece of JSON; tags, wherever they stand."""
    texts = list(constants(module))
    known = NAMES - OWN if module.startswith(SHOWING) else NAMES
    own = {name for name in known if any(text == name or f'"{name}"' in text for text in texts)}
    return own | {tag for tag in TAGS if any(tag in text.lower() for text in texts)}


def test_only_the_dialect_spells_the_names_of_its_logs() -> None:
    found = {module: spelled(module) for module in MODULES if not within(module, "rollout.dialects")}
    told = {module: sorted(spelt) for module, spelt in found.items() if spelt and module not in STILL}
    assert not told
    assert sorted(STILL) == sorted(module for module, spelt in found.items() if spelt)


def fields(module: str) -> Iterator[str]:
    """The names that a module gives to fields and arguments."""
    for node in nodes(module):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg


def test_the_tables_of_names_are_those_that_the_dialect_reads_by() -> None:
    own = [module for module in MODULES if within(module, "rollout.dialects")]
    spelt = {name for module in own for name in (*spelled(module), *fields(module))}
    assert NAMES - spelt == UNREAD
