"""Turns as people and programs see them: the fold's turns, settled and placed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from rollout.fold.collector import MUTE, PLAN, SPOKEN, unpack
from rollout.fold.events import ITEM_KINDS, Kind, Mark, Span
from rollout.fold.history import AgentLine, Entry, History, plain_items
from rollout.format.labels import Label

Fetch = Callable[[int, int, int], bytes]
"""Bytes of a segment: (segment, offset, size)."""


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
    items: tuple[tuple[Kind, int, int, int, bool], ...]
    """Kind, segment, offset, size of the visible items that stand, oldest first; whether from another agent."""
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
        """One settled stretch, older than all before."""
        end = len(marks)
        while end > 0:
            span = marks[end - 1].span
            begin = end - 1
            while begin > 0 and marks[begin - 1].span is span:
                begin -= 1
            if span is not None:
                self.turns.append(_see_turn(span, marks[begin:end]))
            end = begin


def turn_stands(marks: Sequence[Mark]) -> bool:
    """Whether a turn is among those that stand: any record of it does, a rollback marker apart.

    So a turn stands whose message was taken back but that went on behind the marker, be it with an event.
    """
    return any(mark.stands and _shows(mark) for mark in marks)


def _shows(mark: Mark) -> bool:
    if mark.kind is Kind.ROLLED_BACK:
        return mark.followed
    if mark.kind is not Kind.OTHER:
        return True
    if mark.refs is None:
        return mark.key == PLAN
    return any(unpack(ref)[1] != MUTE for ref in mark.refs)


def _see_turn(span: Span, marks: Sequence[Mark]) -> SeenTurn:
    items = [mark for mark in marks if mark.stands and mark.kind in ITEM_KINDS]
    stands = turn_stands(marks)
    user = next((m for m in marks if m.kind is Kind.BOUNDARY and (m.stands or not stands)), None)
    contexts = [m for m in marks if m.kind is Kind.CONTEXT and span.fits(m.key) and (m.stands or not stands)]
    opening = marks[0]
    return SeenTurn(
        turn_id=span.turn_id,
        boundary_offset=span.opening.offset,
        status=span.status,
        stands=stands,
        opening=(opening.segment, opening.offset, opening.newlines),
        end=_end_of(marks),
        started=span.opening.text if span.explicit else None,
        ended=None if span.ending is None else span.ending.text,
        model=contexts[0].text if contexts else None,
        items=tuple((m.kind, m.segment, *_extent(m), m.key == "agent") for m in items),
        item_count=sum(m.number if m.kind is Kind.ITEMS else 1 for m in items),
        user=None if user is None else user.text,
        label=span.opening.label,
        plans=tuple(m.text or "" for m in marks if m.key == PLAN and m.kind is Kind.OTHER and (m.stands or not stands)),
    )


def _extent(mark: Mark) -> tuple[int, int]:
    """Offset and size of the bytes that its records lie in."""
    offset = mark.offset if mark.refs is None else unpack(mark.refs[-1])[0]
    return offset, mark.offset + mark.size - offset


def _end_of(marks: Sequence[Mark]) -> tuple[int, int]:
    """Segment and offset behind the newest record of a turn that means something for it: events do not, when traced.

    In a run of traced lines where turns are wanted, each record ends right before the line end ahead of the next one.
    """
    last = next((m for m in reversed(marks) if m.kind is not Kind.OTHER or m.key == PLAN), marks[0])
    if last.refs is None:
        return last.segment, last.offset + last.size
    k = next(k for k, ref in enumerate(last.refs) if unpack(ref)[1] <= SPOKEN)
    return last.segment, unpack(last.refs[k - 1])[0] - 1 if k else last.offset + last.size


def items_of(turn: SeenTurn, fetch: Fetch, depth: int) -> History:
    """The items of a turn, read again."""
    entries: list[Entry] = []
    for kind, segment, offset, size, is_agents in turn.items:
        data = fetch(segment, offset, size)
        if kind is Kind.ITEMS:
            entries += plain_items(data, depth)
        else:
            entries.append(AgentLine(data) if is_agents else data)
    return History(entries)
