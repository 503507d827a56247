"""The rollouts of a home as a list: newest first, filtered, a page at a time.

A thread has one row, of the file that it goes on in (a revert adds a file to a thread). Nothing breaks a list: a file
that cannot be read, is empty or foreign is a row with its `trouble`, what has not the name of a rollout is a note, and
what is passed over is counted. The order is total: that of the names, or of the times of writing, then of the ids.

Lazy: names are looked at first, then as many files as the page needs (none, where the index knows them).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

import msgspec

from rollout import ids
from rollout.errors import UsageError
from rollout.files.port import Progress
from rollout.home.filters import Selection
from rollout.home.index.index import Index
from rollout.home.threads import Inventory, Key, SessionRow, Skipped, Thread, row_of

if TYPE_CHECKING:
    from rollout.home.index.fulltext import Texts
    from rollout.home.query import Query

T = TypeVar("T")
_FIRST_BUNCH, _LARGEST_BUNCH = 8, 64
_LONGEST_CURSOR = 1000
_keys: Mapping[str, msgspec.json.Decoder[tuple[str, Key]]] = {
    "created": msgspec.json.Decoder(tuple[str, tuple[str, str, str]]),
    "updated": msgspec.json.Decoder(tuple[str, tuple[int, str]]),
}


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


def list_rows(
    index: Index,
    selection: Selection,
    *,
    limit: int = 50,
    cursor: str | None = None,
    progress: Progress | None = None,
) -> SessionPage:
    """One page of the rollouts of a home.

    Pages neither skip nor repeat what stays as it is while other rollouts come and go; sorted by `updated`, what is
    written to meanwhile moves ahead of the pages that follow.

    Raises:
        UsageError: the limit is below 1, the cursor is of another list, or the text asks for nothing.
    """
    check_limit(limit)
    after = decode_cursor(selection.sort, cursor, _keys[selection.sort])
    inventory = Inventory(index.home, index.fs)
    rows: list[SessionRow] = []
    left_out, seen = {"subagents": 0, "forks": 0}, {"subagents": 0, "forks": 0}
    next_cursor, asked = None, None
    if selection.text is not None:
        from rollout.home.index.fulltext import Texts
        from rollout.home.query import parse

        asked = Texts(index), parse(selection.text)
    for found in find_all(inventory, index, selection, inventory.threads(selection, after), asked, progress):
        if found.left_out is not None:
            seen[found.left_out] += 1
        elif len(rows) == limit:
            break
        else:
            rows.append(found.row)
            left_out, next_cursor = dict(seen), encode_cursor(selection.sort, found.key)
    else:
        left_out, next_cursor = seen, None
    notes = (*inventory.notes, *(() if asked is None else asked[0].passed_over.values()))
    return SessionPage(tuple(rows), next_cursor, left_out, notes)


def row_of_file(index: Index, path: Path) -> SessionRow | None:
    """The row of the thread that a file of the home is of; None for a file outside of it."""
    named, selection = ids.parse_file_name(path.name), Selection(archived=None, subagents=True, forks=True)
    inventory = Inventory(index.home, index.fs)
    for key, thread in inventory.threads(selection):
        if named and thread.id == named.thread and any(file.path == path.absolute() for file in thread.files):
            found = find(inventory, index, selection, key, thread)
            return None if found is None else found.row
    return None


def find_all(
    inventory: Inventory,
    index: Index,
    selection: Selection,
    threads: Sequence[tuple[Key, Thread]],
    asked: tuple[Texts, Query] | None,
    progress: Progress | None,
) -> Iterator[Found]:
    """Those of the threads that fit, in their order, and have a text that holds what is asked for.

    The cheaper of the two questions is asked first. Without the second, files are looked at one by one.
    """
    done, size = 0, _FIRST_BUNCH
    while some := threads[done : done + size]:  # a few at a time, then more: what is new in them is written at once
        done, size = done + len(some), min(2 * size, _LARGEST_BUNCH)
        index.prefetch(file for _, thread in some for file in (thread.files if asked else [thread.head]))
        if asked is not None and not selection.is_narrow:
            texts, query = asked
            texts.take(file for _, thread in some for file in thread.files)
            some = [pair for pair in some if texts.holds(pair[1], query)]
        found_all = (find(inventory, index, selection, key, thread) for key, thread in some)
        if asked is not None and selection.is_narrow:
            texts, query = asked
            fitting = [found for found in found_all if found is not None]
            texts.take(file for found in fitting for file in found.thread.files)
            found_all = (found for found in fitting if texts.holds(found.thread, query))
        yield from (found for found in found_all if found is not None)
        if progress is not None:
            progress(done, len(threads))


def find(inventory: Inventory, index: Index, selection: Selection, key: Key, thread: Thread) -> Found | None:
    """The thread, if it fits; its file is scanned if the index does not know it as it is."""
    entry = index.entry(thread.head)
    if entry is None or not selection.fits(thread.head, entry):
        return None
    return Found(key, thread, row_of(thread, entry, inventory), selection.left_out(thread.head, entry))


def check_limit(limit: object) -> None:
    """UsageError unless it is a count of rows."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise UsageError(f"{limit!r:.80} is no limit", remedy="give 1 or more")


def encode_cursor(purpose: str, key: object) -> str:
    """Where a page ended, as a short text to hand back for the next one; `purpose` tells different lists apart.

    It carries the sort key of the last row, not a count: what is added or removed meanwhile shifts nothing.
    """
    return base64.urlsafe_b64encode(msgspec.json.encode([purpose, key])).decode().rstrip("=")


def decode_cursor(purpose: str, cursor: object, decoder: msgspec.json.Decoder[tuple[str, T]]) -> T | None:
    """The key of a cursor, None for none; UsageError if it is not one of that purpose. `decoder` knows the key."""
    if cursor is None:
        return None
    if isinstance(cursor, str) and len(cursor) <= _LONGEST_CURSOR:
        with contextlib.suppress(ValueError, msgspec.DecodeError):
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            found, key = decoder.decode(data)
            if found == purpose:
                return key
    raise UsageError("not a cursor of this list", remedy="give the one that came with the page before")
