"""The harness finds what it is there to find: what is recorded and read wrongly, and what a crash loses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.stateful import run_state_machine_as_test

import rollout
from rollout import Durability
from rollout.errors import RolloutError
from rollout.testing import (
    Compact,
    Conversation,
    CrashFailure,
    Effect,
    Fault,
    Item,
    OpKind,
    RollBack,
    SimulatedDisk,
    TakeTurn,
    crash_states,
    explore,
    mutants,
    new_store,
    record,
    said,
    strategies,
)
from rollout.testing.machine import RecorderMachine
from rollout.testing.sessions import HOME
from rollout.testing.strategies import file_of
from tests.builders import assistant_item, user_item

FIRST_FOUND = settings(
    max_examples=400, stateful_step_count=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
Q1, Q2 = TakeTurn((user_item("q1"), assistant_item("a1"))), TakeTurn((user_item("q2"),))

# The state machine

TestThisLibrary = RecorderMachine.TestCase
TestThisLibrary.settings = settings(max_examples=15, stateful_step_count=25)


class NeverWaits(RecorderMachine):
    """Acknowledges what the disk does not have yet."""

    def start(self, disk: SimulatedDisk) -> None:
        super().start(disk)
        self.log.close()
        self.log = new_store(disk, self.ticks).open(self.log.path, durability=Durability.NONE)


class ForgetsARollback(RecorderMachine):
    """Takes back one turn less than it was asked to, if that is more than one."""

    def roll_back(self, num_turns: int) -> None:
        super().roll_back(max(1, num_turns - 1))


class RecordsItemsInTwoTurns(RecorderMachine):
    """Ends the turn behind the person's message."""

    def take_turn(self, items: Sequence[Item]) -> None:
        super().take_turn(items[:1])
        super().take_turn([user_item("and?"), *items[1:]])


class ReadsTheNewestItemsOnly(RecorderMachine):
    """Loses what is old."""

    def history(self) -> Iterable[Item]:
        return list(super().history())[-3:]


class BeginsAnewAfterARestart(RecorderMachine):
    """Does not look for what it has recorded before."""

    def start(self, disk: SimulatedDisk) -> None:
        self.log = new_store(disk, self.ticks).create(cwd="/", model_provider="m")


@pytest.mark.parametrize(
    "machine",
    [NeverWaits, ForgetsARollback, RecordsItemsInTwoTurns, ReadsTheNewestItemsOnly, BeginsAnewAfterARestart],
)
def test_a_recorder_that_loses_something_fails_the_machine(machine: type[RecorderMachine]) -> None:
    with pytest.raises(AssertionError, match="the program reads"):
        run_state_machine_as_test(machine, settings=FIRST_FOUND)


# Sessions


def test_a_conversation_is_what_turns_rollbacks_and_compactions_leave_of_it() -> None:
    kept = (user_item("s"),)
    cases: list[tuple[Sequence[rollout.testing.Step], tuple[Item, ...]]] = [
        ([Q1, Q2], (*Q1.items, *Q2.items)),
        ([Q1, Q2, RollBack(1)], Q1.items),
        ([Q1, Q2, RollBack(2)], ()),
        ([Q1, Q2, RollBack(7)], ()),
        ([Q1, Compact(kept), Q2], (*kept, *Q2.items)),
        ([Q1, Compact(kept), Q2, RollBack(1)], kept),
        ([Q1, Compact(kept), Q2, RollBack(2)], ()),
    ]
    for steps, history in cases:
        assert Conversation().after(*steps).history == history


@given(strategies.sessions())
def test_what_is_recorded_of_a_session_reads_as_its_conversation(steps: list[rollout.testing.Step]) -> None:
    state = rollout.reconstruct(file_of(steps))
    assert said(state.history) == Conversation().after(*steps).history
    assert state.damage == ()


@given(strategies.sessions())
def test_the_file_of_a_session_is_the_same_each_time(steps: list[rollout.testing.Step]) -> None:
    assert file_of(steps) == file_of(steps)


@given(strategies.turns())
def test_a_turn_begins_with_a_person_and_its_outputs_come_behind_their_calls(turn: TakeTurn) -> None:
    assert turn.items[0]["role"] == "user"
    called = [item["call_id"] for item in turn.items if "call_id" in item]
    assert called[::2] == called[1::2]


@given(strategies.damaged())
def test_a_damaged_rollout_reads_without_an_exception_that_is_not_ours(data: bytes) -> None:
    try:
        rollout.verify(data)
    except RolloutError:
        return


# The disk and its crashes


def replace(disk: SimulatedDisk, ack: Callable[[object], None]) -> None:
    """A file is replaced as it should be."""
    disk.write_new("/d/new", b"two")
    disk.rename("/d/new", "/d/file")
    disk.sync_dir("/d")
    ack("two")


def check_replaced(disk: SimulatedDisk, acked: list[object]) -> None:
    assert disk.tree()["/d/file"] in ([b"two"] if acked else [b"one", b"two"])


START = {"/d": None, "/d/file": b"one"}


def test_exploring_passes_what_is_right_and_says_what_a_crash_loses_of_what_is_not() -> None:
    explored = explore(replace, check_replaced, start=START)
    assert explored.ops == 5
    assert explored.states > explored.ops

    def in_place(disk: SimulatedDisk, ack: Callable[[object], None]) -> None:
        file = disk.open_append("/d/file")
        file.truncate(0)
        file.append(b"two")
        file.sync()
        ack("two")

    with pytest.raises(CrashFailure) as failure:
        explore(in_place, check_replaced, start=START)
    assert failure.value.tree["/d/file"] == b""
    assert failure.value.at == 1


def test_without_any_one_of_its_syncs_a_replacement_loses_something() -> None:
    found = mutants(replace, start=START)
    assert {(fault.effect, fault.kind) for fault in found} >= {
        (Effect.DROP, OpKind.SYNC),
        (Effect.DELAY, OpKind.SYNC),
        (Effect.DROP, OpKind.SYNC_DIR),
    }
    for fault in found:
        with pytest.raises(CrashFailure):
            explore(replace, check_replaced, start=START, faults=[fault])


def test_a_store_on_a_simulated_disk_survives_each_of_its_crashes_and_meets_its_faults() -> None:
    disk = SimulatedDisk({HOME: None})
    with new_store(disk).create(cwd="/", model_provider="m") as log:
        record(log, Q1)
    for tree in crash_states(disk):
        with new_store(SimulatedDisk(tree)).open(Path(log.path)) as again:
            assert said(again.resume_state().history) == Q1.items
    full = SimulatedDisk(disk.tree(), faults=[Fault(0, Effect.FAIL, OpKind.WRITE)])
    with new_store(full).open(Path(log.path)) as again, pytest.raises(RolloutError):
        record(again, Q2)


@pytest.mark.parametrize("module", ["strategies", "machine"])
def test_without_hypothesis_what_needs_it_says_how_to_get_it_and_the_rest_works(module: str) -> None:
    program = f"""
import sys
sys.modules["hypothesis"] = None
import rollout.testing
try:
    import rollout.testing.{module}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "needs Hypothesis; run pip install 'rollout[testing]'"
