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

from rollout import encoding
from rollout.core.history import Entry
from rollout.core.recent import recent_entries, recent_items
from rollout.core.reconstruct import Reconstruction
from rollout.errors import Locked, NotFound, Poisoned
from rollout.integrations.agents.opaque import item_of, plain_items_of
from rollout.limits import DEFAULT, KIB, MIB, Limits
from rollout.recorder import Ports
from rollout.storage import sealing
from rollout.storage.shared import SharedWriter
from rollout.storage.source import FileSource, Lineage, holds_record, open_path, visible_end
from rollout.storage.writer import holder

T = TypeVar("T")
_NEAR = dataclasses.replace(DEFAULT, first_chunk_bytes=4 * KIB)
"""Reads little where little is asked for."""
_ALL = dataclasses.replace(DEFAULT, first_chunk_bytes=DEFAULT.chunk_bytes)
_ITEM_BYTES = 512
_TRIES = 3
"""So often a log is looked for that is not where it was, or a writer is made anew that has failed before."""
_PAUSE_S = 0.01
_KEPT_ITEMS, _KEPT_BYTES = 1024, 4 * MIB
"""No more is read ahead of pops than these."""


@dataclasses.dataclass(slots=True)
class _Newest:
    """The newest entries of the history, oldest first, as of the last call that held the lock.

    `wanted`: so many are to be read when they are used up; it doubles, so that pops in a row read each byte that they
    pass over a few times, however many there are. `is_whole`: there are none but these.
    """

    entries: list[Entry] = dataclasses.field(default_factory=list)
    wanted: int = 1
    is_whole: bool = False

    def fill(self, read: Callable[[int], list[Entry]]) -> None:
        """Sees to it that there is an entry, if the history has one."""
        if not self.entries and not self.is_whole:
            self.entries = read(self.wanted)
            self.is_whole = len(self.entries) < self.wanted
            if self.wanted < _KEPT_ITEMS and sum(len(memoryview(entry)) for entry in self.entries) < _KEPT_BYTES:
                self.wanted *= 2

    def add(self, lines: list[bytes]) -> None:
        """What was appended."""
        self.entries += lines
        if len(self.entries) > self.wanted:
            del self.entries[: -self.wanted]
            self.is_whole = False


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


@dataclasses.dataclass(slots=True)
class _Shared:
    """A writer, and what who holds its lock knows of the items; None if others have written."""

    writer: SharedWriter
    path: Path
    newest: _Newest | None = None


