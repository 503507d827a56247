"""du, vacuum and index: what takes the room, what can be given back, how far the index is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollout import Store
from tests.builders import assistant, line, log, session_meta, user
from tests.cli import file_of, run, thread_id, turn, write_session
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


@pytest.fixture
def doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a session that holds an event twice."""
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    note = line("event_msg", {"type": "token_count", "info": None, "filler": "x" * 500})
    write_session(tmp_path, 1, log(session_meta(thread_id(1))), turn("t", user("q"), note, note, assistant("a")))
    return tmp_path


def test_vacuum_changes_nothing_unless_it_is_told_to(doubled: Path) -> None:
    path = file_of(doubled, 1)
    before, history = path.read_bytes(), run("history", thread_id(1), "--json").json
    ran = run("vacuum")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].endswith("nothing was changed; --apply does it")
    planned = run("vacuum", "--json").json
    assert list(planned) == ["applied", "saved_bytes", "steps"]
    assert (planned["applied"], [list(step) for step in planned["steps"]]) == (False, [STEP])
    assert path.read_bytes() == before
    ran = run("vacuum", "--apply")
    assert ran.out.startswith(f"done     {path}: ")
    assert path.stat().st_size == len(before) - planned["saved_bytes"]
    assert run("history", thread_id(1), "--json").json == history
    assert run("vacuum").out == "ok       nothing to take out\n"
    assert run("vacuum", thread_id(1), "--apply", "--json").json == {"applied": True, "saved_bytes": 0, "steps": []}


def test_vacuum_says_of_what_it_leaves_why(doubled: Path) -> None:
    with Store(doubled).open(thread_id(1)):
        ran = run("vacuum", "--apply")
    assert ran.code == 0
    assert ran.out.startswith("left     ")
    assert "writ" in ran.out.splitlines()[0]


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
