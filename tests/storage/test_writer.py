"""The writer: order, commits that are shared, poisoning."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollout.errors import Closed, Conflict, NotARollout, NotFound, Poisoned, RecordError, WriteError
from rollout.files.disk import REAL, FileSystem
from rollout.files.port import Durability
from rollout.files.recovery import mark_batch
from rollout.files.writer import Writer
from rollout.testing.disk import Effect, Fault, Op, OpKind, SimulatedDisk
from tests.storage import ME, holds_record, line, read

PATH = "/home/d/a.jsonl"


def create(fs: FileSystem, path: str = PATH, durability: Durability = Durability.TURN) -> Writer:
    return Writer.create(fs, path, [line(0)], held_by=ME, durability=durability)


def reopen(fs: FileSystem, path: str = PATH, durability: Durability = Durability.TURN) -> Writer:
    return Writer.open(fs, path, held_by=ME, holds_record=holds_record, durability=durability)


def append_and_commit(log: Writer) -> None:
    log.append([line(1)])
    log.commit()


def syncs(disk: SimulatedDisk) -> int:
    return disk.attempts.count(OpKind.SYNC)


class GatedDisk(SimulatedDisk):
    """Its syncs begin, say so, and return when they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.let_through = threading.Semaphore(0)
        self.gated = False

    def do(self, op: Op) -> int:
        done = super().do(op)
        if op.kind is OpKind.SYNC and self.gated:
            self.begun.release()
            assert self.let_through.acquire(timeout=30)
        return done


@contextlib.contextmanager
def in_threads(*tasks: threading.Thread) -> Iterator[None]:
    for task in tasks:
        task.start()
    yield
    for task in tasks:
        task.join(30)
        assert not task.is_alive()


def wait_until_waiting(log: Writer, *tasks: threading.Thread, end: int) -> None:
    """Waits until threads have appended up to `end`, and wait for the sync that is under way."""
    deadline = time.monotonic() + 30
    while log.end < end or any(find_frame(task) != "_in_a_sync" for task in tasks):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def find_frame(task: threading.Thread) -> str:
    """The function that a thread is in."""
    frame = sys._current_frames().get(task.ident or 0)
    return "" if frame is None else frame.f_code.co_name


def test_lines_are_appended_in_one_write_and_the_end_is_told() -> None:
    disk = SimulatedDisk()
    log = create(disk)
    before = disk.attempts.count(OpKind.WRITE)
    assert log.append([line(1), line(2)]) == log.end == len(line(0) + line(1) + line(2))
    assert disk.attempts.count(OpKind.WRITE) == before + 1
    assert log.append([]) == log.end
    assert disk.tree()[PATH] == line(0) + line(1) + line(2)


def test_a_batch_is_marked_and_one_line_is_not() -> None:
    disk = SimulatedDisk()
    log = create(disk)
    log.append([line(1)], atomic=True)
    log.append([line(2), line(3)], atomic=True)
    assert disk.tree()[PATH] == b"".join([line(0), line(1), *mark_batch([line(2), line(3)])])


@pytest.mark.parametrize("wrong", [b"", b"\n\n", b"{}", b'{"a":1}\n{"b":2}\n', mark_batch([line(1), line(2)])[0]])
def test_what_is_not_one_line_or_would_leave_a_batch_open_is_refused(wrong: bytes) -> None:
    disk = SimulatedDisk()
    log = create(disk)
    with pytest.raises(RecordError):
        log.append([line(1), wrong])
    assert disk.tree()[PATH] == line(0)
    log.append([line(1)])


def test_an_append_that_expects_another_end_writes_nothing_and_harms_nothing() -> None:
    disk = SimulatedDisk()
    log = create(disk)
    end = log.end
    assert log.append([line(1)], expected_end=end) > end
    with pytest.raises(Conflict, match=f"ends at byte {log.end}, not at {end}"):
        log.append([line(2)], expected_end=end)
    log.append([line(2)], expected_end=log.end)
    assert read(disk.content(disk.open_read(PATH)._node)) == [0, 1, 2]


def test_a_file_that_is_there_is_not_created_and_one_that_is_not_is_not_opened() -> None:
    disk = SimulatedDisk({PATH: line(0), "/home/link": None})
    with pytest.raises(WriteError, match="is there already; open it for append"):
        create(disk)
    with pytest.raises(NotFound):
        reopen(disk, "/home/x")
    with pytest.raises(NotFound):
        reopen(disk, "/x/y")
    with pytest.raises(NotARollout):
        reopen(disk, "/home/link")
    with pytest.raises(WriteError, match=f"{PATH}: is no folder, and a folder is needed there"):
        create(disk, f"{PATH}/b")
    assert disk.tree() == {"/home": None, "/home/d": None, PATH: line(0), "/home/link": None}


