"""The rollouts of a home as a list: newest first, filtered, a page at a time.

A thread has one row, of the file that it goes on in (a revert adds a file to a thread). Nothing breaks a list: a file
that cannot be read, is empty or foreign is a row with its `trouble`, what has not the name of a rollout is a note, and
what is passed over is counted. The order is total: that of the names, or of the times of writing, then of the ids.

Lazy: names are looked at first, then as many files as the page needs (none, where the index knows them).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

import msgspec

from rollout.errors import UsageError
from rollout.files.disk import FileSystem
from rollout.files.encrypted.keys import NO_KEYS, Keys
from rollout.files.layout import RolloutFile
from rollout.home import cursor as cursors
from rollout.home.filters import Selection
from rollout.home.index.index import Index, with_index
from rollout.home.row import SessionRow, row_of
from rollout.home.threads import Home, Key, Progress, Skipped, Thread

if TYPE_CHECKING:
    from rollout.home.index.fulltext import Texts
    from rollout.home.query import Query

T = TypeVar("T")
_FIRST_BUNCH, _LARGEST_BUNCH = 8, 256
_created = msgspec.json.Decoder(tuple[str, tuple[str, str, str]])
_updated = msgspec.json.Decoder(tuple[str, tuple[int, str]])


@dataclasses.dataclass(frozen=True, slots=True)
class SessionPage(Sequence[SessionRow]):
    """Rows, newest first. `cursor` is for the next page, None on the last one.

    `left_out` counts the subagents and forks that fit but were not asked for, up to the last row; on the last page, all
    that follow. `notes` tell what in the home is no rollout.
    """

    rows: tuple[SessionRow, ...]
    cursor: str | None
    left_out: Mapping[str, int]
    notes: tuple[Skipped, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> SessionRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SessionRow, ...]: ...
    def __getitem__(self, index: int | slice) -> SessionRow | tuple[SessionRow, ...]:
        return self.rows[index]


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A thread that fits. `left_out`: why it is not to be shown even so ("subagents", "forks"), or None."""

    key: Key
    thread: Thread
    row: SessionRow
    left_out: str | None


def tell(
    look: Home, index: Index, threads: Iterable[tuple[Key, Thread]], selection: Selection
) -> Iterator[Found | None]:
    """Those that fit, None for one that does not; files are looked at when their turn comes."""
    waiting: dict[str, tuple[Key, Thread]] = {}

    def heads() -> Iterator[RolloutFile]:
        for key, thread in threads:
            waiting[thread.head.file] = key, thread
            yield thread.head

    for head, digest, mtime in index.digests(heads()):
        key, thread = waiting.pop(head.file)
        others = [entry for entry in thread.files if entry != head]
        row = row_of(head, others, digest, mtime, look.names, look.fs)
        yield Found(key, thread, row, _passed_over(row, selection)) if selection.fits(row, digest) else None


def select(
    look: Home, index: Index, selection: Selection, after: Key | None = None, progress: Progress | None = None
) -> Iterator[Found]:
    """The threads that fit, newest first, from behind the key `after` on."""
    threads = look.threads(selection, after)
    for i, found in enumerate(tell(look, index, threads, selection)):
        if found is not None:
            yield found
        if progress is not None:
            progress(i + 1, len(threads))


def _passed_over(row: SessionRow, selection: Selection) -> str | None:
    if row.is_subagent and not selection.subagents:
        return "subagents"
    return "forks" if row.is_fork and not selection.forks else None


def list_rows(
    home: Path,
    fs: FileSystem,
    selection: Selection,
    *,
    keys: Keys = NO_KEYS,
    limit: int = 50,
    cursor: str | None = None,
    progress: Progress | None = None,
) -> SessionPage:
    """One page of the rollouts of a home. UsageError for a limit below 1 or a cursor of another list.

    Pages neither skip nor repeat what stays as it is while other rollouts come and go; sorted by `updated`, what is
    written to meanwhile moves ahead of the pages that follow.
    """
    from rollout.home.query import parse

    check_limit(limit)
    after = _decode(selection, cursor)
    query = None if selection.text is None else parse(selection.text)

    def work(index: Index) -> SessionPage:
        return _page(Home(home, fs), index, selection, limit, after, query, progress)

    return with_index(home, fs, work, keys)


def _page(
    look: Home,
    index: Index,
    selection: Selection,
    limit: int,
    after: Key | None,
    query: Query | None,
    progress: Progress | None,
) -> SessionPage:
    from rollout.home.index.fulltext import Texts

    rows: list[SessionRow] = []
    left_out, seen = {"subagents": 0, "forks": 0}, {"subagents": 0, "forks": 0}
    last: Key | None = None
    found_all = select(look, index, selection, after, progress)
    texts = None if query is None else Texts(index, look.fs)
    if query is not None and texts is not None:
        found_all = _with_text(found_all, texts, query)
    for found in found_all:
        if found.left_out is not None:
            seen[found.left_out] += 1
        elif len(rows) == limit:
            return SessionPage(tuple(rows), cursors.encode(selection.sort, last), left_out, _notes(look, texts))
        else:
            rows.append(found.row)
            last = found.key
            left_out = dict(seen)
    return SessionPage(tuple(rows), None, seen, _notes(look, texts))


def _notes(look: Home, texts: Texts | None) -> tuple[Skipped, ...]:
    return (*look.notes, *(() if texts is None else texts.passed_over.values()))


def _with_text(found_all: Iterator[Found], texts: Texts, query: Query) -> Iterator[Found]:
    for some in in_bunches(found_all):
        texts.take(entry for found in some for entry in found.thread.files)
        for found in some:
            if any(True for entry in found.thread.files for _ in texts.find(entry, query)):
                yield found


def in_bunches(found_all: Iterator[T]) -> Iterator[list[T]]:
    """A few at a time, then more: what is new in a bunch goes into the index at once."""
    size = _FIRST_BUNCH
    while bunch := list(itertools.islice(found_all, size)):
        yield bunch
        size = min(2 * size, _LARGEST_BUNCH)


def check_limit(limit: object) -> None:
    """UsageError unless it is a count of rows."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise UsageError(f"{limit!r:.80} is no limit", remedy="give 1 or more")


def _decode(selection: Selection, cursor: str | None) -> Key | None:
    if selection.sort == "created":
        return cursors.decode("created", cursor, _created)
    return cursors.decode("updated", cursor, _updated)
