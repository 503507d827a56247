"""Turns of many threads, tasks and processes: nothing is lost or torn, nobody waits for a disk that need not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

import rollout
from rollout import SessionLog, Store
from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.errors import RecordError, UsageError, WriteError
from rollout.files.port import Durability
from rollout.session.turn import AsyncTurn
from rollout.testing.disk import Effect, Fault, Op, OpKind, SimulatedDisk
from tests.builders import assistant_item, user_item
from tests.sessions import a_log, a_store, context, kinds, take_turn, texts

ROOT = Path(__file__).parent.parent
T = TypeVar("T")


class SlowDisk(SimulatedDisk):
    """Its syncs, or its writes, take time."""

    def __init__(self, slow: OpKind, seconds: float) -> None:
        super().__init__()
        self.slow, self.seconds = slow, seconds

    def do(self, op: Op) -> int:
        if op.kind is self.slow:
            time.sleep(self.seconds)
        return super().do(op)


def on_slow_disk(slow: OpKind, seconds: float, durability: Durability) -> tuple[SlowDisk, SessionLog]:
    disk = SlowDisk(slow, 0)
    log = a_log(a_store("/home/u", fs=disk), durability)
    disk.seconds = seconds
    return disk, log


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, 30))


def test_threads_of_one_turn_lose_and_tear_nothing(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log, log.turn(context()) as turn, ThreadPoolExecutor(8) as pool:

        def work(n: int) -> None:
            for i in range(25):
                turn.append(assistant_item(f"{n}.{i}"))
                turn.append_all([user_item(f"{n}.{i} b"), user_item(f"{n}.{i} c")])

        for done in [pool.submit(work, n) for n in range(8)]:
            done.result()
    found = texts(rollout.reconstruct(log.path))
    for n in range(8):
        own = [text for text in found if text.startswith(f"{n}.")]
        assert own == [text for i in range(25) for text in (f"{n}.{i}", f"{n}.{i} b", f"{n}.{i} c")]
    assert rollout.verify(log.path).damage == ()


def test_threads_that_ask_for_the_disk_at_each_record_share_its_syncs() -> None:
    disk, log = on_slow_disk(OpKind.SYNC, 0.01, Durability.RECORD)
    with log, log.turn(context()) as turn, ThreadPoolExecutor(8) as pool:
        before = disk.attempts.count(OpKind.SYNC)

        def work() -> None:
            for _ in range(5):
                assert turn.append(user_item("x")) <= log.durable_end

        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
        assert 5 <= disk.attempts.count(OpKind.SYNC) - before <= 20


def test_only_one_of_many_threads_has_the_turn(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log:
        refused = []
        everyone = threading.Barrier(6)

        def work(n: int) -> None:
            everyone.wait(10)
            try:
                with log.turn(context()) as turn:
                    turn.user(f"q{n}")
                    time.sleep(0.05)
            except UsageError as error:
                refused.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert kinds(log.path).count("task_started") == 6 - len(refused) >= 1
        assert kinds(log.path).count("task_complete") == 6 - len(refused)


def test_processes_that_write_to_one_log_and_to_forks_of_it_keep_apart(tmp_path: Path) -> None:
    with a_log(Store(tmp_path)) as log:
        take_turn(log, "q")
    program = """
import sys, rollout
from rollout.errors import Locked
from tests.sessions import take_turn
source, number, taken = sys.argv[1], sys.argv[2], 0
with rollout.open_log(source, "read") as reader, reader.fork() as child:
    while taken < 5:
        take_turn(child, f"{number} fork {taken}")
        try:
            with rollout.open_log(source) as log:
                take_turn(log, f"{number} log {taken}")
                taken += 1
        except Locked as error:
            assert "another writer holds it" in str(error) or "was replaced" in str(error)
    print(child.path)
