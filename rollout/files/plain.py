"""The text of a plain rollout file, as it was when the file was opened."""

from __future__ import annotations

from rollout.files.port import ReadFile
from rollout.format import lines
from rollout.limits import MIB

_END_BYTES, _END_READS = MIB, 8
"""So much of a torn end is kept, read in so many pieces. Of a longer one a part may be seen as it was, and another as
it is when it has been mended."""


class FileSource:
    """An open plain file. Both ends are read once, however often asked for.

    Whoever opens the log to write mends a torn end meanwhile, writes on there, and may leave a torn end again. So that
    what was found of it holds for all reads behind, a torn end is kept as far as it was read in one go.
    """

    __slots__ = ("_covered", "_end_from", "_ends", "_file", "_is_torn", "size")

    def __init__(self, file: ReadFile) -> None:
        self._file = file
        self._ends: list[tuple[int, bytes]] = []
        self._covered = lines.Covered()
        self.size = self._end_from = file.size()
        self._is_torn = False

    @property
    def bytes_read(self) -> int:
        """How many bytes of the file were read: one that was read twice, at the head and at the end, counts once."""
        return self._covered.count

    def read_at(self, offset: int, n: int, /) -> bytes:
        n = max(min(n, self.size - offset), 0)
        for begin, kept in self._ends:
            if begin <= offset and offset + n <= begin + len(kept):
                return kept[offset - begin : offset - begin + n]
        found = self._file.read_at(offset, n)
        self._covered.add(offset, offset + len(found))
        found = found.ljust(n, b"\0")  # who mends a torn end meanwhile cuts it, as if nothing had been there,
        for begin, kept in self._ends:  # and writes there anew: what was seen first counts
            start, stop = max(begin - offset, 0), min(begin + len(kept) - offset, n)
            if start < stop:
                found = found[:start] + kept[offset + start - begin : offset + stop - begin] + found[stop:]
        is_end = offset + n == self.size
        if is_end:
            from rollout.files.recovery import batch_mark  # noqa: PLC0415  # who reads no end need not wait for it

            self._is_torn = not found.endswith(b"\n") or batch_mark(found) is not None
        is_next = self._is_torn and self.size - self._end_from < _END_BYTES and len(self._ends) < _END_READS
        if offset == 0 or is_end or (is_next and offset < self._end_from <= offset + n):
            self._ends.append((offset, found))
        if offset + n >= self._end_from:
            self._end_from = min(offset, self._end_from)
        return found
