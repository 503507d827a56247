"""The index of a home: what was found out about its rollouts, in an SQLite file. Only ever a cache.

An entry holds as long as size, time of change and inode of its file are what they were; a file that grew is read from
where its memory ends (see `look`); anything else is read anew. A file that was changed within two seconds of the look
at it may have been changed again in the same tick of the file system's clock: it is looked at once more.

Several processes may use it at once: each transaction is short, what two find out about one file is the same, and the
later one counts. What is corrupt or of another schema is thrown away and built anew; where the home cannot be written,
the same code runs over a database in memory. No symbolic link is followed to it, and no home is made for it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rollout.errors import NotFound, SourceError
from rollout.files import layout as homes
from rollout.files.bases import Bases
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.layout import RolloutFile
from rollout.files.port import Status
from rollout.home.index.base_links import Links
from rollout.home.index.database import RACY_NS, Cache, Row
from rollout.home.index.entry import Known, Told
from rollout.home.index.entry_summary import TOO_LARGE, Digest
from rollout.home.index.seams import Prefixes
from rollout.home.index.status import IndexStatus
from rollout.ids import FileId
from rollout.limits import LISTED, Limits

if TYPE_CHECKING:
    from rollout.fold.checkpoint import Memory
    from rollout.home.index.scan import Look

NAME = "rollout-index.sqlite3"
_MOST_TRIES = 3
_MOST_WAITING, _MOST_WAITING_BYTES = 64, 4 << 20  # that are written in one transaction
UNREADABLE = "cannot be read: "
"""How the trouble of a file begins that cannot be."""
UNTOLD = (UNREADABLE, TOO_LARGE)
"""How the troubles begin of files that have more to tell than is known of them."""

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Bytes done, bytes in all."""


