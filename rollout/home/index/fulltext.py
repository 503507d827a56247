"""The texts of rollouts in the index: which records of a file hold certain words.

FTS5 tables in the index's database, without the texts themselves. A document is a record; its row id is the key of its
file and the record's offset, so that the documents of a file are a range. Of a file that grew, only what was appended
is read. What belongs to files that are gone is never asked for, and all is begun anew when that is more than half.

Several processes may do this at once: what is taken of a file, and up to which byte, is looked at, read and written in
one transaction. It ends after so many bytes that nobody waits long for it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rollout.dialects.codex import envelope
from rollout.dialects.codex.items import text_of
from rollout.errors import SourceError
from rollout.files.layout import RolloutFile
from rollout.files.lineage import open_path, visible_end
from rollout.format import records
from rollout.format.records import Segment
from rollout.home.index.entry import TOO_LARGE
from rollout.home.index.index import Index
from rollout.home.query import Query, indexed
from rollout.home.threads import Skipped, Thread
from rollout.items.texts import KINDS
from rollout.limits import LISTED

_OFFSET_BITS = 39
_LIMIT = 1 << _OFFSET_BITS
_BATCH_BYTES = 8 << 20
_MOST_CANDIDATES = 20_000
_FEW_FILES = 500
_PAGE = 256
_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts_taken (
    key INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER UNIQUE, size INTEGER, mtime_ns INTEGER, taken INTEGER,
    lines INTEGER
);
CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, line INTEGER, size INTEGER, kind INTEGER);
CREATE VIRTUAL TABLE IF NOT EXISTS texts
    USING fts5(text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 0');
"""


class Document(NamedTuple):
    """A record with a text: where it lies, how long it is, in which line, and of which kind."""

    offset: int
    size: int
    line: int
    kind: str


