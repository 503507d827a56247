"""A turn for asyncio: what blocks runs in a thread, so that the loop never waits for a disk.

Calls of one turn that wait at the same time are carried out in one go, in their order, and put on the disk by one sync.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from rollout.core.labels import Label
from rollout.encoding import AnyItem
from rollout.recorder import Recorder
from rollout.turn import KEEP, OpenTurn, Tags

T = TypeVar("T")

Call: TypeAlias = "Callable[[], Any] | None"
"""What is to be done; None: only a commit of all that was done before."""
_THREADS = 32


class AsyncTurn:
    """An open turn whose methods are awaited. See `OpenTurn`.

    A call that is cancelled is waited for first: it is done then, and nothing that comes next overtakes it.
    """

    def __init__(self, turn: OpenTurn, recorder: Recorder) -> None:
        self.id = turn.id
        self._turn = turn
        self._lane = _Lane(recorder)

    @property
    def label(self) -> Label:
        """See `OpenTurn.label`."""
        return self._turn.label

    async def user(
        self,
        text: str,
        images: Iterable[str] = (),
        *,
        expected_end: int | None = None,
        session_id: str | None = None,
        tags: Tags = None,
    ) -> int:
        """See `OpenTurn.user`."""
        call = self._turn.user
        return await self._run(call, text, images, expected_end=expected_end, session_id=session_id, tags=tags)

    async def append(
        self, item: AnyItem, *, expected_end: int | None = None, session_id: str | None = None, tags: Tags = None
    ) -> int:
        """See `OpenTurn.append`."""
        return await self._run(self._turn.append, item, expected_end=expected_end, session_id=session_id, tags=tags)

    async def append_all(
        self,
        items: Iterable[AnyItem],
        *,
        expected_end: int | None = None,
        session_id: str | None = None,
        tags: Tags = None,
    ) -> int:
        """See `OpenTurn.append_all`."""
        call = self._turn.append_all
        return await self._run(call, items, expected_end=expected_end, session_id=session_id, tags=tags)

    async def event(
        self,
        type: str,
        /,
        keys: Mapping[str, Any] | None = None,
        *,
        session_id: str | None = None,
        tags: Tags = None,
        **more: Any,
    ) -> int:
        """See `OpenTurn.event`."""
        return await self._run(self._turn.event, type, {**(keys or {}), **more}, session_id=session_id, tags=tags)

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
            await self._run(self._turn.interrupt, error)
            raise

    async def leave(self, error: BaseException | None) -> None:
        """Ends the turn."""
        await self._run(self._turn.finish, error)

    async def _run(self, call: Callable[..., T], *args: Any, **keys: Any) -> T:
        """In a thread, but in the context of the task: the label in force is that of who calls."""
        here = contextvars.copy_context()
        result: T = await self._lane.run(functools.partial(here.run, call, *args, **keys))
        return result


class _Lane:
    """The calls of one loop to one log, in order. Those that come while others are carried out wait for their turn."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: list[tuple[Call, asyncio.Future[Any]]] = []
        self._is_running = False

    async def run(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((call, future))
        if not self._is_running:
            self._is_running = True
            loop.call_soon(self._start, loop)  # so that what other tasks ask for now comes along
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()  # seen: nobody else will ask for it
            raise

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._waiting = self._waiting, []
        _threads().submit(self._work, loop, batch)

    def _work(self, loop: asyncio.AbstractEventLoop, batch: Sequence[tuple[Call, asyncio.Future[Any]]]) -> None:
        results = _carry_out(self._recorder, [call for call, _ in batch])
        loop.call_soon_threadsafe(self._finish, loop, [future for _, future in batch], results)

    def _finish(
        self, loop: asyncio.AbstractEventLoop, futures: Sequence[asyncio.Future[Any]], results: Sequence[Any]
    ) -> None:
        for future, (result, error) in zip(futures, results, strict=True):
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if self._waiting:
            self._start(loop)
        else:
            self._is_running = False


def _carry_out(recorder: Recorder, calls: Sequence[Call]) -> list[tuple[Any, BaseException | None]]:
    """What each call gave or raised. One sync at most for those that only append and those that only commit."""
    results: list[tuple[Any, BaseException | None]] = []
    with recorder.acknowledging_later() as acknowledge:
        for call in calls:
            try:
                results.append((None if call is None else call(), None))
            except BaseException as error:  # noqa: BLE001  # it is raised where the call is awaited
                results.append((None, error))
        try:
            durable_end = acknowledge(commits=None in calls)
        except BaseException as error:  # noqa: BLE001  # as above
            return [(None, found or error) for _, found in results]
    return [
        (durable_end if call is None else result, error) for call, (result, error) in zip(calls, results, strict=True)
    ]


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    """Threads of our own: what waits for a disk must not wait for other people's work as well."""
    return concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="rollout")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)
