"""What is remembered of a log between two looks at it: the marks of its lines, so that nothing is read twice.

Marks are remembered as they were gathered, before any fold: what is appended later may take back, replace or remove
what stands now, and only the fold of all marks tells. A memory ends where a line ends and the lines before it are
certain to stand in the file: the tail and an incomplete batch are never remembered. A memory that has grown is equal,
byte for byte when it is encoded, to one that was made at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise

import msgspec
from msgspec import Raw

from rollout.fold.events import Mark, Run
from rollout.items.events import Event


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A mark, without what the fold finds out. `seq` and `newlines` are those of a log that ends with the memory.

    Of a run, `count` is that of its items, and `steps` the newest of its refs, then how much each is greater than the
    next.
    """

    event: Event
    seq: int
    segment: int
    offset: int
    size: int
    newlines: int
    count: int = 0
    steps: list[int] | None = None


class Memory(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the first `end` bytes of a file and its bases hold; of the bases no more than the fold has asked for."""

    end: int
    records: int
    line_counts: tuple[int, ...]
    """Line ends in each segment, the file itself first."""
    threads: tuple[str, ...]
    """The thread of each segment: for the ids of implicit turns."""
    usage: tuple[int, bytes] | None
    """`seq` and JSON of the newest token totals."""
    marks: list[Kept]
    """Newest first."""
    is_cut: bool = False
    """Older records are not among the marks, the oldest of which begins a turn of a base."""

    def encode(self) -> bytes:
        """For `Memory.decode`, of the same version of this module."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decode(data: bytes) -> Memory:
        """msgspec.DecodeError if it is none."""
        return _decoder.decode(data)

    def marks_behind(self, records: int, newlines: int) -> Iterator[Mark]:
        """The marks, newest first, as they are after so many more records and line ends were appended."""
        for kept in self.marks:
            newlines_behind = kept.newlines + (newlines if kept.segment == 0 else 0)
            place = (kept.event, kept.seq + records, kept.segment, kept.offset, kept.size, newlines_behind)
            if kept.steps is None:
                yield Mark(*place)
            else:
                yield Run(*place, count=kept.count, refs=array("Q", accumulate(kept.steps, int.__sub__)))

    def usage_behind(self, records: int) -> tuple[int, Raw] | None:
        """The newest token totals and their `seq`, after so many more records."""
        return None if self.usage is None else (self.usage[0] + records, Raw(self.usage[1]))


_decoder = msgspec.msgpack.Decoder(Memory)


def keep(mark: Mark) -> Kept:
    """What is remembered of a mark of a log that ends where the memory is to end."""
    place = (mark.event, mark.seq, mark.segment, mark.offset, mark.size, mark.newlines)
    if not isinstance(mark, Run) or mark.refs is None:
        return Kept(*place)
    return Kept(*place, mark.count, [mark.refs[0], *(newer - older for newer, older in pairwise(mark.refs))])
