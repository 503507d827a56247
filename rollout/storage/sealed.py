"""Sealed rollouts: `.jsonl.zst`, read from either end.

A sealed file is one or more Zstandard frames (RFC 8878). Where the frames tell their content size, only the frames that
are needed are unpacked, at most two at a time. The frames are found by the seek table at the end (the seekable format
of the Zstandard project: a skippable frame) or, without one, by walking over the block headers, which reads a few bytes
for each 128 KiB of text. A frame that does not tell its size, or is larger than `limits.frame_bytes`, goes through a
temporary file.

A frame that is damaged inside, with its text size known, reads as so many NUL bytes (which are never part of a record),
so that the frames around it are read; of a frame that is cut off, the text before the cut is read. Both are reported.
Memory is bounded by `limits.frame_bytes`, the temporary file by `limits.expansion`.
"""

from __future__ import annotations

import bisect
import dataclasses
import struct
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Protocol, cast

import zstandard

from rollout.limits import DEFAULT, Limits

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_SEEK_TABLE_MAGIC = 0x184D2A5E
_SEEK_FOOTER = struct.Struct("<IBI")
_SEEK_FOOTER_MAGIC = 0x8F92EAB1
_HEADER_BYTES = 18
_STEP_BYTES = 1 << 20


class RandomAccess(Protocol):
    """An open file or bytes in memory."""

    def size(self) -> int: ...
    def read_at(self, offset: int, n: int, /) -> bytes: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One frame: where its packed bytes lie and which text it holds (`text_size` None: not told)."""

    offset: int
    size: int
    text_size: int | None


class BadFrame(Exception):
    """Packed bytes that are no whole frame; `offset` in the packed file."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


class _Packed:
    """The packed bytes of one frame as a readable stream."""

    def __init__(self, read_at: Callable[[int, int], bytes], frame: Frame) -> None:
        self._read_at, self._at, self._end = read_at, frame.offset, frame.offset + frame.size

    def read(self, n: int = -1) -> bytes:
        left = self._end - self._at
        found = self._read_at(self._at, left if n < 0 else min(n, left))
        self._at += len(found)
        return found


