"""The two loops that every line of a log goes through.

They give a sink the same events as taking each line with care would, and are written for speed: an ordinary line costs
one decoding of its envelope and a few comparisons. A line that is odd in any way is left to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from rollout.dialects.codex.envelope import decode_envelope
from rollout.dialects.codex.events import EVENTS
from rollout.dialects.codex.items import is_whole
from rollout.format.strict_json import is_too_deep, is_utf8
from rollout.items.events import ITEMS, EventSink, LineKind
from rollout.items.kinds import HIDDEN_ITEM_TYPES, ITEM_TYPES, Head
from rollout.items.shapes import is_plainly_whole

_QUOTE = ord('"')
_CARE = 8  # not a kind of line: the sink looks at the record itself
_ITEM, _SAID, _EVENT = int(LineKind.ITEM), int(LineKind.SAID), int(LineKind.EVENT)
_PLAIN = ITEM_TYPES - HIDDEN_ITEM_TYPES - {"message", "agent_message"}
"""The types that are neither a boundary nor contextual, whoever says them."""
_NO_ROLES = frozenset({None, "system"})
_NO_ITEMS = HIDDEN_ITEM_TYPES | {None}


_LOUD = {
    (usage, turns): frozenset({*EVENTS, None}) - (set() if turns else {"item_completed"})
    | ({"token_count"} if usage else set())
    for usage in (False, True)
    for turns in (False, True)
}
"""The events that may say something, by whether usage and turns are wanted."""
_QUIET = {
    (usage, world): frozenset({"turn_context", "session_meta"})
    | (set() if usage else {"token_usage_record"})
    | (set() if world else {"world_state"})
    for usage in (False, True)
    for world in (False, True)
}
"""The records that say nothing where only the history is asked for, by whether usage and the world are wanted."""
_NO_NUMBERS: Mapping[str | None, int] = {}
_TAKING_BACK = frozenset({"thread_rolled_back", "items_removed", None})


def collect(sink: EventSink, lines: Sequence[bytes], i: int, end: int, stop: int) -> tuple[int, int, bool]:
    """See `Dialect`."""
    depth, traces = sink.depth, sink.traces
    wants_usage = sink.wants_usage
    loud = _LOUD[wants_usage, sink.wants_turns]
    note, numbers = None, (_NO_NUMBERS,) * 3
    if sink.noting is not None:
        note, types = sink.noting
        numbers = types("response_item"), types("response_item"), types("event_msg")
    shallow_bytes = 2 * depth  # too short to be nested deeper
    counted = i  # lines above it are in the sink's counts
    run: Any = None  # that the next plain line goes on with
    begins = False
    while i > stop and not begins:
        data = lines[i]
        if not data.startswith(b"{") or not (data.isascii() or is_utf8(data)):
            break
        try:
            envelope = decode_envelope(data)
        except (msgspec.DecodeError, RecursionError):
            break
        payload, kind = envelope.payload, envelope.type
        if payload is None or kind is None:
            break
        if payload is UNSET:
            if kind not in ITEM_TYPES or is_too_deep(data, depth):
                break
            code, type = _CARE, None
        else:
            if len(data) > shallow_bytes and _is_deep(data, payload, depth):
                break
            type = payload.type
            if kind == "event_msg":
                code = _CARE if type in loud else _EVENT
            elif kind == "response_item" and type in _PLAIN:
                code = _ITEM if is_plainly_whole(payload) or is_whole(payload, data) else _CARE
            elif kind == "response_item" and type == "message" and payload.role == "assistant":
                code = _SAID if is_plainly_whole(payload) or is_whole(payload, data) else _CARE
            else:
                code = _CARE
        begin = end - len(data) - 1
        if code <= _SAID or (traces and code == _EVENT):
            if run is None:
                sink.count(counted - i + 1)
                counted = i - 1
                run = sink.trace(begin, len(data), code) if traces else sink.run(begin, len(data))
            elif traces:
                run.refs.append(begin << 3 | code)
            if note is not None:
                note(numbers[code][type])
            if code <= _SAID:
                if traces:
                    run.event = ITEMS
                else:
                    run.size += run.offset - begin
                    run.offset = begin
                    if run.lines is not None:
                        run.lines.append(data)
                run.count += 1
        elif code == _CARE:
            sink.count(counted - i)
            counted = i - 1
            before = len(sink.marks)
            sink.newlines += 1
            begins = sink.take(data, begin, envelope)
            if sink.wants_usage is not wants_usage:
                wants_usage = sink.wants_usage
                loud = _LOUD[wants_usage, sink.wants_turns]
            if len(sink.marks) != before or traces:
                run = None
        i, end = i - 1, begin
    sink.count(counted - i)
    return i, end, begins


def collect_items(sink: EventSink, lines: Sequence[bytes], i: int, end: int, items: list[bytes]) -> tuple[int, int]:
    """See `Dialect`."""
    first, depth = i, sink.depth
    shallow_bytes, quiet = 2 * depth, _QUIET[sink.wants_usage, sink.wants_world]
    loud = _TAKING_BACK | {"token_count"} if sink.wants_usage else _TAKING_BACK
    for i in range(first, -1, -1):  # noqa: PLR1704 - where it stops is what is asked for
        data = lines[i]
        if not (data.isascii() or is_utf8(data)):
            break
        try:
            envelope = decode_envelope(data)
        except (msgspec.DecodeError, RecursionError):
            break
        head, kind = envelope.payload, envelope.type
        if head is None or head is UNSET:
            break
        if kind == "event_msg":  # how deep an event is that says nothing here is left to those who look at all lines
            if head.type in loud:
                break
            continue
        if len(data) > shallow_bytes and (
            is_too_deep(data, depth)
            if head.output is UNSET and head.encrypted_content is UNSET
            else _is_deep(data, head, depth)
        ):
            break
        if kind == "response_item":
            if head.role not in _NO_ROLES if head.type == "message" else head.type not in _NO_ITEMS:
                if not (is_plainly_whole(head) or is_whole(head, data)):
                    break
                items.append(data)
        elif kind not in quiet:
            break
    else:
        i = -1
    taken = first - i
    sink.count(taken)
    return i, end - sum(map(len, lines[i + 1 : first + 1])) - taken


def _is_deep(data: bytes, head: Head, depth: int) -> bool:
    long = head.encrypted_content if head.output is UNSET else head.output
    if long is not UNSET:
        view = memoryview(long)
        if view[0] == _QUOTE and len(data) - len(view) <= 2 * depth:
            return False  # what is not in this one string is too short to be deep
    return is_too_deep(data, depth)
