"""Points of a log: how far it had come when something was the newest there was.

A point is the end of a line of one file of a lineage. What lies behind it does not exist for who reads up to there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.envelope import records_in
from rollout.errors import NotFound, UsageError
from rollout.files.encrypted.reader import plain_source
from rollout.files.log_end import ordinal_of
from rollout.format import lines, records
from rollout.format.records import Segment
from rollout.items.events import LineKind, TurnAborted, TurnEnded, TurnsRemoved, TurnStarted
from rollout.limits import DEFAULT, KIB, Limits

_AROUND_BYTES = 64 * KIB
"""How far from a wrong offset a right one is looked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """The first `offset` bytes of segment number `segment` (0 is the newest), and what that goes on from.

    `ends_line`: the last of them is a line end.
    """

    segment: int
    offset: int
    ends_line: bool = True


def extent_at_offset(segments: Sequence[Segment], offset: int, segment: int = 0) -> Extent:
    """Up to byte `offset` of a file, which is to be the end of a line. UsageError."""
    file = segments[segment]
    at = min(max(offset, 0), file.end)
    begin, stop = max(at - _AROUND_BYTES, 0), min(at + _AROUND_BYTES, file.end)
    around = plain_source(file.source).read_at(begin, stop - begin)
    above, below = around.rfind(b"\n", 0, at - begin) + 1, around.find(b"\n", at - begin) + 1
    if above and offset == begin + above:
        return Extent(segment, offset)
    near = " or ".join(str(begin + end) for end in (above, below) if end)
    remedy = f"give the offset behind a line end{near and f': {near}'}"
    raise UsageError("no line ends there", path=file.path, offset=offset, remedy=remedy)


def extent_at_line(segments: Sequence[Segment], number: int) -> Extent:
    """Up to the end of line `number` (from 1) of the newest file. NotFound."""
    file, last = segments[0], 0
    for line in records.forward([dataclasses.replace(file, source=plain_source(file.source))]):
        last = line.number
        if last > number:
            break
        if last == number and (line.ends or line.end == file.end):
            return Extent(0, line.end, line.ends)
    remedy = f"give a number from 1 to {last}" if number > 0 else "give a number from 1 on"
    raise NotFound(f"there is no line {number}", path=file.path, remedy=remedy)


def extent_at_ordinal(segments: Sequence[Segment], ordinal: int, limits: Limits = DEFAULT) -> Extent:
    """Up to the end of the line with that ordinal, in whichever file it lies. NotFound."""
    for i, segment in enumerate(segments):
        for line in records.forward([segment], limits):
            if any(ordinal_of(data) == ordinal for _, data, _ in records_in(line.data, limits.depth)):
                return Extent(i, line.end, line.ends)
    remedy = "give a turn id, a line or a byte offset" if ordinal >= 0 else "give an ordinal from 0 on"
    raise NotFound(f"no line has ordinal {ordinal}", path=segments[0].path, remedy=remedy)


def extent_of_turn(
    segments: Sequence[Segment],
    start: tuple[int, int],
    stop: tuple[int, int] | None,
    limits: Limits = DEFAULT,
) -> Extent:
    """Up to the end of the turn that begins at `start` (segment, offset); the next one begins at `stop`.

    As the turn stood when it ended. One without an end reaches to the next one, but not over a rollback.
    """
    behind, is_explicit, own_id = None, False, None
    for line in records.forward(segments, limits, segment=start[0], start=start[1]):
        if stop is not None and line.segment == stop[0] and line.offset >= stop[1]:
            break
        extent, tells = Extent(line.segment, line.end, line.ends), False
        for _, data, record in records_in(line.data, limits.depth):
            event = CODEX.event_of(data, record, False)
            tells = tells or event is not LineKind.SESSION
            match event:
                case TurnStarted() if behind is None:
                    is_explicit, own_id = True, event.turn_id
                case TurnsRemoved() if behind is not None:
                    return behind
                case TurnEnded() if is_explicit:
                    return extent
                case TurnAborted(turn_id=id) if own_id is None or id is None or own_id == id:
                    return extent
        behind = extent if tells else behind
    if behind is None:
        raise NotFound("the turn is no longer there", path=segments[start[0]].path, offset=start[1])
    return behind


def line_number(segments: Sequence[Segment], extent: Extent) -> int:
    """Which line of its file (from 1) an extent ends with; 0 for none. Reads the file up to there."""
    source = plain_source(segments[extent.segment].source)
    has_tail = extent.offset > 0 and source.read_at(extent.offset - 1, 1) != b"\n"
    return lines.count_ends(source, 0, extent.offset) + has_tail
