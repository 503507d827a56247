"""One pass over the text of a damaged file that gives the text of the mended one.

Each record gets a line of its own, byte for byte as it stands; NUL runs, blank lines, byte-order marks and carriage
returns at line ends are dropped; damaged pieces are set apart. What is whole comes out as it went in, so a file that
needs nothing gives itself, and no steps. A line that is only longer than the limit stays: another limit reads it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rollout.dialects.codex import envelope
from rollout.files.lineage import holds_record
from rollout.files.recovery import batch_mark, incomplete_batch_start, unmark
from rollout.format import lines
from rollout.limits import Limits

BOM = b"\xef\xbb\xbf"
NULS = "NUL bytes"


@dataclasses.dataclass(frozen=True, slots=True)
class RepairStep:
    """What is done in `line` (from 1) to `size_bytes` bytes from `offset` on, and the `reason`.

    `action` is newline (the last record gets one), cut (kept in a file beside first), drop, move (to a file beside),
    separate (the record gets a line of its own) or unmark (the record no longer waits for the rest of its batch). Like
    steps in neighbouring lines are one, `count` times, up to `last_line`. `inside`: not at the end of the file.
    """

    action: str
    line: int
    last_line: int
    offset: int
    size_bytes: int
    reason: str
    inside: bool = True
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """Damaged bytes, and where they stood."""

    offset: int
    data: bytes


class Mending:
    """The mended text of `source[:end]`, line by line, and between them what moves away. Iterate once.

    `end` is where the visible text ends (see `recovery`), its last line with or without a newline. When it is over,
    `steps` has what was done, `line` is the line in which byte `end` lies.
    """

    def __init__(self, source: lines.Source, end: int, limits: Limits) -> None:
        self.steps: list[RepairStep] = []
        self.line = 1
        self.done_bytes = 0
        self._source, self._end, self._limits = source, end, limits
        self._newest: dict[tuple[str, str], int] = {}  # the newest step of a kind, by action and reason
        self._pieces = 0  # met so far in this line
        self._batch: list[tuple[int, int, bytes]] = []  # (offset, line, record): a batch that may be the last

    def __iter__(self) -> Iterator[bytes | Moved]:
        for block in lines.forward(self._source, 0, self._end, self._limits):
            if isinstance(block, lines.Batch):
                yield from self._mend(block)
                self.done_bytes = block.end
                continue
            if isinstance(block, lines.Gap):
                self._step("drop", NULS, block.offset, block.n)
            else:
                yield from self._copy(block)
            self.done_bytes = block.offset + block.n
        yield from self._release(is_last=True)

    def _mend(self, batch: lines.Batch) -> Iterator[bytes | Moved]:
        offset, last = batch.offset, len(batch.lines) - 1
        for i, data in enumerate(batch.lines):
            if not self._pieces and not data.endswith(b"\r") and envelope.decode_plain(data, self._limits.depth):
                yield from self._put(offset, data)
            elif data or i != last:
                yield from self._mend_line(offset, data)
            offset += len(data) + 1
            if i != last:
                self.line += 1
                self._pieces = 0

    def _mend_line(self, offset: int, data: bytes) -> Iterator[bytes | Moved]:
        pieces = list(envelope.split(data, self._limits.depth))
        if b"\0" in data:
            self._step("drop", NULS, offset + data.index(b"\0"), data.count(b"\0"))
        elif not pieces:
            self._step("drop", "a blank line", offset, len(data) + 1)
        if pieces and data.endswith(b"\r"):
            self._step("drop", "a carriage return before the line end", offset + len(data.rstrip(b"\r")), 1)
        end = 0
        for piece in pieces:
            between = data[end : piece.offset]
            if BOM in between:
                self._step("drop", "a byte-order mark", offset + end + between.index(BOM), len(BOM))
            end = piece.offset + len(piece.data)
            if piece.envelope is None:
                self._step("move", piece.reason, offset + piece.offset, len(piece.data))
                self._pieces += 1
                yield Moved(offset + piece.offset, piece.data)
                continue
            if self._pieces:
                reason = "a whole record stands behind other bytes in the same line"
                self._step("separate", reason, offset + piece.offset, len(piece.data))
            is_alone = len(pieces) == 1 and b"\0" not in data and BOM not in between
            yield from self._put(offset + piece.offset, data.rstrip(b"\r") if is_alone else piece.data)

    def _put(self, offset: int, data: bytes) -> Iterator[bytes]:
        """A record. One of a batch is held back: whether it is visible at the end depends on what comes behind."""
        self._pieces += 1
        mark = batch_mark(data)
        newest = batch_mark(self._batch[-1][2]) if self._batch else None
        if newest is not None and (mark is None or mark[1] != newest[1] or mark[0] <= newest[0]):
            yield from self._release()
        if mark is None:
            yield data + b"\n"
        else:
            self._batch.append((offset, self.line, data))

    def _release(self, *, is_last: bool = False) -> Iterator[bytes]:
        """The records held back; without their marks where readers would now take them for a batch that was cut short.

        They do not now: what hid the rest of the batch stood behind them, and has been moved away.
        """
        batch, self._batch = self._batch, []
        newest_first = ((offset, data) for offset, _, data in reversed(batch))
        hidden_from = incomplete_batch_start(newest_first, holds_record) if is_last else None
        for offset, line, data in batch:
            if hidden_from is None:
                yield data + b"\n"
            else:
                self._step("unmark", "the rest of its batch is damaged", offset, len(data), line)
                yield unmark(data + b"\n")

    def _copy(self, line: lines.Oversize) -> Iterator[bytes]:
        """A line beyond the limit, as it stands."""
        yield from self._release()
        chunk = b""
        for at in range(line.offset, line.offset + line.n, self._limits.chunk_bytes):
            chunk = self._source.read_at(at, min(self._limits.chunk_bytes, line.offset + line.n - at))
            yield chunk
        if chunk.endswith(b"\n"):
            self.line += 1
            self._pieces = 0
        else:  # NUL bytes follow, or the end
            self._pieces += 1
            yield b"\n"

    def _step(self, action: str, reason: str, offset: int, size_bytes: int, line: int | None = None) -> None:
        here = self.line if line is None else line
        at = self._newest.get((action, reason))
        if at is not None and here <= (before := self.steps[at]).last_line + 1:
            self.steps[at] = dataclasses.replace(
                before, last_line=here, size_bytes=before.size_bytes + size_bytes, count=before.count + 1
            )
            return
        self._newest[action, reason] = len(self.steps)
        self.steps.append(RepairStep(action, here, here, offset, size_bytes, reason))
