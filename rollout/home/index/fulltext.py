"""The texts of rollouts in the index: which records of a file hold certain words.

FTS5 tables in the index's database, without the texts themselves. A document is a record; its row id is the key of its
file and the record's offset, so that the documents of a file are a range. Of a file that grew, only what was appended
is read. What belongs to files that are gone is never asked for, and thrown away when it is more than half.

Several processes may do this at once: what is taken of a file, and up to which byte, is written in one transaction,
which begins by looking whether another process was faster.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex import records as r
from rollout.dialects.codex.items import text_of
from rollout.errors import SourceError
from rollout.files.layout import RolloutFile
from rollout.files.lineage import open_path, visible_end
from rollout.format import lines
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
_FEW_DOCUMENTS = 20_000
_FEW_FILES = 500
_PAGE = 256
_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts_taken (
    key INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER UNIQUE, size INTEGER, mtime_ns INTEGER, taken INTEGER,
    lines INTEGER
);
CREATE TABLE IF NOT EXISTS documents (id INTEGER PRIMARY KEY, line INTEGER, size INTEGER, kind INTEGER);
CREATE TABLE IF NOT EXISTS texts_lost (documents INTEGER);
CREATE VIRTUAL TABLE IF NOT EXISTS texts
    USING fts5(text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 0');
"""


class Document(NamedTuple):
    """A record with a text: where it lies, how long it is, in which line, and of which kind."""

    offset: int
    size: int
    line: int
    kind: str


class _Taken(NamedTuple):
    """What was taken of a file: up to which byte and line end; `size` and `mtime_ns` are what the file had then."""

    key: int
    size: int
    mtime_ns: int
    taken: int
    lines: int


class Texts:
    """The documents of an index, for one search. SourceError where this SQLite cannot search texts."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._db = index.connection
        try:
            if not self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'texts'").fetchone()[0]:
                with self._transaction():
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
        except sqlite3.OperationalError as error:
            if "fts5" not in str(error):
                raise
            raise SourceError(
                "this SQLite cannot search texts (it has no FTS5)", remedy="use a Python whose sqlite3 has it"
            ) from error
        self._tidy()
        self._all: dict[int, _Taken] | None = None
        self._keys: dict[str, int] = {}
        """The files that were looked at, as far as there is something of them."""
        self.passed_over: dict[str, Skipped] = {}
        """The files that are too large to be searched, by their paths."""
        self._new: set[int] = set()
        self._waiting: list[_Part] = []
        self._waiting_bytes = 0
        self._candidates: tuple[Query, set[int] | None] | None = None
        self._version = 0

    def take(self, files: Iterable[RolloutFile]) -> None:
        """Takes what is new in some files, in as few transactions as may be. One that cannot be read has nothing."""
        self._notice_others()
        new = {}
        for file in files:
            entry = self._index.entry(file)
            if entry is None:
                continue
            if entry.trouble == TOO_LARGE:
                self.passed_over[file.file] = Skipped(file.path, f"not searched: {TOO_LARGE}")
            elif (taken := self._all_taken().get(entry.id)) and taken[1:3] == (entry.size, entry.mtime_ns):
                self._keys[file.file] = taken.key
            elif (stored := self._index.stored(file)) is not None:
                new[file.file] = stored.id
                with contextlib.suppress(OSError, SourceError):
                    self._take(file, stored.id)
        self._write()
        for path, id in new.items():
            if taken := self._taken(id):
                self._keys[path] = taken.key

    def _all_taken(self) -> dict[int, _Taken]:
        """What was taken of all files, by their ids: one question for all of them."""
        if self._all is None:
            rows = self._db.execute("SELECT file, key, size, mtime_ns, taken, lines FROM texts_taken").fetchall()
            self._all = {file: _Taken(*row) for file, *row in rows}
        return self._all

    def holds(self, thread: Thread, query: Query) -> bool:
        """Whether a file of a thread has a document that holds what is asked for."""
        self._notice_others()
        for file in thread.files:
            key = self._keys.get(file.file)
            if (key is None or self._may_hold(key, query)) and any(True for _ in self.find(file, query)):
                return True
        return False

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
            self._version, self._candidates, self._all = version, None, None
            self._keys.clear()

    def _may_hold(self, key: int, query: Query) -> bool:
        """False if a file surely does not hold what is asked for: one question for all files, where hits are few."""
        if self._candidates is None or self._candidates[0] != query:
            rows = self._db.execute(
                f"SELECT rowid FROM texts WHERE texts MATCH ? LIMIT {_MOST_CANDIDATES}", (query.match,)
            ).fetchall()
            many = len(rows) == _MOST_CANDIDATES
            self._candidates = query, None if many else {id >> _OFFSET_BITS for (id,) in rows}
            self._new.clear()
        return self._candidates[1] is None or key in self._candidates[1] or key in self._new

    def _taken(self, id: int) -> _Taken | None:
        """What was taken of the file with that id; None for nothing."""
        query = "SELECT key, size, mtime_ns, taken, lines FROM texts_taken WHERE file = ?"
        row = self._db.execute(query, (id,)).fetchone()
        return None if row is None else _Taken(*row)

    def _take(self, file: RolloutFile, id: int) -> None:
        status = self._index.fs.status(file.file)
        known = self._taken(id)
        if known is not None and (known.size, known.mtime_ns) == (status.size, status.mtime_ns):
            return
        opened = open_path(file.path, fs=self._index.fs, keys=self._index.keys, limits=LISTED)
        try:
            source = opened.source
            at, line = (0, 0) if known is None else (known.taken, known.lines)
            texts: list[_Text] = []
            for block in _read(source, at, visible_end(source, LISTED, at), line):
                texts += block.texts
                self._waiting_bytes += block.end - at
                at, line = block.end, block.lines
                if self._waiting_bytes >= _BATCH_BYTES:
                    self._waiting.append(_Part(id, known, _Taken(0, -1, -1, at, line), texts))
                    self._write()
                    known, texts = self._taken(id), []
            self._waiting.append(_Part(id, known, _Taken(0, status.size, status.mtime_ns, at, line), texts))
        finally:
            opened.close()

    def _write(self) -> None:
        """Adds what waits. Of a file that another process was faster with, the next look finds what it has left."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if waiting:
            with self._transaction():
                for part in waiting:
                    if self._taken(part.file) == part.known:
                        self._add(part)

    def _add(self, part: _Part) -> None:
        key = self._keep(part)
        self._new.add(key)
        first = key << _OFFSET_BITS
        begin = first + (0 if part.known is None else part.known.taken)
        # A line with a long hole of NUL bytes is taken piece by piece, and seen again until it ends.
        taken = self._db.execute("SELECT id FROM documents WHERE id >= ? AND id < ?", (begin, first + _LIMIT))
        there = {id for (id,) in taken}
        new = [text for text in part.texts if first + text.offset not in there and text.offset < _LIMIT]
        self._db.executemany(
            "INSERT INTO documents (id, line, size, kind) VALUES (?, ?, ?, ?)",
            ((first + text.offset, text.line, text.size, KINDS.index(text.kind)) for text in new),
        )
        self._db.executemany(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)", ((first + text.offset, text.words) for text in new)
        )

    def _keep(self, part: _Part) -> int:
        if part.known is not None:
            self._db.execute(
                "UPDATE texts_taken SET size = ?, mtime_ns = ?, taken = ?, lines = ? WHERE key = ?",
                (*part.now[1:], part.known.key),
            )
            return part.known.key
        key = self._db.execute(
            "INSERT INTO texts_taken (file, size, mtime_ns, taken, lines) VALUES (?, ?, ?, ?, ?)",
            (part.file, *part.now[1:]),
        ).lastrowid
        assert key is not None
        return key

    def _forget(self, keys: Iterable[int]) -> None:
        """Drops the documents of some files. Their words stay where nobody asks for them."""
        for key in keys:
            span = key << _OFFSET_BITS, (key + 1) << _OFFSET_BITS
            gone = self._db.execute("DELETE FROM documents WHERE id >= ? AND id < ?", span).rowcount
            self._db.execute("DELETE FROM texts_taken WHERE key = ?", (key,))
            self._db.execute("INSERT INTO texts_lost VALUES (?)", (gone,))

    def _tidy(self) -> None:
        """Forgets files that are gone, and begins anew, once that is most of what is there.

        Not sooner: another process may just be asking for what it has found a moment ago.
        """
        gone = self._db.execute("SELECT key FROM texts_taken WHERE file NOT IN (SELECT id FROM files)").fetchall()
        (known,) = self._db.execute("SELECT count(*) FROM texts_taken").fetchone()
        if len(gone) >= _FEW_FILES and len(gone) > known / 2:
            with self._transaction():
                self._forget([key for (key,) in gone])
        (lost,) = self._db.execute("SELECT total(documents) FROM texts_lost").fetchone()
        if lost < _FEW_DOCUMENTS or lost < self._db.execute("SELECT count(*) FROM documents").fetchone()[0]:
            return
        with self._transaction():
            for table in ("texts_taken", "texts_lost", "documents"):
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("INSERT INTO texts (texts) VALUES ('delete-all')")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


