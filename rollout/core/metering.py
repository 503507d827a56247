"""A gatherer that traces, and shows a meter what tells of tokens; and where the newest measure is that still holds.

A line that tells how much of its window the model had used is traced with a code of its own, so that it is found again
without reading the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, UnsetType

from rollout.core import records as r
from rollout.core.gather import EVENT, METADATA, METERED, METERED_EVENT, Gatherer, unpack
from rollout.core.spending import Meter
from rollout.core.turns import Kind, Mark, Span
from rollout.limits import DEFAULT, Limits

_CODES = {EVENT: METERED_EVENT, METADATA: METERED}


class MeteringGatherer(Gatherer):
    """See `Gatherer`: it holds no items."""

    def __init__(self, meter: Meter, limits: Limits = DEFAULT) -> None:
        super().__init__(wants_items=False, traces=True, limits=limits)
        self._meter = meter

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
        self._is_found = False

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        for mark in reversed(marks):
            if self._is_found:
                return
            if mark.stands and mark.kind is Kind.COMPACTED:
                self._is_found = True
            elif mark.stands and mark.refs is not None:
                self._look_into(mark, mark.refs)

    def _look_into(self, mark: Mark, refs: Sequence[int]) -> None:
        end = mark.offset + mark.size
        for ref in refs:
            offset, code = unpack(ref)
            if code >= METERED:
                self.place, self._is_found = (mark.segment, offset, end), True
                return
            end = offset
