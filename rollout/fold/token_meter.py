"""A meter of tokens, a gatherer that traces and shows it what tells of them, and where the newest measure still holds.

A line that tells how much of its window the model had used is traced with a code of its own, so that it is found again
without reading the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, UnsetType

from rollout.dialects.codex import records as r
from rollout.errors import TooLarge
from rollout.fold.collector import EVENT, METADATA, METERED, METERED_EVENT, Gatherer, unpack
from rollout.fold.events import Kind, Mark, Span
from rollout.fold.token_counts import Note, Running
from rollout.fold.token_ledger import Ledger
from rollout.fold.token_records import note_of
from rollout.limits import DEFAULT, Limits

_CODES = {EVENT: METERED_EVENT, METADATA: METERED}


class Meter:
    """Is shown the records of a lineage, newest first, and keeps what a ledger needs of them."""

    def __init__(self) -> None:
        self._notes: list[Note] = []  # of the file itself, newest first
        self._base = Ledger()

    def see(self, data: bytes, envelope: r.Envelope, segment: int) -> bool:
        """One record; True if it says how much of the window was taken."""
        if segment and self._base.running.counted is not None and self._base.model is not None:
            return False
        note = note_of(data, envelope)
        if note is None:
            return False
        if segment == 0:
            self._notes.append(note)
        elif note.reading is not None and note.reading.totals is not None and self._base.running.counted is None:
            self._base = msgspec.structs.replace(self._base, running=Running(note.reading.totals))
        elif note.model is not None and self._base.model is None:
            self._base = msgspec.structs.replace(self._base, model=note.model)
        return note.reading is not None and note.reading.context_tokens is not None

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


class MeteringGatherer(Gatherer):
    """See `Gatherer`: it holds no items. `limits.spare_odd_lines` says how many lines without a record it takes."""

    def __init__(self, meter: Meter, limits: Limits = DEFAULT, *, wants_turns: bool = False) -> None:
        super().__init__(wants_items=False, wants_turns=wants_turns, traces=True, limits=limits)
        self._meter = meter
        self._spare_odd, self._odd = limits.spare_odd_lines, 0

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
        if self._spare_odd is not None and self._odd > self._spare_odd + self.seq:
            raise TooLarge("holds too many lines that are blank or damaged")

    def take(self, data: bytes, offset: int, envelope: r.Envelope) -> bool:
        """One record, older than all before; True if it begins a stretch (task_started)."""
        begins = super().take(data, offset, envelope)
        if self._meter.see(data, envelope, self.segment):
            top = self.marks[-1] if self.marks else None
            if top is not None and top.refs and top.refs[-1] >> 3 == offset:
                code = top.refs[-1] & 7
                top.refs[-1] = offset << 3 | _CODES.get(code, code)
        return begins

    def _take_usage(self, totals: Raw | UnsetType) -> None:
        super()._take_usage(totals)
        self.events.add("token_count")  # the older ones matter, too


class Gauge:
    """Observes a reconstruction with such a gatherer."""

    def __init__(self) -> None:
        self.place: tuple[int, int, int] | None = None
        """Segment, offset and end of the newest standing line that tells how much of its window the model had used.

        None if a compaction stands behind it: nothing has been measured since.
        """
        self.is_found = False
        """What is older does not matter any more."""

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        for mark in reversed(marks):
            if self.is_found:
                return
            if mark.stands and mark.kind is Kind.COMPACTED:
                self.is_found = True
            elif mark.stands and mark.refs is not None:
                self._look_into(mark, mark.refs)

    def _look_into(self, mark: Mark, refs: Sequence[int]) -> None:
        end = mark.offset + mark.size
        for ref in refs:
            offset, code = unpack(ref)
            if code >= METERED:
                self.place, self.is_found = (mark.segment, offset, end), True
                return
            end = offset
