"""A turn for asyncio: what blocks runs in a thread, so that the loop never waits for a disk.

Calls of one turn that wait at the same time are carried out in one go, in their order, and put on the disk by one sync.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from rollout.format.encoder import AnyItem
from rollout.format.labels import Label
from rollout.session.background import Doing, submit, wake
from rollout.session.recorder import Recorder
from rollout.session.turn import KEEP, OpenTurn

T = TypeVar("T")

Call: TypeAlias = "Callable[[], Any] | None"
"""What is to be done; None: only a commit of all that was done before."""


class AsyncTurn:
    """An open turn whose methods are awaited. See `OpenTurn`.

    A call that is cancelled is waited for first: it is done then, and nothing that comes next overtakes it.
    """

    def __init__(self, turn: OpenTurn, recorder: Recorder) -> None:
        self.id = turn.id
        self._turn = turn
        turn.held_in(asyncio.get_running_loop().is_closed)
        self._lane = _Lane(recorder)

    @property
    def label(self) -> Label:
        """See `OpenTurn.label`."""
        return self._turn.label

    async def user(self, text: str, images: Iterable[str] = (), *, expected_end: int | None = None) -> int:
        """See `OpenTurn.user`."""
        return await self._run(self._turn.user, text, images, expected_end=expected_end)

    async def append(self, item: AnyItem, *, expected_end: int | None = None) -> int:
        """See `OpenTurn.append`."""
        return await self._run(self._turn.append, item, expected_end=expected_end)

    async def append_all(self, items: Iterable[AnyItem], *, expected_end: int | None = None) -> int:
        """See `OpenTurn.append_all`."""
        return await self._run(self._turn.append_all, items, expected_end=expected_end)

    async def event(self, type: str, /, keys: Mapping[str, Any] | None = None, **more: Any) -> int:
        """See `OpenTurn.event`."""
        return await self._run(self._turn.event, type, {**(keys or {}), **more})

    async def compact(
        self,
        replacement_history: Iterable[AnyItem],
        message: str = "",
        *,
        context: Mapping[str, Any] | str | None = KEEP,
    ) -> int:
        """See `OpenTurn.compact`."""
        return await self._run(self._turn.compact, replacement_history, message, context=context)

    async def abort(self, reason: str = "interrupted") -> None:
        """See `OpenTurn.abort`."""
        await self._run(self._turn.abort, reason)

    async def commit(self) -> int:
        """See `OpenTurn.commit`."""
        end: int = await self._lane.run(None)
        return end

    async def enter(self) -> None:
        """Begins the turn."""
        try:
            await self._run(self._turn.begin)
        except BaseException as error:  # cancelled, say, when the turn had begun
            await self._interrupt(error)
            raise

    async def leave(self, error: BaseException | None) -> None:
        """Ends the turn."""
        if error is not None:
            await self._interrupt(error)
        else:
            await self._run(self._turn.finish, None)

    async def _interrupt(self, error: BaseException) -> None:
        if isinstance(error, GeneratorExit):  # the loop is gone: nothing can be awaited any more
            self._lane.do_now(functools.partial(self._turn.interrupt, error))
        else:
            await self._run(self._turn.interrupt, error)

    async def _run(self, call: Callable[..., T], *args: Any, **keys: Any) -> T:
        """In a thread, but in the context of the task: the label in force is that of who calls."""
        result: T = await self._lane.run(functools.partial(call, *args, **keys))
        return result


class _Lane:
    """The calls of one loop to one log, in order. Those that come while others are carried out wait for their turn.

    A thread takes all that wait at once. Nothing but what threads do says whether one is on its way: the loop can be
    interrupted between any two steps, and goes on, or another one does.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy = threading.Lock()
        self._waiting: collections.deque[Doing[Any]] = collections.deque()
        self._done: collections.deque[Doing[Any]] = collections.deque()
        self._job: _Job | None = None  # that will take what waits

    async def run(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        doing = Doing(loop, call or _only_commit)
        self._waiting.append(doing)
        if self._job is None or not self._job.was_sent:
            loop.call_soon(self._send, loop)  # so that what other tasks ask for now comes along
        return await doing.outlast()

    def do_now(self, call: Callable[[], None]) -> None:
        """In this thread, behind all that is under way."""
        self._take_all()
        with self._busy:
            call()

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and (self._job is None or not self._job.was_sent):  # else interrupted on its way
            self._job = job = _Job()
            submit(functools.partial(self._work, loop))
            job.was_sent = True

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        self._take_all()
        wake(loop, self._wake)

    def _take_all(self) -> None:
        with self._busy:
            self._job = None
            batch = []
            while self._waiting:
                batch.append(self._waiting.popleft())
            _carry_out(self._recorder, batch)
            for doing in batch:
                doing.is_over = True
                self._done.append(doing)

    def _wake(self) -> None:
        while self._done:
            self._done[0].wake()
            self._done.popleft()


class _Job:
    """A thread's way to what waits."""

    was_sent = False


def _only_commit() -> None:
    """What is asked for that appends nothing."""


def _carry_out(recorder: Recorder, batch: Sequence[Doing[Any]]) -> None:
    """One sync at most for those that only append and those that only commit."""
    with recorder.acknowledging_later() as acknowledge:
        for doing in batch:
            doing.carry_out()
        try:
            durable_end = acknowledge(commits=any(doing.work is _only_commit for doing in batch))
        except BaseException as error:  # noqa: BLE001  # it is raised where the outcome is waited for
            for doing in batch:
                doing.error = doing.error or error
            return
    for doing in batch:
        if doing.work is _only_commit:
            doing.found = durable_end