class Index:
    """An open index; close it, or use it as a context manager. Several threads may share it."""

    def __init__(
        self, home: Path, fs: FileSystem, keys: Keys, clock: Callable[[], float], limits: Limits, cache: Cache
    ) -> None:
        self.home, self.keys = home, keys
        self._fs, self._clock, self._limits, self._cache = fs, clock, limits, cache
        self._top = os.fspath(home / "_")[:-1]
        self._skip = len(self._top)
        self._lock = threading.RLock()
        self._waiting: dict[bytes, tuple[Row, bytes]] = {}
        self._waiting_bytes = 0
        self._bases, self._links, self._prefixes = Bases(home, fs), Links(cache, fs), Prefixes()
        self._ahead: dict[bytes, Row] = {}  # rows that were read at once

    @classmethod
    def open(
        cls,
        home: Path,
        fs: FileSystem = REAL,
        *,
        keys: Keys = NO_KEYS,
        clock: Callable[[], float] = time.time,
        limits: Limits = LISTED,
    ) -> Index:
        """The index of a home; in memory where there can be no file. `clock` gives Unix seconds.

        In memory too where there are keys: not a word of what is encrypted is to stand on the disk.
        """
        is_kept = _is_on_disk(home, fs) and not keys
        return cls(home, fs, keys, clock, limits, Cache(home / NAME if is_kept else None))

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Keeps what was found out, and lets go of the file."""
        with self._lock:
            self._flush()
            self._cache.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The database, in autocommit; for tables of others, that belong to the same cache."""
        return self._cache.connection

    def recover(self, error: sqlite3.DatabaseError) -> bool:
        """After an error of `connection`: True if that is now another one, to begin anew with."""
        with self._lock:
            return self._cache.recover(error)

    def digests(
        self, entries: Iterable[RolloutFile], progress: Progress | None = None, *, at_once: bool = False
    ) -> Iterator[tuple[RolloutFile, Digest, float]]:
        """What each file says, and when it was changed (Unix seconds), in the order of the entries.

        Each is brought up to date when it is asked for. A file that cannot be read has a digest that says so; one that
        went away is left out. `at_once`: the entries are most of the home, and so their rows are read at once.
        """
        with self._lock:
            self._ahead = self._cache.rows() if at_once else {}
            self._bases.forget()
            self._links.forget()
        files = entries if progress is None else list(entries)
        done = _Progress(progress, lambda: sum(size for _, size in self._stale(files)))
        try:
            for entry in files:
                with self._lock:
                    found = self._bring_up(entry, done)
                if found is not None:
                    yield entry, found[1], found[0].mtime_ns / 1e9
        finally:
            with self._lock:
                self._ahead = {}
                self._flush()

    def file_id(self, entry: RolloutFile) -> tuple[int, int]:
        """Id and generation of a file (another generation once it is replaced); (0, 0) if it cannot be read."""
        with self._lock:
            row = self._current(entry)
            return (0, 0) if row is None else (row.id, row.generation)

    def trouble(self, entry: RolloutFile) -> str | None:
        """Why there is little to tell of a file (see `Digest`); None if there is none, or the file is gone."""
        with self._lock:
            found = self._bring_up(entry, _NO_PROGRESS)
        return None if found is None else found[1].trouble

    def verdicts(self, entry: RolloutFile) -> dict[int, tuple[str, str | None]]:
        """What became of each line of a file (as `explain` says it) and the id of its turn, by the record's offset.

        Of the lines that are remembered: a record at the end without a line end is not. Reads nothing that was read.
        """
        from rollout.home.index.statuses import tell_fates

        with self._lock:
            row = self._current(entry)
            before = None if row is None else self._recall(row)
        return {} if before is None else tell_fates(before[1], self._limits)

    def refresh(self, *, rebuild: bool = False, progress: Progress | None = None) -> IndexStatus:
        """Bring all files of the home up to date and forget those that are gone; `rebuild`: begin with nothing."""
        with self._lock:
            if rebuild:
                self._waiting.clear()
                self._cache.clear()
        entries = sorted(homes.scan(self.home, fs=self._fs), key=lambda entry: entry.order, reverse=True)
        for _ in self.digests(entries, progress):
            pass
        with self._lock:
            there = {self._key(entry) for entry in entries}
            self._cache.drop(self._cache.paths() - there)
        return self.status()

    def status(self) -> IndexStatus:
        """What the index knows of the home. Opens no rollout."""
        with self._lock:
            self._flush()
            self._bases.forget()
            self._links.forget()
            entries = list(homes.scan(self.home, fs=self._fs))
            stale = list(self._stale(entries))
            path = self._cache.path
            return IndexStatus(
                path=path,
                entries=len(self._cache.paths()),
                files=len(entries),
                stale=len(stale),
                stale_bytes=sum(size for _, size in stale),
                bytes=0 if path is None else path.stat().st_size,
            )

    def _stale(self, entries: Iterable[RolloutFile]) -> Iterator[tuple[RolloutFile, int]]:
        """The entries that are to be read, with how many bytes that is about."""
        for entry in entries:
            with contextlib.suppress(OSError, SourceError), self._lock:
                status = self._fs.status(entry.file)
                row = self._row(entry)
                if row is None or not self._holds(row, status):
                    grew = row is not None and row.identity == _identity(status) and row.size < status.size
                    yield entry, status.size - row.size if grew and row is not None else status.size

    def _bring_up(self, entry: RolloutFile, done: _Progress) -> tuple[Status, Digest] | None:
        """The digest of a file as it is now; None if it is gone."""
        status = None
        try:
            status = self._fs.status(entry.file)
            row = self._row(entry) or self._moved(entry, status)
            if row is not None and self._holds(row, status):
                told = _unpack(row, _told)
                if told is not None:
                    return status, told.digest
            return status, self._look(entry, status, row, done).known.digest
        except (FileNotFoundError, NotFound):
            return None
        except (OSError, SourceError) as error:
            why = error.message if isinstance(error, SourceError) else error.strerror or str(error)
            status = status or Status(0, 0, (0, 0))
            return status, Digest(entry.thread, bytes=status.size, trouble=f"{UNREADABLE}{why}")

    def _current(self, entry: RolloutFile) -> Row | None:
        """The row of a file, as it stands in the database; the file is read only if it has changed."""
        with contextlib.suppress(OSError, SourceError):
            status, row = self._fs.status(entry.file), self._row(entry)
            if row is None or not self._holds(row, status, settled=False):
                self._bring_up(entry, _NO_PROGRESS)
        self._flush()
        return self._cache.get(self._key(entry))

    def _look(self, entry: RolloutFile, status: Status, row: Row | None, done: _Progress) -> Look:
        from rollout.home.index.scan import look

        seen_ns = int(self._clock() * 1e9)
        before = None
        if row is not None and row.identity == _identity(status) and row.size != status.size and not entry.sealed:
            before = self._recall(row) if self._bases_hold(row) else None
        found = look(
            entry.path,
            self.home,
            before=before,
            fs=self._fs,
            keys=self.keys,
            limits=self._limits,
            progress=done.within(status.size - (0 if before is None else before[1].end)),
            bases=self._bases,
            prefixes=self._prefixes,
        )
        self._links.add(found.links)
        if found.identity != status.identity:  # replaced between the two: the next look finds out what it is
            return found
        is_new = found.is_new and (row is None or row.size != status.size or not self._is_same(row, found))
        generation = _new_number() if is_new or row is None else row.generation
        bases = msgspec.msgpack.encode(self._bases_of(found.known))
        known = msgspec.msgpack.encode(found.known)
        key, number = self._key(entry), _new_number() if row is None else row.id
        now = Row(key, number, _identity(status), status.size, status.mtime_ns, seen_ns, generation, bases, known)
        memory = found.memory.encode()
        self._waiting[key] = now, memory
        self._ahead.pop(key, None)
        self._waiting_bytes += len(memory)
        if len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES:
            self._flush()
        return found

    def _is_same(self, row: Row, found: Look) -> bool:
        """Whether a file that was looked at once more says what it said."""
        before = self._recall(row)
        return before is not None and before == (found.known, found.memory)

    def _holds(self, row: Row, status: Status, *, settled: bool = True) -> bool:
        """Whether a file is as it was when it was looked at; `settled`: and surely has not changed since, unseen."""
        if row.size != status.size or row.mtime_ns != status.mtime_ns or row.identity != _identity(status):
            return False
        if settled and abs(row.seen_ns - row.mtime_ns) < RACY_NS:
            return False
        return self._bases_hold(row)

    def _bases_hold(self, row: Row) -> bool:
        if row.bases == _NO_BASES:
            return True
        known = _unpack(row, _known)
        return known is not None and msgspec.msgpack.encode(self._bases_of(known)) == row.bases

    def _bases_of(self, known: Known) -> list[tuple[str, int, int, bool]]:
        """What the answer depends on beside the file itself: its bases, and for a missing one what may be it."""
        found = []
        for path, device, inode in known.bases:
            with contextlib.suppress(OSError, SourceError):
                status = self._fs.status(path)
                found.append((path, *status.identity, status.identity == (device, inode)))
            found.append((self._links.print_of(path), 0, 0, False))
        if known.wants is not None:
            found.append(("", 0, 0, False))
            for file in self._bases.all_of(FileId(known.wants)):
                with contextlib.suppress(OSError, SourceError):
                    found.append((str(file), self._fs.status(file).size, 0, False))
        return found

    def _row(self, entry: RolloutFile) -> Row | None:
        key = self._key(entry)
        return self._waiting[key][0] if key in self._waiting else self._ahead.get(key) or self._cache.get(key)

    def _moved(self, entry: RolloutFile, status: Status) -> Row | None:
        """The row of a file that lay elsewhere in the home under the same name."""
        key = self._key(entry)
        for row in self._cache.find(_identity(status)):
            old = Path(os.fsdecode(row.path))
            if old.name == entry.path.name and not self._is_there(self.home / old):
                moved = row._replace(path=key)
                self._cache.move(row.path, moved)
                return moved
        return None

    def _is_there(self, path: Path) -> bool:
        try:
            self._fs.status(path)
        except (OSError, SourceError):
            return False
        return True

    def _recall(self, row: Row) -> tuple[Known, Memory] | None:
        from rollout.fold.checkpoint import Memory

        if row.path in self._waiting:
            self._flush()
        known, memory = _unpack(row, _known), self._cache.memory(row)
        if known is None or memory is None:
            return None
        try:
            return known, Memory.decode(memory)
        except msgspec.DecodeError:
            return None

    def _flush(self) -> None:
        if self._waiting:
            self._cache.put(self._waiting.values())
            self._waiting.clear()
            self._waiting_bytes = 0

    def _key(self, entry: RolloutFile) -> bytes:
        path = entry.file
        return os.fsencode(path[self._skip :] if path.startswith(self._top) else path)


