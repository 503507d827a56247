"""The vocabulary: what a line of a rollout can say.

`Envelope` is what is read of every line; the payload's own struct only where it is needed. Unknown kinds and keys are
never an error. Names follow `format.md`; nothing here knows what a record means.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType


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


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """The keys of a line that tell what it is.

    `payload` is UNSET of a bare item of 2025 (`role` is then the item's), None where it is no object or its head is
    not readable.
    """

    type: str | None = None
    payload: Head | UnsetType | None = UNSET
    role: str | None = None


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """The time of a line: text for people, any JSON value in a bad file."""

    timestamp: Raw | UnsetType = UNSET


class Payload(msgspec.Struct, frozen=True, gc=False):
    """The payload of a line as it stands; UNSET for a bare item."""

    payload: Raw | UnsetType = UNSET


class Text(msgspec.Struct, frozen=True, gc=False):
    """One part of a message's content."""

    text: str | None = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message item, as far as its texts go."""

    role: str | None = None
    content: list[Text] | str | None = None


class Lifecycle(msgspec.Struct, frozen=True, gc=False):
    """task_started, task_complete, turn_aborted."""

    turn_id: Raw | UnsetType = UNSET


class TurnContext(msgspec.Struct, frozen=True, gc=False):
    """turn_context: only `model` is needed for it to count (S4)."""

    model: str
    turn_id: Raw | UnsetType = UNSET


class Compacted(msgspec.Struct, frozen=True, gc=False):
    """compacted; without a list it is one of the old kind and `message` is needed."""

    replacement_history: list[Raw] | None = None
    message: Raw | UnsetType = UNSET


class Count(msgspec.Struct, frozen=True, gc=False):
    """thread_rolled_back (num_turns) and items_removed (num_items)."""

    num_turns: int | None = None
    num_items: int | None = None


class WorldState(msgspec.Struct, frozen=True, gc=False):
    """world_state: a snapshot (full) or a merge patch (RFC 7396)."""

    full: bool
    state: dict[str, Any]


class TokenInfo(msgspec.Struct, frozen=True, gc=False):
    """token_count's info."""

    total_token_usage: Raw | UnsetType = UNSET


class TokenCount(msgspec.Struct, frozen=True, gc=False):
    """token_count."""

    info: TokenInfo | None = None


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    """token_usage_record."""

    thread_token_usage: Raw | UnsetType = UNSET


class Agent(msgspec.Struct, frozen=True, gc=False):
    """inter_agent_communication: without one of the first four it has no effect."""

    author: str
    recipient: str
    content: str
    trigger_turn: bool
    encrypted_content: str | None = None
    id: str | None = None
    other_recipients: list[str] = []


ENVELOPE_TYPES = frozenset(
    {
        "session_meta",
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
SESSION_ITEM = "session_item"
"""This project's own: an item that holds in `item` what no model API calls one, as an agent framework gave it."""
HIDDEN_ITEM_TYPES = frozenset({"ghost_snapshot", "compaction_trigger", "other"})
ITEM_TYPES = HIDDEN_ITEM_TYPES | {
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
    "tool_search_output",
    "image_generation_call",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "configuration_update",
    "additional_tools",
    "agent_message",
}


def types_of(envelope: Envelope) -> tuple[str, str | None]:
    """The type of a record and that of its payload, if it has one; a bare item of 2025 is a response_item."""
    payload, type = envelope.payload, envelope.type or ""
    if payload is UNSET:
        return "response_item", type
    return type, None if payload is None else payload.type


def is_visible(type: str, role: str | None) -> bool:
    """S3: every item but system messages, messages without a role, and the hidden types."""
    if type == "message":
        return role is not None and role != "system"
    return type not in HIDDEN_ITEM_TYPES


@dataclasses.dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are lost to the reader: what is wrong (`reason`) and where.

    `line` counts from 1 and is None where the file was not read back to its beginning. `kind` is one of torn, json,
    utf8, deep, oversize, not_a_record, batch, sealed, encrypted; base (the file that this one continues is missing),
    base_end (it does not end as it is said, and is read). `path` is the file, None for bytes in memory.
    """

    line: int | None
    offset: int
    reason: str
    kind: str
    path: str | None = None
