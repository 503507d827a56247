"""The newest entries of a log, kept between two calls for as long as the file says the same.

What is whole in a file is never changed, so they hold as long as it has no more bytes than it had. In an encrypted log
they hold until the first of them expires, too: the file rests then, and the clock goes on (see `fold.expiry`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from msgspec import Raw

from rollout.files.encrypted.keys import cipher_of
from rollout.files.encrypted.lines import expiry_of, iso
from rollout.files.encrypted.reader import DecryptingSource
from rollout.files.lineage import Lineage
from rollout.files.port import FileSystem
from rollout.fold.history import Entry
from rollout.fold.newest_items import Recent
from rollout.limits import MIB

KEPT_ITEMS, KEPT_BYTES = 1024, 4 * MIB
"""No more is read ahead of pops than these."""
_LONG_AGO = "0"
"""Ahead of all times that lines tell."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lifetime:
    """Of entries of an encrypted log: the first of them expires when the clock says `first` (as lines do; "": never).

    `renews`: what is appended expires some time later.
    """

    clock: Callable[[], float]
    first: str
    renews: bool

    @property
    def is_over(self) -> bool:
        """Whether one of the entries has expired."""
        return self.first != "" and self.first <= iso(self.clock())


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """The newest entries of the history, oldest first, as the first `end` bytes of a file say; a line ends there.

    `size_bytes` is what the entries take; `is_whole`: there are none but these; `places` as in `Recent`.
    """

    identity: tuple[int, int]
    end: int
    entries: tuple[Entry, ...]
    size_bytes: int
    is_whole: bool
    places: tuple[int, ...] | None = None
    lifetime: Lifetime | None = None
    """None: nothing expires."""

    def knows(self, count: int) -> bool:
        """Whether the newest `count` entries are among these."""
        return self.is_whole or count <= len(self.entries)

    def holds(self, identity: tuple[int, int], end: int) -> bool:
        """Whether a file that is so long still says so."""
        is_same = self.end == end and self.identity == identity
        return is_same and (self.lifetime is None or not self.lifetime.is_over)

    def with_more(self, lines: Sequence[bytes], end: int) -> Tail | None:
        """Behind what was appended; the oldest ones go where there would be too many, all where they are too large."""
        if self.lifetime is not None and self.lifetime.renews:
            return None  # when these expire is not known here
        entries, size = (*self.entries, *lines), self.size_bytes + sum(map(len, lines))
        first = max(0, len(entries) - KEPT_ITEMS)
        size -= sum(len(memoryview(entry)) for entry in entries[:first]) if first else 0
        if size > KEPT_BYTES:
            return Tail(self.identity, end, (), 0, is_whole=False, lifetime=self.lifetime)
        places = None if self.places is None else (*self.places, *[1] * len(lines))[first:]
        is_whole = self.is_whole and not first
        return Tail(self.identity, end, entries[first:], size, is_whole, places, self.lifetime)

    def without_newest(self, end: int) -> Tail:
        """Behind the `items_removed` that took the newest one."""
        places, size = None if self.places is None else self.places[:-1], self.size_bytes
        size -= len(memoryview(self.entries[-1]))
        return Tail(self.identity, end, self.entries[:-1], size, self.is_whole, places, self.lifetime)


def tail_of(identity: tuple[int, int], end: int, found: Recent, lifetime: Lifetime | None, *, is_whole: bool) -> Tail:
    """What was read of the first `end` bytes of a file."""
    entries, places = tuple(found.entries), None if found.places is None else tuple(found.places)
    return Tail(identity, end, entries, sum(len(memoryview(entry)) for entry in entries), is_whole, places, lifetime)


def lifetime_of(lineage: Lineage, entries: Sequence[Entry], fs: FileSystem) -> Lifetime | None:
    """Until when entries that were read are shown; None: for ever.

    Over at once for items without a line of their own, and where a base is missing: that may come back.
    """
    if lineage.missing:
        return Lifetime(time.time, _LONG_AGO, renews=True)
    if not any(isinstance(opened.source, DecryptingSource) for opened in lineage.opened):
        return None
    cipher = cipher_of(fs)
    assert cipher is not None  # the entries were opened with it
    is_told = not any(isinstance(entry, Raw) for entry in entries)
    first = min(filter(None, map(expiry_of, map(bytes, entries))), default="") if is_told else _LONG_AGO
    return Lifetime(cipher.clock, first, renews=cipher.ttl_s is not None)
