"""Records to marks, newest first: what the fold of a block needs, and no more of the bytes than that.

Nothing is held of an item that cannot be in the history: `debt` counts the boundaries that rollbacks still take back
(never too few), and in the `shadow` of a compaction that no rollback reaches, all older items of the block are
replaced. An undone item may yet be of the prefix (S2), so where it lies is kept, not its bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from rollout.fold.events import Mark, Run
from rollout.format.labels import label_of
from rollout.items.events import (
    BOUNDARIES,
    ITEMS,
    UNSEEN,
    Blank,
    Damaged,
    Dialect,
    Event,
    LineKind,
    Malformed,
    ProgramMessage,
    Replaced,
    TurnAborted,
    TurnEnded,
    TurnsRemoved,
    TurnStarted,
    WorldState,
)
from rollout.limits import DEFAULT, NAME_CHARACTERS, Limits

_SAID, _SESSION = LineKind.SAID, LineKind.SESSION  # a member of an enum takes its time to be found
_LABELLED = frozenset({*BOUNDARIES, TurnStarted, TurnEnded, TurnAborted})
_HELD = frozenset({*BOUNDARIES, ProgramMessage, Replaced})


class _Kinds(dict[str | None, int]):
    """The number of each type of payload, in records of one type; a new one gets the next."""

    def __init__(self, type: str, named: list[tuple[str | None, str | None]]) -> None:
        self._type, self._named = type, named

    def __missing__(self, kind: str | None) -> int:
        if kind is not None and len(kind) > NAME_CHARACTERS:
            return self[kind[:NAME_CHARACTERS]]
        number = self[kind] = len(self._named)
        self._named.append((self._type, kind))
        return number


class Names:
    """What each line calls itself: the type and the kind of a `Record` (cut at 200 characters), a small number a line.

    Numbers are noted newest first, one for each record, each stretch of damaged bytes and each blank line.
    """

    def __init__(self) -> None:
        self.numbers = array("I")
        self.named: list[tuple[str | None, str | None]] = [(None, None)]
        """By number; 0 is no record."""
        self._types: dict[str, _Kinds] = {}

    def kinds(self, type: str) -> dict[str | None, int]:
        """The numbers of the records of a type."""
        type = type[:NAME_CHARACTERS]
        if type not in self._types:
            self._types[type] = _Kinds(type, self.named)
        return self._types[type]

    def note(self, type: str, kind: str | None) -> None:
        """One record, older than all before."""
        self.numbers.append(self.kinds(type)[kind])


class Collector:
    """Takes the records of a lineage, newest first, and makes marks of them; an `EventSink` for the dialect's loops.

    `wants_items`, `wants_turns` and `traces` say what is to be held: items' bytes (for a history), what people want to
    know of turns, and every line (for explain).
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        wants_items: bool = True,
        wants_turns: bool = False,
        traces: bool = False,
        names: Names | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        self.dialect = dialect
        self.marks: list[Mark] = []
        """Of the block that is being collected, newest first."""
        self.seq = self.segment = self.newlines = self.debt = self._closed_at = 0
        self.shadow = False
        self.wants_items, self.wants_turns, self.traces = wants_items, wants_turns, traces
        self.wants_usage = self.wants_world = True
        self.names = names
        """Where it is noted what each line calls itself, when every line is traced."""
        self.usage: tuple[int, Raw] | None = None
        """The newest token totals and their `seq`."""
        self.limits, self.depth = limits, limits.depth
        self._mute = 0  # so many records that are older than the newest mark show nothing of their turn

    @property
    def noting(self) -> tuple[Callable[[int], None], Callable[[str], Any]] | None:
        """See `EventSink`."""
        return None if self.names is None else (self.names.numbers.append, self.names.kinds)

    def take_block(self) -> list[Mark]:
        """The marks of the block, oldest first; an older one begins."""
        marks = self.marks[::-1]
        self.marks, self.shadow, self._closed_at, self._mute = [], False, self.seq, 0
        return marks

    def take(self, data: bytes, offset: int, record: Any) -> bool:
        """One record, older than all before; True if it begins a block (the start of a turn)."""
        self.seq += 1
        if self.names is not None:
            self.names.note(*self.dialect.types_of(record))
        event = self.dialect.event_of(data, record, self.wants_turns)
        if self.usage is None and not isinstance(event, Malformed):
            totals = self.dialect.usage_of(data, record)
            if totals is not None:
                self.usage, self.wants_usage = (self.seq, totals), False
        if not isinstance(event, LineKind):
            self._add(event, data, offset)
            return isinstance(event, TurnStarted)
        if event is _SESSION:
            self._mute += 1
        if event <= _SAID or self.traces:
            run = self.trace(offset, len(data), event) if self.traces else self.run(offset, len(data))
            if event <= _SAID:
                run.event = ITEMS
                run.count += 1
                if not self.traces:
                    run.size += run.offset - offset
                    run.offset = offset
                    if run.lines is not None:
                        run.lines.append(data)
        return False

    def _add(self, event: Event, data: bytes, offset: int) -> None:
        if isinstance(event, Malformed) and not self.traces:
            self._mute += 1
            return
        kind, silent = type(event), self._mute + (self.marks[-1].seq if self.marks else self._closed_at)
        mark = self._mark(event, offset, len(data))
        if self.wants_turns and kind in _LABELLED:
            mark.label = label_of(data)
        if kind in _HELD:
            mark.data = data if self._holds() else None
            if isinstance(event, Replaced):
                self.shadow = self.shadow or (event.has_items and self.debt == 0)
            elif kind is not ProgramMessage:
                self.debt = max(0, self.debt - 1)
        elif isinstance(event, WorldState):
            mark.data = data if self.wants_world and not self.shadow else None
        elif isinstance(event, TurnsRemoved):
            mark.is_followed = not self.traces and silent < self.seq - 1
            self.debt += event.count

    def note_odd(self, event: Damaged | Blank, offset: int, size: int) -> None:
        """Damaged bytes or a blank line, when every line is traced."""
        if self.names is not None:
            self.names.numbers.append(0)
        self._mark(event, offset, size)

    def count(self, n: int) -> None:
        """So many lines, each a record, were passed over or belong to a run that is known."""
        self.seq += n
        self.newlines += n

    def trace(self, offset: int, size: int, kind: int) -> Run:
        """One more line of a run of lines that nothing comes between; see `unpack`. An item is yet to be counted."""
        top = self.marks[-1] if self.marks else None
        if (
            not isinstance(top, Run)
            or top.refs is None
            or top.segment != self.segment
            or top.newlines + len(top.refs) != self.newlines
            or (self.wants_turns and top.refs[-1] >> 3 != offset + size + 1)  # odd bytes between them: see `turn_list`
        ):
            top = Run(UNSEEN, self.seq, self.segment, offset, size, self.newlines, refs=array("Q"))
            self.marks.append(top)
        assert top.refs is not None
        top.refs.append(offset << 3 | kind)
        return top

    def run(self, offset: int, size: int) -> Run:
        """The mark of the run of plain items that goes on with an item at `offset`."""
        top = self.marks[-1] if self.marks else None
        if isinstance(top, Run) and top.segment == self.segment:
            return top
        lines: list[bytes] | None = [] if self._holds() else None
        self._mute = 0
        run = Run(ITEMS, self.seq, self.segment, offset, size, self.newlines, lines=lines)
        self.marks.append(run)
        return run

    def _mark(self, event: Event, offset: int, size: int) -> Mark:
        mark, self._mute = Mark(event, self.seq, self.segment, offset, size, self.newlines), 0
        self.marks.append(mark)
        return mark

    def _holds(self) -> bool:
        return self.wants_items and not self.shadow and self.debt == 0
