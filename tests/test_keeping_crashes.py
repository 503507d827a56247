"""A crash or a fault at any point of what is done to whole threads: nothing is lost, the next operation mends it.

Of the states in which a copy is half written a part is checked; all of them with ROLLOUT_CRASH (`just crash`).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollout.dialects.codex.names import THREAD_NAMES_FILE
from rollout.errors import WriteError
from rollout.files import layout as homes
from rollout.files.source import Origin
from rollout.files.thread_names import read_names
from rollout.home.lifecycle import Keeper
from rollout.store import Store
from rollout.testing.disk import Effect, Fault, SimulatedDisk
from tests.crashing import Scenario, each, each_effect, each_sync

SHARE = 1 if "ROLLOUT_CRASH" in os.environ else 6
"""One state in so many is checked."""
HOME = Path("/h")
WHEN = "2026-03-20T10:00:02.000Z"
THREAD, FORK, OTHER = (f"019d0000-0000-7000-8000-00000000000{n}" for n in range(1, 4))
PART = "019e0000-0000-7000-8000-000000000009"
DAY, NEXT_DAY, ARCHIVE = HOME / "sessions/2026/03/20", HOME / "sessions/2026/03/21", HOME / "archived_sessions"
OLD_NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"
NEW_NAME = f"rollout-2026-03-21T10-00-00-{THREAD}_{PART}.jsonl"
OLD, NEW = DAY / OLD_NAME, NEXT_DAY / NEW_NAME
FORK_PATH = DAY / f"rollout-2026-03-20T11-00-00-{FORK}.jsonl"
OTHER_PATH = DAY / f"rollout-2026-03-20T12-00-00-{OTHER}.jsonl"
Tree = dict[str, bytes | None]


def line(kind: str, **payload: object) -> bytes:
    return json.dumps({"type": kind, "payload": payload}, separators=(",", ":")).encode() + b"\n"


def base(text: bytes) -> dict[str, object]:
    return {"thread_id": THREAD, "end_byte_offset": len(text)}


OLD_TEXT = line("session_meta", id=THREAD) + line("a")
TEXTS = {
    OLD: OLD_TEXT,
    NEW: line("session_meta", id=THREAD, history_base=base(OLD_TEXT)) + line("b"),
    FORK_PATH: line("session_meta", id=FORK, history_base=base(OLD_TEXT)) + line("c"),
    OTHER_PATH: line("session_meta", id=OTHER) + line("d"),
}
INDEX = json.dumps({"id": OTHER, "thread_name": "other"}).encode()  # its line end is torn off
SAYS = {OLD: "a", NEW: "ab", FORK_PATH: "ac", OTHER_PATH: "d"}


def start(*paths: Path, archived: bool = False) -> Tree:
    found: Tree = {str(HOME): None, str(HOME / THREAD_NAMES_FILE): INDEX}
    found |= {str(path): TEXTS[path] for path in (OTHER_PATH, *paths)}
    for path in (OLD, NEW) if archived else ():
        found[str(ARCHIVE / path.name)] = found.pop(str(path))
    return found


def keeper(disk: SimulatedDisk) -> Keeper:
    return Keeper(HOME, disk, lambda: WHEN)


def says(disk: SimulatedDisk, path: Path) -> str:
    """The kinds of the lines of a file and its bases, oldest first, but for session_metas."""
    with Origin(None, path, HOME, fs=disk).opened() as lineage:
        segments = list(lineage)[::-1]
        assert not lineage.missing
        lines = b"".join(segment.source.read_at(0, segment.end) for segment in segments).splitlines()
    return "".join(kind for kind in (json.loads(line)["type"] for line in lines) if kind != "session_meta")


def seen(disk: SimulatedDisk, thread: str) -> dict[str, homes.RolloutFile]:
    """The files of a thread that readers find, by name."""
    entries = homes.find_thread(HOME, thread, fs=disk)
    found = {entry.path.name: entry for entry in entries}
    assert len(found) == len(entries)
    return found


def hidden(disk: SimulatedDisk) -> list[str]:
    return [path for path in disk.tree() if path.rpartition("/")[2].startswith(".")]


# The operations, each with what has to be true after a crash


def operation(
    name: str,
    start: Tree,
    do: Callable[[Keeper], object],
    check: Callable[[SimulatedDisk, bool], None],
    harmless: dict[str, str],
) -> Scenario:
    def work(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        do(keeper(disk))
        ack("done")

    def check_crashed(disk: SimulatedDisk, acked: list[Any]) -> None:
        tree = disk.tree()
        if any(path.endswith(".new") for path in tree) and zlib.crc32(repr(sorted(tree.items())).encode()) % SHARE:
            return
        check(disk, bool(acked))
        assert says(disk, OTHER_PATH) == "d"
        assert (read_names(HOME, disk).get(OTHER) == "other") == (str(HOME / THREAD_NAMES_FILE) in start)
        assert hidden(disk) == []

    return Scenario(name, work, check_crashed, start, harmless, limit=200, mutant_limit=60)


def check_moved(disk: SimulatedDisk, acked: bool, *, back: bool) -> None:
    """Each file is in one of both places, and the thread goes on in its newest file, or is archived."""
    found = seen(disk, THREAD)
    assert set(found) == {OLD_NAME, NEW_NAME}
    if found[NEW_NAME].archived:
        assert found[OLD_NAME].archived
    if acked:
        assert {entry.archived for entry in found.values()} == {not back}
    for name, entry in found.items():
        assert says(disk, entry.path) == SAYS[OLD if name == OLD_NAME else NEW]
    assert says(disk, FORK_PATH) == "ac"
    again = keeper(disk)
    target = again.unarchive(found[NEW_NAME].path) if back else again.archive(found[NEW_NAME].path)
    assert target == (NEW if back else ARCHIVE / NEW_NAME)
    assert {entry.archived for entry in seen(disk, THREAD).values()} == {not back}


def check_deleted(disk: SimulatedDisk, acked: bool, files: Sequence[Path]) -> None:
    """The next operation finds all of the thread, or nothing."""
    before = seen(disk, THREAD)
    if len(before) < len(files) and not acked:
        asides = {Path(name).name[1:].removesuffix(".deleted") for name in hidden(disk)}
        assert not before or asides | set(before) >= {path.name for path in files}
    keeper(disk).tidy()
    found = seen(disk, THREAD)
    assert set(found) in ([set()] if acked or not before else [{path.name for path in files}])
    for path in files if found else ():
        assert says(disk, path) == SAYS[path]
    if found:
        keeper(disk).delete(files[0], detach_forks=True)
        assert not seen(disk, THREAD)


def check_detached(disk: SimulatedDisk, acked: bool) -> None:
    assert says(disk, FORK_PATH) == "ac"
    stands_alone = b"history_base" not in (disk.tree()[str(FORK_PATH)] or b"")
    assert stands_alone or not acked
    keeper(disk).detach(FORK_PATH)
    assert says(disk, FORK_PATH) == "ac"
    assert b"history_base" not in (disk.tree()[str(FORK_PATH)] or b"")


def check_deleted_with_forks(disk: SimulatedDisk, acked: bool) -> None:
    assert says(disk, FORK_PATH) == "ac"
    check_deleted(disk, acked, [OLD])
    assert says(disk, FORK_PATH) == "ac"


def check_renamed(disk: SimulatedDisk, acked: bool) -> None:
    assert read_names(HOME, disk).get(THREAD) in (["new"] if acked else [None, "new"])
    keeper(disk).rename(OLD, "newer")
    assert read_names(HOME, disk)[THREAD] == "newer"


THERE_BEFORE = "the directory was there; only a process that died right after making it would need the sync"
SYNCED_TWICE = "one day is made in the month, the other was there: both ask for it to be synced"
EMPTY = "the directory is new and empty; it is synced again behind each rename"
OLD_PLACE = "a rename is one change, which is on the disk with the new name"
HIDDEN = "what is aside is out of sight on the disk, and the next operation removes it"
OPERATIONS = [
    operation(
        "archive",
        start(OLD, NEW, FORK_PATH),
        lambda keeper: keeper.archive(NEW),
        lambda disk, acked: check_moved(disk, acked, back=False),
        {
            **dict.fromkeys(("drop sync dir 1", "delay sync dir 1"), EMPTY),
            **dict.fromkeys(("drop sync dir 4", "drop sync dir 5"), OLD_PLACE),
        },
    ),
    operation(
        "unarchive",
        start(OLD, NEW, FORK_PATH, archived=True),
        lambda keeper: keeper.unarchive(ARCHIVE / NEW_NAME),
        lambda disk, acked: check_moved(disk, acked, back=True),
        {
            "drop sync dir 0": SYNCED_TWICE,
            "drop sync dir 1": THERE_BEFORE,
            "drop sync dir 2": SYNCED_TWICE,
            "drop sync dir 3": EMPTY,
            "delay sync dir 3": EMPTY,
            "drop sync dir 6": OLD_PLACE,
        },
    ),
    operation(
        "delete",
        start(OLD),
        lambda keeper: keeper.delete(OLD, detach_forks=False),
        lambda disk, acked: check_deleted(disk, acked, [OLD]),
        {},
    ),
    operation(
        "delete several",
        start(OLD, NEW),
        lambda keeper: keeper.delete(NEW, detach_forks=False),
        lambda disk, acked: check_deleted(disk, acked, [OLD, NEW]),
        {
            "delay sync dir 1": "a removal does nothing on a disk that does not have the hidden name yet",
            **{f"drop sync dir {n}": HIDDEN for n in (2, 3)},
        },
    ),
    operation("detach", start(OLD, FORK_PATH), lambda keeper: keeper.detach(FORK_PATH), check_detached, {}),
    operation(
        "delete with forks",
        start(OLD, FORK_PATH),
        lambda keeper: keeper.delete(OLD, detach_forks=True),
        check_deleted_with_forks,
        {},
    ),
    operation(
        "rename",
        start(OLD),
        lambda keeper: keeper.rename(OLD, "new"),
        check_renamed,
        {"drop sync dir 0": "the file was there"},
    ),
    operation(
        "first name",
        {path: data for path, data in start(OLD).items() if data != INDEX},
        lambda keeper: keeper.rename(OLD, "new"),
        check_renamed,
        {},
    ),
]


@each(OPERATIONS)
def test_after_a_crash_anywhere_nothing_is_lost_and_the_next_operation_mends_the_rest(scenario: Scenario) -> None:
    assert scenario.explore().states > 2


@each_sync(*OPERATIONS)
def test_each_sync_is_needed_or_known_to_be_harmless(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


@each(OPERATIONS)
@each_effect
def test_after_a_fault_anywhere_nothing_is_lost_and_the_next_operation_goes_through(
    scenario: Scenario, effect: Effect
) -> None:
    for disk in scenario.failing(effect):
        with pytest.raises(WriteError):
            scenario.work(disk, lambda _: None)
        scenario.check(SimulatedDisk(disk.tree()), [])


# Making


def create(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    store = Store(HOME, fs=disk, clock=lambda: 1774000802.0, randomness=bytes)
    with store.create(cwd="/p", model_provider="m") as log:
        ack(str(log.path))


def check_made(disk: SimulatedDisk, acked: list[Any]) -> None:
    for entry in homes.scan(HOME, fs=disk):
        with Origin(None, entry.path, HOME, fs=disk).opened() as lineage:
            assert lineage.opened[0].thread == entry.thread
            assert lineage.opened[0].session is not None
    assert len(list(homes.scan(HOME, fs=disk))) >= len(acked)


CREATE = Scenario("create", create, check_made, {str(HOME): None}, limit=300)


@each_effect
def test_a_log_whose_making_fails_anywhere_leaves_no_file(effect: Effect) -> None:
    whole = SimulatedDisk(CREATE.start)
    create(whole, lambda _: None)
    (made,) = [path for path, data in whole.tree().items() if data is not None]
    for disk in CREATE.failing(effect):
        with pytest.raises(WriteError):
            create(disk, lambda _: None)
        assert [data for data in disk.tree().values() if data is not None] == []
        disk.kill()
        create(disk, lambda _: None)
        assert disk.tree()[made] == whole.tree()[made]


def test_a_crash_in_the_making_of_a_log_leaves_a_whole_one_or_none_that_is_listed() -> None:
    CREATE.explore()
