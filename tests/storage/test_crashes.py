"""Every state that a crash can leave of what the writer does: nothing acknowledged is lost, nothing else is shown."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rollout.errors import NotFound, WriteError
from rollout.files.port import Durability
from rollout.files.recovery import mark_batch
from rollout.files.writer import Writer
from rollout.testing.crashes import Check, Tree, Workload, crash_states, explore
from rollout.testing.disk import Effect, Fault, Op, OpKind, SimulatedDisk
from tests.crashing import Scenario, each, each_sync, once
from tests.storage import ME, holds_record, line, read

HOME = "/home"
DAY = f"{HOME}/sessions/2026/03/20"
PATH = f"{DAY}/a.jsonl"
START: dict[str, bytes | None] = {HOME: None}
MADE = 4
"""Directories that are made for the file, from the home down."""
Ack = Callable[[Any], None]
BATCHES = {frozenset(range(10, 14)), frozenset(range(20, 22))}


def create(disk: SimulatedDisk, durability: Durability = Durability.TURN) -> Writer:
    return Writer.create(disk, PATH, [line(0)], held_by=ME, durability=durability, root=HOME)


def reopen(disk: SimulatedDisk, durability: Durability = Durability.TURN) -> Writer:
    return Writer.open(disk, PATH, held_by=ME, holds_record=holds_record, durability=durability, root=HOME)


def create_and_append_each_on_the_disk(disk: SimulatedDisk, ack: Ack) -> None:
    with create(disk, Durability.RECORD) as log:
        ack([0])
        for n in range(1, 8):
            log.append([line(n)])
            log.acknowledge()
            ack([n])


def append_many_and_commit(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk)
    ack([0])
    for turn in (range(1, 5), range(5, 9)):
        for n in turn:
            log.append([line(n)])
        log.commit()
        ack([*turn])
    log.append([line(9)])


def append_batches(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk)
    ack([0])
    for batch in sorted(sorted(found) for found in BATCHES):
        log.append([line(n) for n in batch], atomic=True)
        log.commit()
        ack(batch)
        log.append([line(batch[-1] + 1)])
        log.commit()
        ack([batch[-1] + 1])


def append_long_lines(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk)
    ack([0])
    for n in range(1, 4):
        log.append([line(n, "x" * 150)])
        log.commit()
        ack([n])


def create_without_a_sync_and_commit_at_last(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk, Durability.NONE)
    log.append([line(1)])
    log.commit()
    ack([0, 1])


def die_and_go_on_in_another_process(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk, Durability.NONE)
    log.append([line(1)])
    disk.kill()
    log = reopen(disk)
    ack([0, 1])
    log.append([line(2)])
    disk.kill()
    log = reopen(disk)
    ack([2])
    log.append([line(3)])
    log.close()
    ack([3])


def mend(disk: SimulatedDisk, ack: Ack) -> None:
    log = reopen(disk)
    log.append([line(30)])
    log.commit()
    ack([30])


def go_on_after_a_failed_sync(disk: SimulatedDisk, ack: Ack) -> None:
    log = create(disk)
    ack([0])
    log.append([line(1)])
    with pytest.raises(WriteError):
        log.commit()
    disk.kill()
    log = reopen(disk)
    log.append([line(2)])
    log.commit()
    ack([2])


def replace_by_rename(disk: SimulatedDisk, ack: Ack) -> None:
    disk.write_new(f"{PATH}.new", b"new one")
    disk.rename(f"{PATH}.new", PATH)
    disk.sync_dir(DAY)
    ack("new")


def check_replaced(state: SimulatedDisk, acked: list[Any]) -> None:
    assert state.tree()[PATH] in ([b"new one"] if acked else [b"old", b"new one"])


BATCH = mark_batch([line(10), line(11), line(12), line(13)])
MANY = line(0) + b"".join(BATCH) + line(14)
TORN = line(0) + b"".join(BATCH[:3]) + b'{"n"'


def check(state: SimulatedDisk, acked: list[Any]) -> None:
    """What was acknowledged is there, in order and once; recovery changes nothing that is read; more can follow."""
    before = state.tree()
    data = before.get(PATH)
    promised = [n for found in acked for n in found]
    if data is None:
        assert not promised
        with pytest.raises(NotFound):
            reopen(state)
        return
    shown = read(data)
    assert shown == sorted(set(shown))
    assert set(promised) <= set(shown)
    assert all(not batch & set(shown) or batch <= set(shown) for batch in BATCHES)
    log = reopen(state)
    after = state.tree()
    left = after[PATH]
    assert left is not None
    assert read(left) == shown
    check_nothing_went_but(before, after, data)
    log.append([line(99)])
    log.close()
    final = state.tree()[PATH]
    assert final is not None
    assert read(final) == [*shown, 99]
    again = reopen(state)
    assert again.recovered is not None
    assert not again.recovered.needed


def check_nothing_went_but(before: Tree, after: Tree, data: bytes) -> None:
    """All bytes but NULs at the end are in the file still, or in one beside; no other file is touched."""
    left = after[PATH]
    assert left is not None
    assert any((left + rest).rstrip(b"\0\n") == data.rstrip(b"\0\n") for rest in [b"", *kept_beside(after)])
    assert all(after[path] == found for path, found in before.items() if path != PATH)


def kept_beside(tree: Tree) -> list[bytes]:
    return [found for path, found in tree.items() if path.startswith(f"{PATH}.torn-") and found is not None]


def check_in_order(state: SimulatedDisk, acked: list[Any]) -> None:
    """As `check`, and what is read has no gap: true as long as the system writes in order.

    A file that was created begins with its whole first line at any time.
    """
    data = state.tree().get(PATH)
    assert data is None or data.startswith(line(0))
    check(state, acked)
    data = state.tree().get(PATH)
    if data is not None:
        shown = read(data)[:-1]
        assert all(b - a == 1 or {a, b} in ({0, 10}, {14, 20}) for a, b in itertools.pairwise(shown))


def check_mended(torn: bytes) -> Check:
    """A check for crashes while `torn` is mended: what was read before is, and what was cut is somewhere."""
    promised = read(torn)
    whole = {bytes(found) for found in torn.split(b"\n")}

    def check_it(state: SimulatedDisk, acked: list[Any]) -> None:
        tree = state.tree()
        data = tree[PATH]
        assert data is not None
        places = [data, *kept_beside(tree)]
        assert all(any(found.rstrip(b"\0") in place for place in places) for found in whole)
        check(state, [promised, *acked])

    return check_it


SOON = "nothing is acknowledged before; where a process dies in between the order counts, which another test asks for"


def scenario_of(workload: Workload, harmless: Mapping[str, str]) -> Scenario:
    known = {**{f"delay sync dir {n}": SOON for n in range(MADE)}, **harmless}
    return Scenario(workload.__name__, workload, check_in_order, START, known, fewest=80)


KNOWN = "the names were synced when the file was reopened first; that it was, nobody can know when it is again"
ABOVE = "who opens the file syncs the folder above its own, too"
MADE_BEFORE = "that folder's name was synced when it was made; nobody can know that it was"
WRITERS = [
    scenario_of(create_and_append_each_on_the_disk, {}),
    scenario_of(append_many_and_commit, {}),
    scenario_of(append_batches, {}),
    scenario_of(append_long_lines, {}),
    scenario_of(create_without_a_sync_and_commit_at_last, {}),
    scenario_of(
        die_and_go_on_in_another_process,
        {
            f"drop sync dir {MADE - 1}": ABOVE,
            **dict.fromkeys((f"drop sync dir {MADE + 1}", f"delay sync dir {MADE + 1}"), MADE_BEFORE),
            **dict.fromkeys((f"drop sync dir {MADE + 2}", f"drop sync dir {MADE + 3}"), KNOWN),
            f"delay sync dir {MADE + 3}": KNOWN,
        },
    ),
]
THERE = "what the file held was on the disk before, and so was its name: this recovery would be made again"
RECOVERY = Scenario(
    "recovery",
    mend,
    check_mended(TORN),
    {PATH: TORN},
    {"drop sync 1": THERE} | {"drop sync dir 1": THERE, "drop sync dir 2": THERE, "delay sync dir 2": THERE},
    fewest=20,
)
RENAME = Scenario("rename", replace_by_rename, check_replaced, {PATH: b"old"})


@each(WRITERS)
def test_no_crash_loses_what_was_acknowledged(scenario: Scenario) -> None:
    assert scenario.explore().states > 80


@pytest.mark.parametrize("workload", [create_and_append_each_on_the_disk, append_batches])
def test_nor_does_one_on_a_disk_that_writes_its_sectors_in_any_order(workload: Workload) -> None:
    assert explore(workload, check, start=START, sector_bytes=8).states > 300


@pytest.mark.parametrize("part", range(8))
def test_no_crash_while_a_cut_file_is_mended_loses_what_was_read(part: int) -> None:
    states = 0
    for cut in range(part, len(MANY) + 1, 8):
        torn = MANY[:cut] + bytes(9 * (cut % 3 == 0))
        states += explore(mend, check_mended(torn), start={PATH: torn}).states
    assert states > 2000  # in all parts and workloads more than 20,000


def test_what_a_failed_sync_may_have_lost_does_not_harm_what_comes_after_reopening() -> None:
    fault = Fault(1, Effect.FAIL, OpKind.SYNC)
    found = explore(go_on_after_a_failed_sync, check, start=START, faults=[fault])
    assert found.states > 80


def test_a_file_that_is_replaced_by_rename_is_the_old_or_the_new_one() -> None:
    assert RENAME.explore().states == 18


class Dies(BaseException):
    """A process."""


class Dying(SimulatedDisk):
    """Its process dies before the operation with that number."""

    dies_at = -1

    def do(self, op: Op) -> int:
        if len(self.attempts) == self.dies_at:
            self.dies_at = -1
            raise Dies
        return super().do(op)


OTHER = f"{DAY}/b.jsonl"


def create_other(disk: SimulatedDisk) -> None:
    Writer.create(disk, OTHER, [line(0)], held_by=ME, root=HOME).close()


def ops_of_creating() -> int:
    disk = SimulatedDisk(START)
    create(disk)
    return len(disk.attempts)


@pytest.mark.parametrize("dies_at", range(ops_of_creating()))
def test_who_dies_while_it_creates_leaves_no_file_with_a_part_of_a_line_and_is_in_nobodys_way(dies_at: int) -> None:
    disk = Dying(START)
    disk.dies_at = dies_at
    with pytest.raises(Dies):
        create(disk)
    disk.kill()
    assert disk.tree().get(PATH, line(0)) == line(0)
    again = SimulatedDisk(disk.tree())
    with pytest.raises(WriteError, match="is there already") if PATH in disk.tree() else contextlib.nullcontext():
        create(again)
    assert not [name for name in again.tree() if name.endswith(".new")]
    assert again.tree()[PATH] == line(0)
    create_other(disk)
    states = list(crash_states(disk))
    assert states
    for tree in states:
        assert tree[OTHER] == line(0), "its folders were not on the disk"
        assert tree.get(PATH, line(0)) == line(0)


def test_a_new_file_costs_two_syncs_of_directories_where_its_folder_is_there() -> None:
    disk = SimulatedDisk(START)
    create(disk).close()
    assert disk.attempts.count(OpKind.SYNC_DIR) == MADE + 1
    disk = SimulatedDisk(disk.tree())
    create_other(disk)
    assert (disk.attempts.count(OpKind.SYNC), disk.attempts.count(OpKind.SYNC_DIR)) == (1, 2)
    disk = SimulatedDisk({path: data for path, data in disk.tree().items() if not path.startswith(DAY)})
    disk.mkdir(f"{DAY[:-2]}19")
    create(disk)  # the first one of a day
    assert disk.attempts.count(OpKind.SYNC_DIR) == 2


@each_sync(RENAME, *WRITERS, RECOVERY)
def test_each_sync_is_needed_or_known_to_be_harmless(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


check_once = once(check)
FAULTS = [
    *((Effect.FAIL, error, 0) for error in (errno.ENOSPC, errno.EIO, errno.EINTR)),
    *((Effect.SHORT, errno.EIO, written) for written in (0, 1, 7, 30)),
]


@each(WRITERS)
@pytest.mark.parametrize(("effect", "error", "written"), FAULTS)
def test_after_a_fault_at_any_operation_reopening_finds_all_that_was_acknowledged(
    scenario: Scenario, effect: Effect, error: int, written: int
) -> None:
    whole = SimulatedDisk(START)
    scenario.work(whole, lambda _: None)
    for nth in range(len(whole.attempts)):
        disk = SimulatedDisk(START, faults=[Fault(nth, effect, error=error, written=written)])
        acked: list[Any] = []
        with contextlib.suppress(WriteError):
            scenario.work(disk, acked.append)
        disk.kill()
        for state in (disk.tree(), *crash_states(disk, limit=50)):
            check_once(SimulatedDisk(state), acked)


def test_the_same_seed_gives_the_same_states() -> None:
    disk = SimulatedDisk(START)
    append_long_lines(disk, lambda _: None)
    states = [list(crash_states(disk, 12, limit=20, seed=seed)) for seed in (1, 1)]
    assert states[0] == states[1]
    assert len(states[0]) == len({frozenset(found.items()) for found in states[0]})