class SealedSource:
    """The text of a sealed file as a source. `bytes_read` counts packed bytes; `damage` says what could not be read."""

    def __init__(self, file: RandomAccess, limits: Limits = DEFAULT) -> None:
        self._file, self._limits = file, limits
        self.bytes_read = 0
        self.damage: list[tuple[int, str]] = []
        """Offset in the packed file and reason of each frame that could not be read whole."""
        self._spool: IO[bytes] | None = None
        self._cached: dict[int, bytes] = {}  # a read that reaches over the edge of two frames needs both
        self._frames = self._find_frames()
        self._begins: list[int] = []
        self._lay_out()

    @property
    def size(self) -> int:
        return self._text_size

    def read_at(self, offset: int, n: int, /) -> bytes:
        if self._spool is not None:
            self._spool.seek(offset)
            return self._spool.read(n)
        end = min(offset + n, self._text_size)
        parts = []
        while offset < end:
            i = bisect.bisect_right(self._begins, offset) - 1
            text = self._text(i)
            part = text[offset - self._begins[i] : end - self._begins[i]]
            if not part:
                break
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Lets go of the temporary file, if there is one. The packed file stays open: it is its owner's."""
        if self._spool is not None:
            self._spool.close()

    def _read(self, offset: int, n: int) -> bytes:
        found = self._file.read_at(offset, n)
        self.bytes_read += len(found)
        return found

    def _lay_out(self) -> None:
        sizes = [frame.text_size for frame in self._frames]
        if any(size is None or size > self._limits.frame_bytes for size in sizes):
            self._text_size = self._unpack_all()
            return
        self._text_size = 0
        for size in sizes:
            self._begins.append(self._text_size)
            self._text_size += size or 0

    def _text(self, i: int) -> bytes:
        if i not in self._cached:
            self._cached = {near: text for near, text in self._cached.items() if abs(near - i) == 1}
            self._cached[i] = self._unpack(self._frames[i])
        return self._cached[i]

    def _unpack(self, frame: Frame) -> bytes:
        size = frame.text_size or 0
        try:
            text = b"".join(self._stream(frame))
        except BadFrame as bad:
            self._note(bad)
            text = b""
        if len(text) != size:
            self._note(BadFrame(frame.offset, "a sealed frame does not hold what its header says"))
            text = bytes(size)
        return text

    def _unpack_all(self) -> int:
        """All text into a temporary file, as far as it can be unpacked; returns its size.

        A NUL byte parts what could be read of a damaged frame from the next one.
        """
        self._spool = spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close` or with this object
        most = self._file.size() * self._limits.expansion + _STEP_BYTES
        for frame in self._frames:
            try:
                for text in self._stream(frame):
                    if spool.tell() + len(text) > most:
                        self._note(BadFrame(frame.offset, "a sealed file unpacks to more than it may"))
                        return spool.seek(0, 2)
                    spool.write(text)
            except BadFrame as bad:
                self._note(bad)
                spool.write(b"" if frame is self._frames[-1] else b"\0")
        return spool.seek(0, 2)

    def _stream(self, frame: Frame) -> Iterator[bytes]:
        """The text of one frame in steps. BadFrame where it cannot go on."""
        most = frame.size * self._limits.expansion + _STEP_BYTES
        if frame.text_size is not None:
            most = min(most, frame.text_size)
        done = 0
        unpacker = zstandard.ZstdDecompressor().stream_reader(cast(IO[bytes], _Packed(self._read, frame)))
        try:
            while text := unpacker.read(_STEP_BYTES):
                done += len(text)
                if done > most:
                    raise BadFrame(frame.offset, "a sealed frame unpacks to more than it may")
                yield text
        except zstandard.ZstdError as error:
            raise BadFrame(frame.offset, f"a sealed frame is damaged: {error}") from None
        if frame.text_size is not None and done != frame.text_size:  # the reader ends silently in an unended frame
            raise BadFrame(frame.offset, "a sealed frame does not hold what its header says")

    def _note(self, bad: BadFrame) -> None:
        if all(bad.offset != offset for offset, _ in self.damage):
            self.damage.append((bad.offset, bad.reason))

    def _find_frames(self) -> list[Frame]:
        table = self._read_seek_table()
        if table is not None:
            return table
        frames: list[Frame] = []
        offset, end = 0, self._file.size()
        while offset < end:
            try:
                frame = self._walk_frame(offset, end)
            except BadFrame as bad:
                self._note(bad)
                head = self._read(offset, 4)
                if head == MAGIC:  # the beginning of a frame that was cut off: what it gives is read
                    frames.append(Frame(offset, end - offset, None))
                break
            if frame.text_size is None or frame.text_size > 0:
                frames.append(frame)
            offset += frame.size
        return frames

    def _walk_frame(self, offset: int, end: int) -> Frame:
        head = self._read(offset, min(_HEADER_BYTES, end - offset))
        if len(head) >= 8 and int.from_bytes(head[:4], "little") in _SKIPPABLE:
            size = 8 + int.from_bytes(head[4:8], "little")
            if offset + size > end:
                raise BadFrame(offset, "a skippable frame is cut off")
            return Frame(offset, size, 0)
        try:
            parameters = zstandard.get_frame_parameters(head)
            at = offset + zstandard.frame_header_size(head)
            text_size = zstandard.frame_content_size(head)
        except zstandard.ZstdError:
            raise BadFrame(offset, "these bytes are no Zstandard frame") from None
        last = False
        while not last:
            block = self._read(at, 3)
            if len(block) < 3:
                raise BadFrame(offset, "a sealed frame is cut off")
            value = int.from_bytes(block, "little")
            last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
            if kind == 3:
                raise BadFrame(offset, "a sealed frame is damaged: a block of a reserved type")
            at += 3 + (1 if kind == 1 else size)
        at += 4 if parameters.has_checksum else 0
        if at > end:
            raise BadFrame(offset, "a sealed frame is cut off")
        return Frame(offset, at - offset, None if text_size < 0 else text_size)

    def _read_seek_table(self) -> list[Frame] | None:
        """The frames by the seek table; None if there is none, or it does not add up."""
        end = self._file.size()
        if end < _SEEK_FOOTER.size + 8:
            return None
        count, flags, magic = _SEEK_FOOTER.unpack(self._read(end - _SEEK_FOOTER.size, _SEEK_FOOTER.size))
        width = 12 if flags & 0x80 else 8
        size = 8 + count * width + _SEEK_FOOTER.size
        if magic != _SEEK_FOOTER_MAGIC or size > end:
            return None
        table = self._read(end - size, size - _SEEK_FOOTER.size)
        if struct.unpack_from("<II", table) != (_SEEK_TABLE_MAGIC, size - 8):
            return None
        frames, offset = [], 0
        for i in range(count):
            packed, text = struct.unpack_from("<II", table, 8 + i * width)
            if text:
                frames.append(Frame(offset, packed, text))
            offset += packed
        return frames if offset == end - size else None
