"""Reading stops when the answer is complete, and memory follows the answer, not the file.

Nothing here is timed: bytes are counted, and older parts are poisoned, so that reading them would show as damage.
A bound is what lies behind the oldest turn that the answer needs, one chunk from the end and one from the start (where
the session meta is looked for). Memory is that of a process of its own.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

import rollout
from rollout.limits import KIB, MIB, Limits
from tests import builders as b

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(first_chunk_bytes=4 * KIB, chunk_bytes=16 * KIB)
CHUNK_BYTES = LIMITS.chunk_bytes
HEAD_BYTES = LIMITS.chunk_bytes
MEMORY_BYTES = 60_000_000
GARBAGE = bytes(byte if byte == ord("\n") else ord("~") for byte in range(256))
SUMMARY = [b.user_item("kept")]


class Log:
    """A log that knows where its turns begin."""

    def __init__(self, thread: str = b.THREAD, **meta: object) -> None:
        self.data = bytearray()
        self.turns = 0
        self.add(b.session_meta(thread, **meta))

    def add(self, *lines: bytes) -> int:
        """Where the first of `lines` begins."""
        start = len(self.data)
        self.data += b.log(*lines)
        return start

    def turn(self, model: str = "m1") -> int:
        """A regular turn of about 2 KB, numbered from 1 in its question `q1` and its answer `a1`."""
        self.turns += 1
        name = f"t{self.turns}"
        front = b.started(name), b.context(name, model), b.user(f"q{self.turns}"), b.user_message(f"q{self.turns}")
        noise = b.event("noise", text="n" * 1500)
        return self.add(*front, noise, b.assistant(f"a{self.turns}"), b.completed(name))

    def many_turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def compaction(self) -> int:
        """A turn of its own that leaves `kept` of the history."""
        return self.add(b.started("c"), b.compacted(SUMMARY), b.completed("c"))

    def poison(self, end: int) -> None:
        """Make garbage of every line that ends before `end`, but for the session meta."""
        first = self.data.index(b"\n") + 1
        self.data[first:end] = self.data[first:end].translate(GARBAGE)

    def behind(self, start: int) -> int:
        """Bytes from `start` to the end."""
        return len(self.data) - start


def compacted_log(thread: str = b.THREAD) -> tuple[Log, int]:
    """A log of 500 turns and a compaction, and where that begins."""
    log = Log(thread)
    log.many_turns(500)
    return log, log.compaction()


def read_lazily(log: Log, needed: int, path: Path) -> rollout.State:
    """Reconstruct `log`, of which nothing may be read that lies more than a chunk before `needed`."""
    log.poison(needed - CHUNK_BYTES)
    path.write_bytes(log.data)
    state = rollout.reconstruct(path, limits=LIMITS)
    assert not state.damage
    assert state.bytes_read <= log.behind(needed) + CHUNK_BYTES + HEAD_BYTES
    return state


def texts(state: rollout.State) -> list[str]:
    return [item["content"][0]["text"] for item in state.history]


def talk(first: int, last: int) -> list[str]:
    """Questions and answers of turns `first` to `last`."""
    return [f"{who}{turn}" for turn in range(first, last + 1) for who in "qa"]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Its file is gone at once after the test: pytest keeps the folders of three runs, and some files are large."""
    path = tmp_path / "rollout.jsonl"
    yield path
    path.unlink(missing_ok=True)


# Plain files


def test_nothing_older_than_a_surviving_compaction_is_read(path: Path) -> None:
    log, needed = compacted_log()
    log.turn()
    assert texts(read_lazily(log, needed, path)) == ["kept", *talk(501, 501)]


def test_a_compaction_at_the_very_end_needs_the_turn_before_it_for_the_model(path: Path) -> None:
    log = Log()
    log.many_turns(500)
    needed = log.turn(model="m2")
    log.compaction()
    state = read_lazily(log, needed, path)
    assert (texts(state), state.previous_model, state.reference_context) == (["kept"], "m2", None)


def test_records_decoded_follow_the_needed_turns_and_not_the_file(path: Path) -> None:
    decoded = []
    for turns in (100, 1000):
        log = Log()
        log.many_turns(turns)
        needed = log.compaction()
        log.turn()
        decoded.append(read_lazily(log, needed, path).records_decoded)
    assert 0 < decoded[0] <= 60
    assert abs(decoded[1] - decoded[0]) <= 8  # a chunk may begin elsewhere in a turn


def test_a_rollback_of_newer_turns_reads_no_more_than_they_and_the_compaction_take(path: Path) -> None:
    log, needed = compacted_log()
    log.many_turns(10)
    log.add(b.rolled_back(3))
    log.turn()
    log.add(b.rolled_back(2))
    assert texts(read_lazily(log, needed, path)) == ["kept", *talk(501, 506)]


def test_a_log_without_a_compaction_is_read_once_and_not_twice(path: Path) -> None:
    log = Log()
    log.many_turns(300)
    assert texts(read_lazily(log, CHUNK_BYTES, path)) == talk(1, 300)


