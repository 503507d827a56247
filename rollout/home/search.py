"""Full-text search over the rollouts of a home: who said it, where, and whether it still stands.

A hit is a record that holds all that the query asks for (see `query`). Hits come newest session first, and in a session
newest first. What a fork by reference has from its base is found in the base alone. Every hit is looked up in its
file, from which its snippet is made; one that is no longer there is left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import overload

import msgspec

from rollout.dialects.codex import envelope
from rollout.dialects.codex.items import text_of
from rollout.errors import SourceError, UsageError
from rollout.files.layout import RolloutFile
from rollout.files.lineage import Opened, open_path
from rollout.files.port import Progress
from rollout.files.source import Origin
from rollout.fold.line_status import REMOVED, REPLACED, ROLLED_BACK, VISIBLE
from rollout.format import labels
from rollout.home.filters import Selection
from rollout.home.index.fulltext import Document, Texts
from rollout.home.index.index import Index
from rollout.home.listing import Found, check_limit, decode_cursor, encode_cursor, find_all
from rollout.home.query import Query, parse, snippet
from rollout.home.threads import Inventory, Skipped
from rollout.items.texts import KINDS
from rollout.session.explanation import Explanation

STATUSES = frozenset({VISIBLE, REPLACED, ROLLED_BACK, REMOVED})

_Key = tuple[tuple[str, str, str], tuple[str, str, str], int]
"""The orders of the thread's head and of the file, and the offset."""
_key = msgspec.json.Decoder(tuple[str, _Key])


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """A record that was found, of the thread `id`, in line `line` at byte `offset` of the file at `path`.

    `snippet` is a part of its text, `matches` where in it the query's words stand (start, end). `status` says what
    became of it: visible, replaced (by a compaction), rolled_back (a revert takes back too), removed. `timestamp` is
    the line's own text.
    """

    id: str
    name: str | None
    path: Path
    turn_id: str | None
    kind: str
    line: int
    offset: int
    timestamp: str | None
    snippet: str
    matches: tuple[tuple[int, int], ...]
    status: str
    session_id: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """Hits in order; `cursor` is for those that follow, None if there are none. `notes` as in a page of a list."""

    hits: tuple[Hit, ...]
    cursor: str | None
    notes: tuple[Skipped, ...]

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


def search(
    index: Index,
    query: str,
    selection: Selection,
    *,
    limit: int = 20,
    cursor: str | None = None,
    kinds: Iterable[str] | None = None,
    standing: bool | None = None,
    progress: Progress | None = None,
) -> Hits:
    """Some hits in the threads that fit.

    Raises:
        UsageError: a query, limit, cursor or kind is none.
        SourceError: this SQLite cannot search texts.
    """
    check_limit(limit)
    wanted = KINDS if kinds is None else tuple(kinds)
    if isinstance(kinds, str) or not wanted or not set(wanted) <= set(KINDS):
        raise UsageError(f"{kinds!r:.80} are no kinds", remedy=f"give some of {', '.join(KINDS)}")
    after = decode_cursor("search", cursor, _key)
    hits: list[Hit] = []
    last: _Key | None = None
    found = _Search(index, parse(query), wanted, standing, selection)
    for key, hit in found.hits(after, progress):
        if len(hits) == limit:
            return Hits(tuple(hits), encode_cursor("search", last), found.notes)
        hits.append(hit)
        last = key
    return Hits(tuple(hits), None, found.notes)


class _Search:
    def __init__(
        self, index: Index, query: Query, kinds: Sequence[str], standing: bool | None, selection: Selection
    ) -> None:
        self._index, self._inventory, self._texts = index, Inventory(index.home, index.fs), Texts(index)
        self._query, self._kinds, self._standing, self._selection = query, kinds, standing, selection

    @property
    def notes(self) -> tuple[Skipped, ...]:
        """What in the home is no rollout, and what was met that is too large to be searched."""
        return (*self._inventory.notes, *self._texts.passed_over.values())

    def hits(self, after: _Key | None, progress: Progress | None) -> Iterator[tuple[_Key, Hit]]:
        """Those that come behind the key `after`, in order."""
        threads = self._inventory.threads(self._selection)
        threads = [pair for pair in threads if after is None or pair[1].order <= after[0]]
        asked = self._texts, self._query
        for found in find_all(self._inventory, self._index, self._selection, threads, asked, progress):
            for entry in found.thread.files if found.left_out is None else ():
                place = found.thread.order, entry.order
                if after is None or place <= after[:2]:
                    before = after[2] if after is not None and place == after[:2] else None
                    for hit in self._hits_in(found, entry, before):
                        yield (*place, hit.offset), hit

    def _hits_in(self, found: Found, entry: RolloutFile, before: int | None) -> Iterator[Hit]:
        documents = self._texts.find(entry, self._query, self._kinds, before)
        first = next(documents, None)
        if first is None:
            return
        with contextlib.suppress(SourceError):
            opened = open_path(entry.path, fs=self._index.fs, keys=self._index.keys)
            try:
                verdicts = self._verdicts(found, entry)
                for document in (first, *documents):
                    hit = self._look_up(found, entry, opened, document, verdicts)
                    if hit is not None:
                        yield hit
            finally:
                opened.close()

    def _verdicts(self, found: Found, entry: RolloutFile) -> Mapping[int, tuple[str, str | None]]:
        """Status and turn id of the lines of a file, by offset."""
        inherited = self._explained(found.row.path, entry.path)
        if entry.path == found.row.path:
            return inherited
        taken_back = {
            offset: (ROLLED_BACK, turn_id)  # the thread has gone on from a point ahead of these
            for offset, (status, turn_id) in self._explained(entry.path, entry.path).items()
            if status in STATUSES
        }
        return taken_back | inherited

    def _explained(self, path: Path, of: Path) -> dict[int, tuple[str, str | None]]:
        """What `explain` says of a log, of the lines that stand in one of its files."""
        origin = Origin(None, path, self._index.home, fs=self._index.fs, keys=self._index.keys)
        lines = Explanation(origin, whole=path != of)
        return {line.offset: (line.status, line.turn_id) for line in lines if line.path == str(of)}

    def _look_up(
        self,
        found: Found,
        entry: RolloutFile,
        opened: Opened,
        document: Document,
        verdicts: Mapping[int, tuple[str, str | None]],
    ) -> Hit | None:
        """The hit as it stands in the file; None if it does not, or is not what is asked for."""
        status, turn_id = verdicts.get(document.offset, ("", None))
        if status not in STATUSES or self._standing not in (None, status == VISIBLE):
            return None
        data = opened.source.read_at(document.offset, document.size)
        records = envelope.records_in(data)
        text = text_of(data, records[0][2]) if records else None
        matches = [] if text is None else self._query.matches(text[1])
        label = labels.label_of(data)
        if text is None or text[0] != document.kind or not matches or not label.fits(self._selection.label):
            return None
        shown, places = snippet(text[1], matches)
        return Hit(
            id=found.row.id,
            name=found.row.name,
            path=entry.path,
            turn_id=turn_id,
            kind=document.kind,
            line=document.line,
            offset=document.offset,
            timestamp=envelope.time_of(data),
            snippet=shown,
            matches=places,
            status=status,
            session_id=label.session_id,
        )
