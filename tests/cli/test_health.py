"""doctor, as the command line tells it: in rows, as JSON, at any width, of any contents."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.builders import log, session_meta, user
from tests.cli import run, thread_id, turn, write_session
from tests.cli.homes import DAMAGED, EMPTY, mixed_home, run_on_terminal
from tests.cli.test_hostile import ALL, is_harmless
from tests.cli.test_hostile_home import hostile_home

KEYS = ["home", "ok", "sessions", "files", "bytes", "indexed_files", "findings"]
FINDING = ["kind", "problem", "path", "id", "what", "remedy", "command", "resumes", "bytes"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    return mixed_home(tmp_path)


def settle(home: Path) -> None:
    for path in home.rglob("rollout-2*"):
        os.utime(path, (2**30, 2**30))


def test_each_problem_is_told_with_the_command_that_helps(home: Path) -> None:
    settle(home)
    ran = run("doctor")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.splitlines() == [
        f"problem   {thread_id(EMPTY)}: empty",
        f"          rollout rm {thread_id(EMPTY)}  it can go",
        f"problem   {thread_id(DAMAGED)}: damaged line 2",
        f"          rollout repair --apply {thread_id(DAMAGED)}  moves the damaged bytes to a file beside",
        f"not well  5 sessions in 5 files, {home_size(home)}: 2 problems, 0 hints",
        "index     held 0 of 5 files",
    ]


def home_size(home: Path) -> str:
    return f"{sum(path.stat().st_size for path in home.rglob('rollout-2*')) / 1024:.1f} KiB"


def test_when_the_commands_have_been_given_nothing_is_wrong(home: Path) -> None:
    for row in run("doctor").out.splitlines():
        if row.startswith("          rollout "):
            words = shlex.split(row.split("  ")[5])
            assert run(*words[1:], *(["--yes"] if words[1] == "rm" else [])).code == 0
    ran = run("doctor")
    assert ran.code == 0
    assert ran.out.splitlines()[-2].startswith("ok        4 sessions in 4 files, ")
    assert [row.split(None, 1)[0] for row in ran.out.splitlines()[:1]] == ["hint"]  # what the repair kept beside


def test_a_home_with_nothing_in_it_is_well(tmp_path: Path) -> None:
    ran = run("doctor", "--home", tmp_path)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "ok        0 sessions in 0 files, 0 bytes: nothing is wrong"


def test_scripts_get_the_same_with_stable_keys(home: Path) -> None:
    settle(home)
    ran = run("doctor", "--json")
    assert (ran.code, list(ran.json)) == (1, KEYS)
    document = ran.json
    assert (document["home"], document["ok"], document["sessions"]) == (str(home), False, 5)
    assert [list(finding) for finding in document["findings"]] == [FINDING] * 2
    empty, damaged = document["findings"]
    assert (empty["kind"], empty["problem"], empty["resumes"]) == ("empty", True, False)
    assert damaged["command"] == ["rollout", "repair", "--apply", thread_id(DAMAGED)]
    assert run("doctor", "--json").json["indexed_files"] == 5


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(home: Path, columns: int) -> None:
    settle(home)
    rows = run_on_terminal(columns, "doctor").out.splitlines()
    assert max(map(len, rows)) <= columns
    words = run("doctor").out.split()[:-6]  # the index was told before
    assert "".join("".join(rows).split()).startswith("".join(words))


def test_a_path_with_spaces_is_quoted_in_its_command(tmp_path: Path) -> None:
    home = tmp_path / "my sessions; and $more"
    thread = write_session(home, 1, log(session_meta(thread_id(1)), b"garbage"), turn("t", user("q")))
    row = run("doctor", "--home", home).out.splitlines()[1].strip()
    assert shlex.split(row.partition("  moves")[0]) == [
        *("rollout", "repair", "--apply", thread, "--home"),
        str(home),
    ]


def test_nothing_in_a_home_acts_on_the_terminal(tmp_path: Path) -> None:
    hostile_home(tmp_path, ALL)
    for ran in (
        run("doctor", "--home", tmp_path),
        run("doctor", "--home", tmp_path, "--json"),
        run_on_terminal(100, "doctor", "--home", tmp_path),
    ):
        assert ran.err == ""
        assert is_harmless(ran)
        assert "x1b[2J" in ran.out or "u001b[2J" in ran.out
