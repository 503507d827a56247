"""Records to lines: what may be written, and its one spelling.

A line is `{"timestamp":…,"type":…,"payload":…}` (an `ordinal` before the type where the log has them, then the keys of
a label), compact, UTF-8. A value is JSON already or it is refused: nothing is turned into something else, and no number
goes through a float. JSON that is given as bytes is checked and put in as it is. What is refused raises RecordError
before a byte is written. One thing is mended: a lone surrogate, which no file can hold, is written as U+FFFD (see
`format.surrogates`), so that what a tool has given back is never lost to a name that is no text.

A payload may hold what looks like the beginning of a line. A write that a crash cuts behind such an object would leave
it as a record of its own (readers look for one behind a torn line), so its first key is spelled with an escape.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from rollout.dialects.codex.envelope import Agent, WorldState
from rollout.errors import RecordError, UsageError
from rollout.format import strict_json
from rollout.format.surrogates import mend, mend_json, mend_text
from rollout.items import shapes
from rollout.items.history import History
from rollout.items.kinds import is_visible
from rollout.limits import DEFAULT

AnyItem: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview | Raw
"""One item: a mapping of JSON values, or its JSON."""

_BEGIN, _ESCAPED = b'{"timestamp":"', b'{"\\u0074imestamp":"'
_JSON_SPACE = b" \t\r\n"
_BYTES = (bytes, bytearray, memoryview, Raw)
_PLAIN = frozenset({str, int, bool, type(None)})
_encode = msgspec.json.Encoder(enc_hook=dict).encode  # only mappings come to the hook
_NOT_FOR_CALLERS = frozenset({"id", "timestamp", "forked_from_id", "history_base", "history_mode"})


class Part(NamedTuple):
    """A record to be written: the line's `type`, the JSON of its payload, and what the envelope has behind that."""

    type: str
    payload: bytes
    behind: bytes = b""


class _LoneSurrogateError(ValueError):
    """There is one in a value that is JSON already."""


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
    "world_state": msgspec.json.Decoder(WorldState).decode,
    "token_usage_record": msgspec.json.Decoder(_Object).decode,
    "inter_agent_communication": msgspec.json.Decoder(Agent).decode,
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
    return encode_value(value)


def encode_value(value: object) -> bytes:
    """A JSON value as JSON on one line; bytes are none."""
    return encode_mended(value)[0]


def encode_mended(value: object) -> tuple[bytes, object]:
    """The same, and the value that it is the JSON of: `value` itself, or what mending its lone surrogates has left."""
    try:
        try:
            _check(value)
            return _encode(value), value
        except (UnicodeEncodeError, _LoneSurrogateError):
            value = mend(value)
            _check(value)
            return _encode(value), value
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RecordError(f"not JSON: {error}") from None


def encode_item(item: AnyItem) -> tuple[bytes, str, str | None]:
    """An item's JSON, its type and its role."""
    if isinstance(item, _BYTES):
        payload = _one_line(bytes(item))
    else:
        payload = encode_mended(item)[0]
    found = _shaped("response_item", payload)
    _check_shape(found, payload)
    return payload, found.type, found.role


def _check_shape(found: _Item, payload: bytes) -> None:
    """Raises RecordError for an item that would have no effect, as it lacks what its type needs."""
    why = shapes.fault(found.type, payload) if is_visible(found.type, found.role) else None
    if why is not None:
        raise RecordError(f"no {found.type} that a model could be sent: {why}", remedy="give it what it needs")


def encode_items(items: Iterable[AnyItem]) -> list[Raw]:
    """Items of a replacement_history."""
    if isinstance(items, History):
        return [Raw(items.raw(i)) for i in range(len(items))]
    return [Raw(encode_item(item)[0]) for item in items]


def event(type: str, keys: Mapping[str, Any]) -> Part:
    """An event_msg."""
    return Part("event_msg", encode({"type": type, **keys}))


def event_record(type: str, keys: Mapping[str, Any]) -> Part:
    """An event_msg of any type that no method of its own writes. RecordError."""
    return record("event_msg", {"type": type, **keys})


def record(type: str, payload: object) -> Part:
    """A record of any type that no method of its own writes, known or not."""
    remedy = _WRITTEN_ELSEWHERE.get(type)
    if remedy is not None:
        raise RecordError(f"{type!r} is not to be written like this", remedy=remedy)
    part = Part(type, encode(payload))
    if type in _SHAPES:
        found = _shaped(type, part.payload)
        if type == "response_item":
            _check_shape(found, part.payload)
        remedy = _EVENTS_WRITTEN_ELSEWHERE.get(found.type) if type == "event_msg" else None
        if remedy is not None:
            raise RecordError(f"{found.type!r} is not to be written like this", remedy=remedy)
    return part


def line(part: Part, unix_seconds: float, ordinal: int | None = None, label: bytes = b"") -> bytes:
    """The line, with its end; `unix_seconds` is its time, `label` the envelope of a Label."""
    return _enclose(_head_of(part.type, unix_seconds, ordinal, label), part)


def lines(parts: Sequence[Part], unix_seconds: float, newest: int | None, label: bytes = b"") -> list[bytes]:
    """The lines of records that are written at once, numbered behind the `newest`, or not at all."""
    if newest is not None:
        return [line(part, unix_seconds, newest + n, label) for n, part in enumerate(parts, 1)]
    if len(parts) > 1 and len({part.type for part in parts}) == 1:
        return _enclose_all(_head_of(parts[0].type, unix_seconds, None, label), parts)
    return [line(part, unix_seconds, None, label) for part in parts]


