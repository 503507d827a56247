"""Rollout files as sources, and the lineage of files that one continues.

A file that is being written while it is read is read as it was when it was opened: its size is taken once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollout import ids
from rollout.core import codec, lines
from rollout.core import records as r
from rollout.core.reconstruct import Segment
from rollout.errors import SourceError
from rollout.limits import DEFAULT, Limits
from rollout.storage import home as homes
from rollout.storage.fs import REAL, FileSystem, ReadFile
from rollout.storage.recovery import incomplete_batch_start
from rollout.storage.sealed import MAGIC, SealedSource


class FileSource:
    """An open plain file; `bytes_read` counts what was read. Both ends are read once, however often asked for."""

    __slots__ = ("_ends", "_file", "bytes_read", "size")

    def __init__(self, file: ReadFile) -> None:
        self._file = file
        self._ends: list[tuple[int, bytes]] = []
        self.size = file.size()
        self.bytes_read = 0

    def read_at(self, offset: int, n: int, /) -> bytes:
        n = min(n, self.size - offset)
        for begin, kept in self._ends:
            if begin <= offset and offset + n <= begin + len(kept):
                return kept[offset - begin : offset - begin + n]
        found = self._file.read_at(offset, n)
        self.bytes_read += len(found)
        found = found.ljust(n, b"\0")  # who mends a torn end meanwhile cuts it, as if nothing had been there,
        for begin, kept in self._ends:  # and writes there anew: what was seen first counts
            start, stop = max(begin - offset, 0), min(begin + len(kept) - offset, n)
            if start < stop:
                found = found[:start] + kept[offset + start - begin : offset + stop - begin] + found[stop:]
        if offset == 0 or offset + n == self.size:
            self._ends.append((offset, found))
        return found


class _Memory:
    """Packed bytes in memory, for a sealed source."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, offset: int, n: int, /) -> bytes:
        return bytes(self._data[offset : offset + n])


@dataclasses.dataclass(slots=True)
class Opened:
    """One open rollout file, or bytes in memory (`path` None). Close it."""

    path: Path | None
    source: FileSource | SealedSource | lines.BytesSource
    file: ReadFile | None
    limits: Limits = DEFAULT
    _meta: dict[str, Any] | None = None
    _meta_is_first: bool = False
    _meta_known: bool = False

    def close(self) -> None:
        """Lets go of the file."""
        if isinstance(self.source, SealedSource):
            self.source.close()
        if self.file is not None:
            self.file.close()

    @property
    def session(self) -> dict[str, Any] | None:
        """The payload of the first session_meta that begins within `limits.head_bytes`; None if there is none."""
        self._look_at_head()
        return self._meta

    @property
    def thread(self) -> str | None:
        """The thread id: of the first line if it is a session_meta, else of the file's name, else of a later one."""
        self._look_at_head()
        own = None if self._meta is None else self._meta.get("id")
        named = None if self.path is None else ids.parse_file_name(self.path.name)
        if named is not None and not (self._meta_is_first and isinstance(own, str)):
            return named.thread
        return own if isinstance(own, str) else None

    def _look_at_head(self) -> None:
        if self._meta_known:
            return
        self._meta_known = True
        begin = self._first_data()
        small = dataclasses.replace(
            self.limits, chunk_bytes=min(self.limits.chunk_bytes, self.limits.first_chunk_bytes)
        )
        is_first = True
        for block in lines.forward(self.source, begin, limits=small):
            if not isinstance(block, lines.Batch):
                if block.offset >= begin + self.limits.head_bytes:
                    return
                is_first = is_first and isinstance(block, lines.Gap)
                continue
            offset = block.offset
            for line in block.lines:
                for piece in codec.split(line, self.limits.depth):
                    if piece.envelope is not None and piece.envelope.type == "session_meta":
                        found = codec.decode_value(codec.payload_of(piece.data))
                        if isinstance(found, dict):
                            self._meta, self._meta_is_first = found, is_first
                            return
                    is_first = False
                offset += len(line) + 1
                if offset > begin + self.limits.head_bytes:
                    return

    def _first_data(self) -> int:
        """Where a hole at the beginning of a sparse file ends: it reads as NUL bytes, which say nothing."""
        return self.file.data_start() if self.file is not None and isinstance(self.source, FileSource) else 0


def open_path(path: Path, *, fs: FileSystem = REAL, limits: Limits = DEFAULT) -> Opened:
    """A plain or sealed rollout file. SourceError (NotFound, NotARollout) if it cannot be opened."""
    file = fs.open_read(path)
    try:
        sealed = file.read_at(0, 4) == MAGIC
        source = SealedSource(file, limits) if sealed else FileSource(file)
    except BaseException:
        file.close()
        raise
    return Opened(path, source, file, limits)


def open_bytes(data: bytes | bytearray | memoryview, *, limits: Limits = DEFAULT) -> Opened:
    """A rollout in memory, plain or sealed."""
    view = memoryview(data).cast("B")
    if bytes(view[:4]) == MAGIC:
        return Opened(None, SealedSource(_Memory(view), limits), None, limits)
    return Opened(None, lines.BytesSource(view), None, limits)


def holds_record(data: bytes) -> bool:
    """Whether a reader finds a record in these bytes, which hold no line end."""
    return any(piece.envelope is not None for piece in codec.split(data))


def visible_end(source: lines.Source, limits: Limits = DEFAULT) -> int:
    """Where a file ends for a reader: before an incomplete batch at its end (see `recovery`)."""
    start = incomplete_batch_start(_newest_first(source, limits), holds_record)
    return source.size if start is None else start


