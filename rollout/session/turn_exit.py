"""What ends the block of a turn, and tells for how long somebody is going to.

A signal's exception can come between a block and the call that ends it: CPython looks for signals when it enters a
function, so `__exit__` may be left before it has done anything, and nothing of ours is called any more. So what ends a
block is made anew for each one, and the interpreter alone holds it, for as long as the block goes on. The turn knows it
weakly: where it is gone and the turn is still open, nobody will end that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

if TYPE_CHECKING:
    from rollout.session.turn import OpenTurn

Kind: TypeAlias = "type[BaseException] | None"
Error: TypeAlias = "BaseException | None"
At: TypeAlias = "TracebackType | None"


class Leaving:
    """`__exit__` of a turn: a callable that `with` alone holds, until its block is over or was never reached."""

    @overload
    def __get__(self, turn: None, owner: type[OpenTurn]) -> Callable[..., None]: ...
    @overload
    def __get__(self, turn: OpenTurn, owner: type[OpenTurn]) -> Callable[[Kind, Error, At], None]: ...
    def __get__(self, turn: OpenTurn | None, owner: type[OpenTurn]) -> Callable[..., None]:
        if turn is None:  # who asks the class (an ExitStack) holds the turn itself
            return owner.leave
        leave = functools.partial(owner.leave, turn)
        turn.held_by(leave)
        return leave


class _Awaiting:
    """What is there as long as somebody waits for the end of a turn."""


class LeavingAwaited:
    """`__aexit__` of a turn, the same for `async with`; while it is awaited, too."""

    @overload
    def __get__(self, turn: None, owner: type[OpenTurn]) -> Callable[..., Coroutine[Any, Any, None]]: ...
    @overload
    def __get__(
        self, turn: OpenTurn, owner: type[OpenTurn]
    ) -> Callable[[Kind, Error, At], Coroutine[Any, Any, None]]: ...
    def __get__(self, turn: OpenTurn | None, owner: type[OpenTurn]) -> Callable[..., Coroutine[Any, Any, None]]:
        if turn is None:
            return owner.leave_awaited
        awaiting = _Awaiting()
        turn.held_by(awaiting)
        return functools.partial(_leave_awaited, turn, awaiting)


async def _leave_awaited(turn: OpenTurn, awaiting: _Awaiting, kind: Kind, error: Error, at: At) -> None:
    await turn.leave_awaited(kind, error, at)
