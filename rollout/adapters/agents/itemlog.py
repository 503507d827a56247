"""The items of one rollout as a list that is only appended to: write, newest, pop, clear.

Every call is whole: what `write` has written is on the disk, all or nothing; a pop appends an `items_removed`, a clear
a compaction with nothing in it. Safe to use from several threads and processes (see `SharedLog`). Reading takes no
lock.

What was read last of the newest items is kept for the next pop or read, and so is where the file was seen to end in a
whole batch. What is whole in a file is never changed, so both hold as long as it has no more bytes than it had.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Raw

from rollout.adapters.agents.opaque import item_of, part_of, plain_items_of
from rollout.adapters.agents.turns import Used, changes
from rollout.dialects.codex import new_records
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.encoder import Part
from rollout.files.lineage import Lineage
from rollout.files.source import Origin
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.items.dialect import AgentLine, Entry
from rollout.limits import DEFAULT, KIB, MIB, Limits
from rollout.session.newest_items import recent_and_items, recent_entries, recent_items
from rollout.session.shared_log import SharedLog, SharedRecorder

_ITEM_BYTES = 512
_NEAR = dataclasses.replace(DEFAULT, first_chunk_bytes=4 * KIB)
"""Reads little where little is asked for."""
KEPT_ITEMS, KEPT_BYTES = 1024, 4 * MIB
"""No more is kept, or read ahead of pops, than these."""
T = TypeVar("T")
OriginOf = Callable[[Path, int | None, Limits], Origin]
"""How the first bytes of a rollout (None: all that are whole) are opened."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Newest:
    """The newest entries, oldest first, as the first `end` bytes of a file say; `is_whole`: there are no others."""

    identity: tuple[int, int]
    end: int
    entries: Sequence[Entry]
    is_whole: bool

    def holds(self, count: int, identity: tuple[int, int], end: int) -> bool:
        """Whether the newest `count` entries of a file that is so long are among these."""
        is_same = self.end == end and self.identity == identity
        return is_same and (self.is_whole or count <= len(self.entries))


