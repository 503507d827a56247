"""Work that blocks, done in threads while a task waits for its outcome.

The threads are those of one pool of the process, shared by all sessions; a loop's own executor would serve too, but its
future takes twice as long to come back as a thread that wakes the loop itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
_MOST_THREADS = 32
"""Many of them may be waiting for locks of other processes."""


class _Doing(Generic[T]):
    """One piece of work. `found` and `error` are the thread's until `is_over`, which the loop alone sets."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> None:
        self._loop, self._work, self._run = loop, work, contextvars.copy_context().run
        self._woken: asyncio.Future[None] = loop.create_future()
        self._error: BaseException | None = None
        self.is_over = False

    def carry_out(self) -> None:
        """In the thread."""
        try:
            self._found = self._run(self._work)
        except BaseException as error:  # noqa: BLE001  # raised where the outcome is waited for
            self._error = error
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.is_over = True
        if not self._woken.done():
            self._woken.set_result(None)

    async def wait(self) -> None:
        """CancelledError if the task is cancelled first; it may wait again then."""
        if self._woken.cancelled():
            self._woken = self._loop.create_future()
        if not self.is_over:
            await self._woken

    def outcome(self) -> T:
        """What the work has returned, or raised."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it holds this frame
        return self._found


async def read_in_thread(work: Callable[[], T]) -> T:
    """What `work` returns; a task that is cancelled does not wait for it."""
    doing = _start(work)
    await doing.wait()
    return doing.outcome()


async def change_in_thread(work: Callable[[], T]) -> T:
    """The same for work whose outcome must be known: a cancelled task waits for it too, and is cancelled then."""
    doing = _start(work)
    cancelled: asyncio.CancelledError | None = None
    while not doing.is_over:
        try:
            await doing.wait()
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled
    return doing.outcome()


def _start(work: Callable[[], T]) -> _Doing[T]:
    doing = _Doing(asyncio.get_running_loop(), work)
    _pool().submit(doing.carry_out)
    return doing


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_MOST_THREADS, thread_name_prefix="rollout-session")


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
