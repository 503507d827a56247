"""The newest items of a history, in time and memory that follow their number.

Until a rollback is met, reading backward, every visible item stands (S2: what comes after a marker is untouched by it),
but for those that a newer removal takes, and a compaction that has items holds all that is older. So the newest items
are known without a turn being folded. Where a rollback or a compaction of the old kind is met first, the answer is that
of a whole reconstruction: `recent_entries` says so by None.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.envelope import records_in
from rollout.fold.collector import Collector
from rollout.format import lines
from rollout.format.records import Segment
from rollout.items.events import (
    ITEM_EVENTS,
    AgentLine,
    AgentMessage,
    Entry,
    Event,
    ItemsRemoved,
    LineKind,
    Replaced,
    TurnsRemoved,
)
from rollout.limits import DEFAULT, Limits


def recent_entries(segments: Iterable[Segment], count: int | None, limits: Limits = DEFAULT) -> list[Entry] | None:
    """The newest `count` (None: all) entries of the history, oldest first; None if a whole fold is needed.

    Segments come newest first and are not asked for beyond what is needed.

    Raises:
        SourceError: A base cannot be read.
    """
    most, removed = sys.maxsize if count is None else count, 0
    found: list[Entry] = []  # newest first
    sink = Collector(CODEX, limits=limits)
    sink.wants_usage = sink.wants_world = False
    blocks = (block for segment in segments for block in lines.backward(segment.source, segment.end, limits))
    for block in blocks if most else ():
        if not isinstance(block, lines.Batch):
            continue
        at = len(block.lines)
        while at and len(found) < most:
            if not removed:
                run = block.lines[max(0, at + len(found) - most) : at]
                left, _ = CODEX.collect_items(sink, run, len(run) - 1, 0, found)
                at -= len(run) - 1 - left
                if left < 0:
                    continue
            for _, data, record in reversed(records_in(block.lines[at - 1], limits.depth)):
                event = CODEX.event_of(data, record, False)
                entry = entry_of(data, event)
                if needs_fold(event):
                    return None
                if isinstance(event, Replaced):
                    base = CODEX.compaction_of(data).items or []
                    return [*base[: max(0, len(base) - removed)], *reversed(found)][-most:]
                if isinstance(event, ItemsRemoved):
                    removed += event.count
                elif entry is not None and removed:
                    removed -= 1
                elif entry is not None:
                    found.append(entry)
            at -= 1
        if len(found) >= most:
            break
    return found[:most][::-1]


def entry_of(data: bytes, event: Event | LineKind) -> Entry | None:
    """The entry that a record (its bytes, what it says) adds to the history; None if it is no item."""
    if isinstance(event, AgentMessage) and event.is_made:
        return CODEX.item_of(AgentLine(data))
    is_item = isinstance(event, ITEM_EVENTS) or (isinstance(event, LineKind) and event <= LineKind.SAID)
    return data if is_item else None


def needs_fold(event: Event | LineKind) -> bool:
    """Whether a rollback, or a compaction of the old kind: what stands before it is known by the whole fold alone."""
    return (isinstance(event, TurnsRemoved) and event.count > 0) or (
        isinstance(event, Replaced) and not event.has_items
    )
