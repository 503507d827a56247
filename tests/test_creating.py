"""A new session is there whole or not at all, and locked at once: by kills, interrupts, and what a disk refuses."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout import Durability, SessionLog, Store
from rollout.errors import Locked, WriteError
from rollout.files import disk as files
from rollout.files.disk import REAL
from rollout.files.staging import publish
from rollout.files.writer import Writer
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk
from tests import making
from tests.crashing import each_effect
from tests.enciphering import a_cipher
from tests.sessions import a_store, kinds, lines_of, take_turn
from tests.storage import ME, line

MANY = "ROLLOUT_CRASH" in os.environ
posix = pytest.mark.skipif(os.name != "posix", reason="SIGKILL, fork and locks are those of POSIX")
Make = Callable[[Store], SessionLog]


def create(store: Store) -> SessionLog:
    return store.create(cwd="/p", model_provider="m")


def create_without_syncs(store: Store) -> SessionLog:
    return store.create(cwd="/p", model_provider="m", durability=Durability.NONE)


def fork(store: Store) -> SessionLog:
    return source(store).fork()


def fork_as_a_copy(store: Store) -> SessionLog:
    return source(store).fork(copy=True)


def source(store: Store) -> SessionLog:
    """The log that is forked, open to read."""
    return store.open("-1", "read")


MAKES: list[Make] = [create, create_without_syncs, fork, fork_as_a_copy]
each_make = pytest.mark.parametrize("make", MAKES)


def with_a_source(home: Path | str, fs: Any = None) -> Store:
    store = a_store(home, fs=fs)
    with create(store) as log:
        take_turn(log, "q")
    return store


def names(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*") if path.is_file()}


@posix
def test_a_kill_at_any_moment_leaves_whole_sessions_and_hidden_files_that_nobody_lists(tmp_path: Path) -> None:
    rng = random.Random(11)
    home, made = tmp_path / "home", set[str]()
    with making.start("create_until_killed", home) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(500 if MANY else 60):
            process.stdin.write(b"\n")
            process.stdin.flush()
            word, child = json.loads(process.stdout.readline())
            while word != "process":
                word, child = json.loads(process.stdout.readline())
            time.sleep(rng.uniform(0, 0.06))
            os.kill(child, signal.SIGKILL)
            word, what = json.loads(process.stdout.readline())
            while word != "dead":
                assert word == "made"
                made.add(what)
                word, what = json.loads(process.stdout.readline())
        process.stdin.close()
    found = sorted(home.rglob("rollout-*"))
    assert made <= set(map(str, found))
    assert made
    for path in found:
        data = path.read_bytes()
        assert data.endswith(b"\n")
        assert lines_of(path)[0]["type"] == "session_meta"
    listed = [row.path for row in Store(home).list(limit=10_000, forks=True).rows]
    assert sorted(map(str, listed)) == sorted(map(str, found))
    store = Store(home)
    with create(store) as log:
        pass
    store.archive(log.id)
    assert not [name for name in names(home) if name.endswith(".new")]


@posix
@each_make
def test_an_interruption_anywhere_leaves_a_whole_session_or_none(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_sync", lambda fd: None)
    store = with_a_source(tmp_path)
    (kept,) = tmp_path.rglob("rollout-*")
    made: list[SessionLog] = []
    places = 0
    for _ in making.interrupted(lambda: made.append(make(store)), every=1 if MANY else 17):
        places += 1
        for log in made:
            log.close()
        made.clear()
        for path in tmp_path.rglob("rollout-*"):
            assert path.read_bytes().endswith(b"\n")
            assert lines_of(path)[0]["type"] == "session_meta"
            REAL.open_append(path).lock(ME)
        for path in set(tmp_path.rglob("rollout-*")) - {kept}:
            path.unlink()  # what was forked before is not forked again
        if places % 20 == 0:
            store.unarchive(store.archive("-1"))
            assert not [name for name in names(tmp_path) if name.endswith(".new")]
    assert places > 10
    made.pop().close()


@each_make
@each_effect
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_what_the_disk_refuses_leaves_nothing_behind(make: Make, effect: Effect, error: int) -> None:
    start = SimulatedDisk({"/h": None})
    with_a_source("/h", start)
    before = start.tree()
    whole = SimulatedDisk(before)
    make(a_store("/h", fs=whole, seed=1)).close()
    failed = 0
    for nth, kind in enumerate(whole.attempts):
        if effect is Effect.SHORT and kind is not OpKind.WRITE:
            continue
        disk = SimulatedDisk(before, faults=[Fault(nth, effect, error=error, written=9)])
        try:
            log = make(a_store("/h", fs=disk, seed=1))
        except WriteError:
            failed += 1
            left = {path for path, data in disk.tree().items() if data is not None} - set(before)
            assert left == set()
        else:
            assert set(whole.tree()) <= set(disk.tree())
            with contextlib.suppress(WriteError):
                log.close()
    assert failed


def test_a_file_that_is_there_is_not_replaced_and_of_many_who_make_it_at_once_one_does(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    told: list[str] = []

    def make(n: int) -> None:
        try:
            Writer.create(REAL, path, [line(n)], held_by=ME).close()
            told.append("made")
        except WriteError as error:
            told.append(error.message.partition(" (")[0])

    threads = [threading.Thread(target=make, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert told.count("made") == 1
    busy = {"another writer holds it", "is being made by others again and again"}
    assert set(told) <= {"made", "is there already", *busy}
    assert names(tmp_path) == {"a.jsonl"}


@posix
@each_make
def test_it_is_locked_from_when_it_has_its_name_on(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_a_source(tmp_path)
    rename, refused = files.RealFileSystem.rename, []

    def try_to_open(self: files.RealFileSystem, hidden: Any, path: Any) -> None:
        for name in (hidden, path):
            if name == path:
                rename(self, hidden, path)
            with pytest.raises(Locked), contextlib.closing(REAL.open_append(name)) as file:
                file.lock(ME)
            refused.append(name)

    monkeypatch.setattr(files.RealFileSystem, "rename", try_to_open)
    with make(store) as log:
        assert os.fspath(log.path) in map(os.fspath, refused)
        with pytest.raises(Locked, match=f"process {os.getpid()} on "):
            store.open(log.path)
    store.open(log.path).close()
    assert not [name for name in names(tmp_path) if name.startswith(".rollout")]


@posix
def test_a_file_that_is_being_made_is_not_tidied_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_a_source(tmp_path)

    def tidy_first(fs: Any, hidden: Any, path: Any) -> None:
        store.archive("-1")
        publish(fs, hidden, path)

    monkeypatch.setattr("rollout.files.writer.publish", tidy_first)
    with create(store) as log:
        log.event("custom")
    assert kinds(log.path)[-1] == "custom"


@each_make
def test_it_costs_one_sync_of_its_own_and_two_of_directories(make: Make) -> None:
    disk = SimulatedDisk({"/h": None})
    store = with_a_source("/h", disk)
    with create(store):
        pass
    opened = source(store)
    before = [disk.attempts.count(kind) for kind in (OpKind.SYNC, OpKind.SYNC_DIR)]
    of_source = 1 if make is fork else 0  # who wrote it may not have synced it: it, and its name
    with make(store):
        after = [disk.attempts.count(kind) for kind in (OpKind.SYNC, OpKind.SYNC_DIR)]
    own = 0 if make in {fork, create_without_syncs} else 2  # with the first commit
    assert [b - a for a, b in zip(before, after, strict=True)] == [1 + of_source, own + of_source]
    opened.close()


def test_a_store_with_keys_makes_whole_encrypted_files_only(tmp_path: Path) -> None:
    disk = SimulatedDisk({"/h": None})
    store = Store("/h", fs=disk, cipher=a_cipher())
    with create(store) as log, log.fork() as child, child.fork(copy=True) as copy:
        assert copy.id != log.id
    written = [op.data for op in disk.ops if op.kind is OpKind.WRITE]
    assert written
    assert all(b'"encrypted":{"v":1' in data for data in written)
