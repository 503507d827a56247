"""The status stream: what became of each line of a log, and the turn that it belongs to (S1 to S3).

`LineStatuses` observes the same fold as the history and keeps a few bytes a line: neighbouring lines with one status
are one `Run`. A status is that of the moment where the log ends that was folded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from rollout import ids
from rollout.fold import events
from rollout.fold.events import Mark, Span, unpack
from rollout.items.events import (
    Blank,
    Damaged,
    ItemsRemoved,
    LineKind,
    Malformed,
    Replaced,
    Settings,
    Unseen,
    WorldState,
)

VISIBLE = "visible"
REPLACED = "replaced"
ROLLED_BACK = "rolled_back"
REMOVED = "removed"
METADATA = "metadata"
EVENT = "event"
DAMAGED = "damaged"
BLANK = "blank"

_UNSEEN = (EVENT, METADATA, METADATA, METADATA, EVENT)  # by the code of a line, beyond those of items
_SAID = int(LineKind.SAID)
_METADATA, _BROKEN = (Settings, WorldState, Replaced), (Damaged, Malformed)
_SHOWN_AS_METADATA = (*_METADATA, Unseen)


class Position(NamedTuple):
    """Where a record lies: its segment (0 is the newest), its offset, and the line ends from there to the end."""

    segment: int
    offset: int
    newlines: int


class Run(msgspec.Struct, frozen=True, gc=False):
    """Lines one behind the other, the newest at the position: their `turn` (-1: none; 0 is the newest) and `status`.

    `by` is where the record lies that replaced, removed or rolled back the items among them, `reason` why they are
    damaged. `refs` are the lines, newest first (see `events.unpack`); None where it is but one record.
    """

    segment: int
    offset: int
    newlines: int
    turn: int
    status: str
    by: Position | None
    reason: str | None
    refs: array[int] | None

    @property
    def order(self) -> tuple[int, int]:
        """Segment (0 is the newest) and minus the offset of its oldest record: what is older is greater."""
        return self.segment, -(self.offset if self.refs is None else unpack(self.refs[-1])[0])


class LineStatuses:
    """Observes a reconstruction whose collector traces every line."""

    def __init__(self) -> None:
        self.turns: list[Span] = []
        """Newest first."""
        self._runs: list[Run] = []  # newest first
        self._count = 0
        self._compaction: Position | None = None
        self._removals: list[tuple[int, Position]] = []

    def see(self, marks: Sequence[Mark]) -> None:
        """One settled block, older than all before."""
        for mark in reversed(marks):
            if mark.span is not None and (not self.turns or self.turns[-1] is not mark.span):
                self.turns.append(mark.span)
            refs = mark.refs if isinstance(mark, events.Run) else None
            self._count += 1 if refs is None else len(refs)
            if mark.is_item and mark.stands:
                self._add_items(mark, refs)
            else:
                self._add(mark, refs, *self._judge(mark))

    def _add(self, mark: Mark, refs: array[int] | None, status: str, by: Position | None, skipped: int = 0) -> None:
        """All lines of a mark, or those in `refs`, the newest of which has so many `skipped` lines behind it."""
        turn = -1 if mark.span is None else len(self.turns) - 1
        reason = mark.event.reason if isinstance(mark.event, _BROKEN) else None
        offset = mark.offset if refs is None else unpack(refs[0])[0]
        self._runs.append(Run(mark.segment, offset, mark.newlines + skipped, turn, status, by, reason, refs))

    def _judge(self, mark: Mark) -> tuple[str, Position | None]:
        event = mark.event
        if mark.undone_by is not None and (mark.is_item or isinstance(event, _METADATA)):
            return ROLLED_BACK, _position(mark.undone_by)
        if isinstance(event, Blank):
            return BLANK, None
        if isinstance(event, _BROKEN):
            return DAMAGED, None
        if isinstance(event, Replaced):
            self._compaction, self._removals = _position(mark), []
        elif isinstance(event, ItemsRemoved) and mark.stands and event.count:
            self._removals.append((event.count, _position(mark)))
        return METADATA if isinstance(event, _SHOWN_AS_METADATA) else EVENT, None

    def _add_items(self, mark: Mark, refs: array[int] | None) -> None:
        left, begin = mark.count if isinstance(mark, events.Run) else 1, 0
        while left and self._removals:  # the removal nearest behind an item takes it first, and the newest item first
            count, by = self._removals.pop()
            taken = min(count, left)
            if count > taken:
                self._removals.append((count - taken, by))
            if refs is None:
                self._add(mark, None, REMOVED, by)
                return
            left -= taken
            end = _behind_items(refs, begin, taken) if left else len(refs)
            self._add(mark, refs[begin:end], REMOVED, by, begin)
            begin = end
        if refs is None or begin < len(refs):
            status = VISIBLE if self._compaction is None else REPLACED
            self._add(mark, refs[begin:] if refs is not None and begin else refs, status, self._compaction, begin)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Run, int, int, str, Position | None]]:
        """Oldest first: run, offset, newlines, status, by. A line that holds several records comes several times."""
        for run in reversed(self._runs):
            refs = run.refs
            if refs is None:
                yield run, run.offset, run.newlines, run.status, run.by
                continue
            statuses, by = (run.status, run.status, *_UNSEEN), run.by
            for k in range(len(refs) - 1, -1, -1):
                offset, code = unpack(refs[k])
                yield run, offset, run.newlines + k, statuses[code], None if code > _SAID else by

    @property
    def oldest(self) -> tuple[int, int]:
        """The `Run.order` of the oldest record that is known; if none is known, everything is older."""
        return self._runs[-1].order if self._runs else (-1, 0)

    def find(self, segment: int, offset: int) -> tuple[Run, str, Position | None] | None:
        """What became of the record at a position, with its run, and by which; None if none is known there."""
        at = bisect_left(self._runs, (segment, -offset), key=lambda run: run.order)
        run = self._runs[at] if at < len(self._runs) else None
        if run is None or run.segment != segment:
            return None
        if run.refs is None:
            return (run, run.status, run.by) if run.offset == offset else None
        k = bisect_left(run.refs, -offset, key=lambda ref: -(ref >> 3))
        found, code = unpack(run.refs[k])
        if found != offset:
            return None
        return (run, run.status, run.by) if code <= _SAID else (run, _UNSEEN[code - _SAID - 1], None)

    def turn_id(self, turn: int, threads: Sequence[str]) -> str | None:
        """The id of a turn, derived where the log gives none; `threads` are those of the segments."""
        if turn < 0:
            return None
        span = self.turns[turn]
        return span.turn_id or ids.derived_turn_id(threads[span.opening.segment], span.opening.offset)


def _behind_items(refs: array[int], begin: int, count: int) -> int:
    """Behind which ref, from `begin` on, so many items lie."""
    for k in range(begin, len(refs)):
        count -= unpack(refs[k])[1] <= _SAID
        if not count:
            return k + 1
    return len(refs)


def _position(mark: Mark) -> Position:
    return Position(mark.segment, mark.offset, mark.newlines)
