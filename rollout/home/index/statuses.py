"""What became of the lines of a file, from what is remembered of it: nothing is read."""

from __future__ import annotations

from rollout import ids
from rollout.fold.checkpoint import Memory
from rollout.fold.collector import Gatherer
from rollout.fold.engine import Reconstruction
from rollout.fold.line_status import Verdicts
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits


def tell_fates(memory: Memory, limits: Limits = DEFAULT) -> dict[int, tuple[str, str | None]]:
    """Status (as in `explain`) and turn id of each line of the file itself, by the offset of its record.

    `explain` says the same of a file that ends where the memory does. Lines of bases are left out.
    """
    verdicts = Verdicts()
    Reconstruction(
        [Segment(BytesSource(b""), memory.end)],
        limits=limits,
        gatherer=Gatherer(wants_items=False, traces=True, limits=limits),
        observer=verdicts,
        memory=memory,
    ).run()
    turns = [
        span.turn_id or ids.derived_turn_id(memory.threads[segment], span.opening.offset)
        for span, segment in verdicts.turns
    ]
    return {
        offset: (status, turns[stay.turn] if stay.turn >= 0 else None)
        for stay, offset, _, status, _ in verdicts
        if stay.segment == 0
    }
