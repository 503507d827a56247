"""S3 and S4: what still stands, added up newest first.

`Settlement` is given the folded stretches of a log, newest first, and knows at any time how much of the answer is
found: the base and what came after it, the model, the reference context, the world. It holds marks, and fetches bytes
that were not held (`fetch(mark)`) when the answer is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw

from rollout.dialects.codex import envelope
from rollout.fold.events import ITEM_KINDS, Kind, Mark, Span
from rollout.fold.forward import Folded
from rollout.fold.history import (
    AgentLine,
    Entry,
    open_compaction,
    plain_items,
    plain_user_message,
    replacement_entries,
    summary_of,
    user_texts,
)
from rollout.format import strict_json


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
        found: dict[str, Any] = strict_json.decode_value(self.raw)
        return found


Reference = ContextNeverSet | ContextCleared | ContextBaseline


class Settlement:
    """The answer so far. `fetch` gives the bytes of a mark."""

    def __init__(self, fetch: Callable[[Mark], bytes], *, wants_history: bool, depth: int) -> None:
        self._fetch, self._wants_history, self._depth = fetch, wants_history, depth
        self.base: Mark | None = None
        """The newest standing compaction with a replacement_history."""
        self.has_old_compaction = False
        """One of the old kind stands, newer than the base."""
        self.model: str | None = None
        self.summaries: set[str] = set()
        """What compactions of the history left as its summary, once `entries` has made it."""
        self.world_open = True
        """Older records may be part of the world state."""
        self._reference: Mark | ContextCleared | None = None
        self._world: list[Mark] = []
        self._ops: list[Mark] = []  # what makes the history, newest first

    @property
    def knows_settings(self) -> bool:
        """Nothing older changes the previous model or the reference context."""
        return self.model is not None and self._reference is not None

    @property
    def is_complete(self) -> bool:
        """Nothing older changes the history, the previous model or the reference context."""
        return self.base is not None and (self.knows_settings or (self.model is not None and self.has_old_compaction))

    def add(self, marks: Sequence[Mark]) -> None:
        """One folded stretch, older than all before; its marks oldest first."""
        if self.world_open:
            self._add_world(marks)
        if not self.knows_settings:
            self._add_settings(marks)
        if self._wants_history and self.base is None:
            self._add_history(marks)

    def skimmed(self, seq: int, segment: int) -> list[bytes]:
        """The lines (newest first) of a run of items that is not part of any stretch; more can be appended."""
        top = self._ops[-1] if self._ops else None
        if top is None or top.kind is not Kind.ITEMS or top.lines is None:
            top = Mark(Kind.ITEMS, seq, segment, 0, 0, 0, lines=[])
            self._ops.append(top)
        assert top.lines is not None
        return top.lines

    def _add_history(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            if not mark.stands:
                continue
            if mark.kind is Kind.COMPACTED:
                self._ops.append(mark)
                if mark.number:
                    self.base = mark
                    return
                self.has_old_compaction = True
            elif mark.kind in ITEM_KINDS or mark.kind is Kind.REMOVED:
                if self.has_old_compaction:
                    self._keep_texts_only(mark)
                self._ops.append(mark)

    def _keep_texts_only(self, mark: Mark) -> None:
        """An old compaction keeps the users' texts alone: the bytes of everything else can go."""
        mark.lines = None
        if mark.kind is Kind.BOUNDARY and mark.key != "agent":
            texts = user_texts(mark.data or self._fetch(mark))
            mark.data = None if texts is None else bytes(plain_user_message(texts))
            mark.key = "texts"
        else:
            mark.data, mark.key = None, "dropped"

    def _add_settings(self, marks: Sequence[Mark]) -> None:
        end = len(marks)
        while end > 0 and not self.knows_settings:
            span = marks[end - 1].span
            begin = end
            while begin > 0 and marks[begin - 1].span is span:
                begin -= 1
            self._add_turn(span, [mark for mark in marks[begin:end] if mark.stands])
            end = begin

    def _add_turn(self, span: Span | None, standing: Sequence[Mark]) -> None:
        is_user_turn = any(
            mark.kind is Kind.BOUNDARY or (mark.kind is Kind.ANNOUNCED and mark.announces) for mark in standing
        )
        contexts = [
            i
            for i, mark in enumerate(standing)
            if mark.kind is Kind.CONTEXT and span is not None and span.fits(mark.key)
        ]
        compacted = max((i for i, mark in enumerate(standing) if mark.kind is Kind.COMPACTED), default=-1)
        if self.model is None and is_user_turn and contexts:
            self.model = standing[contexts[0]].text
        if self._reference is None:
            if compacted > (contexts[-1] if contexts else -1):
                self._reference = ContextCleared()
            elif is_user_turn and contexts:
                self._reference = standing[contexts[-1]]

    def _add_world(self, marks: Sequence[Mark]) -> None:
        for mark in reversed(marks):
            if not self.world_open:
                return
            if mark.stands and mark.kind is Kind.WORLD:
                self._world.append(mark)
                self.world_open = not mark.number
            elif mark.stands and mark.kind is Kind.COMPACTED:
                self.world_open = False

    def reference(self) -> Reference:
        """S4, from what was added."""
        if self.has_old_compaction:
            return ContextCleared()
        if isinstance(self._reference, Mark):
            return ContextBaseline(envelope.payload_of(self._fetch(self._reference)).copy())
        return ContextNeverSet() if self._reference is None else self._reference

    def world_state(self) -> dict[str, Any] | None:
        """S4, from what was added."""
        if not self._world or not self._world[-1].number:
            return None
        state: dict[str, Any] = {}
        for mark in reversed(self._world):
            change = strict_json.decode_value(envelope.payload_of(mark.data or self._fetch(mark)))["state"]
            state = change if mark.number else merge_patch(state, change)
        return state

    def entries(self) -> list[Entry]:
        """The history (S3), from what was added."""
        folded = Folded()
        for mark in reversed(self._ops):
            if mark.kind is Kind.REMOVED:
                folded.remove(mark.number)
            elif mark.kind is not Kind.COMPACTED:
                folded.add(self._entries_of(mark))
            else:
                data = mark.data or self._fetch(mark)
                compacted = open_compaction(data)
                self.summaries.add(summary_of(compacted))
                if mark.number:
                    folded.replace(replacement_entries(data, compacted))
                else:
                    folded.compact(compacted)
        return list(folded)

    def _entries_of(self, mark: Mark) -> Sequence[Entry | None]:
        if mark.lines is not None:
            return mark.lines[::-1]
        if mark.key == "dropped":
            return [None] * max(1, mark.number)
        if mark.key == "texts":
            return [None if mark.data is None else Raw(mark.data)]
        if mark.kind is Kind.ITEMS:
            return plain_items(self._fetch(mark), self._depth)
        data = mark.data or self._fetch(mark)
        return [AgentLine(data) if mark.key == "agent" else data]


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
