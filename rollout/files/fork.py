"""Points of a log that a fork can leave it at, and files that stand alone.

A point is the end of a line of a file. What is behind it does not exist for a fork: it reads the file up to there, and
the bases of that file. A fork by reference names the point (`history_base`); a copy holds the lines of the lineage.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from rollout import ids
from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import SESSION_META
from rollout.dialects.codex.session_meta import told_base
from rollout.errors import NotFound, RecordError, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files import recovery
from rollout.files.bases import Bases
from rollout.files.disk import FileSystem
from rollout.files.encrypted.lines import LineCipher
from rollout.files.lineage import Lineage, Opened, holds_record, open_path
from rollout.format import records
from rollout.format.records import Segment
from rollout.limits import DEFAULT

BLOCK_BYTES = DEFAULT.chunk_bytes
_MARK_SIGN = b',"batch":['
_raw_keys = msgspec.json.Decoder(dict[str, Raw])


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """The first `offset` bytes (text bytes of a sealed one) of a file. `ends_line`: the last of them is a line end."""

    path: Path
    offset: int
    ends_line: bool = True


def newest_point(path: Path, fs: FileSystem) -> Point:
    """Behind the last line of a file that a reader can see, whoever may be writing it."""
    opened = open_path(path, fs=fs)
    try:
        plan = recovery.inspect_first(opened.stored, opened.source.size, holds_record)
        return Point(opened.path or path, plan.cut, ends_line=not plan.newline)
    finally:
        opened.close()


def base_at(point: Point, next_ordinal: int | None) -> dict[str, Any]:
    """`history_base` for a fork that goes on from `point`. UsageError if a reader could not find the file by it."""
    if not point.ends_line:
        raise UsageError("its last line has no end", path=point.path, remedy="open it for append, which gives it one")
    return told_base(_file_id(point.path), point.offset, next_ordinal)


def check_found(point: Point, fork: Path, home: Path | None, fs: FileSystem) -> None:
    """UsageError unless a reader of a file at `fork`, made by `base_at`, finds the file that the point is in.

    NotFound if it lies where a reader would look, and was not there when this looked: somebody is moving it.
    """
    for path in Bases(home, fs).candidates(_file_id(point.path), fork):
        with contextlib.suppress(NotFound), contextlib.closing(open_path(path, fs=fs)) as found:
            if _is_same(point.path, path, found, fs):
                return
            if found.source.size >= point.offset:
                remedy = f"fork it with copy=True, or move {path} away if that is the same session"
                raise UsageError(f"another file with its id counts for a fork: {path}", path=point.path, remedy=remedy)
    folder = point.path.absolute().parent
    if folder == fork.absolute().parent or (home is not None and homes.holds(home.absolute(), folder, fs=fs)):
        raise NotFound("is no longer there", path=point.path, remedy="look for it by its id")
    raise UsageError("no reader of a fork finds it where it lies", path=point.path, remedy="fork it with copy=True")


def _file_id(path: Path) -> ids.FileId:
    name = ids.parse_file_name(path.name)
    if name is None:
        raise UsageError("its name does not tell a thread id", path=path, remedy="fork it with copy=True")
    return name.file


def _is_same(path: Path, other: Path, found: Opened, fs: FileSystem) -> bool:
    """Whether both are paths of the file that was found: it may have been sealed, or be reached in another way."""
    if str(path.absolute()).removesuffix(".zst") == str(other).removesuffix(".zst"):
        return True
    with contextlib.closing(open_path(path, fs=fs)) as here:
        return here.file is not None and found.file is not None and here.file.identity == found.file.identity


@dataclasses.dataclass(frozen=True, slots=True)
class Meta:
    """The first session_meta of a file: the keys of the line and of its payload, as they stand, and where it ends."""

    line: dict[str, Raw]
    payload: dict[str, Raw]
    end: int


def meta_of(opened: Opened) -> Meta | None:
    """None if there is none at the beginning of the file."""
    source = opened.source
    for line in records.forward([Segment(source, min(source.size, DEFAULT.head_bytes))]):
        for _, data, envelope in codec.records_in(line.data):
            if envelope.type == SESSION_META:
                with contextlib.suppress(msgspec.ValidationError):
                    keys, payload = (_raw_keys.decode(found) for found in (data, codec.payload_of(data)))
                    return Meta(keys, payload, line.end)
    return None


def whole(lineage: Lineage) -> list[Segment]:
    """The segments of a lineage, newest first; NotFound if a base is missing."""
    segments = list(lineage)
    if lineage.missing:
        raise NotFound(lineage.missing[0].reason, path=lineage.opened[0].path, remedy="bring the base back first")
    return segments


def copied(
    head: bytes, segments: Sequence[Segment], skip: int = 0, cipher: LineCipher | None = None
) -> Iterator[bytes]:
    """The line `head`, then blocks of the lines of the segments (newest first) in their order; a `cipher` encrypts.

    Of the newest one the lines up to byte `skip` are left out. WriteError for a line that cannot be encrypted.
    """
    yield head if cipher is None else cipher.head(head)
    count = 1
    for segment in reversed(segments):
        for block in _blocks(segment, skip if segment is segments[0] else 0):
            if cipher is None:
                yield block
                continue
            try:
                made = cipher.lines(block.split(b"\n"), count)
            except RecordError as error:
                remedy = "repair it first, or fork it without copy=True"
                raise WriteError(f"cannot be encrypted: {error.message}", path=segment.path, remedy=remedy) from error
            yield b"".join(made)
            count += len(made)


def _blocks(segment: Segment, start: int) -> Iterator[bytes]:
    """The bytes of a segment in blocks that end with a line, those of batches as lines that stand alone."""
    at, pieces = start, list[bytes]()  # of a line that is longer than a block
    while at < segment.end and (block := segment.source.read_at(at, min(BLOCK_BYTES, segment.end - at))):
        at += len(block)
        whole = block.rfind(b"\n") + 1
        if whole:
            yield _unmarked(b"".join([*pieces, block[:whole]]))
            pieces.clear()
        pieces.append(block[whole:])
    if any(pieces):
        yield _unmarked(b"".join([*pieces, b"\n"]))


def _unmarked(block: bytes) -> bytes:
    if _MARK_SIGN not in block:
        return block
    return b"".join(recovery.unmark(line + b"\n") for line in block[:-1].split(b"\n"))
