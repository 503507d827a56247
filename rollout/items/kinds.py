"""What an item is: its type, who says it, who sees it, and the texts of a message. The names are the model API's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.format.strict_json import decode_value

Item: TypeAlias = dict[str, Any]
"""An item, decoded."""
SESSION_ITEM = "session_item"
"""This project's own: an item that holds in `item` what no model API calls one, as an agent framework gave it."""
HIDDEN_ITEM_TYPES = frozenset({"ghost_snapshot", "compaction_trigger", "other"})
ITEM_TYPES = HIDDEN_ITEM_TYPES | {
    *("message", "reasoning", "additional_tools", "agent_message", "configuration_update"),
    *("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"),
    *("function_call_output", "custom_tool_call_output", "tool_search_output", "image_generation_call"),
    *("compaction", "compaction_summary", "context_compaction"),
}
COMPACTIONS = frozenset({"compaction", "context_compaction"})
"""Items that hold a history in short, as only the model's provider can read it."""
_MODEL_TYPES = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request", *COMPACTIONS})


class TypeAndRole(msgspec.Struct, frozen=True, gc=False):
    """The keys of an item that tell what it is."""

    type: str | None = None
    role: str | None = None


class Head(msgspec.Struct, frozen=True, gc=False):
    """The keys of a payload that tell what it is, and those that the common kinds of items need.

    What they hold may be of any type: it is enough for `shapes` to let most items pass at a glance. `output` and
    `encrypted_content` are the two strings that hold most bytes of a log.
    """

    type: str | None = None
    role: str | None = None
    output: Raw | UnsetType = UNSET
    encrypted_content: Raw | UnsetType = UNSET
    id: Any = None
    call_id: Any = None
    name: Any = None
    namespace: Any = None
    arguments: Any = None
    input: Any = None
    status: Any = None
    phase: Any = None
    content: Raw | UnsetType = UNSET
    summary: Raw | UnsetType = UNSET


class _Content(msgspec.Struct, frozen=True, gc=False):
    content: Any = None


def is_visible(type: str, role: str | None) -> bool:
    """S3: every item but system messages, messages without a role, and the hidden types."""
    if type == "message":
        return role is not None and role != "system"
    return type not in HIDDEN_ITEM_TYPES


def is_made_by_model(item: Mapping[str, Any]) -> bool:
    """Whether a model makes such an item; all others are its input."""
    kind = item.get("type")
    if kind == "message":
        return item.get("role") == "assistant"
    if kind == "tool_search_output":
        return item.get("execution") == "server"
    return isinstance(kind, str) and (kind in _MODEL_TYPES or kind.endswith("_call"))


_content = msgspec.json.Decoder(_Content)


def texts_of(item: bytes | msgspec.Raw) -> list[str]:
    """The text parts of a message item; none where its content has another shape than format.md tells of."""
    try:
        return texts_in(_content.decode(item).content)
    except msgspec.ValidationError:  # a number beyond all bounds in it, say
        return texts_in(decode_value(item).get("content"))


def texts_in(content: object) -> list[str]:
    """The texts of a decoded content or output of any shape: itself, or those of its parts."""
    parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return [text for text in texts if isinstance(text, str)]


def plain_user_message(texts: Sequence[str]) -> Raw:
    """A message of role user with these text parts."""
    parts = [{"type": "input_text", "text": text} for text in texts]
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": parts}))
