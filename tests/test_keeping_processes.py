"""Two processes: one keeps threads while the other writes them or takes forks of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rollout import Store
from rollout.errors import InUse, Locked, RolloutError
from rollout.files.layout import scan
from tests.threads import a_fork, a_thread, files, says

ROOT = Path(__file__).parent.parent

WRITER = """
import sys, rollout
from tests.sessions import a_store, take_turn
with a_store(sys.argv[1]).open(sys.argv[2]) as log:
    print("open", flush=True)
    sys.stdin.readline()
    take_turn(log, "last")
"""
FORKER = """
import sys, rollout
from tests.sessions import a_store, take_turn
store = a_store(sys.argv[1], seed=7)
for n in range(int(sys.argv[3])):
    try:
        with store.open(sys.argv[2], "read") as log, log.fork() as child:
            take_turn(child, "f")
            print(child.id, flush=True)
    except rollout.NotFound:
        continue
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_thread_that_another_process_writes_is_neither_moved_nor_removed(store: Store) -> None:
    log = a_thread(store)
    child = a_fork(log)
    with start(WRITER, store.home, log.id) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        before = [name for name in files(store) if not name.endswith(".lock")]
        for operation in (store.archive, store.unarchive, store.delete):
            with pytest.raises(Locked, match=f"process {writer.pid}"):
                operation(log.id)
        with pytest.raises(Locked):
            store.delete(log.id, detach_forks=True)
        assert store.rename(log.id, "while it is written") == "while it is written"
        assert [name for name in files(store) if name in before] == before
        writer.communicate("\n", timeout=60)
    assert says(store.archive(log.id))[-2:] == ["last", "answer to last"]
    assert says(child.path)[-2:] == ["f", "answer to f"]


def test_forks_that_another_process_takes_while_their_source_is_moved_keep_it(store: Store) -> None:
    log = a_thread(store)
    with start(FORKER, store.home, log.id, 60) as forker:
        while forker.poll() is None:
            store.unarchive(store.archive(log.id))
        assert forker.stdout is not None
        made = forker.stdout.read().split()
    assert forker.returncode == 0
    assert made
    for child in made:
        assert says(store.resolve(child)) == ["q", "answer to q", "f", "answer to f"]


def test_forks_that_another_process_takes_while_their_source_is_deleted_keep_it_or_are_not_made(store: Store) -> None:
    log = a_thread(store)
    with start(FORKER, store.home, log.id, 150) as forker:
        assert forker.stdout is not None
        made = [forker.stdout.readline().strip()]
        while log.path.exists() and forker.poll() is None:
            try:
                store.delete(log.id)
            except InUse:
                for child in store.forks_of(log.id):
                    try:
                        store.delete(child)
                    except RolloutError:
                        continue
        made += forker.stdout.read().split()
    assert forker.returncode == 0
    assert all(made)
    for entry in scan(store.home):
        assert entry.thread == log.id or says(entry.path) == ["q", "answer to q", "f", "answer to f"]
    assert not [name for name in files(store) if name.endswith((".deleted", ".new"))]
