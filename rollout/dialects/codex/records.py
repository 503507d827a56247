"""The vocabulary: what a line of a rollout can say.

`Envelope` is what is read of every line; the payload's own struct only where it is needed. Unknown kinds and keys are
never an error. Names follow `format.md`; nothing here knows what a record means.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.items.kinds import Head


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


class ThreadName(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the file of names. `gives_way` is this library's own: it counts while no other thread has the name."""

    id: str
    thread_name: str
    updated_at: object = None
    gives_way: object = False


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


def types_of(envelope: Envelope) -> tuple[str, str | None]:
    """The type of a record and that of its payload, if it has one; a bare item of 2025 is a response_item."""
    payload, type = envelope.payload, envelope.type or ""
    if payload is UNSET:
        return "response_item", type
    return type, None if payload is None else payload.type
