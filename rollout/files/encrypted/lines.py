r"""Encrypted lines: what they look like, how they are made and opened.

    {"timestamp":…,"ordinal":n,…,"type":…,"payload":{"encrypted":{"v":1,"key":"k1","data":"<base64>"}}}

`data` is nonce, ciphertext and tag of the payload, under the key of the thread. Everything else on the line stays
readable and is authenticated along with it, byte for byte, and so is the thread id; what that proves, and what it
cannot, stands in docs/storage.md. Of the session_meta that a file begins with, the id, the time and the base stay
readable: without them nobody could tell what needs what.

The opened line is never longer than the encrypted one: with spaces behind it, it stands in the same place, and is read
there. The base64 has no unused bits, which could be changed unnoticed: spaces behind the payload make it come out even.
Ids of keys have spaces behind them too: under another key a line is as long as before, and forks that refer to places
behind it find them there.
"""

from __future__ import annotations

import binascii
import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rollout.dialects.codex import envelope
from rollout.dialects.codex.names import PAYLOAD
from rollout.dialects.codex.session_meta import LINEAGE_KEYS
from rollout.errors import RecordError, WriteError
from rollout.files.encrypted.keys import ID_CHARACTERS, NONCE_BYTES, TAG_BYTES, Cipher
from rollout.format import lines, strict_json
from rollout.limits import DEFAULT, KIB, MIB

_SIGN = b'"encrypted":{"v":'
_OPEN = b'"encrypted":{"v":1,"key":"'
_DATA = b',"data":"'
_CLOSE = b'"}}'
_HEAD_SIGNS = (b'"encrypted":{"', b'{"v":1,"key":"', _DATA)
"""Two of them are left in an encrypted session_meta of which some byte was changed."""
_PAYLOAD = b'"%b":{' % PAYLOAD.encode()
_ORDINAL = re.compile(rb'\{(?:"timestamp":"[^"\\]*",)?"ordinal":(\d+),')
_PLAIN_TEXT = re.compile(rb'"[^"\\]*"')
_raw_keys = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode
_HEAD_BYTES = 64 * KIB
_DAMAGED_BYTES = MIB
"""So much damage at the beginning of a file is looked through for what stands behind it."""


