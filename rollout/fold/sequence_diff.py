"""What two sequences have in common, in order.

Elements that stand in both are paired from the front, each with its like, the first with the first; of the pairs the
longest chain that keeps the order of both counts. Where nothing stands twice that is a longest common subsequence. It
takes n log n steps, whatever is in the sequences.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
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
