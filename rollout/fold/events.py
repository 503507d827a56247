"""S1: records to turns, within one stretch.

A *stretch* is what lies from one `task_started` to the next (the first one of a log begins at its beginning). It is
gathered backward and folded forward, so that the rules are written once, in the order in which they are stated. No
rule of S1 looks across a `task_started`.

A *mark* is what the fold needs to know of a record; marks of a stretch are in the order of the file. Plain items
between two other marks share one mark, as nothing can come between them.
"""

from __future__ import annotations

import dataclasses
import enum
from array import array
from collections.abc import Sequence

import msgspec

from rollout.format.labels import UNLABELLED, Label


class Kind(enum.IntEnum):
    """What a mark stands for."""

    STARTED = 0
    ENDED = 1  # task_complete
    ABORTED = 2
    BOUNDARY = 3  # a user's message, an instruction from another agent
    ANNOUNCED = 4  # a user_message event
    CONTEXTUAL = 5
    ITEMS = 6  # visible items that are none of the above
    CONTEXT = 7  # turn_context
    WORLD = 8
    COMPACTED = 9
    REMOVED = 10  # items_removed
    ROLLED_BACK = 11
    OTHER = 12  # only when every line is traced: events, metadata, hidden items, damage


NO_RECORD = frozenset({"damaged", "blank"})
"""The keys of OTHER marks that stand for no record."""
ITEM_KINDS = frozenset({Kind.BOUNDARY, Kind.CONTEXTUAL, Kind.ITEMS})


class Mark(msgspec.Struct, eq=False):
    """What the fold needs to know of one record (or of a run of plain items).

    `seq` counts records backward over the whole lineage (larger is older); `segment` and `offset` say where the record
    lies, `newlines` how many line ends lie between its beginning and the end of its file (from which its line number
    follows once the file's lines are counted). A run reaches from its oldest item to its newest; what else lies there
    is of no effect.
    """

    kind: Kind
    seq: int
    segment: int
    offset: int
    size: int
    newlines: int
    data: bytes | None = None
    """The record's bytes, where they are needed and not too costly to hold."""
    lines: list[bytes] | None = None
    """ITEMS: the lines, newest first, where they are held."""
    refs: array[int] | None = None
    """When every line is traced: the lines of a run, newest first; see `gather.unpack`."""
    number: int = 0
    """ITEMS, ROLLED_BACK, REMOVED: how many. COMPACTED, WORLD, BOUNDARY: 1 if it has a replacement_history, is full, is
    an agent_message."""
    key: str | None = None
    """STARTED, ABORTED, CONTEXT: the turn id. BOUNDARY: "agent" if another agent's. OTHER: what it is."""
    text: str | None = None
    """CONTEXT: the model. STARTED, ENDED, ABORTED: the timestamp. BOUNDARY: how the user's text begins.

    OTHER: why it is damaged.
    """
    label: Label = UNLABELLED
    """STARTED, BOUNDARY: the line's, where turns are wanted."""
    announces: bool = False
    """ANNOUNCED: it came in an open turn of lifecycle events."""
    followed: bool = False
    """ROLLED_BACK: a record that has no mark comes behind it, ahead of the next mark. (Traced lines all have one.)"""
    span: Span | None = None
    undone_by: Mark | None = None
    prefix: bool = False
    """Undone, unless no boundary is older: then it is of the session's prefix and stands."""

    @property
    def stands(self) -> bool:
        return self.undone_by is None


@dataclasses.dataclass(slots=True, eq=False)
class Span:
    """One turn while it is folded: its marks lie from `first` on in the stretch."""

    first: int
    opening: Mark
    explicit: bool
    turn_id: str | None
    status: str = "interrupted"
    is_open: bool = True
    has_boundary: bool = False
    ending: Mark | None = None
    last: Mark | None = None

    def fits(self, turn_id: str | None) -> bool:
        """An id fits if it is the turn's own, or either is not known."""
        return turn_id is None or self.turn_id is None or turn_id == self.turn_id


def fold_turns(marks: Sequence[Mark]) -> list[Span]:
    """Give each mark its turn (None: it belongs to none) and return the turns, oldest first."""
    spans: list[Span] = []
    current: Span | None = None
    for i, mark in enumerate(marks):
        kind = mark.kind
        if kind is Kind.STARTED:
            current = Span(i, mark, True, mark.key)
            spans.append(current)
        elif kind is Kind.BOUNDARY:
            if current is None or not (current.explicit and current.is_open):
                current = Span(_run_above(marks, i), mark, False, None, status="completed")
                spans.append(current)
                for above in range(current.first, i):
                    marks[above].span = current
            current.has_boundary = True
        elif current is not None:
            if kind is Kind.ENDED or kind is Kind.ABORTED:
                _end(current, mark)
            elif kind is Kind.ANNOUNCED:
                mark.announces = current.explicit and current.is_open
        mark.span = current
        if current is not None:
            current.last = mark
    return spans


def _end(span: Span, mark: Mark) -> None:
    if not span.is_open or (mark.kind is Kind.ABORTED and not span.fits(mark.key)):
        return
    if mark.kind is Kind.ABORTED:
        span.status = "interrupted"
    elif span.explicit:
        span.status = "completed"
    else:
        return  # an implicit turn runs to the next boundary, whatever claims to complete it
    span.is_open = False
    span.ending = mark


def _run_above(marks: Sequence[Mark], i: int) -> int:
    """Where the unbroken run of settings and contextual messages right above mark `i` begins.

    Damaged bytes and blank lines are no records: they do not break it.
    """
    first = i
    for above in range(i - 1, -1, -1):
        mark = marks[above]
        if mark.kind is Kind.OTHER and mark.key in NO_RECORD:
            continue
        if mark.kind not in (Kind.CONTEXT, Kind.WORLD, Kind.CONTEXTUAL) or mark.seq != marks[first].seq + 1:
            break
        first = above
    return first
