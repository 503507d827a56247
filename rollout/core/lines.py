"""Bytes to lines, from either end.

A line ends at b"\\n" and nowhere else. Bytes after the last b"\\n" are the tail, never a line.
Joining the bodies of all batches in the order of the file gives the input back, byte for byte, but for the
bodies of `Oversize` and `Gap`, which are only counted.

Reading is by *batches*: the whole lines of about one chunk. Nothing is kept but the current chunk and the
beginning of a line that is not whole yet; a line that outgrows the limit is counted and dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Protocol

from rollout.limits import DEFAULT, Limits


class Source(Protocol):
    """Anything with a size and bytes at offsets. `read_at` returns fewer than n bytes only at the end."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, n: int, /) -> bytes: ...


class BytesSource:
    """Bytes in memory as a source; `bytes_read` counts what was asked for."""

    __slots__ = ("bytes_read", "data")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = memoryview(data).cast("B")
        self.bytes_read = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, n: int, /) -> bytes:
        found = bytes(self.data[offset : offset + n])
        self.bytes_read += len(found)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Whole lines, `body` beginning at byte `offset` of the source.

    Every line in `body` ends with b"\\n", but for the last one of the batch nearest to the end of the file (the
    tail) or before a `Gap`.
    """

    offset: int
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Oversize:
    """One line, or the piece of one beside a gap, longer than the limit: `n` bytes at `offset`, not kept."""

    offset: int
    n: int


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """A run of NUL bytes inside one line, at least one chunk long (a hole in a sparse file, say): not kept.

    A raw NUL cannot stand inside JSON, so what lies on either side is a piece of its own.
    """

    offset: int
    n: int


def backward(source: Source, end: int | None = None, limits: Limits = DEFAULT) -> Iterator[Batch | Oversize | Gap]:
    """The lines of `source[:end]` in blocks, the block nearest to the end first.

    Reads `limits.first_chunk_bytes`, then up to `limits.chunk_bytes` at a time, each byte once.
    """
    pos = source.size if end is None else end
    chunk_bytes = max(1, limits.first_chunk_bytes)
    pieces: list[bytes] = []  # of a line whose beginning is not reached yet, newest first; they begin at `pos`
    held = dropped = 0  # bytes in `pieces`; bytes of the line that were too many to keep
    while pos > 0:
        n = min(chunk_bytes, pos)
        chunk_bytes = min(chunk_bytes * 4, max(1, limits.chunk_bytes))
        chunk = source.read_at(pos - n, n)
        pos -= n
        cut = chunk.find(b"\n") + 1 if pos > 0 else 0
        if pos > 0 and cut == 0:  # no line begins in this chunk
            if is_nul(chunk):
                yield from _rest(pos + n, pieces, dropped, limits)
                pieces, held, dropped = [], 0, 0
                yield Gap(pos, n)
            else:
                pieces.append(chunk)
                held += n
                if dropped or held > limits.line_bytes + 1:
                    pieces, held, dropped = [], 0, dropped + held
            continue
        if dropped:
            first = chunk.rfind(b"\n") + 1
            yield Oversize(pos + first, n - first + dropped)
            if first > cut:
                yield Batch(pos + cut, chunk[cut:first])
        elif cut < n or held:
            pieces.append(chunk[cut:])
            yield from _split_oversize(Batch(pos + cut, _join(pieces)), limits.line_bytes)
        pieces, held, dropped = [chunk[:cut]] if cut else [], cut, 0
    yield from _rest(0, pieces, dropped, limits)


def forward(
    source: Source, start: int = 0, end: int | None = None, limits: Limits = DEFAULT
) -> Iterator[Batch | Oversize | Gap]:
    """The same blocks, oldest first; `start` is the beginning of a line."""
    pos, stop = start, source.size if end is None else end
    pieces: list[bytes] = []  # of a line whose end is not reached yet, oldest first; they end at `pos`
    held = dropped = 0
    while pos < stop:
        chunk = source.read_at(pos, min(max(1, limits.chunk_bytes), stop - pos))
        if not chunk:
            break
        n = len(chunk)
        pos += n
        cut = chunk.rfind(b"\n") + 1
        if cut == 0 and pos < stop:
            if is_nul(chunk):
                yield from _rest(pos - n - held - dropped, pieces[::-1], dropped, limits)
                pieces, held, dropped = [], 0, 0
                yield Gap(pos - n, n)
            else:
                pieces.append(chunk)
                held += n
                if dropped or held > limits.line_bytes + 1:
                    pieces, held, dropped = [], 0, dropped + held
            continue
        if pos >= stop:
            cut = n
        begin = pos - n - held - dropped
        if dropped:
            first = chunk.find(b"\n") + 1 or n
            yield Oversize(begin, dropped + first)
            if first < cut:
                yield Batch(pos - n + first, chunk[first:cut])
        else:
            pieces.append(chunk[:cut])
            yield from reversed(list(_split_oversize(Batch(begin, b"".join(pieces)), limits.line_bytes)))
        pieces, held, dropped = [chunk[cut:]] if cut < n else [], n - cut, 0
    yield from _rest(pos - held - dropped, pieces[::-1], dropped, limits)


def is_nul(chunk: bytes) -> bool:
    """Nothing but NUL bytes."""
    return chunk[:1] == b"\0" and not chunk.strip(b"\0")


def _join(pieces: list[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(reversed(pieces))


def _rest(offset: int, pieces: list[bytes], dropped: int, limits: Limits) -> Iterator[Batch | Oversize]:
    """What is left of one line at the end of the source or before a gap; `pieces` newest first."""
    if dropped:
        yield Oversize(offset, dropped + sum(map(len, pieces)))
    elif pieces:
        yield from _split_oversize(Batch(offset, _join(pieces)), limits.line_bytes)


def _split_oversize(batch: Batch, line_bytes: int) -> Iterator[Batch | Oversize]:
    """The batch with its oversize lines taken out, newest first. Only a batch longer than the limit can hold one."""
    body, end = batch.body, len(batch.body)
    if end <= line_bytes:
        yield batch
        return
    good_end = stop = end
    while stop > 0:
        begin = body.rfind(b"\n", 0, stop - 1) + 1
        if stop - begin - (body[stop - 1] == 0x0A) > line_bytes:
            if stop < good_end:
                yield Batch(batch.offset + stop, body[stop:good_end])
            yield Oversize(batch.offset + begin, stop - begin)
            good_end = begin
        stop = begin
    if good_end > 0:
        yield Batch(batch.offset, body[:good_end])
