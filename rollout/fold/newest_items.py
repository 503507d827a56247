"""The newest items of a history, in time and memory that follow their number.

Until a rollback is met, reading backward, every visible item stands (S2: what comes after a marker is untouched by it),
but for those that a newer `items_removed` takes, and a compaction with a replacement_history holds all that is older.
So the newest items are known without a turn being folded. Where a rollback or a compaction of the old kind is met
first, the answer is that of a whole reconstruction: `recent_entries` says so by None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from msgspec import UnsetType

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex import records as r
from rollout.dialects.codex.items import is_shown
from rollout.fold.history import Entry, agent_item, replacement_entries
from rollout.format import records, strict_json
from rollout.format.records import Segment
from rollout.items.kinds import Head
from rollout.limits import DEFAULT, Limits

T = TypeVar("T")
_RUN_LINES = 32


class _Complete(Exception):
    """No older line is needed."""


class _Unknown(Exception):
    """The items cannot be told without folding turns."""


class _Counted(msgspec.Struct, frozen=True, gc=False):
    payload: r.Count


class _Compaction(msgspec.Struct, frozen=True, gc=False):
    payload: r.Compacted


_counted = msgspec.json.Decoder(_Counted)
_compaction = msgspec.json.Decoder(_Compaction)


def recent_entries(segments: Iterable[Segment], count: int | None, limits: Limits = DEFAULT) -> list[Entry] | None:
    """The newest `count` (None: all) entries of the history, oldest first; None if a whole fold is needed.

    Segments come newest first and are not asked for beyond what is needed.
    """
    return _recent(segments, count, limits, _none_plain, _as_it_is)


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
    return _recent(segments, count, limits, plain, of_entry)


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

    found = _recent(segments, count, limits, with_lines, lambda entry: (entry, of_entry(entry)))
    return None if found is None else ([entry for entry, _ in found], [item for _, item in found])


def _recent(
    segments: Iterable[Segment],
    count: int | None,
    limits: Limits,
    plain: Callable[[list[bytes]], list[T] | None],
    of_entry: Callable[[Entry], T],
) -> list[T] | None:
    found: list[T] = []
    if count == 0:
        return found
    removed = 0  # so many of the next older items were taken out
    try:
        for run in records.runs_backward(segments, _RUN_LINES, limits):
            at = len(run)
            while at:
                begin = 0 if count is None else max(0, at - (count - len(found)))
                part, at = run[begin:at], begin
                made = None if removed else plain(part)
                if made is not None:
                    found += reversed(made)
                else:
                    for line in reversed(part):
                        removed = _take_records(line, limits.depth, found, removed, of_entry)
                if count is not None and len(found) >= count:
                    raise _Complete
    except _Complete:
        pass
    except _Unknown:
        return None
    found.reverse()
    return found if count is None else found[max(0, len(found) - count) :]


def _none_plain(run: list[bytes]) -> None:
    return None


def _as_it_is(entry: Entry) -> Entry:
    return entry


def _take_records(line: bytes, depth: int, found: list[T], removed: int, of_entry: Callable[[Entry], T]) -> int:
    """Adds what a line shows, newest first; how many older items are taken out now."""
    for _, data, envelope in reversed(codec.records_in(line, depth)):
        if envelope.type == "compacted":
            base = _base(data)
            if base is not None:
                found += map(of_entry, reversed(base[: max(0, len(base) - removed)]))
                raise _Complete
        elif envelope.type == "event_msg":
            removed += _removed_by(data, envelope.payload)
        elif (entry := _entry(data, envelope)) is not None:
            if removed:
                removed -= 1
            else:
                found.append(of_entry(entry))
    return removed


def _removed_by(data: bytes, head: Head | UnsetType | None) -> int:
    """How many items an event takes out."""
    if not isinstance(head, Head) or head.type not in {"items_removed", "thread_rolled_back"}:
        return 0
    try:
        counted = _counted.decode(data).payload
    except msgspec.ValidationError:
        return 0
    if head.type == "thread_rolled_back" and (counted.num_turns or 0) > 0:
        raise _Unknown
    return max(0, counted.num_items or 0) if head.type == "items_removed" else 0


def _base(data: bytes) -> list[Entry] | None:
    """The items that a compaction replaces all older ones by; None for a malformed one."""
    try:
        compacted = _compaction.decode(data).payload
    except msgspec.ValidationError:
        return None
    if compacted.replacement_history is not None:
        return replacement_entries(data)
    if strict_json.text_of(compacted.message) is not None:
        raise _Unknown
    return None


def _entry(data: bytes, envelope: r.Envelope) -> Entry | None:
    """A visible item; None for what no model sees."""
    if envelope.type == "inter_agent_communication":
        try:
            return agent_item(data)
        except msgspec.ValidationError:
            return None
    return data if is_shown(envelope, data) else None
