"""A conversation as the SDK's sessions with branches show it: turns to choose from, and tools by name.

Shapes and keys are those of its AdvancedSQLiteSession. Times are UTC, as the lines of the log have them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rollout.adapters.agents.turns import Conversation, Placed, stamp_of
from rollout.format.strict_json import mend_text

_PREVIEW_CHARACTERS = 100
_NAMED_BY_TYPE = frozenset(
    ("computer_call", "file_search_call", "web_search_call", "code_interpreter_call", "shell_call", "apply_patch_call")
)
_CALLS = _NAMED_BY_TYPE | {
    *("tool_call", "function_call", "custom_tool_call", "tool_search_call", "mcp_call", "mcp_approval_request"),
}


def list_turns(conversation: Conversation) -> list[dict[str, Any]]:
    """One row a turn: turn, content (its first 100 characters), full_content, timestamp, can_branch."""
    rows = []
    for turn, start in enumerate(conversation.starts, 1):
        row = _row(turn, conversation.placed[start])
        if len(row["content"]) > _PREVIEW_CHARACTERS:
            row["content"] = row["content"][:_PREVIEW_CHARACTERS] + "..."
        rows.append(row)
    return rows


def find_turns(conversation: Conversation, term: str) -> list[dict[str, Any]]:
    """The rows of the turns whose user message has the term in a text, whatever the case of ASCII letters."""
    found = re.compile(re.escape(mend_text(term)), re.IGNORECASE | re.ASCII).search
    rows = []
    for turn, start in enumerate(conversation.starts, 1):
        one = conversation.placed[start]
        if any(found(text) for text in _texts(one.item.get("content"))):
            rows.append(_row(turn, one))
    return rows


def group_by_turn(conversation: Conversation) -> dict[int, list[dict[str, str | None]]]:
    """What each turn consists of: type and tool_name of every item."""
    return {
        turn: [{"type": type_of(item), "tool_name": tool_name_of(item)} for item in items]
        for turn, items in conversation.by_turn()
    }


def count_tools(conversation: Conversation) -> list[tuple[str, int, int]]:
    """(tool name, calls, turn), by turn. What a search for tools has given counts if its call is not there."""
    rows = []
    for turn, items in conversation.by_turn():
        calls = [item for item in items if type_of(item) in _CALLS]
        counts = Counter(name for name in map(tool_name_of, calls) if name is not None)
        if not any(type_of(item) == "tool_search_call" for item in calls):
            counts.update("tool_search" for item in items if type_of(item) == "tool_search_output")
        rows += [(name, count, turn) for name, count in sorted(counts.items())]
    return rows


def type_of(item: object) -> str:
    """user, assistant, or what the item says that it is; else other."""
    if isinstance(item, dict):
        role, kind = item.get("role"), item.get("type")
        if role in ("user", "assistant"):
            return str(role)
        if kind:
            return str(kind)
    return "other"


def tool_name_of(item: object) -> str | None:
    """The tool that an item calls, or speaks of: with its server or namespace, if it has one."""
    if not isinstance(item, dict):
        return None
    kind, name = item.get("type"), item.get("name")
    if kind in ("mcp_call", "mcp_approval_request") and "server_label" in item:
        parts = [str(part) for part in (item["server_label"], name) if part]
        return ".".join(parts) or None
    if isinstance(kind, str) and kind in _NAMED_BY_TYPE:
        return kind
    if kind in ("tool_search_call", "tool_search_output"):
        return "tool_search"
    if name is None:
        return None
    namespace = item.get("namespace")
    is_qualified = bool(name) and isinstance(namespace, str) and namespace not in ("", name)
    return f"{namespace}.{name}" if is_qualified else str(name)


def _row(turn: int, one: Placed) -> dict[str, Any]:
    content = one.item.get("content", "")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return {
        "turn": turn,
        "content": text,
        "full_content": content,
        "timestamp": stamp_of(one.entry),
        "can_branch": True,
    }


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]
