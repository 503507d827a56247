"""The items of one rollout as a list that is only appended to: write, newest, pop, clear.

Every call is whole: what `write` has written is on the disk, all or nothing; a pop appends an `items_removed`, a clear
a compaction with nothing in it. Safe to use from several threads and processes: the file is locked for a call alone,
and read without a lock. A log that was moved, sealed or replaced meanwhile is found again, and unsealed before it is
written to. What may have been written is never written again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rollout.adapters.agents.entries import can_be_copied, decoded, nothing, removal
from rollout.adapters.agents.opaque import item_of, plain_items_of
from rollout.adapters.agents.tail import KEPT_BYTES, KEPT_ITEMS, Tail, tail_of
from rollout.adapters.agents.turns import Used, changes
from rollout.dialects.codex import encoder
from rollout.errors import Displaced, Locked, NotFound, Poisoned, SourceError
from rollout.files.bases import Bases, Likely
from rollout.files.displaced import stands_at_end
from rollout.files.lineage import Head, Lineage, holds_record, open_path, visible_end
from rollout.files.plain import FileSource
from rollout.files.sealed import seal
from rollout.files.shared_writer import SharedWriter
from rollout.files.writer import holder
from rollout.fold.engine import Reconstruction
from rollout.fold.history import Entry
from rollout.limits import DEFAULT, KIB, Limits
from rollout.session.environment import Ports
from rollout.session.newest_items import recent_and_items, recent_entries, recent_items

T = TypeVar("T")
_NEAR = dataclasses.replace(DEFAULT, first_chunk_bytes=4 * KIB)
"""Reads little where little is asked for."""
_ALL = dataclasses.replace(DEFAULT, first_chunk_bytes=DEFAULT.chunk_bytes)
_ITEM_BYTES = 512
_TRIES = 3
"""So often a log is looked for that is not where it was, or a writer is made anew that has failed before."""
_PAUSE_S = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """What an earlier look at a file has found, and stays so."""

    identity: tuple[int, int]
    end: int
    """A line ends there, and no incomplete batch does: nothing before it is ever changed."""
    session: dict[str, Any] | None = None
    """What its session_meta says; None if it was not looked for."""
    begins_with_meta: bool = False
    head: bytes = b""
    """The first bytes of the file that said so: another one may have its identity one day."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Shared:
    """A writer, and the path that it was found at."""

    writer: SharedWriter
    path: Path


