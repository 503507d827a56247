"""One log and several processes: one writes at a time, the others are told who; nothing is lost, doubled or mixed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import rollout
from rollout.errors import Conflict, Locked
from tests import children
from tests.sessions import a_log, a_store, kinds, lines_of, take_turn, texts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks that die with a process are tested on POSIX systems")

TURNS = 12
A_TURN = ["task_started", "turn_context", "response_item", "user_message"]
A_TURN += ["response_item"] * 3 + ["agent_message", "response_item", "task_complete"]


def finish(*processes: subprocess.Popen[bytes]) -> list[list[str]]:
    """All that the processes said until they ended by themselves."""
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads(line) for lines in said for line in lines.splitlines()]


@pytest.mark.parametrize("writers", [2, 8])
def test_processes_that_take_turns_lose_and_double_and_mix_nothing(writers: int, tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log:
        path = log.path
    said = finish(*[children.start("take_turns_with_others", path, n, TURNS) for n in range(1, writers + 1)])
    assert sorted(words[1] for words in said if words[0] == "done") == [str(n) for n in range(1, writers + 1)]
    for words in said:
        if words[0] == "locked":
            assert "another writer holds it" in words[2]

    assert kinds(path) == ["session_meta", *A_TURN * (writers * TURNS)]
    found = texts(rollout.reconstruct(path))
    asked = [tuple(map(int, re.findall(r"\d+", text))) for text in found if "asks" in text]
    assert found == [
        text
        for own, n in asked
        for text in (f"{own} asks {n}", *(f"{own} says {n}.{k}" for k in range(3)), f"{own} answers {n}")
    ]
    for own in range(1, writers + 1):
        assert [n for who, n in asked if who == own] == [*range(TURNS)]
    turns = rollout.turns(path)
    assert Counter(turn.status for turn in turns) == {"completed": writers * TURNS}
    assert len({turn.id for turn in turns}) == len(turns)
    assert rollout.verify(path).damaged_lines == 0
    assert [name.name for name in path.parent.iterdir()] == [path.name]


def test_a_second_process_is_told_at_once_who_writes_and_reads_all_the_same(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as log:
        take_turn(log, "q")
    process = children.start("hold", log.path)
    assert process.stdout is not None
    word, pid, end = json.loads(process.stdout.readline())
    assert (word, pid) == ("open", process.pid)
    with pytest.raises(Locked, match=rf"holds it \(process {pid} on {re.escape(socket.gethostname())} since 2026-"):
        store.open(log.path)
    with pytest.raises(Locked):
        store.delete(log.path)
    with store.open(log.path, mode="read") as reader:
        assert texts(reader.resume_state()) == ["q", "answer to q"]
        assert reader.end == end
    finish(process)
    store.open(log.path).close()


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as log:
        take_turn(log, "q")
    process = children.start("hold", log.path)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    with store.open(log.path) as again:
        take_turn(again, "r")
    assert [line["payload"].get("message") for line in lines_of(log.path) if "user_message" in str(line)] == ["q", "r"]


def test_who_wrote_last_is_noticed_by_the_next_that_expects_another_end(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as log:
        take_turn(log, "q")
        seen = log.end
    finish(children.start("take_turns_with_others", log.path, 1, 1))
    with store.open(log.path) as again:
        before = again.path.read_bytes()
        with pytest.raises(Conflict):
            again.record("x", 1, expected_end=seen)
        assert again.path.read_bytes() == before
        again.record("x", 1, expected_end=len(before))
