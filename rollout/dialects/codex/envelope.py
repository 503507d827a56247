"""Line <-> record: the envelope first, the payload only when it is needed.

A line is a record if it is valid UTF-8 and strict JSON, not too deep, and an object with a `type` and a `payload`, or
one of the bare forms of 2025. An ordinary line takes one call; a line that is odd in any way (damage, shapes that
nobody writes) is looked at again with care.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.dialects.codex import records as r
from rollout.dialects.codex.names import RECORD_TYPES
from rollout.format.lines import Piece
from rollout.format.strict_json import is_too_deep, is_utf8, text_of
from rollout.items.kinds import ITEM_TYPES, Head
from rollout.limits import DEFAULT

decode_envelope = msgspec.json.Decoder(r.Envelope).decode
"""The envelope of a line of valid UTF-8, without a look at its nesting."""
_payload = msgspec.json.Decoder(r.Payload)
_NUL_RUN = re.compile(rb"\0+")
# S: an unescaped `{"timestamp":"` cannot stand inside a JSON string, so a record begins there.
_RECORD_BEGIN = re.compile(rb'(?<!\\)\{"timestamp":"')
ASCII_SPACE = b" \t\r\n\x0b\x0c"
_BOM = b"\xef\xbb\xbf"
UNOPENED = b"!crypt:"
"""How a line begins in the text of an encrypted log that could not be opened; the letter behind it says why."""
_WHY_UNOPENED = {
    b"c": "an encrypted line that was changed, or is from another place or another thread",
    b"p": "no encrypted line, in an encrypted log: torn, changed, or written by somebody without the key",
}


class _Loose(msgspec.Struct, frozen=True, gc=False):
    type: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET
    timestamp: Raw | UnsetType = UNSET
    ordinal: Raw | UnsetType = UNSET
    record_type: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    role: Raw | UnsetType = UNSET


class _LooseHead(msgspec.Struct, frozen=True, gc=False):
    type: Raw | UnsetType = UNSET
    role: Raw | UnsetType = UNSET


_loose = msgspec.json.Decoder(_Loose)
_loose_head = msgspec.json.Decoder(_LooseHead)

SESSION_META = r.Envelope("session_meta", Head())
"""The envelope of a bare session meta of 2025."""
PASSED_OVER = r.Envelope("record_type", Head())
"""The envelope of a `{"record_type": …}` line of 2025."""


class NotARecord(Exception):
    """Why some bytes are no record; `kind` as in `Damage`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def decode_plain(line: bytes, depth: int = DEFAULT.depth) -> r.Envelope | None:
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


def split(line: bytes, depth: int = DEFAULT.depth) -> Iterator[Piece[r.Envelope]]:
    """What an odd line holds, in order; nothing for a blank one. `line` is without b"\\n"."""
    begin = 0
    for nul in _NUL_RUN.finditer(line):
        yield from _salvage(line, begin, nul.start(), depth)
        begin = nul.end()
    yield from _salvage(line, begin, len(line), depth)


def records_in(line: bytes, depth: int = DEFAULT.depth) -> list[tuple[int, bytes, r.Envelope]]:
    """The records of a line, in order, each with where in the line it begins: one, unless the line is odd."""
    envelope = decode_plain(line, depth)
    if envelope is not None:
        return [(0, line, envelope)]
    return [(piece.offset, piece.data, piece.envelope) for piece in split(line, depth) if piece.envelope is not None]


def holds_record(data: bytes, depth: int = DEFAULT.depth) -> bool:
    """Whether a reader finds a record in these bytes, which hold no line end."""
    return any(piece.envelope is not None for piece in split(data, depth))


def _salvage(line: bytes, begin: int, end: int, depth: int) -> Iterator[Piece[r.Envelope]]:
    piece = _try_piece(line, begin, end, depth)
    if piece is None:
        return
    if piece.envelope is not None:
        yield piece
        return
    cuts = [found.start() for found in _RECORD_BEGIN.finditer(line, begin, end) if found.start() > piece.offset]
    if not cuts:
        yield piece
        return
    for first, last in zip([begin, *cuts], [*cuts, end], strict=True):
        part = _try_piece(line, first, last, depth)
        if part is not None:
            yield part


def _try_piece(line: bytes, begin: int, end: int, depth: int) -> Piece[r.Envelope] | None:
    data = line[begin:end]
    stripped = data.lstrip(ASCII_SPACE)
    if stripped.startswith(_BOM):
        stripped = stripped[len(_BOM) :].lstrip(ASCII_SPACE)
    offset = begin + len(data) - len(stripped)
    stripped = stripped.rstrip(ASCII_SPACE)
    if not stripped:
        return None
    try:
        return Piece(offset, stripped, decode(stripped, depth))
    except NotARecord as why:
        return Piece(offset, stripped, None, why.kind, why.reason)


def decode(data: bytes, depth: int = DEFAULT.depth) -> r.Envelope:
    """The envelope of one record of any shape. Raises NotARecord."""
    if data.startswith(UNOPENED):
        why = data[len(UNOPENED) : len(UNOPENED) + 1]
        raise NotARecord("encrypted", _WHY_UNOPENED.get(why, "not JSON"))
    if not is_utf8(data):
        raise NotARecord("utf8", "invalid UTF-8")
    if is_too_deep(data, depth):
        raise NotARecord("deep", f"nested deeper than {depth}")
    try:
        return _judge(_loose.decode(data))
    except msgspec.ValidationError:
        raise NotARecord("not_a_record", "not an object with a type and a payload") from None
    except msgspec.DecodeError as error:
        raise NotARecord("json", f"not JSON: {_say(error)}") from None
    except RecursionError:
        raise NotARecord("deep", f"nested deeper than {depth}") from None


def _judge(loose: _Loose) -> r.Envelope:
    kind = text_of(loose.type)
    if kind is None:
        if loose.type is not UNSET:
            raise NotARecord("not_a_record", "its type is not a string")
        if loose.record_type is not UNSET:
            return PASSED_OVER
        if text_of(loose.id) is not None and loose.timestamp is not UNSET:
            return SESSION_META
        raise NotARecord("not_a_record", "an object without a type")
    if loose.payload is not UNSET:
        return r.Envelope(kind, _head(kind, loose.payload))
    foreign = loose.timestamp is UNSET and loose.ordinal is UNSET and loose.record_type is UNSET
    if kind in ITEM_TYPES or (foreign and kind not in RECORD_TYPES):
        role = text_of(loose.role)
        if role is None and loose.role is not UNSET and bytes(loose.role) != b"null":
            return r.Envelope("response_item", None)
        return r.Envelope(kind, UNSET, role)
    raise NotARecord("not_a_record", "a record without a payload")


def _head(kind: str, payload: Raw) -> Head | None:
    if bytes(memoryview(payload)[:1]) != b"{":
        return None
    loose = _loose_head.decode(payload)
    role = text_of(loose.role)
    if kind == "response_item" and role is None and loose.role is not UNSET and bytes(loose.role) != b"null":
        return None
    return Head(text_of(loose.type), role)


def _say(error: msgspec.DecodeError) -> str:
    text = str(error)
    return text.removeprefix("JSON is malformed: ").removeprefix("Input data was ")


def payload_of(line: bytes) -> Raw:
    """The payload of a line that holds a record, as it stands; a bare item is its own."""
    found = _payload.decode(line).payload
    return Raw(line) if found is UNSET else found