class ItemLog:
    """One rollout. `find()` gives its path now, sealed or not (NotFound); it is asked again when that is no more.

    Methods raise NotFound if it was deleted, SourceError, Locked after `lock_timeout_s`, WriteError.
    """

    def __init__(self, find: Callable[[], Path], ports: Ports, lock_timeout_s: float) -> None:
        self._find, self._ports, self._lock_timeout_s = find, ports, lock_timeout_s
        self._guard = threading.RLock()  # of what is shared
        self._shared: _Shared | None = None
        self._known: _Known | None = None  # whichever thread has looked last: replaced, never changed

    def write(self, lines: list[bytes]) -> int:
        """Lines of visible items as one durable batch; the offset behind."""

        def append(shared: _Shared) -> int:
            end = shared.writer.append(lines, atomic=True)
            if shared.newest is not None:
                shared.newest.add(lines)
            return end

        return self._change(append)

    def pop(self) -> Any:
        """Takes the newest item out; None if there is none."""

        def append(shared: _Shared) -> list[Entry]:
            writer = shared.writer
            newest = shared.newest = shared.newest or _Newest()
            newest.fill(lambda count: self._entries(shared.path, count, writer.end))
            if newest.entries:
                part = encoding.event("items_removed", {"num_items": 1})
                writer.append([encoding.line(part, self._ports.clock())])
            return [newest.entries.pop()] if newest.entries else []

        found = self._change(append)
        return item_of(found[0]) if found else None

    def clear(self) -> None:
        """Takes all items out."""
        line = encoding.line(_nothing(), self._ports.clock())

        def append(shared: _Shared) -> None:
            shared.writer.append([line])
            shared.newest = _Newest(is_whole=True)

        self._change(append)

    def newest(self, limit: int | None) -> list[Any]:
        """The newest `limit` items (None: all), oldest first."""
        return self._read(lambda path: self._items(path, limit))

    def entries(self, limit: int) -> list[Entry]:
        """The newest `limit` items undecoded, oldest first."""
        return self._read(lambda path: self._entries(path, limit, None))

    def replace(self, expected: list[Entry], lines: list[bytes], *, is_all: bool) -> bool:
        """Puts items in the place of the newest ones, as one durable batch; False if these are not `expected` any more.

        `is_all`: there are to be no others.
        """

        def append(shared: _Shared) -> bool:
            writer, shared.newest = shared.writer, None
            if self._entries(Path(writer.path), len(expected) + is_all, writer.end) != expected:
                return False
            part = _nothing() if is_all else encoding.event("items_removed", {"num_items": len(expected)})
            writer.append([encoding.line(part, self._ports.clock()), *lines], atomic=True)
            return True

        return self._change(append)

    def replace_all(self, lines: list[bytes]) -> None:
        """Puts items in the place of all that there are, as one durable batch."""

        def append(shared: _Shared) -> None:
            shared.newest = None
            shared.writer.append([encoding.line(_nothing(), self._ports.clock()), *lines], atomic=True)

        self._change(append)

    def look(self, look: Callable[[Path], T]) -> T:
        """What `look` makes of the file, where it is now; called again if it has moved meanwhile."""
        return self._read(look)

    def carry_out(self, work: Callable[[SharedWriter], T]) -> T:
        """Does `work` while nobody else writes, and puts on the disk what it appends: items are to be told at once."""

        def append(shared: _Shared) -> T:
            shared.newest = None
            return work(shared.writer)

        return self._change(append)

    def close(self) -> None:
        """Lets go of the file. When no other call is under way."""
        with self._guard:
            if self._shared is not None:
                self._shared.writer.close()
            self._shared = None

    def _items(self, path: Path, limit: int | None) -> list[Any]:
        with self._opened(path) as lineage:
            found = recent_items(lineage, limit, _limits_for(limit), plain_items_of, item_of)
        return [item_of(entry) for entry in self._folded(path, limit, None)] if found is None else found

    def _entries(self, path: Path, limit: int, size: int | None) -> list[Entry]:
        with self._opened(path, size) as lineage:
            found = recent_entries(lineage, limit, _NEAR)
        return self._folded(path, limit, size) if found is None else found

    def _folded(self, path: Path, limit: int | None, size: int | None) -> list[Entry]:
        """The same by the fold of the whole history: somebody has rolled it back, or compacted it as of old."""
        with self._opened(path, size) as lineage:
            history = Reconstruction(lineage).run().history
        return list(history.entries[0 if limit is None else max(0, len(history) - limit) :])

    @contextlib.contextmanager
    def _opened(self, path: Path, size: int | None = None) -> Iterator[Lineage]:
        """The rollout and its bases, of which the first `size` bytes count (None: all that are whole)."""
        fs, known = self._ports.fs, self._known
        first = open_path(path, fs=fs, limits=_NEAR)
        assert first.file is not None
        head = _head_of(first.source)
        if known is None or known.identity != first.file.identity or known.end > first.source.size:
            known = _Known(first.file.identity, 0)
        elif known.session is not None and known.head == head != b"":
            first.assume(known.session, is_first=known.begins_with_meta)
        if size is None:
            size = visible_end(first.source, _NEAR, known.end) if known.end < first.source.size else known.end
        lineage = Lineage(first, home=self._ports.home, fs=fs, limits=_NEAR, end=size)
        with contextlib.closing(lineage):
            yield lineage
            ends_line = size > 0 and first.source.read_at(size - 1, 1) == b"\n"  # a tail is mended, and so changed
            self._known = _Known(known.identity, size if ends_line else 0, first.session, first.begins_with_meta, head)

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
                with writer.held(max(0.0, deadline - time.monotonic())) as moved:
                    entered = True
                    end = writer.end
                    found = _carry_out(append, shared, moved)
                    wrote = writer.end != end
                    self._note_whole(writer)
                if wrote:
                    writer.commit()
                return found
            except (Poisoned, Locked, NotFound) as error:
                if entered or time.monotonic() >= deadline or not _helps_to_try_again(error, shared, tries):
                    raise
                self._drop(shared)
            if shared is None:
                time.sleep(_PAUSE_S)  # for who seals or unseals it

    def _note_whole(self, writer: SharedWriter) -> None:
        known = self._known
        if known is None or known.identity != writer.identity:
            known = _Known(writer.identity, 0)
        self._known = dataclasses.replace(known, end=writer.end)

    def _share(self) -> _Shared:
        with self._guard:
            if self._shared is None:
                path, fs = self._find(), self._ports.fs
                if path.suffix == ".zst":
                    path = sealing.unseal(fs, path, held_by=holder(self._ports.timestamp()))
                writer = SharedWriter.share(fs, path, holds_record=holds_record, root=self._ports.home)
                self._shared = _Shared(writer, path)
            return self._shared

    def _drop(self, shared: _Shared | None) -> None:
        """The next call looks for the file again; the last thread that uses the old one closes it."""
        with self._guard:
            if self._shared is shared:
                self._shared = None


def _nothing() -> encoding.Part:
    """The compaction that leaves no item."""
    return encoding.Part("compacted", encoding.encode({"message": "", "replacement_history": []}))


def _limits_for(count: int | None) -> Limits:
    """Begins to read with about what so many items take."""
    if count is None:
        return _ALL
    first_chunk_bytes = min(max(count * _ITEM_BYTES, _NEAR.first_chunk_bytes), DEFAULT.chunk_bytes)
    return dataclasses.replace(_NEAR, first_chunk_bytes=first_chunk_bytes)


def _head_of(source: object) -> bytes:
    """What opening a plain file has read of its beginning; nothing of one whose text is made."""
    return source.read_at(0, min(_NEAR.first_chunk_bytes, source.size)) if isinstance(source, FileSource) else b""


def _carry_out(append: Callable[[_Shared], T], shared: _Shared, moved: bool) -> T:
    if moved:
        shared.newest = None
    try:
        return append(shared)
    except BaseException:
        shared.newest = None
        raise


def _helps_to_try_again(error: Exception, shared: _Shared | None, tries: int) -> bool:
    """Whether what has failed before it wrote anything has another outcome where the file is looked for anew."""
    if isinstance(error, Locked):
        return shared is None or not shared.writer.is_in_place  # else another writer holds it, and was waited for
    return tries < _TRIES
