"""Line statuses as of any moment of a log: read back as far as is asked for, and kept while they hold.

What became of a line holds until the next line that compacts, rolls back or removes; so statuses are read a little
ahead of the moment, and serve those that come next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rollout.dialects.codex.dialect import CODEX
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.fold.line_status import LineStatuses, Position, Run
from rollout.format.records import Segment
from rollout.limits import Limits
from rollout.session.steps import CONTEXT, DAMAGED, Step, StepPosition, read_step, steps_backward, steps_forward

_AHEAD_BYTES = 256 * 1024  # how far ahead of a moment statuses are read, at most
_BACK_BYTES = 1024 * 1024  # how far back a moment may lie for statuses to be asked whether they hold there
_LINES_A_ROW = 4  # about every other line is an event
_RUN_NAMES = frozenset({"world_state", "blank"})


class NewestStatuses:
    """The statuses of the newest lines of a log (segments newest first): `count` of them at first, None for all."""

    def __init__(
        self,
        segments: Sequence[Segment],
        count: int | None,
        limits: Limits,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._segments, self._limits, self._progress = segments, limits, progress
        self._threads = [segment.thread for segment in segments]
        self._read(count)

    def _read(self, count: int | None) -> None:
        self.statuses = LineStatuses(count)
        self._is_whole = (
            Reconstruction(
                self._segments,
                Collector(CODEX, wants_items=False, traces=True, limits=self._limits),
                observer=self.statuses,
                progress=self._progress,
                is_enough=self.statuses.is_enough,
            )
            .run()
            .complete
        )
        self._oldest = self.statuses.oldest

    def find(self, segment: int, offset: int) -> tuple[Run, str, Position | None] | None:
        """What became of the record at a position, with its run, and by which; None if no record lies there."""
        while not self._is_whole and (segment, -offset) > self._oldest:
            self._read(4 * len(self.statuses) + 1)
        return self.statuses.find(segment, offset)

    def turn_id(self, run: Run) -> str | None:
        """The id of the turn that lines belong to."""
        return self.statuses.turn_id(run.turn, self._threads)


@dataclasses.dataclass(slots=True)
class _Known:
    """The statuses of a segment up to byte `end` and of all older ones: as of any moment from `since` on."""

    segment: int
    since: int
    end: int
    newest: NewestStatuses

    def find(self, step: Step) -> tuple[Run, str, Position | None] | None:
        return self.newest.find(self.segment - step.position.segment, step.offset)


class StatusesAt:
    """The statuses of the steps of a lineage (oldest segment first). `small`: limits for reading little at a time."""

    def __init__(self, segments: Sequence[Segment], limits: Limits, small: Limits) -> None:
        self._segments, self._limits, self._small = segments, limits, small
        self._known: _Known | None = None

    def at_end(self, progress: Callable[[int, int], None] | None) -> Callable[[Step], Step]:
        """What gives each step as of the end. Reads everything."""
        last = len(self._segments) - 1
        end = self._segments[last].end
        known = _Known(last, end, end, NewestStatuses(self.up_to(last, end), None, self._limits, progress))
        return lambda step: _with_status(step, known)

    def up_to(self, segment: int, end: int) -> list[Segment]:
        """The log up to a byte of one of its files, newest segment first."""
        return [dataclasses.replace(self._segments[segment], end=end), *reversed(self._segments[:segment])]

    def tell(self, step: Step, at: StepPosition, count: int) -> Step:
        """The step as of the moment of `at`; some `count` others will be asked for."""
        if self._known is None or not self._holds(self._known, at):
            self._known = self._look_ahead(at, count * _LINES_A_ROW)
        return _with_status(step, self._known)

    def turn_of(self, step: Step) -> dict[str, Any]:
        """The turn that a step told of lies in: its id, and its opening line."""
        known = self._known
        found = None if known is None else known.find(step)
        if known is None or found is None or found[0].turn < 0:
            return {"turn_id": step.turn_id}
        span, segment = known.newest.statuses.turns[found[0].turn]
        opening, k = span.opening, known.segment - segment
        end = min(opening.offset + opening.size + 1, self._segments[k].end)
        steps = steps_backward(self._segments, k, end, self._limits, small=self._small)
        begin = next(step for step in steps if step.position.offset <= opening.offset)
        return {"turn_id": step.turn_id, "turn_began": begin.timestamp, "turn_position": begin.position}

    def _holds(self, known: _Known, at: StepPosition) -> bool:
        if at.segment != known.segment or at.end > known.end or known.since - at.end > _BACK_BYTES:
            return False
        if at.end != known.end and self._may_move(self._step_at(at)):
            return False
        if at.end < known.since:
            for step in steps_forward(self._segments, at.segment, at.end, self._limits, small=self._small):
                if step.position.segment != at.segment or step.position.offset >= known.since:
                    break
                if step.is_marker:
                    return False
            known.since = at.end
        return True

    def _step_at(self, at: StepPosition) -> Step:
        is_short = at.end - at.offset <= self._limits.line_bytes
        line = self._segments[at.segment].source.read_at(at.offset, at.end - at.offset) if is_short else b""
        return read_step(at, line.removesuffix(b"\n"), self._limits)

    def _may_move(self, step: Step) -> bool:
        """Whether a line can come to belong to a turn that begins behind it (S1: the run above a boundary)."""
        if step.kind in (CONTEXT, DAMAGED) or len(step.data) + 1 < step.position.end - step.position.offset:
            return True  # an odd line can hold anything
        if step.name == "message":
            return step.facts.get("role") in ("user", "developer")
        return step.name in _RUN_NAMES

    def _look_ahead(self, at: StepPosition, count: int) -> _Known:
        """Statuses that hold at a moment and, with luck, at many that come soon: until one where none holds on."""
        end = at.end
        if not self._may_move(self._step_at(at)):
            for step in steps_forward(self._segments, at.segment, at.end, self._limits, small=self._small):
                is_far = step.position.segment != at.segment or step.position.end - at.end > _AHEAD_BYTES
                if is_far or step.is_marker or self._may_move(step):
                    break
                end, count = step.position.end, count + 1
        return _Known(at.segment, at.end, end, NewestStatuses(self.up_to(at.segment, end), count, self._limits))


def _with_status(step: Step, known: _Known) -> Step:
    found = known.find(step)
    if found is None:
        return dataclasses.replace(step, status="damaged" if step.reason else "blank")
    run, status, by = found
    return dataclasses.replace(
        step,
        status=status,
        by_offset=None if by is None else by.offset,
        turn_id=known.newest.turn_id(run),
        reason=step.reason or run.reason,
    )