def test_the_turns_are_read_only_when_they_are_touched(path: Path) -> None:
    log, _ = compacted_log()
    path.write_bytes(log.data)
    state = rollout.reconstruct(path, limits=LIMITS)
    assert state.bytes_read < len(log.data) // 10
    assert len(state.turns) == 501


# Sealed files


FRAME_BYTES = 20 * KIB


def seal(text: bytes, broken: int) -> bytes:
    """Frames of a little more than 20 KB; of all but the first of the `broken` oldest the content is broken."""
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)
    frames: list[bytes] = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + FRAME_BYTES) + 1 or len(text)
        frame = bytearray(compressor.compress(text[start:end]))
        if 0 < len(frames) < broken:
            middle = slice(len(frame) // 3, -4)
            frame[middle] = bytes(byte ^ 0x55 for byte in frame[middle])
        frames.append(bytes(frame))
        start = end
    return b"".join(frames)


def read_sealed(log: Log, needed: int, path: Path) -> rollout.State:
    """Reconstruct `log`, sealed; frames that end more than two frames before `needed` are broken."""
    path = path.with_suffix(".jsonl.zst")
    path.write_bytes(seal(bytes(log.data), needed // (FRAME_BYTES + 2 * KIB) - 2))
    state = rollout.reconstruct(path, limits=LIMITS)
    assert not state.damage
    assert state.bytes_read <= log.behind(needed) + 3 * (FRAME_BYTES + 2 * KIB)
    return state


def test_a_sealed_file_is_unpacked_from_its_end_and_only_as_far_as_needed(path: Path) -> None:
    log, needed = compacted_log()
    log.turn()
    assert texts(read_sealed(log, needed, path)) == ["kept", *talk(501, 501)]


@pytest.mark.parametrize("read", [read_lazily, read_sealed])
def test_a_rollback_over_a_compaction_reads_on_to_the_one_before_it_and_no_further(
    read: Callable[[Log, int, Path], rollout.State], path: Path
) -> None:
    log, needed = compacted_log()
    log.many_turns(20)
    log.compaction()
    log.many_turns(5)
    log.add(b.rolled_back(7))
    assert texts(read(log, needed, path)) == ["kept", *talk(501, 518)]


# Files that go on from others

PARENT = "019d0000-0000-7000-8000-00000000000a"
CHILD = "019d0000-0000-7000-8000-00000000000b"


def child_of(parent: Log) -> Log:
    """A log that goes on from all of `parent`, whose last line gets the ordinal that the base names."""
    parent.add(b.line("event_msg", {"type": "noise"}, ordinal=7))
    base = {"thread_id": PARENT, "end_ordinal_exclusive": 8, "end_byte_offset": len(parent.data)}
    return Log(CHILD, history_base=base)


def read_fork(parent: Log, child: Log, needed_bytes: int, home: Path) -> rollout.State:
    """Reconstruct `child`; `needed_bytes` is what the needed turns of both take."""
    folder = home / "sessions" / "2026" / "03" / "20"
    folder.mkdir(parents=True)
    (folder / f"rollout-2026-03-20T10-00-00-{PARENT}.jsonl").write_bytes(parent.data)
    path = folder / f"rollout-2026-03-20T10-00-01-{CHILD}.jsonl"
    path.write_bytes(child.data)
    state = rollout.reconstruct(path, home=home, limits=LIMITS)
    assert not state.damage
    assert state.bytes_read <= needed_bytes + 2 * (CHUNK_BYTES + HEAD_BYTES)
    return state


def test_a_base_is_read_no_further_than_its_last_compaction(tmp_path: Path) -> None:
    parent, needed = compacted_log(PARENT)
    parent.turn()
    child = child_of(parent)
    parent.poison(needed - CHUNK_BYTES)
    child.turn()
    state = read_fork(parent, child, len(child.data) + parent.behind(needed), tmp_path)
    assert texts(state) == ["kept", *talk(501, 501), *talk(1, 1)]


def test_a_rollback_in_a_fork_of_turns_of_its_base_reads_on_in_the_base(tmp_path: Path) -> None:
    parent, needed = compacted_log(PARENT)
    parent.many_turns(4)
    child = child_of(parent)
    parent.poison(needed - CHUNK_BYTES)
    child.turn()
    child.add(b.rolled_back(3))
    state = read_fork(parent, child, len(child.data) + parent.behind(needed), tmp_path)
    assert texts(state) == ["kept", *talk(501, 502)]


def test_a_compaction_of_its_own_spares_a_fork_its_base(tmp_path: Path) -> None:
    parent, _ = compacted_log(PARENT)
    child = child_of(parent)
    parent.poison(len(parent.data) - CHUNK_BYTES)
    child.many_turns(100)
    needed = child.compaction()
    child.turn()
    child.poison(needed - CHUNK_BYTES)
    assert texts(read_fork(parent, child, child.behind(needed), tmp_path)) == ["kept", *talk(101, 101)]


# Memory

MEASURE = """
import json, sys
from bench.measure import peak_bytes
import rollout
state = rollout.reconstruct(sys.argv[1])
print(json.dumps({
    "peak": peak_bytes(), "items": len(state.history), "last": state.history[-1],
    "model": state.previous_model, "read": state.bytes_read, "damage": len(state.damage),
}))
"""


def reconstruct_apart(path: Path) -> dict[str, Any]:
    """Reconstruct in a process of its own, within the memory that is promised and without damage; what it found."""
    command = [sys.executable, "-c", MEASURE, str(path)]
    done: dict[str, Any] = json.loads(subprocess.run(command, check=True, cwd=ROOT, capture_output=True).stdout)
    assert done["damage"] == 0
    assert done["peak"] < MEMORY_BYTES
    return done


def write_all(path: Path, pieces: Iterable[bytes]) -> int:
    """The size of the file."""
    with path.open("wb") as file:
        file.writelines(pieces)
    return path.stat().st_size


def turn_of(number: int, *middle: bytes) -> bytes:
    """A turn with `middle` (whole lines) between question and answer."""
    name = f"t{number}"
    front = b.log(b.started(name), b.context(name), b.user(f"q{number}"))
    return front + b"".join(middle) + b.log(b.assistant(f"a{number}"), b.completed(name))


MB_OF_OUTPUT = b.log(*[line for _ in range(10) for line in (b.call(), b.output(text="o" * 100_000))])


def test_a_sparse_file_of_40_gb_with_a_real_tail_is_read_at_its_tail_alone(path: Path) -> None:
    tail, needed = compacted_log()
    tail.turn()
    with path.open("wb") as file:
        file.write(b.log(b.session_meta()))
        file.seek(40 << 30)
        file.write(b"\n" + tail.data)
    done = reconstruct_apart(path)
    assert path.stat().st_size > 40 << 30
    assert (done["items"], done["model"]) == (3, "m1")
    assert done["read"] <= tail.behind(needed) + 3 * MIB


def test_memory_does_not_follow_200_mb_of_events_around_few_items(path: Path) -> None:
    noise = b.log(*[b.event("noise", text="n" * 10_000)] * 100)
    assert write_all(path, (turn_of(number, noise) for number in range(200))) > 200_000_000
    assert reconstruct_apart(path)["items"] == 400


def test_memory_does_not_follow_100_mb_of_tool_output_that_was_rolled_back(path: Path) -> None:
    front = b.log(b.session_meta()) + turn_of(1) + b.log(b.started("t2"), b.context("t2"), b.user("q2"))
    end = b.log(b.completed("t2"), b.rolled_back(1)) + turn_of(3)
    size = write_all(path, [front, *[MB_OF_OUTPUT] * 100, end])
    done = reconstruct_apart(path)
    assert size > 100_000_000
    assert (done["items"], done["last"]["content"][0]["text"]) == (4, "a3")
    assert done["read"] <= size + 2 * MIB


def test_memory_does_not_follow_a_turn_of_200_mb_that_was_compacted_near_its_end(path: Path) -> None:
    front = b.log(b.session_meta()) + turn_of(1) + b.log(b.started("t2"), b.context("t2", "first"), b.user("q2"))
    end = b.log(b.compacted(SUMMARY), b.context("t2", "second"), b.assistant("a2"), b.completed("t2"))
    size = write_all(path, [front, *[MB_OF_OUTPUT] * 200, end])
    done = reconstruct_apart(path)
    assert size > 200_000_000
    assert (done["items"], done["model"]) == (2, "first")
    assert done["read"] <= size + 2 * MIB


# Items


def costly_item(number: int) -> dict[str, Any]:
    """150 KB as bytes, 20 times that when decoded."""
    return {"type": "future", "number": number, "data": [[]] * 50_000}


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_items_stay_bytes_until_they_are_touched_and_then_one_alone_is_decoded(path: Path) -> None:
    replacement = b.compacted([costly_item(number) for number in range(50)])
    items = [b.line("response_item", costly_item(number)) for number in range(50, 100)]
    size = write_all(
        path, [b.log(b.session_meta(), b.started("t1"), b.context("t1"), replacement, b.user("q"), *items)]
    )
    del replacement, items
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    state = rollout.reconstruct(path)
    held, peak = tracemalloc.get_traced_memory()
    assert peak - before < 4 * size
    tracemalloc.reset_peak()
    assert (len(state.history), state.history[10]["number"], state.history[-1]["number"]) == (101, 10, 99)
    assert tracemalloc.get_traced_memory()[1] - held < 15_000_000 < 100 * 50_000 * 56


@pytest.mark.usefixtures("traced")
def test_a_history_pins_its_items_and_not_the_events_between_them(path: Path) -> None:
    noise = b.event("noise", text="n" * 10_000)
    pieces = [b.log(b.user(f"q{number}"), noise) for number in range(1000)]
    size = write_all(path, pieces)
    before = tracemalloc.get_traced_memory()[0]
    state = rollout.reconstruct(path)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    assert len(state.history) == 1000
    assert held < 2_000_000 < size // 5
