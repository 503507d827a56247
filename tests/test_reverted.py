"""Threads of several files: what forks of them name, and that nobody takes from a fork the file that it needs."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Cipher, SessionLog, Store, make_key
from rollout.errors import InUse, NotFound, UsageError
from rollout.files.disk import AnyPath
from rollout.files.port import Listed
from rollout.files.source import Origin
from tests import builders as b
from tests.homes import CountingFileSystem, meta_of, path_of, put, put_data, thread_id
from tests.sessions import a_store, take_turn
from tests.threads import PART, a_fork, a_revert, a_thread, files, says

FIRST = ["q", "answer to q"]
BOTH = [*FIRST, "after the revert", "answer to after the revert"]


@dataclasses.dataclass
class World:
    """A thread of two files, a fork of the newer one, one at a point in the older one, and a fork of the fork."""

    store: Store
    first: Path
    revert: Path
    fork: SessionLog
    early: SessionLog
    grandchild: SessionLog

    @property
    def id(self) -> str:
        return self.first.stem[-36:]

    def said(self) -> dict[str, list[str]]:
        """What all of them say."""
        paths = {"first": self.first, "revert": self.revert}
        logs = {"fork": self.fork, "early": self.early, "grandchild": self.grandchild}
        return {name: says(self.store.resolve(at)) for name, at in (paths | {k: v.id for k, v in logs.items()}).items()}


SAID = {
    "first": FIRST,
    "revert": BOTH,
    "fork": [*BOTH, "f", "answer to f"],
    "early": [*FIRST, "e", "answer to e"],
    "grandchild": [*BOTH, "f", "answer to f", "g", "answer to g"],
}


@pytest.fixture
def world(store: Store) -> World:
    first = a_thread(store)
    revert = a_revert(store, first)
    with store.open(first.id, "read") as log:
        fork = a_fork(log)
    with store.open(fork.id, "read") as log:
        turn = log.resume_state().turns[0].id
        with log.fork(at=turn) as early:
            take_turn(early, "e")
    return World(store, first.path, revert, fork, early, a_fork(fork, "g"))


def base_of(log: SessionLog) -> dict[str, Any]:
    base: dict[str, Any] = json.loads(log.path.read_bytes().split(b"\n")[0])["payload"]["history_base"]
    return base


def test_a_fork_names_the_file_that_its_point_is_in(world: World) -> None:
    assert base_of(world.fork) == {"thread_id": PART, "end_byte_offset": world.revert.stat().st_size}
    assert base_of(world.early)["thread_id"] == world.id
    assert base_of(world.grandchild)["thread_id"] == world.fork.id
    meta = json.loads(world.fork.path.read_bytes().split(b"\n")[0])["payload"]
    assert (meta["forked_from_id"], meta["id"]) == (world.id, world.fork.id)
    assert world.said() == SAID


def test_a_list_and_a_tree_tell_where_forks_come_from(world: World) -> None:
    rows = {row.id: row for row in world.store.list(forks=True)}
    comes_from = {id: row.forked_from for id, row in rows.items()}
    forks = {world.fork.id: world.id, world.early.id: world.fork.id, world.grandchild.id: world.fork.id}
    assert comes_from == {world.id: None, **forks}
    (root,) = world.store.tree()
    (revert,) = root.children
    (fork,) = revert.children
    assert [node.row.path for node in (root, revert, fork)] == [world.first, world.revert, world.fork.path]
    assert [node.relation for node in (root, revert, fork)] == ["root", "revert", "fork"]
    assert [node.row.path for node in fork.children] == [world.early.path, world.grandchild.path]


def test_a_fork_that_only_its_base_tells_of_is_one_of_the_thread_not_of_the_file(tmp_path: Path) -> None:
    root = put(tmp_path, 1, b.user("a"))
    base = {"thread_id": thread_id(1), "end_byte_offset": root.stat().st_size}
    revert = put_data(path_of(tmp_path, 1, part=8, at=5), b.log(meta_of(1, history_base=base)))
    base = {"thread_id": thread_id(8).upper(), "end_byte_offset": revert.stat().st_size}
    put_data(path_of(tmp_path, 1, part=9, at=6), b.log(meta_of(1, history_base=base)))
    put(tmp_path, 2, history_base=base)
    store = Store(tmp_path)
    for _ in range(2):  # from the files, and from the index
        assert {row.id: row.forked_from for row in store.list(forks=True)} == {
            thread_id(1): None,
            thread_id(2): thread_id(1),
        }


# Who needs a file


def test_a_thread_is_not_deleted_while_a_fork_needs_any_of_its_files(world: World) -> None:
    store, before = world.store, files(world.store)
    for reference in (world.id, world.first, world.revert):
        assert store.forks_of(reference) == sorted([world.fork.path, world.early.path])
        with pytest.raises(InUse) as refused:
            store.delete(reference)
        assert world.fork.path.name in str(refused.value)
        assert world.early.path.name in str(refused.value)
        assert files(store) == before
    store.delete(world.early.id)
    assert store.forks_of(world.id) == [world.fork.path]  # which names the revert's file alone
    with pytest.raises(InUse, match=world.fork.path.name):
        store.delete(world.id)
    store.delete(world.id, detach_forks=True)
    assert says(world.fork.path) == SAID["fork"]
    assert says(world.grandchild.path) == SAID["grandchild"]
    with pytest.raises(NotFound):
        store.resolve(world.id)


def test_an_id_in_capitals_or_in_a_name_in_capitals_is_needed_as_well(tmp_path: Path) -> None:
    root = put(tmp_path, 0xAB, b.user("a"))
    upper = root.rename(root.with_name(root.name.replace("ab.jsonl", "AB.jsonl")))
    base = {"thread_id": thread_id(0xAB).upper(), "end_byte_offset": upper.stat().st_size}
    child = put(tmp_path, 2, b.user("b"), history_base=base)
    store = Store(tmp_path)
    assert store.forks_of(thread_id(0xAB)) == [child]
    with pytest.raises(InUse, match=child.name):
        store.delete(thread_id(0xAB))
    assert says(child) == ["a", "b"]


def test_one_file_is_not_deleted_while_a_revert_of_its_own_thread_needs_it(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    first, revert = (Path(shutil.copy(path, folder)) for path in (world.first, world.revert))
    with pytest.raises(InUse, match=PART):
        world.store.delete(first)
    world.store.delete(first, detach_forks=True)
    assert (first.exists(), says(revert)) == (False, BOTH)


def test_a_file_is_encrypted_only_when_nobody_needs_its_bytes_where_they_are(world: World, tmp_path: Path) -> None:
    make_key(tmp_path / "keys", "k")
    cipher = Cipher.from_file(tmp_path / "keys")
    store = Store(world.store.home, cipher=cipher)
    for path, users in ((world.revert, [world.fork.path]), (world.first, [world.early.path, world.revert])):
        with pytest.raises(InUse) as refused:
            store.rekey(path)
        assert all(user.name in str(refused.value) for user in users)
        assert world.said() == SAID
    for path in (world.revert, world.first):
        store.rekey(path, detach_forks=True)
        assert store.keys_of(path) == {"k"}
    read = {
        path: rollout.reconstruct(path, cipher=cipher) for path in (world.revert, world.fork.path, world.early.path)
    }
    assert [len(state.history) for state in read.values()] == [len(SAID[n]) for n in ("revert", "fork", "early")]


def test_a_file_is_mended_only_behind_what_others_need(world: World) -> None:
    data = world.revert.read_bytes()
    at = data.index(b"\n") + 1
    world.revert.write_bytes(data[:at] + b"%% garbage" + data[at + 10 :])
    plan = rollout.plan_repair(world.revert)
    assert plan.in_use == (str(world.fork.path),)
    with pytest.raises(InUse):
        rollout.apply_repair(plan)
    store = world.store
    store.detach(world.fork.id)
    assert rollout.plan_repair(world.revert).in_use == ()


@pytest.mark.parametrize(
    "upkeep",
    [
        lambda store, id: store.seal(id),
        lambda store, id: store.archive(id),
        lambda store, id: [store.archive(id), store.seal(id), store.unarchive(id), store.unseal(id)],
        lambda store, id: store.detach(id),
    ],
)
def test_who_needs_a_file_finds_it_packed_and_archived(world: World, upkeep: Callable[[Store, str], object]) -> None:
    for id in (world.id, world.fork.id, world.grandchild.id, world.early.id):
        upkeep(world.store, id)
        for name, texts in SAID.items():
            if name not in {"first", "revert"}:  # their paths have changed
                assert says(world.store.resolve(getattr(world, name).id)) == texts
        assert world.store.doctor().ok
    assert {row.id: row.damaged for row in world.store.list(forks=True, archived=None)} == dict.fromkeys(
        [world.id, world.fork.id, world.grandchild.id, world.early.id], 0
    )


def test_a_deletion_that_a_crash_cut_short_is_taken_back_if_a_fork_names_a_revert(world: World) -> None:
    store = world.store
    store.delete(world.early.id)
    for path in (world.first, world.revert):
        path.rename(path.with_name(f".{path.name}.deleted"))
    store.archive(world.fork.id)  # any upkeep tidies
    assert world.first.exists()
    assert says(store.resolve(world.fork.id)) == SAID["fork"]


# Forks that nobody could read


def test_a_fork_is_refused_where_its_readers_would_find_another_file(world: World) -> None:
    store = world.store
    copy = store.home / "archived_sessions" / world.revert.name
    copy.parent.mkdir()
    shutil.copy(world.revert, copy)
    before = files(store)
    with store.open(copy, "read") as log:
        with pytest.raises(UsageError, match="another file with its id counts") as refused:
            log.fork()
        assert str(world.revert) in str(refused.value)
        assert files(store) == before
        with log.fork(copy=True) as child:
            pass
    assert says(child.path) == BOTH
    world.revert.unlink()
    with store.open(copy, "read") as log, log.fork() as child:
        pass
    assert says(child.path) == BOTH


@pytest.mark.parametrize(("mode", "names_ordinal"), [("paginated", True), ("legacy", False), (None, False)])
def test_only_a_paginated_fork_tells_an_ordinal(tmp_path: Path, mode: str | None, names_ordinal: bool) -> None:
    """Codex loses the base of another one that does, and says nothing; without it, it says that it cannot read it."""
    keys = {} if mode is None else {"history_mode": mode}
    lines = [b.line("session_meta", {"id": thread_id(1), **keys}, ordinal=0), b.line("event_msg", {}, ordinal=1)]
    path = put_data(path_of(tmp_path, 1), b.log(*lines))
    with Store(tmp_path).open(path, "read") as log, log.fork() as child:
        assert base_of(child) == {
            "thread_id": thread_id(1),
            **({"end_ordinal_exclusive": 2} if names_ordinal else {}),
            "end_byte_offset": path.stat().st_size,
        }


# Many


class Listings(CountingFileSystem):
    """Counts what is listed, too."""

    listed_folders = 0

    def listed(self, path: AnyPath) -> list[Listed]:
        self.listed_folders += 1
        return super().listed(path)


def a_deep_home(home: Path, depth: int, days: int) -> list[Path]:
    """A chain of forks, each of all of the one before, over several days; and other sessions on each of them."""
    paths: list[Path] = []
    for n in range(depth):
        folder = home / f"sessions/2026/03/{10 + n % days:02}"
        base = {"thread_id": thread_id(n - 1), "end_byte_offset": paths[-1].stat().st_size} if paths else None
        path = folder / path_of(home, n).name
        put_data(path, b.log(meta_of(n, history_base=base), b.user(f"q{n}")))
        put_data(folder / path_of(home, 1000 + n).name, b.log(meta_of(1000 + n), b.user("other")))
        paths.append(path)
    return paths


@pytest.mark.parametrize("days", [1, 7])
def test_a_long_chain_is_looked_up_with_one_look_at_each_folder(tmp_path: Path, days: int) -> None:
    fs = Listings()
    newest = a_deep_home(tmp_path, 200, days)[-1]
    with Origin(None, newest, tmp_path, fs=fs).opened() as lineage:
        assert len(list(lineage)) == 200
    assert len(fs.opened) == 200
    assert fs.listed_folders <= days + 25


def test_the_base_of_a_session_in_a_large_home_is_found_without_looking_through_it(tmp_path: Path) -> None:
    for day in range(1, 29):
        put_data(tmp_path / f"sessions/2025/01/{day:02}" / path_of(tmp_path, 500 + day).name, b"")
    id = "019d2000-0000-7000-8000-000000000001"  # made on 2026-03-24
    for folder in ("sessions/2026/03/23", "sessions/2026/03/24", "sessions/2026/03/25"):
        fs = Listings()
        path = put_data(tmp_path / folder / f"rollout-2026-03-24T00-00-00-{id}.jsonl", b.log(meta_of(1), b.user("a")))
        base = {"thread_id": id, "end_byte_offset": path.stat().st_size}
        child = put(tmp_path, 2, b.user("b"), history_base=base)
        with Origin(None, child, tmp_path, fs=fs).opened() as lineage:
            assert len(list(lineage)) == 2
        assert fs.listed_folders < 20
        path.unlink()


def test_a_list_of_many_forks_looks_the_names_up_once(tmp_path: Path) -> None:
    a_deep_home(tmp_path, 60, 3)
    fs = Listings()
    store = a_store(tmp_path, fs=fs)
    assert len(store.list(forks=True, limit=200)) == 120
    assert fs.listed_folders < 40


def test_a_chain_of_forks_is_detached_and_deleted_reading_each_file_a_few_times(tmp_path: Path) -> None:
    paths = a_deep_home(tmp_path, 40, 3)
    fs = Listings()
    store = a_store(tmp_path, fs=fs)
    before = [says(path) for path in paths]
    store.delete(paths[0], detach_forks=True)
    assert [says(path) for path in paths[1:]] == before[1:]
    assert len(fs.opened) < 40 * 40
