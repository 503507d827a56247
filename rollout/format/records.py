"""The record stream: the lines of a log with their places, forward or backward, over one file or a whole lineage.

Whoever looks at records takes the lines from here and asks `envelope.records_in` what one holds. A lineage is a
sequence of segments, the newest first; segment 0 is the log's own file. What is not kept of a file (a line beyond the
limit, a run of NUL bytes) comes as a value with its place, never as an exception. Only the reverse fold
(`rollout.fold.engine`) takes whole blocks from `rollout.format.lines` itself: it decodes as few lines as it can.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rollout.format import lines
from rollout.limits import DEFAULT, Limits


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """The first `end` bytes of one file of a lineage; `thread` is the file's own thread id ("" if it has none)."""

    source: lines.Source
    end: int
    thread: str = ""
    path: str | None = None


class Line(NamedTuple):
    """One line, without its line end, and the bytes from `offset` up to `end` of its segment that it takes.

    `number` counts from 1 in the file where it is read forward, and is 0 where it is read backward. `ends` says whether
    a line end belongs to it: not to the tail, nor to a piece before a run of NUL bytes.
    """

    segment: int
    number: int
    offset: int
    end: int
    data: bytes
    ends: bool
    skipped: Literal["oversize", "gap"] | None = None
    """Why `data` is empty: a line beyond the limit, or a run of NUL bytes; None for a line that is there."""


def forward(
    segments: Sequence[Segment],
    limits: Limits = DEFAULT,
    *,
    segment: int | None = None,
    start: int = 0,
    number: int = 1,
) -> Iterator[Line]:
    """The lines from byte `start` of a segment (None: of the oldest) to the end of the newest one, oldest first.

    A line begins at `start`; it is the line `number` of its file.

    Raises:
        TooLarge: A limit on the number of lines is exceeded.
    """
    oldest = len(segments) - 1 if segment is None else segment
    for k in range(oldest, -1, -1):
        for block in lines.forward(segments[k].source, start, segments[k].end, limits):
            if not isinstance(block, lines.Batch):
                line = _skipped(k, number, block)
                yield line
                number += line.ends
                continue
            offset, last = block.offset, len(block.lines) - 1
            for i, data in enumerate(block.lines):
                ends = i < last
                end = offset + len(data) + ends
                if ends or data:
                    yield Line(k, number, offset, end, data, ends)
                offset = end
                number += ends
        start, number = 0, 1


def backward(segments: Iterable[Segment], limits: Limits = DEFAULT, *, start: int = 0) -> Iterator[Line]:
    """The same lines, newest first, down to byte `start` of each segment, where a line begins.

    A segment is not asked for before the newer one is read.

    Raises:
        TooLarge: A limit on the number of lines is exceeded.
    """
    for k, segment in enumerate(segments):
        for block in lines.backward(segment.source, segment.end, limits, start):
            if not isinstance(block, lines.Batch):
                yield _skipped(k, 0, block)
                continue
            end, last = block.end, len(block.lines) - 1
            for i in range(last, -1, -1):
                data, ends = block.lines[i], i < last
                offset = end - len(data) - ends
                if ends or data:
                    yield Line(k, 0, offset, end, data, ends)
                end = offset


def _skipped(segment: int, number: int, block: lines.Oversize | lines.Gap) -> Line:
    end = block.offset + block.n
    if isinstance(block, lines.Gap):
        return Line(segment, number, block.offset, end, b"", ends=False, skipped="gap")
    return Line(segment, number, block.offset, end, b"", block.ended, "oversize")
