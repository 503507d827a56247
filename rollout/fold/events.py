"""S1: events to turns, within one block.

A *block* is what lies from one start of a turn to the next (the first one of a log begins at its beginning). It is
collected backward and folded forward, so that the rules are written once, in the order in which they are stated. No
rule of S1 looks across the start of a turn.

A *mark* is an event with its place in the log, and what the fold finds out about it; marks of a block are in the order
of the file. Plain items between two other marks share one mark (`Run`), as nothing can come between them.
"""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from rollout.format.labels import UNLABELLED, Label
from rollout.items.events import (
    BOUNDARIES,
    ITEM_EVENTS,
    NO_RECORDS,
    Event,
    ProgramMessage,
    Settings,
    TurnAborted,
    TurnEnded,
    TurnStarted,
    UserAnnounced,
    WorldState,
)

_TAKEN_ALONG = (Settings, WorldState, ProgramMessage)


class Mark(msgspec.Struct, eq=False):
    """An event of a log, where its record lies, and what becomes of it.

    `seq` counts records backward over the whole lineage (larger is older); `segment` and `offset` say where the record
    lies, `newlines` how many line ends lie between its beginning and the end of its file (from which its line number
    follows once the file's lines are counted).
    """

    event: Event
    seq: int
    segment: int
    offset: int
    size: int
    newlines: int
    data: bytes | None = None
    """The record's bytes, where they are needed and not too costly to hold."""
    label: Label = UNLABELLED
    """The line's, where turns are wanted: of starts and ends of turns and of user boundaries."""
    is_in_turn: bool = False
    """Of a user's message that is announced: it came in an open turn that had a start of its own."""
    is_followed: bool = False
    """Of a rollback: a record that has no mark comes behind it, ahead of the next mark. (Traced lines all have one.)"""
    span: Span | None = None
    undone_by: Mark | None = None
    prefix: bool = False
    """Undone, unless no boundary is older: then it is of the session's prefix and stands."""

    @property
    def stands(self) -> bool:
        return self.undone_by is None

    @property
    def is_item(self) -> bool:
        """Whether the model sees it, as long as it stands."""
        return isinstance(self.event, ITEM_EVENTS)

    @property
    def begin(self) -> int:
        """Where the oldest of its records begins."""
        return self.offset


class Run(Mark, eq=False):
    """Neighbouring lines without events of their own: `Items` or, as long as no item is among them, `Unseen`.

    A run that is not traced reaches from its oldest item to its newest; what else lies there is of no effect. One that
    is traced has all of its lines in `refs`, newest first (see `unpack`), and `offset` and `size` are its newest's.
    """

    count: int = 0
    """How many visible items are among them."""
    lines: list[bytes] | None = None
    """The items' lines, newest first, where they are held."""
    refs: array[int] | None = None

    @property
    def begin(self) -> int:
        """Where the oldest of its records begins."""
        return self.offset if self.refs is None else unpack(self.refs[-1])[0]


def unpack(ref: int) -> tuple[int, int]:
    """Offset and `LineKind` of one traced line."""
    return ref >> 3, ref & 7


@dataclasses.dataclass(slots=True, eq=False)
class Span:
    """One turn while it is folded: its marks lie from `first` on in the block."""

    first: int
    opening: Mark
    explicit: bool
    turn_id: str | None
    status: str = "interrupted"
    ending: Mark | None = None
    """None while it is open."""

    def fits(self, turn_id: str | None) -> bool:
        """An id fits if it is the turn's own, or either is not known."""
        return turn_id is None or self.turn_id is None or turn_id == self.turn_id


def fold_turns(marks: Sequence[Mark]) -> None:
    """Give each mark its turn (None: it belongs to none)."""
    current: Span | None = None
    for i, mark in enumerate(marks):
        event = mark.event
        if isinstance(event, TurnStarted):
            current = Span(i, mark, True, event.turn_id)
        elif isinstance(event, BOUNDARIES):
            if current is None or not (current.explicit and current.ending is None):
                current = Span(_run_above(marks, i), mark, False, None, status="completed")
                for above in range(current.first, i):
                    marks[above].span = current
        elif current is not None:
            if isinstance(event, UserAnnounced):
                mark.is_in_turn = current.explicit and current.ending is None
            elif isinstance(event, TurnAborted) and current.ending is None and current.fits(event.turn_id):
                current.status, current.ending = "interrupted", mark
            elif isinstance(event, TurnEnded) and current.ending is None and current.explicit:
                current.status, current.ending = "completed", mark  # an implicit one runs to the next boundary
        mark.span = current


def _run_above(marks: Sequence[Mark], i: int) -> int:
    """Where the unbroken run of settings and contextual messages right above mark `i` begins.

    Damaged bytes and blank lines are no records: they do not break it.
    """
    first = i
    for above in range(i - 1, -1, -1):
        mark = marks[above]
        if isinstance(mark.event, NO_RECORDS):
            continue
        if not isinstance(mark.event, _TAKEN_ALONG) or mark.seq != marks[first].seq + 1:
            break
        first = above
    return first


def by_turn(marks: Sequence[Mark]) -> Iterator[tuple[Span | None, list[Mark]]]:
    """The marks of each turn of a block, newest turn first."""
    turns: Iterator[tuple[Span | None, Iterator[Mark]]] = itertools.groupby(marks, attrgetter("span"))
    return reversed([(span, list(of_turn)) for span, of_turn in turns])
