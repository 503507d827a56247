"""Every record of a file, forward and lossless.

Joining the `raw` of all records gives the file back, byte for byte: blank lines, damaged bytes and lines beyond the
limit come as `damaged` or `blank` records of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from rollout.dialects import codex as r
from rollout.format import envelope as codec
from rollout.format import lines
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.limits import DEFAULT, Limits

DAMAGED = "damaged"
BLANK = "blank"
_ANY_DEPTH = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One record, with the bytes of the file that hold it.

    `type` is the line's own (`session_meta`, `response_item`, … any unknown one), `record_type` for the state lines of
    2025, `damaged` (then `reason` says why) or `blank`. A bare item of 2025 has the type `response_item`.
    `offset` is where the record's own bytes begin; `raw` holds them, whatever odd bytes stand around them, and the line
    end.
    """

    type: str
    kind: str | None
    """The payload's own type, of an event or an item."""
    line: int
    offset: int
    raw: bytes
    reason: str | None = None
    data: bytes = dataclasses.field(default=b"", repr=False, compare=False)
    """The record's JSON alone; empty for damaged and blank ones."""
    envelope: r.Envelope = dataclasses.field(default=r.Envelope(), repr=False, compare=False)

    @property
    def is_damaged(self) -> bool:
        """Whether the bytes are no record."""
        return self.reason is not None

    @property
    def payload(self) -> Any:
        """The payload, decoded anew; None for damaged and blank ones."""
        return codec.decode_value(codec.payload_of(self.data)) if self.data else None

    @property
    def label(self) -> Label:
        """The session_id and the tags, as far as they are right."""
        return label_of(self.data) if self.data else UNLABELLED

    @property
    def session_id(self) -> str | None:
        """The label's; None where it is unset."""
        return self.label.session_id

    @property
    def tags(self) -> dict[str, str]:
        """The label's."""
        return dict(self.label.tags)

    @property
    def value(self) -> Any:
        """The whole line as a JSON value; None for damaged and blank ones."""
        return codec.decode_value(self.data) if self.data else None


def read_records(source: lines.Source, end: int | None = None, limits: Limits = DEFAULT) -> Iterator[Record]:
    """The records of one file, its bases not included, oldest first."""
    line, size = 1, source.size if end is None else end
    for block in lines.forward(source, 0, end, limits):
        if not isinstance(block, lines.Batch):
            yield from _bulk(block, source, line, limits)
            line += isinstance(block, lines.Oversize) and block.ended
            continue
        offset = block.offset
        found = block.lines
        last = len(found) - 1
        for i, data in enumerate(found):
            envelope = codec.decode_plain(data, limits.depth)
            raw = data if i == last else data + b"\n"
            if envelope is not None:
                yield _record(envelope, line, offset, raw, data)
            elif raw:
                yield from _odd(data, raw, line, offset, limits, is_tail=offset + len(raw) == size and i == last)
            offset += len(raw)
            line += i != last


class RecordReader:
    """Records of the first `end` bytes of a file at offsets that ascend; what lies between them is not decoded.

    For what was read once: nobody looks again at how deep a record is.
    """

    def __init__(self, source: lines.Source, end: int, limits: Limits = DEFAULT) -> None:
        self._blocks = lines.forward(source, 0, end, limits)
        self._limits = dataclasses.replace(limits, depth=_ANY_DEPTH)
        self._lines: list[bytes] = []
        self._next = self._begin = 0  # of the lines, and where it begins
        self._parts: tuple[int, dict[int, Record]] = (-1, {})  # of the odd line that begins there, by offset

    def at(self, offset: int, line: int) -> Record | None:
        """The one that begins at `offset`, in that line; None if none does, or a later line was asked for before."""
        while True:
            for i in range(self._next, len(self._lines)):
                data = self._lines[i]
                if offset < self._begin + len(data):
                    self._next = i
                    return self._find(data, data if i == len(self._lines) - 1 else data + b"\n", offset, line)
                self._begin += len(data) + 1
            block = next(self._blocks, None)
            if block is None:
                self._next = len(self._lines)
                return None
            self._lines = block.lines if isinstance(block, lines.Batch) else []
            self._next, self._begin = 0, block.offset

    def _find(self, data: bytes, raw: bytes, offset: int, line: int) -> Record | None:
        begin = self._begin
        if offset == begin:
            envelope = codec.decode_plain(data, _ANY_DEPTH)
            if envelope is not None:
                return _record(envelope, line, offset, raw, data)
        if self._parts[0] != begin:
            parts = _odd(data, raw, line, begin, self._limits, is_tail=False)
            self._parts = begin, {record.offset: record for record in parts if record.data}
        return self._parts[1].get(offset)


def _bulk(block: lines.Oversize | lines.Gap, source: lines.Source, line: int, limits: Limits) -> Iterator[Record]:
    is_gap = isinstance(block, lines.Gap)
    reason = None if is_gap else f"longer than the limit of {limits.line_bytes} bytes"
    step = max(1, limits.chunk_bytes)
    for offset in range(block.offset, block.offset + block.n, step):
        raw = source.read_at(offset, min(step, block.offset + block.n - offset))
        yield Record(BLANK if is_gap else DAMAGED, None, line, offset, raw, reason)


def _odd(data: bytes, raw: bytes, line: int, offset: int, limits: Limits, *, is_tail: bool) -> Iterator[Record]:
    pieces = list(codec.split(data, limits.depth))
    if pieces and is_tail:
        pieces[-1] = pieces[-1].as_tail()
    if not pieces:
        yield Record(BLANK, None, line, offset, raw)
        return
    begins = [0, *(piece.offset for piece in pieces[1:]), len(raw)]
    for i, piece in enumerate(pieces):
        part = raw[begins[i] : begins[i + 1]]
        if piece.envelope is None:
            yield Record(DAMAGED, piece.kind, line, offset + piece.offset, part, piece.reason)
        else:
            yield _record(piece.envelope, line, offset + piece.offset, part, piece.data)


def _record(envelope: r.Envelope, line: int, offset: int, raw: bytes, data: bytes) -> Record:
    type, kind = r.types_of(envelope)
    return Record(type, kind, line, offset, raw, None, data, envelope)
