"""A store that is given a file system asks that one alone: nothing goes past the port to the real disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollout import Store
from rollout.agent_tools import list_sessions, read_session
from rollout.errors import InUse
from rollout.files.disk import RealFileSystem
from rollout.files.memory import MemoryFileSystem
from rollout.home.maintenance.repair import apply_repair, plan_repair
from tests.enciphering import a_cipher
from tests.sessions import a_log, a_store, take_turn

HOME = Path("/home")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> MemoryFileSystem:
    """One in memory with a home; the real one fails whatever it is asked."""

    def refuse(*asked: Any, **how: Any) -> Any:
        raise AssertionError(f"the real disk was asked for {asked[1:]}")

    for name in [name for name in vars(RealFileSystem) if not name.startswith("_")]:
        monkeypatch.setattr(RealFileSystem, name, refuse)
    found = MemoryFileSystem()
    found.mkdir(HOME)
    return found


def test_all_that_is_done_to_a_home_in_memory_stays_there(disk: MemoryFileSystem) -> None:
    store = a_store(HOME, fs=disk)
    with a_log(store) as log:
        take_turn(log, "q")
        with log.fork() as fork, log.fork(copy=True) as copy:
            take_turn(fork, "f")
            take_turn(copy, "c")
    assert {row.id for row in store.list(forks=True).rows} == {log.id, fork.id, copy.id}
    assert [hit.id for hit in store.search("q", kinds=["user"])] == [copy.id, log.id]
    assert store.shorten([log.id]) != {log.id: log.id[:8]}  # as there are others that begin so
    assert len(store.tree()) == 1
    assert store.stats().sessions == 3
    assert store.doctor().files == 3
    assert [row.id for row in list_sessions(current=log.id, home=store)] == [copy.id, fork.id]
    assert "answer to f" in read_session(fork.id, current=log.path, home=store).text
    assert len(store.du().rows) == 3
    store.archive(fork.id)
    store.rename(log.id, "named")
    assert store.resolve("named") == log.path
    store.unseal(store.seal(copy.id).path)
    apply_repair(plan_repair(store.detach(copy.id), home=HOME, fs=disk), fs=disk)
    store.delete(log.id, detach_forks=True)
    assert {row.id for row in store.list(forks=True, archived=None).rows} == {fork.id, copy.id}


def test_a_rollout_in_memory_is_not_encrypted_while_forks_there_refer_to_it(disk: MemoryFileSystem) -> None:
    plain, secret = a_store(HOME, fs=disk), Store(HOME, fs=disk, cipher=a_cipher())
    with a_log(plain) as log:
        take_turn(log, "q")
        log.fork().close()
    with pytest.raises(InUse):
        secret.rekey(log.id)
    plain.detach(-1)
    assert secret.rekey(log.id) == log.path
    assert "answer to q" in read_session(log.id, home=secret).text
    assert secret.decrypt(log.id) == log.path
