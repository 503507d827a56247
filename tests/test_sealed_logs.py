"""Sealed logs: read, found, forked and opened as plain ones are, whoever seals or unseals them meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

import rollout
from rollout import SealResult, Store
from rollout.errors import Conflict, Locked, UsageError
from rollout.files.disk import REAL, RealFileSystem
from rollout.files.port import AnyPath, AppendFile
from rollout.files.recovery import mark_batch
from rollout.files.sealed import seal as sealing
from tests import builders as b
from tests.sessions import a_log, a_store, take_turn, texts
from tests.storage import ME
from tests.storage.test_sealing import LOG, LONG, NAME, seal, unpack


@pytest.mark.parametrize("level", [1, 3, 19])
def test_a_store_seals_and_unseals_by_reference_and_tells_the_sizes(level: int, store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    data = log.path.read_bytes()
    done = store.seal(log.id, level=level)
    assert done == SealResult(log.path.with_name(f"{log.path.name}.zst"), len(data), done.path.stat().st_size)
    assert store.seal("-1") == store.seal(log.path) == done
    assert unpack(done.path) == data
    assert store.unseal(log.id) == store.unseal(log.id) == log.path
    assert log.path.read_bytes() == data


@pytest.mark.parametrize("level", [0, 23, -1, True])
def test_a_level_that_there_is_not_is_refused(level: int, store: Store) -> None:
    with a_log(store) as log:
        pass
    with pytest.raises(UsageError, match="is no level; give one from 1 to 22"):
        store.seal(log.id, level=level)
    assert log.path.exists()


# What works on a sealed one


def test_reading_the_end_of_a_sealed_file_reads_little_of_it(tmp_path: Path) -> None:
    data = LONG * 3 + b.log(b.started("t"), b.compacted([b.user_item("s")]), b.context("t"), b.user("q"))
    sealed = seal(tmp_path / NAME, data)
    state = rollout.reconstruct(sealed)
    assert texts(state) == ["s", "q"]
    assert state.bytes_read < sealed.stat().st_size // 4


def test_a_sealed_log_is_found_by_id_by_place_and_by_its_plain_name(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    done = store.seal(log.id)
    for ref in (log.id, log.id[:-4], "-1", log.path, str(log.path), done.path):
        assert rollout.reconstruct(ref, home=store.home).path == done.path
    with store.open(log.path, "read") as reader:
        assert (reader.path, reader.id) == (done.path, log.id)


def test_a_sealed_log_is_unsealed_when_it_is_opened_for_append(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    for ref in (log.id, log.path, store.seal(log.id).path):
        store.seal(log.id)
        with store.open(ref) as again:
            assert again.path == log.path
            take_turn(again, "r")
    assert [path.name for path in log.path.parent.iterdir()] == [log.path.name]
    assert texts(rollout.reconstruct(log.path))[::2] == ["q", "r", "r", "r"]


def test_a_torn_end_is_sealed_as_it_is_and_mended_when_it_is_opened_for_append(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    end = log.path.stat().st_size
    torn = b"".join(mark_batch([b.user("1") + b"\n", b.user("2") + b"\n"])[:1]) + b'{"half'
    with log.path.open("ab") as file:
        file.write(torn)
    store.seal(log.id)
    with store.open(log.id, "read") as reader:
        assert reader.end == end
        with reader.fork() as child:
            assert texts(child.resume_state()) == ["q", "answer to q"]
    with store.open(log.id) as again:
        assert again.end == end
        assert again.kept is not None
        assert Path(again.kept).read_bytes() == torn


@pytest.mark.parametrize("copy", [False, True])
def test_a_sealed_log_is_forked_without_unsealing_it(copy: bool, store: Store) -> None:
    with a_log(store) as log:
        first = take_turn(log, "q")
        take_turn(log, "r")
    done = store.seal(log.id)
    packed = done.path.read_bytes()
    with store.open(log.id, "read") as reader, reader.fork(first, copy=copy) as child:
        take_turn(child, "s")
    assert texts(rollout.reconstruct(child.path)) == ["q", "answer to q", "s", "answer to s"]
    assert done.path.read_bytes() == packed
    assert not log.path.exists()


def test_forks_go_on_reading_a_base_that_is_sealed_and_unsealed(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        child = log.fork()
        take_turn(child, "r")
        grandchild = child.fork()
        take_turn(grandchild, "s")
        child.close()
        grandchild.close()
    expected = list(rollout.reconstruct(grandchild.path).history)
    for path in (log.path, child.path, grandchild.path):
        store.seal(path)
        assert list(rollout.reconstruct(grandchild.id, home=store.home).history) == expected
        assert store.forks_of(log.id) == [path_of(child.path)]
    for path in (log.path, child.path):
        store.unseal(path)
        assert list(rollout.reconstruct(grandchild.id, home=store.home).history) == expected


def path_of(path: Path) -> Path:
    return path if path.exists() else path.with_name(f"{path.name}.zst")


def test_a_sealed_fork_is_unsealed_to_be_detached(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        with log.fork() as child:
            take_turn(child, "r")
    store.seal(log.id)
    store.seal(child.id)
    assert store.detach(child.id) == child.path
    store.delete(log.id)
    assert texts(rollout.reconstruct(child.path)) == ["q", "answer to q", "r", "answer to r"]


def test_who_reads_the_plain_file_goes_on_reading_when_it_is_sealed(store: Store) -> None:
    with a_log(store) as log:
        for n in range(3):
            take_turn(log, f"q{n}")
    state = rollout.reconstruct(log.path)
    records = iter(rollout.records(log.path))
    first = next(records)
    with store.open(log.id, "read") as reader:
        store.seal(log.id)
        assert list(reader.resume_state().history) == list(state.history)
        assert reader.end == len(unpack(path_of(log.path)))
    assert b"".join(record.raw for record in (first, *records)) == unpack(path_of(log.path))
    assert len(state.turns) == 3


# Two at once


def test_a_log_that_somebody_writes_is_not_sealed(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        with pytest.raises(Locked, match="another writer holds it"):
            store.seal(log.id)
        take_turn(log, "r")
    assert [path.name for path in log.path.parent.iterdir()] == [log.path.name]


@pytest.mark.parametrize("way", ["seal", "unseal"])
def test_while_it_is_sealed_or_unsealed_nobody_opens_it_for_append(way: str, store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    if way == "unseal":
        store.seal(log.id)
    tries: list[bool] = []

    def try_it(done: int, total: int) -> None:
        for ref in (log.path, log.id):
            with pytest.raises(Locked):
                store.open(ref)
            assert texts(rollout.reconstruct(ref, home=store.home)) == ["q", "answer to q"]
            tries.append(True)

    store.seal(log.id, progress=try_it) if way == "seal" else store.unseal(log.id, progress=try_it)
    assert tries
    with store.open(log.path) as again:
        take_turn(again, "r")


class Meddling(RealFileSystem):
    """A file system on which something happens just before a file is opened to be written."""

    def __init__(self, *deeds: str) -> None:
        super().__init__()
        self.deeds = [*deeds]

    def open_append(self, path: AnyPath, *, create: bool = False) -> AppendFile:
        deed = self.deeds.pop(0) if self.deeds else ""
        if deed == "seal":
            sealing.seal(REAL, Path(path), held_by=ME)
        elif deed == "unseal":
            sealing.unseal(REAL, Path(path), held_by=ME)
        file = super().open_append(path, create=create)
        if deed == "seal when it is open":
            sealing.seal(REAL, Path(path), held_by=ME)
        return file


@pytest.mark.parametrize("deeds", [["seal"], ["seal when it is open"], ["unseal"]])
def test_what_is_sealed_or_unsealed_while_it_is_being_opened_is_opened_all_the_same(
    deeds: list[str], tmp_path: Path
) -> None:
    path = tmp_path / NAME
    path.write_bytes(LOG)
    if deeds == ["unseal"]:
        path = sealing.seal(REAL, path, held_by=ME).path
    with a_store(tmp_path, fs=Meddling(*deeds)).open(path) as log:
        take_turn(log, "new")
    assert [found.name for found in tmp_path.iterdir()] == [NAME]
    assert texts(rollout.reconstruct(tmp_path / NAME))[-2:] == ["new", "answer to new"]


def test_a_file_that_grows_while_it_is_sealed_stays_plain(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(LONG)

    def grow(done: int, total: int) -> None:
        if done == total:
            with path.open("ab") as file:
                file.write(b.log(b.user("late")))

    with pytest.raises(Conflict, match="has changed while it was sealed"):
        sealing.seal(REAL, path, held_by=ME, progress=grow)
    assert path.read_bytes().startswith(LONG)
    assert [found.name for found in tmp_path.iterdir()] == [NAME]


def test_an_interrupt_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / NAME
    path.write_bytes(LOG)
    with pytest.raises(KeyboardInterrupt):
        sealing.seal(REAL, path, held_by=ME, progress=interrupt)
    assert [found.name for found in tmp_path.iterdir()] == [NAME]
    sealed = sealing.seal(REAL, path, held_by=ME).path
    with pytest.raises(KeyboardInterrupt):
        sealing.unseal(REAL, path, held_by=ME, progress=interrupt)
    assert [found.name for found in tmp_path.iterdir()] == [sealed.name]
