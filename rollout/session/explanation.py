"""`explain`: each line of a log with what became of it and its turn, and with its record where that is asked for."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from rollout.dialects.codex.dialect import CODEX
from rollout.files.encrypted.keys import Cipher
from rollout.files.lineage import Lineage
from rollout.files.port import Progress
from rollout.files.source import AnySource, Origin, find
from rollout.fold.collector import Collector, Names
from rollout.fold.engine import Observer, Reconstruction
from rollout.fold.line_status import DAMAGED, LineStatuses
from rollout.fold.turn_list import Turn, TurnCollector
from rollout.format.lines import Damage
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits
from rollout.session.record import Record, RecordReader
from rollout.session.state import At, items_of, origin_at, read_turns


class Explained(msgspec.Struct, frozen=True, gc=False):
    """One line (a line that holds several records gives several of these).

    `status` is one of visible, replaced (by the compaction in line `by`), rolled_back (by the marker in line `by`),
    removed (by the items_removed in line `by`), metadata, event, damaged (`reason`), blank. `inherited` is the
    thread id of the base that the line lies in, None for the file's own lines; `path` is the file that it lies in.
    `type` and `kind` are those of the `Record` there (cut at 200 characters), None where the bytes are no record.
    `turn` is the number of its turn in `Explanation.turns`, None for what stands before the first one.
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
    turn: int | None = None


class Explanation:
    """The lines of a whole lineage, oldest first, made by `rollout.explain`; iterate as often as you like.

    The log is read once, backward, and a few bytes of each line are kept; `records` reads it once more, forward.
    """

    damage: tuple[Damage, ...]
    """What is wrong with the files themselves: missing bases, sealed frames."""

    def __init__(
        self,
        origin: Origin,
        progress: Progress | None = None,
        *,
        whole: bool = True,
        with_turns: bool = False,
        gatherer: Collector | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """`gatherer` traces, and gathers turns if they are asked for; `observers` see the same fold.

        Not `whole`: of the bases no more is read than it takes to know what became of the file's own lines.
        """
        self._origin, self._statuses, self._names = origin, LineStatuses(), Names()
        gatherer = gatherer or Collector(
            CODEX, wants_items=False, wants_turns=with_turns, traces=True, limits=origin.limits
        )
        gatherer.names = self._names
        with origin.opened() as lineage:
            collector = TurnCollector(lineage.segments, items_of(origin))
            seeing = [self._statuses.see, *([collector.see] if with_turns else []), *observers]
            answer = Reconstruction(
                lineage,
                gatherer,
                observers=seeing,
                progress=progress,
                is_enough=lambda floor: not whole and floor is not None and floor.segment > 0,
            ).run()
            self._segments = [(segment.thread, segment.path) for segment in lineage.segments]
            self._hidden = [] if origin.size is not None else _hidden_lines(lineage)
            self.damage = tuple(lineage.damage())
            if with_turns:
                self.turns = collector.turns(answer.line_counts)
        self._counts = answer.line_counts
        assert len(self._names.numbers) == len(self._statuses)

    @functools.cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turns (S1), oldest first, those that were rolled back too: as `rollout.turns` gives them.

        Known if they were asked for with the lines; else the log is read for them when they are touched.

        Raises:
            SourceError: A file of the log can no longer be read.
        """
        return read_turns(self._origin)

    def __len__(self) -> int:
        return len(self._statuses) + len(self._hidden)

    def __iter__(self) -> Iterator[Explained]:
        shown, above, inherited, path = None, 0, None, self._segments[0][1]
        newest = -1
        turn: int | None = None
        turn_id: str | None = None
        named, count = self._names.named, len(self._statuses.turns)
        threads = [thread for thread, _ in self._segments]
        for (run, offset, newlines, status, by), number in zip(
            self._statuses, reversed(self._names.numbers), strict=True
        ):
            if run is not shown:  # neighbouring lines share most of what there is to say
                shown, above = run, (self._counts[run.segment] or 0) + 1
                if run.turn != newest:
                    newest, turn = run.turn, None if run.turn < 0 else count - 1 - run.turn
                    turn_id = self._statuses.turn_id(run.turn, threads)
                thread, path = self._segments[run.segment]
                inherited = thread if run.segment > 0 else None
            line = above - newlines
            type, kind = named[number]
            by_line = by_offset = by_thread = None
            if by is not None:
                at, by_offset, by_newlines = by
                by_thread = self._segments[at][0] if at > 0 else None
                by_line = (self._counts[at] or 0) - by_newlines + 1
            reason = run.reason if by is None else None
            yield Explained(
                line, offset, status, turn_id, by_line, by_offset, by_thread, reason, inherited, path, type, kind, turn
            )
        line, path = (self._counts[0] or 0) + 1, self._segments[0][1]
        for k, offset in enumerate(self._hidden):
            why = "part of a batch of lines that a crash has cut short"
            yield Explained(line + k, offset, DAMAGED, None, None, None, None, why, None, path, None, None, turn)

    def records(self, wanted: Callable[[Explained], bool] | None = None) -> Iterator[tuple[Explained, Record | None]]:
        """Each line with its record, read as it is asked for; without one (None) if it has none or is not `wanted`.

        Nothing of a line that is not wanted is decoded.

        Raises:
            SourceError: A file of the log can no longer be read.
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


def explain(
    source: AnySource,
    *,
    at: At | None = None,
    with_turns: bool = False,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """For each line of the file and its bases, whether the model sees it, and why not (S2, S3). Reads everything.

    Args:
        source: As in `reconstruct`, and so are `at`, `home`, `limits`, `cipher` and `progress`.
        with_turns: `Explanation.turns` will be asked for: the same pass over the log gathers them.

    Returns:
        The lines, to be iterated over as often as is wanted, and their records.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return Explanation(origin_at(find(source, home, limits, cipher), at, progress), progress, with_turns=with_turns)


def statuses_back_to(
    segments: Sequence[Segment],
    oldest: tuple[int, int] | None,
    limits: Limits,
    progress: Progress | None = None,
) -> LineStatuses:
    """What became of the lines of a log (newest segment first), at least of all from `oldest` on (None: of all).

    `oldest` is the number of a segment and an offset in it. No more is read than what became of these lines needs.
    """
    statuses = LineStatuses()
    wanted = None if oldest is None else (oldest[0], -oldest[1])
    collector = Collector(CODEX, wants_items=False, traces=True, limits=limits)
    Reconstruction(
        segments,
        collector,
        observers=[statuses.see],
        progress=progress,
        is_enough=lambda _: wanted is not None and statuses.oldest >= wanted,
    ).run()
    return statuses


def _hidden_lines(lineage: Lineage) -> list[int]:
    """Where the lines of an incomplete batch at the end begin."""
    source = lineage.opened[0].source
    if lineage.end == source.size:
        return []
    found = source.read_at(lineage.end, source.size - lineage.end).rstrip(b"\n").split(b"\n")
    return list(itertools.accumulate((len(line) + 1 for line in found[:-1]), initial=lineage.end))
