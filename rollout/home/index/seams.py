"""What a log says up to a seam, where a turn begins: what its forks go on from, found out once for all of them.

A fork that takes nothing back beyond a seam only adds to what the log says up to there. So of a chain of forks each
file is read once, and of many forks of one file so is that: prefixes are remembered by the places of their seams.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from rollout.fold.token_ledger import Ledger

MOST_NUMBER = 1 << 62  # what the encodings of numbers hold
_MOST_PREFIXES = 10_000


class Prefix(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a log says up to a seam. The fields are those of `Digest`, as far as it says so."""

    turns: int = 0
    messages: int = 0
    first_message: str | None = None
    is_asked: bool = False
    """`first_message` is that of an item, not of an announcement."""
    model: str | None = None
    tokens: int | None = None
    context_tokens: int | None = None
    ledger: Ledger = Ledger()
    """What must be known of it to go on."""
    session_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    file_damage: int = 0
    """How many of its files are missing, and what is wrong with the others as files."""
    wants: str | None = None
    """The id of the file of a base that is missing."""


NOTHING = Prefix()
"""Up to the beginning of a log."""


class Seam(NamedTuple):
    """A place in a file: the file's path and identity, and the byte at which a turn begins; see `Floor`."""

    path: str
    device: int
    inode: int
    offset: int


class Prefixes:
    """The prefixes that were found out, as many as are worth to be held: those found last."""

    def __init__(self) -> None:
        self._known: OrderedDict[Seam, Prefix] = OrderedDict()

    def __contains__(self, seam: Seam) -> bool:
        return seam in self._known

    def __getitem__(self, seam: Seam) -> Prefix:
        return self._known[seam]

    def __setitem__(self, seam: Seam, prefix: Prefix) -> None:
        self._known[seam] = prefix
        while len(self._known) > _MOST_PREFIXES:
            self._known.popitem(last=False)
