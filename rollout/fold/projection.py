"""S3 and S4: what still stands, added up newest first.

`Projection` is given the folded blocks of a log, newest first, and knows at any time how much of the answer is
found: the base and what came after it, the model, the reference context, the world. It holds marks, and fetches bytes
that were not held (`fetch(mark)`) when the answer is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from rollout.fold.events import Mark, Run, Span, by_turn
from rollout.fold.forward import Folded
from rollout.format.strict_json import decode_value
from rollout.items.dialect import AgentLine, Dialect, Entry
from rollout.items.events import (
    BOUNDARIES,
    ITEMS,
    AgentMessage,
    ItemsRemoved,
    Replaced,
    Settings,
    UserAnnounced,
    UserMessage,
    WorldState,
)
from rollout.items.kinds import plain_user_message


@dataclasses.dataclass(frozen=True, slots=True)
class ContextNeverSet:
    """No turn that stands has set a reference context."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContextCleared:
    """A compaction has taken the reference context away: the next turn gives the whole initial context."""


@dataclasses.dataclass(frozen=True, slots=True)
class ContextBaseline:
    """The settings that the model was last told of: the payload of that turn_context, as it stands."""

    raw: Raw

    @property
    def context(self) -> dict[str, Any]:
        """The payload, decoded anew."""
        found: dict[str, Any] = decode_value(self.raw)
        return found


Reference = ContextNeverSet | ContextCleared | ContextBaseline


class _Reduced(NamedTuple):
    """So many items of which a compaction without items of its own keeps a user's text, or nothing."""

    items: int
    text: Raw | None = None


class Projection:
    """The answer so far. `fetch` gives the bytes of a mark."""

    def __init__(self, dialect: Dialect, fetch: Callable[[Mark], bytes], *, wants_history: bool, depth: int) -> None:
        self._dialect, self._fetch, self._wants_history, self._depth = dialect, fetch, wants_history, depth
        self.base: Mark | None = None
        """The newest standing compaction with items of its own."""
        self.has_old_compaction = False
        """One without them stands, newer than the base."""
        self.model: str | None = None
        self.summaries: set[str] = set()
        """What compactions of the history left as its summary, once `entries` has made it."""
        self.world_open = True
        """Older records may be part of the world state."""
        self._reference: Mark | ContextCleared | None = None
        self._world: list[tuple[Mark, WorldState]] = []
        self._ops: list[Mark | _Reduced] = []  # what makes the history, newest first

    @property
    def knows_settings(self) -> bool:
        """Nothing older changes the previous model or the reference context."""
        return self.model is not None and self._reference is not None

    @property
    def is_complete(self) -> bool:
        """Nothing older changes the history, the previous model or the reference context."""
        return self.base is not None and (self.knows_settings or (self.model is not None and self.has_old_compaction))

    def add(self, marks: Sequence[Mark]) -> None:
        """One folded block, older than all before; its marks oldest first."""
        if self.world_open:
            self._add_world(marks)
        if not self.knows_settings:
            self._add_settings(marks)
        if self._wants_history and self.base is None:
            self._add_history(marks)

    def skimmed(self, seq: int, segment: int) -> list[bytes]:
        """The lines (newest first) of a run of items that is not part of any block; more can be appended."""
        top = self._ops[-1] if self._ops else None
        if not isinstance(top, Run) or top.lines is None:
            top = Run(ITEMS, seq, segment, 0, 0, 0, lines=[])
            self._ops.append(top)
        assert top.lines is not None
        return top.lines

    def _add_history(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            event = mark.event
            if not mark.stands:
                continue
            if isinstance(event, Replaced):
                self._ops.append(mark)
                if event.has_items:
                    self.base = mark
                    return
                self.has_old_compaction = True
            elif mark.is_item:
                self._ops.append(self._reduced(mark) if self.has_old_compaction else mark)
            elif isinstance(event, ItemsRemoved):
                self._ops.append(mark)

    def _reduced(self, mark: Mark) -> _Reduced:
        """All that a compaction without items keeps of a mark are a user's texts: the bytes of all else can go."""
        if not isinstance(mark.event, UserMessage):
            return _Reduced(mark.count if isinstance(mark, Run) else 1)
        texts = self._dialect.user_texts(mark.data or self._fetch(mark))
        return _Reduced(1, None if texts is None else plain_user_message(texts))

    def _add_settings(self, marks: Sequence[Mark]) -> None:
        for span, of_turn in by_turn(marks):
            if self.knows_settings:
                return
            self._add_turn(span, [mark for mark in of_turn if mark.stands])

    def _add_turn(self, span: Span | None, standing: Sequence[Mark]) -> None:
        is_user_turn, first, last, is_cleared = False, None, None, False
        for mark in standing:
            event = mark.event
            if isinstance(event, BOUNDARIES) or (isinstance(event, UserAnnounced) and mark.is_in_turn):
                is_user_turn = True
            elif isinstance(event, Settings) and span is not None and span.fits(event.turn_id):
                first, last, is_cleared = first or event, mark, False
            elif isinstance(event, Replaced):
                is_cleared = True
        if self.model is None and is_user_turn and first is not None:
            self.model = first.model
        if self._reference is None:
            self._reference = ContextCleared() if is_cleared else last if is_user_turn else None

    def _add_world(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            if not self.world_open:
                return
            if mark.stands and isinstance(mark.event, WorldState):
                self._world.append((mark, mark.event))
                self.world_open = not mark.event.is_full
            elif mark.stands and isinstance(mark.event, Replaced):
                self.world_open = False

    def reference(self) -> Reference:
        """S4, from what was added."""
        if self.has_old_compaction:
            return ContextCleared()
        if isinstance(self._reference, Mark):
            return ContextBaseline(self._dialect.payload_of(self._fetch(self._reference)).copy())
        return ContextNeverSet() if self._reference is None else self._reference

    def world_state(self) -> dict[str, Any] | None:
        """S4, from what was added."""
        if not self._world or not self._world[-1][1].is_full:
            return None
        state: dict[str, Any] = {}
        for mark, world in reversed(self._world):
            change = self._dialect.world_of(mark.data or self._fetch(mark))
            state = change if world.is_full else merge_patch(state, change)
        return state

    def entries(self) -> list[Entry]:
        """The history (S3), from what was added."""
        folded = Folded(self._dialect.user_texts)
        for op in reversed(self._ops):
            if isinstance(op, _Reduced):
                folded.add([op.text] * op.items)
            elif isinstance(op.event, ItemsRemoved):
                folded.remove(op.event.count)
            elif isinstance(op.event, Replaced):
                items, summary = self._dialect.compaction_of(op.data or self._fetch(op))
                self.summaries.add(summary)
                if items is None:
                    folded.compact(summary)
                else:
                    folded.replace(items)
            else:
                folded.add(self._entries_of(op))
        return list(folded)

    def _entries_of(self, mark: Mark) -> Sequence[Entry]:
        if isinstance(mark, Run):
            if mark.lines is not None:
                return mark.lines[::-1]
            return self._dialect.shown_lines(self._fetch(mark), self._depth)
        data = mark.data or self._fetch(mark)
        return [AgentLine(data) if isinstance(mark.event, AgentMessage) and mark.event.is_made else data]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396. The nesting is bounded by that of a line."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
