"""The writer between real processes: one holder, death, fork, a limit on the size of files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.errors import Locked
from rollout.files.disk import REAL
from rollout.files.writer import Writer, holder
from tests.storage import ME, holds_record, line, read

REPOSITORY = Path(__file__).parents[2]


def create(path: Path) -> None:
    Writer.create(REAL, path, [line(0)], held_by=ME).close()


def reopen(path: Path) -> Writer:
    return Writer.open(REAL, path, held_by=ME, holds_record=holds_record)


OPEN = """
import os, sys, time
from rollout.files.disk import REAL
from rollout.files.port import Durability
from rollout.files.writer import Writer, holder
from tests.storage import holds_record, line
log = Writer.open(REAL, sys.argv[1], held_by=holder("noon"), holds_record=holds_record, durability=Durability.RECORD)
print("open", os.getpid(), flush=True)
"""


def start(program: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("open")
    return process


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


def test_a_second_writer_fails_at_once_with_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    create(path)
    process = start(OPEN + "sys.stdin.read()", path)
    with pytest.raises(Locked, match=rf"holds it \(process {process.pid} on .* since noon\)"):
        reopen(path)
    assert REAL.open_read(path).read_at(0, 100) == line(0)
    finish(process)
    reopen(path).close()
    assert [listed.name for listed in REAL.listed(tmp_path)] == ["a"]


def test_the_same_process_has_one_writer_too(tmp_path: Path) -> None:
    log = Writer.create(REAL, tmp_path / "a", [line(0)], held_by=holder("noon"))
    with pytest.raises(Locked, match=f"process {os.getpid()}"):
        reopen(tmp_path / "a")
    log.close()


def test_a_killed_process_leaves_its_lines_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a"
    create(path)
    process = start(
        OPEN
        + "n = 1\nwhile True:\n    log.append([line(n)])\n    log.acknowledge()\n"
        + "    print(n, flush=True)\n    n += 1\n",
        path,
    )
    assert process.stdout is not None
    last = [int(process.stdout.readline()) for _ in range(20)][-1]
    process.send_signal(signal.SIGKILL)
    finish(process)
    log = reopen(path)
    shown = read(path.read_bytes())
    assert shown == [*range(len(shown))]
    assert shown[-1] >= last
    log.close()


def test_a_forked_child_neither_writes_nor_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a"
    create(path)
    program = """
child = os.fork()
if not child:
    from rollout.errors import WriteError
    try:
        log.append([line(1)])
    except WriteError as error:
        os.write(1, b"refused\\n")
    time.sleep(60)
    os._exit(0)
os.write(1, b"child %d\\n" % child)  # print makes several writes of it
os._exit(0)
"""
    process = start(OPEN + program, path)
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(2)]
    try:
        assert ["refused"] in said
        process.wait(30)
        reopen(path).close()
        assert path.read_bytes() == line(0)
    finally:
        os.kill(next(int(words[1]) for words in said if words[0] == "child"), signal.SIGKILL)
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.close()


def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    create(path)
    program = """
import resource
from rollout.errors import Poisoned, WriteError
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
n = 1
try:
    while True:
        log.append([line(n)])
        log.acknowledge()
        n += 1
except WriteError as error:
    print(n - 1, error.durable_end, type(error) is WriteError, flush=True)
try:
    log.append([line(n)])
except Poisoned:
    print("poisoned", flush=True)
"""
    process = start(OPEN + program, path)
    said, _ = process.communicate(timeout=30)
    first, second = said.splitlines()
    last, durable_end, plain = first.split()
    assert (plain, second) == ("True", "poisoned")
    assert path.stat().st_size == 4000
    log = reopen(path)
    assert log.end == int(durable_end)
    assert read(path.read_bytes()) == [*range(int(last) + 1)]
    log.append([line(int(last) + 1)])
    log.close()
