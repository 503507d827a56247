"""Several processes at one index: they agree and harm nothing, and one that is killed leaves a right one."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.files import layout as homes
from rollout.home.index.database import NAME
from rollout.home.index.index import Index
from rollout.home.index.scan import scan
from tests import builders as b
from tests.index_home import said

ROOT = Path(__file__).parent.parent
FILES = 60
LATER_S = 10

REFRESH = f"""
import sys, time
from pathlib import Path
from rollout.home.index.index import with_index
from rollout.files.disk import REAL
def work(index):
    for _ in range(3):
        status = index.refresh(rebuild=sys.argv[2] == "rebuild")
    return status
print("ready", flush=True)
sys.stdin.readline()
status = with_index(Path(sys.argv[1]), REAL, work, clock=lambda: time.time() + {LATER_S})
print(status.entries, status.stale, status.path is not None, flush=True)
"""
STALL = """
import sys, time
from pathlib import Path
from rollout.home.index.index import Index
from rollout.files import layout as homes
index = Index(Path(sys.argv[1]))
for n, _ in enumerate(index.entries(homes.scan(index.home))):
    if n == 30:
        index.database.connection.execute("BEGIN IMMEDIATE")
        index.database.connection.execute("DELETE FROM files")
        print("in the middle", flush=True)
        time.sleep(600)
"""


def start(code: str, home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(home), *arguments]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdout.readline()
    return child


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions" / "2026" / "03" / "20"
    folder.mkdir(parents=True)
    for n in range(FILES):
        thread = f"019d0000-0000-7000-8000-{n:012d}"
        lines = [b.session_meta(thread), *(b.user(f"q{n}") for _ in range(n))]
        (folder / f"rollout-2026-03-20T10-00-{n % 60:02d}-{thread}.jsonl").write_bytes(b.log(*lines))
    return tmp_path


def check(home: Path) -> None:
    """The database is whole, and says what the files say."""
    with contextlib.closing(sqlite3.connect(home / NAME)) as db, db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Index(home) as index:
        found = {file.path: said(entry) for file, entry in index.entries(homes.scan(home))}
    assert len(found) == FILES
    assert all(entry == said(scan(path, home).entry) for path, entry in found.items())


@pytest.mark.parametrize(
    "modes", [["keep"] * 3, ["keep", "rebuild", "rebuild"]], ids=["at once", "thrown away meanwhile"]
)
def test_processes_that_index_at_once_agree_and_harm_nothing(home: Path, modes: list[str]) -> None:
    children = [start(REFRESH, home, mode) for mode in modes]
    said = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        said.append(child.communicate(timeout=60)[0].split())
        assert child.returncode == 0
    if "rebuild" not in modes:
        assert said == [[str(FILES), "0", "True"]] * len(modes)
    check(home)


def test_a_process_that_is_killed_in_a_transaction_leaves_a_right_index(home: Path) -> None:
    child = start(STALL, home)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    assert (home / f"{NAME}-journal").exists()
    check(home)
