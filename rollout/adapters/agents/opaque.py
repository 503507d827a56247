"""Items of any shape as lines of a log, and back: what goes in comes out equal.

An item that the model API would take is written as it is. A message in one of the SDK's short forms gets what it lacks,
so that a reader of the log sees a message: a `type`, and parts where its content is a text. What no reader would show
(S3: system messages, hidden types; items without what their type needs; values that are no items at all) is put into an
item of type `session_item`. Behind the payload the line then says what was done to it (`"item":"typeless"`, `"text"`,
`"typeless text"` or `"wrapped"`); other readers pass over that key. Only a lone
surrogate comes back as another character: U+FFFD, as no file can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex import encoder, new_records
from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.encoder import Part
from rollout.dialects.codex.items import is_shown
from rollout.errors import RecordError
from rollout.format import strict_json
from rollout.items import shapes
from rollout.items.dialect import AgentLine, Entry
from rollout.items.kinds import SESSION_ITEM, is_visible
from rollout.limits import DEFAULT

_SHOWN_ROLES = frozenset({"user", "assistant", "developer"})
_TYPELESS, _WRAPPED = b',"item":"typeless"', b',"item":"wrapped"'
_TEXT, _TYPELESS_TEXT = b',"item":"text"', b',"item":"typeless text"'
_TEXT_FORMS, _TYPELESS_FORMS = frozenset({"text", "typeless text"}), frozenset({"typeless", "typeless text"})
_BRACE = ord("{")


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


def parts_of(items: Iterable[object]) -> list[Part]:
    """The record of each item. RecordError if one of them is no JSON value, or no line could hold it."""
    parts = [new_records.item(*_payload_of(item)) for item in items]
    encoder.lines(parts, 0, None)  # refuses what is too deep or too long, before anything is made
    return parts


def _payload_of(item: object) -> tuple[bytes, bytes]:
    """The payload, and what stands behind it."""
    payload, item = encoder.encode_mended(item)
    if type(item) is not dict and not isinstance(item, Mapping):
        if isinstance(item, Raw):
            raise RecordError("not JSON: an item is of type Raw")
        return _wrap(payload, None), _WRAPPED
    kind, role = item.get("type"), item.get("role")
    if type(kind) is str and (role is None or type(role) is str) and is_visible(kind, role):
        if shapes.fault(kind, payload) is None:
            return payload, b""
        is_typeless = False
    else:
        is_typeless = "type" not in item and "content" in item
    # The SDK's short forms: a message without a type, or with a text as its content.
    if (is_typeless or kind == "message") and type(role) is str and role in _SHOWN_ROLES:
        made, how = payload, b""
        if type(item.get("content")) is str:
            part = {"type": "output_text" if role == "assistant" else "input_text", "text": item["content"]}
            made = encoder.encode_value({**item, "content": [part]})
            how = _TEXT
        if is_typeless:
            made = b'{"type":"message",' + made[1:]
            how = _TYPELESS_TEXT if how else _TYPELESS
        if how and shapes.fault("message", made) is None:
            return made, how
    return _wrap(payload, role), _WRAPPED


def _wrap(payload: bytes, role: object) -> bytes:
    return msgspec.json.encode(_Wrapper(SESSION_ITEM, role if isinstance(role, str) else None, Raw(payload)))


def plain_items_of(lines: list[bytes]) -> list[Any] | None:
    """The items of these lines, in one decoding; None if not every one is a plain line of a visible item."""
    block = b"\n".join(lines)
    if not strict_json.is_utf8(block) or any(line[0] != _BRACE for line in lines):
        return None
    try:
        found = _decoder.decode_lines(block)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if len(found) != len(lines):  # each has a value or more, as it begins with a brace
        return None
    items = []
    for line, data in zip(found, lines, strict=True):
        payload, how = line.payload, line.item
        if line.type != "response_item" or type(payload) is not dict:
            return None
        try:
            envelope = codec.decode_envelope(data)
        except msgspec.ValidationError:
            return None
        if not is_shown(envelope, data):
            return None
        items.append(payload if how is None else _undone(payload, how))
    deepest = block.count(b"{") + block.count(b"[") - 2 * (len(lines) - 1)  # each has two or more, as it has a payload
    return None if deepest > DEFAULT.depth and any(map(_is_too_deep, lines)) else items


def _is_too_deep(line: bytes) -> bool:
    return strict_json.is_too_deep(line, DEFAULT.depth)


def item_of(entry: Entry) -> Any:
    """The item of an entry of a history, as it came in."""
    if isinstance(entry, Raw | AgentLine):  # not written here
        return strict_json.decode_value(CODEX.item_of(entry))
    try:
        line = _decode(entry)
        payload, how = line.payload, line.item
    except (msgspec.DecodeError, ValueError, RecursionError):
        payload, how = strict_json.decode_value(codec.payload_of(entry)), _how(entry)
    return payload if how is None else _undone(payload, how)


def part_of(entry: Entry) -> Part | None:
    """The record that writes an entry's item once more, its bytes as they are; None for one without its own line."""
    if isinstance(entry, Raw | AgentLine):
        return None
    how = _how(entry)
    return new_records.item(
        bytes(codec.payload_of(entry)), b"" if how is None else b',"item":' + msgspec.json.encode(how)
    )


def _undone(payload: Any, how: str) -> Any:
    """The item of a payload that `parts_of` has made of it."""
    if isinstance(payload, dict):
        if how in _TEXT_FORMS and _is_one_text(payload.get("content")):
            payload["content"] = payload["content"][0]["text"]
        if how in _TYPELESS_FORMS:
            payload.pop("type", None)
        elif how == "wrapped" and "item" in payload:
            return payload["item"]
    return payload


def _is_one_text(content: object) -> bool:
    return isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]


class _How(msgspec.Struct, frozen=True):
    item: str | UnsetType | None = UNSET


def _how(entry: bytes) -> str | None:
    try:
        found = msgspec.json.decode(entry, type=_How).item
    except msgspec.ValidationError:
        return None
    return found or None
