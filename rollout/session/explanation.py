"""`explain`: why the model sees a line, or does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec

from rollout import ids
from rollout.files.lineage import Lineage
from rollout.files.source import Origin
from rollout.fold import line_status
from rollout.fold.engine import Reconstruction
from rollout.fold.line_types import Names
from rollout.session.record import Record, RecordReader


class Explained(msgspec.Struct, frozen=True, gc=False):
    """One line (a line that holds several records gives several of these).

    `status` is one of visible, replaced (by the compaction in line `by`), rolled_back (by the marker in line `by`),
    removed (by the items_removed in line `by`), metadata, event, damaged (`reason`), blank. `inherited` is the
    thread id of the base that the line lies in, None for the file's own lines; `path` is the file that it lies in.
    `type` and `kind` are those of the `Record` there (cut at 200 characters), None where the bytes are no record.
    """

    line: int
    offset: int
    status: str
    turn_id: str | None
    by: int | None
    by_offset: int | None
    by_inherited: str | None
    reason: str | None
    inherited: str | None
    path: str | None
    type: str | None
    kind: str | None


class Explanation:
    """The lines of a whole lineage, oldest first; iterate as often as you like.

    `whole`: else of the bases no more than it takes to know what became of the file's own lines.
    """

    def __init__(
        self, origin: Origin, progress: Callable[[int, int], None] | None = None, *, whole: bool = True
    ) -> None:
        self._origin, self._verdicts, self._names = origin, line_status.Verdicts(), Names()
        with origin.opened() as lineage:
            answer = Reconstruction(
                lineage,
                limits=origin.limits,
                gatherer=line_status.NamingGatherer(self._names, origin.limits),
                observer=self._verdicts,
                progress=progress,
                is_floor=lambda floor: not whole and floor.segment > 0,
            ).run()
            self._segments = [(segment.thread, segment.path) for segment in lineage.segments]
            self._hidden = [] if origin.size is not None else _hidden_lines(lineage)
            self.damage = tuple(lineage.damage())
            """What is wrong with the files themselves: missing bases, sealed frames."""
        self._counts = answer.line_counts
        assert len(self._names.numbers) == len(self._verdicts)

    def __len__(self) -> int:
        return len(self._verdicts) + len(self._hidden)

    def __iter__(self) -> Iterator[Explained]:
        turns = [
            span.turn_id or ids.derived_turn_id(self._segments[segment][0], span.opening.offset)
            for span, segment in self._verdicts.turns
        ]
        shown, above, turn, inherited, path = None, 0, None, None, self._segments[0][1]
        named = self._names.named
        for (stay, offset, newlines, status, by), number in zip(
            self._verdicts, reversed(self._names.numbers), strict=True
        ):
            if stay is not shown:  # neighbouring lines share most of what there is to say
                shown, above = stay, (self._counts[stay.segment] or 0) + 1
                turn = turns[stay.turn] if stay.turn >= 0 else None
                thread, path = self._segments[stay.segment]
                inherited = thread if stay.segment > 0 else None
            line = above - newlines
            type, kind = named[number]
            if by is None:
                yield Explained(line, offset, status, turn, None, None, None, stay.reason, inherited, path, type, kind)
            else:
                at, by_offset, by_newlines = by
                by_thread = self._segments[at][0] if at > 0 else None
                by_line = (self._counts[at] or 0) - by_newlines + 1
                yield Explained(
                    line, offset, status, turn, by_line, by_offset, by_thread, None, inherited, path, type, kind
                )
        line, path = (self._counts[0] or 0) + 1, self._segments[0][1]
        for k, offset in enumerate(self._hidden):
            yield Explained(line + k, offset, "damaged", None, None, None, None, _CUT_SHORT, None, path, None, None)

    def records(self, wanted: Callable[[Explained], bool] | None = None) -> Iterator[tuple[Explained, Record | None]]:
        """Each line with its record, read as it is asked for; without one (None) if it has none or is not `wanted`.

        Nothing of a line that is not wanted is decoded.
        """
        with self._origin.opened() as lineage:
            segments = {segment.path: segment for segment in lineage}
            path, reader = None, None
            for line in self:
                if reader is None or line.path != path:
                    path, segment = line.path, segments.get(line.path)
                    reader = None if segment is None else RecordReader(segment, self._origin.limits)
                is_read = reader is not None and line.type is not None and (wanted is None or wanted(line))
                yield line, reader.at(line.offset) if reader is not None and is_read else None


_CUT_SHORT = "part of a batch of lines that a crash has cut short"


def _hidden_lines(lineage: Lineage) -> list[int]:
    """Where the lines of an incomplete batch at the end begin."""
    source = lineage.opened[0].source
    if lineage.end == source.size:
        return []
    found = source.read_at(lineage.end, source.size - lineage.end).rstrip(b"\n").split(b"\n")
    return list(itertools.accumulate((len(line) + 1 for line in found[:-1]), initial=lineage.end))