def _newest_first(source: lines.Source, limits: Limits) -> Iterator[tuple[int, bytes]]:
    for block in lines.backward(source, None, limits):
        if not isinstance(block, lines.Batch):
            return  # no batch is as long as this
        end = block.end
        for i in range(len(block.lines) - 1, -1, -1):
            line = block.lines[i]
            end -= len(line) + (i < len(block.lines) - 1)
            if i < len(block.lines) - 1 or holds_record(line):
                yield end, line


class Lineage:
    """The files that a rollout continues, opened as they are needed, newest first. Close it."""

    def __init__(
        self,
        first: Opened,
        *,
        home: Path | None,
        fs: FileSystem = REAL,
        limits: Limits = DEFAULT,
        end: int | None = None,
    ) -> None:
        self.opened = [first]
        self.end = visible_end(first.source, limits) if end is None else min(end, first.source.size)
        """How many bytes of the first file count: all, but for an incomplete batch at its end."""
        self._hides_batch = end is None and self.end < first.source.size
        self.segments: list[Segment] = []
        """Those that were met so far, newest first."""
        self.missing: list[r.Damage] = []
        self._home, self._fs, self._limits = home, fs, limits

    @property
    def bytes_read(self) -> int:
        """Bytes read of all files so far."""
        return sum(opened.source.bytes_read for opened in self.opened)

    def close(self) -> None:
        """Lets go of all files."""
        for opened in self.opened:
            opened.close()

    def damage(self) -> list[r.Damage]:
        """What is wrong with the files themselves: sealed frames, missing bases."""
        found = [
            r.Damage(None, offset, reason, "sealed", None if opened.path is None else str(opened.path))
            for opened in self.opened
            if isinstance(opened.source, SealedSource)
            for offset, reason in opened.source.damage
        ]
        if self._hides_batch:
            path = self.opened[0].path
            reason = "a batch of lines that a crash has cut short: none of them is visible"
            found.append(r.Damage(None, self.end, reason, "batch", None if path is None else str(path)))
        return self.missing + found

    def __iter__(self) -> Iterator[Segment]:
        opened, end = self.opened[0], self.end
        for _ in range(self._limits.lineage_depth):
            path = None if opened.path is None else str(opened.path)
            self.segments.append(Segment(opened.source, end, opened.thread or "", path))
            yield self.segments[-1]
            base = (opened.session or {}).get("history_base")
            if base is None:
                return
            found = self._find_base(opened, base)
            if found is None:
                self.missing.append(self._missing(opened, base))
                return
            opened, end = found
        self.missing.append(r.Damage(None, 0, f"more than {self._limits.lineage_depth} bases", "base"))

    def _find_base(self, child: Opened, base: object) -> tuple[Opened, int] | None:
        if not isinstance(base, dict) or not isinstance(base.get("thread_id"), str):
            return None
        end, ordinal = base.get("end_byte_offset"), base.get("end_ordinal_exclusive")
        if not isinstance(end, int) or isinstance(end, bool) or end < 0:
            return None
        for path in self._candidates(child, base["thread_id"]):
            try:
                opened = open_path(path, fs=self._fs, limits=self._limits)
            except SourceError:
                continue
            self.opened.append(opened)
            if _ends_line(opened, end, ordinal, self._limits):
                return opened, end
            self.opened.pop().close()
        return None

    def _candidates(self, child: Opened, thread: str) -> Iterator[Path]:
        """Files of a thread: beside the child first (the usual place of a fork), then in the whole home."""
        seen = {opened.path.absolute() for opened in self.opened if opened.path is not None}
        for path in self._places(child, thread):
            if path not in seen:
                seen.add(path)
                yield path

    def _places(self, child: Opened, thread: str) -> Iterator[Path]:
        if child.path is not None:
            own = child.path.absolute()
            yield from (path for name in self._fs.names(own.parent) if _is_of(path := own.parent / name, thread))
        home = self._home or (homes.home_of(child.path) if child.path is not None else None)
        if home is not None:
            yield from (entry.path.absolute() for entry in homes.find_thread(home, thread))

    def _missing(self, child: Opened, base: object) -> r.Damage:
        name = base.get("thread_id") if isinstance(base, dict) else base
        end = base.get("end_byte_offset") if isinstance(base, dict) else None
        reason = f"the base that this file continues is missing: thread {name!s:.80}, up to byte {end!s:.20}"
        return r.Damage(1, 0, reason, "base", None if child.path is None else str(child.path))


def _is_of(path: Path, thread: str) -> bool:
    parts = ids.parse_file_name(path.name)
    if parts is None or parts.thread != thread or path.is_symlink():
        return False
    return not (parts.sealed and path.with_suffix("").exists())


class _Ordinal(msgspec.Struct):
    ordinal: int | None = None


def _ends_line(opened: Opened, end: int, ordinal: object, limits: Limits) -> bool:
    """Whether a line ends at byte `end`, with the ordinal before `ordinal` (where both are told)."""
    if end == 0:
        return True
    if end > opened.source.size or opened.source.read_at(end - 1, 1) != b"\n":
        return False
    if not isinstance(ordinal, int):
        return True
    for block in lines.backward(opened.source, end, limits):
        if not isinstance(block, lines.Batch):
            return False
        last = block.lines[-2]
        try:
            found = msgspec.json.decode(last, type=_Ordinal).ordinal
        except msgspec.DecodeError:
            return False
        return found is None or found == ordinal - 1
    return False
