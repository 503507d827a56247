"""What ends a `with` block, and tells for how long somebody is going to.

A signal's exception can come between a block and the call that ends it: CPython looks for signals when it enters a
function, so `__exit__` may be left before it has done anything, and nothing of ours is called any more. So what ends a
block is made anew for each one, and the interpreter alone holds it, for as long as the block goes on. What the block is
of knows it weakly: where it is gone and the block was not left, nobody will do that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class BlockExit:
    """Around `__exit__`: makes it a callable that `with` alone holds, until its block is over or was never reached.

    What the block is of has a method `held_by(holder)`: as long as the holder is there, somebody is going to leave it.
    """

    def __init__(self, leave: Callable[..., Any]) -> None:
        self._leave = leave

    def __get__(self, block: Any, owner: type[Any]) -> Callable[..., Any]:
        if block is None:  # who asks the class (an ExitStack) holds the object itself
            return self._leave
        leave = functools.partial(self._leave, block)
        block.held_by(leave)
        return leave


class AwaitedBlockExit(BlockExit):
    """Around `__aexit__`, the same for `async with`; while it is awaited, too."""

    def __get__(self, block: Any, owner: type[Any]) -> Callable[..., Any]:
        leave = super().__get__(block, owner)
        return leave if block is None else functools.partial(_awaiting, leave)


async def _awaiting(leave: Callable[..., Any], *error: object) -> None:
    """Holds `leave` until it has been awaited."""
    await leave(*error)