def _head_of(type: str, unix_seconds: float, ordinal: int | None, label: bytes) -> bytes:
    """What a line has ahead of its payload."""
    unix_ms = round(unix_seconds * 1000)
    return _head(unix_ms, type, label if ordinal is None else b'"ordinal":%d,%b' % (ordinal, label))


@functools.lru_cache(maxsize=16)  # many records are of one millisecond
def _head(unix_ms: int, type: str, keys: bytes) -> bytes:
    return b'{"timestamp":"%b",%b"type":%b,"payload":' % (_timestamp(unix_ms).encode(), keys, _encode(mend_text(type)))


def _enclose(head: bytes, part: Part) -> bytes:
    payload = part.payload
    if strict_json.is_too_deep(payload, DEFAULT.depth - 1):
        raise RecordError(f"nested deeper than {DEFAULT.depth}")
    if _BEGIN in payload:
        payload = payload.replace(_BEGIN, _ESCAPED)
    made = b"%b%b%b}\n" % (head, payload, part.behind)
    if len(made) > DEFAULT.line_bytes:
        raise RecordError(f"a line of {len(made)} bytes is longer than the limit of {DEFAULT.line_bytes}")
    return made


def _enclose_all(head: bytes, parts: Sequence[Part]) -> list[bytes]:
    """The same for many: looked at one by one only if all together are too much."""
    block = b"".join([payload for _, payload, _ in parts])
    if (
        strict_json.count_opened(block) >= DEFAULT.depth
        or len(parts) * 64 + len(head) + len(block) > DEFAULT.line_bytes
        or _BEGIN in block
    ):
        return [_enclose(head, part) for part in parts]
    return [b"%b%b%b}\n" % (head, payload, behind) for _, payload, behind in parts]


def timestamp(unix_seconds: float) -> str:
    """UTC with milliseconds: 2026-03-20T10:00:02.000Z."""
    return _timestamp(round(unix_seconds * 1000))


def _timestamp(unix_ms: int) -> str:
    second, ms = divmod(unix_ms, 1000)
    return f"{_second(second)}.{ms:03d}Z"


@functools.lru_cache(maxsize=4)
def _second(unix_seconds: int) -> str:
    return datetime.datetime.fromtimestamp(unix_seconds, datetime.UTC).isoformat()[:19]


def _check(value: object) -> None:
    """Raises TypeError or ValueError for what is no JSON but would be turned into some."""
    kind = type(value)
    if kind is dict or (kind is not list and kind not in _PLAIN and isinstance(value, Mapping)):
        for key, under in value.items():  # type: ignore[attr-defined]  # a mapping, as the line above says
            if type(key) is not str:
                raise TypeError(f"a key is {key!r}, not a text")
            if type(under) not in _PLAIN:
                _check(under)
    elif isinstance(value, list | tuple):
        for under in value:
            if type(under) not in _PLAIN:
                _check(under)
    elif isinstance(value, float) and kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
    elif isinstance(value, Raw):
        data = bytes(value)
        if mend_json(data) != data:
            raise _LoneSurrogateError
        if b"\n" in data or not strict_json.is_utf8(data):
            raise ValueError("line ends or invalid UTF-8 in what is said to be JSON")
        _shaped("", data)
    elif kind not in _PLAIN:
        raise TypeError(f"a value is of type {kind.__name__}")


def _one_line(data: bytes) -> bytes:
    """JSON as it was given, but for white space around it; whether it is JSON is for its decoder to say."""
    data = data.strip(_JSON_SPACE)
    if b"\n" in data:
        raise RecordError("JSON with line ends in it", remedy="give it on one line")
    if not strict_json.is_utf8(data):
        raise RecordError("not JSON: invalid UTF-8")
    return mend_json(data)


def _shaped(type: str, payload: bytes) -> Any:
    try:
        return _SHAPES[type](payload)
    except msgspec.ValidationError as error:
        raise RecordError(f"not a {type or 'value'}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}") from None


def new_session_meta(
    thread: str,
    timestamp: str,
    version: str,
    more: Mapping[str, Any],
    *,
    cwd: str,
    originator: str,
    source: str | Mapping[str, Any],
    model_provider: str,
    base_instructions: str | Mapping[str, Any] | None,
    git: Mapping[str, Any] | None,
) -> Part:
    """The session_meta of a new thread; `more` are further keys of it, and can say another `version`.

    Raises:
        UsageError: `more` has what is not for the caller to say.
        RecordError: it cannot be written as JSON.
    """
    if reserved := sorted(_NOT_FOR_CALLERS & more.keys()):
        raise UsageError(f"{reserved[0]} is not for the caller to say", remedy="leave it out")
    said = {"text": base_instructions} if isinstance(base_instructions, str) else base_instructions
    meta = {
        "id": thread,
        "timestamp": timestamp,
        "cwd": cwd,
        "originator": originator,
        "cli_version": version,
        "source": source,
        "model_provider": model_provider,
        **({} if said is None else {"base_instructions": said}),
        **({} if git is None else {"git": git}),
    }
    return Part("session_meta", encode({**meta, **more}))
