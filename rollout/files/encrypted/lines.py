r"""Encrypted lines: what they look like, how they are made and opened.

    {"timestamp":…,"ordinal":n,…,"type":…,"payload":{"encrypted":{"v":1,"key":"k1","data":"<base64>"}}}

`data` is nonce, ciphertext and tag of the payload, under the key of the thread. Everything else on the line stays
readable and is authenticated along with it, byte for byte, and so is the thread id: type, time, number, labels, the
mark of a batch. So no line can be changed, take another's place, or stand in another thread, and as the numbers
(`ordinal`) are gapless, none can be left out or doubled but at the end. Of the session_meta that a file begins with,
the id, the time and the base stay readable: without them nobody could tell what needs what.

What nobody can notice without an anchor elsewhere: that the newest lines were cut off (of a base, the fork notices it:
it names the end, and that is authenticated), that the file is an older state of itself, that lines which recovery once
cut off stand again in the place of those that got their numbers later, or that a plain rollout stands in its place.
What stays readable: ids, times, types, lengths, labels (session_id and tags), and the names in session_index.jsonl.

The opened line is never longer than the encrypted one: with spaces behind it, it stands in the same place. Ids of keys
are padded too, so that a line can be encrypted anew in its place. The base64 has no unused bits.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rollout.dialects.codex import envelope
from rollout.errors import RecordError, WriteError
from rollout.files.encrypted.keys import ID_CHARACTERS, NONCE_BYTES, TAG_BYTES, Cipher
from rollout.format import strict_json
from rollout.limits import DEFAULT

SIGN = b'"encrypted":{"v":'
_OPEN = b'"encrypted":{"v":1,"key":"'
_DATA = b',"data":"'
_CLOSE = b'"}}'
_HEAD_SIGNS = (b'"encrypted":{"', b'{"v":1,"key":"', _DATA)
_PAYLOAD = b'"payload":{'
_READABLE = ("id", "timestamp", "history_base")
_ORDINAL = re.compile(rb'\{(?:"timestamp":"[^"\\]*",)?"ordinal":(\d+),')
_PLAIN_TEXT = re.compile(rb'"[^"\\]*"')
_raw_keys = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode


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


def has_shape(line: bytes) -> bool:
    """Whether a line is an encrypted one, as far as one can see without a key."""
    try:
        _shape.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def has_beginning(piece: bytes) -> bool:
    """Whether that is how an encrypted line begins, which may go on behind it."""
    at = piece.find(_OPEN)
    return at >= 0 and ordinal_of(piece) is not None and piece.endswith(_PAYLOAD, 0, at)


def resembles_head(line: bytes) -> bool:
    """Whether a first line is an encrypted session_meta, or was one before some byte of it was changed."""
    return sum(sign in line for sign in _HEAD_SIGNS) > 1


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


def text_of(line: bytes, parts: Parts, cipher: Cipher, thread: str) -> bytes | None:
    """What is encrypted in a line; None if it does not belong there. KeyError without the key."""
    try:
        data = binascii.a2b_base64(line[parts.data : parts.end], strict_mode=True)
    except binascii.Error:
        return None
    return cipher.decrypt(parts.key_id, thread, data, _bound(thread, line[: parts.data], line[parts.end :]))


def open_line(line: bytes, parts: Parts, cipher: Cipher, thread: str) -> bytes | None:
    """The plain line, as long as the encrypted one; None if that does not belong there. KeyError without the key."""
    text = text_of(line, parts, cipher, thread)
    if text is None:
        return None
    rest = line[parts.end + len(_CLOSE) :]
    if line.endswith(_PAYLOAD, 0, parts.at):
        plain = line[: parts.at - 1] + text.rstrip(b" ") + rest
    else:
        text = text.rstrip(b" ")
        plain = line[: parts.at - (text == b"}")] + text + rest
    return plain.ljust(len(line))


def encrypt_line(
    line: bytes, cipher: Cipher, thread: str, *, ordinal: int | None = None, is_first: bool = False
) -> bytes:
    """The encrypted line for a plain one, both with their ends. RecordError if it is none, or too long.

    It gets the number `ordinal`, if it has none or another one. `is_first`: it is the session_meta that a file begins
    with. The mark of a batch is to be there already.
    """
    keys = _keys_of(line)
    type, payload = keys.pop("type"), keys.pop("payload")
    batch = keys.pop("batch", None)
    number = keys.pop("ordinal", None)
    stamp = keys.pop("timestamp", None)
    head: dict[str, Raw] = {}
    if stamp is not None and _PLAIN_TEXT.fullmatch(stamp):
        head["timestamp"] = stamp
    if ordinal is None and number is None:
        raise RecordError("a line without a number cannot be encrypted")
    head["ordinal"] = Raw(b"%d" % ordinal) if ordinal is not None else number or Raw(b"0")
    head |= keys
    begin = b"{" + b",".join(_pairs(head)) + b',"type":' + bytes(type) + b',"payload":{'
    text = bytes(payload)
    if is_first:
        said, text = _divide(payload)
        begin += said
    begin += _OPEN + (cipher.current.encode() + b'"').ljust(ID_CHARACTERS + 1) + _DATA
    rest = _CLOSE + (b"" if batch is None else b',"batch":' + bytes(batch)) + b"}"
    made = _encrypted(begin, text, rest, cipher, thread) + b"\n"
    if len(made) > DEFAULT.line_bytes:
        raise RecordError(f"an encrypted line of {len(made)} bytes is longer than the limit of {DEFAULT.line_bytes}")
    return made


class Scribe:
    """Encrypts the lines of a new file of a thread one behind the other, numbered from `first` on."""

    def __init__(self, cipher: Cipher, thread: str, first: int = 0) -> None:
        self._cipher, self._thread, self.next = cipher, thread, first

    def head(self, line: bytes) -> bytes:
        """The session_meta that the file begins with. RecordError."""
        self.next += 1
        return encrypt_line(line, self._cipher, self._thread, ordinal=self.next - 1, is_first=True)

    def line(self, line: bytes) -> bytes:
        """One more line. RecordError."""
        made = encrypt_line(line, self._cipher, self._thread, ordinal=self.next)
        self.next += 1
        return made

    def lines(self, block: bytes) -> bytes:
        """Whole lines. WriteError for one that could not be opened itself: it would be lost. RecordError."""
        made = []
        for line in block[:-1].split(b"\n"):
            if line.startswith(envelope.UNOPENED):
                raise WriteError("has damaged lines, which cannot be encrypted anew", remedy="see rollout verify")
            if line.strip():
                made.append(encrypt_line(line, self._cipher, self._thread, ordinal=self.next))
                self.next += 1
        return b"".join(made)


def renew(line: bytes, parts: Parts, cipher: Cipher, thread: str) -> bytes | None:
    """The same line under the current key, as long as before; None if it does not belong there."""
    text = text_of(line, parts, cipher, thread)
    if text is None:
        return None
    begin = line[: parts.at] + _OPEN + (cipher.current.encode() + b'"').ljust(ID_CHARACTERS + 1) + _DATA
    return _encrypted(begin, text, line[parts.end :], cipher, thread)


def readable_meta(line: bytes) -> dict[str, Any] | None:
    """What stands readable in the session_meta that a file begins with."""
    try:
        payload = _keys_of(line)["payload"]
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
    if not {"type", "payload"} <= keys.keys():
        raise RecordError("a line without a type or a payload, as programs wrote them in 2025, cannot be encrypted")
    return keys


def _encrypted(begin: bytes, text: bytes, rest: bytes, cipher: Cipher, thread: str) -> bytes:
    """Spaces make the base64 come out even: no bit of it goes unused, and could be changed unnoticed."""
    text += b" " * (-(len(text) + NONCE_BYTES + TAG_BYTES) % 3)
    data = cipher.encrypt(thread, text, _bound(thread, begin, rest))
    return begin + binascii.b2a_base64(data, newline=False) + rest


def _bound(thread: str, begin: bytes, rest: bytes) -> bytes:
    return b"\n".join((thread.encode(errors="surrogatepass"), begin, rest))


def _pairs(keys: Mapping[str, Raw]) -> list[bytes]:
    return [_encode(key) + b":" + bytes(value) for key, value in keys.items()]


def _divide(payload: Raw) -> tuple[bytes, bytes]:
    """What of a session_meta stays readable, and what is encrypted: its other keys and the closing brace."""
    try:
        keys = _raw_keys.decode(payload)
    except msgspec.ValidationError:
        raise RecordError("a session_meta that is no object cannot be encrypted") from None
    said = _pairs({key: keys.pop(key) for key in _READABLE if key in keys})
    if not said:
        raise RecordError("a session_meta without an id cannot be encrypted")
    return b",".join(said) + b",", b",".join(_pairs(keys)) + b"}"
