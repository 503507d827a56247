"""Bytes to lines, from either end.

A line ends at b"\\n" and nowhere else. Bytes after the last b"\\n" are the tail, never a line.
Joining the lines of all batches with b"\\n" in the order of the file gives the input back, byte for byte, but for
`Oversize` and `Gap`, which are only counted.

Reading is by *batches*: the lines that end in one chunk. Nothing is kept but the current chunk and the
beginning of a line that is not whole yet; a line that outgrows the limit is counted and dropped.
"""

from __future__ import annotations

import bisect
import dataclasses
import zlib
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from rollout.errors import TooLarge
from rollout.limits import DEFAULT, Limits

R = TypeVar("R")
"""What a dialect decodes of a record."""
_LEAST_STEP_BYTES, _STEP_BYTES = 1 << 12, 1 << 16
_CHECKED_BYTES = 512


class Source(Protocol):
    """Anything with a size and bytes at offsets. `read_at` returns fewer than n bytes only at the end."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, n: int, /) -> bytes: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are lost to the reader: what is wrong (`reason`) and where.

    `line` counts from 1 and is None where the file was not read back to its beginning. `kind` is one of torn, json,
    utf8, deep, oversize, not_a_record, batch, sealed, encrypted; base (the file that this one continues is missing),
    base_end (it does not end as it is said, and is read). `path` is the file, None for bytes in memory.
    """

    line: int | None
    offset: int
    reason: str
    kind: str
    path: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Piece(Generic[R]):
    """A part of an odd line: a record (its `envelope`), or damaged bytes (`kind` and `reason`)."""

    offset: int
    data: bytes
    envelope: R | None
    kind: str = ""
    reason: str = ""

    def as_tail(self) -> Piece[R]:
        """The same at the end of a file without a line end: bytes that are no JSON are a torn write there."""
        if self.kind != "json":
            return self
        return dataclasses.replace(self, kind="torn", reason="torn: the last line has no end and is no record")


class Covered:
    """Which bytes of a source were read: `count` of them, each once, in whatever order and however often."""

    __slots__ = ("_begins", "_ends", "count")

    def __init__(self) -> None:
        self._begins: list[int] = []  # of stretches that do not touch, in order
        self._ends: list[int] = []
        self.count = 0

    def add(self, begin: int, end: int) -> None:
        """The bytes from `begin` up to `end` were read."""
        if begin >= end:
            return
        first = bisect.bisect_left(self._ends, begin)  # those from here on do not end before `begin`
        behind = bisect.bisect_right(self._begins, end)  # those from here on begin behind `end`
        if first < behind:
            self.count -= sum(self._ends[first:behind]) - sum(self._begins[first:behind])
            begin, end = min(begin, self._begins[first]), max(end, self._ends[behind - 1])
        self._begins[first:behind], self._ends[first:behind] = [begin], [end]
        self.count += end - begin


