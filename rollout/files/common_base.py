"""What two logs have in common, and where they part.

Logs that refer to the same file have in common what both take of it. A fork that copied its source has its lines behind
its own session_meta: there line is compared with line, from the oldest on, as far as they are the same. The times at
their fronts do not count, which Codex renews as it copies, nor do the marks of batches, which a copy is written
without. Session_metas are passed over on both sides: a source that has since become a fork by reference has its own at
another place than the copy has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import SESSION_META
from rollout.dialects.codex.session_meta import facts_of
from rollout.errors import SourceError
from rollout.files import fork as forks
from rollout.files import recovery
from rollout.files.lineage import Lineage, Opened
from rollout.files.source import Origin
from rollout.format import records, strict_json
from rollout.format.records import Line, Segment
from rollout.limits import DEFAULT, Limits

Threads = Mapping[str, Sequence[Path]]
"""The files of each thread, newest first."""
_TIME = re.compile(rb'\{"timestamp":"[^"\\]*"')


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
    their_ids, our_ids = (_first_ids(segments, limits) for segments in (old, new))
    return None if their_ids.isdisjoint(our_ids) else _parting_of_copies(old, new, limits)


def is_all(segments: Sequence[Segment], place: tuple[int, int]) -> bool:
    """Whether nothing but session_metas of forks stands behind a place of a lineage."""
    number, end = place
    return end == segments[number].end and next(_lines(segments[:number], DEFAULT), None) is None


def find_copied(child: Opened, origin: Origin, of_thread: Threads) -> range:
    """The bytes of a fork that are copies: from behind its own session_meta on; none if it is no fork that copies.

    None either if its source is not there. `origin` says where bases are looked up, and in which file system.
    SourceError if the child cannot be read.
    """
    meta, facts = forks.meta_of(child), facts_of(child.session)
    if meta is None or facts.base is not None:
        return range(0)
    own = None if child.path is None else child.path.absolute()
    for path in of_thread.get(facts.forked_from or "", ()):
        if path == own:
            continue
        with (
            contextlib.suppress(SourceError),
            dataclasses.replace(origin, path=path, size=None).opened() as lineage,
        ):
            source, copies = list(lineage), [Segment(child.source, child.source.size)]
            found = None if lineage.missing else _parting_of_copies(source, copies, origin.limits)
            if found is not None:
                return range(meta.end, found.after[1])
    return range(0)


def _is_same(one: Opened, other: Opened) -> bool:
    if one.file is not None and other.file is not None:
        return one.file.identity == other.file.identity
    if one.file is not None or other.file is not None or one.source.size != other.source.size:
        return False
    return one.source.read_at(0, one.source.size) == other.source.read_at(0, other.source.size)


def _parting_of_copies(old: Sequence[Segment], new: Sequence[Segment], limits: Limits) -> Parting | None:
    found = None
    for line, copy in zip(_lines(old, limits), _lines(new, limits), strict=False):
        if line.data != copy.data and _without_time(line.data) != _without_time(copy.data):
            break
        found = Parting((line.segment, line.end), (copy.segment, copy.end))
    return found


def _lines(segments: Sequence[Segment], limits: Limits) -> Iterator[Line]:
    """The lines that hold any record but a session_meta, oldest first."""
    for line in records.forward(segments, limits):
        if any(envelope.type != SESSION_META for _, _, envelope in codec.records_in(line.data, limits.depth)):
            yield line


def _first_ids(segments: Sequence[Segment], limits: Limits) -> set[str]:
    """The ids of the session_metas at the beginning of a lineage."""
    found: set[str] = set()
    for line in records.forward(segments, limits):
        for _, data, envelope in codec.records_in(line.data, limits.depth):
            if envelope.type != SESSION_META:
                return found
            meta = strict_json.decode_value(codec.payload_of(data))
            if isinstance(meta, dict) and isinstance(meta.get("id"), str):
                found.add(meta["id"])
    return found


def _without_time(line: bytes) -> bytes:
    """A line that stands alone, but for the time at its front."""
    time = _TIME.match(line)
    return recovery.unmark(line[0 if time is None else time.end() :] + b"\n")
