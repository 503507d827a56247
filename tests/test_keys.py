"""The file of keys: no key that was acknowledged is lost, whoever else makes one, dies, or interrupts."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Cipher, NoKey, NotFound, RolloutError, UsageError
from rollout.errors import Conflict, Locked, WriteError
from rollout.files import disk as files
from rollout.files.disk import REAL
from rollout.files.encrypted import keys as cipher
from rollout.files.staging import while_held
from rollout.testing.disk import Effect, Fault, SimulatedDisk
from tests import making
from tests.crashing import ALL_MUTANTS, Scenario, each, each_effect, each_sync

MANY = "ROLLOUT_CRASH" in os.environ
PATH = "/h/keys.json"
posix = pytest.mark.skipif(os.name != "posix", reason="fork, links and permissions are those of POSIX")


def ids_in(path: Path) -> set[str]:
    return set(Cipher.from_file(path).ids)


def left(path: Path) -> list[str]:
    """What lies beside the file, but for its lock."""
    return sorted(at.name for at in path.parent.iterdir() if at.name not in {path.name, f".{path.name}.lock"})


@posix
@pytest.mark.parametrize("kills", [False, True])
def test_eight_processes_lose_no_key_that_was_acknowledged(tmp_path: Path, kills: bool) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "first")
    count = 100 if MANY else 12
    said: list[list[str]] = []
    read: list[int] = []
    with making.start("make_keys", path, 8, count) as process:
        assert process.stdout is not None
        victims: list[int] = []
        for line in process.stdout:
            word, what = json.loads(line)
            said.append([word, what])
            if word == "process":
                victims.append(what)
            elif kills and len(victims) > 4 and len(said) % count == 0:
                os.kill(victims.pop(), signal.SIGKILL)
            read.append(len(ids_in(path)))
    assert [what for word, what in said if word == "failed"] == []
    made = {what for word, what in said if word == "made"}
    assert made <= ids_in(path)
    assert kills or ids_in(path) == made | {"first"}
    assert len(made) == 8 * count or kills
    assert read == sorted(read)
    rollout.make_key(path, "last")
    assert left(path) == []
    assert Cipher.from_file(path).current == "last"


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    threads = [threading.Thread(target=rollout.make_key, args=(path, f"t{n}")) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ids_in(path) == {f"t{n}" for n in range(6)}


# crashes


def text_of(*ids: str) -> bytes:
    keys = {id: base64.b64encode(bytes(32)).decode() for id in ids}
    return json.dumps({"current": ids[-1], "keys": keys}).encode()


def make_another(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    rollout.make_key(PATH, "new", fs=disk)
    ack("new")


def check(disk: SimulatedDisk, acked: list[Any]) -> None:
    """The file is whole, and has all keys that were acknowledged; the next one is made, and removes what is left over.

    The keys that were in it before are acknowledged.
    """
    before = disk.tree().get(PATH)
    found = set() if before is None else set(json.loads(before)["keys"])
    assert {"old", *acked} <= found or (before is None and not acked)
    rollout.make_key(PATH, "after", fs=disk)
    tree = disk.tree()
    assert {path for path in tree if path.startswith("/h/") and not path.endswith(".lock")} == {PATH}
    assert set(json.loads(tree[PATH] or b"")["keys"]) == found | {"after"}


def make_old_and_another(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
    for id in ("old", "new"):
        rollout.make_key(PATH, id, fs=disk)
        ack(id)


ROTATED = Scenario("rotated", make_another, check, {"/h": None, PATH: text_of("old")}, limit=500)
FIRST = Scenario("first", make_old_and_another, check, {"/h": None}, limit=500)


@each([ROTATED, FIRST])
def test_a_crash_leaves_the_old_file_or_the_new_one(scenario: Scenario) -> None:
    assert scenario.explore().states > 100


@each_sync(ROTATED, FIRST, tried=lambda fault: fault.nth == 0 or ALL_MUTANTS)
def test_each_sync_of_it_is_needed(scenario: Scenario, fault: Fault) -> None:
    scenario.check_sync(fault)


@each([ROTATED, FIRST])
@each_effect
def test_after_a_fault_nothing_is_lost_and_the_next_key_is_made(scenario: Scenario, effect: Effect) -> None:
    failed = 0
    for disk in scenario.failing(effect):
        acked: list[Any] = []
        try:
            scenario.work(disk, acked.append)
        except WriteError:
            failed += 1
        scenario.check(SimulatedDisk(disk.tree()), acked)
    assert failed


def test_a_crash_of_a_rotation_never_takes_the_old_keys() -> None:
    def check_old(disk: SimulatedDisk, acked: list[Any]) -> None:
        assert "old" in json.loads(disk.tree()[PATH] or b"")["keys"]

    Scenario("rotated", make_another, check_old, {"/h": None, PATH: text_of("old")}).explore()


@posix
def test_an_interruption_anywhere_leaves_no_lock_and_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_sync", lambda fd: None)
    monkeypatch.setattr(cipher, "KEY_WAIT_S", 0.2)
    path = tmp_path / "keys.json"
    rollout.make_key(path, "first")
    places = 0
    for _ in making.interrupted(lambda: rollout.make_key(path, "interrupted"), every=1 if MANY else 3):
        places += 1
        assert ids_in(path) in ({"first"}, {"first", "interrupted"})
        path.unlink()
        rollout.make_key(path, "first")
        assert left(path) == []
    assert places > 30


# what lies there


def test_a_key_that_is_there_or_has_no_id_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    before = path.read_bytes()
    for id, why in (("one", "there is a key 'one' already"), ("a b", "no key id"), ("", "no key id")):
        with pytest.raises(UsageError, match=why):
            rollout.make_key(path, id)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 40,
        b"{",
        b"no keys",
        text_of("a")[:-9],
        b'{"current":"a","keys":{"a":"QQ=="}}',
        text_of("a").replace(b'"current": "a"', b'"current": "b"'),
        text_of("a").replace(b'"keys"', b'"others"'),
        text_of("a", "b").replace(b'"b":', b'"a":'),
        b"[" * 100_000,
        text_of("a") + b" " * (1 << 20) + b"x",
    ],
    ids=range(11),
)
def test_what_is_no_file_of_keys_is_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"keys\.json: is no file of keys"):
        rollout.make_key(path, "new")
    assert path.read_bytes() == text
    assert left(path) == []


def test_a_file_that_is_full_takes_no_key_that_nobody_could_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cipher, "_FILE_BYTES", 300)
    path = tmp_path / "keys.json"
    for n in range(4):
        rollout.make_key(path, f"key-{n}")
    with pytest.raises(UsageError, match="is full: 4 keys are in it"):
        rollout.make_key(path, "key-4")
    assert ids_in(path) == {f"key-{n}" for n in range(4)}


@posix
def test_keys_that_others_may_read_are_refused_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(NoKey, match="chmod 600"):
        rollout.make_key(path, "two")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), left(path)) == (before, 0o644, [])


@posix
def test_of_a_link_the_target_is_replaced_and_all_who_come_by_it_share_its_lock(tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    for folder in (real, other):
        folder.mkdir()
    link = other / "keys.json"
    link.symlink_to("../real/k.json")
    rollout.make_key(link, "one")  # it leads to nothing yet
    rollout.make_key(real / "k.json", "two")
    rollout.make_key(link, "three")
    assert link.is_symlink()
    assert list(other.iterdir()) == [link]
    assert ids_in(real / "k.json") == {"one", "two", "three"}
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises((WriteError, NoKey), match="loop"):
        rollout.make_key(loop, "one")


@posix
@pytest.mark.parametrize("what", ["folder", "lock", "pipe"])
def test_what_is_no_file_at_all_is_refused_by_its_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / "keys.json"
    if what == "folder":
        path.mkdir()
    elif what == "lock":
        (tmp_path / ".keys.json.lock").mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(RolloutError, match=str(tmp_path)):
        rollout.make_key(path, "one")
    with pytest.raises(NotFound, match="no such folder"):
        rollout.make_key(tmp_path / "nowhere" / "keys.json", "one")


def test_in_a_folder_that_may_not_be_written_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    for call in ("open_append", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(files.RealFileSystem, call, refuse)
            with pytest.raises(WriteError, match="may not be written; check the permissions of its folder"):
                rollout.make_key(path, "two")
        assert (path.read_bytes(), left(path)) == (before, [])


def test_a_lock_that_is_held_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cipher, "KEY_WAIT_S", 0.05)
    path = tmp_path / "keys.json"

    def make(_: object) -> None:
        with pytest.raises(Locked, match="another writer"):
            rollout.make_key(path, "one")

    while_held(REAL, tmp_path / ".keys.json.lock", 0, make)
    rollout.make_key(path, "one")


def test_what_another_program_writes_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    edited = text_of("mine")
    open_append = files.RealFileSystem.open_append

    def edit_first(self: files.RealFileSystem, name: Any, **keys: Any) -> Any:
        if str(name).endswith(".new"):
            path.write_bytes(edited)
        return open_append(self, name, **keys)

    monkeypatch.setattr(files.RealFileSystem, "open_append", edit_first)
    with pytest.raises(Conflict, match="has changed"):
        rollout.make_key(path, "two")
    assert (path.read_bytes(), left(path)) == (edited, [])


@posix
def test_keys_of_another_user_stay_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    rollout.make_key(path, "one")
    status = files.RealFileSystem.status

    def of_another(self: files.RealFileSystem, name: Any) -> Any:
        found = status(self, name)
        return found._replace(owner=found.owner + 1) if os.fspath(name) == str(path) else found

    monkeypatch.setattr(files.RealFileSystem, "status", of_another)
    with pytest.raises(WriteError, match="belongs to another user"):
        rollout.make_key(path, "two")
    assert (ids_in(path), left(path)) == ({"one"}, [])
