"""Line statuses of an indexed file, computed from its checkpoint without opening the file."""

from __future__ import annotations

from rollout.dialects.codex.dialect import CODEX
from rollout.fold.checkpoint import Memory
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.fold.line_status import LineStatuses
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits


def tell_fates(memory: Memory, limits: Limits = DEFAULT) -> dict[int, tuple[str, str | None]]:
    """Status (as in `explain`) and turn id of each line of the file itself, by the offset of its record.

    `explain` says the same of a file that ends where the checkpoint does. Lines of bases are left out.
    """
    statuses = LineStatuses()
    gatherer = Collector(CODEX, wants_items=False, traces=True, limits=limits)
    Reconstruction([Segment(BytesSource(b""), memory.end)], gatherer, observers=[statuses.see], memory=memory).run()
    return {
        offset: (status, statuses.turn_id(run.turn, memory.threads))
        for run, offset, _, status, _ in statuses
        if run.segment == 0
    }
