"""Why the model sees a line, or does not.

One verdict a line, by the same fold as the history: `Verdicts` observes the settled stretches, newest first.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator, Sequence

from rollout.core.turns import ITEM_KINDS, Kind, Mark, Span

VISIBLE = "visible"
REPLACED = "replaced"
ROLLED_BACK = "rolled_back"
REMOVED = "removed"
METADATA = "metadata"
EVENT = "event"
DAMAGED = "damaged"
BLANK = "blank"
STATUSES = (VISIBLE, REPLACED, ROLLED_BACK, REMOVED, METADATA, EVENT, DAMAGED, BLANK)
_CODES = {status: code for code, status in enumerate(STATUSES)}

_KEPT_KINDS = frozenset({Kind.CONTEXT, Kind.WORLD, Kind.COMPACTED})
_NONE = (1 << 64) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one line: `segment` (0 is the file itself) and `newlines` say which line it is.

    `by` is the mark's place (segment, offset, newlines) that replaced, rolled back or removed it.
    """

    segment: int
    offset: int
    newlines: int
    status: str
    turn: int
    by: tuple[int, int, int] | None
    reason: str | None


class Verdicts:
    """Collects the verdicts of a whole log in a few bytes a line."""

    def __init__(self) -> None:
        self.turns: list[tuple[Span, int]] = []
        """The turns, newest first, each with the segment of its opening."""
        self._rows = array("Q")  # segment, offset, newlines, turn, by-index; newest first
        self._status = bytearray()
        self._reasons: dict[int, str] = {}
        self._by: list[tuple[int, int, int]] = []
        self._by_index: dict[int, int] = {}
        self._compaction: Mark | None = None
        self._removals: list[list[int | Mark]] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        index = {id(span): len(self.turns) + i for i, span in enumerate(reversed(spans))}
        self.turns += [(span, span.opening.segment) for span in reversed(spans)]
        for mark in reversed(marks):
            status, by = self._judge(mark)
            turn = _NONE if mark.span is None else index[id(mark.span)]
            row = len(self._status)
            self._rows.extend((mark.segment, mark.offset, mark.newlines, turn, self._place(by)))
            self._status.append(_CODES[status])
            if status == DAMAGED and mark.text is not None:
                self._reasons[row] = mark.text

    def _judge(self, mark: Mark) -> tuple[str, Mark | None]:
        kind = mark.kind
        if kind is Kind.OTHER:
            key = mark.key or METADATA
            return (DAMAGED if key == "malformed" else key), None
        if kind in ITEM_KINDS:
            return self._judge_item(mark)
        if kind in _KEPT_KINDS:
            if not mark.stands:
                return ROLLED_BACK, mark.undone_by
            if kind is Kind.COMPACTED:
                self._compaction = mark
                self._removals = []
            return METADATA, None
        if kind is Kind.REMOVED and mark.stands and mark.number:
            self._removals.append([mark.number, mark])
        return EVENT, None

    def _judge_item(self, mark: Mark) -> tuple[str, Mark | None]:
        if not mark.stands:
            return ROLLED_BACK, mark.undone_by
        if self._removals:
            # A removal takes the newest item that stands: the removal nearest behind the item comes first.
            entry = self._removals[-1]
            assert isinstance(entry[0], int) and isinstance(entry[1], Mark)
            entry[0] -= 1
            if entry[0] == 0:
                self._removals.pop()
            return REMOVED, entry[1]
        if self._compaction is not None:
            return REPLACED, self._compaction
        return VISIBLE, None

    def _place(self, by: Mark | None) -> int:
        if by is None:
            return _NONE
        if by.seq not in self._by_index:
            self._by_index[by.seq] = len(self._by)
            self._by.append((by.segment, by.offset, by.newlines))
        return self._by_index[by.seq]

    def __len__(self) -> int:
        return len(self._status)

    def __iter__(self) -> Iterator[Verdict]:
        """Oldest first. A line that holds several records has a verdict for each."""
        rows = self._rows
        for row in range(len(self._status) - 1, -1, -1):
            segment, offset, newlines, turn, by = rows[5 * row : 5 * row + 5]
            yield Verdict(
                segment,
                offset,
                newlines,
                STATUSES[self._status[row]],
                -1 if turn == _NONE else turn,
                None if by == _NONE else self._by[by],
                self._reasons.get(row),
            )
