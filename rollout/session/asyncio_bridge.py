"""The bridge to asyncio: work that blocks is done in threads, while a task waits for its outcome.

`read_in_thread` and `change_in_thread` do one piece of work, a `Lane` many in their order.

The threads are those of the process, started when they are needed; a loop's own executor would not do. Its future takes
twice as long to come back as a thread that wakes the loop itself, it has no place for what waits for locks of other
processes, it refuses work while the interpreter goes down, and Ctrl-C can tear its locks, which are Python code: no
thread gets any further then. Here each step that counts is one call into C.
"""

from __future__ import annotations

import _thread
import asyncio
import collections
import contextlib
import contextvars
import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_MOST_THREADS = 32
"""Many of them may be waiting for locks of other processes."""


class _Threads:
    """They take jobs, which raise nothing, in their order."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._idle: collections.deque[None] = collections.deque()  # one for each thread that waits for a job
        self._started: list[None] = []  # one for each thread

    def submit(self, job: Callable[[], object]) -> None:
        """A job that was interrupted on its way here is done, or not at all."""
        try:
            self._idle.pop()
        except IndexError:
            if len(self._started) < _MOST_THREADS:
                try:
                    _thread.start_new_thread(self._run, ())
                    self._started.append(None)
                except RuntimeError:  # the interpreter is going down, or there are too many
                    if not self._started:
                        job()
                        return
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.append(None)


_threads = _Threads()


def _forget_in_child() -> None:
    global _threads  # noqa: PLW0603  # a forked process has none of the threads
    _threads = _Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class Doing(Generic[T]):
    """One piece of work, and what comes of it, in the context of the task that asks for it.

    The thread says when it is over, and then wakes the task. So a task whose loop was torn out of its hands, and was
    never woken, does not wait any longer when it is cancelled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> None:
        self.work = work
        self.loop, self._run = loop, contextvars.copy_context().run
        self._woken: asyncio.Future[None] = loop.create_future()
        self.found: T | None = None
        """What it has returned."""
        self.error: BaseException | None = None
        """What it has raised, or what has gone wrong behind it."""
        self.is_over = self.was_withdrawn = False
        self.under_way = threading.Lock()

    def carry_out(self) -> None:
        """In the thread; not over yet."""
        try:
            self.found = self._run(self.work)
        except BaseException as error:  # noqa: BLE001  # raised where the outcome is waited for
            self.error = error

    def wake(self) -> None:
        """In the loop."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def outcome(self, *, is_awaited_by_cancelled: bool = True) -> T:
        """What the work has returned, or raised. Unless it need not be known, a cancelled task waits too."""
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over:
            if self._woken.cancelled():  # an earlier wait was
                self._woken = self.loop.create_future()
            try:
                await self._woken
            except asyncio.CancelledError as cancel:
                if not is_awaited_by_cancelled:
                    raise
                cancelled = cancelled or cancel
        if cancelled is not None:
            raise cancelled
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it holds this frame
        return self.found  # type: ignore[return-value]  # what the work has returned


def _wake(loop: asyncio.AbstractEventLoop, waken: Callable[[], object]) -> None:
    """Has `waken` called in the loop; not if that was closed, when nobody waits any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(waken)


async def read_in_thread(work: Callable[[], T]) -> T:
    """What `work` returns; a task that is cancelled does not wait for it."""
    doing = Doing(asyncio.get_running_loop(), work)
    _submit(doing)
    return await doing.outcome(is_awaited_by_cancelled=False)


async def change_in_thread(work: Callable[[], T]) -> T:
    """The same for work whose outcome must be known: a cancelled task waits for it too, and is cancelled then.

    An interrupt that tears the task away waits as well, or takes the work back if no thread has begun with it: else it
    could come behind what the program does next.
    """
    doing = Doing(asyncio.get_running_loop(), work)
    try:
        _submit(doing)
        return await doing.outcome()
    except GeneratorExit:  # by the collector, maybe in the thread that does the work
        raise
    except BaseException:
        if not doing.is_over:
            with doing.under_way:
                doing.was_withdrawn = True
        raise


def _submit(doing: Doing[Any]) -> None:
    loop = doing.loop

    def job() -> None:
        with doing.under_way:
            if doing.was_withdrawn:
                return
            doing.carry_out()
            doing.is_over = True
        _wake(loop, doing.wake)

    _threads.submit(job)


class Lane:
    """Calls of one loop, carried out in their order. Those that come while others are under way wait for their turn.

    A thread takes all that wait at once, and `conclude` is called behind them, which may change what they have found.
    Nothing but what threads do says whether one is on its way: the loop can be interrupted between any two steps, and
    goes on, or another one does.
    """

    def __init__(self, conclude: Callable[[Sequence[Doing[Any]]], object]) -> None:
        self._conclude = conclude
        self.is_over = asyncio.get_running_loop().is_closed
        """Whether the loop that it was made in is gone: nobody awaits anything any more."""
        self._busy = threading.Lock()
        self._waiting: collections.deque[Doing[Any]] = collections.deque()
        self._done: collections.deque[Doing[Any]] = collections.deque()
        self._job: _Job | None = None  # that will take what waits

    async def run(self, work: Callable[[], Any]) -> Any:
        """What `work` returns; a task that is cancelled waits for it too, and is cancelled then."""
        loop = asyncio.get_running_loop()
        doing = Doing(loop, work)
        self._waiting.append(doing)
        if self._job is None or not self._job.was_sent:
            loop.call_soon(self._send, loop)  # so that what other tasks ask for now comes along
        return await doing.outcome()

    def do_now(self, work: Callable[[], object]) -> None:
        """Does it in this thread, behind all that is under way."""
        self._take_all()
        with self._busy:
            work()

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and (self._job is None or not self._job.was_sent):  # else interrupted on its way
            self._job = job = _Job()
            _threads.submit(functools.partial(self._work, loop))
            job.was_sent = True

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        self._take_all()
        _wake(loop, self._wake_all)

    def _take_all(self) -> None:
        with self._busy:
            self._job = None
            batch = []
            while self._waiting:
                batch.append(self._waiting.popleft())
            for doing in batch:
                doing.carry_out()
            self._conclude(batch)
            for doing in batch:
                doing.is_over = True
                self._done.append(doing)

    def _wake_all(self) -> None:
        while self._done:
            self._done[0].wake()
            self._done.popleft()


class _Job:
    """A thread's way to what waits."""

    was_sent = False
