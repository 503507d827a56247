"""The index of a home: what was found out about its rollouts, in an SQLite file. Only ever a cache.

An entry holds as long as size, time of change and inode of its file are what they were; a file that grew is read from
where its checkpoint ends (see `scan`); anything else is scanned anew. A file that was changed within two seconds of its
scan may have been changed again in the same tick of the file system's clock: it is scanned once more.

What is known of a fork depends on all files beneath it. Their *print* is a checksum of their paths and of what the disk
knows them by now: as long as it is the same, nothing that the fork goes on from was replaced, moved or deleted. Which
file each base goes on from is remembered (its *link*), so that nobody has to open them to know that.

Several processes may use it at once: each transaction is short, what two find out about one file is the same, and the
later one counts. What is corrupt or of another schema is thrown away and built anew; where the home cannot be written,
the same code runs over a database in memory. No symbolic link is followed to it, and no home is made for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rollout.errors import NotFound, SourceError
from rollout.files import layout
from rollout.files.disk import REAL, FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.layout import Bases, RolloutFile
from rollout.files.port import Progress, Status
from rollout.home.index.database import NAME, Database, Link, is_broken, throw_away
from rollout.home.index.entry import UNREADABLE, Entry
from rollout.ids import FileId
from rollout.limits import LISTED

if TYPE_CHECKING:
    from rollout.home.index.entry import Summary
    from rollout.home.index.scan import Checkpoint, Seam

_READ_AT_ONCE = 256
_MOST_WAITING, _MOST_WAITING_BYTES = 64, 4 << 20  # that are written in one transaction
_RACY_NS = 2_000_000_000
"""What was changed so shortly before it was scanned may have changed again in the same tick."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class IndexStatus:
    """`entries` rollouts are known, of `files` in the home; `stale` are to be read (again), which is `stale_bytes`.

    `path` is None where the index is in memory; `bytes` is what its files take on the disk.
    """

    path: Path | None
    entries: int
    files: int
    stale: int
    stale_bytes: int
    bytes: int


def with_index(
    home: Path,
    fs: FileSystem,
    work: Callable[[Index], T],
    keys: Keys = NO_KEYS,
    clock: Callable[[], float] = time.time,
) -> T:
    """Does some work with an index; if its file turns out to be corrupt, once more with a new one, and then in memory.

    Raises:
        SourceError: the database cannot be used, and a new one cannot either.
    """
    is_kept, tries = _is_on_disk(home, fs) and not keys, 2
    while True:
        try:
            with Index(home, fs, keys=keys, clock=clock, is_kept=is_kept) as index:
                return work(index)
        except sqlite3.DatabaseError as error:
            if not is_kept:
                raise SourceError(f"cannot be used: {error}", path=home / NAME) from error
            tries -= 1
            is_kept = is_broken(error) and tries > 0
            if is_kept:
                throw_away(home / NAME)