class BytesSource:
    """Bytes in memory as a source; `bytes_read` counts those that were asked for, each once."""

    __slots__ = ("_covered", "data")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = memoryview(data).cast("B")
        self._covered = Covered()

    @property
    def bytes_read(self) -> int:
        return self._covered.count

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, n: int, /) -> bytes:
        found = bytes(self.data[offset : offset + n])
        self._covered.add(offset, offset + len(found))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Neighbouring lines without their line ends; lines[0] begins at byte `offset`, `end` is where the batch ends.

    The last one is empty, as the line before it has a line end; but in the batch nearest to the end of the file (there
    it is the tail) or before a `Gap`, where it has none. `begins`: lines[0] is a line from its beginning (it is not
    behind a gap).
    """

    offset: int
    end: int
    lines: list[bytes]
    begins: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Oversize:
    """One line, or the piece of one beside a gap, longer than the limit: `n` bytes at `offset`, not kept.

    `ended`: the last of them is its line end (it is not the tail, nor a piece before a gap).
    """

    offset: int
    n: int
    ended: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """A run of NUL bytes inside one line, at least one chunk long (a hole in a sparse file, say): not kept.

    A raw NUL cannot stand inside JSON, so what lies on either side is a piece of its own.
    """

    offset: int
    n: int


def backward(
    source: Source, end: int | None = None, limits: Limits = DEFAULT, start: int = 0
) -> Iterator[Batch | Oversize | Gap]:
    """The lines of `source[start:end]` in blocks, the block nearest to the end first; a line begins at `start`.

    Reads `limits.first_chunk_bytes`, then up to `limits.chunk_bytes` at a time, each byte once. TooLarge.
    """
    pos = source.size if end is None else end
    count = _Count(source, limits)
    chunk_bytes = max(1, limits.first_chunk_bytes)
    pieces: list[bytes] = []  # of the line whose beginning is not reached yet, newest first; they begin at `pos`
    held = dropped = 0  # bytes in `pieces`; bytes of the line that were too many to keep
    ended = False  # whether the dropped ones end with a line end
    while pos > start:
        n = min(chunk_bytes, pos - start)
        chunk_bytes = min(chunk_bytes * 2, max(1, limits.chunk_bytes))
        chunk = source.read_at(pos - n, n)
        pos -= n
        lines = chunk.split(b"\n")
        count.add(len(lines) - 1)
        if pos > start and len(lines) == 1:  # no line begins in this chunk
            if is_nul(chunk):
                yield from (_behind_gap(block) for block in _rest(pos + n, pieces[::-1], dropped, limits, ended))
                pieces, held, dropped = [], 0, 0
                yield Gap(pos, n)
            else:
                pieces.append(chunk)
                held += n
                if dropped or (held > limits.line_bytes + 1 and _is_beyond(pieces[::-1], limits)):
                    ended = ended if dropped else pieces[0].endswith(b"\n")
                    pieces, held, dropped = [], 0, dropped + held
            continue
        end = pos + n
        older = [lines.pop(0) + b"\n"] if pos > start else []
        begin = pos + (len(older[0]) if older else 0)
        if dropped:
            tail = lines.pop()
            yield Oversize(end - len(tail), len(tail) + dropped, ended)
            lines.append(b"")
            end -= len(tail)
        elif held:
            end += held
            _lengthen(lines, _join(pieces[::-1]))
        if begin < end:
            yield from _batches(begin, end, lines, limits)[::-1]
        pieces, held, dropped = older, begin - pos, 0
    yield from _rest(start, pieces[::-1], dropped, limits, ended)


def forward(
    source: Source, start: int = 0, end: int | None = None, limits: Limits = DEFAULT
) -> Iterator[Batch | Oversize | Gap]:
    """The same blocks, oldest first; `start` is the beginning of a line. TooLarge."""
    pos, stop = start, source.size if end is None else end
    count = _Count(source, limits)
    pieces: list[bytes] = []  # of the line whose end is not reached yet, oldest first; they end at `pos`
    held = dropped = 0
    while pos < stop:
        chunk = source.read_at(pos, min(max(1, limits.chunk_bytes), stop - pos))
        if not chunk:
            break
        n = len(chunk)
        begin = pos - held - dropped
        pos += n
        cut = chunk.rfind(b"\n") + 1 if pos < stop else n
        if cut == 0:
            if is_nul(chunk):
                yield from _rest(begin, pieces, dropped, limits)
                pieces, held, dropped = [], 0, 0
                yield Gap(pos - n, n)
            else:
                pieces.append(chunk)
                held += n
                if dropped or (held > limits.line_bytes + 1 and _is_beyond(pieces, limits)):
                    pieces, held, dropped = [], 0, dropped + held
            continue
        if dropped:
            first = chunk.find(b"\n") + 1 or n
            yield Oversize(begin, dropped + first, chunk[first - 1 : first] == b"\n")
            if first < cut:
                yield from _batches(pos - n + first, pos - n + cut, chunk[first:cut].split(b"\n"), limits)
        else:
            body = b"".join([*pieces, chunk[:cut]])
            found = body.split(b"\n")
            count.add(len(found) - 1)
            yield from _batches(begin, begin + len(body), found, limits)
        pieces, held, dropped = [chunk[cut:]] if cut < n else [], n - cut, 0
    yield from _rest(pos - held - dropped, pieces, dropped, limits)


def last_line_end(source: Source, start: int, end: int) -> int:
    """Behind the last line end of source[start:end]; `start` if there is none. Holds no more than 64 KiB of it."""
    n = 1
    while end > start:
        n = min(n, end - start)
        at = source.read_at(end - n, n).rfind(b"\n")
        if at >= 0:
            return end - n + at + 1
        end, n = end - n, min(max(2 * n, _LEAST_STEP_BYTES), _STEP_BYTES)
    return start


def first_line_end(source: Source, start: int, end: int) -> int:
    """Behind the first line end of source[start:end]; `end` if there is none. Holds no more than 64 KiB of it."""
    for at in range(start, end, _STEP_BYTES):
        found = source.read_at(at, min(_STEP_BYTES, end - at)).find(b"\n") + 1
        if found:
            return at + found
    return end


def count_ends(source: Source, start: int, end: int) -> int:
    """How many line ends there are in source[start:end]."""
    return sum(chunk.count(b"\n") for chunk in chunks(source, start, end, DEFAULT.chunk_bytes))


def stretches(source: Source, start: int, end: int, n: int, most: int | None = None) -> Iterator[bytes]:
    """The bytes of source[start:end], about `n` at a time, in whole lines; longer ones are cut at `most` bytes."""
    at = start
    while at < end:
        stop = min(at + n, end)
        if stop < end:
            cut = last_line_end(source, at, stop)
            limit = end if most is None else min(at + max(most, n), end)
            stop = cut if cut > at else first_line_end(source, stop, limit)
        yield source.read_at(at, stop - at)
        at = stop


def chunks(source: Source, start: int, end: int, chunk_bytes: int) -> Iterator[bytes]:
    """The bytes of source[start:end], so many at a time."""
    for at in range(start, end, chunk_bytes):
        yield source.read_at(at, min(chunk_bytes, end - at))


def checksum_before(source: Source, end: int) -> bytes:
    """A checksum of the last 512 bytes before `end`: whether a file that has grown still goes on from there."""
    n = min(end, _CHECKED_BYTES)
    return zlib.crc32(source.read_at(end - n, n)).to_bytes(4)


class _Count:
    """Counts the lines of one file that are read, as far as there is a limit."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._left = limits.most_lines(getattr(source, "usual_text_bytes", source.size))

    def add(self, count: int) -> None:
        """So many more. TooLarge."""
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise TooLarge("holds too many lines for its size")


