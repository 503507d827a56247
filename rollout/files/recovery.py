"""What a crash left at the end of a file, and how it is mended under the writer's lock.

A write goes to the end of the file in one piece, so a crash can only leave: a part of it (a torn tail), NUL bytes in
its place (the size reached the disk before the data), or some whole lines of a batch without the others.

Incomplete batch at the end. Each line of a batch of n > 1 lines ends with the envelope key `"batch":[k,n]`, k from
1 to n; a line that is written alone has no such key. A batch of which not all n lines stand, one behind the other, is
incomplete, and its lines are not visible. Only the last batch of a file can be: whoever opens the file for append cuts
it before anything is written behind it. So a reader looks at the last whole line: without the key everything stands,
and nothing more need be looked at. The rule holds at the end of a file, not at the end of a base (`history_base`),
which was whole when it was referred to.

`inspect` decides and changes nothing; `apply` keeps what it cuts in a file beside, durably, before it cuts. Nothing
that a reader could read is ever removed, and a crash in between leaves a file that is mended in the same way.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from rollout.files.disk import AnyPath, AppendFile, FileSystem
from rollout.files.staging import keep_beside
from rollout.format.lines import Batch, Source, backward
from rollout.limits import DEFAULT, Limits

HoldsRecord = Callable[[bytes], bool]
"""Would a reader find a record in these bytes, which end in no newline?"""


class Readable(Protocol):
    """A file, or the text of a sealed one."""

    def read_at(self, offset: int, n: int, /) -> bytes: ...


# At the end of a line that is JSON this cannot be anything but a key of the outermost object.
_MARK = re.compile(rb',"batch":\[([1-9][0-9]{0,8}),([1-9][0-9]{0,8})\]\}\Z')
_MARK_BYTES = 40
"""No mark is longer."""
_NUL_RUN = re.compile(rb"\0+")
_BELOW_BYTES = 4096
"""Read at a time below an incomplete batch: there can be as many of them as lines."""
_WHITE = b" \t\r\n"
_BLANK = b"\0" + _WHITE


def mark_batch(lines: Sequence[bytes]) -> list[bytes]:
    """The lines (JSON objects with a key or more, each ended by a newline) as one batch; one alone stays as it is."""
    if len(lines) < 2:
        return [unmark(line) for line in lines]
    bodies = [unmark(line).rstrip(_BLANK) for line in lines]
    return [b'%b,"batch":[%d,%d]}\n' % (body[:-1], k, len(bodies)) for k, body in enumerate(bodies, 1)]


def unmark(line: bytes) -> bytes:
    """The line as one that stands alone: for a copy that may end inside a batch."""
    body = line.rstrip(_BLANK)
    found = _mark_of(body)
    return line if found is None else body[: found.start()] + b"}\n"


def _mark_of(body: bytes) -> re.Match[bytes] | None:
    return _MARK.search(body, max(0, len(body) - _MARK_BYTES)) if body.endswith(b"]}") else None


def batch_mark(line: bytes) -> tuple[int, int] | None:
    """(k, n) of a line (with or without its newline) of a batch."""
    body = line.rstrip(_BLANK)
    found = _mark_of(body)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) > 1:
        return None
    return int(found[1]), int(found[2])


def incomplete_batch_start(newest_first: Iterable[tuple[int, bytes]], holds_record: HoldsRecord) -> int | None:
    """From which offset on nothing is visible, because the batch there is incomplete; None: all stands.

    The file is to be read as if it ended there (behind NUL bytes that may be within a line).
    `newest_first` gives (offset, bytes) of the physical lines from the end of the file, a tail that holds a record
    included; no more of them are taken than the answer needs: one, where the last line is of no batch.
    """
    start = previous = None
    complete = True
    for offset, piece in _pieces(newest_first, holds_record):
        if piece is None:  # a hole where lines were: one of this batch may have been there
            complete = complete and previous is None
            continue
        mark = batch_mark(piece)
        if mark is None or (previous is not None and (mark[1] != previous[1] or mark[0] >= previous[0])):
            return start
        complete = complete and mark[0] == (mark[1] if previous is None else previous[0] - 1)
        start, previous = offset, mark
        if mark[0] == 1:
            return None if complete else start
    return start


def ends_in_whole_batch(source: Source, end: int, start: int, limits: Limits) -> bool:
    """Whether the lines before byte `end` surely are a whole batch and nothing else: a quick look at a long one.

    A line begins at `start`. Where it says no, only `incomplete_batch_start` can tell: it looks at line by line.
    """
    left = count = 0
    for block in backward(source, end, limits, start):
        if not isinstance(block, Batch) or not block.begins or block.lines.pop():
            return False
        if not block.lines or b"\0" in b"".join(block.lines):
            return False
        if not left:
            k, left = batch_mark(block.lines[-1]) or (0, 1)
            if k != left:
                return False
            count = left
        marks = _marks(max(0, left - len(block.lines)), left, count)
        if not all(map(bytes.endswith, block.lines[-len(marks) :], marks)):
            return False
        left -= len(marks)
        if not left:
            return True
    return False


def _marks(first: int, last: int, count: int) -> list[bytes]:
    """How the lines of a batch end, in order: those behind `first` up to `last`."""
    between = f',{count}]}}\n,"batch":['
    return f',"batch":[{between.join(map(str, range(first + 1, last + 1)))},{count}]}}'.encode().split(b"\n")


def _pieces(newest_first: Iterable[tuple[int, bytes]], holds_record: HoldsRecord) -> Iterator[tuple[int, bytes | None]]:
    """The lines, those with NUL bytes in them piece by piece; None for a piece that is no record."""
    for offset, line in newest_first:
        if b"\0" not in line:
            if line.strip(_BLANK):
                yield offset, line
            continue
        holes = [(0, 0), *(found.span() for found in _NUL_RUN.finditer(line)), (len(line), len(line))]
        for (_, begin), (end, _) in reversed(list(itertools.pairwise(holes))):
            piece = line[begin:end]
            yield offset + begin, piece if piece and holds_record(piece) else None


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """How to mend the end of a file of `end` bytes.

    Bytes from `cut` on go, after those up to `keep_end` were kept beside (none if that is `cut`: the rest is NUL);
    then, with `newline`, the last record gets the newline that it lacks.
    """

    end: int
    cut: int
    keep_end: int
    newline: bool

    @property
    def needed(self) -> bool:
        """Whether there is anything to mend."""
        return self.cut != self.end or self.newline

    @property
    def kept_bytes(self) -> int:
        """How many bytes go to the file beside."""
        return self.keep_end - self.cut


def inspect(
    file: Readable, end: int, holds_record: HoldsRecord, *, chunk_bytes: int = DEFAULT.chunk_bytes
) -> RecoveryPlan:
    """Decides what is to be done with the first `end` bytes; changes nothing. SourceError if the disk fails."""
    data_end = bound = _data_end(file, end, chunk_bytes)
    while True:  # below an incomplete batch there can be another one, in a file that somebody else has made
        lines = _lines_backward(file, bound, chunk_bytes)
        tail_start, tail = next(lines)
        whole = bool(tail) and holds_record(tail)
        batch = incomplete_batch_start(itertools.chain([(tail_start, tail)] if whole else [], lines), holds_record)
        if batch is None:
            break
        bound = _data_end(file, batch, chunk_bytes)  # it may begin behind NUL bytes, inside a line
        chunk_bytes = min(chunk_bytes, _BELOW_BYTES)
    return RecoveryPlan(end, bound if whole or not tail else tail_start, data_end, newline=whole)


def apply(fs: FileSystem, file: AppendFile, path: AnyPath, plan: RecoveryPlan) -> str | None:
    """Carries `plan` out on the locked `file`, whose sync is left to the caller; the path of the file beside, if any.

    OSError, SourceError. What is kept beside is durable before anything is cut.
    """
    beside = keep_beside(fs, path, "torn", file, plan.cut, plan.keep_end) if plan.kept_bytes else None
    if plan.cut != plan.end:
        file.truncate(plan.cut)
    if plan.newline:
        file.append(b"\n")
    return beside


def _data_end(file: Readable, end: int, chunk_bytes: int) -> int:
    """Where the NUL bytes begin that end the file."""
    while end:
        start = max(0, end - chunk_bytes)
        chunk = file.read_at(start, end - start).rstrip(b"\0")
        if chunk:
            return start + len(chunk)
        end = start
    return 0


def _lines_backward(file: Readable, end: int, chunk_bytes: int) -> Iterator[tuple[int, bytes]]:
    """First the tail (perhaps empty), then the lines without their newlines, newest first, as (offset, bytes)."""
    pieces: list[bytes] = []  # of the line that is being read, last piece first
    while end:
        start = max(0, end - chunk_bytes)
        chunk = file.read_at(start, end - start)
        at = len(chunk)
        while (newline := chunk.rfind(b"\n", 0, at)) >= 0:
            pieces.append(chunk[newline + 1 : at])
            yield start + newline + 1, b"".join(reversed(pieces))
            pieces.clear()
            at = newline
        pieces.append(chunk[:at])
        end = start
    yield 0, b"".join(reversed(pieces))
