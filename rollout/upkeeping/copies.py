"""Which lines of a fork are copies of its source's.

A fork that copies holds the lines of its source's lineage behind its own session_meta. A line is a copy if it has the
bytes of the source's, but for the time at its front, which Codex renews as it copies, and the mark of a batch, which a
copy is written without. Exact copies within the file (see `thinning`) may have been left out of one of the two. The
session_metas of the lineage are passed over on both sides: a source that has since become a fork by reference has its
own at another place than the copy has. The source may have grown since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw

from rollout.core import codec, lines
from rollout.core.reconstruct import Segment
from rollout.errors import SourceError
from rollout.limits import DEFAULT, Limits
from rollout.storage import fork as forks
from rollout.storage.ending import ordinal_of
from rollout.storage.fork import Meta, Point
from rollout.storage.origin import Origin
from rollout.storage.recovery import unmark
from rollout.storage.source import Opened, open_path
from rollout.upkeeping.files import Places
from rollout.upkeeping.thinning import Thinner, same_but_for_time

_META_SIGN = b'"session_meta"'
_BATCH_SIGN = b',"batch":['
_HEAD_BYTES = 512


class _Id(msgspec.Struct, frozen=True):
    id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Copied:
    """The copies in a fork: its text from its own session_meta (`meta`) to `end`, which `point` of the source ends too.

    `renewed`: some of them have another time. `next_ordinal` is what the numbering of the source goes on with at the
    point, None where it has none; `source_mode` the history_mode of the file that the point is in.
    """

    meta: Meta
    point: Point
    end: int
    renewed: bool
    next_ordinal: int | None
    source_mode: Raw | None


def find_copied(child: Opened, origin: Origin, places: Places, *, images: bool = False) -> Copied | None:
    """None if the file is no fork that copies, or its source is not there.

    `origin` says where bases are looked up, and in which file system; with `images` pictures that events repeat need
    not be in both. SourceError if the child cannot be read.
    """
    meta = forks.meta_of(child)
    if meta is None or "history_base" in meta.payload or child.source.read_at(0, meta.end).count(b"\n") != 1:
        return None
    source = codec.text_of(meta.payload.get("forked_from_id", Raw(b"null")))
    own = None if child.path is None else child.path.absolute()
    for path in places.of(source) if source is not None else ():
        if path != own:
            try:
                with dataclasses.replace(origin, path=path, size=None).opened() as lineage:
                    segments = list(lineage)
                    found = None if lineage.missing else _match(child, meta, segments[::-1], origin, images)
            except SourceError:
                continue
            if found is not None:
                return found
    return None


def _match(child: Opened, meta: Meta, segments: list[Segment], origin: Origin, images: bool) -> Copied | None:
    """Along both, as far as they are the same; `segments` oldest first."""
    known = {segment.thread for segment in segments}
    passed: set[str | None] = set()  # whose session_metas the copies hold
    pending: set[str | None] = set()
    theirs = _records(segments, known, Thinner(origin.limits, images=images))
    thinner = Thinner(origin.limits, images=images)
    at, end, source_end, newest, is_renewed = -1, 0, 0, b"", False
    for line, child_end in _lines(child.source, meta.end, child.source.size, origin.limits):
        if _is_meta(line):
            pending.add(_id_of(line))
            continue
        if (thin := thinner.thin(line)) is None:
            continue
        i, other, other_end = next(theirs, (-1, b"", 0))
        is_later = _is_renewed(thin, other)
        if i < 0 or is_later is None:
            break
        passed |= pending
        at, end, source_end, newest, is_renewed = i, child_end, other_end, other, is_renewed or is_later
    if not passed <= known:
        return None
    path = None if at < 0 else segments[at].path
    if path is None:
        return None
    ordinal = ordinal_of(newest)
    after = None if ordinal is None else ordinal + 1
    return Copied(meta, Point(Path(path), source_end), end, is_renewed, after, _mode_of(Path(path), origin))


def _records(segments: list[Segment], known: set[str], thinner: Thinner) -> Iterator[tuple[int, bytes, int]]:
    """The lines of the segments but for session_metas, whose ids become `known`: segment, line, offset behind it."""
    for i, segment in enumerate(segments):
        for line, end in _lines(segment.source, 0, segment.end, DEFAULT):
            if _is_meta(line):
                if (thread := _id_of(line)) is not None:
                    known.add(thread)
                continue
            whole = unmark(line + b"\n")[:-1] if _BATCH_SIGN in line[-64:] else line
            if (thin := thinner.thin(whole)) is not None:
                yield i, thin, end


def _lines(source: lines.Source, start: int, end: int, limits: Limits) -> Iterator[tuple[bytes, int]]:
    """Whole lines without their ends, each with the offset behind it; up to what is no line of ordinary length."""
    for block in lines.forward(source, start, end, limits):
        if not isinstance(block, lines.Batch):
            return
        offset = block.offset
        for line in block.lines[:-1]:
            offset += len(line) + 1
            yield line, offset


def _is_renewed(copy: bytes, line: bytes) -> bool | None:
    """Whether the time of a copy was renewed; None if it is no copy of the line."""
    if copy == line:
        return False
    return True if same_but_for_time(copy, line) else None


def _is_meta(line: bytes) -> bool:
    if _META_SIGN not in line[:_HEAD_BYTES]:
        return False
    envelope = codec.decode_plain(line, DEFAULT.depth)
    return envelope is not None and envelope.type == "session_meta"


def _id_of(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(codec.payload_of(line), type=_Id).id
    except msgspec.ValidationError:
        return None


def _mode_of(path: Path, origin: Origin) -> Raw | None:
    opened = open_path(path, fs=origin.fs, limits=origin.limits)
    try:
        found = forks.meta_of(opened)
    finally:
        opened.close()
    return None if found is None else found.payload.get("history_mode")
