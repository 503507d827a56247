"""The newest lines of a session, and those that follow while it is written.

A line is told once it has its end (and its batch is whole), with what it is and what became of it by then: what is
written later can take it back, which is told as a notice. A *notice* is whatever happens to the file beside growing: it
is cut, replaced, sealed, moved, deleted, or the thread goes on in another file. Only looks at the disk, again and
again, and only the new bytes are read: it takes no lock, and needs nobody to tell it anything.

Bytes that come and go between two looks are not seen. Of a file that was replaced, what stands behind the last place
where both were the same is told anew; where there is none, what is appended from then on.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from rollout.dialects.codex.dialect import CODEX
from rollout.errors import NotFound, UsageError
from rollout.files.encrypted.keys import Cipher
from rollout.files.file_watch import Whereabouts, Whereto
from rollout.files.lineage import Lineage
from rollout.files.port import Status
from rollout.files.source import Origin, find
from rollout.format import lines, records
from rollout.format.lines import Source
from rollout.format.records import Segment
from rollout.items.events import ItemsRemoved, Replaced, TurnsRemoved
from rollout.limits import DEFAULT, Limits
from rollout.session.explanation import statuses_back_to
from rollout.session.record import Record, read_records

Happening: TypeAlias = Literal["line", "undone", "cut", "replaced"] | Whereto

_MARKERS = (TurnsRemoved, ItemsRemoved, Replaced)
_LOST = {"rolled_back": "rolled back", "replaced": "compacted away", "removed": "removed"}
_LEAST_S = 0.01
_MOST_PLACES, _MOST_VISIBLE = 256, 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class FollowEvent:
    """A line that was written (`happened` is "line": `record`, its `status` as in `explain`, its turn), or a notice.

    A notice says in words `what` happened. `path` is the file then, `line` counts from 1 in it.
    """

    happened: Happening
    path: Path
    record: Record | None = None
    status: str | None = None
    turn_id: str | None = None
    what: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """A line end that was told of: its offset, the number of lines before it, a checksum of the bytes before it."""

    end: int
    lines: int
    join: bytes

    def holds(self, source: Source, end: int) -> bool:
        """Whether a source, of which the first `end` bytes count, still has it."""
        return self.end <= end and lines.checksum_before(source, self.end) == self.join


class Tail:
    """Follows one thread from a file of it on. Call `look` as often as there may be something new."""

    def __init__(self, origin: Origin, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.is_over = path, False
        self._origin, self._limits = origin, origin.limits
        self._whereabouts = Whereabouts(path, origin.home, origin.fs, clock)
        self._status: Status | None = None
        self._size_bytes = 0
        self._visible: deque[int] = deque(maxlen=_MOST_VISIBLE)  # where lines begin that were told as visible
        self._places: deque[_Place] = deque(maxlen=_MOST_PLACES)

    def begin(self, last: int | None) -> Iterator[FollowEvent]:
        """The `last` lines that stand there now (None: all). SourceError."""
        self._status = self._origin.fs.status(self.path)
        with dataclasses.replace(self._origin, path=self.path).opened() as lineage:
            source = lineage.opened[0].source
            end = lines.last_line_end(source, 0, lineage.end)
            start = 0 if last is None else _start_of_last(source, end, last, self._limits)
            yield from self._told(lineage, _Place(start, lines.count_ends(source, 0, start), b""), end)

    def look(self) -> Iterator[FollowEvent]:
        """What has happened since the last look. SourceError if the file that is there cannot be read."""
        yield from self._find()
        if self.is_over:
            return
        with contextlib.ExitStack() as held:
            try:
                status = self._origin.fs.status(self.path)
                if status == self._status:
                    return
                lineage = held.enter_context(dataclasses.replace(self._origin, path=self.path).opened())
            except (FileNotFoundError, NotADirectoryError, NotFound):
                return  # gone between two looks: the next one finds out where to
            source = lineage.opened[0].source
            end, before = lines.last_line_end(source, 0, lineage.end), self._places[-1]
            while self._places and not self._places[-1].holds(source, end):
                self._places.pop()  # what came behind the last place that is still there is forgotten
            place = self._places[-1] if self._places else None
            is_other = self._status is not None and self._status.identity != status.identity
            if source.size < self._size_bytes and (place is before or not is_other):
                what = "a write that was cut short is gone" if place is before else "lines that were told are gone"
                yield FollowEvent("cut", self.path, what=f"{self._size_bytes - source.size:,} bytes less: {what}")
            elif place is not before:
                yield FollowEvent("replaced", self.path, what="other bytes stand in its place")
            self._status = status
            yield from self._told(lineage, place or _place(source, end, 0), end)

    def _find(self) -> Iterator[FollowEvent]:
        """Whether the file is where it was, and whether the thread goes on in another one."""
        notice = self._whereabouts.look()
        if notice is None:
            return
        self.path, self.is_over = notice.path, notice.happened == "deleted"
        yield FollowEvent(notice.happened, notice.path, what=notice.what)
        if notice.happened == "continued":
            self._places.clear()
            self._visible.clear()
            yield from self.begin(None)

    def _told(self, lineage: Lineage, place: _Place, end: int) -> Iterator[FollowEvent]:
        """The lines from a place on, and what they took back."""
        source, path = lineage.opened[0].source, self.path
        self._size_bytes = source.size
        now = _place(source, end, place.end, place.lines)
        self._places.append(now)
        while self._visible and self._visible[-1] >= place.end:
            self._visible.pop()  # of lines that are gone
        if now.end == place.end:
            return
        newest, *older = lineage
        log = [dataclasses.replace(newest, end=end), *older]
        statuses, threads = statuses_back_to(log, (0, place.end), self._limits), [each.thread for each in log]
        before, has_marker = tuple(self._visible), False
        for record in read_records(log, self._limits, segment=0, start=place.end, number=place.lines + 1):
            found = statuses.find(0, record.offset)
            status = found[1] if found else "damaged" if record.is_damaged else record.type
            turn_id = statuses.turn_id(found[0].turn, threads) if found else None
            if not record.is_damaged and isinstance(CODEX.event_of(record.data, record.envelope, False), _MARKERS):
                has_marker = True
            if status == "visible":
                self._visible.append(record.offset)
            yield FollowEvent("line", path, record, status, turn_id)
        if has_marker and before and (what := self._taken_back(before, log)):
            yield FollowEvent("undone", path, what=what)

    def _taken_back(self, before: Sequence[int], log: Sequence[Segment]) -> str:
        """What became of lines that were told as visible, in words."""
        statuses = statuses_back_to(log, (0, before[0]), self._limits)
        now = {offset: found[1] for offset in before if (found := statuses.find(0, offset)) is not None}
        counts = collections.Counter(status for status in now.values() if status in _LOST)
        self._visible = deque((each for each in self._visible if now.get(each) not in _LOST), _MOST_VISIBLE)
        told = ", ".join(f"{count:,} {_LOST[status]}" for status, count in counts.items())
        total = sum(counts.values())
        return f"{total:,} line{'s' if total > 1 else ''} above the model no longer sees: {told}" if counts else ""


def tail(
    source: str | os.PathLike[str] | int,
    *,
    last: int | None = 10,
    follow: bool = False,
    kinds: Collection[str] = (),
    statuses: Collection[str] = (),
    turn: str | None = None,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    interval_s: float = 0.25,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FollowEvent]:
    """The `last` lines of a session (None: all), and with `follow` whatever happens to it until it is deleted.

    Notices are told always, lines where they fit.

    Args:
        source: As in `reconstruct`, but for bytes; `home`, `limits` and `cipher` are as there.
        last: How many of the newest lines to begin with.
        follow: Whether to go on when these are told.
        kinds: Lines of these types (a line's own, or that of its payload) alone; none given: of all.
        statuses: Lines with these statuses (as in `explain`) alone.
        turn: Lines of the turn with this id, or beginning of one, alone.
        interval_s: Seconds from one look to the next; a look that takes longer is not hurried.
        sleep: What waits so many seconds.
        clock: What tells the seconds.

    Raises:
        SourceError: The session cannot be read, or (NotFound) is not there.
        UsageError: `last` is negative, or the source is bytes.
    """
    if last is not None and last < 0:
        raise UsageError(f"{last} is no number of lines", remedy="give 0 or more")
    origin = find(source, home, limits, cipher)
    if origin.path is None:
        raise UsageError("bytes in memory do not grow", remedy="give a path, a thread id or -1")

    def fits(told: FollowEvent) -> bool:
        record = told.record
        return record is None or (
            (not kinds or record.type in kinds or record.kind in kinds)
            and (not statuses or told.status in statuses)
            and (turn is None or (told.turn_id or "").startswith(turn))
        )

    tailing = Tail(origin, origin.path.absolute(), clock)
    yield from filter(fits, tailing.begin(last))
    while follow and not tailing.is_over:
        begun_s = clock()
        yield from filter(fits, tailing.look())
        if not tailing.is_over:
            sleep(max(interval_s, _LEAST_S, clock() - begun_s))


def _place(source: Source, end: int, start: int, count: int = 0) -> _Place:
    """A line end; `count` lines stand ahead of `start`."""
    return _Place(end, count + lines.count_ends(source, start, end), lines.checksum_before(source, end))


def _start_of_last(source: Source, end: int, count: int, limits: Limits) -> int:
    """Where the newest `count` lines before the line end at `end` begin."""
    if count == 0:
        return end
    newest_first = records.backward([Segment(source, end)], limits)
    return next(itertools.islice((line.offset for line in newest_first if line.ends), count - 1, None), 0)
