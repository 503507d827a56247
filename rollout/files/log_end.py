"""How a log ends: the turn that is left open, and the last ordinal.

Looked for from the newest record back, as far as the last lifecycle event; a log without any is read whole, but its
lines are not decoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import msgspec

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.format import lines, records
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.format.records import Segment
from rollout.items.kinds import Head
from rollout.limits import DEFAULT, KIB, Limits

_NEAR = dataclasses.replace(DEFAULT, first_chunk_bytes=8 * KIB)


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOpen:
    """A turn that began and did not end; it may have begun without an id. `label`: that of its first line."""

    turn_id: str | None
    label: Label = UNLABELLED


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """`ordinal` is that of the newest record, None if it has none; `turn_id` that of the newest turn, if it is told."""

    left_open: LeftOpen | None = None
    ordinal: int | None = None
    turn_id: str | None = None


class _Ordinal(msgspec.Struct, frozen=True):
    ordinal: int | None = None


def ending_of(segments: Iterable[Segment], limits: Limits = DEFAULT) -> Ending:
    """The ending of a lineage, newest segment first."""
    ordinal, is_newest = None, True
    aborts: list[str | None] = []
    for data, envelope in _newest_first(segments, limits):
        if is_newest:
            ordinal, is_newest = ordinal_of(data), False
        kind = event_kind(envelope)
        if kind in TURN_COMPLETED:
            return Ending(None, ordinal, codec.turn_id_of(data))
        if kind == TURN_ABORTED:
            aborts.append(codec.turn_id_of(data))
        elif kind in TURN_STARTED:
            turn_id = codec.turn_id_of(data)
            if any(turn_id is None or other is None or other == turn_id for other in aborts):
                return Ending(None, ordinal, turn_id)
            return Ending(LeftOpen(turn_id, label_of(data)), ordinal, turn_id)
    return Ending(None, ordinal)


def event_kind(envelope: codec.Envelope) -> str | None:
    """The type of the event that a line holds; None for any other line."""
    return envelope.payload.type if envelope.type == "event_msg" and isinstance(envelope.payload, Head) else None


def ordinal_of(line: bytes) -> int | None:
    """The ordinal of a line that holds a record."""
    try:
        return msgspec.json.decode(line, type=_Ordinal).ordinal
    except msgspec.ValidationError:
        return None


def newest_ordinal(source: lines.Source) -> int | None:
    """The ordinal of the newest record of a file; None if it has none."""
    newest = next(_newest_first([Segment(source, source.size)], _NEAR), None)
    return None if newest is None else ordinal_of(newest[0])


def _newest_first(segments: Iterable[Segment], limits: Limits) -> Iterator[tuple[bytes, codec.Envelope]]:
    """The newest record, and those that can be lifecycle events."""
    is_newest = True
    for line in records.backward(segments, limits):
        if is_newest or _may_tell(line.data):
            found = codec.records_in(line.data, limits.depth)
            is_newest = is_newest and not found
            yield from ((data, envelope) for _, data, envelope in reversed(found))


def _may_tell(line: bytes) -> bool:
    """Whether the name of a lifecycle event can be in a line: as it is, or with escapes in it."""
    return b"_started" in line or b"_complete" in line or b"_aborted" in line or b"\\u" in line
