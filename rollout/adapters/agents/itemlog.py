"""The items of one rollout as a list that is only appended to: write, newest, pop, replace.

Every call is whole: what `write` has written is on the disk, all or nothing; a pop appends an `items_removed`, what
replaces all a compaction with nothing in it. Safe to use from several threads and processes (see `SharedLog`). Reading
takes no lock.

What was read last of the newest items is kept for the next pop or read, and so is where the file was seen to end in a
whole batch. What is whole in a file is never changed, so that holds as long as it has no more bytes than it had.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rollout.adapters.agents.conversation import read_backward
from rollout.adapters.agents.opaque import item_of, items_of, part_of
from rollout.dialects.codex import encoder
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.encoder import Part
from rollout.files.source import Origin
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.format.labels import Label
from rollout.items.events import Entry
from rollout.items.history import entries_of
from rollout.limits import DEFAULT, KIB, MIB, Limits
from rollout.session.environment import Ports
from rollout.session.newest_items import recent_entries
from rollout.session.shared_log import SharedLog, SharedRecorder

_ITEM_BYTES = 512
_NEAR = dataclasses.replace(DEFAULT, first_chunk_bytes=4 * KIB)
"""Reads little where little is asked for."""
KEPT_ITEMS, KEPT_BYTES = 1024, 4 * MIB
"""No more is kept, or read ahead of pops, than these."""
OriginOf = Callable[[Path, int | None, Limits], Origin]
"""How the first bytes of a rollout (None: all that are whole) are opened."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Newest:
    """The newest entries, oldest first, as the first `end` bytes (-1: not all were whole) of a file say.

    `asked`: for so many it was read. `is_whole`: there are no others. `has_bases`: none is missing, which may come back
    with more.
    """

    identity: tuple[int, int]
    end: int
    entries: Sequence[Entry] = ()
    asked: int = 0
    is_whole: bool = False
    has_bases: bool = True

    def holds(self, count: int, identity: tuple[int, int], end: int) -> bool:
        """Whether the newest `count` entries of a file that is so long are among these."""
        return (self.identity, self.end) == (identity, end) and (self.is_whole or count <= len(self.entries))

    @property
    def can_be_kept(self) -> bool:
        """Whether it lasts, and is not too much."""
        return self.has_bases and sum(len(memoryview(entry)) for entry in self.entries) <= KEPT_BYTES


