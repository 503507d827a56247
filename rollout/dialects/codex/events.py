"""Records to events: the one place that says what each type of record means to the fold.

A new type of record or event that takes something back is told here (`event_of`), carried out in `rollout.fold`, and
described in `docs/`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex.contextual import is_contextual
from rollout.dialects.codex.envelope import (
    Agent,
    Compacted,
    Envelope,
    LineOf,
    WorldState,
    payload_of,
    time_of,
    turn_id_of,
)
from rollout.dialects.codex.items import fault_in
from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.format.strict_json import decode_value, text_of, value_at
from rollout.items import events as e
from rollout.items.kinds import is_visible, texts_of
from rollout.limits import TURN_TEXT_CHARACTERS

_ITEM, _SAID, _EVENT = e.LineKind.ITEM, e.LineKind.SAID, e.LineKind.EVENT
_METADATA, _SESSION = e.LineKind.METADATA, e.LineKind.SESSION


class _TurnContext(msgspec.Struct, frozen=True, gc=False):
    """Only `model` is needed for it to count (S4)."""

    model: str
    turn_id: Raw | UnsetType = UNSET


_context = msgspec.json.Decoder(LineOf[_TurnContext])
_compacted = msgspec.json.Decoder(LineOf[Compacted])
_world = msgspec.json.Decoder(LineOf[WorldState])
_agent = msgspec.json.Decoder(LineOf[Agent])
_keys = msgspec.json.Decoder(dict[str, Raw])
_MOST = 1 << 62  # more turns or items than any log holds


class _MalformedError(Exception):
    """The record lacks what its kind needs."""


def event_of(data: bytes, record: Envelope, wants_turns: bool) -> e.Event | e.LineKind:
    """What a record says. `wants_turns`: times, texts and plans are wanted, as people want to know them of turns."""
    type, payload = record.type, record.payload
    try:
        if payload is UNSET:
            return _item(data, str(type), record.role, data, wants_turns)
        if type in {"response_item", "event_msg"}:
            if payload is None or payload.type is None:
                raise _MalformedError("it needs an object with a type")
            if type == "event_msg":
                read = EVENTS.get(payload.type)
                return _EVENT if read is None else read(data, wants_turns)
            if not is_visible(payload.type, payload.role):
                return _METADATA
            return _item(data, payload.type, payload.role, payload_of(data), wants_turns)
        if type == "session_meta":
            if payload is None:
                raise _MalformedError("it needs an object")
            return _SESSION
        read_record = _RECORDS.get(type or "")
        return _METADATA if read_record is None else read_record(data)
    except (_MalformedError, msgspec.ValidationError, RecursionError) as why:
        return e.Malformed(f"malformed {type}: {why}")


def _item(data: bytes, type: str, role: str | None, item: bytes | Raw, wants_turns: bool) -> e.Event | e.LineKind:
    if not is_visible(type, role):
        return _METADATA
    why = fault_in(data, type, item)
    if why is not None:
        raise _MalformedError(why)
    if type == "agent_message":
        return e.AgentMessage(is_made=False)
    if type != "message":
        return _ITEM
    if role in {"user", "developer"}:
        texts = texts_of(item)
        if is_contextual(role, texts):
            return e.ProgramMessage()
        if role == "user":
            return e.UserMessage("\n".join(texts)[:TURN_TEXT_CHARACTERS] if wants_turns and texts else None)
    return _SAID if role == "assistant" else _ITEM


def _plan(data: bytes, wants_turns: bool) -> e.Event | e.LineKind:
    """A plan stands in an event of its own, so that it is found without the texts being searched again."""
    shown = value_at(decode_value(data), "payload", "item") if wants_turns and b'"Plan"' in data else None
    text = value_at(shown, "text") if value_at(shown, "type") == "Plan" else None
    return e.PlanProposed(text) if isinstance(text, str) else _EVENT


def _count(data: bytes, key: str) -> int:
    count = value_at(decode_value(data), "payload", key)
    if type(count) is not int or count < 0:
        raise _MalformedError(f"{key} must be an unsigned integer")
    return min(count, _MOST)


EVENTS: dict[str, Callable[[bytes, bool], e.Event | e.LineKind]] = {
    **dict.fromkeys(
        TURN_STARTED, lambda data, wants: e.TurnStarted(turn_id_of(data), time_of(data) if wants else None)
    ),
    **dict.fromkeys(TURN_COMPLETED, lambda data, wants: e.TurnEnded(time_of(data) if wants else None)),
    TURN_ABORTED: lambda data, wants: e.TurnAborted(turn_id_of(data), time_of(data) if wants else None),
    "user_message": lambda data, wants: e.UserAnnounced(),
    "thread_rolled_back": lambda data, wants: e.TurnsRemoved(_count(data, "num_turns")),
    "items_removed": lambda data, wants: e.ItemsRemoved(_count(data, "num_items")),
    "item_completed": _plan,
}
"""What each type of event says; all others say nothing to the fold."""


def _settings(data: bytes) -> e.Event:
    context = _context.decode(data).payload
    return e.Settings(context.model, text_of(context.turn_id))


def _replaced(data: bytes) -> e.Event:
    compacted = _compacted.decode(data).payload
    has_items = compacted.replacement_history is not None
    if not has_items and text_of(compacted.message) is None:
        raise _MalformedError("a compacted needs a replacement_history or a message")
    return e.Replaced(has_items)


def _instruction(data: bytes) -> e.Event:
    _agent.decode(data)
    return e.AgentMessage(is_made=True)


_RECORDS: dict[str, Callable[[bytes], e.Event]] = {
    "turn_context": _settings,
    "compacted": _replaced,
    "world_state": lambda data: e.WorldState(_world.decode(data).payload.full),
    "inter_agent_communication": _instruction,
}
"""The types of records that say something beside items, events and the session."""


_TOTALS = {
    "token_usage_record": ("payload", "thread_token_usage"),
    "compacted": ("payload", "latest_token_usage_record", "thread_token_usage"),
    "event_msg": ("payload", "info", "total_token_usage"),
}
"""Where the types of records that tell of tokens have the totals of the thread."""


def usage_of(data: bytes, record: Envelope) -> Raw | None:
    """The token totals of the thread (JSON), if a record tells them."""
    keys = _TOTALS.get(record.type or "")
    if keys is None or (record.type == "event_msg" and not (record.payload and record.payload.type == "token_count")):
        return None
    found: bytes | Raw = data
    try:
        for key in keys:
            found = _keys.decode(found)[key]
    except (KeyError, msgspec.ValidationError, RecursionError):
        return None
    return Raw(bytes(found)) if bytes(memoryview(found)[:1]) == b"{" else None
