"""S2: what still stands, within one block.

Markers inside the block are carried out when the forward fold reaches them; what newer blocks could not finish
(`Claims`) is carried out at the end of this one, in the order in which the markers were written; what this one cannot
finish waits for the next older one.

The prefix (the response items before the first boundary of the log) is never removed: an undone item with no boundary
above it in the block is left as a candidate (`Mark.prefix`) until an older boundary, or the log's beginning, decides.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence

from rollout.fold.events import Mark, Span
from rollout.items.events import BOUNDARIES, Items, ItemsRemoved, ProgramMessage, Replaced, TurnsRemoved

_TRIMMABLE = (ProgramMessage, Items, Replaced, ItemsRemoved)


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a marker still has to take back: `count` boundaries, then (`trim`) the contextual messages right above."""

    marker: Mark
    count: int
    trim: bool = False


class Claims:
    """The claims on older blocks, those of older markers first."""

    def __init__(self) -> None:
        self.count = 0
        """How many boundaries they are to take back together."""
        self._waiting: deque[Claim] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Claim:
        """The first one, which is carried out now."""
        claim = self._waiting.popleft()
        self.count -= claim.count
        return claim

    def put_ahead(self, claims: Sequence[Claim]) -> None:
        """What one block could not finish: its markers are older than those of all that wait."""
        for claim in reversed(claims):
            if claim.trim and self._waiting and self._waiting[0].trim:
                self._waiting.popleft()  # nothing is left for it to do behind this one
            self._waiting.appendleft(claim)
            self.count += claim.count


class Standing:
    """The fold of one block: which boundaries stand, newest last.

    Each mark is undone once and passed over once, however many markers there are: those that stand are on a stack, and
    so are those, among them, that a search for the contextual messages above a cut has to look at.
    """

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = marks
        self.boundaries: list[tuple[int, Span | None]] = []  # index, turn
        self.may_be_prefix = False
        """Something was undone of which an older boundary decides."""
        self.first_boundary: int | None = None
        """Index of the first boundary of the block so far, standing or not."""
        self._reached = 0  # so many marks were put on the stacks
        self._standing: list[int] = []
        self._trimmable: list[int] = []  # contextual messages, and what ends a run of them

    def fold(self, claims: Claims) -> None:
        """Carry out the block's markers, then `claims`, in which what is left to do for older blocks stays."""
        left: list[Claim] = []
        for i, mark in enumerate(self.marks):
            event = mark.event
            if isinstance(event, BOUNDARIES):
                self.boundaries.append((i, mark.span))
                if self.first_boundary is None:
                    self.first_boundary = i
            elif isinstance(event, TurnsRemoved) and event.count > 0:
                left += self._carry_out(Claim(mark, event.count), i)
        if claims:
            self._reach(len(self.marks))
        while claims and self._standing:  # where nothing stands any more, the others find nothing to do
            left += self._carry_out(claims.take(), len(self.marks))
        claims.put_ahead(left)

    def _reach(self, end: int) -> None:
        for i in range(self._reached, end):
            self._standing.append(i)
            if isinstance(self.marks[i].event, _TRIMMABLE):
                self._trimmable.append(i)
        self._reached = end

    def _carry_out(self, claim: Claim, end: int) -> list[Claim]:
        """Carry out a claim on the marks before `end`; what is left of it for an older block."""
        self._reach(end)
        stand = self.boundaries
        if claim.count > len(stand):
            self._undo(0, claim.marker)
            missing = claim.count - len(stand)
            stand.clear()
            return [Claim(claim.marker, missing)]
        if claim.count > 0:
            cut, span = stand[-claim.count]
            older = stand[-claim.count - 1] if claim.count < len(stand) else None
            is_first = older is None or older[1] is not span
            del stand[-claim.count :]
            self._undo(span.first if is_first and span is not None else cut, claim.marker)
        elif not claim.trim:
            return []
        return [Claim(claim.marker, 0, trim=True)] if self._trim(claim.marker) else []

    def _undo(self, start: int, marker: Mark) -> None:
        """Undo what stands from a mark on."""
        while self._standing and self._standing[-1] >= start:
            self._undo_one(self._standing.pop(), marker)
        while self._trimmable and self._trimmable[-1] >= start:
            self._trimmable.pop()

    def _undo_one(self, i: int, marker: Mark) -> None:
        mark = self.marks[i]
        if mark.undone_by is None:
            mark.undone_by = marker
            mark.prefix = mark.is_item and (self.first_boundary is None or i < self.first_boundary)
            self.may_be_prefix = self.may_be_prefix or mark.prefix

    def _trim(self, marker: Mark) -> bool:
        """Undo the contextual messages right above the cut; True if the run may go on in the next older block."""
        boundary = self.boundaries[-1][0] if self.boundaries else -1
        while self._trimmable and self._trimmable[-1] > boundary:
            if not isinstance(self.marks[self._trimmable[-1]].event, ProgramMessage):
                return False
            self._undo_one(self._trimmable.pop(), marker)
        return boundary < 0