class ItemLog(SharedLog):
    """One rollout. Methods raise NotFound if it was deleted, SourceError, Locked, WriteError."""

    def __init__(
        self,
        find: Callable[[], Path],
        origin: OriginOf,
        ports: Ports,
        label: Label,
        lock_timeout_s: float,
        made: Path | None,
    ) -> None:
        super().__init__(find, ports, label, lock_timeout_s, made)
        self._origin = origin
        self._newest = _Newest((0, 0), -1)  # whichever thread has looked last: replaced, never changed

    def write(self, parts: Sequence[Part]) -> None:
        """Items as one durable batch."""
        self.carry_out(lambda recorder: self._write(recorder, parts))

    def _write(self, recorder: SharedRecorder, parts: Sequence[Part]) -> None:
        end = recorder.write(parts, atomic=True)
        self._newest = _Newest(recorder.shared.file.identity, end)

    def pop(self) -> Any:
        """Takes the newest item out; None if there is none."""
        found = self.carry_out(self._pop)
        return None if found is None else item_of(found)

    def _pop(self, recorder: SharedRecorder) -> Entry | None:
        at, newest = (recorder.shared.file.identity, recorder.writer.end), self._newest
        is_kept = newest.holds(1, *at)
        if not is_kept:
            # Twice as many as the last pops have used up, so that pops in a row read each byte a few times; one, where
            # what was read ahead was of no use.
            wanted = max(1, min(2 * newest.asked, KEPT_ITEMS)) if newest.holds(0, *at) else 1
            newest = self._look(recorder.path, wanted, recorder.writer.end)
            is_kept = newest.can_be_kept
        if not newest.entries:
            return None
        end = recorder.write([encoder.items_removed(1)])
        if is_kept:
            self._newest = dataclasses.replace(newest, end=end, entries=newest.entries[:-1])
        return newest.entries[-1]

    def newest(self, limit: int | None) -> list[Any]:
        """The newest `limit` items (None: all), oldest first."""
        return items_of(self.read(lambda path: self._kept_or_read(path, limit)))

    def entries(self, limit: int) -> Sequence[Entry]:
        """The newest `limit` items undecoded, oldest first."""
        return self.read(lambda path: self._kept_or_read(path, limit))

    def replace(
        self,
        expected: Sequence[Entry],
        parts: Sequence[Part],
        *,
        is_all: bool,
        prunes: Callable[[Any], bool] | None = None,
    ) -> bool:
        """Puts items in the place of the newest ones, as one durable batch; False if these are not `expected` any more.

        `is_all`: there are to be no others. Else the oldest ones go too, as far as `prunes` says so of each, where they
        are as many as those in between, which are written again: a log that only grows does not double by that.
        """

        def change(recorder: SharedRecorder) -> bool:
            found = self._look(recorder.path, len(expected) + is_all, recorder.writer.end)
            if found.entries != expected:
                return False
            between: list[Part] | None = (
                [] if is_all and found.has_bases else None
            )  # a missing base may bring more back
            if between is None and prunes is not None:
                between = self._between(recorder, len(expected), prunes)
            taken = encoder.items_removed(len(expected)) if between is None else encoder.compaction([])
            self._write(recorder, [taken, *(between or []), *parts])
            return True

        return self.carry_out(change)

    def replace_all(self, parts: Sequence[Part]) -> None:
        """Puts items in the place of all that there are, as one durable batch."""
        self.write([encoder.compaction([]), *parts])

    def _kept_or_read(self, path: Path, limit: int | None) -> Sequence[Entry]:
        newest, end = self._newest, None
        with contextlib.suppress(OSError):
            status = self.ports.fs.status(path)
            if limit is not None and newest.holds(limit, status.identity, status.size):
                return newest.entries[max(0, len(newest.entries) - limit) :]
            end = newest.end if newest.holds(0, status.identity, status.size) else None
        found = self._look(path, limit, end)
        if limit is not None and limit <= KEPT_ITEMS and found.can_be_kept:
            self._newest = found
        return found.entries

    def _look(self, path: Path, limit: int | None, size: int | None = None) -> _Newest:
        """The newest entries of the first `size` bytes (None: of all that are whole)."""
        with self._origin(path, size, _NEAR).opened() as lineage:
            segments, again = itertools.tee(lineage)
            found = recent_entries(segments, limit, _limits_for(limit))
            if found is None:  # somebody has rolled the log back, or compacted it as of old: only the whole fold tells
                history = Reconstruction(again, Collector(CODEX)).run().history
                found = list(entries_of(history)[0 if limit is None else max(0, len(history) - limit) :])
            first, end = lineage.opened[0], lineage.end
            if size is None and not (0 < end == first.source.size and first.source.read_at(end - 1, 1) == b"\n"):
                end = -1
            identity = (0, 0) if first.file is None else first.file.identity
            is_whole = limit is None or len(found) < limit
            return _Newest(identity, end, found, limit or 0, is_whole, not lineage.missing)

    def _between(self, recorder: SharedRecorder, count: int, prunes: Callable[[Any], bool]) -> list[Part] | None:
        """The items ahead of the newest `count` that are to stay, to be written again; None if none is to go.

        None too where a second line would say less than the first: an item that has none of its own; and usage would be
        that of another turn. And where not all items are at hand.
        """
        found = self._look(recorder.path, None, recorder.writer.end)
        older = found.entries[: len(found.entries) - count]
        pruned = next((i for i, entry in enumerate(older) if not prunes(item_of(entry))), len(older))
        kept = [part_of(entry) for entry in older[pruned:]]
        if not found.has_bases or not pruned or len(kept) > pruned:
            return None
        if kept:
            with self._origin(recorder.path, recorder.writer.end, DEFAULT).opened() as lineage:
                if any(told.usage is not None for told in read_backward(lineage)):
                    return None
        whole = [part for part in kept if part is not None]
        return whole if len(whole) == len(kept) else None


@functools.lru_cache(maxsize=16)
def _limits_for(count: int | None) -> Limits:
    """Begins to read with about what so many items take."""
    first = DEFAULT.chunk_bytes if count is None else min(count * _ITEM_BYTES, DEFAULT.chunk_bytes)
    return dataclasses.replace(DEFAULT, first_chunk_bytes=max(first, _NEAR.first_chunk_bytes))
