"""Logs that nobody closes: garbage, the end of the interpreter, a forked process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rollout
from rollout import SessionLog, Store
from rollout.adapters.agents import RolloutSession
from rollout.errors import Closed, Locked
from tests.builders import user_item
from tests.interrupting import check_lines
from tests.sessions import a_log, context

ROOT = Path(__file__).parent.parent


def test_a_log_that_is_garbage_gives_its_lock_back_and_loses_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    log: SessionLog | None = a_log(store)
    assert log is not None
    path = log.path
    turn = log.turn(context()).__enter__()
    turn.user("word-0-")
    del log, turn
    gc.collect()
    with store.open(path) as again:
        again.event("custom", word="word-1-")
    check_lines(path, None, ["word-0-", "word-1-"], [])


def test_a_log_in_a_circle_that_was_not_collected_yet_holds_no_lock(tmp_path: Path) -> None:
    store = Store(tmp_path)
    log = a_log(store)
    path, circle = log.path, [log]
    circle.append(circle)  # type: ignore[arg-type]  # as an exception and the frames that it came through are one
    gc.collect()
    gc.disable()
    try:
        del log, circle
        with store.open(path) as again:
            with pytest.raises(Locked):
                store.open(path)
            again.event("custom", word="word-0-")
    finally:
        gc.enable()
    check_lines(path, None, ["word-0-"], [])


def test_a_turn_that_is_garbage_is_closed_by_whatever_is_written_next(tmp_path: Path) -> None:
    calls: list[Callable[[SessionLog], object]] = [
        lambda log: log.event("custom"),
        lambda log: log.rollback(1),
        lambda log: log.compact([user_item("x")]),
        lambda log: log.turn(context()).__enter__().abort(),
        SessionLog.close,
    ]
    for call in calls:
        log = a_log(Store(tmp_path))
        log.turn(context()).__enter__().user("word-0-")
        call(log)
        log.close()
        check_lines(log.path, None, ["word-0-"], ["word-0-"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked there")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_that_is_forked_while_threads_write_can_close_their_log_and_open_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    log, session, is_over = a_log(store), RolloutSession("s"), threading.Event()

    def write() -> None:
        while not is_over.is_set():
            log.event("custom")
            log.commit()

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(15):
        time.sleep(0.002)
        child = os.fork()
        if not child:
            signal.alarm(20)  # the default of SIGALRM ends it
            code = 1
            try:
                with pytest.raises(Closed, match="is open in the process that this one was forked from"):
                    log.event("custom")
                log.close()
                session.close()
                with a_log(store) as own:
                    own.event("custom")
                code = 0
            finally:
                os._exit(code)
        codes.append(os.waitpid(child, 0)[1])
    is_over.set()
    for thread in threads:
        thread.join()
    log.close()
    session.close()
    assert codes == [0] * 15
    check_lines(log.path, None, [], [])


ENDS = {
    "a log that is open": "log.event('custom', word='word-0-')",
    "a turn that is open": "turn = log.turn(context).__enter__(); turn.user('word-0-')",
    "a thread that writes": """
def write():
    while True:
        log.event("custom")
        log.commit()
log.event('custom', word='word-0-')
threading.Thread(target=write, daemon=True).start()
time.sleep(0.05)
""",
    "a loop in another thread": """
async def write():
    await asyncio.sleep(0.2)  # the main thread has come to its end
    async with log.turn(context) as turn:
        await turn.user("word-0-")
    log.close()
threading.Thread(target=asyncio.run, args=(write(),)).start()
""",
    "a session of a loop in another thread": """
from rollout.adapters.agents import RolloutSession
async def write():
    await asyncio.sleep(0.2)
    await RolloutSession("s", sys.argv[1]).add_items([{"role": "user", "content": "said"}])
    log.event("custom", word="word-0-")
threading.Thread(target=asyncio.run, args=(write(),)).start()
""",
    "a function that is called at the exit": """
def write():
    async def add():
        async with log.turn(context) as turn:
            await turn.user("word-0-")
    asyncio.run(add())
atexit.register(write)
""",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_log_that_is_open_when_the_interpreter_ends_hangs_nothing_and_loses_nothing(end: str, tmp_path: Path) -> None:
    program = f"""
import asyncio, atexit, sys, threading, time
import rollout
log = rollout.Store(sys.argv[1]).create(cwd="/p", model_provider="m")
context = rollout.TurnContext(model="m")
print(log.path)
{ENDS[end]}
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    path = Path(done.stdout.decode().strip())
    with rollout.open_log(path, home=tmp_path) as log:
        log.event("custom", word="word-1-")
    check_lines(path, None, ["word-0-", "word-1-"], [])