class _Progress:
    """Bytes that are done, over several files; how many there are in all is counted once one is read."""

    def __init__(self, report: Progress | None, count: Callable[[], int]) -> None:
        self._report, self._count, self._done = report, count, 0
        self._total = -1

    def within(self, size: int) -> Progress | None:
        """For the next file, of which so many bytes are to be read."""
        if self._report is None:
            return None
        if self._total < 0:
            self._total = self._count()
        report, before = self._report, self._done
        self._done += max(0, size)

        def tell(done: int, total: int) -> None:
            report(min(before + (size * done // total if total else size), self._total), self._total)

        return tell


def _unpack(row: Row, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    try:
        return decoder.decode(row.known)
    except msgspec.DecodeError:
        return None


def _identity(status: Status) -> str:
    device, inode = status.identity
    return f"{device}:{inode}"


def _new_number() -> int:
    """One that nobody has made before."""
    return int.from_bytes(os.urandom(7), "big") + 1


def _is_on_disk(home: Path, fs: FileSystem) -> bool:
    """Whether the home is a directory of the disk that SQLite writes to."""
    try:
        found = home.stat()
        return stat.S_ISDIR(found.st_mode) and fs.status(home).identity == (found.st_dev, found.st_ino)
    except (OSError, SourceError):
        return False


_known, _told = msgspec.msgpack.Decoder(Known), msgspec.msgpack.Decoder(Told)
_NO_BASES = msgspec.msgpack.encode([])
_NO_PROGRESS = _Progress(None, int)


def with_index(home: Path, fs: FileSystem, work: Callable[[Index], T], keys: Keys = NO_KEYS) -> T:
    """Does some work with an index; again with another, if what is found in the database turns out to be corrupt."""
    with Index.open(home, fs, keys=keys) as index:
        for left in range(_MOST_TRIES, -1, -1):
            try:
                return work(index)
            except sqlite3.DatabaseError as error:
                if not index.recover(error) or not left:
                    remedy = "try again, or delete it: it is only a cache"
                    raise SourceError(f"cannot be used: {error}", path=home / NAME, remedy=remedy) from error
    raise AssertionError("the last try returns or raises")
