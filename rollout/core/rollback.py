"""S2: what still stands, within one stretch.

Markers inside the stretch are carried out when the forward fold reaches them; what newer stretches could not finish
(`Claim`) is carried out at the end of this one, in the order in which the markers were written; what this one cannot
finish is returned for the next older one.

The prefix (the response items before the first boundary of the log) is never removed: an undone item with no boundary
above it in the stretch is left as a candidate (`Mark.prefix`) until an older boundary, or the log's beginning, decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rollout.core.turns import ITEM_KINDS, Kind, Mark, Span


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a marker still has to take back: `count` boundaries, then (`trim`) the contextual messages right above.

    `all` says that it is not known whether so many stand.
    """

    marker: Mark
    count: int
    trim: bool = False


class Standing:
    """The fold of one stretch: which boundaries stand, newest last."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = marks
        self.boundaries: list[tuple[int, Span | None, bool]] = []  # index, turn, whether only announced
        self.may_be_prefix = False
        """Something was undone of which an older boundary decides."""
        self.first_boundary: int | None = None
        """Index of the first boundary of the stretch so far, standing or not."""
        self._first_is_of: Span | None = None  # the announced turn that it only announces
        self._with_boundary: Span | None = None  # the newest turn that has a user item

    def fold(self, claims: Sequence[Claim]) -> list[Claim]:
        """Carry out the stretch's markers, then `claims`; returns claims on older stretches, oldest marker first."""
        left: list[Claim] = []
        for i, mark in enumerate(self.marks):
            if mark.kind is Kind.BOUNDARY:
                self._with_boundary = mark.span
                self._meet(i, mark.span, announced=False)
            elif mark.kind is Kind.ANNOUNCED and mark.announces and mark.span is not self._with_boundary:
                self._meet(i, mark.span, announced=True)
            elif mark.kind is Kind.ROLLED_BACK and mark.number > 0:
                left += self._carry_out(Claim(mark, mark.number), i)
        for claim in claims:
            left += self._carry_out(claim, len(self.marks))
        return left

    def _meet(self, i: int, span: Span | None, *, announced: bool) -> None:
        top = self.boundaries[-1] if self.boundaries else None
        if top is not None and top[2] and top[1] is span:
            if announced:
                return
            self.boundaries.pop()  # the turn has a user item after all: it counts there
        self.boundaries.append((i, span, announced))
        if self.first_boundary is None or (not announced and span is self._first_is_of is not None):
            self.first_boundary = i
            self._first_is_of = span if announced else None

    def _carry_out(self, claim: Claim, end: int) -> list[Claim]:
        stand = self.boundaries
        if claim.count > len(stand):
            self._undo(0, end, claim.marker)
            missing = claim.count - len(stand)
            stand.clear()
            return [Claim(claim.marker, missing)]
        start = end
        if claim.count > 0:
            cut, span, _ = stand[-claim.count]
            older = stand[-claim.count - 1] if claim.count < len(stand) else None
            is_first = older is None or older[1] is not span
            start = span.first if is_first and span is not None else cut
            del stand[-claim.count :]
            self._undo(start, end, claim.marker)
        elif not claim.trim:
            return []
        return [Claim(claim.marker, 0, trim=True)] if self._trim(start, claim.marker) else []

    def _undo(self, start: int, end: int, marker: Mark) -> None:
        for i in range(start, end):
            self._undo_one(i, marker)

    def _undo_one(self, i: int, marker: Mark) -> None:
        mark = self.marks[i]
        if mark.undone_by is None:
            mark.undone_by = marker
            mark.prefix = mark.kind in ITEM_KINDS and (self.first_boundary is None or i < self.first_boundary)
            self.may_be_prefix = self.may_be_prefix or mark.prefix

    def _trim(self, start: int, marker: Mark) -> bool:
        """Undo the contextual messages right above `start`; True if the run may go on in the next older stretch."""
        boundary = self.boundaries[-1][0] if self.boundaries else -1
        for i in range(start - 1, boundary, -1):
            mark = self.marks[i]
            if mark.stands and mark.kind is Kind.CONTEXTUAL:
                self._undo_one(i, marker)
            elif mark.stands and mark.kind in (Kind.ITEMS, Kind.COMPACTED, Kind.REMOVED):
                return False
        return boundary < 0