"""
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(log.path), str(n)], cwd=ROOT, stdout=subprocess.PIPE)
        for n in range(4)
    ]
    forks = [Path(process.communicate(timeout=60)[0].decode().strip()) for process in started]
    assert [process.returncode for process in started] == [0] * 4
    found = texts(rollout.reconstruct(log.path))
    for n in range(4):
        assert [text for text in found if text.startswith(f"{n} log")] == [f"{n} log {i}" for i in range(5)]
        own = texts(rollout.reconstruct(forks[n]))
        assert own[-1].startswith(f"answer to {n} fork")
    assert rollout.verify(log.path).damage == ()
    assert len({json.loads(line)["payload"].get("turn_id") for line in log.path.read_bytes().splitlines()}) == 22


def test_an_async_turn_writes_what_a_turn_writes(tmp_path: Path) -> None:
    async def main(log: SessionLog) -> str:
        async with log.turn(context()) as turn:
            assert isinstance(turn, AsyncTurn)
            await turn.user("q")
            end = await turn.append(assistant_item("a"))
            await turn.append_all([user_item("b"), user_item("c")], expected_end=end)
            await turn.event("custom", x=1)
            assert await turn.commit() == log.end
            await turn.compact([user_item("s")], "s")
            with pytest.raises(RecordError):
                await turn.append({"type": 1})
        return turn.id

    with a_log(a_store(tmp_path)) as log:
        assert run(main(log)) == log.resume_state().turns[0].id
        assert log.durable_end == log.end
        assert texts(log.resume_state()) == ["s"]
        assert kinds(log.path)[-4:] == ["compacted", "turn_context", "context_compacted", "task_complete"]


@pytest.mark.parametrize("slow", [OpKind.SYNC, OpKind.WRITE])
def test_the_loop_goes_on_while_the_disk_does_not(slow: OpKind) -> None:
    _, log = on_slow_disk(slow, 0.25, Durability.RECORD)

    async def main() -> float:
        longest, last, done = 0.0, time.perf_counter(), asyncio.Event()

        async def tick() -> None:
            nonlocal longest, last
            while not done.is_set():
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now

        ticking = asyncio.create_task(tick())
        async with log.turn(context()) as turn:
            await turn.user("q")
            await turn.append(assistant_item("a"))
        done.set()
        await ticking
        return longest

    assert run(main()) < 0.2
    assert texts(log.resume_state()) == ["q", "a"]
    log.close()


@pytest.mark.parametrize("durability", [Durability.TURN, Durability.RECORD])
def test_sixteen_tasks_that_commit_at_once_share_the_syncs(durability: Durability) -> None:
    disk, log = on_slow_disk(OpKind.SYNC, 0.02, durability)

    async def main() -> None:
        async with log.turn(context()) as turn:

            async def work(n: int) -> None:
                for i in range(5):
                    end = await turn.append(user_item(f"{n}.{i}"))
                    if durability is Durability.TURN:
                        assert await turn.commit() >= end
                    assert log.durable_end >= end

            await asyncio.gather(*(work(n) for n in range(16)))

    before = disk.attempts.count(OpKind.SYNC)
    run(main())
    assert disk.attempts.count(OpKind.SYNC) - before <= 27  # of 80
    assert len(log.resume_state().history) == 80
    log.close()


def test_tasks_whose_shared_sync_fails_are_all_told_so() -> None:
    disk = SimulatedDisk(faults=[Fault(1, Effect.FAIL, OpKind.SYNC)])
    log = a_log(a_store("/home/u", fs=disk))

    async def main() -> list[BaseException | int]:
        async with log.turn(context()) as turn:
            good = await turn.append(user_item("a"))
            with pytest.raises(RecordError):
                await turn.append({"no": "item"})
            results = await asyncio.gather(
                turn.commit(), turn.append(user_item("b")), turn.commit(), return_exceptions=True
            )
            assert good < log.end
            raise ValueError(results)

    with pytest.raises(ValueError, match="could not be put on the disk") as failed:
        run(main())
    (results,) = failed.value.args
    assert all(isinstance(result, WriteError) for result in results)
    assert "could not be closed as interrupted" in failed.value.__notes__[0]
    log.close()
    again = a_store("/home/u", fs=disk, seed=1).open(log.path)
    assert texts(again.resume_state()) == ["a", "b", ABORTED_TEXT]


@pytest.mark.parametrize("at", ["in a write", "between two", "on entering"])
def test_a_task_that_is_cancelled_interrupts_its_turn_behind_what_it_has_written(at: str) -> None:
    _, log = on_slow_disk(OpKind.WRITE, 0.05, Durability.TURN)
    reached = threading.Event()

    async def work() -> None:
        if at == "on entering":
            reached.set()
        async with log.turn(context()) as turn:
            await turn.user("q")
            reached.set()
            if at == "in a write":
                await turn.append(assistant_item("a"))
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        while not reached.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    wanted = {"in a write": ["q", "a", ABORTED_TEXT], "between two": ["q", ABORTED_TEXT], "on entering": [ABORTED_TEXT]}
    state = log.resume_state()
    assert texts(state) == wanted[at]
    assert [turn.status for turn in state.turns] == ["interrupted"]
    assert log.durable_end == log.end
    with log.turn(context()) as turn:
        turn.user("r")
    log.close()


def test_an_exception_in_an_async_turn_interrupts_it_and_goes_on(tmp_path: Path) -> None:
    async def main(log: SessionLog) -> None:
        async with log.turn(context()) as turn:
            await turn.user("q")
            raise ValueError("x")

    with a_log(a_store(tmp_path)) as log:
        with pytest.raises(ValueError, match="x"):
            run(main(log))
        assert texts(log.resume_state()) == ["q", ABORTED_TEXT]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked there")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    async def main(log: SessionLog) -> None:
        async with log.turn(context()) as turn:
            await turn.user("q")

    store = a_store(tmp_path)
    with a_log(store) as log:
        run(main(log))
    child = os.fork()
    if child == 0:
        try:
            with a_store(tmp_path, seed=1).open(log.path) as again:
                run(main(again))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert texts(rollout.reconstruct(log.path)) == ["q", "q"]
