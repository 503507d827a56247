"""The SQLite file of an index: entries of files and their checkpoints. Losing it costs time and nothing else.

Files are known by their names, which they keep wherever they are moved to. SQLite does not notice every changed byte:
entries have a checksum, and what was put is looked for. Where there can be no file (no home, one that cannot be
written, a link in the file's place), a database in memory takes its place.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from rollout.home.index.entry import Entry

NAME = "rollout-index.sqlite3"
"""The name of the file in a home."""
SCHEMA = 9
"""Of all tables of the file, those of the texts too: another number, and the file is begun anew."""
_TIMEOUT_S = 10.0
_LEVEL = 3
_PAGE_BYTES = 8192
"""A row takes about 1,000 bytes, of which pages of SQLite's own size keep a part elsewhere: a page more for each."""
_MOST_CHECKPOINT_BYTES = 1 << 30
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY, id INTEGER NOT NULL, entry BLOB NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoints (name TEXT PRIMARY KEY, id INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS links (
    path TEXT PRIMARY KEY, base TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL
) WITHOUT ROWID;
"""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}
_BROKEN |= {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class Link(NamedTuple):
    """The file that another one goes on from: its path, and what the disk knows it by."""

    base: str
    device: int
    inode: int


class Database:
    """An open database, in `path`, or in memory where that is None. All methods raise sqlite3.DatabaseError."""

    def __init__(self, path: Path | None) -> None:
        self._open(path)

    def _open(self, path: Path | None) -> None:
        self.path = path if path is not None and _can_be_file(path) else None
        self.connection = _connect(self.path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside, or nothing; others wait for it."""
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def entries(self, names: Sequence[str]) -> dict[str, Entry]:
        """The entries of some files, as far as there are any. DatabaseError for one that is not as it was written."""
        query = f"SELECT name, entry, checksum FROM files WHERE name IN ({','.join('?' * len(names))})"
        found = {}
        for name, entry, checksum in self.connection.execute(query, names).fetchall():
            try:
                if _checksum(name, entry) != checksum:
                    raise sqlite3.DatabaseError("an entry does not fit its checksum")
                found[name] = _decode(entry)
            except (TypeError, AttributeError, ValueError, msgspec.DecodeError) as error:  # whatever stands there
                raise sqlite3.DatabaseError("no entry") from error
        return found

    def put(self, found: Mapping[str, tuple[Entry, bytes]]) -> None:
        """Entries by the names of their files, each with its encoded checkpoint."""
        packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
        packed = {name: packer.compress(checkpoint) for name, (_, checkpoint) in found.items()}
        with self.transaction():
            for name, (entry, _) in found.items():
                data = _encode(entry)
                row = name, entry.id, data, _checksum(name, data)
                self.connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", row)
                checkpoint = name, entry.id, packed[name]
                self.connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", checkpoint)
                if self.entries([name]) != {name: entry}:
                    raise sqlite3.DatabaseError("an entry is not found where it was put")

    def checkpoint(self, name: str, id: int) -> bytes | None:
        """The encoded checkpoint of a file, if its entry still has this id."""
        query = "SELECT packed FROM checkpoints WHERE name = ? AND id = ?"
        found = self.connection.execute(query, (name, id)).fetchone()
        with contextlib.suppress(zstandard.ZstdError, TypeError):
            if found is not None:
                return zstandard.ZstdDecompressor().decompress(found[0], max_output_size=_MOST_CHECKPOINT_BYTES)
        return None

    def links(self) -> dict[str, Link]:
        """The files that bases go on from, by their paths, as they were when they were last met as bases."""
        rows = self.connection.execute("SELECT path, base, device, inode FROM links").fetchall()
        return {path: Link(*link) for path, *link in rows}

    def put_links(self, links: Mapping[str, Link]) -> None:
        """Which files bases go on from, by their paths."""
        if links:
            rows = [(path, *link) for path, link in links.items()]
            with self.transaction():
                self.connection.executemany("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", rows)

    def names(self) -> set[str]:
        """The names of all files that there are entries of."""
        return {name for (name,) in self.connection.execute("SELECT name FROM files").fetchall()}

    def drop_all_but(self, names: Iterable[str]) -> None:
        """Forget the files that are none of these."""
        gone = [(name,) for name in self.names().difference(names)]
        if gone:
            with self.transaction():
                for table in ("files", "checkpoints"):
                    self.connection.executemany(f"DELETE FROM {table} WHERE name = ?", gone)

    def begin_anew(self) -> None:
        """Forget everything."""
        self.connection.close()
        throw_away(self.path)
        self._open(self.path)


def is_broken(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is not what it should be; else somebody else has it, it cannot be written, the disk is full."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _BROKEN


def throw_away(path: Path | None) -> None:
    """Removes the file, as far as that can be done."""
    for name in () if path is None else (_journal(path), path):
        with contextlib.suppress(OSError):
            name.unlink(missing_ok=True)


def _can_be_file(path: Path) -> bool:
    """Whether the file is there, or was made; not where something else stands in its place."""
    try:
        for name in (path, _journal(path)):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(name).st_mode):
                    return False
        if not path.exists():  # never opened here if it is there: to close it would end the locks of this process
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def _connect(path: Path | None) -> sqlite3.Connection:
    place = "file::memory:" if path is None else f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw"
    db = sqlite3.connect(place, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True)
    try:
        if _version(db) != SCHEMA:
            db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _set_up(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException as error:
        db.close()
        if isinstance(error, UnicodeDecodeError):  # of a message that quotes what stands there
            raise sqlite3.DatabaseError("no database") from error
        raise
    return db


def _set_up(db: sqlite3.Connection) -> None:
    """The tables; of two processes that begin at once, one finds them there."""
    with db:
        db.execute("BEGIN IMMEDIATE")
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


def _checksum(name: str, entry: bytes) -> int:
    return zlib.crc32(entry, zlib.crc32(name.encode()))
