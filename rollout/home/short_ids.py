"""Ids as short as they can be: beginnings that fit one thread alone, so that they can be used as references."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

LEAST_CHARACTERS = 8
_GROUP_ENDS = (8, 13, 18, 23)
"""Where the hyphens of a UUID stand: a beginning that ends there is easily read and picked up with the mouse."""


def shorten(ids: Iterable[str], among: Iterable[str]) -> dict[str, str]:
    """For each of the ids, the shortest run of its groups that no other one `among` all begins with.

    One that is the beginning of another stays whole.
    """
    known = sorted(set(among))
    short: dict[str, str] = {}
    for each in ids:
        at = bisect_left(known, each)
        beside = [*known[max(at - 1, 0) : at], *(other for other in known[at : at + 2] if other != each)]
        needed = max([LEAST_CHARACTERS, *(_shared(each, other) + 1 for other in beside)])
        short[each] = each[: next((end for end in _GROUP_ENDS if end >= needed), len(each))]
    return short


def _shared(one: str, other: str) -> int:
    """How many characters two ids have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
