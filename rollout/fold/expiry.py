"""What is left of a record whose time has come: its place in the structure of the log, and not a word.

S1 to S4 carry on with an expired record as if it stood there whole; only what it would have shown is not shown. So it
becomes the least record that the rules count as they counted it: an item the event `expired`, which tells what it
`was` (boundary, agent, contextual, item); a turn_context that event too (`context`, with its turn_id); a compaction and
a world_state such ones with nothing in them; events that bound turns, announce or take back, those events. What the
rules do not count is an `expired` that was nothing, and what was malformed stays so. Programs that do not know the
event pass it over.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from rollout.fold.collector import Gatherer
from rollout.fold.events import Kind, Mark
from rollout.format import envelope

_EVENT = b'"event_msg"'
_NOTHING = b'{"type":"expired"}'
_WAS = {Kind.BOUNDARY: "boundary", Kind.CONTEXTUAL: "contextual", Kind.ITEMS: "item", Kind.CONTEXT: "context"}
_BASE, _SUMMARY = b'{"message":"","replacement_history":[]}', b'{"message":"","expired":true}'
_LASTING_KEYS = ("type", "turn_id", "num_turns", "num_items", "reason")
_raw_keys = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode


def left_of(type: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """Type and payload (JSON) of what a record becomes; of what that becomes, the same.

    It is at most 48 bytes longer than the payload was.
    """
    line = b'{"type":%b,"payload":%b}' % (type, payload)
    gather = Gatherer(wants_items=False, traces=True)
    try:
        gather.take(line, 0, envelope.decode(line))
    except envelope.NotARecord:
        return _EVENT, _NOTHING
    return _left_of_mark(gather.marks[-1], payload)


def _left_of_mark(mark: Mark, payload: bytes) -> tuple[bytes, bytes]:
    kind = mark.kind
    if mark.key == "malformed":
        return _EVENT, b"{}"
    if kind in _WAS:
        turn = {"turn_id": mark.key} if kind is Kind.CONTEXT and mark.key is not None else {}
        is_agents = kind is Kind.BOUNDARY and (mark.key == "agent" or mark.number)
        return _EVENT, _encode({"type": "expired", "was": "agent" if is_agents else _WAS[kind], **turn})
    if kind is Kind.COMPACTED:
        return b'"compacted"', _BASE if mark.number else _SUMMARY
    if kind is Kind.WORLD:
        return b'"world_state"', _encode({"full": bool(mark.number), "state": {}})
    if kind is Kind.ANNOUNCED:
        return _EVENT, b'{"type":"user_message","message":""}'
    if kind is Kind.OTHER:
        return _EVENT, _NOTHING
    keys = _raw_keys.decode(payload)
    return _EVENT, b"{" + b",".join(_encode(k) + b":" + bytes(keys[k]) for k in _LASTING_KEYS if k in keys) + b"}"
