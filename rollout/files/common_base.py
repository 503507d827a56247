"""Where two logs part: the newest line that both have.

Logs that refer to the same file have in common what both take of it. A fork that copied its source has its lines behind
its own session_meta: then line is compared with line, from the oldest on, as far as they are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from rollout.dialects.codex import envelope as codec
from rollout.files import recovery
from rollout.files.lineage import Lineage, Opened
from rollout.format import records
from rollout.format.records import Line, Segment
from rollout.limits import Limits


@dataclasses.dataclass(frozen=True, slots=True)
class Parting:
    """Where the newest line that two logs share ends: in which segment of either (0 is the newest), at which byte."""

    before: tuple[int, int]
    after: tuple[int, int]


def parting_of(before: Lineage, after: Lineage, limits: Limits) -> Parting | None:
    """None if they share no line. Reads no more than the heads of their files, or of copies what is the same."""
    old, new = list(before), list(after)
    for i, segment in enumerate(old):
        for j, other in enumerate(new):
            if _is_same(before.opened[i], after.opened[j]):
                end = min(segment.end, other.end)
                return Parting((i, end), (j, end)) if end > 0 else None
    return _parting_of_copies(old, new, limits)


def is_all(segments: Sequence[Segment], place: tuple[int, int]) -> bool:
    """Whether nothing but session_metas of forks stands behind a place of a lineage."""
    number, end = place
    return end == segments[number].end and not any(
        envelope.type != "session_meta"
        for line in records.forward(segments[:number])
        for _, _, envelope in codec.records_in(line.data)
    )


def _is_same(one: Opened, other: Opened) -> bool:
    if one.file is not None and other.file is not None:
        return one.file.identity == other.file.identity
    if one.file is not None or other.file is not None or one.source.size != other.source.size:
        return False
    return one.source.read_at(0, one.source.size) == other.source.read_at(0, other.source.size)


class _Id(msgspec.Struct):
    id: str | None = None


def _parting_of_copies(old: Sequence[Segment], new: Sequence[Segment], limits: Limits) -> Parting | None:
    theirs, ours = _Lines(old, limits), _Lines(new, limits)
    if theirs.ids.isdisjoint(ours.ids):
        return None
    found = None
    for (place, line), (other, copied) in zip(theirs, ours, strict=False):
        if line != copied:
            break
        found = Parting(place, other)
    return found


class _Lines:
    """The lines of a lineage, oldest first and without the marks of batches, behind the session_metas at its beginning.

    `ids` are those that the session_metas give.
    """

    def __init__(self, segments: Sequence[Segment], limits: Limits) -> None:
        self._depth = limits.depth
        self._lines = (line for line in records.forward(segments, limits) if line.skipped is None)
        self.ids: set[str] = set()
        self._first = None
        for line in self._lines:
            found = codec.records_in(line.data, self._depth)
            if any(envelope.type != "session_meta" for _, _, envelope in found):
                self._first = line
                break
            for _, data, _ in found:
                self._take_id(data)

    def _take_id(self, data: bytes) -> None:
        try:
            found = msgspec.json.decode(codec.payload_of(data), type=_Id).id
        except msgspec.ValidationError:
            return
        if found is not None:
            self.ids.add(found)

    def __iter__(self) -> Iterator[tuple[tuple[int, int], list[bytes]]]:
        if self._first is not None:
            yield self._told(self._first)
        yield from map(self._told, self._lines)

    def _told(self, line: Line) -> tuple[tuple[int, int], list[bytes]]:
        found = codec.records_in(line.data, self._depth)
        return (line.segment, line.end), [recovery.unmark(data + b"\n") for _, data, _ in found]
