"""Why the model sees a line, or does not.

One verdict a line, by the same fold as the history: `Verdicts` observes the settled stretches, newest first, and keeps
a few bytes a line.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator, Sequence

from rollout.fold.collector import SPOKEN, Gatherer, unpack
from rollout.fold.events import ITEM_KINDS, Kind, Mark, Span
from rollout.fold.line_types import Names
from rollout.limits import DEFAULT, Limits

VISIBLE = "visible"
REPLACED = "replaced"
ROLLED_BACK = "rolled_back"
REMOVED = "removed"
METADATA = "metadata"
EVENT = "event"
DAMAGED = "damaged"
BLANK = "blank"

_UNSEEN = (EVENT, METADATA, METADATA, METADATA, EVENT)  # by the code of a line, beyond those of items
_CONTEXT_KINDS = frozenset({Kind.CONTEXT, Kind.WORLD, Kind.COMPACTED})

Place = tuple[int, int, int]
"""Segment (0 is the file itself), offset, and line ends from there to the end of the segment."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stay:
    """What became of a mark's lines, oldest last: all share `turn` (-1: none) and, but for the removed ones, `status`.

    `by` is the place of the record that replaced or rolled back the visible items among them; the newest items were
    `removed` first: so many, by the record at that place.
    """

    segment: int
    offset: int
    newlines: int
    turn: int
    status: str
    by: Place | None
    reason: str | None
    refs: array[int] | None
    removed: tuple[tuple[int, Place], ...]


class NamingGatherer(Gatherer):
    """See `Gatherer`: it traces, holds no items, and notes what each line calls itself."""

    def __init__(self, names: Names, limits: Limits = DEFAULT) -> None:
        super().__init__(wants_items=False, traces=True, limits=limits)
        self.names: Names = names

    def note_damage(self, offset: int, size: int, reason: str) -> None:
        """Damaged bytes."""
        self.names.note_nothing()
        super().note_damage(offset, size, reason)

    def note_blank(self, offset: int, size: int) -> None:
        """A blank line."""
        self.names.note_nothing()
        super().note_blank(offset, size)


class Verdicts:
    """Collects what became of every line of a log."""

    def __init__(self) -> None:
        self.turns: list[tuple[Span, int]] = []
        """The turns, newest first, each with the segment of its opening."""
        self._stays: list[Stay] = []
        self._count = 0
        self._compaction: Place | None = None
        self._removals: list[tuple[int, Place]] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        index = {id(span): len(self.turns) + i for i, span in enumerate(reversed(spans))}
        self.turns += [(span, span.opening.segment) for span in reversed(spans)]
        for mark in reversed(marks):
            turn = -1 if mark.span is None else index[id(mark.span)]
            self._stays.append(self._judge(mark, turn))
            self._count += 1 if mark.refs is None else len(mark.refs)

    def _judge(self, mark: Mark, turn: int) -> Stay:
        status: str = EVENT
        by: Place | None = None
        removed: tuple[tuple[int, Place], ...] = ()
        if mark.kind in ITEM_KINDS:
            status, by, removed = self._judge_items(mark)
        elif mark.kind is Kind.OTHER:
            status = METADATA if mark.key is None else DAMAGED if mark.key == "malformed" else mark.key
        elif mark.kind in _CONTEXT_KINDS:
            status = METADATA
            if mark.undone_by is not None:
                status, by = ROLLED_BACK, _place(mark.undone_by)
            elif mark.kind is Kind.COMPACTED:
                self._compaction, self._removals = _place(mark), []
        elif mark.kind is Kind.REMOVED and mark.stands and mark.number:
            self._removals.append((mark.number, _place(mark)))
        reason = mark.text if status == DAMAGED else None
        return Stay(mark.segment, mark.offset, mark.newlines, turn, status, by, reason, mark.refs, removed)

    def _judge_items(self, mark: Mark) -> tuple[str, Place | None, tuple[tuple[int, Place], ...]]:
        if mark.undone_by is not None:
            return ROLLED_BACK, _place(mark.undone_by), ()
        left = mark.number if mark.kind is Kind.ITEMS else 1
        removed: list[tuple[int, Place]] = []
        while left and self._removals:
            # The removal nearest behind an item takes it first.
            count, by = self._removals.pop()
            taken = min(count, left)
            removed.append((taken, by))
            left -= taken
            if count > taken:
                self._removals.append((count - taken, by))
        if self._compaction is not None:
            return REPLACED, self._compaction, tuple(removed)
        return VISIBLE, None, tuple(removed)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Stay, int, int, str, Place | None]]:
        """Oldest first: stay, offset, newlines, status, by. A line that holds several records comes several times."""
        for stay in reversed(self._stays):
            refs = stay.refs
            if refs is None:
                status, by = (REMOVED, stay.removed[0][1]) if stay.removed else (stay.status, stay.by)
                yield stay, stay.offset, stay.newlines, status, by
            elif not stay.removed:
                statuses = (stay.status, stay.status, *_UNSEEN)
                for k in range(len(refs) - 1, -1, -1):
                    offset, code = unpack(refs[k])
                    yield stay, offset, stay.newlines + k, statuses[code], None if code > SPOKEN else stay.by
            else:
                yield from reversed(list(_unpack_removed(stay, refs)))


def _unpack_removed(stay: Stay, refs: array[int]) -> Iterator[tuple[Stay, int, int, str, Place | None]]:
    """Newest first, as removals take the newest items."""
    takers = [by for count, by in stay.removed for _ in range(count)]
    taken = 0
    for k, ref in enumerate(refs):
        offset, code = unpack(ref)
        if code > SPOKEN:
            yield stay, offset, stay.newlines + k, _UNSEEN[code - SPOKEN - 1], None
        elif taken < len(takers):
            yield stay, offset, stay.newlines + k, REMOVED, takers[taken]
            taken += 1
        else:
            yield stay, offset, stay.newlines + k, stay.status, stay.by


def _place(mark: Mark) -> Place:
    return mark.segment, mark.offset, mark.newlines
