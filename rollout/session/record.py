"""Every record of a file, forward and lossless.

Joining the `raw` of all records gives the file back, byte for byte: blank lines, damaged bytes and lines beyond the
limit come as `damaged` or `blank` records of their own.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.session_meta import without_base
from rollout.files.encrypted.keys import Cipher
from rollout.files.source import AnySource, find
from rollout.format import lines, strict_json
from rollout.format import records as stream
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.format.records import Line, Segment
from rollout.items.tokens import Tokens
from rollout.limits import DEFAULT, Limits

DAMAGED = "damaged"
BLANK = "blank"
_ANY_DEPTH = 1 << 62


class Record(msgspec.Struct, frozen=True, gc=False):
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
    data: bytes = b""
    """The record's JSON alone; empty for damaged and blank ones."""
    envelope: codec.Envelope = codec.Envelope()

    def __repr__(self) -> str:
        return f"<Record {self.type} {self.kind} in line {self.line}: {self.raw!r}>"

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
    def tokens(self) -> Tokens | None:
        """The totals of the session, where the record tells them."""
        note = CODEX.token_note(self.data, self.envelope) if self.data else None
        return None if note is None or note.reading is None else note.reading.totals

    @property
    def value(self) -> Any:
        """The whole line as a JSON value; None for damaged and blank ones."""
        return strict_json.decode_value(self.data) if self.data else None

    @property
    def detached(self) -> Any:
        """The same; a session_meta as the first line of a file that continues none."""
        value, payload = self.value, self.payload
        return (without_base(value, payload) if isinstance(payload, dict) else None) or value


def records(
    source: AnySource,
    *,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
) -> Iterator[Record]:
    """Every record of one file (its bases not included), oldest first and lossless: all `raw` joined are the file.

    Args:
        source: As in `reconstruct`, and so are `home`, `limits` and `cipher`.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
    """
    origin = find(source, home, limits, cipher)
    with origin.opened() as lineage:
        text = lineage.opened[0].source
        yield from read_records([Segment(text, text.size)], limits)


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
    for line in stream.forward(segments, limits, segment=segment, start=start, number=number):
        if line.skipped:
            yield from _bulk(line, segments[line.segment].source, limits)
        else:
            is_tail = not line.ends and line.end == segments[line.segment].end
            yield from read_line(line, limits, is_tail=is_tail)


def read_line(line: Line, limits: Limits, *, is_tail: bool = False) -> list[Record]:
    """The records of one line, oldest first; of one beyond the limit a damaged one without its bytes."""
    if line.skipped:
        return [Record(DAMAGED, None, line.number, line.offset, b"", _too_long(limits))]
    raw = line.data + b"\n" if line.ends else line.data
    envelope = codec.decode_plain(line.data, limits.depth)
    if envelope is not None:
        return [Record(*codec.types_of(envelope), line.number, line.offset, raw, None, line.data, envelope)]
    pieces = list(codec.split(line.data, limits.depth))
    if not pieces:
        return [Record(BLANK, None, line.number, line.offset, raw)]
    if is_tail:
        pieces[-1] = pieces[-1].as_tail()
    found: list[Record] = []
    begins = [0, *(piece.offset for piece in pieces[1:]), len(raw)]
    for piece, (begin, end) in zip(pieces, itertools.pairwise(begins), strict=True):
        offset, part = line.offset + piece.offset, raw[begin:end]
        if piece.envelope is None:
            found.append(Record(DAMAGED, piece.kind, line.number, offset, part, piece.reason))
        else:
            type, kind = codec.types_of(piece.envelope)
            found.append(Record(type, kind, line.number, offset, part, None, piece.data, piece.envelope))
    return found


class RecordReader:
    """Records of one segment at offsets that ascend; what lies between them is not decoded.

    For what was read once: nobody looks again at how deep a record is.
    """

    def __init__(self, segment: Segment, limits: Limits = DEFAULT) -> None:
        self._lines = stream.forward([segment], limits)
        self._limits = dataclasses.replace(limits, depth=_ANY_DEPTH)
        self._end = 0
        self._found: dict[int, Record] = {}

    def at(self, offset: int) -> Record | None:
        """The one that begins at `offset`; None if none does, or a later one was asked for before."""
        while self._end <= offset:
            line = next(self._lines, None)
            if line is None:
                return None
            self._end = line.end
            if line.end > offset:
                self._found = {record.offset: record for record in read_line(line, self._limits) if record.data}
        return self._found.get(offset)


def _too_long(limits: Limits) -> str:
    return f"longer than the limit of {limits.line_bytes} bytes"


def _bulk(line: Line, source: lines.Source, limits: Limits) -> Iterator[Record]:
    type, reason = (BLANK, None) if line.skipped == "gap" else (DAMAGED, _too_long(limits))
    step = max(1, limits.chunk_bytes)
    for offset in range(line.offset, line.end, step):
        raw = source.read_at(offset, min(step, line.end - offset))
        yield Record(type, None, line.number, offset, raw, reason)
