"""Branches beside a plain model of lists, and over crashes."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollout.adapters.agents import BranchError
from rollout.errors import NotFound
from rollout.files.memory import MemoryFileSystem
from rollout.testing.crashes import explore
from rollout.testing.disk import SimulatedDisk
from tests.integrations.agent_sessions import say
from tests.integrations.branching import HOME, opened, ran, talk

PART = 1 if "ROLLOUT_CRASH" in os.environ else 12
"""One state that a crash leaves in so many is gone on with."""
MAIN = "main"


class BranchesAndLists(RuleBasedStateMachine):
    """Any use of two objects of one session; `lists` is what it comes to, `used` the tokens by user message."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = MemoryFileSystem()
        self.fs.mkdir(HOME)
        self.objects = [opened(self.fs), opened(self.fs)]
        self.lists: dict[str, list[Any]] = {MAIN: []}
        self.used: dict[str, dict[int, int]] = {MAIN: {}}
        self.current = [MAIN, MAIN]
        self.durable = MAIN
        self.ever = {MAIN}
        self.count = 0

    def taken(self, which: int) -> bool:
        return self.current[which] in self.lists

    def item(self, role: str) -> dict[str, Any]:
        self.count += 1
        return say(str(self.count), role)

    def starts(self, name: str) -> list[int]:
        return [i for i, item in enumerate(self.lists[name]) if item["role"] == "user"]

    @rule(which=st.integers(0, 1), roles=st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=4))
    def add(self, which: int, roles: list[str]) -> None:
        added = [self.item(role) for role in roles]
        if self.taken(which):
            self.objects[which].add(added)
            self.lists[self.current[which]] += added
        else:
            with pytest.raises(NotFound):
                self.objects[which].add(added)

    @rule(which=st.integers(0, 1))
    def pop(self, which: int) -> None:
        if self.taken(which):
            found = self.lists[self.current[which]]
            assert self.objects[which].pop() == (found.pop() if found else None)

    @rule(which=st.integers(0, 1), tokens=st.integers(1, 99))
    def use(self, which: int, tokens: int) -> None:
        if self.taken(which):
            starts = self.starts(self.current[which])
            assert self.objects[which].record_usage(ran(tokens).context_wrapper.usage) is bool(starts)
            if starts:
                name = self.current[which]
                self.used[name][int(self.lists[name][starts[-1]]["content"])] = tokens

    @rule(which=st.integers(0, 1), turn=st.integers(1, 4), after=st.booleans(), named=st.booleans())
    def create(self, which: int, turn: int, after: bool, named: bool) -> None:
        if not self.taken(which):
            return
        source = self.current[which]
        starts, items = self.starts(source), self.lists[source]
        name = f"b{len(self.ever)}" if named else None
        if turn > len(starts):
            with pytest.raises(BranchError):
                self.objects[which].create(name, lambda _: turn, after=after)
            return
        kept = [*starts, len(items)][turn] if after else starts[turn - 1]
        self.made(which, self.objects[which].create(name, lambda _: turn, after=after), items[:kept], source)

    @rule(which=st.integers(0, 1))
    def create_at_end(self, which: int) -> None:
        if self.taken(which):
            source = self.current[which]
            self.made(which, self.objects[which].create(), list(self.lists[source]), source)

    def made(self, which: int, name: str, items: list[Any], source: str) -> None:
        assert name not in self.ever
        self.ever.add(name)
        self.lists[name], self.used[name] = items, dict(self.used[source])
        self.current[which] = self.durable = name

    @rule(which=st.integers(0, 1), pick=st.integers(0, 9))
    def switch(self, which: int, pick: int) -> None:
        names = sorted(self.lists)
        name = names[pick % len(names)]
        before = self.current[which]
        self.objects[which].switch(name)
        self.current[which] = name
        if not name == MAIN == before:
            self.durable = name

    @rule(which=st.integers(0, 1), pick=st.integers(0, 9), force=st.booleans())
    def delete(self, which: int, pick: int, force: bool) -> None:
        names = sorted(self.ever)
        name = names[pick % len(names)]
        is_current = self.current[which] == name
        if name == MAIN or name not in self.lists or (is_current and not force):
            with pytest.raises((BranchError, NotFound)):
                self.objects[which].delete(name, force=force)
            return
        self.objects[which].delete(name, force=force)
        del self.lists[name]
        if is_current:
            self.current[which] = MAIN
        if self.durable == name:
            self.durable = MAIN

    @precondition(lambda self: self.count > 0)
    @rule(which=st.integers(0, 1))
    def clear(self, which: int) -> None:
        is_alone = set(self.lists) == {MAIN} and self.durable == MAIN
        self.objects[which].clear()
        self.lists, self.used, self.durable = {MAIN: []}, {MAIN: {}}, MAIN
        self.current[which] = MAIN
        if not is_alone:
            self.current = [MAIN, MAIN]

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.objects[which].close()
        self.objects[which] = opened(self.fs)
        assert self.objects[which].current == self.durable
        self.current[which] = self.durable

    @invariant()
    def says_what_the_lists_say(self) -> None:
        seen = self.objects[0]
        for which in (0, 1):
            if self.taken(which):
                assert self.objects[which].items(None) == self.lists[self.current[which]]
                assert self.objects[which].items(2) == self.lists[self.current[which]][-2:]
        for name in self.ever:
            assert seen.items(None, name) == self.lists.get(name, [])
        for name, items in self.lists.items():
            starts = self.starts(name)
            told = seen.read(name)
            turns = {i: self.used[name].get(int(items[start]["content"])) for i, start in enumerate(starts, 1)}
            used = {turn: usage.total_tokens for turn, (usage, _) in told.used.items()}
            assert (told.starts, used) == (starts, {turn: total for turn, total in turns.items() if total is not None})

    def teardown(self) -> None:
        for one in self.objects:
            one.close()


TestBranchesAndLists = BranchesAndLists.TestCase
TestBranchesAndLists.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


def test_after_any_crash_a_branch_is_there_as_a_whole_or_not_at_all() -> None:
    main, side = talk("a", "b"), [*talk("a"), say("c")]
    steps: list[tuple[Any, dict[str, list[Any]], str]] = [
        (lambda one: one.add(main), {MAIN: main}, MAIN),
        (lambda one: one.create("side", lambda _: 2), {MAIN: main, "side": side[:2]}, "side"),
        (lambda one: one.add([side[2]]), {MAIN: main, "side": side}, "side"),
        (lambda one: one.switch(MAIN), {MAIN: main, "side": side}, MAIN),
        (lambda one: one.delete("side", force=False), {MAIN: main}, MAIN),
    ]
    states: list[tuple[dict[str, list[Any]], str]] = [({}, MAIN), *((lists, current) for _, lists, current in steps)]

    def workload(disk: SimulatedDisk, acknowledge: Any) -> None:
        one = opened(disk)
        for n, (step, _, _) in enumerate(steps, 1):
            step(one)
            acknowledge(n)

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        one = opened(disk)
        found = {branch.branch: told.items for branch, told in one.list_all()}
        allowed = states[len(acked) : len(acked) + 2]
        assert (found, one.current) in allowed
        if not zlib.crc32(repr(disk.tree()).encode()) % PART:
            one.add(["z"])
            assert one.items(1) == ["z"]

    limit = 4000 if PART == 1 else 1
    assert explore(workload, check, start={"/home": None}, limit=limit).states > 100
