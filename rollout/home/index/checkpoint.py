"""What the index keeps of a scan to bring the entry of a file that grew up to date: as long as the log, seldom read."""

from __future__ import annotations

from typing import Any

import msgspec

from rollout.fold.checkpoint import Memory
from rollout.fold.tokens import Ledger


class Prefix(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a log says up to a seam, where a turn begins. The fields are those of `Entry`, as far as it says so."""

    turns: int = 0
    messages: int = 0
    first_message: str | None = None
    is_asked: bool = False
    """`first_message` is that of an item, not of an announcement."""
    model: str | None = None
    tokens: int | None = None
    context_tokens: int | None = None
    session_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    ledger: Ledger = Ledger()
    """What must be known of it to go on."""
    file_damage: int = 0
    """How many of its files are missing, and what is wrong with the others as files."""
    wants: str | None = None


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known up to the last line end of a file, to bring its entry up to date without reading that again."""

    memory: Memory
    join: bytes = b""
    """A checksum of the last bytes that the memory covers."""
    meta: dict[str, Any] | None = None
    """Of the session_meta, if it lies within the memory, what a lineage needs of it."""
    meta_is_first: bool = False
    first: tuple[int, int, str] | None = None
    """Where the first boundary lies (segment, offset), if it does within the memory, and how its text begins."""
    base: tuple[int, int, bytes] | None = None
    """The same of the base compaction, and what `tell_items` says of it."""
    gauge: tuple[int, int, int | None] | None = None
    """The same of what `context_tokens` was read from, and these."""
    session_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    ledger: Ledger = Ledger()
    file_damage: int = 0
    floor: tuple[int, int] | None = None
    """The `Floor` at which the memory ends; None for the beginning of the log."""
    prefix: Prefix = Prefix()
    """What the log says up to there."""


decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode
"""msgspec.DecodeError for bytes that are none, or of another version of this module."""
