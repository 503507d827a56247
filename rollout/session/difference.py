"""What differs between two states: two moments of a session, two sessions, a fork and what it was forked from.

Items are compared as the model sees them: keys that only programs read (ids, status, metadata) and nulls do not count,
so what a compaction keeps of the history is kept. Where two logs part is told by their files, not by their items.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from rollout.dialects.codex.prompt import PROGRAM_KEYS
from rollout.files.fork import is_all, parting_of
from rollout.files.positions import Extent, line_number
from rollout.fold.projection import ContextBaseline, ContextCleared, ContextNeverSet
from rollout.items.history import History
from rollout.items.kinds import Item
from rollout.session.explanation import Explained, Explanation
from rollout.session.state import State, origin_of

Relation = Literal["same", "later", "earlier", "parted", "unrelated"]
"""Of `after` to `before`: the same moment, a later one of its log, an earlier one, one of a log that went its own way
behind a line that both have, one of a log that shares no line with it."""

_NOT_SEEN = PROGRAM_KEYS | {"id", "status", "phase"}


@dataclasses.dataclass(frozen=True, slots=True)
class DiffRun:
    """`count` neighbours of one fate: from `before` on in the old sequence, from `after` on in the new one.

    Of added ones `before` tells where they came in, of those that are gone `after` where they were.
    """

    change: Literal["kept", "gone", "added"]
    before: int
    after: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class ValueChange:
    """A value that differs; None where there is none."""

    key: str
    before: Any
    after: Any


@dataclasses.dataclass(frozen=True, slots=True)
class SharedLine:
    """The newest line that both logs have: its end in the file of `before` that holds it."""

    thread_id: str
    path: str | None
    line: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Diff:
    """From `before` to `after`. `runs` tell in order which items were kept, went or came.

    `settings` are model, reference (set, cleared, never) and base_instructions; `context`, `world` and `tokens` the
    keys that differ in the reference context, the world state and the token usage. Empty where nothing does.
    """

    before: State
    after: State
    relation: Relation
    shared: SharedLine | None
    runs: tuple[DiffRun, ...]
    settings: tuple[ValueChange, ...]
    context: tuple[ValueChange, ...]
    world: tuple[ValueChange, ...]
    tokens: tuple[ValueChange, ...]

    @property
    def added(self) -> History:
        """The items of `after` that `before` has not."""
        return self.after.history.select(
            i for run in self._of("added") for i in range(run.after, run.after + run.count)
        )

    @property
    def gone(self) -> History:
        """The items of `before` that `after` has not."""
        return self.before.history.select(
            i for run in self._of("gone") for i in range(run.before, run.before + run.count)
        )

    @property
    def kept_count(self) -> int:
        """How many items both have, in the same order."""
        return sum(run.count for run in self._of("kept"))

    @property
    def is_empty(self) -> bool:
        """Whether a model and its program would notice nothing."""
        changed = self.settings or self.context or self.world or self.tokens
        return not changed and all(run.change == "kept" for run in self.runs)

    def fates(self) -> tuple[Explained | None, ...]:
        """For each of `gone` what `explain` says of its line in the log of `after`: what took it away. Reads both logs.

        None where the item has no line of its own (a compaction put it there), or its line is not in that log.

        Raises:
            SourceError: A file of one of the logs can no longer be read.
        """
        history = self.before.history
        own = [i for i in range(len(history)) if history.has_own_line(i)]
        lines = [line for line in Explanation(origin_of(self.before)) if line.status == "visible"]
        places = {i: _place(line) for i, line in zip(own, lines, strict=True)}
        gone = [places.get(i) for run in self._of("gone") for i in range(run.before, run.before + run.count)]
        wanted = set(gone)
        said = {_place(line): line for line in Explanation(origin_of(self.after)) if _place(line) in wanted}
        return tuple(None if place is None else said.get(place) for place in gone)

    def _of(self, change: str) -> list[DiffRun]:
        return [run for run in self.runs if run.change == change]


def _place(line: Explained) -> tuple[str | None, int]:
    return line.path, line.offset


def diff(before: State, after: State) -> Diff:
    """What it takes to come from one state to the other. Reads both histories, and the heads of the files.

    Raises:
        SourceError: A file of one of the logs can no longer be read.
    """
    relation, shared = _relate(before, after)
    return Diff(
        before=before,
        after=after,
        relation=relation,
        shared=shared,
        runs=tuple(align(*_marks(before.history, after.history))),
        settings=_changed(_settings(before), _settings(after)),
        context=_changed(before.reference_context, after.reference_context),
        world=_changed(before.world_state, after.world_state),
        tokens=_changed(before.token_usage, after.token_usage),
    )


def _relate(before: State, after: State) -> tuple[Relation, SharedLine | None]:
    with origin_of(before).opened() as old, origin_of(after).opened() as new:
        parting = parting_of(old, new, origin_of(before).limits)
        if parting is None:
            return "unrelated", None
        segment, end = parting.before
        file = old.segments[segment]
        line = line_number(old.segments, Extent(segment, end))
        shared = SharedLine(file.thread, file.path, line, end)
        is_all_of_before = is_all(old.segments, parting.before)
        is_all_of_after = is_all(new.segments, parting.after)
    if is_all_of_before:
        return "same" if is_all_of_after else "later", shared
    return "earlier" if is_all_of_after else "parted", shared


class _Settings(NamedTuple):
    model: str | None
    reference: str
    base_instructions: str | None


def _settings(state: State) -> dict[str, Any]:
    words = {ContextBaseline: "set", ContextCleared: "cleared", ContextNeverSet: "never"}
    return _Settings(state.previous_model, words[type(state.reference)], state.base_instructions)._asdict()


def _changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[ValueChange, ...]:
    old, new = before or {}, after or {}
    both = ((key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new]))
    return tuple(ValueChange(*found) for found in both if found[1] != found[2])


def _marks(before: History, after: History) -> tuple[list[int | bytes], list[int | bytes]]:
    """For each item of both what is the same for items that look the same to a model.

    Those at the beginning that are recorded in the same bytes are not decoded: their number is their mark.
    """
    both = range(min(len(before), len(after)))
    same = next((i for i in both if before.raw(i) != after.raw(i)), len(both))
    numbers: list[int | bytes] = [*range(same)]
    return numbers + [_mark(item) for item in before[same:]], numbers + [_mark(item) for item in after[same:]]


def _mark(item: Item) -> bytes:
    seen = {key: value for key, value in item.items() if key not in _NOT_SEEN and value not in (None, [])}
    return hashlib.blake2b(msgspec.json.encode(seen, order="deterministic"), digest_size=16).digest()


def align(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[DiffRun]:
    """The runs that make `after` of `before`, in order; what goes stands ahead of what comes.

    Elements that stand in both are paired from the front, each with its like, the first with the first; of the pairs
    the longest chain that keeps the order of both counts. Where nothing stands twice that is a longest common
    subsequence. It takes n log n steps, whatever is in the sequences.
    """
    least = min(len(before), len(after))
    front = next((i for i in range(least) if before[i] != after[i]), least)
    back = next((i for i in range(least - front) if before[-1 - i] != after[-1 - i]), least - front)
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for j in range(len(after) - back - 1, front - 1, -1):
        places[after[j]].append(j)
    pairs = [(i, places[before[i]].pop()) for i in range(front, len(before) - back) if places.get(before[i])]
    kept = [(i, i) for i in range(front)] + _longest_rise(pairs)
    kept += [(len(before) - i, len(after) - i) for i in range(back, 0, -1)]
    runs: list[DiffRun] = []
    old = new = 0
    for _, neighbours in itertools.groupby(enumerate(kept), lambda pair: (pair[1][0] - pair[0], pair[1][1] - pair[0])):
        (_, (i, j)), *others = neighbours
        runs += [DiffRun("gone", old, new, i - old), DiffRun("added", i, new, j - new)]
        runs.append(DiffRun("kept", i, j, 1 + len(others)))
        old, new = i + 1 + len(others), j + 1 + len(others)
    runs += [DiffRun("gone", old, new, len(before) - old), DiffRun("added", len(before), new, len(after) - new)]
    return [run for run in runs if run.count]


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs of which both numbers rise; the first numbers do already."""
    ends: list[int] = []  # the least second number that a chain of that length can end with
    at: list[int] = []  # which pair that is
    above: list[int] = []  # of each pair, the one ahead of it in its chain
    for k, (_, j) in enumerate(pairs):
        length = bisect.bisect_left(ends, j)
        above.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        at[length : length + 1] = [k]
    chain, k = [], at[-1] if at else -1
    while k >= 0:
        chain.append(pairs[k])
        k = above[k]
    return chain[::-1]
