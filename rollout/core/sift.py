"""The two loops that every line of a log goes through.

They give a gatherer the same marks as taking each line with care would, and are written for speed: an ordinary line
costs one decoding of its envelope and a few comparisons. A line that is odd in any way is left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.core import records as r
from rollout.core.codec import decode_envelope, is_too_deep, is_utf8
from rollout.core.gather import EVENT, ITEM, Gatherer
from rollout.core.turns import Mark

_QUOTE = ord('"')
_PLAIN = r.ITEM_TYPES - r.HIDDEN_ITEM_TYPES - {"message", "agent_message"}
_NO_ROLES = frozenset({None, "system"})
_NO_ITEMS = r.HIDDEN_ITEM_TYPES | {None}


def sift(gather: Gatherer, lines: Sequence[bytes], i: int, end: int, *, stop: int = -1) -> tuple[int, int, bool]:
    """Take lines[i], lines[i - 1], … down to `stop`, the first of which ends (with its line end) at byte `end`.

    Returns the index and the end of the first line that was not taken, and whether the one taken before it begins a
    stretch. If it does not, and lines are left, the next one needs a closer look.
    """
    events, depth, marks = gather.events, gather.depth, gather.marks
    shallow_bytes = 2 * depth  # too short to be nested deeper
    run: Mark | None = None
    while i > stop:
        data = lines[i]
        if not (data.isascii() or is_utf8(data)):
            break
        try:
            envelope = decode_envelope(data)
        except (msgspec.DecodeError, RecursionError):
            break
        payload, kind = envelope.payload, envelope.type
        if payload is None or kind is None:
            break
        if payload is UNSET:
            if kind not in r.ITEM_TYPES or is_too_deep(data, depth):
                break
        elif len(data) > shallow_bytes and _is_deep(data, payload.output, depth):
            break
        begin = end - len(data) - 1
        gather.newlines += 1
        if kind == "event_msg" and payload is not UNSET and payload.type not in events and payload.type is not None:
            gather.seq += 1
            if gather.traces:
                gather.trace(begin, len(data), EVENT)
        elif (
            kind == "response_item"
            and payload is not UNSET
            and (payload.type in _PLAIN or (payload.role == "assistant" and payload.type == "message"))
        ):
            gather.seq += 1
            if gather.traces:
                gather.trace(begin, len(data), ITEM)
            else:
                if run is None:
                    run = gather.run(begin, len(data))
                run.number += 1
                run.size += run.offset - begin
                run.offset = begin
                if run.lines is not None:
                    run.lines.append(data)
        else:
            before = len(marks)
            if gather.take(data, begin, envelope):
                return i - 1, begin, True
            if len(marks) != before:
                run = None
        i, end = i - 1, begin
    return i, end, False


def decode_all(lines: Sequence[bytes]) -> list[tuple[str, r.Head]]:
    """Type and payload's head of each line; none at all if one of the lines is odd."""
    if not all(map(bytes.isascii, lines)) and not all(map(is_utf8, lines)):
        return []
    found = []
    try:
        for line in lines:
            envelope = decode_envelope(line)
            head, kind = envelope.payload, envelope.type
            if kind is None or head is None or head is UNSET:
                return []
            found.append((kind, head))
    except (msgspec.DecodeError, RecursionError):
        return []
    return found


def skim(
    gather: Gatherer, lines: Sequence[bytes], heads: Sequence[tuple[str, r.Head]], i: int, end: int, items: list[bytes]
) -> tuple[int, int]:
    """Like `sift` where nothing is to be known but the history: no turn, no boundary, no settings.

    Stops at a line that can take something back, replaces the history, is too deep, or tells what is still asked for.
    """
    first, depth = i, gather.depth
    shallow_bytes, loud, quiet = 2 * depth, gather.loud_events, gather.quiet
    while i >= 0:
        kind, head = heads[i]
        data = lines[i]
        if len(data) > shallow_bytes and _is_deep(data, head.output, depth):
            break
        if kind == "event_msg":
            if head.type in loud:
                break
        elif kind == "response_item":
            if head.role not in _NO_ROLES if head.type == "message" else head.type not in _NO_ITEMS:
                items.append(data)
        elif kind not in quiet:
            break
        i -= 1
    taken = first - i
    gather.seq += taken
    gather.newlines += taken
    return i, end - sum(map(len, lines[i + 1 : first + 1])) - taken


def _is_deep(data: bytes, output: Raw | UnsetType, depth: int) -> bool:
    if output is not UNSET:
        view = memoryview(output)
        if view[0] == _QUOTE and len(data) - len(view) <= 2 * depth:
            return False  # what is not in this one string is too short to be deep
    return is_too_deep(data, depth)