class Texts:
    """The documents of an index, for one search. SourceError where this SQLite cannot search texts."""

    def __init__(self, index: Index) -> None:
        self._index, self._database, self._db = index, index.database, index.database.connection
        try:
            if not self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'texts'").fetchone()[0]:
                with self._database.transaction():
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
        except sqlite3.OperationalError as error:
            if "fts5" not in str(error):
                raise
            raise SourceError(
                "this SQLite cannot search texts (it has no FTS5)", remedy="use a Python whose sqlite3 has it"
            ) from error
        self._tidy()
        self.passed_over: dict[str, Skipped] = {}
        """The files that are too large to be searched, by their paths."""
        self._keys: dict[str, int] = {}
        """The files that were looked at, as far as there is something of them."""
        self._taken: dict[int, tuple[int, int, int]] | None = None
        """By the ids of files: their keys, and the sizes and times that they had when all was taken of them."""
        self._candidates: tuple[Query, set[int] | None] | None = None
        self._version = 0

    def take(self, files: Iterable[RolloutFile]) -> None:
        """Takes what is new in some files, in as few transactions as may be. One that cannot be read has nothing."""
        self._notice_others()
        new: list[tuple[RolloutFile, int]] = []
        for file in files:
            entry = self._index.entry(file)
            if entry is None:
                continue
            if entry.trouble == TOO_LARGE:
                self.passed_over[file.file] = Skipped(file.path, f"not searched: {TOO_LARGE}")
            elif (taken := self._all_taken().get(entry.id)) and taken[1:] == (entry.size, entry.mtime_ns):
                self._keys[file.file] = taken[0]
            elif (stored := self._index.stored(file)) is not None:
                new.append((file, stored.id))
        if new:
            self._candidates = self._taken = None
        while new:
            with self._database.transaction():
                left = _BATCH_BYTES
                while new and left > 0:
                    left -= self._take(*new[-1], left)
                    if left > 0:
                        new.pop()

    def _all_taken(self) -> dict[int, tuple[int, int, int]]:
        """One question for all files."""
        if self._taken is None:
            rows = self._db.execute("SELECT file, key, size, mtime_ns FROM texts_taken").fetchall()
            self._taken = {file: (key, size, mtime_ns) for file, key, size, mtime_ns in rows}
        return self._taken

    def _take(self, file: RolloutFile, id: int, most: int) -> int:
        """Takes what is new in a file, up to so many bytes; how many that was. Inside of a transaction."""
        insert = "INSERT OR IGNORE INTO texts_taken (file, size, mtime_ns, taken, lines) VALUES (?, -1, -1, 0, 0)"
        self._db.execute(insert, (id,))
        query = "SELECT key, size, mtime_ns, taken, lines FROM texts_taken WHERE file = ?"
        key, *state, begin, number = self._db.execute(query, (id,)).fetchone()
        self._keys[file.file], end, first = key, begin, key << _OFFSET_BITS
        found: list[tuple[int, int, int, int, str]] = []
        in_line = 0  # those of a line that NUL bytes part into pieces, and that has not ended yet
        try:
            status = self._index.fs.status(file.file)
            if state == [status.size, status.mtime_ns]:
                return 0
            opened = open_path(file.path, fs=self._index.fs, keys=self._index.keys, limits=LISTED)
            with contextlib.closing(opened):
                state = [status.size, status.mtime_ns]
                segment = Segment(opened.source, visible_end(opened.source, LISTED, begin))
                for line in records.forward([segment], LISTED, start=begin, number=number + 1):
                    for at, data, head in envelope.records_in(line.data):
                        if (text := text_of(data, head)) is not None and line.offset + at < _LIMIT:
                            place = first + line.offset + at, line.number, len(data), KINDS.index(text[0])
                            found.append((*place, indexed(text[1])))
                            in_line += 1
                    if line.ends:
                        end, number, in_line = line.end, line.number, 0
                        if end - begin >= most:
                            state = [-1, -1]
                            break
        except (OSError, SourceError):
            return 0
        if in_line:
            del found[-in_line:]
        self._db.executemany(
            "INSERT INTO documents (id, line, size, kind) VALUES (?, ?, ?, ?)", (place for *place, _ in found)
        )
        self._db.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", ((each[0], each[-1]) for each in found))
        update = "UPDATE texts_taken SET size = ?, mtime_ns = ?, taken = ?, lines = ? WHERE key = ?"
        self._db.execute(update, (*state, end, number, key))
        return int(end - begin)

    def holds(self, thread: Thread, query: Query) -> bool:
        """Whether a file of a thread has a document that holds what is asked for."""
        return any(True for file in thread.files for _ in self.find(file, query))

    def find(
        self, file: RolloutFile, query: Query, kinds: Iterable[str] = KINDS, before: int | None = None
    ) -> Iterator[Document]:
        """The documents of a file, taken by now, that hold what is asked for: newest first.

        `before`: only those that begin ahead of that offset.
        """
        wanted = [KINDS.index(kind) for kind in kinds]
        key, last = self._key_of(file), None
        while key is not None and key != last:  # another process may begin the file anew meanwhile
            if self._may_hold(key, query):
                for document in self._documents(key, query, wanted, before):
                    before = document.offset
                    yield document
            key, last = self._key_of(file), key

    def _documents(self, key: int, query: Query, wanted: Sequence[int], before: int | None) -> Iterator[Document]:
        first = key << _OFFSET_BITS
        end = first + (_LIMIT if before is None else before)
        while rows := self._db.execute(
            "SELECT documents.id, documents.size, documents.line, documents.kind FROM texts CROSS JOIN documents "
            "ON documents.id = texts.rowid WHERE texts MATCH ? AND texts.rowid >= ? AND texts.rowid < ? "
            f"AND documents.kind IN ({','.join('?' * len(wanted))}) ORDER BY texts.rowid DESC LIMIT {_PAGE}",
            (query.match, first, end, *wanted),
        ).fetchall():
            for id, size, line, kind in rows:
                yield Document(id - first, size, line, KINDS[kind])
            end = rows[-1][0]

    def _key_of(self, file: RolloutFile) -> int | None:
        """The key of a file, which is taken if it was not; None if there is nothing of it."""
        self._notice_others()
        key = self._keys.get(file.file)
        if key is None:
            self.take([file])
            key = self._keys.get(file.file)
            self._notice_others()  # one that has taken it meanwhile: who may hold what was asked before that
        return key

    def _notice_others(self) -> None:
        """What is known of the tables holds as long as no other process writes to them."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version, self._candidates, self._taken = version, None, None
            self._keys.clear()

    def _may_hold(self, key: int, query: Query) -> bool:
        """False if a file surely does not hold what is asked for: one question for all files, where hits are few."""
        if self._candidates is None or self._candidates[0] != query:
            rows = self._db.execute(
                f"SELECT rowid FROM texts WHERE texts MATCH ? LIMIT {_MOST_CANDIDATES}", (query.match,)
            ).fetchall()
            many = len(rows) == _MOST_CANDIDATES
            self._candidates = query, None if many else {id >> _OFFSET_BITS for (id,) in rows}
        return self._candidates[1] is None or key in self._candidates[1]

    def _tidy(self) -> None:
        """Begins anew, once most of what is there is of files that are gone.

        Not sooner: another process may just be asking for what it has found a moment ago.
        """
        of_gone = "SELECT count(*), total(file NOT IN (SELECT id FROM files)) FROM texts_taken"
        known, gone = self._db.execute(of_gone).fetchone()
        if gone >= _FEW_FILES and gone > known / 2:
            with self._database.transaction():
                for table in ("texts_taken", "documents"):
                    self._db.execute(f"DELETE FROM {table}")
                self._db.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