class Index:
    """An open index, for one operation of one thread; a context manager. `clock` gives Unix seconds.

    In memory unless it `is_kept`. Where there are keys it is not: no word of what is encrypted is to stand on the disk.
    What is wrong with its file is a sqlite3.DatabaseError of any method (see `with_index`).
    """

    def __init__(
        self,
        home: Path,
        fs: FileSystem = REAL,
        *,
        keys: Keys = NO_KEYS,
        clock: Callable[[], float] = time.time,
        is_kept: bool = True,
    ) -> None:
        self.home, self.fs, self.keys, self._clock = home, fs, keys, clock
        self.database = Database(home / NAME if is_kept else None)
        self._waiting: dict[str, tuple[Entry, bytes]] = {}
        self._waiting_bytes = 0
        self._bases, self._links = Bases(home, fs), _Links(self.database, fs)
        self._prefixes: dict[Seam, Summary] = {}
        self._ahead: dict[str, Entry | None] = {}  # what was read at once
        self._report: Progress | None = None
        self._listed: Sequence[RolloutFile] = ()
        """The files of whose scans it reports."""
        self._done_bytes, self._bytes = 0, -1

    def __enter__(self) -> Index:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Keeps what was found out, also by what was interrupted, and lets go of the file."""
        with (
            contextlib.closing(self.database.connection),
            contextlib.suppress(*([] if kind is None else [sqlite3.Error])),
        ):
            self._flush()

    def entries(
        self, files: Iterable[RolloutFile], progress: Progress | None = None
    ) -> Iterator[tuple[RolloutFile, Entry]]:
        """The entries of files, in their order. One that went away is left out. Files may have changed since before.

        Each is brought up to date when it is asked for.
        """
        self._forget_bases()
        if progress is not None:
            self._listed = files = list(files)
        self._report, self._done_bytes, self._bytes = progress, 0, -1
        rest = iter(files)
        while some := list(itertools.islice(rest, _READ_AT_ONCE)):
            self.prefetch(some)
            for file in some:
                entry = self.entry(file)
                if entry is not None:
                    yield file, entry
        self._report = None

    def prefetch(self, files: Iterable[RolloutFile]) -> None:
        """Asks the database for the entries of some files at once, which are about to be asked for one by one."""
        names = [file.name for file in files]
        self._ahead = {**dict.fromkeys(names), **self.database.entries(names)}

    def entry(self, file: RolloutFile) -> Entry | None:
        """The entry of a file as it is now, which is scanned if it has changed; None if it is gone.

        A file that cannot be read has an entry that says so.
        """
        status = Status(0, 0, (0, 0))
        try:
            status, known = self.fs.status(file.file), self._known(file)
            return known if known is not None and self._holds(known, status) else self._scan(file, status, known)
        except (FileNotFoundError, NotFound):
            return None
        except (OSError, SourceError) as error:
            why = error.message if isinstance(error, SourceError) else error.strerror or str(error)
            size, mtime_ns, trouble = status.size, status.mtime_ns, f"{UNREADABLE}{why}"
            return Entry(thread=file.thread, size=size, mtime_ns=mtime_ns, trouble=trouble)

    def stored(self, file: RolloutFile) -> Entry | None:
        """The entry of a file as it stands in the database; the file is scanned only if it has changed."""
        with contextlib.suppress(OSError, SourceError):
            status, known = self.fs.status(file.file), self._known(file)
            if known is None or not self._holds(known, status, is_certain=False):
                self.entry(file)
        self._flush()
        return self.database.entries([file.name]).get(file.name)

    def refresh(self, *, rebuild: bool = False, progress: Progress | None = None) -> IndexStatus:
        """Bring all files of the home up to date and forget those that are gone; `rebuild`: begin with nothing."""
        if rebuild:
            self._waiting.clear()
            self.database.begin_anew()
        files = sorted(layout.scan(self.home, fs=self.fs), key=lambda file: file.order, reverse=True)
        for _ in self.entries(files, progress):
            pass
        self._flush()
        self.database.drop_all_but(file.name for file in files)
        return self.status()

    def status(self) -> IndexStatus:
        """What the index knows of the home. Opens no rollout."""
        self._flush()
        self._forget_bases()
        files = list(layout.scan(self.home, fs=self.fs))
        stale = list(self._stale_bytes(files))
        path = self.database.path
        return IndexStatus(
            path=path,
            entries=len(self.database.names()),
            files=len(files),
            stale=len(stale),
            stale_bytes=sum(stale),
            bytes=0 if path is None else path.stat().st_size,
        )

    def _stale_bytes(self, files: Iterable[RolloutFile]) -> Iterator[int]:
        """About how many bytes are to be read of each file that is to be read."""
        for file in files:
            with contextlib.suppress(OSError, SourceError):
                status, known = self.fs.status(file.file), self._known(file)
                if known is None or not self._holds(known, status):
                    grew = known is not None and known.identity == status.identity and known.size < status.size
                    yield status.size - known.size if grew and known is not None else status.size

    def _scan(self, file: RolloutFile, status: Status, known: Entry | None) -> Entry:
        from rollout.home.index.scan import scan

        scanned_ns, before = int(self._clock() * 1e9), None
        if known is not None and known.identity == status.identity and self._bases_hold(known):
            before = self._checkpoint(file, known)
            if before is not None and known.size == status.size:  # it may say something else in the same place
                before = msgspec.structs.replace(before, seams=())
        progress = self._progress_of(status.size - (0 if before is None or not before.seams else before.end))
        found = scan(
            file.path,
            self.home,
            before=before,
            fs=self.fs,
            keys=self.keys,
            limits=LISTED,
            progress=progress,
            bases=self._bases,
            prefixes=self._prefixes,
        )
        if progress is not None:
            progress(1, 1)
        self._links.add(found.links)
        entry = msgspec.structs.replace(
            found.entry,
            size=status.size,
            mtime_ns=status.mtime_ns,
            scanned_ns=scanned_ns,
            id=known.id if known is not None and not found.is_new else int.from_bytes(os.urandom(7), "big") + 1,
            bases_print=self._print_of_bases(found.entry),
        )
        if entry.identity == status.identity:  # else replaced between the two: the next scan finds out what it is
            checkpoint = msgspec.msgpack.encode(found.checkpoint)
            self._waiting[file.name] = entry, checkpoint
            self._waiting_bytes += len(checkpoint)
            if len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES:
                self._flush()
        return entry

    def _progress_of(self, size: int) -> Progress | None:
        """What the scan of a file reports to, of which so many bytes are to be read."""
        if self._report is None:
            return None
        if self._bytes < 0:  # counted once a file is read
            self._bytes = sum(self._stale_bytes(self._listed))
        report, total, before = self._report, self._bytes, self._done_bytes
        self._done_bytes += max(0, size)
        return lambda done, whole: report(min(before + (size * done // whole if whole else size), total), total)

    def _holds(self, entry: Entry, status: Status, *, is_certain: bool = True) -> bool:
        """Whether a file is as it was when it was scanned; `is_certain`: and surely has not changed since, unseen."""
        if (entry.size, entry.mtime_ns, entry.identity) != status[:3]:
            return False
        return not (is_certain and abs(entry.scanned_ns - entry.mtime_ns) < _RACY_NS) and self._bases_hold(entry)

    def _bases_hold(self, entry: Entry) -> bool:
        return (not entry.bases and entry.wants is None) or self._print_of_bases(entry) == entry.bases_print

    def _print_of_bases(self, entry: Entry) -> bytes:
        """What an entry depends on beside the file itself: its bases, and for a missing one what may be it."""
        found: list[tuple[object, ...]] = []
        for path, *identity in entry.bases:
            now = self._links.identity(path)
            found.append((path, now, now == (*identity,), self._links.print_of(path)))
        if entry.wants is not None:
            for path in map(str, self._bases.all_of(FileId(entry.wants))):
                with contextlib.suppress(OSError, SourceError):
                    found.append((path, self.fs.status(path).size))
        return msgspec.msgpack.encode(found)

    def _forget_bases(self) -> None:
        self._bases.forget()
        self._links.forget()

    def _known(self, file: RolloutFile) -> Entry | None:
        name = file.name
        if name in self._waiting:
            return self._waiting[name][0]
        return self._ahead[name] if name in self._ahead else self.database.entries([name]).get(name)

    def _checkpoint(self, file: RolloutFile, entry: Entry) -> Checkpoint | None:
        from rollout.home.index.scan import decode_checkpoint

        self._flush()
        found = self.database.checkpoint(file.name, entry.id)
        with contextlib.suppress(msgspec.DecodeError):
            return None if found is None else decode_checkpoint(found)
        return None

    def _flush(self) -> None:
        if self._waiting:
            self.database.put(self._waiting)
            for name in self._waiting:
                self._ahead.pop(name, None)
            self._waiting.clear()
            self._waiting_bytes = 0


class _Links:
    """Which file each base of a home goes on from. Each file beneath others is looked at once until `forget`."""

    def __init__(self, database: Database, fs: FileSystem) -> None:
        self._database, self._fs = database, fs
        self.forget()

    def forget(self) -> None:
        """Files may have changed."""
        self._links: dict[str, Link] | None = None
        self._prints: dict[str, int] = {}

    def add(self, links: Mapping[str, Link]) -> None:
        """What was found when files were opened."""
        known = self._known()
        new = {path: link for path, link in links.items() if known.get(path) != link}
        if not self._prints.keys().isdisjoint(new):
            self._prints.clear()
        known.update(new)
        self._database.put_links(new)

    def print_of(self, path: str) -> int:
        """The print of all files beneath one; 0 if there are none, or none was ever met."""
        known = self._known()
        way: list[tuple[str, Link]] = []
        at, seen = path, {path}
        while at not in self._prints and (link := known.get(at)) is not None and link.base not in seen:
            way.append((at, link))
            at = link.base
            seen.add(at)
        found = self._prints.setdefault(at, 0)
        for user, link in reversed(way):
            now = self.identity(link.base)
            told = msgspec.msgpack.encode((link.base, now, now == link[1:], found))
            found = self._prints[user] = zlib.crc32(told)
        return found

    def identity(self, path: str) -> tuple[int, int] | None:
        """What the disk knows a file by now; None for none."""
        with contextlib.suppress(OSError, SourceError):
            return self._fs.status(path).identity
        return None

    def _known(self) -> dict[str, Link]:
        if self._links is None:
            self._links = self._database.links()
        return self._links


def _is_on_disk(home: Path, fs: FileSystem) -> bool:
    """Whether the home is a directory of the disk that SQLite writes to."""
    try:
        found = home.stat()
        return stat.S_ISDIR(found.st_mode) and fs.status(home).identity == (found.st_dev, found.st_ino)
    except (OSError, SourceError):
        return False
