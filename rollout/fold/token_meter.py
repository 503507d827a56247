"""A meter of tokens, a collector that traces and shows it what tells of them, and where the newest measure still holds.

A line that tells how much of its window the model had used is traced with a code of its own, so that it is found again
without reading the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.errors import TooLarge
from rollout.fold.collector import Collector
from rollout.fold.events import Mark, Run, Span, unpack
from rollout.fold.token_ledger import Ledger, Running
from rollout.items.dialect import Dialect
from rollout.items.events import LineKind, Replaced
from rollout.items.tokens import TokenNote
from rollout.limits import DEFAULT, Limits

_METERED = {LineKind.EVENT: LineKind.METERED_EVENT, LineKind.METADATA: LineKind.METERED}


class Meter:
    """Is shown the records of a lineage, newest first, and keeps what a ledger needs of them."""

    def __init__(self) -> None:
        self._notes: list[TokenNote] = []  # of the file itself, newest first
        self._base = Ledger()

    def wants(self, segment: int) -> bool:
        """Whether records of a segment still say something."""
        return not segment or self._base.running.counted is None or self._base.model is None

    def see(self, note: TokenNote, segment: int) -> None:
        """What one record says, older than all before."""
        if segment == 0:
            self._notes.append(note)
        elif note.reading is not None and note.reading.totals is not None and self._base.running.counted is None:
            self._base = msgspec.structs.replace(self._base, running=Running(note.reading.totals))
        elif note.model is not None and self._base.model is None:
            self._base = msgspec.structs.replace(self._base, model=note.model)

    def ledger(self, before: Ledger | None, older: Ledger = Ledger()) -> Ledger:  # noqa: B008 - it cannot be changed
        """What is known after all that was seen; `before`: of what stands above it, its bases then included.

        `older`: of what stands above that part of the bases that was seen.
        """
        return (self.base(older) if before is None else before).after(reversed(self._notes))

    def base(self, older: Ledger = Ledger()) -> Ledger:  # noqa: B008
        """What the bases tell that must be known to go on from them."""
        found = self._base
        if found.running.counted is None:
            found = msgspec.structs.replace(found, running=older.running)
        return msgspec.structs.replace(found, model=found.model or older.model)


class MeteringCollector(Collector):
    """See `Collector`: it holds no items. `limits.spare_odd_lines` says how many lines without a record it takes."""

    def __init__(self, dialect: Dialect, meter: Meter, limits: Limits = DEFAULT, *, wants_turns: bool = False) -> None:
        super().__init__(dialect, wants_items=False, wants_turns=wants_turns, traces=True, limits=limits)
        self._meter, self._odd = meter, 0

    def note_damage(self, offset: int, size: int, reason: str) -> None:
        """Damaged bytes. TooLarge."""
        self._count_odd()
        super().note_damage(offset, size, reason)

    def note_blank(self, offset: int, size: int) -> None:
        """A blank line. TooLarge."""
        self._count_odd()
        super().note_blank(offset, size)

    def _count_odd(self) -> None:
        self._odd += 1
        if self.limits.spare_odd_lines is not None and self._odd > self.limits.spare_odd_lines + self.seq:
            raise TooLarge("holds too many lines that are blank or damaged")

    def take(self, data: bytes, offset: int, record: Any) -> bool:
        """One record, older than all before; True if it begins a block."""
        begins = super().take(data, offset, record)
        self.wants_usage = True  # the older ones matter, too
        note = self.dialect.token_note(data, record) if self._meter.wants(self.segment) else None
        if note is not None:
            self._meter.see(note, self.segment)
            top = self.marks[-1] if self.marks else None
            is_measure = note.reading is not None and note.reading.context_tokens is not None
            if is_measure and isinstance(top, Run) and top.refs and unpack(top.refs[-1])[0] == offset:
                kind = LineKind(unpack(top.refs[-1])[1])
                top.refs[-1] = offset << 3 | _METERED.get(kind, kind)
        return begins


class Gauge:
    """Observes a reconstruction with such a collector."""

    def __init__(self) -> None:
        self.place: tuple[int, int, int] | None = None
        """Segment, offset and end of the newest standing line that tells how much of its window the model had used.

        None if a compaction stands behind it: nothing has been measured since.
        """
        self.is_found = False
        """What is older does not matter any more."""

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled block, older than all before."""
        for mark in reversed(marks):
            if self.is_found:
                return
            if mark.stands and isinstance(mark.event, Replaced):
                self.is_found = True
            elif mark.stands and isinstance(mark, Run) and mark.refs is not None:
                self._look_into(mark, mark.refs)

    def _look_into(self, mark: Mark, refs: Sequence[int]) -> None:
        end = mark.offset + mark.size
        for ref in refs:
            offset, code = unpack(ref)
            if code >= LineKind.METERED:
                self.place, self.is_found = (mark.segment, offset, end), True
                return
            end = offset
