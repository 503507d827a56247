"""Items of any shape as lines of a log, and back: what goes in comes out equal.

An item that the model API would take is written as it is. A message in one of the SDK's short forms gets what it lacks,
so that a reader of the log sees a message: a `type`, and parts where its content is a text. What no reader would show
(S3: system messages, hidden types; items without what their type needs; values that are no items at all) is put into an
item of type `session_item`. Behind the payload the line then says what was done to it (`"item":"typeless"`, `"text"`,
`"typeless text"` or `"wrapped"`); other readers pass over that key. Only a lone
surrogate comes back as another character: U+FFFD, as no file can hold it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from rollout.dialects.codex import encoder
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.encoder import Part
from rollout.errors import RecordError
from rollout.format import strict_json
from rollout.items import shapes
from rollout.items.events import AgentLine, Entry
from rollout.items.kinds import SESSION_ITEM, is_visible

_SHOWN_ROLES = frozenset({"user", "assistant", "developer"})
_TYPELESS, _TEXT, _TYPELESS_TEXT, _WRAPPED = "typeless", "text", "typeless text", "wrapped"


class _Done(msgspec.Struct, frozen=True, gc=False):
    """What a line says was done to its item."""

    item: str | None = None


class _Line(_Done, frozen=True, gc=False, kw_only=True):
    payload: Any


_decoder = msgspec.json.Decoder(_Line)
_decode = _decoder.decode


def parts_of(items: Iterable[object]) -> list[Part]:
    """The record of each item. RecordError if one of them is no JSON value, or no line could hold it."""
    parts = [_part_of(item) for item in items]
    encoder.lines(parts, 0, None)  # refuses what is too deep or too long, before anything is made
    return parts


def _part_of(item: object) -> Part:
    payload, item = encoder.encode_mended(item)
    if isinstance(item, Raw):
        raise RecordError("not JSON: an item is of type Raw")
    kind = role = None
    if type(item) is dict or isinstance(item, Mapping):
        kind, role = item.get("type"), item.get("role")
        is_shown = type(kind) is str and (role is None or type(role) is str) and is_visible(kind, role)
        if is_shown and shapes.fault(kind, payload) is None:
            return encoder.item(payload)
        # The SDK's short forms: a message without a type, or with a text as its content.
        is_typeless = "type" not in item and "content" in item
        if (is_typeless or kind == "message") and type(role) is str and role in _SHOWN_ROLES:
            made, has_text = payload, type(item.get("content")) is str
            if has_text:
                part = {"type": "output_text" if role == "assistant" else "input_text", "text": item["content"]}
                made = encoder.encode({**item, "content": [part]})
            if is_typeless:
                made = b'{"type":"message",' + made[1:]
            if (has_text or is_typeless) and shapes.fault("message", made) is None:
                how = _TEXT if not is_typeless else _TYPELESS_TEXT if has_text else _TYPELESS
                return _marked(made, how)
    wrapped = {"type": SESSION_ITEM, "role": role if isinstance(role, str) else None, "item": Raw(payload)}
    return _marked(msgspec.json.encode(wrapped), _WRAPPED)


def _marked(payload: bytes, how: str | None) -> Part:
    return encoder.item(payload, b',"item":%b' % msgspec.json.encode(how) if how else b"")


def items_of(entries: Sequence[Entry]) -> list[Any]:
    """The items of entries of a history, as they came in: in one decoding, if all have lines of their own."""
    if all(type(entry) is bytes for entry in entries):
        with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
            found = _decoder.decode_lines(b"\n".join(entries))
            return [line.payload if line.item is None else _undone(line.payload, line.item) for line in found]
    return [item_of(entry) for entry in entries]


def item_of(entry: Entry) -> Any:
    """The item of an entry of a history, as it came in."""
    if isinstance(entry, Raw | AgentLine):  # not written here
        return strict_json.decode_value(CODEX.item_of(entry))
    try:
        line = _decode(entry)
        payload, how = line.payload, line.item
    except (msgspec.DecodeError, ValueError, RecursionError):
        payload, how = strict_json.decode_value(CODEX.item_of(entry)), _how(entry)
    return payload if how is None else _undone(payload, how)


def part_of(entry: Entry) -> Part | None:
    """The record that writes an entry's item once more, its bytes as they are; None for one without its own line."""
    if isinstance(entry, Raw | AgentLine):
        return None
    return _marked(bytes(CODEX.item_of(entry)), _how(entry))


def _undone(payload: Any, how: str) -> Any:
    """The item of a payload that `parts_of` has made of it."""
    if isinstance(payload, dict):
        if how in (_TEXT, _TYPELESS_TEXT) and _is_one_text(payload.get("content")):
            payload["content"] = payload["content"][0]["text"]
        if how in (_TYPELESS, _TYPELESS_TEXT):
            payload.pop("type", None)
        elif how == _WRAPPED and "item" in payload:
            return payload["item"]
    return payload


def _is_one_text(content: object) -> bool:
    return isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]


def _how(entry: bytes) -> str | None:
    try:
        return msgspec.json.decode(entry, type=_Done).item or None
    except msgspec.ValidationError:
        return None
