"""Turns as people and programs see them: the fold's turns, settled and placed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import msgspec

from rollout import ids
from rollout.fold.events import Mark, Run, Span, by_turn, unpack
from rollout.format.labels import Label
from rollout.format.records import Segment
from rollout.items.events import (
    BOUNDARIES,
    ITEM_EVENTS,
    AgentMessage,
    Blank,
    Damaged,
    LineKind,
    Malformed,
    PlanProposed,
    Settings,
    TurnAborted,
    TurnEnded,
    TurnsRemoved,
    TurnStarted,
    Unseen,
    UserMessage,
)
from rollout.items.history import History

_ENDS = (TurnEnded, TurnAborted)
_NO_EFFECT = (Malformed, Damaged, Blank)
_NOTHING = (*_NO_EFFECT, Unseen)


class ItemPlace(msgspec.Struct, frozen=True, gc=False):
    """Where a run of items lies, or (not `is_run`) one that has a line to itself."""

    is_run: bool
    is_made: bool
    """The item is made of its record (see `AgentMessage`)."""
    segment: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """One turn (S1). `id` is derived (the same at every read) where the log gives none.

    `status` is completed or interrupted; `stands`: not rolled back. `started` and `ended` are the log's own timestamps.
    It lies in `path` (None: bytes) from byte `offset`, which is in `line` (from 1), to `end_offset`; a turn of a
    base lies in the base's file. `user` is how the first user's text begins (up to 1,000 characters).
    """

    id: str
    derived: bool
    status: str
    stands: bool
    started: str | None
    ended: str | None
    model: str | None
    user: str | None
    path: str | None
    line: int | None
    offset: int
    end_offset: int
    item_count: int
    plans: tuple[str, ...]
    """The plans that the assistant proposed in it (item_completed events), oldest first."""
    label: Label
    """That of the record that opened it."""
    _load: Callable[[], History] = dataclasses.field(repr=False, compare=False)

    @property
    def session_id(self) -> str | None:
        """The label's; None where it is unset."""
        return self.label.session_id

    @property
    def tags(self) -> dict[str, str]:
        """The label's."""
        return dict(self.label.tags)

    @property
    def items(self) -> History:
        """The turn's model-visible items that were not rolled back, read again at each touch.

        Raises:
            SourceError: A file of the log can no longer be read.
        """
        return self._load()


def turn_stands(marks: Sequence[Mark]) -> bool:
    """Whether a turn is among those that stand: any record of it does, a rollback marker apart.

    So a turn stands whose message was taken back but that went on behind the marker, be it with an event.
    """
    return any(mark.stands and _shows(mark) for mark in marks)


def _shows(mark: Mark) -> bool:
    if isinstance(mark.event, TurnsRemoved):
        return mark.is_followed
    if isinstance(mark, Run) and mark.refs is not None and not mark.count:
        return any(unpack(ref)[1] != LineKind.SESSION for ref in mark.refs)
    return not isinstance(mark.event, _NO_EFFECT)


def _end_of(marks: Sequence[Mark]) -> int:
    """The offset behind the newest record of a turn that means something for it: events do not, when traced.

    In a run of traced lines where turns are wanted, each record ends right before the line end ahead of the next one.
    """
    last = next((mark for mark in reversed(marks) if not isinstance(mark.event, _NOTHING)), marks[0])
    refs = last.refs if isinstance(last, Run) else None
    if refs is None:
        return last.offset + last.size
    k = next(k for k, ref in enumerate(refs) if unpack(ref)[1] <= LineKind.SAID)
    return unpack(refs[k - 1])[0] - 1 if k else last.offset + last.size


class TurnCollector:
    """Observes a reconstruction of some segments and keeps its turns. `load` reads items again."""

    def __init__(self, segments: Sequence[Segment], load: Callable[[Sequence[ItemPlace]], History]) -> None:
        self._segments, self._load = segments, load
        # Newest first: all but the line, for which the segment of the first record, and the line ends behind it.
        self._found: list[tuple[functools.partial[Turn], int, int]] = []

    def see(self, marks: Sequence[Mark]) -> None:
        """One settled block, older than all before."""
        for span, of_turn in by_turn(marks):
            if span is not None:
                self._found.append((self._turn(span, of_turn), of_turn[0].segment, of_turn[0].newlines))

    def turns(self, line_counts: Sequence[int | None]) -> tuple[Turn, ...]:
        """All that were seen, oldest first; `line_counts` are the line ends in each segment."""
        return tuple(
            make(line=None if (count := line_counts[segment]) is None else count - newlines + 1)
            for make, segment, newlines in reversed(self._found)
        )

    def _turn(self, span: Span, marks: Sequence[Mark]) -> functools.partial[Turn]:
        stands, segment = turn_stands(marks), self._segments[marks[0].segment]
        users: list[UserMessage | AgentMessage] = []
        models: list[str] = []
        plans: list[str] = []
        items: list[Mark] = []
        for mark in marks:
            event = mark.event
            if mark.undone_by is None:
                if isinstance(event, ITEM_EVENTS):
                    items.append(mark)
            elif stands:
                continue
            if isinstance(event, BOUNDARIES):
                users.append(event)
            elif isinstance(event, Settings):
                models += [event.model] if span.fits(event.turn_id) else []
            elif isinstance(event, PlanProposed):
                plans.append(event.text)
        opened, ended = span.opening.event, None if span.ending is None else span.ending.event
        return functools.partial(
            Turn,
            id=span.turn_id or ids.derived_turn_id(segment.thread, span.opening.offset),
            derived=span.turn_id is None,
            status=span.status,
            stands=stands,
            started=opened.time if isinstance(opened, TurnStarted) else None,
            ended=ended.time if isinstance(ended, _ENDS) else None,
            model=models[0] if models else None,
            user=users[0].text if users and isinstance(users[0], UserMessage) else None,
            path=segment.path,
            offset=marks[0].offset,
            end_offset=_end_of(marks),
            item_count=sum(mark.count if isinstance(mark, Run) else 1 for mark in items),
            plans=tuple(plans),
            label=span.opening.label,
            _load=functools.partial(self._load, tuple(map(_place, items))),
        )


def _place(mark: Mark) -> ItemPlace:
    is_made = isinstance(mark.event, AgentMessage) and mark.event.is_made
    return ItemPlace(isinstance(mark, Run), is_made, mark.segment, mark.begin, mark.offset + mark.size - mark.begin)
