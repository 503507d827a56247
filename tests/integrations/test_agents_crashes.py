"""Sessions that are cut short, at every byte, by every crash of a simulated disk, by kill -9; and beside a plain list.

Each state that a crash can leave is read, and gone on with in a part of them, spread evenly; in all with ROLLOUT_CRASH.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rollout.adapters.agents import RolloutSession
from rollout.adapters.agents.branches import Branches
from rollout.adapters.agents.conversation import add_up
from rollout.files.disk import FileSystem
from rollout.files.memory import MemoryFileSystem
from rollout.files.shared_writer import SharedWriter
from rollout.session.environment import Ports
from rollout.store import Store
from rollout.testing.crashes import crash_state, explore
from rollout.testing.disk import SimulatedDisk
from tests.integrations.agent_sessions import items, run, say, says
from tests.integrations.branching import ran, talk

HOME = Path("/home")
START = {"/home": None}
LIKE_A_RECORD = {"timestamp": "t", "type": "response_item", "payload": {"type": "message", "role": "user"}}
CRASHES = "ROLLOUT_CRASH" in os.environ
PART = 1 if CRASHES else 12
"""One state in so many is gone on with."""
Change = Callable[[Branches], object]


def opened(fs: FileSystem, seed: int = 0, session_id: str = "s") -> Branches:
    """The same every time, ids of threads too."""
    randomness = random.Random(seed).randbytes
    return Branches(Ports(HOME, fs, clock=lambda: 1_790_000_000.0, randomness=randomness), session_id, 5.0)


def path_of_main(branches: Branches) -> Path:
    """The file of the main branch, which is the oldest."""
    return branches.path_of(branches.list_all()[0][0])


def adding(*added: Any) -> tuple[Change, Callable[[list[Any]], list[Any]]]:
    return lambda branches: branches.add(list(added)), lambda before: [*before, *added]


def replacing(*items: Any, prunes: str = "") -> tuple[Change, Callable[[list[Any]], list[Any]]]:
    """The newest item, and the oldest ones that are in `prunes`."""

    def change(branches: Branches) -> None:
        snapshot = branches.snapshot(1)
        assert snapshot is not None
        assert branches.replace(snapshot, 0, list(items), lambda item: item in prunes)

    return change, lambda before: [*(item for item in before[:-1] if item not in prunes), *items]


POP: tuple[Change, Callable[[list[Any]], list[Any]]] = (lambda branches: branches.pop(), lambda before: before[:-1])
CLEAR: tuple[Change, Callable[[list[Any]], list[Any]]] = (lambda branches: branches.clear(), lambda before: [])
REPLACE_ALL: tuple[Change, Callable[[list[Any]], list[Any]]] = (
    lambda branches: branches.replace_all(["q", "r"]),
    lambda before: ["q", "r"],
)
STORIES = {
    "creation": [adding("a"), adding(LIKE_A_RECORD)],
    "batch": [adding("a", LIKE_A_RECORD, None), adding("d", "e")],
    "pop": [adding("a", "b"), POP, POP, adding("c"), POP],
    "clear": [adding("a"), CLEAR, REPLACE_ALL, CLEAR],
    "replace": [adding("a", "b"), replacing("x", "y"), replacing("z", prunes="a")],
}


@pytest.mark.parametrize("story", STORIES)
def test_after_any_crash_each_change_is_there_as_a_whole_or_not_at_all(story: str) -> None:
    states: list[list[Any]] = [[]]
    for _, expected in STORIES[story]:
        states.append(expected(states[-1]))

    def workload(disk: SimulatedDisk, acknowledge: Callable[[Any], None]) -> None:
        branches = opened(disk)
        for n, (change, _) in enumerate(STORIES[story], 1):
            change(branches)
            acknowledge(n)

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        done = len(acked)
        found = opened(disk, 1).items(None)
        assert found in (states[done], states[min(done + 1, len(states) - 1)])
        if zlib.crc32(repr(disk.tree()).encode()) % PART:
            return
        survivor = opened(disk, 1)
        survivor.add(["z"])
        assert survivor.items(None) == [*found, "z"]
        assert survivor.pop() == "z"
        assert opened(disk, 1).items(2) == found[-2:]
        assert survivor.pop() == (found[-1] if found else None)

    explored = explore(workload, check, start=START, limit=4000 if CRASHES else 8)
    assert explored.states > 100


def seen(fs: FileSystem) -> tuple[str, dict[str, list[Any]], Any]:
    """All that a session with branches tells."""
    branches = opened(fs, 2)
    told = branches.list_all()
    used = add_up(one for _, conversation in told for one in conversation.used.values())
    return branches.current, {branch.branch: conversation.items for branch, conversation in told}, used


def test_a_crash_while_a_session_is_cleared_leaves_its_branches_and_what_they_used_or_none_of_it() -> None:
    disk = SimulatedDisk(START)
    branches = opened(disk)
    for name, tokens in (("b1", 10), ("b2", 100), (None, 1000)):
        branches.add(talk(str(tokens)))
        assert branches.record_usage(ran(tokens).context_wrapper.usage)
        if name is not None:
            branches.create(name)
    start, before = disk.tree(), seen(disk)
    main = path_of_main(branches)
    with Store(HOME, fs=disk).open(main) as log:
        log.compact([])
    only_main = seen(disk)
    cleared: object = ("main", {}, None)
    after = ("main", {"main": ["new"]}, None)
    assert before[0] == only_main[0] == "b2"
    assert (before[2]["total_tokens"], only_main[2]["total_tokens"]) == (1110, 1110)
    assert (before[1]["main"], only_main[1]["main"]) == (talk("10"), [])

    def work(disk: SimulatedDisk, acknowledge: Callable[[Any], None]) -> None:
        branches = opened(disk, 1)
        branches.clear()
        acknowledge("clear")
        branches.add(["new"])
        acknowledge("add")

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        assert seen(disk) in ((before, only_main, cleared), (cleared, after), (after,))[len(acked)]
        survivor = opened(disk, 3)
        survivor.clear()
        survivor.add(["new"])
        assert seen(disk) == after

    assert explore(work, check, start=start, limit=4000 if CRASHES else 4).states > 20


def test_a_batch_that_is_cut_at_any_byte_is_there_as_a_whole_or_not_at_all() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(HOME)
    first = opened(fs)
    first.add(["a"])
    path = path_of_main(first)
    begin = fs.status(path).size
    batch = ["b", LIKE_A_RECORD, None]
    first.add(batch)
    with contextlib.closing(fs.open_read(path)) as file:
        whole = file.read_at(0, file.size())
    for cut in range(begin, len(whole) + 1):
        with contextlib.closing(fs.open_append(path)) as file:
            file.truncate(0)
            file.append(whole[:cut])
        expected = ["a", *(batch if cut >= len(whole) - 1 else [])]
        survivor = opened(fs)
        assert survivor.items(None) == survivor.items(9) == expected
        survivor.add(["z"])
        assert survivor.items(None) == [*expected, "z"]
        assert survivor.pop() == "z"
        assert survivor.pop() == expected[-1]


def test_what_was_read_beside_a_torn_tail_is_looked_at_again_when_that_is_mended() -> None:
    fs = MemoryFileSystem()
    fs.mkdir(HOME)
    writer, reader = opened(fs), opened(fs, 1)
    writer.add(["a"])
    with contextlib.closing(fs.open_append(path_of_main(writer))) as file:
        file.append(bytes(100))
    assert reader.items(None) == ["a"]
    opened(fs, 2).add(["b", "c"])  # the batch begins where the zeros were
    assert reader.items(None) == ["a", "b", "c"]


@settings(max_examples=60, stateful_step_count=30)
class LikeAList(RuleBasedStateMachine):
    """Two openings of one session on a disk that crashes, and a list that does what they are told."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk(START)
        self.model: list[Any] = []
        self.openings = 0
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.openings += 2
        self.sides = [opened(self.disk, self.openings), opened(self.disk, self.openings + 1)]

    @rule(side=st.integers(0, 1), added=st.lists(items, max_size=5))
    def add(self, side: int, added: list[Any]) -> None:
        self.sides[side].add(added)
        self.model += added

    @rule(side=st.integers(0, 1), times=st.integers(1, 6))
    def pop(self, side: int, times: int) -> None:
        for _ in range(times):
            found = self.sides[side].pop()
            assert found == (self.model.pop() if self.model else None)

    @rule(side=st.integers(0, 1))
    def clear(self, side: int) -> None:
        self.sides[side].clear()
        self.model = []

    @rule(side=st.integers(0, 1), limit=st.integers(0, 12))
    def get(self, side: int, limit: int) -> None:
        assert self.sides[side].items(limit) == self.model[max(0, len(self.model) - limit) :]

    @rule(data=st.data(), added=st.lists(items, min_size=1, max_size=3))
    def crash_while_adding(self, data: st.DataObject, added: list[Any]) -> None:
        before, begin = list(self.model), len(self.disk.ops)
        self.sides[0].add(added)
        at = data.draw(st.integers(begin, len(self.disk.ops)))
        tree = crash_state(self.disk, at, lambda n: data.draw(st.integers(0, n - 1)))
        is_done = at == len(self.disk.ops)
        self.disk = SimulatedDisk(tree)
        self.reopen()
        self.model = self.sides[0].items(None)
        assert self.model == [*before, *added] or (self.model == before and not is_done)

    @invariant()
    def both_show_the_list(self) -> None:
        if hasattr(self, "sides"):
            assert self.sides[0].items(None) == self.sides[1].items(None) == self.model


