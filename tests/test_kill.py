"""kill -9 at any moment: what a call has acknowledged is in the log afterwards, once, in order, batches whole.

A child writes numbered turns and says each acknowledgement; it is killed after a random time, its log is checked and
opened again by the next one. ROLLOUT_CRASH=1 (`just crash`) does that 2,000 times, else it is 200.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from tests import children
from tests.sessions import a_log, a_store, lines_of, texts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL and fork are of POSIX systems")

CRASHES = "ROLLOUT_CRASH" in os.environ
CYCLES = 2000 if CRASHES else 200
CYCLES_A_LOG = 10
LATEST_SECONDS = 0.03


class Victims:
    """A warm child that forks the writers to be killed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def heard(self) -> list[Any]:
        assert self._process.stdout is not None
        found: list[Any] = json.loads(self._process.stdout.readline())
        return found

    def kill_one(self, path: Path, first: int, seed: int, seconds: float) -> int | None:
        """Lets one write numbers from `first` on for a time: the last one acknowledged."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(path), first, seed]).encode() + b"\n")
        self._process.stdin.flush()
        last = pid = None
        said: list[list[Any]] = []
        while pid is None:  # its own child may be heard before it
            said.append(self.heard())
            if said[-1][0] == "writes":
                pid = said[-1][1]
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        while said[-1][0] != "dead":
            said.append(self.heard())
        for word, number in said:
            last = number if word == "written" else last
        return last


@pytest.fixture
def victims() -> Iterator[Victims]:
    process = children.start("write_until_killed")
    try:
        yield Victims(process)
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.communicate(timeout=30)


def numbers(path: Path) -> list[int]:
    """The numbers in the history of a log; what a killed turn left is no number."""
    found = texts(rollout.reconstruct(path))
    return [int(text.split()[0]) for text in found if not text.startswith("<turn_aborted>")]


def check_killed(path: Path, shown: list[int], first: int, last: int | None) -> None:
    """All numbers up to the last acknowledged one stand, none twice; of every batch all lines stand."""
    assert shown == [*range(1, len(shown) + 1)]
    assert len(shown) >= (first - 1 if last is None else last)
    marks = [line["batch"] for line in lines_of(path) if "batch" in line]
    assert marks == [[k, n] for begin, n in marks if begin == 1 for k in range(1, n + 1)]


def test_nothing_that_was_acknowledged_is_lost_by_a_kill_at_any_moment(victims: Victims, tmp_path: Path) -> None:
    store = a_store(tmp_path)
    rng = random.Random(2026)
    acknowledged = 0
    path, first = tmp_path, 1
    for cycle in range(CYCLES):
        if cycle % CYCLES_A_LOG == 0:
            with a_log(store) as log:
                path, first = log.path, 1
        before = path.read_bytes()
        last = victims.kill_one(path, first, cycle + 1, rng.uniform(0, LATEST_SECONDS))
        left = path.read_bytes()
        assert left.startswith(before)
        with store.open(path) as log:
            assert log.recovered is not None
            kept = log.recovered.cut
        assert path.read_bytes()[:kept] == left[:kept]
        shown = numbers(path)
        check_killed(path, shown, first, last)
        acknowledged += 0 if last is None else last - first + 1
        first = len(shown) + 1
        if cycle % CYCLES_A_LOG == CYCLES_A_LOG - 1:
            assert rollout.verify(path).damaged_lines == 0
            turns = rollout.turns(path)
            assert len({turn.id for turn in turns}) == len(turns)
    assert acknowledged
