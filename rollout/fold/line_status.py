"""The status stream: what became of each line of a log, and the turn that it belongs to (S1 to S3).

`LineStatuses` observes the same fold as the history and keeps a few bytes a line: neighbouring lines with one status
are one `Run`. A status is that of the moment where the log ends that was folded.
"""

from __future__ import annotations

import dataclasses
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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


class Position(NamedTuple):
    """Where a record lies: its segment (0 is the newest), its offset, and the line ends from there to the end."""

    segment: int
    offset: int
    newlines: int


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
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

    def told(self, k: int) -> tuple[int, str, Position | None]:
        """Offset, status and `by` of its record number `k`, counted from the newest."""
        if self.refs is None:
            return self.offset, self.status, self.by
        offset, code = unpack(self.refs[k])
        return (offset, self.status, self.by) if code <= _SAID else (offset, _UNSEEN[code - _SAID - 1], None)


class LineStatuses:
    """Observes a reconstruction whose collector traces every line."""

    def __init__(self) -> None:
        self.turns: list[tuple[Span, int]] = []
        """The turns, newest first, each with the segment of its opening."""
        self._runs: list[Run] = []  # newest first
        self._count = 0
        self._compaction: Position | None = None
        self._removals: list[tuple[int, Position]] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled block, older than all before."""
        index = {id(span): len(self.turns) + i for i, span in enumerate(reversed(spans))}
        self.turns += [(span, span.opening.segment) for span in reversed(spans)]
        for mark in reversed(marks):
            turn = -1 if mark.span is None else index[id(mark.span)]
            refs = mark.refs if isinstance(mark, events.Run) else None
            if mark.is_item:
                self._add_items(mark, refs, turn)
            else:
                self._add(mark, refs, turn, *self._judge(mark))
            self._count += 1 if refs is None else len(refs)

    def _add(self, mark: Mark, refs: array[int] | None, turn: int, status: str, by: Position | None) -> None:
        reason = mark.event.reason if isinstance(mark.event, _BROKEN) else None
        self._runs.append(Run(mark.segment, mark.offset, mark.newlines, turn, status, by, reason, refs))

    def _judge(self, mark: Mark) -> tuple[str, Position | None]:
        event = mark.event
        if isinstance(event, _METADATA):
            if mark.undone_by is not None:
                return ROLLED_BACK, _position(mark.undone_by)
            if isinstance(event, Replaced):
                self._compaction, self._removals = _position(mark), []
            return METADATA, None
        if isinstance(event, Blank):
            return BLANK, None
        if isinstance(event, _BROKEN):
            return DAMAGED, None
        if isinstance(event, ItemsRemoved) and mark.stands and event.count:
            self._removals.append((event.count, _position(mark)))
        return METADATA if isinstance(event, Unseen) else EVENT, None

    def _add_items(self, mark: Mark, refs: array[int] | None, turn: int) -> None:
        if mark.undone_by is not None:
            self._add(mark, refs, turn, ROLLED_BACK, _position(mark.undone_by))
            return
        begin, stop, left = 0, 1 if refs is None else len(refs), mark.count if isinstance(mark, events.Run) else 1
        while left and self._removals:  # the removal nearest behind an item takes it first, and the newest item first
            count, by = self._removals.pop()
            taken = min(count, left)
            left -= taken
            end = stop if refs is None or not left else _behind_items(refs, begin, taken)
            self._runs.append(_part(mark, refs, begin, end, turn, REMOVED, by))
            if count > taken:
                self._removals.append((count - taken, by))
            begin = end
        if begin < stop:
            status = VISIBLE if self._compaction is None else REPLACED
            self._runs.append(_part(mark, refs, begin, stop, turn, status, self._compaction))

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
        """Segment (0 is the newest) and minus the offset of the oldest record that is known: what is older is greater.

        If none is known, everything is.
        """
        return _order(self._runs[-1]) if self._runs else (-1, 0)

    def find(self, segment: int, offset: int) -> tuple[Run, str, Position | None] | None:
        """What became of the record at a position, with its run, and by which; None if none is known there."""
        at = bisect_left(self._runs, (segment, -offset), key=_order)
        if at == len(self._runs) or self._runs[at].segment != segment:
            return None
        run = self._runs[at]
        k = 0 if run.refs is None else bisect_left(run.refs, -offset, key=lambda ref: -(ref >> 3))
        if run.refs is not None and k == len(run.refs):
            return None
        found, status, by = run.told(k)
        return (run, status, by) if found == offset else None

    def turn_id(self, turn: int, threads: Sequence[str]) -> str | None:
        """The id of a turn, derived where the log gives none; `threads` are those of the segments."""
        if turn < 0:
            return None
        span, segment = self.turns[turn]
        return span.turn_id or ids.derived_turn_id(threads[segment], span.opening.offset)


def _order(run: Run) -> tuple[int, int]:
    return run.segment, -(run.offset if run.refs is None else unpack(run.refs[-1])[0])


def _behind_items(refs: array[int], begin: int, count: int) -> int:
    """Behind which ref, from `begin` on, so many items lie."""
    for k in range(begin, len(refs)):
        count -= unpack(refs[k])[1] <= _SAID
        if not count:
            return k + 1
    return len(refs)


def _part(
    mark: Mark, refs: array[int] | None, begin: int, end: int, turn: int, status: str, by: Position | None
) -> Run:
    """Some of the lines of a mark."""
    if refs is None:
        return Run(mark.segment, mark.offset, mark.newlines, turn, status, by, None, None)
    refs = refs if end - begin == len(refs) else refs[begin:end]
    return Run(mark.segment, unpack(refs[0])[0], mark.newlines + begin, turn, status, by, None, refs)


def _position(mark: Mark) -> Position:
    return Position(mark.segment, mark.offset, mark.newlines)
