"""How many steps a piece of work takes, counted: the same on every machine, at every run.

A step is a line of this project's own code that is carried out, or a byte of 64 that is read. What a single line can
hide is made visible by the shapes: their lines are so short that copying a list or a text over and over shows in no
count, so the bench shows their times beside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rollout

_ROOTS = (str(Path(rollout.__file__).parent), str(Path(rollout.__file__).parent.parent / "cli"))


def count_steps(work: Callable[[], object]) -> int:
    """How many lines of the library and of the program are carried out by `work`."""
    steps = 0
    ours: dict[CodeType, bool] = {}

    def within(frame: FrameType, what: str, argument: Any) -> Any:
        nonlocal steps
        steps += what == "line"
        return within

    def enter(frame: FrameType, what: str, argument: Any) -> Any:
        code = frame.f_code
        is_ours = ours.get(code)
        if is_ours is None:
            is_ours = ours[code] = code.co_filename.startswith(_ROOTS)
        return within if is_ours else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def growth_of(counted: list[int]) -> float:
    """By how much the work grows where its input doubles, from the counts at n, 2n and 4n: 2 if it is linear.

    What it costs at any size is left out of account.
    """
    once, twice, four_times = counted
    return (four_times - twice) / max(twice - once, once / 4)
