"""Every state that a crash can leave of what is done to logs and to a home: nothing acknowledged is lost or invented.

A workload runs once, with a witness of each log. In every state each log is looked for, and its whole lines counted.
That it is read and opened, and can be gone on with, is checked in a part of the states, spread evenly; in all of them
with ROLLOUT_CRASH (`just crash`). ROLLOUT_MUTANTS (`just mutants`) takes the syncs out of all workloads, not of some.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.files.port import Durability
from rollout.home.maintenance.repair import apply_repair, plan_repair
from rollout.store import Store
from rollout.testing.crashes import Explored, crash_states, explore, mutants
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk
from tests import builders as b
from tests.crashing import ALL_MUTANTS, Scenario, check_sync, each_sync, name_fault
from tests.live_model import Seen, see
from tests.witness import HOME, START, Trial, assistant, message

CHECKS_ALL = "ROLLOUT_CRASH" in os.environ
PART = 1 if CHECKS_ALL else 30
"""One state in so many is checked to the end."""
CONTEXT = {"model": "m"}
CALLS = [
    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": "o"},
]
Story = Callable[[Trial], None]


def append(trial: Trial) -> None:
    log = trial.create(Durability.RECORD)
    log.begin(CONTEXT)
    log.append(CALLS[0])
    log.append(assistant("a"))
    log.event("something_new", message="n")
    log.end()


def turn(trial: Trial) -> None:
    log = trial.create()
    log.begin(CONTEXT)
    log.user("q")
    log.append(assistant("a", "plan"))
    log.end()
    log.begin(CONTEXT)
    log.user("r")
    log.fail(ValueError())


def batch(trial: Trial) -> None:
    log = trial.create()
    log.begin()
    log.append_all([message("user", "q"), *CALLS, assistant("a")])
    log.commit()
    log.append_all(CALLS)
    log.end()


def create(trial: Trial) -> None:
    trial.create()
    log = trial.create(Durability.NONE)
    log.begin()
    log.commit()
    trial.create()


def fork_by_reference(trial: Trial) -> None:
    log = trial.create()
    log.begin(CONTEXT)
    log.user("q")
    child = log.fork()
    child.commit()
    child.record(assistant("a"))
    grandchild = child.fork()
    log.end()
    grandchild.begin()
    grandchild.user("r")
    grandchild.end()


def fork_as_a_copy(trial: Trial) -> None:
    log = trial.create()
    log.begin(CONTEXT)
    log.append_all([message("user", "q"), assistant("a")])
    child = log.fork(copy=True)
    child.begin()
    child.user("r")
    child.end()


def rollback(trial: Trial) -> None:
    log = trial.create()
    for text in "qr":
        log.begin(CONTEXT)
        log.user(text)
        log.end()
    log.rollback(1)
    log.rollback(1)


def compaction(trial: Trial) -> None:
    log = trial.create()
    log.begin(CONTEXT)
    log.user("q")
    log.compact_in_turn([message("user", "s")], CONTEXT)
    log.end()
    log.compact([message("user", "t")])
    log.rollback(1)


def die_in_a_turn_and_go_on(trial: Trial) -> None:
    log = trial.create()
    log.begin(CONTEXT)
    log.user("q")
    trial.kill()
    log.reopen()
    log.begin()
    log.user("r")
    log.close()


STORIES: list[Story] = [
    *(append, turn, batch, create, fork_by_reference, fork_as_a_copy, rollback, compaction),
    die_in_a_turn_and_go_on,
]


def run(story: Story, faults: Sequence[Fault] = (), part: int = PART) -> tuple[Explored, int]:
    """What was explored, and how many of the states were checked. CrashFailure."""
    trials: list[Trial] = []
    checked = 0

    def workload(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        trials.append(Trial(disk, ack))
        story(trials[0])

    def check(state: SimulatedDisk, acked: list[tuple[int, int]]) -> None:
        nonlocal checked
        left = trials[0].after(state, dict(acked))
        if is_chosen(state, part):
            checked += 1
            check_trial(left)

    newest_first = bool(faults)  # without a sync the end is where something is lost
    return explore(workload, check, start=START, faults=faults, limit=300, newest_first=newest_first), checked


def is_chosen(state: SimulatedDisk, part: int) -> bool:
    return zlib.crc32(repr(state.tree()).encode()) % part == 0


def check_trial(trial: Trial) -> None:
    """Each log is read as what was written, opens, and can be gone on with."""
    for witness in trial.witnesses:
        witness.check()
    for witness in trial.witnesses:
        witness.reopen()
        assert witness.live.open_turn is None
        witness.begin(CONTEXT)
        witness.user("more")
        witness.close()
    for witness in trial.witnesses:
        witness.check()


@pytest.mark.parametrize("story", STORIES)
def test_no_crash_loses_or_invents_anything_of_a_log(story: Story) -> None:
    explored, checked = run(story)
    assert explored.states > 500
    assert checked * (PART + 3) > explored.states  # chosen by a checksum, so about one in so many


DAY = f"{HOME}/sessions/2026/03/20"
PATH = f"{DAY}/rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
WHOLE = [b.session_meta(), b.started("t"), b.context("t"), b.user("q"), b.assistant("a"), b.completed("t")]
DAMAGED = b.log(*WHOLE[:4], b'{"timestamp":"2026', WHOLE[4][:30] + WHOLE[4], WHOLE[5]) + b'{"tor'


def repair(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    plan = plan_repair(Path(PATH), home=HOME, fs=disk)
    apply_repair(plan, fs=disk)
    ack("repaired")


def seen_in(disk: SimulatedDisk) -> Seen:
    return see(rollout.Store(HOME, fs=disk).open(Path(PATH), "read").resume_state())


def check_repaired(state: SimulatedDisk, acked: list[Any]) -> None:
    """The file says the same at any time, every byte of it is in it or beside it, and it can be gone on with."""
    tree = state.tree()
    mended = tree[PATH] == b.log(*WHOLE)
    assert mended or not acked
    places = [found for found in tree.values() if found is not None]
    assert any(found.startswith(DAMAGED[:-5]) for found in places)
    assert any(found.endswith(DAMAGED[-5:]) for found in places)
    if mended:
        moved = b'{"offset":%d,"base64":"' % DAMAGED.index(b'{"timestamp":"2026\n')
        assert tree[f"{PATH}.backup-1"] == DAMAGED[:-5]
        assert (tree[f"{PATH}.damaged-1"] or b"").startswith(moved)
    if not is_chosen(state, PART * 4):
        return
    before = seen_in(state)
    assert before == seen_in(SimulatedDisk({PATH: DAMAGED}))
    repair(state, lambda _: None)
    assert state.tree()[PATH] == b.log(*WHOLE)
    with rollout.Store(HOME, fs=state).open(Path(PATH)) as log, log.turn() as going_on:
        going_on.user("more")
    assert [*before["history"], b.user_item("more")] == seen_in(state)["history"]


REPLACED = "the mended file takes the place of this one, or the repair is made again"
LATER = "it comes before the rename that shows the file still"
REPAIR = Scenario(
    "repair",
    repair,
    check_repaired,
    {PATH: DAMAGED},
    {"drop sync 1": REPLACED, "delay sync 1": REPLACED, **{f"delay sync {nth}": LATER for nth in (2, 3, 4)}},
    limit=20,
)


def test_no_crash_in_a_repair_changes_what_a_file_says() -> None:
    assert REPAIR.explore().states > 5000


@each_sync(REPAIR, tried=lambda fault: fault.nth == 0 or ALL_MUTANTS)
def test_each_sync_of_a_repair_is_needed(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


MADE = 4
"""Directories that the first log makes, each on the disk before the next one; then that of the log is synced."""
MUTATED = STORIES if ALL_MUTANTS else [append, batch]


def faults_of(story: Story) -> list[Fault]:
    return mutants(lambda disk, ack: story(Trial(disk, ack)), start=START)


def why_harmless(story: Story, fault: Fault) -> str | None:
    """Why nothing can be lost without this sync; None where something is."""
    if fault.kind is OpKind.SYNC_DIR and fault.nth < MADE and fault.effect is Effect.DELAY:
        return (
            "nothing is acknowledged before; where a process dies in between the order counts: see the writer's tests"
        )
    if fault.kind is OpKind.SYNC_DIR and fault.nth > MADE and (fault.nth - MADE) % 2 == 0:
        return "the folder above the day came on the disk with the first log"
    return HARMLESS.get((story, name_fault(fault)))


CLOSED = "before the log is open, the end of the turn that was left open is synced too"
NAMED = "the name came on the disk when the log was made"
COPIED = "a copy needs nothing of its source"
MADE_WHOLE = "a new log is synced before it has its name, and no line is new since"
UNNAMED = "the fork has a hidden name then, and no line that refers to its source"
HARMLESS: dict[tuple[Story, str], str] = {
    (die_in_a_turn_and_go_on, "drop sync 1"): CLOSED,
    (die_in_a_turn_and_go_on, f"drop sync dir {MADE + 1}"): NAMED,
    (fork_as_a_copy, "drop sync 1"): COPIED,
    (fork_as_a_copy, "delay sync 1"): COPIED,
    (fork_by_reference, "delay sync 1"): UNNAMED,
    (fork_by_reference, "drop sync 3"): MADE_WHOLE,
    (fork_by_reference, "delay sync 4"): UNNAMED,
}


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        pytest.param(story, fault, id=f"{story.__name__}-{name_fault(fault)}")
        for story in MUTATED
        for fault in faults_of(story)
    ],
)
def test_each_sync_of_a_log_is_needed(story: Story, fault: Fault) -> None:
    check_sync(lambda: run(story, [fault], PART * 4)[0], why_harmless(story, fault), fewest=500)


@pytest.mark.parametrize("dies", [False, True])
def test_a_fork_that_a_reader_takes_is_never_on_the_disk_before_what_it_refers_to(dies: bool) -> None:
    trial = Trial(SimulatedDisk(START))
    source = trial.create()
    source.begin({"model": "m"})
    source.user("q")  # in an open turn: nobody has asked for it to be on the disk
    if dies:
        trial.kill()
    child = trial.new_store().open(source.path, "read").fork()
    child.turn({"model": "m"}).__enter__()
    child.commit()
    trees = list(crash_states(trial.disk))
    assert trees
    for tree in trees:
        state = Store(HOME, fs=SimulatedDisk(tree)).open(child.path, "read").resume_state()
        assert message("user", "q") in list(state.history)
