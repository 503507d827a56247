"""The SQLite file of an index: entries of files and their checkpoints. Losing it costs time and nothing else.

What is corrupt or of another schema is thrown away and begun anew, once; where there can be no file (no home, one that
cannot be written, a disk that is full, a link in the file's place), a database in memory takes its place. SQLite does
not notice every changed byte: entries have a checksum, and what was put is looked for.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from rollout.home.index.entry import Entry

NAME = "rollout-index.sqlite3"
"""The name of the file in a home."""
SCHEMA = 8
"""Of all tables of the file, those of the texts too: another number, and the file is begun anew."""
_TIMEOUT_S = 10.0
_LEVEL = 3
_PAGE_BYTES = 8192
"""A row takes about 1,000 bytes, of which pages of SQLite's own size keep a part elsewhere: a page more for each."""
_MOST_CHECKPOINT_BYTES = 1 << 30
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, id INTEGER NOT NULL, identity TEXT NOT NULL, entry BLOB NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_identity ON files (identity);
CREATE TABLE IF NOT EXISTS checkpoints (path BLOB PRIMARY KEY, id INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS links (
    path TEXT PRIMARY KEY, base TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL
) WITHOUT ROWID;
"""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
_BROKEN |= {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_encode = msgspec.msgpack.Encoder().encode
_entry = msgspec.msgpack.Decoder(Entry)

T = TypeVar("T")


class Link(NamedTuple):
    """The file that another one goes on from: its path, and what the disk knows it by."""

    base: str
    device: int
    inode: int


class _NoFile(Exception):
    """There can be no file."""


class Database:
    """An open database. Paths are relative to the home.

    Methods never fail: what cannot be read is not there, what cannot be written is not kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        """None: in memory."""
        self._tries = 2
        self.connection = self._connect()

    def close(self) -> None:
        """Lets go of the file."""
        self.connection.close()

    def entry(self, path: bytes) -> Entry | None:
        """The entry of a file."""
        nothing: dict[bytes, Entry] = {}
        return self._run(lambda db: _read(db, "path = ?", path), nothing).get(path)

    def entries(self, paths: Sequence[bytes]) -> dict[bytes, Entry]:
        """The entries of some files, by path."""
        return self._run(lambda db: _read(db, f"path IN ({','.join('?' * len(paths))})", *paths), {})

    def known_as(self, identity: tuple[int, int]) -> dict[bytes, Entry]:
        """The entries of files with this device and inode."""
        return self._run(lambda db: _read(db, "identity = ?", _text_of(identity)), {})

    def put(self, found: Mapping[bytes, tuple[Entry, bytes]]) -> None:
        """Entries by path, each with its encoded checkpoint."""
        packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
        wanted = [(path, entry, packer.compress(checkpoint)) for path, (entry, checkpoint) in found.items()]
        self._run(lambda db: _put(db, wanted), None)

    def move(self, old: bytes, new: bytes) -> None:
        """A file lies elsewhere now."""
        self._run(lambda db: _move(db, old, new), None)

    def checkpoint(self, path: bytes, id: int) -> bytes | None:
        """The encoded checkpoint of a file, if its entry still has this id."""
        query = "SELECT packed FROM checkpoints WHERE path = ? AND id = ?"
        found = self._run(lambda db: db.execute(query, (path, id)).fetchone(), None)
        with contextlib.suppress(zstandard.ZstdError, TypeError):
            if found is not None:
                return zstandard.ZstdDecompressor().decompress(found[0], max_output_size=_MOST_CHECKPOINT_BYTES)
        return None

    def link(self, path: str) -> Link | None:
        """The file that a file goes on from, as it was when it was last met as a base; None if it does from none."""
        query = "SELECT base, device, inode FROM links WHERE path = ?"
        found = self._run(lambda db: db.execute(query, (path,)).fetchone(), None)
        return None if found is None else Link(*found)

    def put_links(self, links: Mapping[str, Link]) -> None:
        """Which files bases go on from, by their paths."""
        wanted = [(path, *link) for path, link in links.items()]
        self._write("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", wanted)

    def paths(self) -> set[bytes]:
        """The paths of all entries."""
        nothing: list[tuple[bytes]] = []
        return {path for (path,) in self._run(lambda db: db.execute("SELECT path FROM files").fetchall(), nothing)}

    def drop_all_but(self, paths: Iterable[bytes]) -> None:
        """Forget the files that are none of these."""
        wanted = [(path,) for path in self.paths() - set(paths)]
        for table in ("files", "checkpoints"):
            self._write(f"DELETE FROM {table} WHERE path = ?", wanted)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def work(db: sqlite3.Connection) -> None:
            with _transaction(db):
                db.executemany(statement, rows)

        if rows:
            self._run(work, None)

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


def _put(db: sqlite3.Connection, found: Iterable[tuple[bytes, Entry, bytes]]) -> None:
    with _transaction(db):
        for path, entry, packed in found:
            _put_entry(db, path, entry)
            db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", (path, entry.id, packed))
            if _read(db, "path = ?", path) != {path: entry}:
                raise sqlite3.DatabaseError("an entry is not found where it was put")


def _put_entry(db: sqlite3.Connection, path: bytes, entry: Entry) -> None:
    row = path, entry.id, _text_of(entry.identity), _encode(entry)
    db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", (*row, _checksum(*row)))


def _move(db: sqlite3.Connection, old: bytes, new: bytes) -> None:
    with _transaction(db):
        for entry in _read(db, "path = ?", old).values():
            _put_entry(db, new, entry)
            db.execute("UPDATE OR REPLACE checkpoints SET path = ? WHERE path = ?", (new, old))
            db.execute("DELETE FROM files WHERE path = ?", (old,))


def _read(db: sqlite3.Connection, where: str, *values: object) -> dict[bytes, Entry]:
    """The entries that fit, by path; DatabaseError for one that is not as it was written."""
    found = {}
    query = f"SELECT path, id, identity, entry, checksum FROM files WHERE {where}"
    for *row, checksum in db.execute(query, values).fetchall():
        try:
            if _checksum(*row) != checksum:
                raise sqlite3.DatabaseError("an entry does not fit its checksum")
            found[row[0]] = _entry.decode(row[3])
        except (TypeError, AttributeError, UnicodeEncodeError, msgspec.DecodeError) as error:  # whatever stands there
            raise sqlite3.DatabaseError("no entry") from error
    return found


def _checksum(path: bytes, id: int, identity: str, entry: bytes) -> int:
    return zlib.crc32(entry, zlib.crc32(f"{id} {identity}".encode(), zlib.crc32(path)))


def _text_of(identity: tuple[int, int]) -> str:
    device, inode = identity
    return f"{device}:{inode}"
