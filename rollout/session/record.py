"""Every record of a file, forward and lossless.

Joining the `raw` of all records gives the file back, byte for byte: blank lines, damaged bytes and lines beyond the
limit come as `damaged` or `blank` records of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rollout.dialects.codex import envelope as codec
from rollout.format import lines, records, strict_json
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.format.records import Line, Segment
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
    envelope: codec.Envelope = dataclasses.field(default=codec.Envelope(), repr=False, compare=False)

    @property
    def is_damaged(self) -> bool:
        """Whether the bytes are no record."""
        return self.reason is not None

    @property
    def payload(self) -> Any:
        """The payload, decoded anew; None for damaged and blank ones."""
        return strict_json.decode_value(codec.payload_of(self.data)) if self.data else None

    @property
    def timestamp(self) -> str | None:
        """The line's own, as it stands there; None where there is none."""
        return codec.time_of(self.data)

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
        return strict_json.decode_value(self.data) if self.data else None


def read_records(
    segments: Sequence[Segment],
    limits: Limits = DEFAULT,
    *,
    segment: int | None = None,
    start: int = 0,
    number: int = 1,
) -> Iterator[Record]:
    """The records of a lineage (newest segment first) from a byte on, oldest first; arguments of `records.forward`.

    Raises:
        TooLarge: A limit on the number of lines is exceeded.
    """
    for line in records.forward(segments, limits, segment=segment, start=start, number=number):
        if line.skipped:
            yield from _bulk(line, segments[line.segment].source, limits)
            continue
        envelope = codec.decode_plain(line.data, limits.depth)
        if envelope is not None:
            raw = line.data + b"\n" if line.ends else line.data
            yield _record(envelope, line.number, line.offset, raw, line.data)
        else:
            yield from _odd(line, limits, is_tail=not line.ends and line.end == segments[line.segment].end)


def read_line(line: Line, limits: Limits) -> list[Record]:
    """The records of one line, oldest first; of one beyond the limit a damaged one without its bytes."""
    if line.skipped:
        reason = f"longer than the limit of {limits.line_bytes} bytes"
        return [Record(DAMAGED, None, line.number, line.offset, b"", reason)]
    envelope = codec.decode_plain(line.data, limits.depth)
    if envelope is not None:
        return [_record(envelope, line.number, line.offset, line.data, line.data)]
    return list(_odd(line, limits, is_tail=False))


class RecordReader:
    """Records of one segment at offsets that ascend; what lies between them is not decoded.

    For what was read once: nobody looks again at how deep a record is.
    """

    def __init__(self, segment: Segment, limits: Limits = DEFAULT) -> None:
        self._lines = records.forward([segment], limits)
        self._limits = dataclasses.replace(limits, depth=_ANY_DEPTH)
        self._line: Line | None = None
        self._parts: dict[int, Record] | None = None  # of that line, if it is odd

    def at(self, offset: int) -> Record | None:
        """The one that begins at `offset`; None if none does, or a later one was asked for before."""
        while self._line is None or self._line.end <= offset:
            self._line, self._parts = next(self._lines, None), None
            if self._line is None:
                return None
        line = self._line
        if offset == line.offset and (envelope := codec.decode_plain(line.data, _ANY_DEPTH)) is not None:
            return _record(envelope, line.number, offset, line.data + b"\n" if line.ends else line.data, line.data)
        if self._parts is None:
            parts = _odd(line, self._limits, is_tail=False)
            self._parts = {record.offset: record for record in parts if record.data}
        return self._parts.get(offset)


def _bulk(line: Line, source: lines.Source, limits: Limits) -> Iterator[Record]:
    is_gap = line.skipped == "gap"
    reason = None if is_gap else f"longer than the limit of {limits.line_bytes} bytes"
    step = max(1, limits.chunk_bytes)
    for offset in range(line.offset, line.end, step):
        raw = source.read_at(offset, min(step, line.end - offset))
        yield Record(BLANK if is_gap else DAMAGED, None, line.number, offset, raw, reason)


def _odd(line: Line, limits: Limits, *, is_tail: bool) -> Iterator[Record]:
    raw = line.data + b"\n" if line.ends else line.data
    pieces = list(codec.split(line.data, limits.depth))
    if pieces and is_tail:
        pieces[-1] = pieces[-1].as_tail()
    if not pieces:
        yield Record(BLANK, None, line.number, line.offset, raw)
        return
    begins = [0, *(piece.offset for piece in pieces[1:]), len(raw)]
    for i, piece in enumerate(pieces):
        part, offset = raw[begins[i] : begins[i + 1]], line.offset + piece.offset
        if piece.envelope is None:
            yield Record(DAMAGED, piece.kind, line.number, offset, part, piece.reason)
        else:
            yield _record(piece.envelope, line.number, offset, part, piece.data)


def _record(envelope: codec.Envelope, line: int, offset: int, raw: bytes, data: bytes) -> Record:
    type, kind = codec.types_of(envelope)
    return Record(type, kind, line, offset, raw, None, data, envelope)
