"""Turns as people and programs see them: the fold's turns, settled and placed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rollout.fold.events import Mark, Run, Span, by_turn, unpack
from rollout.format.labels import Label
from rollout.items.dialect import AgentLine, Dialect, Entry
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
Fetch = Callable[[int, int, int], bytes]
"""Bytes of a segment: (segment, offset, size)."""


class SeenItems(NamedTuple):
    """A run of items, or (not `is_run`) one that has a line to itself."""

    is_run: bool
    is_made: bool
    """The item is made of its record (see `AgentMessage`)."""
    segment: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class SeenTurn:
    """One turn of a log, as far as one pass over it tells. Places are (segment, offset, newlines)."""

    turn_id: str | None
    boundary_offset: int
    """Where the record lies that opened it: for the id of an implicit turn."""
    status: str
    stands: bool
    opening: tuple[int, int, int]
    """Its first record: an implicit turn takes along what stands right above its boundary."""
    end: tuple[int, int]
    started: str | None
    ended: str | None
    model: str | None
    items: tuple[SeenItems, ...]
    """Where the visible items that stand lie, oldest first."""
    item_count: int
    user: str | None
    """How the first user's text begins."""
    plans: tuple[str, ...]
    label: Label


class TurnCollector:
    """Observes a reconstruction and keeps its turns, newest first."""

    def __init__(self) -> None:
        self.turns: list[SeenTurn] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled block, older than all before."""
        self.turns += [_see_turn(span, of_turn) for span, of_turn in by_turn(marks) if span is not None]


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


def _see_turn(span: Span, marks: Sequence[Mark]) -> SeenTurn:
    stands = turn_stands(marks)
    items: list[Mark] = []
    users: list[UserMessage | AgentMessage] = []
    settings: list[Settings] = []
    plans: list[str] = []
    for mark in marks:
        event, is_standing = mark.event, mark.undone_by is None
        if is_standing and isinstance(event, ITEM_EVENTS):
            items.append(mark)
        if is_standing or not stands:
            if isinstance(event, BOUNDARIES):
                users.append(event)
            elif isinstance(event, Settings):
                settings += [event] if span.fits(event.turn_id) else []
            elif isinstance(event, PlanProposed):
                plans.append(event.text)
    opened, ended = span.opening.event, None if span.ending is None else span.ending.event
    opening = marks[0]
    return SeenTurn(
        turn_id=span.turn_id,
        boundary_offset=span.opening.offset,
        status=span.status,
        stands=stands,
        opening=(opening.segment, opening.offset, opening.newlines),
        end=_end_of(marks),
        started=opened.time if isinstance(opened, TurnStarted) else None,
        ended=ended.time if isinstance(ended, _ENDS) else None,
        model=settings[0].model if settings else None,
        items=tuple(map(_seen_items, items)),
        item_count=sum(mark.count if isinstance(mark, Run) else 1 for mark in items),
        user=users[0].text if users and isinstance(users[0], UserMessage) else None,
        label=span.opening.label,
        plans=tuple(plans),
    )


def _seen_items(mark: Mark) -> SeenItems:
    is_made = isinstance(mark.event, AgentMessage) and mark.event.is_made
    return SeenItems(isinstance(mark, Run), is_made, mark.segment, mark.begin, mark.offset + mark.size - mark.begin)


def _end_of(marks: Sequence[Mark]) -> tuple[int, int]:
    """Segment and offset behind the newest record of a turn that means something for it: events do not, when traced.

    In a run of traced lines where turns are wanted, each record ends right before the line end ahead of the next one.
    """
    last = next((mark for mark in reversed(marks) if not isinstance(mark.event, _NOTHING)), marks[0])
    refs = last.refs if isinstance(last, Run) else None
    if refs is None:
        return last.segment, last.offset + last.size
    k = next(k for k, ref in enumerate(refs) if unpack(ref)[1] <= LineKind.SAID)
    return last.segment, unpack(refs[k - 1])[0] - 1 if k else last.offset + last.size


def items_of(dialect: Dialect, turn: SeenTurn, fetch: Fetch, depth: int) -> History:
    """The items of a turn, read again."""
    entries: list[Entry] = []
    for is_run, is_made, segment, offset, size in turn.items:
        data = fetch(segment, offset, size)
        if is_run:
            entries += dialect.shown_lines(data, depth)
        else:
            entries.append(AgentLine(data) if is_made else data)
    return History(entries, dialect)
