"""Items of any shape as lines of a log, and back: what goes in comes out equal.

An item that the model API would take is written as it is. A message without a `type` (the SDK's short form) gets one,
so that a reader of the log sees a message. What no reader would show (S3: system messages, hidden types, values that
are no items at all) is put into an item of type `session_item`. Behind the payload the line then says what was done
to it (`"item":"typeless"` or `"item":"wrapped"`); other readers pass over that key.

An item may hold what looks like the beginning of a line. A write that a crash cuts behind such an object would leave it
as a record of its own (readers look for one behind a torn line), so its first key is spelled with an escape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout import encoding
from rollout.core import codec
from rollout.core import records as r
from rollout.core.history import AgentLine, Entry, raw_item
from rollout.encoding import Part
from rollout.errors import RecordError
from rollout.limits import DEFAULT

_SHOWN_ROLES = frozenset({"user", "assistant", "developer"})
_TYPELESS, _WRAPPED = b',"item":"typeless"}\n', b',"item":"wrapped"}\n'
_BEGIN, _ESCAPED = b'{"timestamp":"', b'{"\\u0074imestamp":"'
_BRACE = ord("{")
_BYTES = (bytes, bytearray, memoryview, Raw)


class _Line(msgspec.Struct, frozen=True, gc=False):
    payload: Any
    type: str | None = None
    item: str | None = None


class _Wrapper(msgspec.Struct, frozen=True):
    type: str
    role: str | None
    item: Raw


_decoder = msgspec.json.Decoder(_Line)
_decode = _decoder.decode


def line_of(item: object, unix_seconds: float, label: bytes = b"") -> bytes:
    """The line of one item; `label` is the envelope of a Label. RecordError if the item is no JSON value."""
    if isinstance(item, _BYTES):
        raise RecordError(f"not JSON: an item is of type {type(item).__name__}")
    payload = encoding.encode(item)
    if _BEGIN in payload:
        payload = payload.replace(_BEGIN, _ESCAPED)
    mark = b""
    if isinstance(item, Mapping):
        kind, role = item.get("type"), item.get("role")
        if "type" not in item and type(role) is str and role in _SHOWN_ROLES and "content" in item:
            payload, mark = b'{"type":"message",' + payload[1:], _TYPELESS
        elif type(kind) is not str or not (role is None or type(role) is str) or not r.is_visible(kind, role):
            payload, mark = _wrap(payload, role), _WRAPPED
    else:
        payload, mark = _wrap(payload, None), _WRAPPED
    made = encoding.line(Part("response_item", payload), unix_seconds, None, label)
    return made if not mark else made[:-2] + mark


def _wrap(payload: bytes, role: object) -> bytes:
    return msgspec.json.encode(_Wrapper(r.SESSION_ITEM, role if isinstance(role, str) else None, Raw(payload)))


def plain_items_of(lines: list[bytes]) -> list[Any] | None:
    """The items of these lines, in one decoding; None if not every one is a plain line of a visible item."""
    block = b"\n".join(lines)
    if not codec.is_utf8(block) or any(line[0] != _BRACE for line in lines):
        return None
    try:
        found = _decoder.decode_lines(block)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if len(found) != len(lines):  # each has a value or more, as it begins with a brace
        return None
    items = []
    for line in found:
        payload, how = line.payload, line.item
        if line.type != "response_item" or type(payload) is not dict:
            return None
        kind, role = payload.get("type"), payload.get("role")
        if type(kind) is not str or not (type(role) is str or role is None) or not r.is_visible(kind, role):
            return None
        items.append(payload if how is None else _undone(payload, how))
    deepest = block.count(b"{") + block.count(b"[") - 2 * (len(lines) - 1)  # each has two or more, as it has a payload
    return None if deepest > DEFAULT.depth and any(map(_is_too_deep, lines)) else items


def _is_too_deep(line: bytes) -> bool:
    return codec.is_too_deep(line, DEFAULT.depth)


def item_of(entry: Entry) -> Any:
    """The item of an entry of a history, as it came in."""
    if isinstance(entry, Raw | AgentLine):  # not written here
        return codec.decode_value(raw_item(entry))
    try:
        line = _decode(entry)
        payload, how = line.payload, line.item
    except (msgspec.DecodeError, ValueError, RecursionError):
        payload, how = codec.decode_value(codec.payload_of(entry)), _how(entry)
    return payload if how is None else _undone(payload, how)


def _undone(payload: Any, how: str) -> Any:
    """The item of a payload that `line_of` has made of it."""
    if isinstance(payload, dict):
        if how == "typeless":
            payload.pop("type", None)
        elif how == "wrapped" and "item" in payload:
            return payload["item"]
    return payload


class _How(msgspec.Struct, frozen=True):
    item: str | UnsetType | None = UNSET


def _how(entry: bytes) -> str | None:
    try:
        found = msgspec.json.decode(entry, type=_How).item
    except msgspec.ValidationError:
        return None
    return found or None
