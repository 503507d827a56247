"""Lone surrogates: halves of a character that no UTF-8 can hold, and no reader of a log would take.

Python's texts can have them (`os.fsdecode` makes one of each byte that is no text), and so can JSON, as an escape. What
is written has U+FFFD in the place of each. Two halves that belong together are the character that they make.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

REPLACEMENT = "\ufffd"
_IN_TEXT = re.compile("([\ud800-\udbff][\udc00-\udfff])|[\ud800-\udfff]")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_IN_JSON = re.compile(rb"%b%b|(%b|%b)|\\." % (_HIGH, _LOW, _HIGH, _LOW), re.DOTALL)
_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def mend_text(text: str) -> str:
    """The text with U+FFFD for each lone surrogate in it; itself, if there is none."""
    return text if _IN_TEXT.search(text) is None else _IN_TEXT.sub(_whole_or_replaced, text)


def _whole_or_replaced(found: re.Match[str]) -> str:
    pair = found[1]
    return REPLACEMENT if pair is None else pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


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
