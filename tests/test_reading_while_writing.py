"""Readers beside a writer: every state that is read is one that the writer passed through, in order.

The writer is a process of its own that says each state it reaches, from a model of its own. Readers take no lock.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import State
from rollout.files.disk import RealFileSystem
from rollout.files.port import AnyPath, Durability, ReadFile
from rollout.files.recovery import mark_batch
from tests import children
from tests.builders import assistant_item
from tests.sessions import a_log, a_store, context, take_turn, texts

STEPS = 400
A_LONG_BATCH = b"".join(mark_batch([b'{"type":"x","payload":1}\n'] * 9000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with a_log(a_store(tmp_path)) as log:
        return log.path


def while_running(tmp_path: Path, name: str, *arguments: object) -> Iterator[Path]:
    """Again and again as long as the child runs, and once more behind it: the file with what it says."""
    said = tmp_path / "said"
    with (
        said.open("wb") as out,
        subprocess.Popen(children.command(name, *arguments), cwd=children.ROOT, stdout=out) as p,
    ):
        try:
            while p.poll() is None:
                yield said
        finally:
            p.kill()
    assert p.returncode == 0
    yield said


def numbers(state: State) -> list[int]:
    """The number that each item of a history begins with; 0 for the message of an interrupted turn."""
    return [0 if text.startswith("<turn_aborted>") else int(text.split()[0]) for text in texts(state)]


def read_by_path(path: Path) -> list[int]:
    return numbers(rollout.reconstruct(path))


def read_opened(path: Path) -> list[int]:
    with rollout.open_log(path, "read") as log:
        return numbers(log.resume_state())


@pytest.mark.parametrize("read", [read_by_path, read_opened])
def test_a_reader_sees_the_states_of_the_writer_in_their_order(
    read: Callable[[Path], list[int]], path: Path, tmp_path: Path
) -> None:
    seen = [read(path) for _ in while_running(tmp_path, "write_states", path, 1, STEPS)]
    passed = [json.loads(line)[1] for line in (tmp_path / "said").read_text().splitlines()]
    at = 0
    for state in seen:
        at = passed.index(state, at)
    assert seen[-1] == passed[-1]
    assert len(passed) > STEPS
    assert len({tuple(state) for state in seen}) > 20


def test_the_file_up_to_each_end_says_what_the_model_of_the_writer_says(path: Path, tmp_path: Path) -> None:
    for _ in while_running(tmp_path, "write_states", path, 2, 40):
        pass
    whole = path.read_bytes()
    for end, history in map(json.loads, (tmp_path / "said").read_text().splitlines()):
        assert numbers(rollout.reconstruct(whole[:end])) == history


def test_turns_and_records_that_are_read_beside_a_writer_grow_and_never_change(path: Path, tmp_path: Path) -> None:
    turns: list[list[str]] = []
    records: list[bytes] = []
    damage: set[Any] = set()
    for n, _ in enumerate(while_running(tmp_path, "write_states", path, 3, STEPS)):
        if n % 2:
            turns.append([turn.id for turn in rollout.turns(path)])
        else:
            records.append(b"".join(record.raw for record in rollout.records(path)))
        damage |= {rollout.verify(path).damaged_lines}
    whole = path.read_bytes()
    every_turn = [turn.id for turn in rollout.turns(path)]
    assert all(found == every_turn[: len(found)] for found in turns)
    assert all(whole.startswith(found) for found in records)
    assert [len(found) for found in turns] == sorted(len(found) for found in turns)
    assert [len(found) for found in records] == sorted(len(found) for found in records)
    assert damage <= {0, 1}  # the last line, as long as it is being written


def test_a_reader_sees_no_torn_end_while_it_is_mended(path: Path, tmp_path: Path) -> None:
    seen = [read_by_path(path) for _ in while_running(tmp_path, "tear_and_mend", path, 300)]
    assert seen == sorted(seen)
    assert all(state == [*range(1, len(state) + 1)] for state in seen)
    assert len(seen[-1]) == 300
    assert len({len(state) for state in seen}) > 20


@pytest.mark.parametrize("later_bytes", [9, 100_000, 250_000])
@pytest.mark.parametrize(
    "torn", [bytes(300_000), b'{"timestamp":"' + b"y" * 300_000, A_LONG_BATCH[:-9]], ids=["NULs", "a line", "a batch"]
)
def test_a_log_whose_end_is_mended_in_the_middle_of_a_reading_is_read_as_it_was(
    torn: bytes, later_bytes: int, tmp_path: Path
) -> None:
    store = a_store(tmp_path)
    with a_log(store) as log:
        take_turn(log, "1")
    with log.path.open("ab") as file:
        file.write(torn)
    mended: list[int] = []

    def mend(done: int, total: int) -> None:
        if not mended:
            with store.open(log.path) as later:
                take_turn(later, "2" + " " * later_bytes)
                mended.append(later.end)

    state = rollout.reconstruct(log.path, progress=mend)
    assert mended
    assert texts(state)[:2] == ["1", "answer to 1"]
    assert [text.split()[0] for text in texts(state)[2:]] in ([], ["2"], ["2", "answer"])
    assert (state.reference_context or {})["model"] == "m1"
    assert [turn.user for turn in state.turns][:1] == ["1"]


WHOLE_BATCH = b"".join(
    mark_batch(
        [b'{"type":"response_item","payload":%b}\n' % json.dumps(assistant_item("-1 " + "y" * 70_000)).encode()] * 3
    )
)
TORN = {
    "a line of three missing": WHOLE_BATCH[:-5],
    "half of it": WHOLE_BATCH[: len(WHOLE_BATCH) // 2],
    "two lines": WHOLE_BATCH[: WHOLE_BATCH.rindex(b"\n", 0, -1) + 1],
    "the beginning of a line": WHOLE_BATCH[:40],
    "a hole": bytes(5000),
}


class TornBeforeReads(RealFileSystem):
    """A file whose torn end is mended, written on and torn again just before each of the reads that are named."""

    def __init__(self, home: Path, reads: tuple[int, ...], user_bytes: int, torn: bytes) -> None:
        super().__init__()
        self.home, self.due, self.user_bytes, self.torn = home, list(reads), user_bytes, torn
        self.reads = 0

    def open_read(self, path: AnyPath) -> ReadFile:
        file = super().open_read(path)
        read_at = file.read_at

        def meddled(offset: int, n: int) -> bytes:
            self.reads += 1
            if self.due and self.reads > self.due[0]:
                self.due.pop(0)
                go_on(self.home, Path(path), self.user_bytes, self.torn)
            return read_at(offset, n)

        return Meddled(file, meddled)


class Meddled:
    """A file that is read by another function; all else is as it is."""

    def __init__(self, file: ReadFile, read_at: Callable[[int, int], bytes]) -> None:
        self._file, self.read_at = file, read_at
        self.size, self.data_start, self.close = file.size, file.data_start, file.close

    @property
    def identity(self) -> tuple[int, int]:
        return self._file.identity


def go_on(home: Path, path: Path, user_bytes: int, torn: bytes) -> None:
    """Mends the end of the log, writes a turn, and leaves an end that is torn."""
    with a_store(home).open(path, durability=Durability.NONE) as log, log.turn(context()) as turn:
        turn.user(f"{len(numbers(log.resume_state())) + 1} " + "z" * user_bytes)
    with path.open("ab") as file:
        file.write(torn)


@pytest.mark.parametrize("before", TORN)
@pytest.mark.parametrize("user_bytes", [10, 100_000, 200_000])
def test_an_end_that_is_mended_between_any_two_reads_gives_a_state_of_the_writer(
    before: str, user_bytes: int, path: Path, tmp_path: Path
) -> None:
    go_on(tmp_path, path, 10, TORN[before])
    start = path.read_bytes()
    for torn in TORN.values():
        for meddled in [(n,) for n in range(6)] + list(itertools.combinations(range(6), 2)):
            path.write_bytes(start)
            fs = TornBeforeReads(tmp_path, meddled, user_bytes, torn)
            with a_store(tmp_path, fs=fs).open(path, "read") as log:
                state = numbers(log.resume_state())
            assert state == [*range(1, len(state) + 1)], meddled
            assert state
