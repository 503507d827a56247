"""Strict JSON in bytes: whether it is text, how deep it goes, its values without loss, and what no file can hold.

Python's texts can have lone surrogates, halves of a character that no UTF-8 can hold (`os.fsdecode` makes one of each
byte that is no text), and so can JSON, as an escape; no reader of a log would take them. What is written has U+FFFD in
the place of each. Two halves that belong together are the character that they make.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rollout.limits import MIB

_ALL_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_MOST_DEPTH_INSIDE = 64
REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_IN_JSON = re.compile(rb"%b%b|(%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_WINDOW_BYTES = 1 << 16
"""No more of a line is copied at a time to be looked at."""


def is_utf8(data: bytes) -> bool:
    """Valid UTF-8, without encoded surrogates."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_too_deep(data: bytes, depth: int) -> bool:
    """Whether arrays and objects are nested deeper than `depth` in valid JSON; of other bytes, some answer.

    Only the brackets outside strings are looked at, and the innermost pairs taken away level by level. Deletions keep
    the number of quotes even or odd, which is what tells inside from outside.
    """
    size = len(data)
    if size <= 2 * depth:
        return False
    if size > _WINDOW_BYTES:
        opened = data.count(b"{") + data.count(b"[")
    else:  # Python looks for what it replaces a word at a time, and counts byte by byte
        opened = size - len(data.replace(b"{", b"").replace(b"[", b""))
    if opened <= depth:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    skeleton = data.translate(_ALL_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    parts, inside = [], 0
    for at in range(0, len(skeleton), _WINDOW_BYTES):
        pieces = skeleton[at : at + _WINDOW_BYTES].split(b'"')
        parts.append(b"".join(pieces[inside::2]))
        inside ^= len(pieces) - 1 & 1
    brackets = b"".join(parts)
    for _ in range(depth):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def text_of(raw: Raw | UnsetType | None) -> str | None:
    """The string that a raw value is, None if it is another value or absent."""
    if raw is UNSET or raw is None or bytes(memoryview(raw)[:1]) != b'"':
        return None
    return msgspec.json.decode(raw, type=str)


def decode_value(data: bytes | Raw) -> Any:
    """Any JSON value, integers of any length exactly; never fails on what `decode` has let through."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError):
        # a number beyond float (1e999 becomes infinity), or beyond Python's limit of digits
        return json.loads(bytes(data), parse_int=_long_int)


def value_at(value: object, *keys: str) -> Any:
    """What stands under these keys, each in the object before it; None where there is nothing, or no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def value_in(text: str, most: int = MIB) -> Any:
    """The value of JSON in a string; None of what is none, or is longer or deeper than is looked into."""
    data = text.encode(errors="surrogatepass") if len(text) <= most else b""
    try:
        return decode_value(data) if data and not is_too_deep(data, _MOST_DEPTH_INSIDE) else None
    except (ValueError, RecursionError):
        return None


def _long_int(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def mend_text(text: str) -> str:
    """The text with U+FFFD for each lone surrogate in it; itself, if there is none."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_json(data: bytes) -> bytes:
    """JSON with the escape of U+FFFD for each escape of a lone surrogate; it is as long as before."""
    if b"\\u" not in data or _ESCAPE.search(data) is None:
        return data
    return _IN_JSON.sub(lambda found: found[0] if found[1] is None else rb"\ufffd", data)


def mend(value: Any) -> Any:
    """A JSON value without lone surrogates, in its keys neither; what is none stays. RecursionError if it has no end.

    A key that is then the same as another one of its object gets as many more U+FFFD as make it differ.
    """
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, Mapping):
        return dict(zip(_mend_keys(value), map(mend, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return [mend(under) for under in value]
    return Raw(mend_json(bytes(value))) if isinstance(value, Raw) else value


def _mend_keys(keys: Mapping[Any, Any]) -> list[Any]:
    """In their order, each another one: those that need no mending stay."""
    mended = [mend_text(key) if isinstance(key, str) else key for key in keys]
    taken = {key for key, name in zip(keys, mended, strict=True) if name == key}
    for n, key in enumerate(keys):
        if mended[n] != key:
            while mended[n] in taken:
                mended[n] += REPLACEMENT
            taken.add(mended[n])
    return mended
