"""du and index: what takes the room, and how far the index is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli import file_of, run, thread_id
from tests.cli.homes import DAMAGED, EMPTY, PLAIN, mixed_home, run_on_terminal

USAGE = ["path", "text_bytes", "disk_bytes", "sealed", "causes", "would_free_bytes", "files", "trouble"]
STEP = ["path", "action", "before_bytes", "after_bytes", "what", "done", "reason"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    return mixed_home(tmp_path)


def test_du_tells_bytes_by_cause_in_sum_and_of_each(home: Path) -> None:
    size = sum(path.stat().st_size for path in home.rglob("rollout-2*"))
    ran = run("du")
    assert (ran.code, ran.err) == (0, "")
    rows = ran.out.splitlines()
    assert rows[0].endswith("5 files")
    assert [row for row in rows if row.endswith("items that were rolled back")]
    assert rows[-1].endswith("given back by sealing, about")
    each = run("du", "--each").out
    assert all(str(path) in each for path in home.rglob("rollout-2*"))
    narrow = run_on_terminal(60, "du", "--each").out
    assert max(map(len, narrow.splitlines())) <= 60
    assert all(path.name[-40:] in narrow for path in home.rglob("rollout-2*"))
    document = run("du", "--json").json
    assert list(document) == ["total", "files"]
    assert [list(usage) for usage in (document["total"], *document["files"])] == [USAGE] * 6
    assert document["total"]["disk_bytes"] == size
    assert sum(document["total"]["causes"].values()) == size


def test_du_of_some_sessions_counts_those_alone(home: Path) -> None:
    document = run("du", thread_id(PLAIN), thread_id(DAMAGED), "--json").json
    assert {usage["path"] for usage in document["files"]} == {str(file_of(home, n)) for n in (PLAIN, DAMAGED)}
    assert run("du", thread_id(EMPTY)).out.split() == ["0", "bytes", "1", "file"]
    assert run("du", "no such session").code == 3


def test_du_of_nothing_is_nothing(tmp_path: Path) -> None:
    ran = run("du", "--home", tmp_path)
    assert (ran.code, ran.out.split()) == (0, ["0", "bytes", "0", "files"])


def test_index_tells_how_far_it_is_and_is_made_anew_when_asked(home: Path) -> None:
    for path in home.rglob("rollout-2*"):
        os.utime(path, (2**30, 2**30))  # one that was only just written can change again unseen
    keys = ["path", "entries", "files", "stale", "stale_bytes", "bytes"]
    status = run("index", "--status", "--json").json
    assert list(status) == keys
    assert (status["entries"], status["files"], status["stale"]) == (0, 5, 5)
    assert "5 files" in run("index", "--status").out
    for more in ([], ["--rebuild"]):
        status = run("index", "--json", *more).json
        assert (status["entries"], status["files"], status["stale"]) == (5, 5, 0)
    rows = [row.split(None, 1) for row in run("index").out.splitlines()]
    assert [row[0] for row in rows] == ["index", "holds", "stale"]
    assert rows[0][1] == status["path"]
    assert rows[2][1] == "none"
