"""What became of the steps of a session, as of any moment: judged as far back as is asked for, and remembered.

A judgement is made for a moment and holds until the next line that compacts, rolls back or removes; so it is made a
little ahead, and serves the moments that come next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rollout import ids
from rollout.dialects.codex import envelope
from rollout.fold.collector import Gatherer
from rollout.fold.engine import Reconstruction
from rollout.fold.timeline import CONTEXT, DAMAGED, Enough, Judge, Place, Step, read_step, walk_backward, walk_forward
from rollout.format.records import Segment
from rollout.limits import Limits

_AHEAD_BYTES = 256 * 1024  # how far a judgement is made to reach, at least
_BACK_BYTES = 1024 * 1024  # how far back a step may lie for a judgement to be asked whether it holds there
_LINES_A_ROW = 4  # about every other line is an event
_ALL = 1 << 62
_RUN_NAMES = frozenset({"world_state", "blank"})


@dataclasses.dataclass(slots=True)
class _Judgement:
    """What became of the lines of a segment up to byte `end` and of all older ones: as of any moment from `since`."""

    segment: int
    since: int
    end: int
    judge: Judge
    whole: bool

    def reaches(self, place: Place) -> bool:
        """Whether that line was judged."""
        oldest = self.judge.oldest
        return self.whole or (
            oldest is not None and (self.segment - oldest[0], oldest[1]) <= (place.segment, place.offset)
        )


class Judgements:
    """The judgements on a lineage, its segments oldest first. `small`: limits for reading little at a time."""

    def __init__(self, segments: Sequence[Segment], limits: Limits, small: Limits) -> None:
        self._segments, self._limits, self._small = segments, limits, small
        self._judged: _Judgement | None = None

    def judge_all(self, progress: Callable[[int, int], None] | None) -> Callable[[Step], Step]:
        """What gives each step as of the end. Reads everything."""
        judge, last = Judge(_ALL), len(self._segments) - 1
        self._run(judge, self.up_to(last, self._segments[last].end), progress)
        return lambda step: self._with_verdict(step, judge, last)

    def up_to(self, segment: int, end: int) -> list[Segment]:
        """The log up to a byte of one of its files, newest segment first."""
        newest = dataclasses.replace(self._segments[segment], end=end)
        return [newest, *reversed(self._segments[:segment])]

    def _run(self, judge: Judge, segments: list[Segment], progress: Callable[[int, int], None] | None = None) -> bool:
        """Whether all was judged."""
        gatherer = Gatherer(wants_items=False, traces=True, limits=self._limits)
        fold = Reconstruction(segments, limits=self._limits, gatherer=gatherer, observer=judge, progress=progress)
        try:
            fold.run()
        except Enough:
            return False
        return True

    def judge(self, step: Step, at: Place, count: int) -> Step:
        """The step as of the moment of `at`."""
        known = self._judged
        if known is None or not self._holds(known, at):
            known = self._look_ahead(at, count * _LINES_A_ROW)
        while not known.reaches(step.place):
            known = self._judge_up_to(at.segment, known.since, known.end, 4 * len(known.judge))
        self._judged = known
        return self._with_verdict(step, known.judge, known.segment)

    def _holds(self, known: _Judgement, at: Place) -> bool:
        if at.segment != known.segment or at.end > known.end or known.since - at.end > _BACK_BYTES:
            return False
        if at.end != known.end and self._may_move(at):
            return False
        if at.end < known.since:
            between = walk_forward(self._segments, at.segment, at.end, self._small)
            for place, line in between:
                if place.segment != at.segment or place.offset >= known.since:
                    break
                if read_step(place, line, self._limits).is_marker:
                    return False
            known.since = at.end
        return True

    def _may_move(self, at: Place) -> bool:
        """Whether a line can come to belong to a turn that begins behind it (S1: the run above a boundary)."""
        if at.end - at.offset > self._limits.line_bytes:
            return True
        line = self._segments[at.segment].source.read_at(at.offset, at.end - at.offset).removesuffix(b"\n")
        return self._line_may_move(read_step(at, line, self._limits), line)

    def _line_may_move(self, step: Step, line: bytes) -> bool:
        if envelope.decode_plain(line, self._limits.depth) is None:
            return True
        if step.name == "message":
            return step.facts.get("role") in ("user", "developer")
        return step.kind in (CONTEXT, DAMAGED) or step.name in _RUN_NAMES

    def _look_ahead(self, at: Place, lines: int) -> _Judgement:
        """A judgement that holds at a moment and, with luck, at many that come soon: until one where none holds on."""
        end = at.end
        if self._may_move(at):
            return self._judge_up_to(at.segment, end, end, lines)
        for place, line in walk_forward(self._segments, at.segment, at.end, self._small):
            step = read_step(place, line, self._limits)
            if place.segment != at.segment or step.is_marker or place.end - at.end > _AHEAD_BYTES:
                break
            if self._line_may_move(step, line):
                break
            end, lines = place.end, lines + 1
        return self._judge_up_to(at.segment, at.end, end, lines)

    def _judge_up_to(self, segment: int, since: int, end: int, lines: int) -> _Judgement:
        judge = Judge(lines)
        whole = self._run(judge, self.up_to(segment, end))
        return _Judgement(segment, since, end, judge, whole)

    def _with_verdict(self, step: Step, judge: Judge, newest: int) -> Step:
        found = judge.find(newest - step.place.segment, step.offset)
        if found is None:
            return dataclasses.replace(step, status="damaged" if step.reason else "blank")
        stay, status, by = found
        turn = None
        if stay.turn >= 0:
            span, segment = judge.turns[stay.turn]
            turn = span.turn_id or ids.derived_turn_id(self._segments[newest - segment].thread, span.opening.offset)
        reason = step.reason or stay.reason
        return dataclasses.replace(step, status=status, by_offset=by, turn_id=turn, reason=reason)

    def turn_of(self, step: Step) -> dict[str, Any]:
        """The turn that a judged step lies in: its id, and its opening line."""
        known = self._judged
        found = None if known is None else known.judge.find(known.segment - step.place.segment, step.offset)
        if known is None or found is None or found[0].turn < 0:
            return {"turn_id": step.turn_id}
        span, segment = known.judge.turns[found[0].turn]
        opening, k = span.opening.offset, known.segment - segment
        lines = walk_backward(self._segments, k, min(opening + span.opening.size + 1, self._segments[k].end))
        place, line = next(found for found in lines if found[0].offset <= opening)
        began = read_step(place, line, self._limits).timestamp
        return {"turn_id": step.turn_id, "turn_began": began, "turn_place": place}