class _Inner(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    key: str
    data: str


class _Payload(msgspec.Struct):
    encrypted: _Inner


class _Line(msgspec.Struct):
    type: str
    ordinal: int
    payload: _Payload


_shape = msgspec.json.Decoder(_Line)


class Parts(NamedTuple):
    """Where the parts of an encrypted line lie: `"encrypted":` begins at `at`, the base64 goes from `data` to `end`."""

    at: int
    data: int
    end: int
    key_id: str


def _has_shape(line: bytes) -> bool:
    """Whether a line is an encrypted one, as far as one can see without a key."""
    try:
        _shape.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _has_beginning(piece: bytes) -> bool:
    """Whether that is how an encrypted line begins, which may go on behind it."""
    at = piece.find(_OPEN)
    return at >= 0 and ordinal_of(piece) is not None and piece.endswith(_PAYLOAD, 0, at)


def is_encrypted(source: lines.Source, first_bytes: int, start: int = 0) -> bool:
    """Whether a file holds encrypted lines: `first_bytes` of it from `start` on are looked at, its end if need be.

    One changed byte does not make it a plain file, wherever it is. Where nothing but damage is found there, encrypted
    lines may have been written behind it (see `encryption_behind`): then more is looked at.
    """
    for n in (first_bytes, _HEAD_BYTES, _DAMAGED_BYTES):
        block = source.read_at(start, min(n, max(source.size - start, 0)))
        found = block.split(b"\n")
        if _holds_encrypted(block) or sum(sign in found[0] for sign in _HEAD_SIGNS) > 1:
            return True
        if any(map(envelope.holds_record, found[:-1])) or (len(found) == 1 and start + len(block) >= source.size):
            return False
    at = max(source.size - first_bytes, start)  # its first line is long: what shows it may be what was changed
    return _holds_encrypted(source.read_at(at, source.size - at))


def _holds_encrypted(block: bytes) -> bool:
    if _SIGN not in block:
        return False
    found = block.split(b"\n")
    return _has_beginning(found[-1]) or any(_SIGN in line and _has_shape(line) for line in found)


def parts_of(line: bytes) -> Parts | None:
    """The parts of an encrypted line; None for any other."""
    at = line.find(_OPEN)
    begin = at + len(_OPEN)
    data = begin + ID_CHARACTERS + 1 + len(_DATA)
    if at < 0 or not line.startswith(_DATA, data - len(_DATA)):
        return None
    key_id, quote, _ = line[begin : data - len(_DATA)].partition(b'"')
    end = line.find(_CLOSE, data)
    return Parts(at, data, end, key_id.decode("latin-1")) if quote and end >= 0 else None


def ordinal_of(line: bytes) -> int | None:
    """The number of an encrypted line."""
    found = _ORDINAL.match(line)
    return None if found is None else int(found[1])


@dataclasses.dataclass(frozen=True, slots=True)
class LineCipher:
    """Encrypts the lines of one thread, and opens them: the one way that lines become encrypted ones."""

    cipher: Cipher
    thread: str

    def open(self, line: bytes, parts: Parts) -> bytes | None:
        """The plain line, as long as the encrypted one; None if that does not belong there.

        Raises:
            KeyError: the key that it names is not there.
        """
        try:
            data = binascii.a2b_base64(line[parts.data : parts.end], strict_mode=True)
        except binascii.Error:
            return None
        rest = line[parts.end :]
        text = self.cipher.decrypt(parts.key_id, self.thread, data, self._bound(line[: parts.data], rest))
        if text is None:
            return None
        text = text.rstrip(b" ")
        if line.endswith(_PAYLOAD, 0, parts.at):
            begin = line[: parts.at - 1]
        else:  # a session_meta of which some keys are readable
            begin = line[: parts.at - (text == b"}")]
        return (begin + text + rest[len(_CLOSE) :]).ljust(len(line))

    def head(self, line: bytes, ordinal: int = 0) -> bytes:
        """The session_meta that a file begins with. RecordError as for `lines`."""
        return self._encrypt(line, ordinal, is_head=True)

    def lines(self, lines: Iterable[bytes], first: int | None = None) -> list[bytes]:
        """Encrypted lines, with their ends, for plain ones, but for blank ones. Marks of a batch are there already.

        They are numbered from `first` on, or else as they are.

        Raises:
            RecordError: one is no line of a rollout, has no number, or is too long.
            WriteError: one is an encrypted one that could not be opened: it would be lost.
        """
        made: list[bytes] = []
        for line in lines:
            if line.startswith(envelope.UNOPENED):
                raise WriteError("has damaged lines, which cannot be encrypted anew", remedy="see rollout verify")
            if not line.isspace() and line:
                made.append(self._encrypt(line, None if first is None else first + len(made)))
        return made

    def _encrypt(self, line: bytes, ordinal: int | None, *, is_head: bool = False) -> bytes:
        keys = _keys_of(line)
        type, text = bytes(keys.pop("type")), bytes(keys.pop(PAYLOAD))
        batch, number, stamp = keys.pop("batch", None), keys.pop("ordinal", None), keys.pop("timestamp", None)
        head: dict[str, Raw] = {}
        if stamp is not None and _PLAIN_TEXT.fullmatch(stamp):
            head["timestamp"] = stamp
        if ordinal is not None:
            number = Raw(b"%d" % ordinal)
        elif number is None:
            raise RecordError("a line without a number cannot be encrypted")
        head["ordinal"] = number
        begin = b"{" + b",".join(_pairs(head | keys)) + b',"type":' + type + b"," + _PAYLOAD
        if is_head:
            readable, text = _divide(text)
            begin += readable
        begin += _OPEN + (self.cipher.current.encode() + b'"').ljust(ID_CHARACTERS + 1) + _DATA
        rest = _CLOSE + (b"" if batch is None else b',"batch":' + bytes(batch)) + b"}"
        text += b" " * (-(len(text) + NONCE_BYTES + TAG_BYTES) % 3)  # no bit of the base64 goes unused
        data = self.cipher.encrypt(self.thread, text, self._bound(begin, rest))
        made = begin + binascii.b2a_base64(data, newline=False) + rest + b"\n"
        if len(made) > DEFAULT.line_bytes:
            raise RecordError(
                f"an encrypted line of {len(made)} bytes is longer than the limit of {DEFAULT.line_bytes}"
            )
        return made

    def _bound(self, begin: bytes, rest: bytes) -> bytes:
        return b"\n".join((self.thread.encode(errors="surrogatepass"), begin, rest))


def readable_meta(line: bytes) -> dict[str, Any] | None:
    """What stands readable in the session_meta that a file begins with."""
    try:
        payload = _keys_of(line)[PAYLOAD]
        found = strict_json.decode_value(payload)
    except (RecordError, msgspec.DecodeError):
        return None
    return found if isinstance(found, dict) else None


def _keys_of(line: bytes) -> dict[str, Raw]:
    if not strict_json.is_utf8(line):
        raise RecordError("no line of a rollout: invalid UTF-8")
    try:
        keys = _raw_keys.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"no line of a rollout: {error}") from None
    if not {"type", PAYLOAD} <= keys.keys():
        raise RecordError("a line without a type or a payload, as programs wrote them in 2025, cannot be encrypted")
    return keys


def _pairs(keys: Mapping[str, Raw]) -> list[bytes]:
    return [_encode(key) + b":" + bytes(value) for key, value in keys.items()]


def _divide(payload: bytes) -> tuple[bytes, bytes]:
    """What of a session_meta stays readable, and what is encrypted: its other keys and the closing brace."""
    try:
        keys = _raw_keys.decode(payload)
    except msgspec.ValidationError:
        raise RecordError("a session_meta that is no object cannot be encrypted") from None
    said = _pairs({key: keys.pop(key) for key in LINEAGE_KEYS if key in keys})
    if not said:
        raise RecordError("a session_meta without an id cannot be encrypted")
    return b",".join(said) + b",", b",".join(_pairs(keys)) + b"}"
