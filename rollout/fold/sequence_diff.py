"""What two sequences have in common, in order.

Elements that stand in both are paired from the front, each with its like, the first with the first; of the pairs the
longest chain that keeps the order of both counts. Where nothing stands twice that is a longest common subsequence. It
takes n log n steps, whatever is in the sequences.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True)
class DiffRun:
    """`count` neighbours of one fate: from `before` on in the old sequence, from `after` on in the new one.

    Of added ones `before` tells where they came in, of those that are gone `after` where they were.
    """

    change: Literal["kept", "gone", "added"]
    before: int
    after: int
    count: int


def align(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[DiffRun]:
    """The runs that make `after` of `before`, in order; what goes stands ahead of what comes."""
    least = min(len(before), len(after))
    front = next((i for i in range(least) if before[i] != after[i]), least)
    back = next((i for i in range(least - front) if before[-1 - i] != after[-1 - i]), least - front)
    middle = _pairs(before, after, range(front, len(before) - back), range(front, len(after) - back))
    kept = [(i, i) for i in range(front)] + middle
    kept += [(len(before) - back + i, len(after) - back + i) for i in range(back)]
    return list(_runs(kept, len(before), len(after)))


def _pairs(before: Sequence[Hashable], after: Sequence[Hashable], old: range, new: range) -> list[tuple[int, int]]:
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for j in reversed(new):
        places[after[j]].append(j)
    pairs = [(i, places[before[i]].pop()) for i in old if places.get(before[i])]
    return _longest_rise(pairs)


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


def _runs(kept: list[tuple[int, int]], old: int, new: int) -> Iterator[DiffRun]:
    i = j = at = 0
    while at < len(kept) or i < old or j < new:
        next_i, next_j = kept[at] if at < len(kept) else (old, new)
        if i < next_i:
            yield DiffRun("gone", i, j, next_i - i)
        if j < next_j:
            yield DiffRun("added", next_i, j, next_j - j)
        i, j, first = next_i, next_j, at
        while at < len(kept) and kept[at] == (i + at - first, j + at - first):
            at += 1
        if at > first:
            yield DiffRun("kept", i, j, at - first)
        i, j = i + at - first, j + at - first
