"""Pull records newest first, stop when the answer is complete.

The unit of reading is the block (see `turns`). A block that is gathered is folded forward, then settled (see
`settle`); it waits for that while it is not known whether an undone item of it belongs to the prefix. Reading stops at
the beginning of a block once nothing older can change the history, the previous model or the reference context.

Once only the history is still asked for and no rollback reaches further back, lines are skimmed instead of gathered:
no block is needed to know that an item stands.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from rollout.errors import TooLarge
from rollout.fold.collector import Collector
from rollout.fold.events import Mark, fold_turns
from rollout.fold.projection import Projection, Reference
from rollout.fold.rollback import Claims, Standing
from rollout.format import lines
from rollout.format.lines import Damage
from rollout.format.records import Segment
from rollout.format.strict_json import decode_value
from rollout.items.events import Blank, Damaged, Replaced, TurnStarted
from rollout.items.history import History


class Floor(NamedTuple):
    """Where a turn begins before which no marker takes back a turn any more, and nothing undone is undecided.

    The contextual messages right above may still be taken back: no turn and no message of people's goes with them.
    """

    segment: int
    offset: int


Observer: TypeAlias = Callable[[Sequence[Mark]], None]
"""Is shown the marks, oldest first, of each settled block, newest first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a log says: the parts of a state that need reading."""

    history: History
    previous_model: str | None
    reference: Reference
    world_state: dict[str, Any] | None
    token_usage: dict[str, Any] | None
    damage: tuple[Damage, ...]
    records_decoded: int
    complete: bool
    """The whole lineage was read."""
    line_counts: tuple[int | None, ...]
    """Line ends in each segment, newest segment first; None where it was not read to its beginning."""


class Reconstruction:
    """Folds a lineage, newest segment first; `run` once. Observers are shown all; the answer is then but counts.

    `watch` is given each batch of lines that is read. `is_enough` is asked whenever observers were shown more, and told
    the `Floor` if one was reached: reading stops there if it says so.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        collector: Collector,
        *,
        observers: Sequence[Observer] = (),
        progress: Callable[[int, int], None] | None = None,
        watch: Callable[[lines.Batch], None] | None = None,
        is_enough: Callable[[Floor | None], bool] | None = None,
    ) -> None:
        self._segments, self._limits, self._progress = segments, collector.limits, progress
        self._watch, self._is_enough = watch, is_enough
        self._collector, self._dialect = collector, collector.dialect
        self._observers = observers
        self._settled = Projection(
            self._dialect, self._fetch, wants_history=collector.wants_items, depth=collector.depth
        )
        self._read: list[Segment] = []
        self._line_counts: list[int | None] = []
        self._damage: list[tuple[Damage, int, int]] = []  # with segment and newlines
        self._claims = Claims()
        self._waiting: list[list[Mark]] = []
        self._undecided = False  # whether an undone item of those is of the prefix
        self._skims = False  # nothing but the history is still asked for, and nothing is claimed back

    def run(self) -> Answer:
        """Read as far back as the answer needs (to the beginning, if an observer wants to see all)."""
        complete = True
        for segment in self._segments:
            self._collector.segment, self._collector.newlines = len(self._read), 0
            self._read.append(segment)
            self._line_counts.append(None)
            if self._read_segment(segment):
                complete = False
                break
            self._line_counts[-1] = self._collector.newlines
        if complete:
            self._close_block()
            self._settle(at_beginning=True)
        return self._answer(complete)

    def _read_segment(self, segment: Segment) -> bool:
        """Take a segment's records; True once the answer is complete."""
        done = 0
        for block in lines.backward(segment.source, segment.end, self._limits):
            if isinstance(block, lines.Batch):
                if self._watch is not None:
                    self._watch(block)
                if self._take_batch(block):
                    return True
                done += block.end - block.offset
            else:
                done += block.n
                if isinstance(block, lines.Oversize):
                    reason = f"a line of {block.n} bytes is longer than the limit of {self._limits.line_bytes}"
                    self._collector.newlines += block.ended
                    self._note_damage("oversize", block.offset, block.n, reason)
            if self._progress is not None:
                self._progress(done, segment.end)
        return False

    def _take_batch(self, batch: lines.Batch) -> bool:
        collector, depth = self._collector, self._limits.depth
        found, end = batch.lines, batch.end
        if tail := found[-1]:  # no line end behind it: the tail, or a piece before a gap
            end -= len(tail)
            envelope = self._dialect.decode(tail, depth)
            if envelope is None:
                is_tail = batch.end == self._read[-1].end
                begins = self._take_odd(tail, end, is_tail=is_tail, is_line=is_tail and batch.begins)
            else:
                begins = collector.take(tail, end, envelope)
            if begins and self._close_block():
                return True
        i = len(found) - 2
        while i >= 0:
            stop = -1
            if self._skims and not collector.marks:
                i, end = self._dialect.collect_items(
                    collector, found, i, end, self._settled.skimmed(collector.seq, collector.segment)
                )
                stop = max(i - 1, -1)  # the one line at which skimming stopped
            i, end, begins = self._dialect.collect(collector, found, i, end, stop)
            if i > stop and not begins:
                collector.newlines += 1
                end -= len(found[i]) + 1
                begins = self._take_odd(found[i], end, is_tail=False, is_line=i > 0 or batch.begins)
                i -= 1
            if begins and self._close_block():
                return True
        return False

    def _take_odd(self, data: bytes, offset: int, *, is_tail: bool, is_line: bool) -> bool:
        spare, found = self._limits.spare_odd_lines, self._dialect.split(data, self._limits.depth)
        pieces = list(found if spare is None else itertools.islice(found, spare + self._collector.seq + 1))
        if spare is not None and len(pieces) > spare + self._collector.seq:
            raise TooLarge("holds too many pieces in one line")
        is_blank = not pieces and is_line and b"\0" not in data  # NUL bytes are no line of their own
        if is_blank and self._collector.traces:
            self._collector.note_odd(Blank(), offset, len(data))
        begins = False
        for piece in reversed(pieces):
            if begins:  # a block begins inside this line: what stands before it is of the older one
                self._close_block()
                begins = False
            if piece.envelope is not None:
                begins = self._collector.take(piece.data, offset + piece.offset, piece.envelope)
            else:
                odd = piece.as_tail() if is_tail and piece is pieces[-1] else piece
                self._note_damage(odd.kind, offset + odd.offset, len(odd.data), odd.reason)
        return begins

    def _note_damage(self, kind: str, offset: int, size: int, reason: str) -> None:
        segment = self._collector.segment
        damage = Damage(None, offset, reason, kind, self._read[segment].path)
        self._damage.append((damage, segment, self._collector.newlines))
        if self._collector.traces:
            self._collector.note_odd(Damaged(reason), offset, size)

    def _close_block(self) -> bool:
        """Fold what was gathered; True if the answer is complete."""
        collector, settled = self._collector, self._settled
        marks = collector.take_block()
        fold_turns(marks)
        standing = Standing(marks)
        standing.fold(self._claims)
        collector.debt = self._claims.count
        if self._undecided and standing.first_boundary is not None:  # nothing of what waits is of the prefix
            self._undecided = False
            self._settle(at_beginning=False)
            if not self._observers and settled.is_complete:
                return True
        if standing.may_be_prefix and (self._observers or _is_undecided(marks)):
            self._undecided = True
        self._waiting.append(marks)
        if self._undecided:
            self._skims = False
            return False
        self._settle(at_beginning=False)
        if self._observers:
            is_floor = not self._claims.count and bool(marks) and isinstance(marks[0].event, TurnStarted)
            floor = Floor(marks[0].segment, marks[0].offset) if is_floor else None
            return self._is_enough is not None and self._is_enough(floor)
        self._skims = settled.base is None and settled.knows_settings and not settled.has_old_compaction
        self._skims = self._skims and not self._claims
        return settled.is_complete

    def _settle(self, *, at_beginning: bool) -> None:
        for marks in self._waiting:
            for mark in marks:
                if at_beginning and mark.prefix:
                    mark.undone_by = None
            for observe in self._observers or (self._settled.add,):
                observe(marks)
        self._waiting = []
        if self._settled.base is not None:
            self._collector.wants_items = False
        if not self._settled.world_open:
            self._collector.wants_world = False

    def _answer(self, complete: bool) -> Answer:
        usage, settled = self._collector.usage, self._settled
        if usage is not None and settled.base is not None and usage[0] > settled.base.seq:
            usage = None
        return Answer(
            history=History(settled.entries(), self._dialect, settled.summaries),
            previous_model=settled.model,
            reference=settled.reference(),
            world_state=settled.world_state(),
            token_usage=None if usage is None else decode_value(usage[1]),
            damage=tuple(self._place(*found) for found in reversed(self._damage)),
            records_decoded=self._collector.seq,
            complete=complete,
            line_counts=tuple(self._line_counts),
        )

    def _place(self, damage: Damage, segment: int, newlines: int) -> Damage:
        count = self._line_counts[segment]
        return damage if count is None else dataclasses.replace(damage, line=count - newlines + 1)

    def _fetch(self, mark: Mark) -> bytes:
        return self._read[mark.segment].source.read_at(mark.offset, mark.size)


def _is_undecided(marks: Sequence[Mark]) -> bool:
    """Whether it matters yet whether an undone item of these is of the prefix: not if a base stands after it."""
    for mark in reversed(marks):
        if mark.prefix:
            return True
        if isinstance(mark.event, Replaced) and mark.event.has_items and mark.stands:
            return False
    return False
