"""A crash or a fault at any point of a seal, an unseal or an opening: one of the two files is there, whole."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import rollout
from rollout.errors import Locked, NotFound, WriteError
from rollout.files.port import Durability
from rollout.files.sealed import seal as sealing
from rollout.files.writer import open_writer
from rollout.testing.crashes import Check, Workload, crash_states
from rollout.testing.disk import Effect, Fault, SimulatedDisk
from tests import children
from tests.builders import THREAD, log
from tests.crashing import Scenario, each, each_effect, each_sync
from tests.sessions import a_log, a_store
from tests.storage import ME

NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"
PLAIN, SEALED = f"/{NAME}", f"/{NAME}.zst"
ONE, TWO, NEW = b'{"type":"other"}', b'{"type":"reasoning"}', log(b'{"type":"compaction"}')
TEXT = log(ONE, TWO, ONE)
TORN = TEXT + b'{"to'
FRAME_BYTES = 30
CYCLES = 300 if "ROLLOUT_CRASH" in os.environ else 12


def packed(text: bytes) -> bytes:
    disk = SimulatedDisk({PLAIN: text})
    sealing.seal(disk, Path(PLAIN), held_by=ME, frame_bytes=FRAME_BYTES)
    return disk.tree()[SEALED] or b""


def unpacked(data: bytes) -> bytes:
    source = io.BytesIO(data)
    return zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True).read()


def seal(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    sealing.seal(disk, Path(PLAIN), held_by=ME, frame_bytes=FRAME_BYTES)
    ack("sealed")


def unseal(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    sealing.unseal(disk, Path(SEALED), held_by=ME)
    ack("plain")


def append(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    with open_writer(disk, Path(SEALED), held_by=ME) as writer:
        ack("plain")
        writer.append([NEW])
        writer.commit()
        ack("appended")


def write_and_seal(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    """The bytes and the name of the plain file were never put on the disk."""
    disk.open_append(PLAIN, create=True).append(TEXT)
    seal(disk, ack)


def find_both(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    """Another program has unpacked the file, put nothing on the disk and died."""
    disk.open_append(PLAIN, create=True).append(TEXT)
    disk.kill()
    sealing.unseal(disk, Path(SEALED), held_by=ME)
    ack("plain")


def check(workload: Workload) -> Check:
    text = TORN if workload in (seal, unseal) else TEXT

    def check_it(disk: SimulatedDisk, acked: list[Any]) -> None:
        """The file that counts is whole; the next seal and the next unseal go through and leave nothing beside."""
        plain, sealed = disk.tree().get(PLAIN), disk.tree().get(SEALED)
        if not acked and workload is find_both:  # somebody else left the plain file unsafe
            assert plain == text or sealed == packed(text)
            return
        if not acked and workload is write_and_seal and sealed is None:  # nobody has promised anything
            return
        assert plain is not None or sealed is not None
        now = plain if plain is not None else unpacked(sealed or b"")
        if workload is append and acked == ["plain"]:  # what is being appended may be torn
            assert now.startswith(text)
        else:
            assert now == (text + NEW if "appended" in acked else text)
        sealing.seal(disk, Path(PLAIN), held_by=ME)
        tree = disk.tree()
        assert list(tree) == [SEALED]
        assert unpacked(tree[SEALED] or b"") == now
        assert sealing.unseal(disk, Path(PLAIN), held_by=ME) == Path(PLAIN)
        assert disk.tree() == {PLAIN: now}

    return check_it


CAME_BACK = "the sealed name may come back: the plain one counts, and the next opening takes it away"
LATER = "synced an operation later, still long before the sealed file has its name"
NEVER = "the plain name was not on the disk before: nothing was promised"
ON_DISK = "the plain file was on the disk before"
PLAIN_COUNTS = "the plain name may come back: it counts, and the next seal takes it away"
SYNCED = "what the new file holds was synced before it had its name"
ABOVE = "the folder was there, and its name on the disk"
NAMED = "its name was on the disk before the sealed one went"


def scenario_of(workload: Workload, start: dict[str, bytes | None], harmless: dict[str, str]) -> Scenario:
    return Scenario(workload.__name__, workload, check(workload), start, harmless, limit=100, fewest=50)


SEAL = scenario_of(
    seal, {PLAIN: TORN}, {"drop sync 0": ON_DISK, "delay sync 0": ON_DISK, "drop sync dir 1": PLAIN_COUNTS}
)
UNSEAL = scenario_of(unseal, {SEALED: packed(TORN)}, {"drop sync dir 1": CAME_BACK})
APPEND = scenario_of(
    append,
    {SEALED: packed(TEXT)},
    {
        "drop sync dir 1": CAME_BACK,
        "drop sync 1": SYNCED,
        "drop sync dir 2": NAMED,
        "drop sync dir 3": ABOVE,
        "delay sync dir 3": ABOVE,
    },
)
WRITE_AND_SEAL = scenario_of(
    write_and_seal,
    {},
    {
        "delay sync 0": LATER,
        "drop sync dir 0": NEVER,
        "delay sync dir 0": NEVER,
        "drop sync dir 1": PLAIN_COUNTS,
    },
)
FIND_BOTH = scenario_of(find_both, {SEALED: packed(TEXT)}, {"drop sync dir 1": CAME_BACK})
SCENARIOS = [SEAL, UNSEAL, APPEND, WRITE_AND_SEAL, FIND_BOTH]


@each(SCENARIOS)
def test_after_a_crash_anywhere_one_of_the_two_files_is_there_whole(scenario: Scenario) -> None:
    assert scenario.explore().states > 50


@each([SEAL, UNSEAL])
def test_nor_does_a_disk_that_writes_its_sectors_in_any_order_lose_one(scenario: Scenario) -> None:
    assert scenario.explore(sector_bytes=16).states > 100


@each_sync(*SCENARIOS)
def test_each_sync_is_needed_or_known_to_be_harmless(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL and fork are of POSIX systems")
def test_nothing_is_lost_between_who_seals_and_is_killed_and_who_appends_meanwhile(tmp_path: Path) -> None:
    store, rng = a_store(tmp_path), random.Random(1)
    with a_log(store) as made:
        path = made.path
    written = refused = 0
    with children.start("seal_until_killed") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(CYCLES):
            process.stdin.write(b"%b\n" % bytes(path))
            process.stdin.flush()
            _, pid = json.loads(process.stdout.readline())
            for _ in range(rng.randrange(40)):
                time.sleep(rng.random() / 1000)
                try:
                    with store.open(path, durability=Durability.NONE) as opened:
                        opened.record("x", {"n": written})
                except (Locked, NotFound):
                    refused += 1
                    continue
                written += 1
            os.kill(pid, signal.SIGKILL)
            process.stdout.readline()
            found = [record.payload["n"] for record in rollout.records(path) if record.type == "x"]
            assert found == [*range(written)]
        process.stdin.close()
    store.open(path).close()
    # the note of a child that was killed once the sealed file was gone: who unseals next takes it away
    note = f".{path.name}.zst.lock"
    assert {name.name for name in path.parent.iterdir()} - {note} == {path.name}
    assert written > CYCLES
    assert refused > CYCLES


@each_effect
@each([SEAL, UNSEAL, APPEND])
def test_after_a_fault_at_any_operation_nothing_is_lost_and_it_can_be_tried_again(
    scenario: Scenario, effect: Effect
) -> None:
    for disk in scenario.failing(effect):
        acked: list[Any] = []
        with pytest.raises(WriteError):
            scenario.work(disk, acked.append)
        assert not [name for name in disk.tree() if name.startswith("/.")]
        disk.kill()
        for tree in (disk.tree(), *crash_states(disk, limit=20)):
            scenario.check(SimulatedDisk(tree), acked)
