"""The SQLite file of an index: rows of files and what is remembered of them. Losing it costs time and nothing else.

What is corrupt or of another schema is thrown away and begun anew, once; where there can be no file (no home, one that
cannot be written, a disk that is full, a link in the file's place), a database in memory takes its place. SQLite does
not notice every changed byte: rows have a checksum, and what was put is looked for.

The journal is a rollback journal: it works on any file system, and the file can be thrown away while others use it.
Every transaction is short, and who must wait for one does so for up to ten seconds. SQLite goes to the operating
system itself, past the file-system port, and so does what is done to its file here.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import zstandard

SCHEMA = 6
"""Of all tables of the file, those of the texts too: another number, and the file is begun anew."""
RACY_NS = 2_000_000_000
"""What was changed so shortly before it was seen may have changed again in the same tick: it is looked at once more."""
_TIMEOUT_S = 10.0
_LEVEL = 3
_PAGE_BYTES = 8192
"""A row takes about 1,000 bytes, of which pages of SQLite's own size keep a part elsewhere: a page more for each."""
_MOST_MEMORY_BYTES = 1 << 30
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, id INTEGER NOT NULL, identity TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, seen_ns INTEGER NOT NULL, generation INTEGER NOT NULL, bases BLOB NOT NULL,
    known BLOB NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_identity ON files (identity);
