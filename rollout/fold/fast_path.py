"""The two loops that every line of a log goes through.

They give a gatherer the same marks as taking each line with care would, and are written for speed: an ordinary line
costs one decoding of its envelope and a few comparisons. A line that is odd in any way is left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from rollout.dialects.codex.envelope import decode_envelope
from rollout.dialects.codex.items import is_whole
from rollout.fold.collector import EVENT, ITEM, SPOKEN, Gatherer
from rollout.fold.events import Kind, Mark
from rollout.format.strict_json import is_too_deep, is_utf8
from rollout.items.kinds import HIDDEN_ITEM_TYPES, ITEM_TYPES, Head

_QUOTE = ord('"')
_CARE = 8  # not a code: the gatherer looks at the record itself
_PLAIN = ITEM_TYPES - HIDDEN_ITEM_TYPES - {"message", "agent_message"}
"""The types that are neither a boundary nor contextual, whoever says them."""
_NO_ROLES = frozenset({None, "system"})
_NO_ITEMS = HIDDEN_ITEM_TYPES | {None}


def sift(gather: Gatherer, lines: Sequence[bytes], i: int, end: int, *, stop: int = -1) -> tuple[int, int, bool]:
    """Take lines[i], lines[i - 1], … down to `stop`, the first of which ends (with its line end) at byte `end`.

    Returns the index and the end of the first line that was not taken, and whether the one taken before it begins a
    stretch. If it does not, and lines are left, the next one needs a closer look.
    """
    events, depth, traces = gather.events, gather.depth, gather.traces
    note, numbers = (None, ()) if gather.names is None else gather.names.noting
    shallow_bytes = 2 * depth  # too short to be nested deeper
    counted = i  # lines above it are in the gatherer's counts
    run: Mark | None = None  # that the next plain line goes on with
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
                code = _CARE if type in events or type is None else EVENT
            elif kind == "response_item" and type in _PLAIN:
                code = ITEM if is_whole(payload, data) else _CARE
            elif kind == "response_item" and type == "message" and payload.role == "assistant":
                code = SPOKEN if is_whole(payload, data) else _CARE
            else:
                code = _CARE
        begin = end - len(data) - 1
        if code <= SPOKEN or (traces and code == EVENT):
            if run is None:
                gather.count(counted - i + 1)
                counted = i - 1
                run = gather.trace(begin, len(data), code) if traces else gather.run(begin, len(data))
            elif traces:
                assert run.refs is not None
                run.refs.append(begin << 3 | code)
            if note is not None:
                note(numbers[code][type])
            if code <= SPOKEN:
                if traces:
                    run.kind = Kind.ITEMS
                else:
                    run.size += run.offset - begin
                    run.offset = begin
                    if run.lines is not None:
                        run.lines.append(data)
                run.number += 1
        elif code == _CARE:
            gather.count(counted - i)
            counted = i - 1
            before = len(gather.marks)
            gather.newlines += 1
            begins = gather.take(data, begin, envelope)
            if len(gather.marks) != before or traces:
                run = None
        i, end = i - 1, begin
    gather.count(counted - i)
    return i, end, begins


def skim(gather: Gatherer, lines: Sequence[bytes], i: int, end: int, items: list[bytes]) -> tuple[int, int]:
    """Like `sift` where nothing is to be known but the history: no turn, no boundary, no settings.

    Stops at a line that is odd, can take something back, replaces the history, or tells what is still asked for.
    """
    first, depth = i, gather.depth
    shallow_bytes, loud, quiet = 2 * depth, gather.loud_events, gather.quiet
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
                if not is_whole(head, data):
                    break
                items.append(data)
        elif kind not in quiet:
            break
    else:
        i = -1
    taken = first - i
    gather.count(taken)
    return i, end - sum(map(len, lines[i + 1 : first + 1])) - taken


def _is_deep(data: bytes, head: Head, depth: int) -> bool:
    long = head.encrypted_content if head.output is UNSET else head.output
    if long is not UNSET:
        view = memoryview(long)
        if view[0] == _QUOTE and len(data) - len(view) <= 2 * depth:
            return False  # what is not in this one string is too short to be deep
    return is_too_deep(data, depth)