class ItemLog:
    """One rollout. `find()` gives its path now, sealed or not (NotFound); it is asked again when that is no more.

    `likely` tells where the base with an id may lie (see `Bases`); `made` is its own path if it has just been made
    there, and its name is on the disk. Methods raise NotFound if it was deleted, SourceError, Locked after
    `lock_timeout_s`, WriteError.
    """

    def __init__(
        self,
        find: Callable[[], Path],
        ports: Ports,
        lock_timeout_s: float,
        likely: Likely | None = None,
        made: Path | None = None,
    ) -> None:
        self._find, self._likely, self._made = find, likely, made
        self._ports, self._lock_timeout_s = ports, lock_timeout_s
        self._guard = threading.RLock()  # of what is shared
        self._shared: _Shared | None = None
        self._known: _Known | None = None  # whichever thread has looked last: replaced, never changed
        self._tail: Tail | None = None  # the same
        self._wanted = 1  # so many entries a pop reads; it doubles, so that pops in a row read each byte a few times,
        # and is one again where what was read ahead was of no use

    def write(self, lines: list[bytes]) -> int:
        """Lines of visible items as one durable batch; the offset behind."""

        def append(shared: _Shared) -> int:
            tail = self._tail_of(shared.writer)
            end = shared.writer.append(lines, atomic=True)
            self._tail = None if tail is None else tail.with_more(lines, end)
            return end

        return self._change(append)

    def pop(self) -> Any:
        """Takes the newest item out; None if there is none."""

        def append(shared: _Shared) -> list[Entry]:
            writer = shared.writer
            tail = self._tail_of(writer)
            if tail is None or not tail.knows(1):
                self._wanted = 1 if tail is None else min(2 * self._wanted, KEPT_ITEMS)
                tail = self._read_tail(shared)
            if tail.entries:
                left = tail.without_newest(writer.append([encoder.line(removal(1), self._ports.clock())]))
                self._tail = left if left.is_lasting and left.size_bytes <= KEPT_BYTES else None
            return list(tail.entries[-1:])

        found = self._change(append)
        return item_of(found[0]) if found else None

    def clear(self) -> None:
        """Takes all items out."""
        line = encoder.line(nothing(), self._ports.clock())

        def append(shared: _Shared) -> None:
            end = shared.writer.append([line])
            self._tail = Tail(shared.writer.identity, end, (), 0, is_whole=True)

        self._change(append)

    def newest(self, limit: int | None) -> list[Any]:
        """The newest `limit` items (None: all), oldest first."""
        return self._read(lambda path: self._items(path, limit))

    def entries(self, limit: int) -> list[Entry]:
        """The newest `limit` items undecoded, oldest first."""
        return self._read(lambda path: self._recent(path, limit, None)[0])

    def replace(
        self,
        expected: list[Entry],
        lines: list[bytes],
        *,
        is_all: bool,
        prunes: Callable[[Any], bool] | None = None,
    ) -> bool:
        """Puts items in the place of the newest ones, as one durable batch; False if these are not `expected` any more.

        `is_all`: there are to be no others. Else the oldest ones go too, as far as `prunes` says so of each, where they
        are as many as those in between, which are written again: a log that only grows does not double by that.
        """

        def append(shared: _Shared) -> bool:
            writer, path = shared.writer, Path(shared.writer.path)
            found, has_bases = self._recent(path, len(expected) + is_all, writer.end)
            if found != expected:
                return False
            between: list[bytes] | None = [] if is_all and has_bases else None
            if between is None and prunes is not None:
                between = self._between(path, writer.end, len(expected), prunes)
            part = nothing() if between is not None else removal(len(expected))
            writer.append([encoder.line(part, self._ports.clock()), *(between or []), *lines], atomic=True)
            return True

        return self._change(append)

    def replace_all(self, lines: list[bytes]) -> None:
        """Puts items in the place of all that there are, as one durable batch."""

        def append(shared: _Shared) -> None:
            shared.writer.append([encoder.line(nothing(), self._ports.clock()), *lines], atomic=True)

        self._change(append)

    def look(self, look: Callable[[Path], T]) -> T:
        """What `look` makes of the file, where it is now; called again if it has moved meanwhile."""
        return self._read(look)

    def carry_out(self, work: Callable[[SharedWriter], T]) -> T:
        """Does `work` while nobody else writes, and puts on the disk what it appends: items are to be told at once."""

        def append(shared: _Shared) -> T:
            return work(shared.writer)

        return self._change(append)

    def close(self) -> None:
        """Lets go of the file. When no other call is under way."""
        with self._guard:
            if self._shared is not None:
                self._shared.writer.close()
            self._shared = None

    def _items(self, path: Path, limit: int | None) -> list[Any]:
        if limit is None or limit > KEPT_ITEMS:
            with self._opened(path) as lineage:
                items = recent_items(lineage, limit, _limits_for(limit), plain_items_of, item_of)
            if items is not None:
                return items
            with self._opened(path) as lineage:
                return [item_of(entry) for entry in _folded(lineage, limit)]
        tail = self._tail
        if tail is not None and tail.knows(limit) and self._holds(tail, path):
            return decoded(tail.entries[max(0, len(tail.entries) - limit) :])
        with self._opened(path) as lineage:
            found = recent_and_items(lineage, limit, _limits_for(limit), plain_items_of, item_of)
            self._tail = None if found is None else self._tail_at(lineage, found[0], limit)
        if found is not None:
            return found[1]
        with self._opened(path) as lineage:
            return decoded(_folded(lineage, limit))

    def _holds(self, tail: Tail, path: Path) -> bool:
        try:
            status = self._ports.fs.status(path)
        except OSError:
            return False
        return tail.holds(status.identity, status.size)

    def _tail_of(self, writer: SharedWriter) -> Tail | None:
        """What is known of the newest entries by who holds the lock. Nothing is, until it says so anew."""
        tail, self._tail = self._tail, None
        return tail if tail is not None and tail.holds(writer.identity, writer.end) else None

    def _read_tail(self, shared: _Shared) -> Tail:
        wanted = self._wanted
        writer, (found, has_bases) = shared.writer, self._recent(shared.path, wanted, shared.writer.end)
        return tail_of(writer.identity, writer.end, found, is_whole=len(found) < wanted, is_lasting=has_bases)

    def _tail_at(self, lineage: Lineage, found: list[Entry], wanted: int) -> Tail | None:
        """What was read, to be kept; None if a base is missing, the last line is not whole, or it is too much."""
        first, end = lineage.opened[0], lineage.end
        if lineage.missing or first.file is None:
            return None
        if end == 0 or end != first.source.size or first.source.read_at(end - 1, 1) != b"\n":
            return None
        tail = tail_of(first.file.identity, end, found, is_whole=len(found) < wanted)
        return tail if tail.size_bytes <= KEPT_BYTES else None

    def _recent(self, path: Path, limit: int | None, size: int | None) -> tuple[list[Entry], bool]:
        """The newest `limit` entries; and whether all bases were at hand: one that is missing may come back."""
        with self._opened(path, size) as lineage:
            found = recent_entries(lineage, limit, _NEAR)
            if found is not None:
                return found, not lineage.missing
        with self._opened(path, size) as lineage:  # somebody has rolled it back, or compacted it as of old
            return _folded(lineage, limit), not lineage.missing

    def _between(self, path: Path, end: int, count: int, prunes: Callable[[Any], bool]) -> list[bytes] | None:
        """The lines of the items ahead of the newest `count` that are to stay; None if none is to go (see `replace`).

        None too where a second line would say less or other than the first: an item that has none of its own, or one
        with a number; and usage would be that of another turn. And where not all items are at hand.
        """
        found, has_bases = self._recent(path, None, end)
        older = found[: len(found) - count]
        pruned = next((i for i, entry in enumerate(older) if not prunes(item_of(entry))), len(older))
        kept = older[pruned:]
        if not has_bases or not pruned or len(kept) > pruned or not all(map(can_be_copied, kept)):
            return None
        if kept:
            with self._opened(path, end) as lineage:
                if any(isinstance(change, Used) and change.usage is not None for change in changes(lineage)):
                    return None
        return [bytes(entry) + b"\n" for entry in kept]

    @contextlib.contextmanager
    def _opened(self, path: Path, size: int | None = None) -> Iterator[Lineage]:
        """The rollout and its bases, of which the first `size` bytes count (None: all that are whole)."""
        fs, known = self._ports.fs, self._known
        first = open_path(path, fs=fs, keys=self._ports.keys, limits=_NEAR)
        assert first.file is not None
        head = _head_of(first.source)
        if known is None or known.identity != first.file.identity or known.end > first.source.size:
            known = _Known(first.file.identity, 0)
        elif known.session is not None and known.head == head != b"":
            first.head = Head(known.session, known.begins_with_meta)
        if size is None:
            size = visible_end(first.source, _NEAR, known.end) if known.end < first.source.size else known.end
        bases = Bases(self._ports.home, fs, likely=self._likely)
        lineage = Lineage(
            first, home=self._ports.home, fs=fs, keys=self._ports.keys, limits=_NEAR, end=size, bases=bases
        )
        with contextlib.closing(lineage):
            yield lineage
            ends_line = size > 0 and first.source.read_at(size - 1, 1) == b"\n"  # a tail is mended, and so changed
            self._known = _Known(known.identity, size if ends_line else 0, first.session, first.head.is_first, head)

    def _read(self, read: Callable[[Path], T]) -> T:
        shared = self._shared
        if shared is not None:
            try:
                return read(shared.path)
            except NotFound:
                self._drop(shared)
        try:
            return read(self._find())
        except NotFound:  # moved between the two
            return read(self._find())

    def _change(self, append: Callable[[_Shared], T]) -> T:
        """Carries `append` out under the lock and puts it on the disk; only what wrote nothing is tried again."""
        deadline = time.monotonic() + self._lock_timeout_s
        tries = 0
        while True:
            tries += 1
            shared, entered = None, False
            try:
                shared = self._share()
                writer = shared.writer
                with writer.alone:
                    writer.check_usable()
                    try:
                        writer.take(max(0.0, deadline - time.monotonic()))
                        entered = True
                        end = writer.end
                        found = append(shared)
                        wrote = writer.end != end
                        self._note_whole(writer)
                    finally:
                        writer.give_back()
                if wrote:
                    writer.commit()
                return found
            except (Poisoned, Displaced, Locked, NotFound) as error:
                if entered or time.monotonic() >= deadline or not _helps_to_try_again(error, shared, tries):
                    raise
                self._drop(shared)
            if shared is None:
                time.sleep(_PAUSE_S)  # for who seals or unseals it

    def _note_whole(self, writer: SharedWriter) -> None:
        known = self._known
        if known is None or known.identity != writer.identity:
            known = _Known(writer.identity, 0)
        self._known = _Known(known.identity, writer.end, known.session, known.begins_with_meta, known.head)

    def _share(self) -> _Shared:
        with self._guard:
            if self._shared is None:
                path, fs, home = self._find(), self._ports.fs, self._ports.home
                if path.suffix == ".zst":
                    path = seal.unseal(fs, path, held_by=holder(self._ports.timestamp()))
                stands, is_named = self._is_carried_over, path == self._made
                writer = SharedWriter.share(
                    fs,
                    path,
                    holds_record=holds_record,
                    keys=self._ports.keys,
                    root=home,
                    is_named=is_named,
                    carried_over=stands,
                )
                self._made = None
                self._shared = _Shared(writer, path)
            return self._shared

    def _is_carried_over(self, line: bytes) -> bool:
        """Whether a line that was appended stands in the file that the log is now: sealed, say, or written anew."""
        try:
            with self._opened(self._find()) as lineage:
                return stands_at_end(lineage.opened[0].source, line)
        except (SourceError, OSError):
            return False

    def _drop(self, shared: _Shared | None) -> None:
        """The next call looks for the file again; the last thread that uses the old one closes it."""
        with self._guard:
            if self._shared is shared:
                self._shared = None


def _folded(lineage: Lineage, limit: int | None) -> list[Entry]:
    """The newest `limit` entries by the fold of the whole history."""
    history = Reconstruction(lineage).run().history
    return list(history.entries[0 if limit is None else max(0, len(history) - limit) :])


def _limits_for(count: int | None) -> Limits:
    """Begins to read with about what so many items take."""
    if count is None:
        return _ALL
    first_chunk_bytes = min(max(count * _ITEM_BYTES, _NEAR.first_chunk_bytes), DEFAULT.chunk_bytes)
    return dataclasses.replace(_NEAR, first_chunk_bytes=first_chunk_bytes)


def _head_of(source: object) -> bytes:
    """What opening a plain file has read of its beginning; nothing of one whose text is made."""
    return source.read_at(0, min(_NEAR.first_chunk_bytes, source.size)) if isinstance(source, FileSource) else b""


def _helps_to_try_again(error: Exception, shared: _Shared | None, tries: int) -> bool:
    """Whether what has failed before it wrote anything has another outcome where the file is looked for anew."""
    if isinstance(error, Locked):
        return shared is None or not shared.writer.is_in_place  # else another writer holds it, and was waited for
    return tries < _TRIES
