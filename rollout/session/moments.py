"""Moments of a session, and the log as it was then.

What was written up to a moment is all that counts: a compaction or a rollback that came later has not happened. The
state at a moment is that of a file that ends there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from rollout.errors import Ambiguous, NotFound, UsageError
from rollout.files import positions
from rollout.files.positions import Extent
from rollout.files.source import Origin
from rollout.fold.turn_list import Turn
from rollout.format.records import Segment
from rollout.session.state import read_turns

Progress = Callable[[int, int], None]
_SHOWN = 5


class AtOrdinal(int):
    """The moment behind the line that carries a number; `at_ordinal` makes one."""


class AtLine(int):
    """The moment behind a line of the file; `at_line` makes one."""


def at_ordinal(ordinal: int) -> AtOrdinal:
    """The moment behind the line that carries this `ordinal`, as `at` takes it (a plain int is a byte offset there)."""
    return AtOrdinal(ordinal)


def at_line(line: int) -> AtLine:
    """The moment behind that line of the file itself, from 1, as `explain` tells it."""
    return AtLine(line)


At: TypeAlias = str | int
"""A turn's id, its unique beginning or its unique end (as that turn ended); an `at_ordinal` or an `at_line` (behind
that line); the byte offset behind a line."""


def origin_at(origin: Origin, at: At | None, progress: Progress | None = None) -> Origin:
    """The log as it was at that moment (None: as it is). A moment that lies in a base is one of that file.

    To find a turn reads everything, a line or an ordinal all before.

    Raises:
        NotFound: There is no such turn, line or ordinal.
        Ambiguous: Several turns have an id that begins, or ends, so.
        UsageError: No line ends at that byte, or it is no moment at all.
    """
    if at is None:
        return origin
    with origin.opened() as lineage:
        segments = list(lineage)
        now = dataclasses.replace(origin, size=lineage.end)
        if type(at) is int and at == lineage.end:
            return now
        found = extent_at(now, segments, at, progress=progress)
    path = segments[found.segment].path
    if found.segment == 0 or path is None:
        return dataclasses.replace(now, size=found.offset)
    return Origin(None, Path(path), origin.home, origin.limits, size=found.offset, fs=origin.fs, keys=origin.keys)


def extent_at(
    origin: Origin, segments: Sequence[Segment], at: At, *, before: bool = False, progress: Progress | None = None
) -> Extent:
    """How far the log had come: `segments` are those of `origin`, newest first. `before`: as the turn began."""
    if isinstance(at, bool) or not isinstance(at, int | str):
        raise UsageError(
            f"{at!r} is no point of a log", remedy="give a turn id, at_line(n), at_ordinal(n) or a byte offset"
        )
    if isinstance(at, AtOrdinal):
        return positions.extent_at_ordinal(segments, at, origin.limits)
    if isinstance(at, AtLine):
        return positions.extent_at_line(segments, at)
    if isinstance(at, int):
        return positions.extent_at_offset(segments, at)
    turns = read_turns(origin, progress)
    i = _find(turns, at, origin.path)
    of_path = {segment.path: number for number, segment in enumerate(segments)}
    places = [(of_path[turn.path], turn.offset) for turn in turns[i : i + 2]]
    if before:
        return positions.extent_at_offset(segments, places[0][1], places[0][0])
    return positions.extent_of_turn(segments, places[0], places[1] if len(places) > 1 else None, origin.limits)


def _find(turns: Sequence[Turn], wanted: str, path: Path | None) -> int:
    """Which turn that is; of several with one id the newest."""
    wanted = wanted.removeprefix("…")  # as a narrow terminal shows an id
    if not wanted:
        raise UsageError("an empty turn id", path=path, remedy="give a turn id or the beginning of one")
    for fits in (str.__eq__, str.startswith, str.endswith):
        found = {turn.id: i for i, turn in enumerate(turns) if fits(turn.id, wanted)}
        if len(found) == 1:
            return found.popitem()[1]
        if found:
            shown = ", ".join(list(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            raise Ambiguous(f"{len(found)} turns fit {wanted!r}", path=path, remedy=f"give more of the id: {shown}")
    raise NotFound(f"there is no turn {wanted}", path=path, remedy="`rollout turns --all` lists all that there are")
