"""Sessions whose items have a time to live: beside a list of items and their last moments, and one by one.

Nothing sleeps: one clock is moved by hand. Items of one side expire after two seconds, those of the other never.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import rollout
from rollout.adapters.agents.branches import Branches
from rollout.adapters.agents.cuts import before_turn
from rollout.files.encrypted.keyed_disk import with_keys
from rollout.files.memory import MemoryFileSystem
from rollout.session.environment import Ports
from tests.enciphering import a_cipher
from tests.integrations.agent_sessions import say
from tests.integrations.branching import HOME, ran, talk, texts_of

START, TTL_S, NEVER = 1_790_000_000.0, 2, float("inf")
MORTAL, LASTING = 0, 1


class Disk:
    """A home in memory, its clock, and sessions in it."""

    def __init__(self) -> None:
        self.now = START
        self.fs = MemoryFileSystem()
        self.fs.mkdir(HOME)
        self.ciphers = [a_cipher(ttl_s=ttl_s, clock=lambda: self.now) for ttl_s in (TTL_S, None)]

    def opened(self, side: int) -> Branches:
        fs = with_keys(self.fs, self.ciphers[side])
        return Branches(Ports(HOME, fs, clock=lambda: self.now), "s", 5.0)

    def sides(self) -> list[Branches]:
        return [self.opened(MORTAL), self.opened(LASTING)]


sides = st.integers(MORTAL, LASTING)
seconds = st.integers(1, 3)
limits = st.integers(0, 5)
added_items = st.lists(st.integers(0, 9), min_size=1, max_size=3)


@settings(max_examples=15, stateful_step_count=20)
class LikeAListOfMortals(RuleBasedStateMachine):
    """Two openings of one session, and a list of (item, when it expires) that does what they are told."""

    @initialize()
    def begin(self) -> None:
        self.disk = Disk()
        self.model: list[tuple[Any, float]] = []
        self.reopen()

    @property
    def shown(self) -> list[Any]:
        return [item for item, expires in self.model if expires > self.disk.now]

    def forget(self, count: int) -> None:
        """The newest `count` that are shown are taken out."""
        standing = [i for i, (_, expires) in enumerate(self.model) if expires > self.disk.now]
        for i in reversed(standing[len(standing) - count :]):
            del self.model[i]

    def remember(self, side: int, added: list[Any]) -> None:
        self.model += [(item, self.disk.now + TTL_S if side == MORTAL else NEVER) for item in added]

    @rule()
    def reopen(self) -> None:
        self.sides = self.disk.sides()

    @rule(side=sides, added=added_items)
    def add(self, side: int, added: list[Any]) -> None:
        self.sides[side].add(added)
        self.remember(side, added)

    @rule(side=sides, times=st.integers(1, 3))
    def pop(self, side: int, times: int) -> None:
        for _ in range(times):
            shown = self.shown
            assert self.sides[side].pop() == (shown[-1] if shown else None)
            self.forget(1 if shown else 0)

    @rule(side=sides, limit=limits)
    def get(self, side: int, limit: int) -> None:
        assert self.sides[side].items(limit) == self.shown[max(0, len(self.shown) - limit) :]

    @rule(side=sides, limit=limits, added=added_items, passed=seconds)
    def go_on_a_while_later(self, side: int, limit: int, added: list[Any], passed: int) -> None:
        """As an agent does, by one object all the time."""
        self.get(side, limit)
        self.add(side, added)
        self.get(side, limit)
        self.pass_time(passed)
        self.get(side, limit)
        self.pop(side, 1)

    @rule(side=sides, count=st.integers(1, 4), added=added_items, prunes=st.booleans())
    def replace(self, side: int, count: int, added: list[Any], prunes: bool) -> None:
        snapshot, shown = self.sides[side].snapshot(count), self.shown
        assert (snapshot is None) == (not shown)
        if snapshot is not None:
            assert snapshot.is_whole == (len(shown) <= count)
            assert self.sides[side].replace(snapshot, 0, added, (lambda _: True) if prunes else None)
            self.forget(len(shown) if prunes else min(count, len(shown)))
            self.remember(side, added)

    @rule(side=sides)
    def clear(self, side: int) -> None:
        self.sides[side].clear()
        self.model = []

    @rule(passed=seconds)
    def pass_time(self, passed: int) -> None:
        self.disk.now += passed

    @invariant()
    def all_show_what_has_not_expired(self) -> None:
        if hasattr(self, "sides"):
            shown = self.shown
            assert self.disk.opened(LASTING).items(None) == shown
            assert [side.read().items for side in self.sides] == [shown, shown]


TestLikeAListOfMortals = LikeAListOfMortals.TestCase


def test_a_pop_takes_the_newest_item_that_is_still_shown_and_no_more_goes_when_others_expire() -> None:
    disk = Disk()
    mortal, lasting = disk.sides()
    lasting.add(["a", "b"])
    mortal.add(["c", "d"])
    disk.now += TTL_S
    assert mortal.pop() == "b"
    mortal.add(["e"])
    assert (mortal.items(None), disk.opened(LASTING).items(2)) == (["a", "e"], ["a", "e"])
    disk.now += TTL_S
    assert mortal.items(None) == lasting.items(9) == ["a"]
    assert [lasting.pop(), lasting.pop(), lasting.items(None)] == ["a", None, []]


def test_what_was_read_of_a_file_that_rests_since_is_not_shown_when_it_has_expired() -> None:
    disk = Disk()
    mortal, _ = disk.sides()
    mortal.add(["a"])
    disk.now += 1
    mortal.add(["b"])
    assert mortal.items(2) == ["a", "b"]
    disk.now += TTL_S - 1
    assert mortal.items(2) == ["b"]
    disk.now += 1
    assert mortal.items(2) == []
    assert mortal.pop() is None


def test_pops_in_a_row_end_at_what_has_expired_meanwhile() -> None:
    disk = Disk()
    mortal, _ = disk.sides()
    mortal.add(["a"])
    disk.now += 1
    mortal.add(["b", "c", "d"])
    assert [mortal.pop(), mortal.pop()] == ["d", "c"]
    disk.now += TTL_S - 1
    assert [mortal.pop(), mortal.pop(), mortal.items(None)] == ["b", None, []]


def test_what_has_expired_between_items_goes_with_the_one_below_it() -> None:
    disk = Disk()
    mortal, lasting = disk.sides()
    lasting.add(["a", "b"])
    mortal.add(["x"])
    lasting.add(["c", "d"])
    disk.now += TTL_S
    assert [lasting.pop(), lasting.pop(), lasting.pop()] == ["d", "c", "b"]
    assert mortal.items(None) == ["a"]


def test_what_was_kept_counts_with_what_is_added_to_it() -> None:
    disk = Disk()
    mortal, lasting = disk.sides()
    lasting.add(["a", "b"])
    mortal.add(["x", "y"])
    disk.now += TTL_S
    assert lasting.items(2) == ["a", "b"]
    lasting.add(["c"])
    assert [lasting.pop(), lasting.pop(), mortal.items(None)] == ["c", "b", ["a"]]


def test_what_is_added_to_a_cleared_session_expires() -> None:
    disk = Disk()
    mortal, _ = disk.sides()
    mortal.add(["a"])
    mortal.clear()
    mortal.add(["b"])
    assert mortal.items(1) == ["b"]
    disk.now += TTL_S
    assert mortal.items(1) == []


def test_what_replaces_the_newest_items_replaces_what_has_expired_above_them() -> None:
    disk = Disk()
    mortal, lasting = disk.sides()
    lasting.add(["a", "b", "c"])
    mortal.add(["x"])
    disk.now += TTL_S
    snapshot = lasting.snapshot(2)
    assert snapshot is not None
    assert lasting.replace(snapshot, 0, ["d"])
    assert mortal.items(None) == ["a", "d"]


def rolled_back(disk: Disk) -> Branches:
    """Two lasting turns, and mortal items behind; another program has taken back a third turn ahead of these."""
    mortal, lasting = disk.sides()
    lasting.add(talk("q1", "q2", "gone"))
    log = lasting._log()
    assert log is not None
    log.close()
    with rollout.Store(HOME, fs=disk.fs, cipher=disk.ciphers[LASTING]).open(log._find()) as other:
        other.rollback(1)
    mortal.add([say("x", "assistant"), say("y", "assistant")])
    return lasting


def test_behind_a_rollback_a_pop_counts_what_has_expired_too() -> None:
    disk = Disk()
    lasting = rolled_back(disk)
    assert texts_of(lasting.items(None)) == ["q1", "q1!", "q2", "q2!", "x", "y"]
    disk.now += TTL_S
    assert texts_of([lasting.pop(), lasting.pop()]) == ["q2!", "q2"]
    assert texts_of(lasting.items(None)) == texts_of(disk.opened(MORTAL).items(3)) == ["q1", "q1!"]


def test_a_branch_leaves_its_source_where_it_is_shown_to_whatever_has_expired_behind() -> None:
    disk = Disk()
    lasting = rolled_back(disk)
    disk.now += TTL_S
    lasting.create("other", before_turn(2))
    assert texts_of(lasting.items(None)) == ["q1", "q1!"]
    assert texts_of(lasting.items(None, "main")) == ["q1", "q1!", "q2", "q2!"]


def test_usage_stays_with_its_turn_and_goes_with_it() -> None:
    disk = Disk()
    mortal, lasting = disk.sides()
    lasting.add([say("q1")])
    mortal.add([say("q2")])
    lasting.record_usage(ran(7).context_wrapper.usage)
    told = {turn: one.usage for turn, one in lasting.read().used.items()}
    assert {turn: usage and usage.total_tokens for turn, usage in told.items()} == {2: 7}
    disk.now += TTL_S
    assert lasting.read().used == {}
    lasting.record_usage(ran(8).context_wrapper.usage)
    told = {turn: one.usage for turn, one in lasting.read().used.items()}
    assert {turn: usage and usage.total_tokens for turn, usage in told.items()} == {1: 8}
    lasting.add([say("a1", "assistant")])
    mortal.add([say("q2"), say("a2", "assistant")])
    disk.now += TTL_S
    assert texts_of([lasting.pop()]) == ["a1"]
    assert lasting.record_usage(ran(9).context_wrapper.usage)
