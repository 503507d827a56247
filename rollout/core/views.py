"""Turns as people and programs see them: the fold's turns, settled and placed."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Sequence

from rollout.core.context import texts_of
from rollout.core.history import Entry, History, agent_item, raw_item
from rollout.core.reconstruct import pairs_oldest_first
from rollout.core.turns import ITEM_KINDS, Kind, Mark, Span

Fetch = Callable[[int, int, int], bytes]
"""Bytes of a segment: (segment, offset, size)."""


@dataclasses.dataclass(frozen=True, slots=True)
class SeenTurn:
    """One turn of a log, as far as one pass over it tells. Places are (segment, offset, newlines)."""

    turn_id: str | None
    status: str
    stands: bool
    opening: tuple[int, int, int]
    end: tuple[int, int]
    started: str | None
    ended: str | None
    model: str | None
    items: array[int]
    """Segment, offset and size of each visible item that stands, oldest first; bit 62 of the size: from an agent."""
    user: tuple[int, int, int] | None
    """Segment, offset, size of the first user boundary."""
    undone_by: tuple[int, int, int] | None


_AGENT = 1 << 62


class TurnCollector:
    """Observes a reconstruction and keeps its turns, newest first."""

    def __init__(self) -> None:
        self.turns: list[SeenTurn] = []

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """One settled stretch, older than all before."""
        of: dict[int, list[Mark]] = {id(span): [] for span in spans}
        for mark in marks:
            if mark.span is not None:
                of[id(mark.span)].append(mark)
        self.turns += [_see_turn(span, of[id(span)]) for span in reversed(spans)]


def turn_stands(marks: Sequence[Mark]) -> bool:
    """Whether a turn is among those that stand: any record of it does, a rollback marker apart.

    So a turn stands whose message was taken back but that went on behind the marker, be it with an event.
    """
    return any(mark.stands and (mark.kind is not Kind.ROLLED_BACK or mark.followed) for mark in marks)


def _see_turn(span: Span, marks: Sequence[Mark]) -> SeenTurn:
    items = array("Q")
    for mark in marks:
        if mark.stands and mark.kind in ITEM_KINDS:
            if mark.refs is not None:
                for offset, size in pairs_oldest_first(mark.refs):
                    items.extend((mark.segment, offset, size))
            else:
                items.extend((mark.segment, mark.offset, mark.size | (_AGENT if mark.key == "agent" else 0)))
    stands = turn_stands(marks)
    user = next((m for m in marks if m.kind is Kind.BOUNDARY and (m.stands or not stands)), None)
    contexts = [m for m in marks if m.kind is Kind.CONTEXT and span.fits(m.key) and (m.stands or not stands)]
    last = span.last or span.opening
    opening, undone = span.opening, span.opening.undone_by
    return SeenTurn(
        turn_id=span.turn_id,
        status=span.status,
        stands=stands,
        opening=(opening.segment, opening.offset, opening.newlines),
        end=(last.segment, last.offset + last.size),
        started=opening.text if span.explicit else None,
        ended=None if span.ending is None else span.ending.text,
        model=contexts[0].text if contexts else None,
        items=items,
        user=None if user is None else (user.segment, user.offset, user.size),
        undone_by=None if undone is None else (undone.segment, undone.offset, undone.newlines),
    )


def items_of(turn: SeenTurn, fetch: Fetch) -> History:
    """The items of a turn, read again."""
    entries: list[Entry] = []
    for i in range(0, len(turn.items), 3):
        segment, offset, size = turn.items[i : i + 3]
        data = fetch(segment, offset, size & (_AGENT - 1))
        entries.append(agent_item(data) if size & _AGENT else data)
    return History(entries)


def user_text(turn: SeenTurn, fetch: Fetch) -> str | None:
    """The text of the first message of the user in the turn; None if there is none."""
    if turn.user is None:
        return None
    data = fetch(*turn.user)
    texts = texts_of(raw_item(data))
    return None if texts is None else "\n".join(texts)
