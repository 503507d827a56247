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
from rollout.storage import sealing
from rollout.storage.opening import open_writer
from rollout.storage.writer import Durability
from rollout.testing.crashes import CrashFailure, crash_states, explore, mutants
from rollout.testing.disk import Effect, Fault, Kind, SimulatedDisk
from tests import children
from tests.builders import THREAD, log
from tests.sessions import a_log, a_store
from tests.storage import ME

NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"
PLAIN, SEALED = f"/{NAME}", f"/{NAME}.zst"
ONE, TWO, NEW = b'{"type":"other"}', b'{"type":"reasoning"}', log(b'{"type":"compaction"}')
TEXT = log(ONE, TWO, ONE)
TORN = TEXT + b'{"to'
FRAME_BYTES = 30
CYCLES = 300 if "ROLLOUT_CRASH" in os.environ else 12
Workload = Callable[[SimulatedDisk, Callable[[Any], None]], None]


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


STARTS: dict[Workload, dict[str, bytes | None]] = {
    seal: {PLAIN: TORN},
    unseal: {SEALED: packed(TORN)},
    append: {SEALED: packed(TEXT)},
    write_and_seal: {},
    find_both: {SEALED: packed(TEXT)},
}
HARMLESS = {
    "seal drop sync 0": "the plain file was on the disk before",
    "seal delay sync 0": "the same",
    "seal drop sync dir 1": "the plain name may come back: it counts, and the next seal takes it away",
    "write_and_seal drop sync dir 1": "the same",
    "write_and_seal delay sync 0": "synced an operation later, still long before the sealed file has its name",
    "unseal drop sync dir 1": "the sealed name may come back: the plain one counts, and the next opening takes it away",
    "append drop sync dir 1": "the same",
    "find_both drop sync dir 1": "the same",
    "append drop sync 1": "what the new file holds was synced before it had its name",
    "append delay sync 1": "the same",
    "append drop sync dir 2": "its name was on the disk before the sealed one went",
    "append delay sync dir 2": "the same",
    "write_and_seal drop sync dir 0": "the plain name was not on the disk before: nothing was promised",
    "write_and_seal delay sync dir 0": "the same",
}


def check(workload: Workload) -> Callable[[SimulatedDisk, list[Any]], None]:
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


def name_fault(fault: Fault) -> str:
    assert fault.kind is not None
    return f"{fault.effect.value} {fault.kind.value} {fault.nth}"


@pytest.mark.parametrize("workload", STARTS)
def test_after_a_crash_anywhere_one_of_the_two_files_is_there_whole(workload: Workload) -> None:
    explored = explore(workload, check(workload), start=STARTS[workload], limit=100)
    assert explored.states > 50


@pytest.mark.parametrize("workload", [seal, unseal])
def test_nor_does_a_disk_that_writes_its_sectors_in_any_order_lose_one(workload: Workload) -> None:
    explored = explore(workload, check(workload), start=STARTS[workload], limit=100, sector_bytes=16)
    assert explored.states > 100


@pytest.mark.parametrize(
    ("workload", "fault"),
    [(workload, fault) for workload in STARTS for fault in mutants(workload, start=STARTS[workload])],
    ids=lambda value: name_fault(value) if isinstance(value, Fault) else value.__name__,
)
def test_each_sync_is_needed_or_known_to_be_harmless(workload: Workload, fault: Fault) -> None:
    if f"{workload.__name__} {name_fault(fault)}" in HARMLESS:
        explored = explore(workload, check(workload), start=STARTS[workload], faults=[fault], limit=30)
        assert explored.states > 50
        return
    with pytest.raises(CrashFailure):
        explore(workload, check(workload), start=STARTS[workload], faults=[fault], limit=100)


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
    assert [name.name for name in path.parent.iterdir()] == [path.name]
    assert written > CYCLES
    assert refused > CYCLES


@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.SHORT])
@pytest.mark.parametrize("workload", [seal, unseal, append])
def test_after_a_fault_at_any_operation_nothing_is_lost_and_it_can_be_tried_again(
    workload: Workload, effect: Effect
) -> None:
    undisturbed = SimulatedDisk(STARTS[workload])
    workload(undisturbed, lambda _: None)
    for nth, kind in enumerate(undisturbed.attempts):
        if effect is Effect.SHORT and kind is not Kind.WRITE:
            continue
        disk = SimulatedDisk(STARTS[workload], faults=[Fault(nth, effect, written=3)])
        acked: list[Any] = []
        with pytest.raises(WriteError):
            workload(disk, acked.append)
        assert not [name for name in disk.tree() if name.startswith("/.")]
        disk.kill()
        for tree in (disk.tree(), *crash_states(disk, limit=20)):
            check(workload)(SimulatedDisk(tree), acked)
