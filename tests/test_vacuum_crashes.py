"""A crash or a fault at any point of a vacuum: each file is the old or the new one, and says what it said."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from rollout.storage.origin import Origin
from rollout.testing.disk import Effect, Fault, SimulatedDisk
from rollout.upkeeping.rewriting import fingerprint
from rollout.upkeeping.vacuum import VacuumStep, Wishes, vacuum
from tests.builders import THREAD, dump, log
from tests.crashing import Scenario, each_effect, each_sync

CHILD = "019d0000-0000-7000-8000-000000000002"
SOURCE, FORK = (f"/h/rollout-2026-03-20T10-00-00-{thread}.jsonl" for thread in (THREAD, CHILD))
HOME = Path("/nowhere")  # on the real disk: bases are found beside the file


def meta(thread: str, **keys: str) -> bytes:
    return dump({"timestamp": "t", "type": "session_meta", "payload": {"id": thread, **keys}})


ITEM, COUNT = (
    b'{"timestamp":"t","type":"response_item","payload":{"type":"reasoning","summary":[]}}',
    b'{"timestamp":"t","type":"event_msg","payload":{"type":"token_count"}}',
)
SOURCE_TEXT = log(meta(THREAD), ITEM)
FORK_TEXT = log(meta(CHILD, forked_from_id=THREAD)) + SOURCE_TEXT + log(COUNT, COUNT)
START: dict[str, bytes | None] = {"/h": None, FORK: FORK_TEXT}


def clean(disk: SimulatedDisk) -> tuple[VacuumStep, ...]:
    wishes = Wishes(apply=True, legacy_forks=True)
    paths = [Path(name) for name in (SOURCE, FORK) if name in disk.tree()]
    return vacuum(paths, HOME, disk, wishes).steps


def work(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    """Somebody has written the source and put nothing on the disk: not even its name."""
    file = disk.open_append(SOURCE, create=True)
    file.append(SOURCE_TEXT)
    file.close()
    steps = clean(disk)
    if [step for step in steps if not step.done]:
        raise OSError(5, "a step was not done")
    ack(len(steps))


@functools.cache
def told(fork: bytes, source: bytes | None) -> dict[str, object]:
    """What the fork says, beside so much of its source."""
    disk = SimulatedDisk({FORK: fork} if source is None else {FORK: fork, SOURCE: source})
    found = fingerprint(Origin(None, Path(FORK), HOME, fs=disk), lambda turn: turn.id)
    return {key: value for key, value in found.items() if key != "session"}


BEFORE = told(FORK_TEXT, None)
finished: set[tuple[object, ...]] = set()


def check(disk: SimulatedDisk, acked: list[Any]) -> None:
    """The fork says what it said, however little of its source is there; the next vacuum finishes the work."""
    tree = disk.tree()
    fork = tree[FORK]
    assert fork is not None
    assert told(fork, tree.get(SOURCE)) == BEFORE
    if acked:
        assert b"history_base" in fork
        assert fork.endswith(log(COUNT))
        assert not fork.endswith(log(COUNT, COUNT))
    if tree.get(SOURCE) == SOURCE_TEXT:
        finish(disk, fork)


def finish(disk: SimulatedDisk, fork: bytes) -> None:
    """Once for each state that could go on in another way: what a half-made file holds makes no difference but this."""
    beside = {name: data for name, data in disk.tree().items() if name.startswith("/h/.")}
    key = (fork, *((name, data in {b"", FORK_TEXT, None}) for name, data in sorted(beside.items())))
    if key in finished:
        return
    assert all(step.done for step in clean(disk))
    assert clean(disk) == ()
    tree = disk.tree()
    assert sorted(name for name in tree if tree[name] is not None) == [SOURCE, FORK]
    now = tree[FORK]
    assert now is not None
    assert b"history_base" in now
    assert now.count(COUNT) == 1
    assert told(now, SOURCE_TEXT) == BEFORE
    finished.add(key)


HARMLESS = {
    "delay sync dir 0": "the name of the source: made durable an operation later, before the new fork is even written",
    "delay sync dir 1": "the first exchange: nothing is told of it before the operation that comes next",
}


VACUUM = Scenario("vacuum", work, check, START, HARMLESS, limit=40, mutant_limit=10, fewest=100)


def test_after_a_crash_anywhere_the_fork_is_the_old_or_the_new_one_and_its_source_is_there() -> None:
    assert VACUUM.explore().states > 200


@each_sync(VACUUM)
def test_each_sync_of_a_vacuum_is_needed_or_known_to_be_harmless(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


@each_effect
def test_after_a_fault_at_any_operation_the_file_is_whole_and_the_next_vacuum_goes_through(effect: Effect) -> None:
    def clean_all(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        assert all(step.done for step in clean(disk))

    for disk in Scenario("both on the disk", clean_all, check, {**START, SOURCE: SOURCE_TEXT}).failing(effect):
        assert not all(step.done for step in clean(disk))
        assert not [name for name in disk.tree() if "/." in name]
        check(SimulatedDisk(disk.tree()), [])


TWIN = SOURCE + ".zst"


def test_a_sealed_twin_goes_only_when_the_plain_file_is_on_the_disk() -> None:
    def drop(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        file = disk.open_append(SOURCE, create=True)
        file.append(SOURCE_TEXT)
        file.close()
        (step,) = vacuum([Path(SOURCE)], HOME, disk, Wishes(apply=True)).steps
        assert step.done
        ack(step.action)

    def is_there(disk: SimulatedDisk, acked: list[Any]) -> None:
        tree = disk.tree()
        assert tree.get(TWIN) == packed or tree.get(SOURCE) == SOURCE_TEXT
        assert not acked or TWIN not in tree

    packed = zstandard.compress(SOURCE_TEXT)
    scenario = Scenario("twin", drop, is_there, {"/h": None, TWIN: packed})
    assert scenario.explore().states > 50
    scenario.check_syncs()
