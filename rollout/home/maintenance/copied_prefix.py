"""Which lines of a fork are copies of its source's.

A fork that copies holds the lines of its source's lineage behind its own session_meta. A line is a copy if it has the
bytes of the source's, but for the time at its front, which Codex renews as it copies, and the mark of a batch, which a
copy is written without. The session_metas of the lineage are passed over on both sides: a source that has since become
a fork by reference has its own at another place than the copy has. The source may have grown since.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import SESSION_META
from rollout.dialects.codex.session_meta import facts_of
from rollout.errors import SourceError
from rollout.files import fork as forks
from rollout.files.lineage import Opened
from rollout.files.recovery import unmark
from rollout.files.source import Origin
from rollout.format import records
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits

_META_SIGN = b'"%b"' % SESSION_META.encode()
_BATCH_SIGN = b',"batch":['
_HEAD_BYTES = 512
_TIME = re.compile(rb'\{"timestamp":"[^"\\]*"')


Threads = Mapping[str, Sequence[Path]]
"""The files of each thread, newest first."""


class _Id(msgspec.Struct, frozen=True):
    id: str | None = None


def find_copied(child: Opened, origin: Origin, of_thread: Threads) -> range:
    """The bytes of a fork that are copies: from behind its own session_meta on; none if it is no fork that copies.

    None either if its source is not there. `origin` says where bases are looked up, and in which file system.
    SourceError if the child cannot be read.
    """
    meta, facts = forks.meta_of(child), facts_of(child.session)
    if meta is None or facts.base is not None or child.source.read_at(0, meta.end).count(b"\n") != 1:
        return range(0)
    own = None if child.path is None else child.path.absolute()
    for path in of_thread.get(facts.forked_from or "", ()):
        if path != own:
            try:
                with dataclasses.replace(origin, path=path, size=None).opened() as lineage:
                    segments = list(lineage)
                    found = None if lineage.missing else _match(child, meta.end, segments[::-1], origin.limits)
            except SourceError:
                continue
            if found is not None:
                return range(meta.end, found)
    return range(0)


def _match(child: Opened, start: int, segments: list[Segment], limits: Limits) -> int | None:
    """Where the copies end: along both, as far as they are the same. `segments` are oldest first."""
    known: set[str | None] = {segment.thread for segment in segments}
    passed: set[str | None] = set()  # whose session_metas the copies hold
    pending: set[str | None] = set()
    theirs = _records(segments, known)
    end: int | None = None
    for line, child_end in _lines(Segment(child.source, child.source.size), limits, start):
        if _is_meta(line):
            pending.add(_id_of(line))
            continue
        other = next(theirs, None)
        if other is None or not _is_copy(line, other):
            break
        passed |= pending
        end = child_end
    return end if passed <= known else None


def _records(segments: list[Segment], known: set[str | None]) -> Iterator[bytes]:
    """The lines of the segments but for session_metas, whose ids become `known`."""
    for segment in segments:
        for line, _ in _lines(segment, DEFAULT):
            if _is_meta(line):
                if (thread := _id_of(line)) is not None:
                    known.add(thread)
            else:
                yield unmark(line + b"\n")[:-1] if _BATCH_SIGN in line[-64:] else line


def _lines(segment: Segment, limits: Limits, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Whole lines without their ends, each with the offset behind it; up to what is no line of ordinary length."""
    for line in records.forward([segment], limits, start=start):
        if line.skipped is not None or not line.ends:
            return
        yield line.data, line.end


def _is_copy(one: bytes, other: bytes) -> bool:
    """Whether two lines are the same, but for their times."""
    if one == other:
        return True
    ours, theirs = _TIME.match(one), _TIME.match(other)
    if ours is None or theirs is None or len(one) - ours.end() != len(other) - theirs.end():
        return False
    return memoryview(one)[ours.end() :] == memoryview(other)[theirs.end() :]


def _is_meta(line: bytes) -> bool:
    if _META_SIGN not in line[:_HEAD_BYTES]:
        return False
    envelope = codec.decode_plain(line, DEFAULT.depth)
    return envelope is not None and envelope.type == SESSION_META


def _id_of(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(codec.payload_of(line), type=_Id).id
    except msgspec.ValidationError:
        return None
