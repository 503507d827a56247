"""The newest entries of a log, kept between two calls for as long as the file says the same.

What is whole in a file is never changed, so they hold as long as it has no more bytes than it had.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rollout.fold.history import Entry
from rollout.limits import MIB

KEPT_ITEMS, KEPT_BYTES = 1024, 4 * MIB
"""No more is read ahead of pops than these."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """The newest entries of the history, oldest first, as the first `end` bytes of a file say; a line ends there.

    `size_bytes` is what the entries take; `is_whole`: there are none but these.
    """

    identity: tuple[int, int]
    end: int
    entries: tuple[Entry, ...]
    size_bytes: int
    is_whole: bool
    is_lasting: bool = True
    """All bases were at hand: one that is missing may come back, with more entries."""

    def knows(self, count: int) -> bool:
        """Whether the newest `count` entries are among these."""
        return self.is_whole or count <= len(self.entries)

    def holds(self, identity: tuple[int, int], end: int) -> bool:
        """Whether a file that is so long still says so."""
        return self.end == end and self.identity == identity

    def with_more(self, lines: Sequence[bytes], end: int) -> Tail:
        """Behind what was appended; the oldest ones go where there would be too many, all where they are too large."""
        entries, size = (*self.entries, *lines), self.size_bytes + sum(map(len, lines))
        first = max(0, len(entries) - KEPT_ITEMS)
        size -= sum(len(memoryview(entry)) for entry in entries[:first]) if first else 0
        if size > KEPT_BYTES:
            return Tail(self.identity, end, (), 0, is_whole=False)
        return Tail(self.identity, end, entries[first:], size, self.is_whole and not first)

    def without_newest(self, end: int) -> Tail:
        """Behind the `items_removed` that took the newest one."""
        size = self.size_bytes - len(memoryview(self.entries[-1]))
        return Tail(self.identity, end, self.entries[:-1], size, self.is_whole, self.is_lasting)


def tail_of(
    identity: tuple[int, int], end: int, found: Sequence[Entry], *, is_whole: bool, is_lasting: bool = True
) -> Tail:
    """What was read of the first `end` bytes of a file."""
    size = sum(len(memoryview(entry)) for entry in found)
    return Tail(identity, end, tuple(found), size, is_whole, is_lasting)
