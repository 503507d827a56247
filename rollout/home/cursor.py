"""Cursors: where a page ended, as a short text to hand back for the next one.

A cursor carries the sort key of the last row, not a count: what is added or removed meanwhile shifts nothing.
"""

from __future__ import annotations

import base64
import contextlib
from typing import TypeVar

import msgspec

from rollout.errors import UsageError

Key = TypeVar("Key")
_LONGEST = 1000


def encode(purpose: str, key: object) -> str:
    """A cursor for a key of strings and integers; `purpose` tells those of different lists apart."""
    return base64.urlsafe_b64encode(msgspec.json.encode([purpose, key])).decode().rstrip("=")


def decode(purpose: str, cursor: object, decoder: msgspec.json.Decoder[tuple[str, Key]]) -> Key | None:
    """The key of a cursor, None for none; UsageError if it is not one of that purpose. `decoder` knows the key."""
    if cursor is None:
        return None
    if isinstance(cursor, str) and len(cursor) <= _LONGEST:
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            found, key = decoder.decode(data)
            if found == purpose:
                return key
    raise UsageError("not a cursor of this list", remedy="give the one that came with the page before")
