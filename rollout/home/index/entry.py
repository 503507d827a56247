"""What was found out about a rollout file and is kept, beside its memory, to bring that up to date."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.fold.token_ledger import Ledger
from rollout.home.index.entry_summary import Digest
from rollout.home.index.seams import NOTHING, Prefix


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was found out about a file, up to where its memory ends."""

    digest: Digest
    join: bytes
    """A checksum of the last bytes that the memory covers."""
    meta: dict[str, Any] | None = None
    """Of the session_meta, if it lies within the memory, what a lineage needs of it."""
    meta_is_first: bool = False
    first: tuple[int, int] | None = None
    """Segment and offset of the first boundary, if it lies within the memory."""
    base: tuple[int, int] | None = None
    base_items: bytes | None = None
    """The same for the base compaction, and what `tell_items` says of it."""
    session_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    ledger: Ledger = Ledger()
    gauge: tuple[int, int] | None = None
    """Segment and offset of what `context_tokens` was read from, if it lies within the memory."""
    file_damage: int = 0
    """How many files of the lineage are missing, and frames damaged."""
    bases: tuple[tuple[str, int, int], ...] = ()
    """Path, device and inode of the file that it goes on from, if it does."""
    wants: str | None = None
    """The id of the file of a base that is missing."""
    floor: tuple[int, int] | None = None
    """The `Floor` at which the memory ends; None for the beginning of the log."""
    prefix: Prefix = NOTHING
    """What the log says up to there."""


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a `Known` begins, for who needs no more of it."""

    digest: Digest