TestLikeAList = LikeAList.TestCase


def _write_until_killed(home: str, first: int, told: Any) -> None:
    session = RolloutSession("s", home)

    async def write() -> None:
        n = first
        while True:
            await session.add_items(says(f"{n}", f"{n}!"))
            told.send(n)
            n += 1

    run(write())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_nothing_that_was_acknowledged_is_lost_by_a_kill_at_any_moment(tmp_path: Path) -> None:
    rng, first, start = random.Random(5), 0, multiprocessing.get_context("fork")
    for n in range(200 if CRASHES else 12):
        hears, tells = start.Pipe(duplex=False)
        victim = start.Process(target=_write_until_killed, args=(str(tmp_path), first, tells))
        victim.start()
        assert victim.pid is not None
        tells.close()
        hears.poll(rng.uniform(0.005, 0.05) if n else None)  # one at least has written something
        time.sleep(rng.uniform(0, 0.01))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        last = first - 1
        with contextlib.suppress(EOFError):
            while True:
                last = hears.recv()
        hears.close()
        found = run(RolloutSession("s", tmp_path).get_items())
        first = len(found) // 2
        assert found == [say(f"{n}{mark}") for n in range(first) for mark in ("", "!")]
        assert first in (last + 1, last + 2)
    assert first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_no_thread_of_a_forked_process_waits_for_what_was_held_when_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, is_writing, go_on = RolloutSession("s", tmp_path), threading.Event(), threading.Event()
    run(session.add_items(says("a")))
    parent, append = os.getpid(), SharedWriter.append

    def held(writer: SharedWriter, *args: Any, **keys: Any) -> int:
        if os.getpid() == parent:
            is_writing.set()
            assert go_on.wait(20)
        return append(writer, *args, **keys)

    def writing(name: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: run(session.add_items(says(name))))
        thread.start()
        return thread

    monkeypatch.setattr(SharedWriter, "append", held)
    own = writing("b")
    assert is_writing.wait(20)
    child = os.fork()
    if not child:
        for thread in [writing("x"), writing("y")]:
            thread.join(20)
        os._exit(0)
    go_on.set()
    own.join()
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(item["content"] for item in run(session.get_items())) == ["a", "b", "x", "y"]
