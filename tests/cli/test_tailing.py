"""tail, as the command line tells it: rows and JSON, once or as lines are written, at any width, of any contents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from rollout import Store
from tests.builders import assistant, call, log, rolled_back, session_meta, token_count, user
from tests.cli import command, environment, run, turn, write_session
from tests.cli.homes import run_on_terminal
from tests.cli.test_hostile import ALL, HOSTILE, hostile_log, is_harmless

KEYS = ["happened", "path", "line", "offset", "type", "kind", "status", "turn_id", "reason", "what", "record"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of two turns, the second taken back, and a damaged line."""
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    undone = turn("t2", user("二つ目の質問 🎉"), token_count(1234))
    write_session(
        tmp_path, 1, log(session_meta()), turn("t1", user("q1"), call(), assistant("a1")), undone, log(rolled_back(1))
    )
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes() + log(b"garbage"))
    return tmp_path


def file_of(home: Path) -> Path:
    (path,) = home.rglob("rollout-2*")
    return path


def test_the_newest_lines_are_rows_with_what_became_of_them(home: Path) -> None:
    ran = run("tail", "-1", "-n", "8")
    assert (ran.code, ran.err) == (0, "")
    assert [row.split(None, 2)[::2] for row in ran.out.splitlines()] == [
        ["7", "event        task_complete         t1"],
        ["8", "event        task_started          t2"],
        ["9", "rolled back  turn_context          gpt-5"],
        ["10", "rolled back  user                  二つ目の質問 🎉"],
        ["11", "event        token_count           1,234 in all"],
        ["12", "event        task_complete         t2"],
        ["13", "event        thread_rolled_back    1 turn taken back"],
        ["14", "not JSON: invalid character (byte 0)"],
    ]


def test_kinds_statuses_and_a_turn_choose_lines(home: Path) -> None:
    assert run("tail", "-1", "--all", "--kind", "function_call").out.split()[-1] == "f({})"
    assert [row.split()[0] for row in run("tail", "-1", "--all", "--status", "visible").out.splitlines()] == [
        "4",
        "5",
        "6",
    ]
    assert [row.split()[0] for row in run("tail", "-1", "--all", "--turn", "t1").out.splitlines()] == list("234567")
    assert len(run("tail", "-1").out.splitlines()) == 10


def test_when_none_of_the_newest_lines_is_chosen_it_says_how_to_see_older_ones(home: Path) -> None:
    ran = run("tail", "-1", "-n", "2", "--status", "visible")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "rollout: none of the newest 2 lines is one of these; --all looks at every line\n"
    assert run("tail", "-1", "-n", "2", "--status", "visible", "--json").err == ""
    assert run("tail", "-1", "-n", "0").err == ""


def test_json_is_an_object_a_line_with_the_record_as_it_was_written(home: Path) -> None:
    ran = run("tail", "-1", "--all", "--json")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [list(each) for each in told] == [KEYS] * 14
    lines = file_of(home).read_bytes().splitlines()
    assert [each["record"] for each in told] == [*(json.loads(line) for line in lines[:-1]), None]
    assert [each["line"] for each in told] == list(range(1, 15))
    assert told[-1]["reason"]


def test_the_kinds_and_turns_that_a_session_has_are_completed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ROLLOUT_COMPLETE", "complete_zsh")
    assert run("tail", "-1", "--kind", "func").out.split() == ["function_call"]
    assert run("tail", "-1", "--kind", "t").out.split()[1:] == [
        "task_started",
        "thread_rolled_back",
        "token_count",
        "turn_context",
    ]
    assert run("tail", "--kind", "func").out == run("tail", "nobody", "--kind", "func").out == ""
    assert [row.split()[0] for row in run("tail", "-1", "--turn", "").out.splitlines()] == ["t2", "t1"]


def test_what_is_wrong_with_the_command_line_is_one_line(home: Path) -> None:
    assert run("tail", "nobody").code == 3
    for words in (["-1", "-n", "-2"], ["-1", "--interval", "soon"], ["-1", "--status", "lost"], []):
        ran = run("tail", *words)
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_row_is_cut_to_the_terminal(home: Path, columns: int) -> None:
    with file_of(home).open("ab") as file:
        file.write(log(user("長い" * 300)))
    rows = run_on_terminal(columns, "tail", "-1").out.splitlines()
    assert len(rows) == 10
    assert max(sum(2 if ord(c) > 0x2E80 else 1 for c in row) for row in rows) <= columns


def test_every_forbidden_character_is_escaped(home: Path) -> None:
    file_of(home).write_bytes(hostile_log(ALL))
    for ran in (run("tail", "-1", "--all"), run("tail", "-1", "--json"), run_on_terminal(120, "tail", "-1", "--all")):
        assert ran.code == 0
        assert is_harmless(ran)


@settings(max_examples=4)
@given(text=HOSTILE)
def test_no_text_makes_a_followed_session_act_on_a_terminal(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    write_session(home, 1, hostile_log(text))
    ran = run("tail", "-1", "--all", "--json", "--home", home)
    assert is_harmless(ran)
    assert [json.loads(line) for line in ran.out.splitlines()]
    assert is_harmless(run_on_terminal(100, "tail", "-1", "--all", "--home", home))


@pytest.fixture
def following(home: Path) -> Iterator[subprocess.Popen[str]]:
    """The program, following the session from its end on."""
    words = command("tail", "-f", "-1", "-n", "1", "--json", "--interval", "0s", "--home", home)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> tuple[str, int | None]:
    """The next that is told: what happened, and the number of the line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line or process.stderr is None, process.stderr.read()
    found = json.loads(line)
    return found["happened"], found["line"]


def test_what_is_written_appears_and_a_deleted_file_ends_the_program(
    home: Path, following: subprocess.Popen[str]
) -> None:
    path = file_of(home)
    assert told(following) == ("line", 14)
    with path.open("ab") as file:
        file.write(log(user("q3"), rolled_back(1)))
    assert [told(following) for _ in range(2)] == [("line", 15), ("line", 16)]
    with path.open("ab") as file:
        file.write(log(user("q4")))
    assert told(following) == ("line", 17)
    os.truncate(path, path.stat().st_size - 10)
    assert told(following) == ("cut", None)
    Store(home).seal(path)
    assert told(following) == ("sealed", None)
    path.with_name(f"{path.name}.zst").unlink()
    assert told(following) == ("deleted", None)
    assert following.wait(timeout=30) == 0


def test_an_interrupt_ends_it_at_once(following: subprocess.Popen[str]) -> None:
    assert told(following) == ("line", 14)
    following.send_signal(signal.SIGINT)
    assert following.wait(timeout=30) == 130
    assert following.stderr is not None
    assert len(following.stderr.read().splitlines()) == 1
