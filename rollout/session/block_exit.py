"""What ends a `with` block, and tells for how long somebody is going to.

A signal's exception can come between a block and the call that ends it: CPython looks for signals when it enters a
function, so `__exit__` may be left before it has done anything, and nothing of ours is called any more. So what ends a
block is made anew for each one, and the interpreter alone holds it, for as long as the block goes on. What the block is
of knows it weakly: where it is gone and the block was not left, nobody will do that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, TypeAlias

Kind: TypeAlias = "type[BaseException] | None"
Error: TypeAlias = "BaseException | None"
At: TypeAlias = "TracebackType | None"


class Block(Protocol):
    """What has a block."""

    def held_by(self, holder: object) -> None:
        """As long as `holder` is there, somebody is going to leave the block; not called by who asks the class."""

    def leave(self, kind: Kind, error: Error, at: At, /) -> None:
        """Ends the block."""


class AwaitedBlock(Block, Protocol):
    """The same for `async with`."""

    async def leave_awaited(self, kind: Kind, error: Error, at: At, /) -> None:
        """Ends the block."""


class BlockExit:
    """`__exit__`: a callable that `with` alone holds, until its block is over or was never reached."""

    def __get__(self, block: Block | None, owner: type[Block]) -> Callable[..., None]:
        if block is None:  # who asks the class (an ExitStack) holds the object itself
            return owner.leave
        leave = functools.partial(owner.leave, block)
        block.held_by(leave)
        return leave


class _Awaiting:
    """What is there as long as somebody waits for the end of a block."""


class AwaitedBlockExit:
    """`__aexit__`, the same for `async with`; while it is awaited, too."""

    def __get__(
        self, block: AwaitedBlock | None, owner: type[AwaitedBlock]
    ) -> Callable[..., Coroutine[Any, Any, None]]:
        if block is None:
            return owner.leave_awaited
        awaiting = _Awaiting()
        block.held_by(awaiting)
        return functools.partial(_leave, block, awaiting)


async def _leave(block: AwaitedBlock, awaiting: _Awaiting, kind: Kind, error: Error, at: At) -> None:
    await block.leave_awaited(kind, error, at)