class _Text(NamedTuple):
    """A document to be, and its words."""

    offset: int
    size: int
    line: int
    kind: str
    words: str


class _Part(NamedTuple):
    """Texts of a file that are to be added to what was `known` of it."""

    file: int
    known: _Taken | None
    now: _Taken
    texts: list[_Text]


class _Block(NamedTuple):
    """What stands in some lines: up to which byte and how many line ends the whole lines go, and the texts."""

    end: int
    lines: int
    texts: list[_Text]


def _read(source: lines.Source, start: int, end: int, line: int) -> Iterator[_Block]:
    """The texts of `source[start:end]`, not those of its tail; `line` line ends stand ahead of it."""
    whole = start
    for block in lines.forward(source, start, end, LISTED):
        texts: list[_Text] = []
        if isinstance(block, lines.Batch):
            offset, last = block.offset, len(block.lines) - 1
            for i, data in enumerate(block.lines):
                is_tail = i == last and offset + len(data) == end
                for at, record, envelope in () if is_tail else _records_in(data):
                    found = text_of(record, envelope)
                    if found is not None:
                        texts.append(_Text(offset + at, len(record), line + 1, found[0], indexed(found[1])))
                offset += len(data) + 1
                if i < last:
                    line, whole = line + 1, offset
        elif isinstance(block, lines.Oversize) and block.ended:
            line, whole = line + 1, block.offset + block.n
        yield _Block(whole, line, texts)


def _records_in(line: bytes) -> list[tuple[int, bytes, r.Envelope]]:
    envelope = codec.decode_plain(line)
    if envelope is not None:
        return [(0, line, envelope)]
    return [(piece.offset, piece.data, piece.envelope) for piece in codec.split(line) if piece.envelope is not None]
