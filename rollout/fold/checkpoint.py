"""What is remembered of a log between two looks at it: the marks of its lines, so that nothing is read twice.

Marks are remembered as they were gathered, before any fold: what is appended later may take back, replace or remove
what stands now, and only the fold of all marks tells. A memory ends where a line ends and the lines before it are
certain to stand in the file: the tail and an incomplete batch are never remembered. A memory that has grown is equal,
byte for byte when it is encoded, to one that was made at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec
from msgspec import Raw

from rollout.fold.events import Kind, Mark, Span


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A mark, without what the fold finds out. `seq` and `newlines` are those of a log that ends with the memory.

    `steps`: the newest of the run's refs, then how much each is greater than the next.
    """

    kind: int
    seq: int
    segment: int
    offset: int
    size: int
    newlines: int
    number: int = 0
    key: str | None = None
    text: str | None = None
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
            shift = newlines if kept.segment == 0 else 0
            mark = Mark(
                Kind(kept.kind), kept.seq + records, kept.segment, kept.offset, kept.size, kept.newlines + shift
            )
            mark.number, mark.key, mark.text = kept.number, kept.key, kept.text
            if kept.steps is not None:
                mark.refs = array("Q", accumulate(kept.steps, int.__sub__))
            yield mark

    def usage_behind(self, records: int) -> tuple[int, Raw] | None:
        """The newest token totals and their `seq`, after so many more records."""
        return None if self.usage is None else (self.usage[0] + records, Raw(self.usage[1]))


_decoder = msgspec.msgpack.Decoder(Memory)


class Recorder:
    """Observes a reconstruction of a log that ends where the memory is to end."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        self.kept += map(_keep, reversed(marks))


def _keep(mark: Mark) -> Kept:
    if mark.refs is None:
        text = mark.text if mark.kind is Kind.CONTEXT else None
        size, newlines = mark.size, mark.newlines
        return Kept(mark.kind, mark.seq, mark.segment, mark.offset, size, newlines, mark.number, mark.key, text)
    steps = [mark.refs[0], *(newer - older for newer, older in pairwise(mark.refs))]
    return Kept(mark.kind, mark.seq, mark.segment, mark.offset, mark.size, mark.newlines, mark.number, steps=steps)