def test_opening_tells_what_was_mended() -> None:
    disk = SimulatedDisk({PATH: line(0) + b"{torn"})
    log = reopen(disk)
    assert log.recovered is not None
    assert (log.recovered.kept_bytes, log.kept) == (5, f"{PATH}.torn-1")
    assert log.end == log.durable_end == len(line(0))
    log.close()
    log = reopen(disk)
    assert log.recovered is not None
    assert (log.recovered.needed, log.kept) == (False, None)


@pytest.mark.parametrize(
    ("durability", "by_append", "by_turn", "by_close"),
    [(Durability.RECORD, 1, 0, 0), (Durability.TURN, 0, 1, 0), (Durability.NONE, 0, 0, 0)],
)
def test_a_sync_comes_when_the_durability_says(
    durability: Durability, by_append: int, by_turn: int, by_close: int
) -> None:
    disk = SimulatedDisk()
    log = create(disk, durability=durability)
    counts = [syncs(disk)]
    log.append([line(1)])
    for act in (log.acknowledge, log.end_turn, log.close):
        act()
        counts.append(syncs(disk))
    assert [b - a for a, b in itertools.pairwise(counts)] == [by_append, by_turn, by_close]


def test_a_commit_is_one_in_every_durability_and_costs_nothing_twice() -> None:
    for durability in Durability:
        disk = SimulatedDisk()
        log = create(disk, durability=durability)
        log.append([line(1)])
        assert log.commit() == log.durable_end == log.end
        before = len(disk.attempts)
        log.commit()
        assert len(disk.attempts) == before


def test_closing_commits_what_is_open() -> None:
    disk = SimulatedDisk()
    with create(disk) as log:
        log.append([line(1)])
        before = syncs(disk)
    assert syncs(disk) == before + 1
    log.close()
    for act in (log.commit, lambda: log.append([line(2)])):
        with pytest.raises(Closed, match="open it again"):
            act()


def test_commits_that_wait_share_one_sync_and_none_counts_what_came_after_it_began() -> None:
    disk = GatedDisk()
    log = create(disk)
    disk.gated = True
    done: list[int] = []

    def write(n: int) -> None:
        end = log.append([line(n)])
        assert log.commit() >= end
        done.append(n)

    tasks = [threading.Thread(target=write, args=(n,)) for n in range(1, 6)]
    before, end = syncs(disk), log.end
    with in_threads(tasks[0]):
        assert disk.begun.acquire(timeout=30)
        with in_threads(*tasks[1:]):
            wait_until_waiting(log, *tasks[1:], end=end + 5 * len(line(1)))
            disk.let_through.release()
            assert disk.begun.acquire(timeout=30)
            tasks[0].join(30)
            assert done == [1]
            assert log.durable_end < log.end
            disk.let_through.release()
    assert sorted(done) == [1, 2, 3, 4, 5]
    assert syncs(disk) == before + 2


def test_a_sync_that_fails_fails_all_that_wait_for_it() -> None:
    disk = GatedDisk()
    log = create(disk)
    disk.gated = True
    disk.faults = [Fault(syncs(disk) + 1, Effect.FAIL, OpKind.SYNC)]
    errors: list[type[BaseException]] = []

    def write(n: int) -> None:
        log.append([line(n)])
        try:
            log.commit()
        except WriteError as error:
            errors.append(type(error))

    tasks = [threading.Thread(target=write, args=(n,)) for n in range(1, 4)]
    with in_threads(tasks[0]):
        assert disk.begun.acquire(timeout=30)
        with in_threads(*tasks[1:]):
            wait_until_waiting(log, *tasks[1:], end=len(line(0)) + 3 * len(line(1)))
            disk.let_through.release()
    assert errors in ([WriteError, Poisoned], [Poisoned, WriteError])
    assert log.durable_end == len(line(0) + line(1))