class ItemLog:
    """One rollout. Methods raise NotFound if it was deleted, SourceError, Locked, WriteError."""

    def __init__(self, log: SharedLog, origin: OriginOf) -> None:
        self.shared = log
        self._origin = origin
        self._newest: _Newest | None = None  # whichever thread has looked last: replaced, never changed
        self._whole: tuple[tuple[int, int], int] | None = None  # the same: identity and end of a file that is whole
        self._wanted = 1  # so many entries a pop reads; it doubles, so that pops in a row read each byte a few times,
        # and is one again where what was read ahead was of no use

    def write(self, parts: Sequence[Part]) -> None:
        """Items as one durable batch."""
        self._append(lambda recorder: recorder.write(parts, atomic=True))

    def _append(self, work: Callable[[SharedRecorder], T]) -> T:
        def append(recorder: SharedRecorder) -> T:
            found = work(recorder)
            self._whole = recorder.shared.file.identity, recorder.writer.end
            return found

        return self.shared.carry_out(append)

    def pop(self) -> Any:
        """Takes the newest item out; None if there is none."""
        found = self._append(self._pop)
        return item_of(found) if found is not None else None

    def _pop(self, recorder: SharedRecorder) -> Entry | None:
        identity, newest = recorder.shared.file.identity, self._newest
        self._newest = None  # until what is appended stands
        is_known = newest is not None and newest.holds(0, identity, recorder.writer.end)
        if newest is None or not newest.holds(1, identity, recorder.writer.end):
            self._wanted = min(2 * self._wanted, KEPT_ITEMS) if is_known else 1
            found, is_whole = self._recent(recorder.path, self._wanted, recorder.writer.end)
            newest = _Newest(identity, recorder.writer.end, found, is_whole and len(found) < self._wanted)
            lasts = is_whole and _can_be_kept(found)
        else:
            lasts = True
        if not newest.entries:
            return None
        end = recorder.write([new_records.items_removed(1)])
        if lasts:
            self._newest = dataclasses.replace(newest, end=end, entries=newest.entries[:-1])
        return newest.entries[-1]

    def clear(self) -> None:
        """Takes all items out."""
        self._append(lambda recorder: recorder.write([new_records.compaction([])]))

    def newest(self, limit: int | None) -> list[Any]:
        """The newest `limit` items (None: all), oldest first."""
        return self.shared.read(lambda path: self._items(path, limit))

    def entries(self, limit: int) -> list[Entry]:
        """The newest `limit` items undecoded, oldest first."""
        return self.shared.read(lambda path: self._recent(path, limit)[0])

    def replace(
        self, expected: list[Entry], parts: Sequence[Part], *, is_all: bool, prunes: Callable[[Any], bool] | None = None
    ) -> bool:
        """Puts items in the place of the newest ones, as one durable batch; False if these are not `expected` any more.

        `is_all`: there are to be no others. Else the oldest ones go too, as far as `prunes` says so of each, where they
        are as many as those in between, which are written again: a log that only grows does not double by that.
        """

        def change(recorder: SharedRecorder) -> bool:
            end = recorder.writer.end
            found, has_bases = self._recent(recorder.path, len(expected) + is_all, end)
            if found != expected:
                return False
            between: list[Part] | None = [] if is_all and has_bases else None  # a missing base may bring more back
            if between is None and prunes is not None:
                between = self._between(recorder.path, end, len(expected), prunes)
            taken = new_records.items_removed(len(expected)) if between is None else new_records.compaction([])
            recorder.write([taken, *(between or []), *parts], atomic=True)
            return True

        return self._append(change)

    def replace_all(self, parts: Sequence[Part]) -> None:
        """Puts items in the place of all that there are, as one durable batch."""
        self._append(lambda recorder: recorder.write([new_records.compaction([]), *parts], atomic=True))

    def _items(self, path: Path, limit: int | None) -> list[Any]:
        identity, size = self._status(path)
        newest = self._newest
        if limit is not None and newest is not None and newest.holds(limit, identity, size):
            return _decoded(newest.entries[max(0, len(newest.entries) - limit) :])
        limits, end = _limits_for(limit), size if self._whole == (identity, size) else None
        with self._origin(path, end, _NEAR).opened() as lineage:
            if limit is None or limit > KEPT_ITEMS:
                items = recent_items(lineage, limit, limits, plain_items_of, item_of)
            else:
                found = recent_and_items(lineage, limit, limits, plain_items_of, item_of)
                items = None if found is None else found[1]
                self._newest = None if found is None else _kept(lineage, found[0], limit)
                self._whole = None if self._newest is None else (self._newest.identity, self._newest.end)
        return _decoded(self._folded(path, limit)[0]) if items is None else items

    def _status(self, path: Path) -> tuple[tuple[int, int], int]:
        try:
            status = self.shared.ports.fs.status(path)
        except OSError:
            return (0, 0), -1
        return status.identity, status.size

    def _recent(self, path: Path, limit: int | None, size: int | None = None) -> tuple[list[Entry], bool]:
        """The newest entries of the first `size` bytes; and whether all bases were at hand: one may come back."""
        with self._origin(path, size, _NEAR).opened() as lineage:
            found = recent_entries(lineage, limit, _NEAR)
        return self._folded(path, limit, size) if found is None else (found, not lineage.missing)

    def _between(self, path: Path, end: int, count: int, prunes: Callable[[Any], bool]) -> list[Part] | None:
        """The items ahead of the newest `count` that are to stay, to be written again; None if none is to go.

        None too where a second line would say less than the first: an item that has none of its own; and usage would be
        that of another turn. And where not all items are at hand.
        """
        found, has_bases = self._recent(path, None, end)
        older = found[: len(found) - count]
        pruned = next((i for i, entry in enumerate(older) if not prunes(item_of(entry))), len(older))
        kept = [part_of(entry) for entry in older[pruned:]]
        if not has_bases or not pruned or len(kept) > pruned:
            return None
        if kept:
            with self._origin(path, end, DEFAULT).opened() as lineage:
                if any(isinstance(change, Used) and change.usage is not None for change in changes(lineage)):
                    return None
        whole = [part for part in kept if part is not None]
        return whole if len(whole) == len(kept) else None

    def _folded(self, path: Path, limit: int | None, size: int | None = None) -> tuple[list[Entry], bool]:
        """The same by the fold of the whole history: somebody has rolled it back, or compacted it as of old."""
        with self._origin(path, size, DEFAULT).opened() as lineage:
            history = Reconstruction(lineage, Collector(CODEX)).run().history
        return list(history.entries[0 if limit is None else max(0, len(history) - limit) :]), not lineage.missing


@functools.lru_cache(maxsize=16)
def _limits_for(count: int | None) -> Limits:
    """Begins to read with about what so many items take."""
    first = DEFAULT.chunk_bytes if count is None else min(count * _ITEM_BYTES, DEFAULT.chunk_bytes)
    return dataclasses.replace(DEFAULT, first_chunk_bytes=max(first, _NEAR.first_chunk_bytes))


def _can_be_kept(found: Sequence[Entry]) -> bool:
    return sum(len(memoryview(entry)) for entry in found) <= KEPT_BYTES


def _kept(lineage: Lineage, found: Sequence[Entry], wanted: int) -> _Newest | None:
    """What was read, if it lasts: all bases are there, the last line is whole, and it is not too much."""
    first, end = lineage.opened[0], lineage.end
    if first.file is None or lineage.missing or not end == first.source.size > 0 or not _can_be_kept(found):
        return None
    ends_line = first.source.read_at(end - 1, 1) == b"\n"
    return _Newest(first.file.identity, end, found, is_whole=len(found) < wanted) if ends_line else None


def _decoded(entries: Sequence[Entry]) -> list[Any]:
    lines = [entry for entry in entries if not isinstance(entry, Raw | AgentLine)]
    found = plain_items_of(lines) if lines and len(lines) == len(entries) else None
    return [item_of(entry) for entry in entries] if found is None else found