def is_nul(chunk: bytes) -> bool:
    """Nothing but NUL bytes."""
    return chunk[:1] == b"\0" and chunk == bytes(len(chunk))


def _is_beyond(pieces: list[bytes], limits: Limits) -> bool:
    """Whether the line in `pieces`, oldest first, is too long to keep.

    NUL bytes at either end of it do not count: how many stand there beside a `Gap` depends on where the chunks begin.
    """
    return len(b"".join(pieces).strip(b"\0\n")) > limits.line_bytes


def _join(pieces: list[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _behind_gap(block: Batch | Oversize) -> Batch | Oversize:
    return dataclasses.replace(block, begins=False) if isinstance(block, Batch) else block


def _rest(
    offset: int, pieces: list[bytes], dropped: int, limits: Limits, ended: bool = False
) -> list[Batch | Oversize]:
    """What is left of one line at an end of the source or before a gap; `pieces` oldest first."""
    if dropped:
        return [Oversize(offset, dropped + sum(map(len, pieces)), ended)]
    if not pieces:
        return []
    body = _join(pieces)
    return _batches(offset, offset + len(body), body.split(b"\n"), limits)


def _lengthen(lines: list[bytes], more: bytes) -> None:
    """Put `more`, which has no b"\\n" but at its end, behind the last line."""
    if more.endswith(b"\n"):
        lines[-1] += more[:-1]
        lines.append(b"")
    else:
        lines[-1] += more


def _batches(offset: int, end: int, lines: list[bytes], limits: Limits) -> list[Batch | Oversize]:
    """The lines in order: one batch, unless one of them is longer than the limit."""
    if end - offset <= limits.line_bytes or max(map(len, lines)) <= limits.line_bytes:
        return [Batch(offset, end, lines)]
    return _split_oversize(offset, lines, limits.line_bytes)


def _split_oversize(offset: int, lines: list[bytes], line_bytes: int) -> list[Batch | Oversize]:
    found: list[Batch | Oversize] = []
    good: list[bytes] = []
    begin = offset  # of the first line in `good`
    for i, line in enumerate(lines):
        size = len(line) + (i < len(lines) - 1)
        if len(line) <= line_bytes or len(line.strip(b"\0")) <= line_bytes:
            good.append(line)
        else:
            if good:
                found.append(Batch(begin, offset, [*good, b""]))
            found.append(Oversize(offset, size, size > len(line)))
            good, begin = [], offset + size
        offset += size
    return [*found, Batch(begin, offset, good)] if good and (len(good) > 1 or good[0]) else found