def test_threads_that_append_and_commit_leave_every_line_once(tmp_path: Path) -> None:
    log = create(REAL, str(tmp_path / "a"), Durability.RECORD)

    def write(first: int) -> None:
        for n in range(first, first + 50):
            log.append([line(n)])
            log.acknowledge()

    with in_threads(*(threading.Thread(target=write, args=(first,)) for first in range(1000, 9000, 1000))):
        pass
    assert log.durable_end == log.end
    log.close()
    assert sorted(read((tmp_path / "a").read_bytes())) == sorted(
        [0, *(n for first in range(1000, 9000, 1000) for n in range(first, first + 50))]
    )


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EINTR])
@pytest.mark.parametrize("kind", [OpKind.WRITE, OpKind.SYNC])
def test_after_an_error_the_writer_is_poisoned_and_no_operation_is_tried_again(kind: OpKind, error: int) -> None:
    disk = SimulatedDisk(faults=[Fault(1, Effect.FAIL, kind, error)])
    log = create(disk)
    safe = log.end
    with pytest.raises(WriteError, match=f"first {safe} bytes are on the disk; reopen to recover") as caught:
        append_and_commit(log)
    assert not isinstance(caught.value, Poisoned)
    assert (caught.value.durable_end, caught.value.path) == (safe, PATH)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == error
    tried = list(disk.attempts)
    for act in (lambda: log.append([line(2)]), log.commit, log.end_turn):
        with pytest.raises(Poisoned, match="reopen to recover") as again:
            act()
        assert again.value.durable_end == safe
    log.close()
    assert disk.attempts == tried
    log = reopen(disk)
    log.append([line(3)])
    log.close()
    data = disk.tree()[PATH]
    assert data is not None
    assert read(data) in ([0, 3], [0, 1, 3])


def test_a_short_write_poisons_and_is_cut_by_the_next_opening() -> None:
    disk = SimulatedDisk(faults=[Fault(1, Effect.SHORT, OpKind.WRITE, written=5)])
    log = create(disk)
    with pytest.raises(WriteError, match="only 5 of"):
        log.append([line(1)])
    with pytest.raises(Poisoned):
        log.append([line(1)])
    log.close()
    log = reopen(disk)
    assert log.kept == f"{PATH}.torn-1"
    assert disk.tree()[PATH] == line(0)


class InterruptedDisk(SimulatedDisk):
    """An interrupt comes in the next operation of a kind, when so many bytes of it (None: all of it) are done."""

    interrupted: OpKind | None = None
    done_bytes: int | None = None

    def do(self, op: Op) -> int:
        if op.kind is not self.interrupted:
            return super().do(op)
        self.interrupted = None
        if self.done_bytes is None:
            super().do(op)
        elif self.done_bytes:
            super().do(dataclasses.replace(op, data=op.data[: self.done_bytes]))
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", [OpKind.WRITE, OpKind.SYNC])
@pytest.mark.parametrize("is_done", [False, True])
def test_an_interruption_in_the_middle_loses_nothing_and_doubles_nothing(kind: OpKind, is_done: bool) -> None:
    disk = InterruptedDisk()
    log = create(disk)
    disk.interrupted, disk.done_bytes = kind, None if is_done else 0
    with pytest.raises(KeyboardInterrupt):
        append_and_commit(log)
    stands = [1] if is_done or kind is OpKind.SYNC else []
    assert log.end == len(b"".join(map(line, [0, *stands])))
    log.append([line(2)])
    assert log.commit() == log.end
    log.close()
    assert read(disk.tree()[PATH] or b"") == [0, *stands, 2]


def test_a_write_that_was_cut_short_and_interrupted_is_taken_back() -> None:
    disk = InterruptedDisk()
    log = create(disk)
    disk.interrupted, disk.done_bytes = OpKind.WRITE, 5
    with pytest.raises(KeyboardInterrupt):
        log.append([line(1)])
    assert log.append([line(2)]) == log.end
    log.close()
    assert disk.tree()[PATH] == line(0) + line(2)


@pytest.mark.parametrize("kind", [OpKind.WRITE, OpKind.SYNC, OpKind.SYNC_DIR])
def test_a_new_file_that_cannot_be_made_durable_is_not_left_behind(kind: OpKind) -> None:
    disk = SimulatedDisk(faults=[Fault(0, Effect.FAIL, kind)])
    with pytest.raises(WriteError, match=r"cannot be written: Input/output error; nothing of it is left"):
        create(disk)
    assert not any(disk.tree().values())
    create(disk).close()


def test_directories_that_a_new_file_needs_are_made_for_their_owner(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = tmp_path / "home" / "sessions" / "2026" / "a"
        Writer.create(REAL, path, [line(0)], held_by=ME, root=tmp_path / "home").close()
    finally:
        os.umask(before)
    made = [path, *list(path.parents)[:3]]
    assert [oct(found.stat().st_mode & 0o777) for found in made] == ["0o600", "0o700", "0o700", "0o700"]
