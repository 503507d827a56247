"""Where two logs part: the newest line that both have.

Logs that refer to the same file have in common what both take of it. A fork that copied its source has its lines behind
its own session_meta: then line is compared with line, from the oldest on, as far as they are the same.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import SESSION_META
from rollout.files import recovery
from rollout.files.lineage import Lineage, Opened
from rollout.format import records, strict_json
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
        envelope.type != SESSION_META
        for line in records.forward(segments[:number])
        for _, _, envelope in codec.records_in(line.data)
    )


def _is_same(one: Opened, other: Opened) -> bool:
    if one.file is not None and other.file is not None:
        return one.file.identity == other.file.identity
    if one.file is not None or other.file is not None or one.source.size != other.source.size:
        return False
    return one.source.read_at(0, one.source.size) == other.source.read_at(0, other.source.size)


def _parting_of_copies(old: Sequence[Segment], new: Sequence[Segment], limits: Limits) -> Parting | None:
    (their_ids, theirs), (our_ids, ours) = _behind_metas(old, limits), _behind_metas(new, limits)
    if their_ids.isdisjoint(our_ids):
        return None
    found = None
    for line, copied in zip(theirs, ours, strict=False):
        if _unmarked(line, limits) != _unmarked(copied, limits):
            break
        found = Parting((line.segment, line.end), (copied.segment, copied.end))
    return found


def _behind_metas(segments: Sequence[Segment], limits: Limits) -> tuple[set[str], Iterator[Line]]:
    """The ids of the session_metas at the beginning of a lineage, and the lines behind these, oldest first."""
    kept = (line for line in records.forward(segments, limits) if line.skipped is None)
    found: set[str] = set()
    for line in kept:
        held = codec.records_in(line.data, limits.depth)
        if any(envelope.type != SESSION_META for _, _, envelope in held):
            return found, itertools.chain([line], kept)
        metas = (strict_json.decode_value(codec.payload_of(data)) for _, data, _ in held)
        found |= {meta["id"] for meta in metas if isinstance(meta, dict) and isinstance(meta.get("id"), str)}
    return found, iter(())


def _unmarked(line: Line, limits: Limits) -> list[bytes]:
    """The records of a line without the marks of batches."""
    return [recovery.unmark(data + b"\n") for _, data, _ in codec.records_in(line.data, limits.depth)]
