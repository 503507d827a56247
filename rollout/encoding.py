"""Records to lines: what may be written, and its one spelling.

A line is `{"timestamp":…,"type":…,"payload":…}` (an `ordinal` before the type where the log has them, then the keys of
a label), compact, UTF-8.
JSON that is given as bytes is checked and put in as it is. A value is JSON already or it is refused: nothing is turned
into something else, and no number goes through a float. What is refused raises RecordError before a byte is written.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from rollout.core import codec
from rollout.core import records as r
from rollout.core.history import History
from rollout.errors import RecordError
from rollout.limits import DEFAULT

AnyItem: TypeAlias = "Mapping[str, Any] | bytes | bytearray | memoryview | Raw"
"""One item: a mapping of JSON values, or its JSON."""

_JSON_SPACE = b" \t\r\n"
_BYTES = (bytes, bytearray, memoryview, Raw)
_PLAIN = frozenset({str, int, bool, type(None)})
_encode = msgspec.json.Encoder(enc_hook=dict).encode  # only mappings come to the hook


class Part(NamedTuple):
    """A record to be written: the line's `type`, and the JSON of its payload."""

    type: str
    payload: bytes


class _Item(msgspec.Struct, frozen=True):
    type: str
    role: str | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str


class _Object(msgspec.Struct, frozen=True):
    pass


_SHAPES: dict[str, Callable[[bytes], Any]] = {
    "": msgspec.json.Decoder(Raw).decode,
    "response_item": msgspec.json.Decoder(_Item).decode,
    "event_msg": msgspec.json.Decoder(_Event).decode,
    "world_state": msgspec.json.Decoder(r.WorldState).decode,
    "token_usage_record": msgspec.json.Decoder(_Object).decode,
    "inter_agent_communication": msgspec.json.Decoder(_Object).decode,
}
_WRITTEN_ELSEWHERE = {
    "session_meta": "it is written when a log is made",
    "turn_context": "give it to turn()",
    "compacted": "use compact()",
}
_EVENTS_WRITTEN_ELSEWHERE = {
    **dict.fromkeys(
        ("task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"), "turn() writes it"
    ),
    "thread_rolled_back": "use rollback()",
}


def encode(value: object) -> bytes:
    """Any JSON value, or JSON in bytes, as JSON on one line."""
    if isinstance(value, _BYTES):
        data = _one_line(bytes(value))
        _shaped("", data)
        return data
    try:
        _check(value)
        return _encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RecordError(f"not JSON: {error}") from None


def encode_item(item: AnyItem) -> tuple[bytes, str, str | None]:
    """An item's JSON, its type and its role."""
    if isinstance(item, _BYTES):
        payload = _one_line(bytes(item))
    else:
        payload = encode(item)
        if type(item) is dict:
            kind, role = item.get("type"), item.get("role")
            if type(kind) is str and (role is None or type(role) is str):
                return payload, kind, role
    found = _shaped("response_item", payload)
    return payload, found.type, found.role


def encode_items(items: Iterable[AnyItem]) -> list[Raw]:
    """Items of a replacement_history."""
    if isinstance(items, History):
        return [Raw(items.raw(i)) for i in range(len(items))]
    return [Raw(encode_item(item)[0]) for item in items]


def event(type: str, keys: Mapping[str, Any]) -> Part:
    """An event_msg."""
    return Part("event_msg", encode({"type": type, **keys}))


def record(type: str, payload: object) -> Part:
    """A record of any type that no method of its own writes, known or not."""
    remedy = _WRITTEN_ELSEWHERE.get(type)
    if remedy is not None:
        raise RecordError(f"{type!r} is not to be written like this", remedy=remedy)
    part = Part(type, encode(payload))
    if type in _SHAPES:
        found = _shaped(type, part.payload)
        remedy = _EVENTS_WRITTEN_ELSEWHERE.get(found.type) if type == "event_msg" else None
        if remedy is not None:
            raise RecordError(f"{found.type!r} is not to be written like this", remedy=remedy)
    return part


def line(part: Part, unix_seconds: float, ordinal: int | None = None, label: bytes = b"") -> bytes:
    """The line, with its end; `unix_seconds` is its time, `label` the envelope of a Label."""
    kind, payload = part
    if codec.is_too_deep(payload, DEFAULT.depth - 1):
        raise RecordError(f"nested deeper than {DEFAULT.depth}")
    unix_ms = round(unix_seconds * 1000)
    if ordinal is None:
        made = _beginning(unix_ms, kind, label) + payload + b"}\n"
    else:
        head = b'{"timestamp":"%b","ordinal":%d,%b"type":%b,"payload":'
        made = head % (_timestamp(unix_ms).encode(), ordinal, label, _encode(kind)) + payload + b"}\n"
    if len(made) > DEFAULT.line_bytes:
        raise RecordError(f"a line of {len(made)} bytes is longer than the limit of {DEFAULT.line_bytes}")
    return made


def timestamp(unix_seconds: float) -> str:
    """UTC with milliseconds: 2026-03-20T10:00:02.000Z."""
    return _timestamp(round(unix_seconds * 1000))


@functools.lru_cache(maxsize=16)  # many records are of one millisecond
def _beginning(unix_ms: int, kind: str, label: bytes) -> bytes:
    return b'{"timestamp":"%b",%b"type":%b,"payload":' % (_timestamp(unix_ms).encode(), label, _encode(kind))


@functools.lru_cache(maxsize=4)
def _timestamp(unix_ms: int) -> str:
    second, ms = divmod(unix_ms, 1000)
    return f"{datetime.datetime.fromtimestamp(second, datetime.UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"


def _check(value: object) -> None:
    """Raises TypeError or ValueError for what is no JSON but would be turned into some."""
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]  # a float, as the line above says
            raise ValueError(f"{value} is no number of JSON")
    elif isinstance(value, dict) or (
        kind is not list and isinstance(value, Mapping)
    ):  # the last question is a slow one
        for key, under in value.items():
            if type(key) is not str:
                raise TypeError(f"a key is {key!r}, not a text")
            if type(under) not in _PLAIN:
                _check(under)
    elif isinstance(value, list | tuple):
        for under in value:
            if type(under) not in _PLAIN:
                _check(under)
    elif kind is not Raw:  # those are made here, of what was checked
        raise TypeError(f"a value is of type {kind.__name__}")


def _one_line(data: bytes) -> bytes:
    """JSON as it was given, but for white space around it; whether it is JSON is for its decoder to say."""
    data = data.strip(_JSON_SPACE)
    if b"\n" in data:
        raise RecordError("JSON with line ends in it", remedy="give it on one line")
    if not codec.is_utf8(data):
        raise RecordError("not JSON: invalid UTF-8")
    return data


def _shaped(type: str, payload: bytes) -> Any:
    try:
        return _SHAPES[type](payload)
    except msgspec.ValidationError as error:
        raise RecordError(f"not a {type or 'value'}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}") from None
