"""Line <-> record: the envelope first, the payload only when it is needed.

A line is a record if it is valid UTF-8 and strict JSON, not too deep, and an object with a `type` and a `payload`, or
one of the bare forms of 2025. An ordinary line takes one call; a line that is odd in any way (damage, shapes that
nobody writes) is looked at again with care. Unknown kinds and keys are never an error; names follow `format.md`, and
nothing here knows what a record means.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex.names import RECORD_TYPES
from rollout.format.lines import Piece
from rollout.format.strict_json import is_too_deep, is_utf8, text_of
from rollout.items.kinds import ITEM_TYPES, Head
from rollout.limits import DEFAULT

P = TypeVar("P")
_NUL_RUN = re.compile(rb"\0+")
# S: an unescaped `{"timestamp":"` cannot stand inside a JSON string, so a record begins there.
_RECORD_BEGIN = re.compile(rb'(?<!\\)\{"timestamp":"')
_ASCII_SPACE = b" \t\r\n\x0b\x0c"
_BOM = b"\xef\xbb\xbf"
UNOPENED = b"!crypt:"
"""How a line begins in the text of an encrypted log that could not be opened; the letter behind it says why."""
_WHY_UNOPENED = {
    b"c": "an encrypted line that was changed, or is from another place or another thread",
    b"p": "no encrypted line, in an encrypted log: torn, changed, or written by somebody without the key",
}


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """The keys of a line that tell what it is.

    `payload` is UNSET of a bare item of 2025 (`role` is then the item's), None where it is no object or its head is
    not readable.
    """

    type: str | None = None
    payload: Head | UnsetType | None = UNSET
    role: str | None = None


class LineOf(msgspec.Struct, Generic[P], frozen=True, gc=False):
    """A line by its payload."""

    payload: P


class _Stamp(msgspec.Struct, frozen=True, gc=False):
    timestamp: Raw | UnsetType = UNSET


class _Payload(msgspec.Struct, frozen=True, gc=False):
    payload: Raw | UnsetType = UNSET


class _Lifecycle(msgspec.Struct, frozen=True, gc=False):
    turn_id: Raw | UnsetType = UNSET


class Compacted(msgspec.Struct, frozen=True, gc=False):
    """compacted; without a list it is one of the old kind and `message` is needed."""

    replacement_history: list[Raw] | None = None
    message: Raw | UnsetType = UNSET


class WorldState(msgspec.Struct, frozen=True, gc=False):
    """world_state: a snapshot (full) or a merge patch (RFC 7396)."""

    full: bool
    state: dict[str, Raw]


class Agent(msgspec.Struct, frozen=True, gc=False):
    """inter_agent_communication: without one of the first four it has no effect."""

    author: str
    recipient: str
    content: str
    trigger_turn: bool
    encrypted_content: str | None = None
    id: str | None = None
    other_recipients: list[str] = []


decode_envelope = msgspec.json.Decoder(Envelope).decode
"""The envelope of a line of valid UTF-8, without a look at its nesting."""
_stamp, _payload = msgspec.json.Decoder(_Stamp), msgspec.json.Decoder(_Payload)
_lifecycle = msgspec.json.Decoder(LineOf[_Lifecycle])
_keys = msgspec.json.Decoder(dict[str, Raw])
SESSION_META = Envelope("session_meta", Head())
"""The envelope of a bare session meta of 2025."""
PASSED_OVER = Envelope("record_type", Head())
"""The envelope of a `{"record_type": …}` line of 2025."""


def decode_plain(line: bytes, depth: int = DEFAULT.depth) -> Envelope | None:
    """The envelope of an ordinary line (without b"\\n"); None for one that `split` must look at."""
    if not line.startswith(b"{") or not is_utf8(line):
        return None
    try:
        envelope = decode_envelope(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if envelope.payload is None or (envelope.payload is UNSET and envelope.type not in ITEM_TYPES):
        return None
    return None if envelope.type is None or is_too_deep(line, depth) else envelope


def split(line: bytes, depth: int = DEFAULT.depth) -> Iterator[Piece[Envelope]]:
    """What an odd line holds, in order; nothing for a blank one. `line` is without b"\\n"."""
    begin = 0
    for nul in _NUL_RUN.finditer(line):
        yield from _salvage(line, begin, nul.start(), depth)
        begin = nul.end()
    yield from _salvage(line, begin, len(line), depth)


def records_in(line: bytes, depth: int = DEFAULT.depth) -> list[tuple[int, bytes, Envelope]]:
    """The records of a line, in order, each with where in the line it begins: one, unless the line is odd."""
    envelope = decode_plain(line, depth)
    if envelope is not None:
        return [(0, line, envelope)]
    return [(piece.offset, piece.data, piece.envelope) for piece in split(line, depth) if piece.envelope is not None]


def holds_record(data: bytes, depth: int = DEFAULT.depth) -> bool:
    """Whether a reader finds a record in these bytes, which hold no line end."""
    return any(piece.envelope is not None for piece in split(data, depth))


def _salvage(line: bytes, begin: int, end: int, depth: int) -> Iterator[Piece[Envelope]]:
    """What stands there: one record, or those behind a torn one, each with what lies before it."""
    piece = _try_piece(line, begin, end, depth)
    if piece is None:
        return
    found = [] if piece.envelope is not None else _RECORD_BEGIN.finditer(line, piece.offset + 1, end)
    cuts = [each.start() for each in found]
    parts = (_try_piece(line, *part, depth) for part in itertools.pairwise([begin, *cuts, end]))
    yield from filter(None, parts if cuts else [piece])


def _try_piece(line: bytes, begin: int, end: int, depth: int) -> Piece[Envelope] | None:
    data = line[begin:end]
    stripped = data.lstrip(_ASCII_SPACE)
    if stripped.startswith(_BOM):
        stripped = stripped[len(_BOM) :].lstrip(_ASCII_SPACE)
    offset = begin + len(data) - len(stripped)
    stripped = stripped.rstrip(_ASCII_SPACE)
    if not stripped:
        return None
    found = _decode(stripped, depth)
    return Piece(offset, stripped, found) if isinstance(found, Envelope) else Piece(offset, stripped, None, *found)


def _decode(data: bytes, depth: int) -> Envelope | tuple[str, str]:
    """The envelope of one record of any shape; else of what kind the damage is, as in `Damage`, and the reason."""
    if data.startswith(UNOPENED):
        return "encrypted", _WHY_UNOPENED.get(data[len(UNOPENED) : len(UNOPENED) + 1], "not JSON")
    if not is_utf8(data):
        return "utf8", "invalid UTF-8"
    if is_too_deep(data, depth):
        return "deep", f"nested deeper than {depth}"
    try:
        found = _judge(_keys.decode(data))
        return ("not_a_record", found) if isinstance(found, str) else found
    except msgspec.ValidationError:
        return "not_a_record", "not an object with a type and a payload"
    except msgspec.DecodeError as error:
        return "json", f"not JSON: {str(error).removeprefix('JSON is malformed: ').removeprefix('Input data was ')}"
    except RecursionError:
        return "deep", f"nested deeper than {depth}"


def _judge(keys: Mapping[str, Raw]) -> Envelope | str:
    """The envelope of an object with these keys; else why it is no record."""
    kind = text_of(keys.get("type"))
    if kind is None:
        if "type" in keys:
            return "its type is not a string"
        if "record_type" in keys:
            return PASSED_OVER
        if text_of(keys.get("id")) is not None and "timestamp" in keys:
            return SESSION_META
        return "an object without a type"
    if "payload" in keys:
        return Envelope(kind, _head(kind, keys["payload"]))
    if kind in ITEM_TYPES or (kind not in RECORD_TYPES and not keys.keys() & {"timestamp", "ordinal", "record_type"}):
        has_role, role = _role(keys)
        return Envelope(kind, UNSET, role) if has_role else Envelope("response_item", None)
    return "a record without a payload"


def _head(kind: str, payload: Raw) -> Head | None:
    if bytes(memoryview(payload)[:1]) != b"{":
        return None
    keys = _keys.decode(payload)
    has_role, role = _role(keys)
    return Head(text_of(keys.get("type")), role) if has_role or kind != "response_item" else None


def _role(keys: Mapping[str, Raw]) -> tuple[bool, str | None]:
    """Whether the role is one, or none; and the role."""
    role = text_of(keys.get("role"))
    return role is not None or bytes(keys.get("role", b"null")) == b"null", role


def types_of(envelope: Envelope) -> tuple[str, str | None]:
    """The type of a record and that of its payload, if it has one; a bare item of 2025 is a response_item."""
    payload, type = envelope.payload, envelope.type or ""
    if payload is UNSET:
        return "response_item", type
    return type, None if payload is None else payload.type


def time_of(line: bytes) -> str | None:
    """When the record of a line was written, as it says itself: text for people; None where there is none."""
    try:
        return text_of(_stamp.decode(line).timestamp) if line else None
    except msgspec.MsgspecError:
        return None


def turn_id_of(line: bytes) -> str | None:
    """The turn_id of an event that begins or ends a turn."""
    return text_of(_lifecycle.decode(line).payload.turn_id)


def payload_of(line: bytes) -> Raw:
    """The payload of a line that holds a record, as it stands; a bare item is its own."""
    found = _payload.decode(line).payload
    return Raw(line) if found is UNSET else found
