"""No byte of a home acts on the terminal: no name, no message, no label, no file name, in no view of many sessions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.cli import NAME, Ran, run, thread_id, write, write_session
from tests.cli.homes import run_on_terminal
from tests.cli.test_hostile import ALL, FORBIDDEN, HOSTILE, hostile_log

COMMANDS = [
    ["ls"],
    ["ls", "--forks", "--subagents", "--all", "--with-archived"],
    ["tree"],
    ["search", "needle"],
    ["sessions"],
    ["read", "-1"],
    ["du", "--each"],
    ["index"],
    ["seal", "--older-than", "1s", "--dry-run"],
    ["name", "-1"],
]


def hostile_home(home: Path, text: str) -> Path:
    """A session of hostile text, a name of it, and a file of a hostile name."""
    shutil.rmtree(home, ignore_errors=True)
    write_session(home, 1, hostile_log(f"needle {text} needle"))
    names = {"id": thread_id(1), "thread_name": f"needle {text}", "updated_at": text}
    (home / "session_index.jsonl").write_text(json.dumps(names) + "\n")
    write(home / "sessions" / "2026" / "03" / "21", b"", name=f"rollout-\x1b[2J\u202e{NAME}")
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "home"


def is_harmless(ran: Ran) -> bool:
    return FORBIDDEN.isdisjoint((ran.out + ran.err).replace("\u200d", ""))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_forbidden_character_of_a_home_is_escaped(command: list[str], home: Path) -> None:
    hostile_home(home, ALL)
    as_text, as_json = run(*command, "--home", home), run(*command, "--json", "--home", home)
    on_terminal = run_on_terminal(120, *command, "--home", home)
    for ran in (as_text, as_json, on_terminal):
        assert ran.code == (2 if command[0] == "name" else 0), ran.err
        assert is_harmless(ran)
    if command[0] != "name":
        json.loads(as_json.out)
    if command in (["ls"], ["tree"], ["search", "needle"], ["sessions"]):
        assert "\\x1b" in as_text.out


@settings(max_examples=4)
@given(text=HOSTILE)
def test_no_text_makes_a_view_of_many_sessions_act_on_a_terminal(home: Path, text: str) -> None:
    hostile_home(home, text)
    for command in (["ls"], ["tree"], ["search", "needle"], ["read", "-1"]):
        assert is_harmless(run_on_terminal(100, *command, "--home", home))
        ran = run(*command, "--json", "--home", home)
        assert is_harmless(ran)
        json.loads(ran.out)


def test_a_name_cannot_look_like_another_line_of_the_list(home: Path) -> None:
    hostile_home(home, f"\n{thread_id(2)}  2026-03-20  1  1  forged")
    for command in COMMANDS:
        ran = run(*command, "--home", home)
        assert (
            not [row for row in (ran.out + ran.err).splitlines() if row.startswith(thread_id(2))]
            or command[0] == "read"
        )


def test_a_note_of_a_hostile_file_name_is_one_line(home: Path) -> None:
    hostile_home(home, "x")
    ran = run("ls", "--home", home)
    assert "rollout-\\x1b[2J\\u202e" in ran.err
    assert len(ran.err.splitlines()) == ran.err.count("rollout: ")


def test_markup_in_a_name_is_shown_and_not_obeyed(home: Path) -> None:
    hostile_home(home, "[bold]x[/bold] [link=http://e]y[/link] :smile:")
    for command in (["ls"], ["tree"], ["search", "needle"]):
        assert "[bold]x[/bold] [link=http://e]y[/link] :smile:" in run_on_terminal(200, *command, "--home", home).out