CREATE TABLE IF NOT EXISTS memories (file INTEGER PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS links (
    path TEXT PRIMARY KEY, base TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL
) WITHOUT ROWID;
"""
_COLUMNS = "path, id, identity, size, mtime_ns, seen_ns, generation, bases, known, checksum"
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
_BROKEN |= {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


class Row(NamedTuple):
    """What stands in the index of one file. `path` is relative to the home; `bases` and `known` are packed."""

    path: bytes
    id: int
    """A number that no other file has ever had."""
    identity: str
    size: int
    mtime_ns: int
    seen_ns: int
    generation: int
    """Another number once the file was read anew, the same while it grows."""
    bases: bytes
    known: bytes

    def checksum(self) -> int:
        """Of all of it."""
        numbers = f"{self.id} {self.identity} {self.size} {self.mtime_ns} {self.seen_ns} {self.generation}".encode()
        return zlib.crc32(self.known, zlib.crc32(self.bases, zlib.crc32(numbers, zlib.crc32(self.path))))


class Link(NamedTuple):
    """The file that another one goes on from: its path, and what the disk knows it by."""

    base: str
    device: int
    inode: int


class _NoFile(Exception):
    """There can be no file."""


class Cache:
    """An open database. Methods never fail: what cannot be read is not there, what cannot be written is not kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        """None: in memory."""
        self._tries = 2
        self.connection = self._connect()

    def close(self) -> None:
        """Lets go of the file."""
        self.connection.close()

    def get(self, path: bytes) -> Row | None:
        """The row of a file."""
        nothing: list[Row] = []
        found = self._run(lambda db: _read(db, "path", path), nothing)
        return found[0] if found else None

    def rows(self) -> dict[bytes, Row]:
        """All rows, by path."""
        nothing: list[Row] = []
        return {row.path: row for row in self._run(_read, nothing)}

    def find(self, identity: str) -> list[Row]:
        """The rows of files with this device and inode."""
        nothing: list[Row] = []
        return self._run(lambda db: _read(db, "identity", identity), nothing)

    def put(self, rows: Iterable[tuple[Row, bytes]]) -> None:
        """Rows, each with what is remembered of its file."""
        wanted = [(row, _pack(memory)) for row, memory in rows]
        self._run(lambda db: _put(db, wanted), None)

    def move(self, old: bytes, row: Row) -> None:
        """The file of a row lies elsewhere now."""
        self._run(lambda db: _move(db, old, row), None)

    def memory(self, row: Row) -> bytes | None:
        """What is remembered of a file, if it belongs to this row."""
        found = self._run(
            lambda db: db.execute(
                "SELECT packed FROM memories JOIN files ON id = file WHERE path = ? AND id = ? AND checksum = ?",
                (row.path, row.id, row.checksum()),
            ).fetchone(),
            None,
        )
        with contextlib.suppress(zstandard.ZstdError, TypeError):
            if found is not None:
                return zstandard.ZstdDecompressor().decompress(found[0], max_output_size=_MOST_MEMORY_BYTES)
        return None

    def link(self, path: str) -> Link | None:
        """The file that a file goes on from, as it was when it was last met as a base; None if it does from none."""
        found = self._run(
            lambda db: db.execute("SELECT base, device, inode FROM links WHERE path = ?", (path,)).fetchone(), None
        )
        return None if found is None else Link(*found)

    def put_links(self, links: Iterable[tuple[str, Link]]) -> None:
        """Which files bases go on from, by their paths."""
        wanted = [(path, *link) for path, link in links]
        if wanted:
            self._run(lambda db: _put_links(db, wanted), None)

    def paths(self) -> set[bytes]:
        """The paths of all rows."""
        nothing: list[tuple[bytes]] = []
        return {path for (path,) in self._run(lambda db: db.execute("SELECT path FROM files").fetchall(), nothing)}

    def drop(self, paths: Iterable[bytes]) -> None:
        """Forget files."""
        wanted = [(path,) for path in paths]
        if wanted:
            self._run(lambda db: _drop(db, wanted), None)

    def clear(self) -> None:
        """Begin anew."""
        self.connection.close()
        self._throw_away()
        self.connection = self._connect()

    def recover(self, error: sqlite3.DatabaseError) -> bool:
        """After an error of the connection: False if there is nothing to do but wait, else it is a new one."""
        if isinstance(error, sqlite3.ProgrammingError):  # of a connection that was given up already
            return True
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _BUSY:
            return False
        self._tries -= 1
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        if code in _BROKEN and self._tries > 0:
            self._throw_away()
        else:
            self.path = None
        self.connection = self._connect()
        return True

    def _run(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        for _ in range(3):
            try:
                return work(self.connection)
            except sqlite3.DatabaseError as error:
                if not self.recover(error):
                    return otherwise
        return otherwise

    def _connect(self) -> sqlite3.Connection:
        while self.path is not None:
            try:
                return _open_file(self.path)
            except (_NoFile, OSError):
                self.path = None
            except sqlite3.DatabaseError as error:
                broken = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _BROKEN
                self._tries -= 1
                if broken and self._tries > 0:
                    self._throw_away()
                else:
                    self.path = None
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _set_up(db)
        return db

    def _throw_away(self) -> None:
        if self.path is not None:
            with contextlib.suppress(OSError):
                for path in (_journal(self.path), self.path):
                    path.unlink(missing_ok=True)


def _open_file(path: Path) -> sqlite3.Connection:
    for name in (path, _journal(path)):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise _NoFile
    if not path.exists():  # never opened here if it is there: to close it would end the locks of this process
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    uri = f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw"
    db = sqlite3.connect(uri, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True)
    try:
        if _version(db) != SCHEMA:
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _set_up(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def _set_up(db: sqlite3.Connection) -> None:
    """The tables; of two processes that begin at once, one finds them there."""
    with _transaction(db):
        version = _version(db)
        if version == SCHEMA:
            return
        if version or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise sqlite3.DatabaseError(f"a database of schema {version}")
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")


def _version(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    if db.in_transaction:  # whoever began it ends it
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # some errors end it themselves
            db.execute("ROLLBACK")
        raise


def _put(db: sqlite3.Connection, rows: Iterable[tuple[Row, bytes]]) -> None:
    with _transaction(db):
        for row, packed in rows:
            db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, row.checksum()))
            db.execute("INSERT OR REPLACE INTO memories VALUES (?, ?)", (row.id, packed))
            if _read(db, "path", row.path) != [row]:
                raise sqlite3.DatabaseError("a row is not found where it was put")


def _put_links(db: sqlite3.Connection, links: Sequence[tuple[str, str, int, int]]) -> None:
    with _transaction(db):
        db.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", links)


def _move(db: sqlite3.Connection, old: bytes, row: Row) -> None:
    with _transaction(db):
        db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, row.checksum()))
        db.execute("DELETE FROM files WHERE path = ?", (old,))


def _drop(db: sqlite3.Connection, paths: Sequence[tuple[bytes]]) -> None:
    with _transaction(db):
        db.executemany("DELETE FROM files WHERE path = ?", paths)
        db.execute("DELETE FROM memories WHERE file NOT IN (SELECT id FROM files)")


def _read(db: sqlite3.Connection, where: str = "1", value: object = 1) -> list[Row]:
    """The rows that fit, else all; DatabaseError for one that is not as it was written."""
    rows = []
    for values in db.execute(f"SELECT {_COLUMNS} FROM files WHERE {where} = ?", (value,)).fetchall():
        row = Row._make(values[:-1])
        try:
            fits = row.checksum() == values[-1]
        except (TypeError, UnicodeEncodeError):  # whatever stands there instead
            fits = False
        if not fits:
            raise sqlite3.DatabaseError("a row does not fit its checksum")
        rows.append(row)
    return rows


def _pack(memory: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True).compress(memory)
