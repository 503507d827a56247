"""A task that is cancelled at any await: what it was told of stands, its turn has ended, and the log goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from rollout import Durability, SessionLog
from rollout.adapters.agents import RolloutSession
from tests.builders import assistant_item, user_item
from tests.interrupting import check_lines
from tests.sessions import a_log, a_store, context

MOST = 12
"""More awaits than any of this has: how many there are depends on how fast the threads are."""


class Cancelled:
    """An awaitable, whose task is cancelled when it waits for the n-th time, and for the next one if it is `twice`."""

    def __init__(self, work: Coroutine[Any, Any, None], nth: int, *, twice: bool) -> None:
        self._work, self._at, self.waited = work, {nth, nth + twice}, 0

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        given: Any = None
        step: Callable[[Any], Any] = self._work.send
        while True:
            try:
                waits_for = step(given)
            except StopIteration:
                return
            self.waited += 1
            if self.waited in self._at:
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                step, given = self._work.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001  # it is for the work
                step, given = self._work.throw, error


async def cancelled(work: Coroutine[Any, Any, None], nth: int, *, twice: bool) -> None:
    """Nothing but CancelledError comes out of the work."""
    waiting = Cancelled(work, nth, twice=twice)

    async def run() -> None:
        await waiting

    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.create_task(run())


class Words:
    """What was asked for, and what was told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []

    async def do(self, call: Callable[[str], Awaitable[object]]) -> None:
        word = f"word-{len(self.asked)}-"
        self.asked.append(word)
        await call(word)
        self.told.append(word)


async def write_turn(log: SessionLog, words: Words) -> None:
    async with log.turn(context()) as turn:
        await words.do(turn.user)
        await words.do(lambda word: turn.append(assistant_item(word)))
        await words.do(lambda word: turn.append_all([user_item(word), user_item("more")]))
        await words.do(lambda word: turn.event("custom", word=word))
        await turn.commit()
        await words.do(lambda word: turn.compact([user_item(word)]))


async def write_together(log: SessionLog, words: Words) -> None:
    async with log.turn(context()) as turn, asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(words.do(turn.user))


async def write_in_time(log: SessionLog, words: Words) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.001), log.turn(context()) as turn:
            while True:
                await words.do(turn.user)


async def abort(log: SessionLog, words: Words) -> None:
    async with log.turn(context()) as turn:
        await words.do(turn.user)
        await turn.abort("replaced")


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("durability", [Durability.TURN, Durability.RECORD])
@pytest.mark.parametrize("work", [write_turn, write_together, write_in_time, abort])
def test_a_turn_whose_task_is_cancelled_at_any_await_has_ended(
    work: Callable[[SessionLog, Words], Coroutine[Any, Any, None]], durability: Durability, twice: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        with a_log(a_store(tmp_path), durability) as log:
            words = Words()
            for nth in range(1, MOST):
                await asyncio.wait_for(cancelled(work(log, words), nth, twice=twice), 30)
                async with log.turn(context()) as turn:
                    await words.do(turn.user)
        check_lines(log.path, None, words.told, words.asked)

    asyncio.run(main())


@pytest.mark.parametrize("twice", [False, True])
def test_a_session_whose_task_is_cancelled_at_any_await_goes_on(twice: bool, tmp_path: Path) -> None:
    session, words = RolloutSession("s", tmp_path), Words()

    async def work() -> None:
        await words.do(lambda word: session.add_items([user_item(word)]))
        await session.get_items()
        await words.do(lambda word: session.add_items([user_item(word), user_item(word + "more")]))
        popped = await session.pop_item()
        assert popped is not None
        await session.create_branch()
        await session.switch_to_branch("main")

    async def main() -> None:
        for nth in range(1, MOST):
            await asyncio.wait_for(cancelled(work(), nth, twice=twice), 30)
            await session.switch_to_branch("main")
            await words.do(lambda word: session.add_items([user_item(word)]))
        found = [item["content"][0]["text"] for item in await session.get_items()]
        assert len(found) == len(set(found))

    asyncio.run(main())
    session.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("steps", range(8))
def test_a_turn_whose_loop_is_closed_in_its_midst_is_closed_by_the_next_one(steps: int, tmp_path: Path) -> None:
    words = Words()
    with a_log(a_store(tmp_path)) as log:
        loop = asyncio.new_event_loop()
        task: asyncio.Task[None] | None = loop.create_task(write_turn(log, words))
        for _ in range(steps):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        del task
        gc.collect()
        with log.turn(context()) as turn:
            turn.user("word-next-")
    check_lines(log.path, None, words.told, words.asked)
