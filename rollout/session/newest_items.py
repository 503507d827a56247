"""The newest items of a history, in time and memory that follow their number.

Until a rollback is met, reading backward, every visible item stands (S2: what comes after a marker is untouched by it),
but for those that a newer `items_removed` takes, and a compaction with a replacement_history holds all that is older.
So the newest items are known without a turn being folded. Where a rollback or a compaction of the old kind is met
first, the answer is that of a whole reconstruction: `recent_entries` says so by None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.envelope import Envelope, records_in
from rollout.format import records
from rollout.format.records import Segment
from rollout.items import events
from rollout.items.dialect import AgentLine, Entry
from rollout.limits import DEFAULT, Limits

T = TypeVar("T")
_RUN_LINES = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Removed:
    """The newest `count` items were taken out."""

    count: int


class Replaced(NamedTuple):
    """These are all items that there were then."""

    entries: Sequence[Entry]


class Refolded:
    """A rollback, or a compaction of the old kind: only the whole fold tells the items."""


def recent_entries(segments: Iterable[Segment], count: int | None, limits: Limits = DEFAULT) -> list[Entry] | None:
    """The newest `count` (None: all) entries of the history, oldest first; None if a whole fold is needed.

    Segments come newest first and are not asked for beyond what is needed.

    Raises:
        SourceError: A base cannot be read.
    """
    return recent_items(segments, count, limits, lambda run: None, lambda entry: entry)


def recent_and_items(
    segments: Iterable[Segment],
    count: int,
    limits: Limits,
    plain: Callable[[list[bytes]], list[T] | None],
    of_entry: Callable[[Entry], T],
) -> tuple[list[Entry], list[T]] | None:
    """What `recent_entries` and `recent_items` give, in one pass that decodes each line once."""

    def with_lines(run: list[bytes]) -> list[tuple[Entry, T]] | None:
        made = plain(run)
        return None if made is None else list(zip(run, made, strict=True))

    found = recent_items(segments, count, limits, with_lines, lambda entry: (entry, of_entry(entry)))
    return None if found is None else ([entry for entry, _ in found], [item for _, item in found])


def recent_items(
    segments: Iterable[Segment],
    count: int | None,
    limits: Limits,
    plain: Callable[[list[bytes]], list[T] | None],
    of_entry: Callable[[Entry], T],
) -> list[T] | None:
    """What `of_entry` makes of the same entries. `plain` may make it of a run of lines of visible items at once.

    It is given lines of any kind, in order; None where it does not know of one of them.
    """
    newest = _Newest(of_entry, limits.depth)
    found = newest.found
    if count == 0:
        return found
    for run in records.runs_backward(segments, _RUN_LINES, limits):
        at = len(run)
        while at and not newest.is_over:
            begin = 0 if count is None else max(0, at - (count - len(found)))
            part, at = run[begin:at], begin
            made = None if newest.removed else plain(part)
            if made is not None:
                found += reversed(made)
            else:
                newest.take(part)
            if count is not None and len(found) >= count:
                newest.is_over = True
        if newest.is_over:
            break
    if newest.is_unknown:
        return None
    found.reverse()
    return found if count is None else found[max(0, len(found) - count) :]


class _Newest(Generic[T]):
    """What is found, newest first; `is_over` once no older line is needed, or more than these lines (`is_unknown`)."""

    def __init__(self, of_entry: Callable[[Entry], T], depth: int) -> None:
        self.found: list[T] = []
        self.removed = 0  # so many of the next older items were taken out
        self.is_over = self.is_unknown = False
        self._of_entry, self._depth = of_entry, depth

    def take(self, run: list[bytes]) -> None:
        """Some lines, older than all before; no more of them than are needed."""
        for line in reversed(run):
            for _, data, envelope in reversed(records_in(line, self._depth)):
                change = change_of(data, envelope)
                if isinstance(change, Removed):
                    self.removed += change.count
                elif isinstance(change, Replaced):
                    base = change.entries
                    self.found += map(self._of_entry, reversed(base[: max(0, len(base) - self.removed)]))
                    self.is_over = True
                elif isinstance(change, Refolded):
                    self.is_over = self.is_unknown = True
                elif change is not None and self.removed:
                    self.removed -= 1
                elif change is not None:
                    self.found.append(self._of_entry(change))
                if self.is_over:
                    return


def change_of(data: bytes, envelope: Envelope) -> Entry | Removed | Replaced | Refolded | None:
    """What a record does to the items: it is one, or takes or replaces some; None if it does nothing to them."""
    event = CODEX.event_of(data, envelope, False)
    if isinstance(event, events.Replaced):
        items = CODEX.compaction_of(data).items
        return Refolded() if items is None else Replaced(items)
    if isinstance(event, events.ItemsRemoved):
        return Removed(event.count)
    if isinstance(event, events.TurnsRemoved):
        return Refolded() if event.count else None
    if isinstance(event, events.AgentMessage) and event.is_made:
        return CODEX.item_of(AgentLine(data))
    is_item = isinstance(event, events.ITEM_EVENTS) or event in (events.LineKind.ITEM, events.LineKind.SAID)
    return data if is_item else None
