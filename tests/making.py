"""What the tests of keys and of new sessions run in processes of their own: `python -m tests.making NAME …`.

As `tests.children`: a process that has imported the library forks the ones that do the work, which say what was done.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import rollout
from rollout import RolloutError, Store
from tests.children import ROOT, say
from tests.interrupting import SIGNALS, interrupt


def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-B", "-m", "tests.making", name, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def interrupted(act: Callable[[], object], *, every: int = 1) -> Iterator[int]:
    """Does something again and again, each time interrupted where a signal can come in; the number of the point.

    It ends when the work comes to its end.
    """
    for nth in itertools.count(1, every):
        if interrupt(SIGNALS, nth, act) < nth:
            return
        yield nth


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - it is said
        say("failed", repr(error))
    finally:
        os._exit(0)


def make_keys(path: str, processes: str, count: str) -> None:
    """So many processes make so many keys each in one file."""

    def work(process: int) -> None:
        for n in range(int(count)):
            rollout.make_key(path, f"p{process}-{n}")
            say("made", f"p{process}-{n}")

    children = [_forked(partial(work, process)) for process in range(int(processes))]
    for child in children:
        say("process", child)
    for child in children:
        os.waitpid(child, 0)


def create_until_killed(home: str) -> None:
    """For each line of the standard input a process that makes sessions; it says when it is dead."""

    def work() -> None:
        store = Store(home)
        while True:
            with contextlib.suppress(RolloutError), store.create(cwd="/p", model_provider="m", kept="x" * 5000) as log:
                say("made", str(log.path))
                with log.fork(copy=True) as copy, log.fork() as fork:
                    say("made", str(copy.path))
                    fork.commit()
                    say("made", str(fork.path))

    Path(home).mkdir(exist_ok=True)
    for _ in sys.stdin:
        child = _forked(work)
        say("process", child)
        os.waitpid(child, 0)
        say("dead", child)


if __name__ == "__main__":
    {work.__name__: work for work in (make_keys, create_until_killed)}[sys.argv[1]](*sys.argv[2:])
