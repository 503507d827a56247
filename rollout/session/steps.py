"""The lines of a log as steps to go through, from any of them on in either direction.

Only the lines that are asked for are read and decoded. What became of a step is judged as of a *moment*: with the lines
up to some place and none behind it, so that the same step can be visible at one moment and rolled back at the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex import records as r
from rollout.dialects.codex.items import agent_item, is_instruction, is_shown
from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.format import records, strict_json
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits
from rollout.session.record import timestamp_of

ITEM, COMPACTION, ROLLBACK, REMOVAL, START, END, ERROR, DAMAGED, TOKENS, CONTEXT, SESSION, OTHER = (
    "item compaction rollback removal start end error damaged tokens context session other".split()
)
MARKERS = frozenset({COMPACTION, ROLLBACK, REMOVAL})
"""The kinds that change what became of older lines."""
STORY = frozenset({ITEM, START, END, ERROR, DAMAGED, *MARKERS})
"""The kinds that tell a session; the others repeat it, or are of use to programs."""
_EVENTS = {
    **dict.fromkeys(TURN_STARTED, START),
    **dict.fromkeys([*TURN_COMPLETED, TURN_ABORTED], END),
    "thread_rolled_back": ROLLBACK,
    "items_removed": REMOVAL,
    "token_count": TOKENS,
    "error": ERROR,
}
_TYPES = {
    "compacted": COMPACTION,
    "turn_context": CONTEXT,
    "session_meta": SESSION,
    "token_usage_record": TOKENS,
    "inter_agent_communication": ITEM,
}


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class StepPosition:
    """A line: in file `segment` of the lineage (0 is the oldest), from byte `offset` to `end`."""

    segment: int
    offset: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One line of a log, as of a moment.

    `kind` is one of item, compaction, rollback, removal, start, end (of a turn), error, damaged, tokens, context,
    session, other; `name` is the record's own kind. `status` is as in `Explained`; `by_offset` is where the record
    lies that replaced, rolled back or removed it. `turn_id` is derived where the log gives none.
    """

    position: StepPosition
    kind: str
    name: str
    offset: int
    """Where the record begins in the line, odd bytes ahead of it left out."""
    status: str = ""
    by_offset: int | None = None
    turn_id: str | None = None
    reason: str | None = None
    is_marker: bool = False
    """Whether a record of the line changes what became of older ones."""
    data: bytes = dataclasses.field(default=b"", repr=False, compare=False)

    @property
    def payload(self) -> Any:
        """The record's payload, decoded anew; None for damaged bytes."""
        return strict_json.decode_value(codec.payload_of(self.data)) if self.data else None

    @property
    def facts(self) -> dict[str, Any]:
        """The payload, if it is an object; else nothing."""
        found = self.payload
        return found if isinstance(found, dict) else {}

    @property
    def item(self) -> dict[str, Any] | None:
        """What the model was shown; None for a step that is no item."""
        if self.kind != ITEM:
            return None
        if self.name == "inter_agent_communication":
            found: Any = strict_json.decode_value(agent_item(self.data))
        else:
            found = self.payload
        return found if isinstance(found, dict) else None

    @property
    def timestamp(self) -> str | None:
        """The line's own, as it stands there; None where there is none."""
        return timestamp_of(self.data)

    @property
    def is_story(self) -> bool:
        """Whether it tells something to people that no other line tells."""
        return self.kind in STORY


def read_step(position: StepPosition, line: bytes, limits: Limits = DEFAULT) -> Step:
    """The step of a line; of one that holds several records, the last that is a record."""
    envelope = codec.decode_plain(line, limits.depth)
    if envelope is not None:
        kind, name = _kind_of(envelope, line)
        return Step(position, kind, name, position.offset, is_marker=kind in MARKERS, data=line)
    pieces = list(codec.split(line, limits.depth))
    good = [(piece, *_kind_of(piece.envelope, piece.data)) for piece in pieces if piece.envelope is not None]
    if good:
        (piece, kind, name), is_marker = good[-1], any(kind in MARKERS for _, kind, _ in good)
        return Step(position, kind, name, position.offset + piece.offset, is_marker=is_marker, data=piece.data)
    if not pieces:
        reason = None if line else "a line longer than the limit"
        return Step(
            position, DAMAGED if reason else OTHER, "damaged" if reason else "blank", position.offset, reason=reason
        )
    piece = pieces[-1]
    return Step(position, DAMAGED, "damaged", position.offset + piece.offset, reason=piece.reason)


def _kind_of(envelope: r.Envelope, data: bytes) -> tuple[str, str]:
    """Kind and name."""
    type, name = r.types_of(envelope)
    if name is not None and type == "event_msg":
        return _EVENTS.get(name, OTHER), name
    if name is not None and type == "response_item":
        return ITEM if is_shown(envelope, data) else OTHER, name
    if type == "inter_agent_communication" and not is_instruction(data):
        return OTHER, type
    return _TYPES.get(type, OTHER), type


def steps_forward(
    segments: Sequence[Segment], segment: int, offset: int, limits: Limits, *, small: Limits
) -> Iterator[Step]:
    """The steps from byte `offset` of a segment on (the oldest is number 0), read with the limits `small`."""
    last = len(segments) - 1
    for line in records.forward(segments[::-1], small, segment=last - segment, start=offset):
        if line.data or line.skipped == "oversize":
            yield read_step(StepPosition(last - line.segment, line.offset, line.end), line.data, limits)


def steps_backward(
    segments: Sequence[Segment], segment: int, end: int, limits: Limits, *, small: Limits
) -> Iterator[Step]:
    """The same ahead of byte `end`, newest first."""
    newest = dataclasses.replace(segments[segment], end=end)
    for line in records.backward([newest, *segments[:segment][::-1]], small):
        if line.data or line.skipped == "oversize":
            yield read_step(StepPosition(segment - line.segment, line.offset, line.end), line.data, limits)


def tokens_of(step: Step) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None, int | None]:
    """Totals, those of the last request, and the size of the context window in tokens: what a tokens step tells."""
    payload = step.payload
    if not isinstance(payload, dict):
        return None, None, None
    info = (
        payload.get("info") if step.name == "token_count" else {"total_token_usage": payload.get("thread_token_usage")}
    )
    if not isinstance(info, dict):
        return None, None, None
    total, last, window = (info.get(key) for key in ("total_token_usage", "last_token_usage", "model_context_window"))
    is_count = isinstance(window, int) and not isinstance(window, bool)
    return (
        total if isinstance(total, dict) else None,
        last if isinstance(last, dict) else None,
        window if is_count else None,
    )
