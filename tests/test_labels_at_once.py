"""Labels of turns that go on at once, in threads and in tasks: they do not mix."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import rollout
from rollout import SessionLog, Store
from tests.builders import assistant_item, user_item
from tests.labelled import CALL, PLAN, ids, in_a_task, make, tags
from tests.sessions import context

# Threads and tasks


def test_a_turn_is_labelled_the_same_from_every_thread(store: Store) -> None:
    with make(store) as log, log.turn(session_id="t") as turn, ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(turn.append, assistant_item(PLAN)) for _ in range(20)]:
            done.result()
        assert {*ids(log, 1)} == {"t"}


def test_a_task_that_outlives_the_turn_it_was_made_in_does_not_carry_its_label_on(store: Store) -> None:
    async def main(log: SessionLog) -> None:
        gone = asyncio.Event()

        async def late() -> None:
            await gone.wait()
            log.event("late")

        async with log.turn(session_id="t"):
            task = asyncio.create_task(late())
        gone.set()
        await task

    with make(store) as log:
        asyncio.run(main(log))
        assert ids(log, 1) == ["t", "t", None]


def test_a_task_keeps_the_label_block_that_it_was_made_in(store: Store) -> None:
    async def main(log: SessionLog) -> None:
        with rollout.label("x"):
            task = asyncio.create_task(in_a_task(log))
        log.event("outside")
        await task

    with make(store) as log:
        asyncio.run(main(log))
        assert ids(log, 1) == [None, "x"]


def test_turns_of_many_tasks_and_logs_do_not_mix(store: Store) -> None:
    async def session(name: str, log: SessionLog) -> None:
        with rollout.label(tags={"task": name}):
            async with log.turn(context(), session_id=name) as turn:
                assert turn.label.session_id == name
                for n in range(5):
                    await turn.append(assistant_item(f"{PLAN} {n}"))
                    await asyncio.sleep(0)
                    with rollout.label(f"{name}-{n}"):
                        await asyncio.gather(turn.user("q"), turn.event("x"), asyncio.to_thread(log.event, "y"))
                    await turn.append_all([CALL])
                await turn.compact([user_item("c")])
            with rollout.label(f"{name}-behind"):
                await asyncio.gather(asyncio.to_thread(log.event, "z"), asyncio.sleep(0))
            log.event("behind")

    async def main() -> None:
        await asyncio.gather(*(session(name, log) for name, log in opened.items()))

    opened = {f"s{n}": make(store) for n in range(8)}
    asyncio.run(main())
    for name, log in opened.items():
        log.close()
        assert ids(log)[-2:] == [f"{name}-behind", None]
        assert {*ids(log, 1)[:-2]} == {name}
        assert all(found == {"task": name} for found in tags(log, 1))


def test_an_async_turn_that_fails_is_closed_with_its_label(store: Store) -> None:
    async def main(log: SessionLog) -> None:
        with contextlib.suppress(ValueError):
            async with log.turn(session_id="t"):
                raise ValueError
        log.event("behind")

    with make(store) as log:
        asyncio.run(main(log))
        assert ids(log, 1) == ["t", "t", "t", None]
