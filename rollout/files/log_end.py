"""How a log ends: the turn that is left open, and the last ordinal.

Looked for from the newest record back, as far as the last event that begins or ends a turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import msgspec

from rollout.dialects.codex.envelope import Envelope, records_in, turn_id_of
from rollout.dialects.codex.events import event_of
from rollout.format import lines, records
from rollout.format.labels import UNLABELLED, Label, label_of
from rollout.format.records import Segment
from rollout.items.events import TurnAborted, TurnEnded, TurnStarted
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
    for data, record in _newest_first(segments, limits):
        if is_newest:
            ordinal, is_newest = ordinal_of(data), False
        match event_of(data, record, False):
            case TurnEnded():
                return Ending(None, ordinal, turn_id_of(data))
            case TurnAborted(turn_id):
                aborts.append(turn_id)
            case TurnStarted(turn_id):
                if any(turn_id is None or other is None or other == turn_id for other in aborts):
                    return Ending(None, ordinal, turn_id)
                return Ending(LeftOpen(turn_id, label_of(data)), ordinal, turn_id)
    return Ending(None, ordinal)


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


def _newest_first(segments: Iterable[Segment], limits: Limits) -> Iterator[tuple[bytes, Envelope]]:
    for line in records.backward(segments, limits):
        for _, data, record in reversed(records_in(line.data, limits.depth)):
            yield data, record
