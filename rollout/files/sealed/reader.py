"""Sealed rollouts: `.jsonl.zst`, read from either end. `seal` writes them.

A sealed file is one or more Zstandard frames (RFC 8878). Where the frames tell their content size, only the frames that
are needed are unpacked, and at most three of them held. The frames are found by the seek table at the end (the
seekable format of the Zstandard project: a skippable frame) or, without one, by walking over the block headers, which
reads a few bytes for each 128 KiB of text. A frame that does not tell its size, or is larger than `limits.frame_bytes`,
goes through a temporary file.

A frame that is damaged inside, with its text size known, reads as so many NUL bytes (which are never part of a record),
so that the frames around it are read; of a frame that is cut off, the text before the cut is read. Where the walk meets
bytes that are no frame, it goes on at the next place from which it can. All of that is reported.
Memory is bounded by `limits.frame_bytes`, the temporary file by `limits.expansion`.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import zstandard

from rollout.errors import SourceError, TooLarge
from rollout.files.plain import FileSource
from rollout.format import lines
from rollout.limits import DEFAULT, KIB, MIB, USUAL_EXPANSION, Limits

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
SEEK_TABLE_MAGIC = 0x184D2A5E
SEEK_FOOTER = struct.Struct("<IBI")
SEEK_FOOTER_MAGIC = 0x8F92EAB1
_HEADER_BYTES = 18
_STEP_BYTES = MIB
_TRIES = 1000
"""So many places are tried, behind bytes that are no frame, for the next one to begin at."""


PackedBytes = FileSource | lines.BytesSource
"""A sealed file as it stands there."""


class Frame(NamedTuple):
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


def twin(path: Path) -> Path | None:
    """The other name that the rollout at `path` may have: sealed for a plain one, plain for a sealed one."""
    if path.name.endswith(".jsonl.zst"):
        return path.with_suffix("")
    return path.with_name(f"{path.name}.zst") if path.name.endswith(".jsonl") else None


def is_sealed(head: bytes) -> bool:
    """Whether a file that begins with these 4 bytes is a sealed one."""
    return head[:4] == MAGIC or (len(head) >= 4 and int.from_bytes(head[:4], "little") in _SKIPPABLE)


class Frames:
    """The frames of a sealed file, found and unpacked one by one."""

    def __init__(self, packed: PackedBytes, limits: Limits = DEFAULT) -> None:
        self.read, self.size, self._limits = packed.read_at, packed.size, limits
        self._unpacker = zstandard.ZstdDecompressor()
        self._tries = _TRIES

    def at(self, offset: int) -> Frame:
        """The frame that begins there; a skippable one has no text. BadFrame."""
        head = self.read(offset, _HEADER_BYTES)
        if len(head) >= 8 and int.from_bytes(head[:4], "little") in _SKIPPABLE:
            size = 8 + int.from_bytes(head[4:8], "little")
            if offset + size > self.size:
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
            block = self.read(at, 3)
            if len(block) < 3:
                raise BadFrame(offset, "a sealed frame is cut off")
            value = int.from_bytes(block, "little")
            last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
            if kind == 3:
                raise BadFrame(offset, "a sealed frame is damaged: a block of a reserved type")
            at += 3 + (1 if kind == 1 else size)
        at += 4 if parameters.has_checksum else 0
        if at > self.size:
            raise BadFrame(offset, "a sealed frame is cut off")
        return Frame(offset, at - offset, None if text_size < 0 else text_size)

    def next_behind(self, offset: int) -> int:
        """Where the next frame begins behind bytes that are none: one that can be walked to the end or to another."""
        while self._tries and (offset := self._find_magic(offset + 1)) < self.size:
            self._tries -= 1
            try:
                end = offset + self.at(offset).size
            except BadFrame:
                continue
            if end == self.size or is_sealed(self.read(end, 4)):
                return offset
        return self.size

    def _find_magic(self, offset: int) -> int:
        while offset < self.size:
            block = self.read(offset, _STEP_BYTES)
            if (found := block.find(MAGIC)) >= 0:
                return offset + found
            offset += max(len(block) - len(MAGIC) + 1, 1)
        return self.size

    def in_seek_table(self) -> list[Frame] | None:
        """Where the frames with text are by the seek table; None if there is none, or it does not add up."""
        end = self.size
        if end < SEEK_FOOTER.size + 8:
            return None
        count, flags, magic = SEEK_FOOTER.unpack(self.read(end - SEEK_FOOTER.size, SEEK_FOOTER.size))
        width = 12 if flags & 0x80 else 8
        size = 8 + count * width + SEEK_FOOTER.size
        if magic != SEEK_FOOTER_MAGIC or size > end:
            return None
        table = self.read(end - size, size - SEEK_FOOTER.size)
        if struct.unpack_from("<II", table) != (SEEK_TABLE_MAGIC, size - 8):
            return None
        numbers = struct.unpack(f"<{(size - 8 - SEEK_FOOTER.size) // 4}I", table[8:])
        packed, texts = numbers[:: width // 4], numbers[1 :: width // 4]
        offsets = [*itertools.accumulate(packed, initial=0)]
        if offsets.pop() != end - size:
            return None
        return [Frame(*place) for place in zip(offsets, packed, texts, strict=True) if place[2]]

    def stream(self, frame: Frame) -> Iterator[bytes]:
        """The text of one frame in steps. BadFrame where it cannot go on."""
        most = frame.size * self._limits.expansion + _STEP_BYTES
        if frame.text_size is not None:
            most = frame.text_size if frame.text_size <= self._limits.frame_bytes else min(most, frame.text_size)
        done = 0
        unpacker = self._unpacker.stream_reader(cast(IO[bytes], _Packed(self.read, frame)))
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

    def unpack(self, frame: Frame) -> bytes:
        """The text of a frame whose size is known and bounded, at once: faster than in steps. BadFrame."""
        if frame.size <= 2 * (frame.text_size or 0) + KIB:
            packed = self.read(frame.offset, frame.size)
            try:
                if zstandard.frame_content_size(packed) == frame.text_size:
                    return self._unpacker.decompress(packed, allow_extra_data=False)
            except zstandard.ZstdError as error:
                raise BadFrame(frame.offset, f"a sealed frame is damaged: {error}") from None
        return b"".join(self.stream(frame))

    def texts(self) -> Iterator[bytes]:
        """All text in steps, by the frames as they stand and not by a seek table. BadFrame at the first damage."""
        offset = 0
        while offset < self.size:
            frame = self.at(offset)
            if frame.text_size != 0:
                yield from self.stream(frame)
            offset += frame.size


class SealedSource:
    """The text of a sealed file as a source. `bytes_read` counts packed bytes; `damage` says what could not be read.

    SourceError if a temporary file is needed and there is no room for it; TooLarge.
    """

    def __init__(self, packed: PackedBytes, limits: Limits = DEFAULT, path: Path | None = None) -> None:
        self._source, self._packed, self._limits, self._path = packed, Frames(packed, limits), limits, path
        self._noted: dict[int, str] = {}
        self._spool: IO[bytes] | None = None
        self._cached: dict[int, bytes] = {}  # two neighbours, for reads over their edge, and the first: it has the meta
        self._frames = self._find_frames()
        most = limits.most_text_bytes(self._packed.size)
        if most is not None and sum(frame.text_size or 0 for frame in self._frames) > most:
            raise self._too_large()
        sizes = [frame.text_size for frame in self._frames if frame.text_size is not None]
        self._begins = [*itertools.accumulate(sizes, initial=0)]  # where in the text each of them begins
        self._text_size = self._begins.pop()
        if len(sizes) < len(self._frames) or max(sizes, default=0) > limits.frame_bytes:
            self._text_size = self._unpack_all()

    @property
    def size(self) -> int:
        return self._text_size

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    @property
    def damage(self) -> list[tuple[int, str]]:
        """Offset in the packed file and reason of each frame that could not be read whole."""
        return list(self._noted.items())

    @property
    def usual_text_bytes(self) -> int:
        """How much text of ordinary lines a file of this size holds at most."""
        return min(self._packed.size * USUAL_EXPANSION, self._text_size)

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

    def _text(self, i: int) -> bytes:
        if i not in self._cached:
            if i:
                self._cached = {near: text for near, text in self._cached.items() if near == 0 or abs(near - i) == 1}
            frame = self._frames[i]
            try:
                self._cached[i] = self._packed.unpack(frame)
            except BadFrame as bad:
                self._note(bad)
                self._cached[i] = bytes(frame.text_size or 0)
        return self._cached[i]

    def _unpack_all(self) -> int:
        """All text into a temporary file, as far as it can be unpacked; returns its size.

        A NUL byte parts what could be read of a damaged frame from the next one.
        """
        limits, packed_bytes = self._limits, self._packed.size
        most = packed_bytes * limits.expansion + _STEP_BYTES
        text_bytes, line_count = limits.most_text_bytes(packed_bytes), limits.most_lines(packed_bytes * USUAL_EXPANSION)
        count = 0
        try:
            self._spool = spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close` or with this object
            for frame in self._frames:
                try:
                    for text in self._packed.stream(frame):
                        count += 0 if line_count is None else text.count(b"\n")
                        size = spool.tell() + len(text)
                        if size > (text_bytes or size) or count > (line_count or count):
                            raise self._too_large()
                        if size > most:
                            self._note(BadFrame(frame.offset, "a sealed file unpacks to more than it may"))
                            return spool.seek(0, 2)
                        spool.write(text)
                except BadFrame as bad:
                    self._note(bad)
                    spool.write(b"" if frame == self._frames[-1] else b"\0")
            return spool.seek(0, 2)
        except TooLarge:
            self.close()
            raise
        except OSError as error:
            with contextlib.suppress(OSError):  # it cannot be emptied into the file either
                self.close()
            why = f"cannot be unpacked into a temporary file: {error.strerror}"
            remedy = "set TMPDIR to a folder on a disk with room, or unpack it there (zstd -d)"
            raise SourceError(why, path=self._path, remedy=remedy) from error

    def _too_large(self) -> TooLarge:
        return TooLarge("holds too much text for its size", path=self._path)

    def _note(self, bad: BadFrame) -> None:
        self._noted.setdefault(bad.offset, bad.reason)

    def _find_frames(self) -> list[Frame]:
        if (table := self._packed.in_seek_table()) is not None:
            return table
        frames: list[Frame] = []
        offset, end = 0, self._packed.size
        while offset < end:
            try:
                frame = self._packed.at(offset)
                if frame.text_size != 0:
                    frames.append(frame)
                offset += frame.size
            except BadFrame as bad:
                self._note(bad)
                behind = self._packed.next_behind(offset)
                if behind < end or self._packed.read(offset, 4) == MAGIC:  # what it gives before it breaks off is read
                    frames.append(Frame(offset, behind - offset, None))
                offset = behind
        return frames


def first_text(packed: PackedBytes, limits: Limits = DEFAULT) -> bytes:
    """How the text of a sealed file begins, up to `limits.head_bytes`; less if its first frame is damaged or short."""
    frames, found = Frames(packed, limits), b""
    with contextlib.suppress(BadFrame):
        for text in frames.texts():
            found += text
            if len(found) >= limits.head_bytes:
                break
    return found[: limits.head_bytes]
