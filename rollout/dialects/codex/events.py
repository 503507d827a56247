"""Records to events: the one place that says what each type of record means to the fold.

A new type of record or event that takes something back is told here (`event_of`), carried out in `rollout.fold`, and
described in `docs/`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex import records as r
from rollout.dialects.codex.contextual import is_contextual
from rollout.dialects.codex.items import fault_in
from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.format.strict_json import text_of
from rollout.items import events as e
from rollout.items.kinds import is_visible, texts_of
from rollout.limits import TURN_TEXT_CHARACTERS

P = TypeVar("P")
_ITEM, _SAID, _EVENT = e.LineKind.ITEM, e.LineKind.SAID, e.LineKind.EVENT
_METADATA, _SESSION = e.LineKind.METADATA, e.LineKind.SESSION


class _Line(msgspec.Struct, Generic[P], frozen=True, gc=False):
    payload: P


class _Shown(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    text: str | None = None


class _ItemEvent(msgspec.Struct, frozen=True, gc=False):
    item: _Shown


class _State(msgspec.Struct, frozen=True, gc=False):
    full: bool
    state: Raw


class _Usage(msgspec.Struct, frozen=True, gc=False):
    record: r.TokenUsage | None = msgspec.field(default=None, name="latest_token_usage_record")


_lifecycle = msgspec.json.Decoder(_Line[r.Lifecycle])
_context = msgspec.json.Decoder(_Line[r.TurnContext])
_compacted = msgspec.json.Decoder(_Line[r.Compacted])
_count = msgspec.json.Decoder(_Line[r.Count])
_world = msgspec.json.Decoder(_Line[_State])
_token_count = msgspec.json.Decoder(_Line[r.TokenCount])
_token_usage = msgspec.json.Decoder(_Line[r.TokenUsage])
_compacted_usage = msgspec.json.Decoder(_Line[_Usage])
_item_event = msgspec.json.Decoder(_Line[_ItemEvent])
_agent = msgspec.json.Decoder(_Line[r.Agent])
_stamp = msgspec.json.Decoder(r.Stamp)
_payload = msgspec.json.Decoder(_Line[Raw])
_MOST = 1 << 62  # more turns or items than any log holds


class _MalformedError(Exception):
    """The record lacks what its kind needs."""


def event_of(data: bytes, record: r.Envelope, wants_turns: bool) -> e.Event | e.LineKind:
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
            return _item(data, payload.type, payload.role, _payload.decode(data).payload, wants_turns)
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
        texts = texts_of(item) or []
        if is_contextual(role, texts):
            return e.ProgramMessage()
        if role == "user":
            return e.UserMessage("\n".join(texts)[:TURN_TEXT_CHARACTERS] if wants_turns and texts else None)
    return _SAID if role == "assistant" else _ITEM


def _turn_id(data: bytes) -> str | None:
    try:
        return text_of(_lifecycle.decode(data).payload.turn_id)
    except msgspec.ValidationError:
        return None


def _time(data: bytes, wants_turns: bool) -> str | None:
    return text_of(_stamp.decode(data).timestamp) if wants_turns else None


def _plan(data: bytes, wants_turns: bool) -> e.Event | e.LineKind:
    """A plan stands in an event of its own, so that it is found without the texts being searched again."""
    with contextlib.suppress(msgspec.ValidationError):
        shown = _item_event.decode(data).payload.item if wants_turns and b'"Plan"' in data else _Shown()
        return e.PlanProposed(shown.text) if shown.type == "Plan" and shown.text is not None else _EVENT
    return _EVENT


def _checked(count: int | None, key: str) -> int:
    if count is None or count < 0:
        raise _MalformedError(f"{key} must be an unsigned integer")
    return min(count, _MOST)


EVENTS: dict[str, Callable[[bytes, bool], e.Event | e.LineKind]] = {
    **dict.fromkeys(TURN_STARTED, lambda data, wants: e.TurnStarted(_turn_id(data), _time(data, wants))),
    **dict.fromkeys(TURN_COMPLETED, lambda data, wants: e.TurnEnded(_time(data, wants))),
    TURN_ABORTED: lambda data, wants: e.TurnAborted(_turn_id(data), _time(data, wants)),
    "user_message": lambda data, wants: e.UserAnnounced(),
    "thread_rolled_back": lambda data, wants: e.TurnsRemoved(
        _checked(_count.decode(data).payload.num_turns, "num_turns")
    ),
    "items_removed": lambda data, wants: e.ItemsRemoved(_checked(_count.decode(data).payload.num_items, "num_items")),
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


def _world_state(data: bytes) -> e.Event:
    world = _world.decode(data).payload
    if bytes(memoryview(world.state)[:1]) != b"{":
        raise _MalformedError("a world_state needs an object as its state")
    return e.WorldState(world.full)


def _instruction(data: bytes) -> e.Event:
    _agent.decode(data)
    return e.AgentMessage(is_made=True)


_RECORDS: dict[str, Callable[[bytes], e.Event]] = {
    "turn_context": _settings,
    "compacted": _replaced,
    "world_state": _world_state,
    "inter_agent_communication": _instruction,
}
"""The types of records that say something beside items, events and the session."""


def usage_of(data: bytes, record: r.Envelope) -> Raw | None:
    """The token totals of the thread (JSON), if a record tells them."""
    totals: Raw | UnsetType = UNSET
    with contextlib.suppress(msgspec.ValidationError, RecursionError):
        if record.type == "token_usage_record":
            totals = _token_usage.decode(data).payload.thread_token_usage
        elif record.type == "compacted":
            told = _compacted_usage.decode(data).payload.record
            totals = UNSET if told is None else told.thread_token_usage
        elif record.type == "event_msg" and record.payload and record.payload.type == "token_count":
            info = _token_count.decode(data).payload.info
            totals = UNSET if info is None else info.total_token_usage
    return None if totals is UNSET or bytes(memoryview(totals)[:1]) != b"{" else totals.copy()
