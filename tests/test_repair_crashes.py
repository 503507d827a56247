"""A crash or a fault at any point of a repair: the file is the old or the new one, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout.errors import WriteError
from rollout.home.maintenance.repair import apply_repair, plan_repair
from rollout.testing.crashes import Tree
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk
from tests.builders import THREAD, log
from tests.crashing import ALL_MUTANTS, Scenario, each_effect, each_sync, name_fault

NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"
ONE, TWO = b'{"type":"other"}', b'{"type":"reasoning"}'  # short, as a crash is tried at each byte
TORN = b'{"torn'
PATH = f"/{NAME}"
VISIBLE = log(ONE, b"%" * 9, b"", TWO + b"\0" + ONE)
DAMAGED = VISIBLE + TORN
MENDED = log(ONE, TWO, ONE)
START: dict[str, bytes | None] = {PATH: DAMAGED}
HARMLESS = {
    "drop sync 1": "the mended end: if it is lost, the torn bytes are there twice and are cut again",
    "delay sync 1": "the same",
    "delay sync 2": "the new file: synced an operation later, still long before it is renamed",
}


def repair(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    apply_repair(plan_repair(Path(PATH), fs=disk), fs=disk)
    ack("mended")


def check(disk: SimulatedDisk, acked: list[Any]) -> None:
    """The file is the old or the new one, and what was taken out of it is there; the next repair goes through."""
    tree = disk.tree()
    now = tree[PATH]
    assert now is not None
    assert now == MENDED or (not acked and now.rstrip(b"\0") in {DAMAGED, VISIBLE})
    if now == MENDED:
        assert_kept(tree)
    elif now != DAMAGED:
        assert_torn_bytes_are_kept(tree)
    apply_repair(plan_repair(Path(PATH), fs=disk), fs=disk)
    again = disk.tree()
    assert again[PATH] == MENDED
    assert_kept(again)


def assert_torn_bytes_are_kept(tree: Tree) -> None:
    assert TORN in {data for name, data in tree.items() if name.startswith(PATH + ".torn-")}


def assert_kept(tree: Tree) -> None:
    """The torn bytes, the backup, its damaged pieces under the same number, and nothing half made beside them."""
    assert_torn_bytes_are_kept(tree)
    numbers = [name.rpartition("-")[2] for name in tree if name.startswith(PATH + ".backup-")]
    newest = max(numbers, key=int)
    assert tree[f"{PATH}.backup-{newest}"] == VISIBLE
    assert tree[f"{PATH}.damaged-{newest}"] == b'{"offset":%d,"base64":"JSUlJSUlJSUl"}\n' % len(log(ONE))
    for what, whole in (("backup", VISIBLE), ("damaged", tree[f"{PATH}.damaged-{newest}"])):
        assert {data for name, data in tree.items() if name.startswith(f"{PATH}.{what}-")} == {whole}
    assert not [name for name in tree if name.startswith("/.")]


REPAIR = Scenario("repair", repair, check, START, HARMLESS, limit=300, mutant_limit=30, fewest=100)


def test_after_a_crash_anywhere_the_file_is_the_old_or_the_new_one_with_its_backup() -> None:
    assert REPAIR.explore().states > 1000


def is_tried(fault: Fault) -> bool:
    return ALL_MUTANTS or (fault.effect is Effect.DROP and name_fault(fault) not in HARMLESS)


@each_sync(REPAIR, tried=is_tried)
def test_each_sync_of_a_repair_is_needed_or_known_to_be_harmless(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


@each_effect
def test_after_a_fault_at_any_operation_nothing_is_lost_and_the_next_repair_goes_through(effect: Effect) -> None:
    for disk in REPAIR.failing(effect):
        with pytest.raises(WriteError):
            repair(disk, lambda _: None)
        assert not [name for name in disk.tree() if name.startswith("/.")]
        disk.kill()
        check(SimulatedDisk(disk.tree()), [])


def test_a_failure_behind_the_rename_says_that_the_file_is_the_new_one() -> None:
    whole = SimulatedDisk(START)
    repair(whole, lambda _: None)
    last = [kind for kind in whole.attempts if kind is OpKind.SYNC_DIR]
    disk = SimulatedDisk(START, faults=[Fault(len(last) - 1, Effect.FAIL, OpKind.SYNC_DIR)])
    with pytest.raises(WriteError, match="is the new file, but its directory could not be put on the disk"):
        repair(disk, lambda _: None)
    assert disk.tree()[PATH] == MENDED
